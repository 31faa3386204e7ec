"""The programs that `shell_only` knows, and what their arguments may be.

A program that is not here does not run, nor does one with an option that could start another
program. Those that run files of the workspace (tests, builds, scripts) do run: what these files do
cannot be seen.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from otelhooks.policy.shell_syntax import GLOB
from otelhooks.policy.shell_variables import UNKNOWN

if TYPE_CHECKING:
    from otelhooks.policy.shell_review import Argument, Command, Reviewer

__all__ = ["HARMLESS_VARIABLE", "SECRET_VARIABLE", "STEERING_VARIABLE", "is_secret", "judge"]


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# -- names that matter ------------------------------------------------------------------------

_SECRET = re.compile(
    r"\.env(\.(?!example$|sample$|template$|dist$).*)?|id_(rsa|dsa|ecdsa|ed25519)(?!.*\.pub$).*"
    r"|.*\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk)|\.(netrc|pgpass|git-credentials|npmrc|pypirc"
    r"|htpasswd|ssh|aws|gnupg|kube|docker|azure|gcloud|password-store|git)|credentials(\..*)?"
    r"|secrets?\.(ya?ml|json|toml|env|ini)|\.?\w*_history|\.history|shadow",
    re.IGNORECASE,
)
_SECRET_NAMES = _set(
    ".env .env.local .env.production id_rsa id_ed25519 id_ecdsa .netrc .pgpass .git-credentials"
    " .npmrc .pypirc .ssh .aws .gnupg .kube .docker .azure .bash_history .zsh_history"
    " .python_history .git credentials"
)
SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|_PWD$|_PAT$|_AUTH", re.IGNORECASE)
"""Names of inherited variables that are not printed."""
HARMLESS_VARIABLE = re.compile(
    r"TZ|LANG|LC_\w+|CI|DEBUG|VERBOSE|TERM|COLUMNS|NO_COLOR|FORCE_COLOR|CLICOLOR\w*|PYTHONPATH"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|RUST_BACKTRACE"
    r"|RUST_LOG|NODE_ENV|RAILS_ENV|RACK_ENV|APP_ENV|FLASK_ENV|FLASK_DEBUG|CGO_ENABLED|GOOS|GOARCH"
    r"|DJANGO_SETTINGS_MODULE|LOG_LEVEL|PORT|HOST|SOURCE_DATE_EPOCH"
)
"""Variables that programs may get."""
STEERING_VARIABLE = re.compile(
    r"IFS|PATH|CDPATH|PWD|OLDPWD|ENV|HOME|SHELL|SHELLOPTS|BASHOPTS|GLOBIGNORE|PS[0-4]|PROMPT_COMMAND|FPATH"
    r"|(BASH|LD|DYLD|GIT|SSH|PYTHON|NODE|NPM|PERL|RUBY|JAVA|JDK|GCONV|DOCKER|KUBE|HIST|LESS|MAN"
    r"|MAKE|CARGO|RUSTC|RUSTFLAGS|GO|CC|CXX|PIP|UV|YARN|POETRY|PYTEST|CMAKE|TAR|RSYNC|RIPGREP|GREP"
    r"|TMP|XDG)\w*|\w*(PAGER|EDITOR|VISUAL|BROWSER|OPTS|OPTIONS|FLAGS|[Pp][Rr][Oo][Xx][Yy])"
)
"""Variables with which the text could change what later programs do, where they are exported."""


def is_git(name: str) -> bool:
    """Return whether a folder's name, or a pattern, is that of a repository's own files."""
    if GLOB not in name:
        return name.casefold() == ".git"
    return _matches(name, (".git",))


def is_secret(name: str) -> bool:
    """Return whether a file's or folder's name, or a pattern, is that of keys or a history."""
    if GLOB not in name:
        return _SECRET.fullmatch(name) is not None
    return _matches(name, _SECRET_NAMES)


def _matches(name: str, names: Iterable[str]) -> bool:
    if not name.strip(GLOB):
        return False
    own = re.compile(".*".join(map(re.escape, re.split(f"{GLOB}+", name))))
    return any(own.fullmatch(each) for each in names)


# -- programs by what they do -----------------------------------------------------------------

_TEXTS = _set(
    "echo printf true false : pwd sleep seq basename dirname whoami id nproc free uname which type"
    " ps lsof wait jobs break continue uptime tput clear expr tr shift hostname date"
)
"""Their arguments name no files and start nothing."""

_READING = _set(
    "cat head tail wc cut nl fold paste comm diff cmp column strings xxd od hexdump base64 base32"
    " md5sum sha1sum sha256sum sha512sum cksum file stat du df ls tree realpath readlink grep egrep"
    " fgrep rg jq yq tac rev expand unexpand iconv shuf sort uniq join look bc zcat tee mkdir touch"
    " cp mv rm rmdir ln chmod unzip zip tar rsync gzip gunzip sed awk gawk mawk find truncate"
    " shellcheck fmt numfmt"
)
_WRITING = _set("tee mkdir touch cp mv rm rmdir ln chmod unzip zip tar rsync gzip gunzip truncate")
_REMOVING = _set("rm rmdir mv")
_SCRIPT_FIRST = _set("grep egrep fgrep rg jq yq")
"""The first operand of these is not a file, unless an option gives it."""

_RUNNING = _set(
    "pytest py.test tox nox coverage ruff mypy pyright black isort flake8 pylint bandit pre-commit"
    " make cmake ctest ninja gcc g++ cc c++ clang clang++ clang-format clang-tidy rustc rustfmt"
    " javac jest vitest eslint prettier tsc vite webpack rollup esbuild mocha rspec"
    " rubocop gofmt golangci-lint protoc"
)
"""They test, check or build what is in the workspace, and may run all of it."""

_INTERPRETERS = re.compile(r"python(3(\.\d+)?)?|node|ruby|perl|php|(ba|da|z)?sh")
_SHELLS = _set("bash sh dash zsh")
_SETTING = re.compile(r"[A-Za-z_]\w*=")
_PLAIN_SETTING = re.compile(r"(?!SHELL|MAKE|CC|CXX)\w+=[\w.-]*")
_SUBCOMMANDS = {
    "pre-commit": re.compile("run\\b"),
    "coverage": re.compile(r"(run -m (pytest|unittest)|report|html|xml|json|combine|erase)\b"),
}
_STANDARD_INPUT = _set("- /dev/stdin -f- -f/dev/stdin --file=-")
_WRAPPERS = {
    "time": re.compile("-p"),
    "nohup": re.compile("(?!)"),
    "command": re.compile("-p"),
    "builtin": re.compile("(?!)"),
    "exec": re.compile("(?!)"),
    "nice": re.compile(r"-n\d*|-\d+|--adjustment=\d+"),
    "timeout": re.compile(r"-[ks]|-[ks]\w+|--(foreground|preserve-status)|--signal=\w+"),
    "stdbuf": re.compile("-[ioe][L0]"),
}
_NETWORK = _set(
    "wget nc ncat netcat socat telnet ftp sftp ssh scp ssh-copy-id sshfs aria2c lynx w3m"
    " http https httpie xh dig nslookup host ping traceroute nmap whois smbclient rclone aws gcloud"
    " az s3cmd gh glab sendmail mail openssl"
)
_PYTHON_MODULES = _set(
    "pytest unittest build compileall json.tool venv mypy ruff black isort flake8 pylint coverage"
    " doctest py_compile tabnanny"
)

# Options that start a program, load code or read other files' names, by program.
_BAD_OPTIONS: dict[str, frozenset[str]] = {
    "date": _set("s f set file"),
    "printf": _set("v"),
    "hostname": _set("F b file boot"),
    "sort": _set("compress-program files0-from"),
    "rg": _set("pre hostname-bin"),
    "file": _set("C compile"),
    "zip": _set("T TT unzip-command test"),
    "rsync": _set("e rsh rsync-path s daemon"),
    "cmake": _set("E"),
    "make": _set("E eval"),
    "gcc": _set("wrapper B specs fplugin"),
    "protoc": _set("plugin"),
    "pylint": _set("init-hook load-plugins"),
    "mypy": _set("install-types"),
    "ctest": _set("test-command build-and-test"),
    "rollup": _set("p plugin"),
    "find": _set("files0-from fprintf"),
    "rustc": _set("C codegen"),
    "tree": _set("R"),
}
for _name in ("g++", "cc", "c++", "clang", "clang++"):
    _BAD_OPTIONS[_name] = _BAD_OPTIONS["gcc"]

_TAR = re.compile(
    r"-?[cxtruzjJvfCpkhamOSW0-9]+|--(create|extract|list|verbose|file|gzip|bzip2|xz|zstd|directory"
    r"|exclude|strip-components|wildcards|no-same-owner|keep-old-files|auto-compress)(=.*)?|--"
)
_ADDRESS = r"(?:\d+(?:~\d+)?|\+\d+|\$|/(?:\\.|[^/\\\n])*/I?)"
_SED = re.compile(
    rf" ?(?:{_ADDRESS}(?: ?, ?{_ADDRESS})?)? ?!? ?"
    r"(?:[pdqDPnNhHgGxl=}]|([sy])([/|#,@!:;_])(?:\\.|(?!\2)[^\\\n])*\2(?:\\.|(?!\2)[^\\\n])*\2"
    r"[gpiIM0-9]*|[aic] ?\\?[^\n]*|) ?(?:[;\n]|(?=\})|$)| ?{_ADDRESS}? ?\{"
)
_SED_OPTION = re.compile(
    r"-[nErsuz]+|(-[nErsuz]*i[.\w]*|--in-place(?:=[.\w]+)?)|--(?:quiet|silent|regexp-extended)"
)
_BRACKET = re.compile(r"\[\^?\]?[^\]]*")
_AWK_BAD = re.compile(r"system|getline|ENVIRON|ARGV|PROCINFO|@|(?<!\|)\|(?!\|)|print.*>", re.DOTALL)
_QUERY_BAD = re.compile(r"\benv\b|\$ENV|\bload|strenv|input_filename|\bimport\b|\binclude\b")

# -- programs with subcommands: what runs, and what is asked about ----------------------------

_GIT_READING = _set(
    "status diff log show blame annotate ls-files ls-tree ls-remote grep shortlog describe"
    " rev-parse rev-list cat-file diff-tree diff-index merge-base name-rev reflog show-ref"
    " check-ignore show-branch whatchanged count-objects fsck version help cherry range-diff"
    " for-each-ref"
)
_GIT_CHANGING = _set(
    "add commit branch checkout switch restore stash merge rebase cherry-pick revert reset tag"
    " apply am mv rm format-patch archive notes clean gc init fetch pull bisect worktree remote"
    " config submodule symbolic-ref"
)
_GIT_SENDING = _set("push clone")
_GIT_BAD = _set(
    "exec upload-pack receive-pack open-files-in-pager extcmd config template git-dir work-tree"
    " exec-path config-env remote separate-git-dir ext-diff textconv gpg-sign unsafe-paths"
)
_GIT_TEXT = re.compile("--(format|pretty|author|since|until|grep|date)=")
_GIT_TEXTS = _set("-m --message -S -G --grep --author --date --format --pretty --since --until -F")
_REMOTE = re.compile(r"[\w-]+")
_GIT_ONLY = {
    "remote": re.compile(r"(-v|--verbose|show|get-url)?( [\w.-]+)?"),
    "config": re.compile(r"(--get )?(user|core|branch|init|pull|push)\.[\w./-]+"),
    "worktree": re.compile(r"list( --porcelain)?"),
    "submodule": re.compile(r"(status|summary)?"),
    "bisect": re.compile(r"(start|good|bad|skip|reset|log)( [\w./~^-]+)*"),
}

_PACKAGES = {
    # what runs what the project says, and what brings something new or sends something
    "npm": (
        _set("test t run run-script start ci ls list outdated view audit fund version prefix root"),
        _set("add exec x publish uninstall update create init link pack"),
    ),
    "pip": (_set("list show freeze check"), _set("uninstall download wheel")),
    "uv": (_set("sync lock tree venv"), _set("add remove tool publish init python build cache")),
    "poetry": (
        _set("install show check lock version build env"),
        _set("add remove update publish new init"),
    ),
    "cargo": (
        _set("build check test clippy fmt tree run doc bench metadata clean fetch b c t r"),
        _set("add remove install update publish new init"),
    ),
    "go": (
        _set("build test vet fmt list doc version mod run generate"),
        _set("get install work clean tool"),
    ),
    "bundle": (_set("install check list show exec outdated"), _set("add update remove")),
    "dotnet": (_set("build test restore run clean format"), _set("add new publish tool nuget")),
    "mvn": (
        _set("test package compile verify clean install validate test-compile"),
        _set("deploy"),
    ),
    "gradle": (_set("test build assemble check clean tasks"), _set("publish")),
    "apt": (_set("list show search policy"), _set("install update upgrade remove")),
    "terraform": (_set("validate fmt version"), _set("plan apply init destroy")),
    "docker": (
        _set("ps images logs inspect stats version info top port diff history build compose"),
        _set("run exec stop start restart rm rmi pull push kill create cp tag network volume"),
    ),
    "kubectl": (
        _set("get describe logs top events version explain api-resources rollout config"),
        _set("apply delete create edit patch scale exec port-forward cp run annotate label"),
    ),
    "helm": (_set("list ls status history template lint version"), _set("install upgrade")),
}
_PACKAGES["pip3"] = _PACKAGES["pip"]
_PACKAGES["docker-compose"] = (
    _set("ps logs config images top up down build stop start restart"),
    _set("run exec rm pull push kill cp"),
)
_PACKAGES["yarn"] = _PACKAGES["pnpm"] = (
    _PACKAGES["npm"][0] | _set("build lint dev"),
    _PACKAGES["npm"][1] | _set("dlx remove up upgrade"),
)
_INSTALLING = _set("npm yarn pnpm pip pip3")
_PACKAGE_BAD = _set(
    "config kubeconfig server token as context toolexec exec vettool overlay script-shell"
    " index-url extra-index-url find-links trusted-host proxy registry userconfig prefix target"
    " root host raw password-stdin"
)
_ONLY = {
    "go mod": re.compile(r"tidy|download|verify|graph|why .*"),
    "kubectl rollout": re.compile(r"(status|history) .*"),
    "kubectl config": re.compile(r"current-context|get-contexts"),
    "docker compose": re.compile(
        r"(ps|logs|config|images|top|up|down|build|stop|start|restart)\b.*"
    ),
    "go run": re.compile(r"(\.|\./\S*|[\w/-]+\.go)( .*)?"),
    "npm audit": re.compile(r"(--json)?"),
    "npm version": re.compile(""),
}


# -- judging ----------------------------------------------------------------------------------


def judge(reviewer: Reviewer, name: str, command: Command) -> None:
    """Note what a program does that is about to start."""
    base = posixpath.basename(name)
    if base != name:
        folder = posixpath.dirname(name)
        if "://" in name:
            reviewer.refuse("network", "a program from an address")
        if folder not in {"/bin", "/usr/bin", "/usr/local/bin"}:
            reviewer.path(command.words[0], "look")
            if not _is_known(base):
                _check_files(reviewer, base, command.words[1:])
                return
    if base in _NETWORK:
        reviewer.refuse("network", f"`{base}` uses the network")
    elif base in {"env", "printenv"}:
        _judge_env(reviewer, base, command)
    elif base == "curl":
        _judge_curl(reviewer, command)
    elif base in _WRAPPERS:
        _judge_wrapper(reviewer, base, command)
    elif base == "xargs":
        _judge_xargs(reviewer, command)
    elif base == "git":
        _judge_git(reviewer, command)
    elif base == "npx":
        _judge_npx(reviewer, command)
    elif base in {"source", "."}:
        _judge_source(reviewer, command)
    elif base == "kill":
        _judge_kill(reviewer, command)
    elif base in _PACKAGES:
        _judge_package(reviewer, base, command)
    elif _INTERPRETERS.fullmatch(base):
        _judge_interpreter(reviewer, base, command)
    elif base in _TEXTS:
        _check_options(reviewer, base, command.words[1:])
        if base == "ps" and re.match(
            "[a-z]*e|.*E", _begin(command.words[1]) if command.words[1:] else ""
        ):
            reviewer.refuse("secret", "`ps` prints the environment of processes")
    elif base in _READING:
        _judge_files(reviewer, base, command)
    elif base in _RUNNING:
        _check_options(reviewer, base, command.words[1:])
        _check_files(reviewer, base, command.words[1:])
        if any(word.text in _STANDARD_INPUT for word in command.words[1:]):
            reviewer.refuse("asks", f"`{base}` runs what is only in the command")
        if any(_SETTING.match(v) and not _PLAIN_SETTING.fullmatch(v) for v in _texts(command)):
            reviewer.refuse("program", f"a variable of `{base}` may start a program")
        if base in _SUBCOMMANDS and not _SUBCOMMANDS[base].match(" ".join(_texts(command))):
            reviewer.refuse("program", f"`{base}` with these words is not on the list")
    elif base in reviewer.more:
        _check_files(reviewer, base, command.words[1:])
    else:
        reviewer.refuse("program", f"`{base}` is not on the list")


def _is_known(name: str) -> bool:
    return (
        name in _READING | _TEXTS | _RUNNING | _NETWORK | _WRAPPERS.keys() | _PACKAGES.keys()
        or name in {"git", "curl", "env", "printenv", "xargs", "npx", "kill"}
        or _INTERPRETERS.fullmatch(name) is not None
    )


def _options(words: Sequence[Argument]) -> Iterator[tuple[Argument, str]]:
    """Yield the words before ``--`` that are options, with each value."""
    for word in words:
        if word.text == "--":
            return
        for value in word.values:
            if value.startswith(("-", GLOB, UNKNOWN)) and value != "-":
                yield word, value


def _check_options(reviewer: Reviewer, name: str, words: Sequence[Argument]) -> None:
    """Refuse options that start a program, and words that may be such an option."""
    bad = _BAD_OPTIONS.get(name)
    if not bad:
        return
    _refuse_options(reviewer, name, words, bad)


def _refuse_options(
    reviewer: Reviewer, name: str, words: Sequence[Argument], bad: frozenset[str]
) -> None:
    for word, value in _options(words):
        if value[0] != "-" or word.spreads:
            reviewer.refuse("program", f"a word of `{name}` may be an option")
        elif value.startswith("--"):
            given = value[2:].split("=")[0]
            if len(given) > 1 and any(each.startswith(given) for each in bad if len(each) > 1):
                reviewer.refuse("program", f"`{name} --{given}` may start a program")
        elif value[1:] in bad or any(len(each) == 1 and each in _letters(value) for each in bad):
            reviewer.refuse("program", f"`{name} {value}` may start a program")
        elif any(len(each) > 1 and value[1:].split("=")[0] == each for each in bad):
            reviewer.refuse("program", f"`{name} {value}` may start a program")


def _letters(value: str) -> str:
    found = re.match("-([A-Za-z]*)", value)
    return "" if found is None else found[1][:4]


def _operands(words: Sequence[Argument]) -> list[Argument]:
    return [word for word in words if not any(v.startswith("-") and v != "-" for v in word.values)]


def _check_files(
    reviewer: Reviewer, name: str, words: Sequence[Argument], use: str = "read"
) -> None:
    """Note each word, and each part of one, that may be a file."""
    for word in words:
        if word.spreads:
            reviewer.refuse("outside", f"a file of `{name}` is only known when it runs")
        for value in word.values:
            if not value.startswith("-"):
                _note(reviewer, value, use)
            for part in _parts(value):
                _note(reviewer, part, use)


def _note(reviewer: Reviewer, value: str, use: str) -> None:
    from otelhooks.policy.shell_review import Argument  # it imports this module

    reviewer.path(Argument(frozenset((value,))), use)


def _parts(value: str) -> Iterator[str]:
    """Yield what may be a path in an option, or behind a sign in a word."""
    if value.startswith("-") and not value.startswith("--"):
        for start in range(2, 5):
            if value[start:].startswith(("/", "~", "..", UNKNOWN)):
                yield value[start:]
    yield from re.split("[=,]", value)[1:]
    if value.startswith("@") and len(value) > 1:
        yield value[1:]


def _judge_files(reviewer: Reviewer, name: str, command: Command) -> None:
    words = command.words[1:]
    _check_options(reviewer, name, words)
    if name == "find":
        _judge_find(reviewer, words)
        return
    if name == "sed":
        words = _judge_sed(reviewer, words)
    elif name.endswith("awk"):
        words = _judge_awk(reviewer, words)
    elif name in _SCRIPT_FIRST:
        words = _without_script(reviewer, name, words)
    elif name == "tar":
        _check_tar(reviewer, words)
    elif name == "rsync" and any(":" in v for w in words for v in w.values):
        reviewer.refuse("network", "`rsync` uses the network")
    use = "read"
    if name in _REMOVING:
        use = "remove"
    elif name in _WRITING:
        use = "write"
    operands = _operands(words)
    if name in {"cp", "ln", "rsync"} and operands:
        _check_files(reviewer, name, [w for w in words if w is not operands[-1]], "read")
        _check_files(reviewer, name, operands[-1:], "write")
        if name == "ln":
            _check_link(reviewer, operands)
        return
    if name == "mv":
        _check_files(reviewer, name, operands, "read")
    if name == "chmod":
        words = [w for w in words if w is not operands[0]] if operands else words
    outputs = {"sort": "o", "iconv": "o", "shuf": "o", "tree": "o", "xxd": "", "uniq": ""}
    if name in outputs and (name in {"xxd", "uniq"} or _has_letter(words, outputs[name])):
        _check_files(reviewer, name, operands[-1:] if len(operands) > 1 else operands, "write")
    _check_files(reviewer, name, words, use)


def _has_letter(words: Sequence[Argument], letter: str) -> bool:
    return any(letter in _letters(v) or v.startswith("--o") for w in words for v in w.values)


def _check_link(reviewer: Reviewer, operands: Sequence[Argument]) -> None:
    """Note where a link leads from its own folder."""
    for target in operands[:-1]:
        for link in operands[-1].values:
            for value in target.values:
                _note(reviewer, posixpath.join(posixpath.dirname(link), value), "read")


_VALUES = {
    "grep": _set("-A -B -C -m --include --exclude --exclude-dir"),
    "rg": _set("-A -B -C -m -g --glob -t --type -T"),
}


def _without_script(reviewer: Reviewer, name: str, words: Sequence[Argument]) -> Sequence[Argument]:
    """Return words without a pattern or query, which is not a file."""
    is_search = name in {"grep", "egrep", "fgrep", "rg"}
    values = _VALUES.get(name, _VALUES["grep"] if is_search else frozenset())
    given = [w.text or "" for w in words]
    is_given = any(re.match("--(regexp|file|from-file)|-[a-zA-Z]*f", text) for text in given)
    is_given |= is_search and any(re.match("-[a-zA-Z]*e.", text) for text in given)
    kept: list[Argument] = []
    place = 0
    while place < len(words):
        word = words[place]
        text = word.text or ""
        if text in values:
            place += 1
        elif is_search and re.fullmatch("-[a-zA-Z]*e", text):
            place, is_given = place + 1, True
        elif is_given or (text.startswith("-") and text != "-"):
            kept.append(word)
        else:
            is_given = True
            if name in {"jq", "yq"} and (word.text is None or _QUERY_BAD.search(text)):
                reviewer.refuse("secret", f"a query of `{name}` may read the environment")
        place += 1
    if name == "yq" and _has_letter(words, "i"):
        _check_files(reviewer, name, _operands(kept), "write")
    return kept


def _judge_sed(reviewer: Reviewer, words: Sequence[Argument]) -> Sequence[Argument]:
    scripts: list[Argument] = []
    rest: list[Argument] = []
    place, writes = 0, False
    while place < len(words):
        text = words[place].text
        if text in {"-e", "--expression"}:
            scripts += words[place + 1 : place + 2]
            place += 1
        elif found := _SED_OPTION.fullmatch(text or ""):
            writes |= found[1] is not None
        elif text is not None and text.startswith("-") and text != "-":
            reviewer.refuse("program", f"`sed {text}` is not on the list")
        else:
            rest.append(words[place])
        place += 1
    if not scripts:
        scripts, rest = rest[:1], rest[1:]
    for script in scripts:
        if script.text is None or len(script.text) > 2000 or not _is_plain_sed(script.text):
            reviewer.refuse("program", "a script of `sed` may run or write something")
    if any(v.startswith((GLOB, UNKNOWN)) for w in rest for v in w.values):
        reviewer.refuse("program", "a word of `sed` may be an option")
    if writes:
        _check_files(reviewer, "sed", rest, "write")
    return rest


def _is_plain_sed(script: str) -> bool:
    """Return whether a script of `sed` only changes text, however its brackets are read."""
    script = re.sub(r"[ \t]+", " ", script)
    at, signs = 0, {"/"}
    while at < len(script):
        found = _SED.match(script, at)
        if found is None or found.end() == at:
            return False
        signs.add(found[2] or "/")
        at = found.end()
    return all(signs.isdisjoint(each) for each in _BRACKET.findall(script))


def _judge_awk(reviewer: Reviewer, words: Sequence[Argument]) -> Sequence[Argument]:
    place = 0
    while place < len(words):
        text = words[place].text
        if text in {"-F", "-v"}:
            place += 2
        elif text is not None and re.match("-[Fv].", text):
            place += 1
        else:
            break
    script = words[place].text if place < len(words) else None
    if script is None or script.startswith("-") or _AWK_BAD.search(script):
        reviewer.refuse("program", "a script of `awk` may run, read or write something")
    rest = words[place + 1 :]
    if any(v.startswith(("-", GLOB, UNKNOWN)) and v != "-" for w in rest for v in w.values):
        reviewer.refuse("program", "a word of `awk` may be an option")
    return rest


def _check_tar(reviewer: Reviewer, words: Sequence[Argument]) -> None:
    for place, word in enumerate(words):
        is_option = place == 0 or any(v.startswith(("-", GLOB, UNKNOWN)) for v in word.values)
        if is_option and (word.text is None or not _TAR.fullmatch(word.text)):
            reviewer.refuse("program", "an option of `tar` may run something")
        if any(":" in value for value in word.values):
            reviewer.refuse("network", "`tar` may use the network")


def _judge_find(reviewer: Reviewer, words: Sequence[Argument]) -> None:
    from otelhooks.policy.shell_review import Argument

    starts: list[Argument] = []
    for word in words:
        if any(value.startswith(("-", "(", "!")) for value in word.values):
            break
        starts.append(word)
    starts_or_here = starts or [Argument(frozenset((".",)))]
    names = {
        _pattern(value.removeprefix("*/").removeprefix("./"))
        for word, after in itertools.pairwise(words)
        if word.text in {"-name", "-iname", "-path", "-ipath", "-wholename"}
        for value in after.values
    } or {GLOB}
    places = [value for word in starts_or_here for value in word.values]
    found = Argument(frozenset(f"{place}/{name}" for place in places for name in names))
    place = 0
    while place < len(words):
        text = words[place].text
        if text is None and any(v.startswith((GLOB, UNKNOWN)) for v in words[place].values):
            reviewer.refuse("program", "a word of `find` may be an option")
        if text == "-delete":
            _check_files(reviewer, "find", [found], "remove")
        elif text in {"-fprint", "-fprint0", "-fls"}:
            _check_files(reviewer, "find", words[place + 1 : place + 2], "write")
        elif text in {"-exec", "-execdir", "-ok", "-okdir"}:
            end = place + 1
            while end < len(words) and words[end].text not in {";", "+"}:
                end += 1
            own = [_filled(each, "{}", found) for each in words[place + 1 : end]]
            reviewer.inner(own, None)
            place = end
        elif text in {"-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-wholename"}:
            place += 1
        elif text is None or not text.startswith(("-", "(", "!", ")")):
            _check_files(reviewer, "find", words[place : place + 1], "look")
        place += 1


def _pattern(text: str) -> str:
    """Return a pattern of `find` as a value."""
    return re.sub(r"\[[^]]*\]|[*?]+", GLOB, text)


def _filled(word: Argument, sign: str, found: Argument) -> Argument:
    """Return a word of a command with a sign replaced by file names."""
    from otelhooks.policy.shell_review import Argument

    if not any(sign in value for value in word.values):
        return word
    values = {v.replace(sign, each) for v in word.values for each in found.values}
    return Argument(frozenset(values), found.spreads)


def _judge_env(reviewer: Reviewer, name: str, command: Command) -> None:
    words = list(command.words[1:])
    while words and words[0].text is not None:
        text = words[0].text
        if text == "-i":
            pass
        elif text.startswith("-"):
            reviewer.refuse("program", f"`env {text}` is not on the list")
        elif "=" in text:
            variable = text.partition("=")[0]
            if not HARMLESS_VARIABLE.fullmatch(variable):
                reviewer.refuse("program", f"the variable `{variable}` may change programs")
        else:
            break
        words.pop(0)
    if name == "printenv" or not words:
        reviewer.refuse("secret", "the environment may hold secrets")
    else:
        reviewer.inner(words, command.before)


_LOCAL_URL = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/[^\s@]*)?")
_CURL_FLAGS = re.compile(
    "-[sSfikvIgG]+|--(silent|show-error|fail|include|verbose|head|get|compressed)"
)
_CURL_TEXTS = _set("-H --header -X --request -d --data --data-raw -m --max-time -w")


def _judge_curl(reviewer: Reviewer, command: Command) -> None:
    """Allow `curl` to this machine, without files and without being led elsewhere."""
    words = list(command.words[1:])
    while words:
        word = words.pop(0)
        text = word.text
        if text == "-o" and words and words[0].text == "/dev/null":
            words.pop(0)
        elif text in _CURL_TEXTS:
            value = words.pop(0) if words else word
            if value.text is None or value.text.startswith("@") or "%output" in value.text:
                reviewer.refuse("network", "`curl` sends a file, or what is only known later")
        elif text is None or not (_CURL_FLAGS.fullmatch(text) or _LOCAL_URL.fullmatch(text)):
            reviewer.refuse("network", "`curl` may only reach this machine, by a plain URL")


def _judge_wrapper(reviewer: Reviewer, name: str, command: Command) -> None:
    words = list(command.words[1:])
    if name == "command" and words and words[0].text in {"-v", "-V"}:
        return
    if name == "exec" and not words:
        return
    while words and words[0].text is not None and words[0].text.startswith("-"):
        text = words.pop(0).text or ""
        if not _WRAPPERS[name].fullmatch(text):
            reviewer.refuse("program", f"`{name} {text}` is not on the list")
        if text in {"-n", "-k", "-s"} and words:
            words.pop(0)
    if name == "timeout" and words:
        words.pop(0)
    reviewer.inner(words, command.before)


_SEARCHES = {
    "find": re.compile("(?!-exec|-ok|-printf|-ls|-fls|-fprint).*", re.DOTALL),
    "ls": re.compile("-[1AtrS]+|[^-].*", re.DOTALL),
    "grep": re.compile("-[a-zA-Z]+|--(include|exclude)\\S*|[^-].*", re.DOTALL),
    "rg": re.compile("-[a-zA-Z]|-[a-zA-Z]*l|--(files\\S*|type|hidden)|[^-].*", re.DOTALL),
    "git ls-files": re.compile("-[zmoc]|--(others|modified|exclude-standard)|--|[^-].*", re.DOTALL),
    "git diff": re.compile("--(name-only|cached|staged)|--|-z|[^-].*", re.DOTALL),
}
"""Commands that print names of files that they find, and the words that they may have."""
_NAMES_ONLY = {
    "grep": re.compile("-[a-zA-Z]*[lL][a-zA-Z]*"),
    "rg": re.compile("-[a-zA-Z]*l|--files|--files-with-matches"),
    "git diff": re.compile("--name-only"),
}
_FILTERS = {
    "head": re.compile(r"-n?|-?n?\d+"),
    "tail": re.compile(r"-n?|-?n?\d+"),
    "sort": re.compile("-[runz]+"),
    "uniq": re.compile("(?!)"),
    "grep": re.compile("-[viEFx]+|[^-].*", re.DOTALL),
}


def _judge_xargs(reviewer: Reviewer, command: Command) -> None:
    """Let names that a search of the workspace prints be arguments."""
    from otelhooks.policy.shell_review import Argument

    words, sign = list(command.words[1:]), ""
    while words and words[0].text is not None and words[0].text.startswith("-"):
        text = words.pop(0).text or ""
        found = re.fullmatch(r"-[0rt]+|-([nPLId])(.*)|--(null|no-run-if-empty)", text)
        if found is None:
            reviewer.refuse("program", f"`xargs {text}` is not on the list")
        elif found[1]:
            value = found[2] or (words.pop(0).text if words else None) or ""
            sign = value if found[1] == "I" else sign
    names = _names_from(command.before)
    if names is None:
        names = Argument(frozenset((UNKNOWN,)), True)
    if sign:
        own = [_filled(each, sign, names) for each in words]
    else:
        own = [*words, names]
    reviewer.inner(own or [Argument(frozenset(("echo",)))], None)


def _names_from(command: Command | None) -> Argument | None:
    """Return the names that a command prints, if they are names of the workspace."""
    from otelhooks.policy.shell_review import Argument

    while command is not None:
        name, *texts = [word.text or "-?" for word in command.words]
        is_search = name in _NAMES_ONLY and any(map(_NAMES_ONLY[name].fullmatch, texts))
        if name not in _FILTERS or is_search:
            break
        if not all(map(_FILTERS[name].fullmatch, texts)):
            return None
        command = command.before
    else:
        return None
    words = command.words[1:]
    if name == "git" and texts:
        name, texts, words = f"git {texts[0]}", texts[1:], words[1:]
    if name not in _SEARCHES or not all(map(_SEARCHES[name].fullmatch, texts)):
        return None
    if name in _NAMES_ONLY and not any(map(_NAMES_ONLY[name].fullmatch, texts)):
        return None
    if name == "find":
        starts = [v for word in words[:1] for v in word.values if v[:1] not in {"-", "("}]
        return Argument(frozenset(f"{start}/{GLOB}" for start in starts or ["."]))
    operands = _operands(words)
    folder = operands[-1].text if name in {"grep", "rg"} and len(operands) == 2 else None
    if folder is not None and re.fullmatch(r"\w[\w/.-]*", folder):
        return Argument(frozenset((f"{folder}/{GLOB}",)))
    return Argument(frozenset((GLOB,)))


def _judge_git(reviewer: Reviewer, command: Command) -> None:
    words = list(command.words[1:])
    while words and words[0].text is not None and words[0].text.startswith("-"):
        text = words.pop(0).text or ""
        if text == "-C" and words:
            _check_files(reviewer, "git", [words.pop(0)], "look")
        elif text not in {"--no-pager", "-P", "--version"}:
            reviewer.refuse("program", f"`git {text}` is not on the list")
    name = words[0].text if words else "help"
    rest = words[1:]
    if name is None:
        reviewer.refuse("program", "what `git` does is only known when it runs")
        return
    texts = [word.text for word in rest]
    only = _GIT_ONLY.get(name)
    if only is not None and (None in texts or not only.fullmatch(" ".join(t or "" for t in texts))):
        reviewer.refuse("program", f"`git {name}` with these words is not on the list")
        return
    if name in _GIT_SENDING:
        reviewer.refuse("asks", f"`git {name}` sends, or fetches from a new address")
    elif name not in _GIT_READING | _GIT_CHANGING:
        reviewer.refuse("program", f"`git {name}` is not on the list")
    if name in {"fetch", "pull", "ls-remote", "push", "clone"}:
        address = _REMOTE if name != "clone" else re.compile(r"https://[\w./-]+|[\w./-]+")
        if not all(address.fullmatch(text or " ") for text in _first(texts)):
            reviewer.refuse("network", f"`git {name}` uses an address, not a remote")
        _refuse_options(reviewer, "git", rest, _GIT_BAD if name == "push" else _GIT_BAD | {"u"})
        return
    bad = _GIT_BAD | _set("x i interactive") if name == "rebase" else _GIT_BAD
    bad = bad | {"O"} if name == "grep" else bad
    own: list[Argument] = []
    place = 0
    while place < len(rest):
        own.append(rest[place])
        if rest[place].text == "--":
            own += rest[place + 1 :]
            break
        place += 2 if rest[place].text in _GIT_TEXTS and rest[place].text != "-F" else 1
    if name == "grep" and own:
        own = [w for w in own if w is not (_operands(own) or [None])[0]]
    _refuse_options(reviewer, "git", own, bad)
    files = [word for word in own if not _GIT_TEXT.match(_begin(word))]
    _check_files(reviewer, "git", files, "read" if name in _GIT_READING else "write")


def _texts(command: Command) -> list[str]:
    return [word.text or "?" for word in command.words[1:]]


def _begin(word: Argument) -> str:
    return min(word.values, default="")


def _first(texts: Sequence[str | None]) -> list[str | None]:
    """Return the first operand."""
    return [text for text in texts if text is None or not text.startswith("-")][:1]


def _judge_npx(reviewer: Reviewer, command: Command) -> None:
    name = command.words[1].text if len(command.words) > 1 else None
    if name in _RUNNING:
        reviewer.inner(command.words[1:], command.before)
    else:
        reviewer.refuse("asks", "`npx` may fetch a program and run it")


def _judge_source(reviewer: Reviewer, command: Command) -> None:
    name = command.words[1].text if len(command.words) == 2 else None
    if name is None or not name.endswith("/bin/activate"):
        reviewer.refuse("unread", "a sourced file may change what names mean")
    else:
        reviewer.path(command.words[1], "read")


def _judge_kill(reviewer: Reviewer, command: Command) -> None:
    for word in command.words[1:]:
        if word.text is None:
            reviewer.refuse("program", "which process is killed is only known when it runs")
        elif not re.fullmatch(r"%\d+|-(\d|1[0-9]|[A-Z]+|l)", word.text):
            reviewer.refuse("asks", "`kill` ends a process that may be any")


def _judge_interpreter(reviewer: Reviewer, name: str, command: Command) -> None:
    words = list(command.words[1:])
    while words:
        text = words[0].text
        if text in {"--version", "-V", "-v"} and len(words) == 1:
            return
        if name in _SHELLS and text is not None and re.fullmatch("-[lexu]*c", text):
            script = words[1].text if len(words) > 1 else None
            if script is None:
                reviewer.refuse(
                    "unread", f"`{name} -c` with a text that is only known when it runs"
                )
            else:
                reviewer.text(script)
            return
        if text == "-m" and name.startswith("python"):
            _judge_module(reviewer, command, words[1:])
            return
        is_code = text is not None and re.match("-[a-zA-Z]*[cepr]|--(eval|print|run)", text)
        if is_code and name not in _SHELLS:
            reviewer.refuse("asks", f"`{name} {text}` runs code that is only in the command")
            return
        flags = "-[eux]+" if name in _SHELLS else "-[uBEIOsS]+" if name[0] == "p" else "--test|-w"
        if text is None or not re.fullmatch(flags, text):
            break
        words.pop(0)
    script = words[0].text if words else None
    if script is None or script.startswith(("-", "/dev/")):
        if name in _SHELLS or (words and script is None):
            reviewer.refuse("unread", f"what `{name}` runs is only known when it runs")
        else:
            reviewer.refuse("asks", f"`{name}` runs code that is only in the command")
        return
    _check_files(reviewer, name, words)


def _judge_module(reviewer: Reviewer, command: Command, words: Sequence[Argument]) -> None:
    from otelhooks.policy.shell_review import Command as Own

    name = words[0].text if words else None
    if name == "pip":
        _judge_package(reviewer, "pip", Own(tuple(words), None))
    elif name in _PYTHON_MODULES:
        _check_files(reviewer, name or "", words[1:])
    else:
        reviewer.refuse("program", f"`python -m {name}` is not on the list")


def _judge_package(reviewer: Reviewer, name: str, command: Command) -> None:
    words = list(command.words[1:])
    skips = _set("-r -C -n --namespace -f --filter -w --workspace -B --batch-mode -q -s --silent")
    while words and words[0].text is not None and words[0].text in skips:
        text = words.pop(0).text
        if text in {"-C", "-n", "--namespace", "-f", "--filter", "-w", "--workspace"} and words:
            _check_files(reviewer, name, [words.pop(0)])
    action = words[0].text if words else ""
    rest = words[1:]
    runs, asks = _PACKAGES[name]
    _refuse_options(reviewer, name, rest, _PACKAGE_BAD)
    if action is None:
        reviewer.refuse("program", f"what `{name}` does is only known when it runs")
        return
    if action in {"--version", "-v", "-V", "version", "help", "--help"}:
        return
    only = _ONLY.get(f"{name} {action}")
    texts = [word.text for word in rest]
    if only is not None and not only.fullmatch(" ".join(t or "?" for t in texts)):
        reviewer.refuse("asks", f"`{name} {action}` with these words is asked about")
    if (name, action) in _RUNS_OTHERS:
        reviewer.inner(rest, command.before)
        return
    if name in _INSTALLING and action in {"install", "i", ""}:
        _judge_install(reviewer, name, rest)
    elif action in asks:
        reviewer.refuse("asks", f"`{name} {action}` installs, sends or changes something")
    elif action not in runs:
        reviewer.refuse("program", f"`{name} {action}` is not on the list")
    if name == "kubectl" and any(re.search(r"\bsecrets?\b", t or "secret") for t in texts):
        reviewer.refuse("secret", "secrets of a cluster")
    if name in {"npm", "yarn", "pnpm"} and "env" in texts:
        reviewer.refuse("secret", f"`{name} run env` prints the environment")
    if name in {"mvn", "gradle"} and not runs.issuperset(w.text or "" for w in _operands(rest)):
        reviewer.refuse("program", f"`{name} {action}` with these words is not on the list")
    if any("://" in v or "-extld" in v or "git@" in v for w in rest for v in w.values):
        reviewer.refuse("network", f"`{name}` may use the network, or another program")
    if name == "docker" and action in {"run", "exec"}:
        return  # paths are those of a container; people see its mounts
    _check_files(reviewer, name, [word for word in rest if "{" not in _begin(word)])


_RUNS_OTHERS = frozenset((("uv", "run"), ("poetry", "run"), ("bundle", "exec")))


def _judge_install(reviewer: Reviewer, name: str, words: Sequence[Argument]) -> None:
    """Ask about packages by name; what the project's files list is installed."""
    if name.startswith("pip"):
        texts = [word.text or "?" for word in words]
        given = " ".join(texts)
        if not re.fullmatch(r"((-q|-U|--upgrade|-r [\w./-]+|(-e )?\.(\[[\w,]+\])?)( |$))+", given):
            reviewer.refuse("asks", "`pip install` of a package by name")
    elif _operands(words):
        reviewer.refuse("asks", f"`{name} install` of a package by name")
