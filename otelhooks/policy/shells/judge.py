"""Judges a text of commands: every command in it, whatever precedes it."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TypeAlias

from otelhooks.policy.shells.options import FOUND, GLOBS, PIPE, UNKNOWN, Argument, Reading, read
from otelhooks.policy.shells.places import ALL, TREES, WILD, Kept, Places
from otelhooks.policy.shells.reader import (
    Block,
    Node,
    Part,
    Redirect,
    Refused,
    Simple,
    Word,
    check,
    parse,
)
from otelhooks.policy.shells.scripts import SCRIPTS
from otelhooks.policy.shells.table import Entry, table

__all__ = ["Judge", "nodes"]

_MOST_STEPS = 2_000
_MOST_CHARACTERS = 500_000
_MOST_FOLDERS = 16
_MOST_DEPTH = 8

_FREE = Entry(free=True)
_MARKS = "".join((UNKNOWN, PIPE, FOUND, *GLOBS.values()))
_OPEN = re.compile(f"[{_MARKS}]")
_SPLITTING = re.compile(rf"[\s*?\[\\{_MARKS}]")
_PATTERN = re.compile(rf"[{''.join(GLOBS.values())}][A-Za-z0-9_./{''.join(GLOBS.values())}-]*")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_NUMBER = re.compile(r"[-+]?[0-9.,:]*[A-Za-z%]{0,2}")
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]+|\[\[?|:|python -m")
_TEST = re.compile(r"[\]=!<>A-Za-z0-9_.:@%+,/ -]*")
_ACTIVATE = re.compile(r"(?:\./)?\.?venv/bin/activate")
_INSTALLED = re.compile(r"(?:(?!\.\./)[^/]+/)*\.?venv/bin/[^/]+")
"""A program of a directory where no command writes, which may be a link to one of the system."""
_CODE_OPTION = re.compile(r"-[A-Za-z]*[cepE]|--(?:eval|print|exec|execute|code|command)\b")
_CODE = re.compile(r"[^\w./:=,@+%-]")
_TESTS = re.compile(rf"([^:\[\\]+)(?:::[^{_MARKS}]*|:[0-9]+)?")
_TAR = re.compile("[a-eg-zA-Z]+f?")
"""Letters before all options: `f` takes the next word even as the first."""
_SOURCE = re.compile(r"\.(?:c|cc|cpp|cxx|h|hpp|o|a|s|S)$")
_MODULE_PATH = re.compile(r"\.(?:/[A-Za-z0-9_./-]*)?|[A-Za-z0-9_/]+\.go")
_OWN_PACKAGE = re.compile(r"\.(?:\[[A-Za-z0-9,_-]+\])?")
_PATHS = frozenset(("look", "read", "write", "remove", *TREES))
_REPEATED = frozenset(("for", "loop", "pipe"))
_READING = frozenset(("<", "<<", "<&", ">&"))
_HERE = frozenset(("",))
_PRINTING = frozenset(("-print", "-ls", "-exec"))
_GIT_PATTERN = re.compile(
    r"(?:[A-Za-z0-9_-]+/)*(?:\*\*/)?\*\.(?!(?:env|pem|key|p12|pfx|jks|keystore|kdbx|ppk|ovpn|kubeconfig|tfstate|tfvars)$)[A-Za-z0-9]+"
    r"|:[!^][A-Za-z0-9_./*-]+"
)
"""Patterns that name no secret before others, and what is left out."""
_QUOTED = re.compile(r"(?:[A-Za-z0-9_./*@ -]|\{[A-Za-z0-9,]+\})*")
_YQ = re.compile(
    r"env|load|eval|file|include|import|system|exec|^[a-z-]*$|^/|\.\./|/\.\.", re.IGNORECASE
)
_BSD_SED = re.compile(
    r"[0-9,$!+~ \t]*(?:.*[;{}\n\\].*|([rw])(.*)|s(.)(?:(?!\3).)*\3(?:(?!\3).)*\3.*w.*)", re.DOTALL
)
_ENDING = re.compile(r"\*?[A-Za-z0-9_.-]+")
_CHOOSING = frozenset(("-o", "-or", "-not", "!", "(", ","))
_REMOVING = [["rm", option, FOUND] for option in ("-r", "-rf", "-fr")]
_DELETED = re.compile(r"\*\.(?:pyc|pyo|o|class|tmp|bak|orig|rej|log)")
_CACHES = re.compile(r"__pycache__|\.(?:pytest|mypy|ruff)_cache|\*\.egg-info")
_REVISION = re.compile(r"[A-Za-z0-9_.~^@{}-]*[A-Za-z0-9_~^@}]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGITS = re.compile(r"[0-9-]*")
_PLACE = re.compile(rf"[\w./+{_MARKS}-]+")
_HISTORY = re.compile(r"!(?![ \n=]|$)")
_NPROC = parse("nproc")
_COUNTING = re.compile(r"%(?!%|[-0-9.]*[sbcq])")

_Folders: TypeAlias = "frozenset[str]"


class _Noted:
    """A context that notes what is refused in it."""

    def __init__(self, problems: dict[tuple[str, str], None]) -> None:
        self._problems = problems

    def __enter__(self) -> None: ...

    def __exit__(
        self, _type: object, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Refused):
            self._problems[error.kind, str(error)] = None
            return True
        return False


class Judge:
    """Collects what speaks against the commands of one call.

    Args:
        places: The places that it may use.
        programs: More programs that may run.

    Attributes:
        problems: Kind and sentence of each problem.
    """

    def __init__(self, places: Places, programs: frozenset[str] = frozenset()) -> None:
        self.problems: dict[tuple[str, str], None] = {}
        self._places = places
        self._programs = programs
        self._table = table()
        self._left = _MOST_STEPS
        self._characters_left = _MOST_CHARACTERS
        self._depth = 0
        self._loops: dict[str, Argument] = {}
        self._known: set[str] = set()
        self._moved = False
        self._is_still = False
        self._handlers: Mapping[str, Callable[[str, _Folders], None]] = {
            "activate": self._activate,
            "any": self._any,
            "context": self._context,
            "exported": self._exported,
            "folder": self._folder,
            "rewritten": self._rewritten,
            "link": self._link,
            "list": self._paths,
            "own_script": self._own_script,
            "module_path": self._module_path,
            "method": self._method,
            "name": self._name,
            "number": self._number,
            "package": self._package,
            "quoted": self._quoted,
            "removed": self._removed,
            "repository": self._repository,
            "settings": self._settings,
            "setting": self._setting,
            "rev": self._rev,
            "script": self._script,
            "shell": self._text,
            "compared": self._compared,
            "lines": self._lines,
            "source": self._source,
            "target": self._target,
            "test": self._test,
            "tests": self._tests,
            "yq": self._yq,
            "tracked": self._tracked,
        }

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of values that it knows, beside forms, commands and texts."""
        return frozenset((*self._handlers, *_PATHS, *SCRIPTS))

    def text(self, text: str, *, is_typed: bool = False) -> None:
        """Judge a text for a shell, or one that is typed into a terminal."""
        with _Noted(self.problems):
            self._path("look", ".", _HERE)
            if is_typed:
                _check_typed(text)
            self._text(text, _HERE)

    def words(self, words: Sequence[str]) -> None:
        """Judge a program and its arguments, which no shell reads."""
        with _Noted(self.problems):
            self._path("look", ".", _HERE)
            check(" ".join(words))
            self._program([Argument(word) for word in words], _HERE, None)

    def _text(self, text: str, folders: _Folders) -> None:
        node = parse(text)
        self.problems |= dict.fromkeys(("unread", why) for why in node.notes)
        self._is_still = self._depth == 0 and all(map(self._keeps_names, nodes(node)))
        saved = self._loops, self._known
        self._loops, self._known = {}, set()
        try:
            self._names(node)
            _check_sums(node)
            self._run(node, folders)
        finally:
            self._loops, self._known = saved

    def _runs(self, name: str) -> None:
        self.problems["runs", f"`{name}` runs what is in the workspace"] = None

    def _ask(self, why: str) -> None:
        self.problems["asks", why] = None

    # -- flow -----------------------------------------------------------------------------------

    def _names(self, node: Node) -> None:
        """Note the names that the text itself gives values to."""
        loops: set[str] = set()
        others: set[str] = set()
        for each in nodes(node):
            if isinstance(each, Block):
                loops |= {each.name} - {""}
            else:
                others |= {name for name, _ in each.assigned if not each.words}
                if each.words and _literal(each.words[0]) == "read":
                    others |= {_literal(word) for word in each.words[1:]}
        if not loops.isdisjoint(others):
            raise Refused("unread", "the variable of a loop gets another value")
        for name in loops:
            self._check_name(name)
        self._known |= loops | others

    def _keeps_names(self, node: Node) -> bool:
        """Return whether a node makes, moves and removes no file itself."""
        if not all(
            r.operator in _READING or _literal(r.word) == "/dev/null" for r in node.redirects
        ):
            return False
        return (
            isinstance(node, Block)
            or not node.words
            or _literal(node.words[0]) in self._table.still
        )

    def _check_name(self, name: str) -> None:
        if self._table.assigned.fullmatch(name) is None:
            raise Refused("unread", f"`{name}` may change what programs do: use another name")

    def _run(self, node: Node, folders: _Folders) -> tuple[_Folders, _Folders]:
        """Judge commands; return where the next may run if they succeed, and if they do not."""
        moved = self._moved
        after = self._once(node, folders)
        if self._moved and not moved and isinstance(node, Block) and node.kind in _REPEATED:
            self._once(node, folders)  # what was moved may be used by what precedes it
        return after

    def _once(self, node: Node, folders: _Folders) -> tuple[_Folders, _Folders]:
        self._left -= 1
        if self._left < 0 or len(folders) > _MOST_FOLDERS:
            raise Refused("unread", "there is too much to follow: write fewer commands")
        if isinstance(node, Simple):
            after = self._simple(node, folders, None)[0]
            return after, folders | after
        with _Noted(self.problems):
            self._redirects(node.redirects, folders)
        kind = node.kind
        if kind == "case":
            with _Noted(self.problems):
                self._argument(node.words[0], folders)
        if kind == "pipe":
            return self._pipe(node, folders)
        if kind == "for":
            return self._for(node, folders)
        now, seen = folders, folders
        for part in node.parts:
            good, seen_there = self._run(part, now)
            seen |= seen_there
            now = good if kind == "and" else seen
        if kind == "subshell":
            return folders, folders
        if kind == "loop" and seen != folders:
            raise Refused("outside", "`cd` in a loop: put the loop's commands in `(...)`")
        return now, seen

    def _pipe(self, node: Block, folders: _Folders) -> tuple[_Folders, _Folders]:
        seen, before = folders, None
        for part in node.parts:
            if isinstance(part, Simple):
                after, before = self._simple(part, folders, before)
            else:
                after, before = self._run(part, folders)[1], None
            seen |= after
        return seen, seen

    def _for(self, node: Block, folders: _Folders) -> tuple[_Folders, _Folders]:
        words = [self._argument(word, folders) for word in node.words]
        for value in words or [Argument(UNKNOWN)]:
            self._loops[node.name] = value
            if self._run(node.parts[0], folders)[1] != folders:
                raise Refused("outside", "`cd` in a loop: put the loop's commands in `(...)`")
        self._loops.pop(node.name, None)
        return folders, folders

    # -- words ----------------------------------------------------------------------------------

    def _argument(self, word: Word, folders: _Folders) -> Argument:
        """Return a word with what is known of it; judge the commands in it."""
        texts: list[str] = []
        splits, many = False, False
        for part in word:
            text = part.text
            if part.kind == "glob":
                text, many = GLOBS[text], True
            elif part.kind == "sum":
                text, splits = UNKNOWN, splits or not part.quoted
            elif part.kind in {"variable", "changed"}:
                value = self._variable(part)
                text, splits = value.text, splits or value.splits
            elif part.kind == "output" and part.node == _NPROC:
                text = "1"  # or another number
            elif part.node is not None:
                self._run(part.node, folders)
                text = PIPE if part.kind == "pipe" else UNKNOWN
                splits = splits or not part.quoted
            self._characters_left -= len(text) + 1
            if self._characters_left < 0:
                raise Refused("unread", "there is too much to follow: write fewer words")
            texts.append(text)
        return Argument("".join(texts), splits, many or splits)

    def _operand(self, word: Word, folders: _Folders) -> Argument:
        """Return a word of a command; a pattern that begins it may be followed by names alone."""
        found = self._argument(word, folders)
        if (
            self._is_still
            and word[0].kind == "glob"
            and _PATTERN.fullmatch(found.text)
            and all(map(self._places.has_plain_names, folders))
        ):
            return found._replace(text=f"./{found.text}")
        return found

    def _variable(self, part: Part) -> Argument:
        if part.text == "?":
            return Argument("0")  # or another number
        value = self._loops.get(part.text) if part.kind == "variable" else None
        if value is not None and not value.splits:
            splits = not part.quoted and _SPLITTING.search(value.text) is not None
            return Argument(value.text, splits)
        if part.text not in self._known and part.text not in self._table.printed:
            raise Refused("secret", f"`${part.text}` is from the environment")
        return Argument(UNKNOWN, not part.quoted)

    def _redirects(self, redirects: Sequence[Redirect], folders: _Folders) -> None:
        for each in redirects:
            target = self._argument(each.word, folders)
            if each.operator in {"<", ">", ">>"}:
                if target.many:
                    raise Refused("outside", "a redirection to what is not known")
                self._path("read" if each.operator == "<" else "write", target.text, folders)

    # -- commands -------------------------------------------------------------------------------

    def _simple(
        self, node: Simple, folders: _Folders, before: Reading | None
    ) -> tuple[_Folders, Reading | None]:
        """Judge a command; return where the next may run, and what it was read as."""
        with _Noted(self.problems):
            self._redirects(node.redirects, folders)
            for name, word in node.assigned:
                value = self._argument(word, folders)
                if node.words:
                    self._given(name, value, folders)
                else:
                    self._check_name(name)
            words = [self._operand(word, folders) for word in node.words]
            if words:
                operators = {each.operator for each in node.redirects}
                if not operators.isdisjoint({"<", "<<", "<&"}):
                    before = None  # what is piped into it is not what it reads
                after, found = self._program(words, folders, before)
                return after, None if ">&" in operators else found
        return folders, None

    def _given(self, name: str, value: Argument, folders: _Folders) -> None:
        """Judge a variable that a command gets."""
        kind = self._table.variables.get(name)
        if kind is None:
            raise Refused("program", f"the variable `{name}` may change what the program does")
        self._value(kind, value, folders)
        if kind == "list":
            self._runs(f"{name}=...")

    def _program(
        self, words: Sequence[Argument], folders: _Folders, before: Reading | None
    ) -> tuple[_Folders, Reading | None]:
        """Judge a program with its arguments; return what `_simple` does."""
        try:
            return self._command(words, folders, before)
        except Refused as error:
            if error.kind == "program" and words[0].text in self._table.network:
                raise Refused("network", str(error)) from error
            raise

    def _command(
        self, words: Sequence[Argument], folders: _Folders, before: Reading | None
    ) -> tuple[_Folders, Reading | None]:
        name, args, inner = words[0].text, words[1:], []
        if words[0].many or _PROGRAM.fullmatch(name) is None:
            raise Refused("unread", "the name of a program is only known when it runs")
        if self._depth == _MOST_DEPTH:
            raise Refused("unread", "commands are nested too deep")
        if name == "find":
            args, inner = _cut(args)
        if name == "tar" and args and not args[0].text.startswith("-"):
            if _TAR.fullmatch(args[0].text) is None:
                raise Refused("program", "`tar`: write `f` once, as the last letter, or `-`")
            args = [args[0]._replace(text=f"-{args[0].text}"), *args[1:]]
        found = read(name, self._entry(name, folders), args)._replace(args=words[1:])
        for entry in found.entries:
            asks = entry.asks and entry.shows.isdisjoint(found.options)
            if asks or not entry.fetches.isdisjoint(found.options):
                self._ask(f"`{found.name}` is asked about")
            if entry.runs or "/" in name:
                self._runs(found.name)
        if name == "git" and not self._is_own(folders):
            self._runs(
                "git` with the settings of a directory that is not the workspace's own, `git"
            )
        elif name == "git" and self._places.has_programs_of_git:
            self._runs("git` with settings that name programs or files, `git")
        if ("/" in name and found.entries == [_FREE]) or found.name == "yarn run":
            self._code(args)
        if name == "npx":
            self._npx(found.name, folders)
        self._depth += 1
        try:
            self._values(found, folders, before)
            for each in inner:
                self._on_found(each, found, folders, _found_by(found, "-exec"))
        finally:
            self._depth -= 1
        if inner:
            found.options.add("-exec")
        self._moved = self._moved or _moves(found)
        if name == "cd":
            after = {posixpath.join(each, found.operands[0][1].text) for each in folders}
            # To a shell `link/..` is the directory of the link, to the system that of its target.
            system = {each for each in after if ".." in each}
            return frozenset({*map(posixpath.normpath, after), *system}), found
        return folders, found

    def _entry(self, name: str, folders: _Folders) -> Entry:
        """Return the entry of a program, which may be named by its path in the workspace."""
        plain = posixpath.basename(name)
        entry = self._table.programs.get(plain)
        if "/" in name:
            is_installed = entry is not None and _INSTALLED.fullmatch(name) is not None
            self._path("read", posixpath.dirname(name) if is_installed else name, folders)
            is_other = not is_installed and any(self._places.is_link(name, f) for f in folders)
            return _FREE if entry is None or is_other else entry
        if name in self._programs:
            return _FREE
        if entry is None:
            raise Refused("program", f"`{name}` is not on the list of programs")
        return entry

    def _code(self, args: Sequence[Argument]) -> None:
        """Ask about code in the options of a program that may be an interpreter."""
        for option, value in itertools.pairwise([*(each.text for each in args), ""]):
            if _CODE_OPTION.match(option) and _CODE.search(option + value):
                self._ask(f"the code behind `{option}` is asked about")

    def _npx(self, name: str, folders: _Folders) -> None:
        """Judge a program of `node_modules`, or ask: npx installs what is missing."""
        tool = f"node_modules/.bin/{name.removeprefix('npx ')}"
        if not all(self._places.has(tool, each) for each in folders):
            self._ask(f"`{name}` installs what is not in `node_modules`")
        for folder in folders:
            self._places.check("read", tool, folder)

    def _on_found(
        self, words: Sequence[Argument], finding: Reading, folders: _Folders, names: str
    ) -> None:
        """Judge a command for what `find` prints; `names` is a form of it, if there is one."""
        if [each.text for each in words] in _REMOVING and _CACHES.fullmatch(names):
            return
        problems = len(self.problems)
        found = self._program(words, folders, None)[1]
        if len(self.problems) > problems or found is None:
            raise Refused("program", f"`{words[0].text}` may not run on what `find` finds")
        if all(kind == "look" for kind, value in found.given if value.text == FOUND):
            return
        is_read = all(
            kind in {"look", "read"} for kind, value in found.given if value.text == FOUND
        )
        kept = Kept((names,)) if is_read and _ENDING.fullmatch(names) else ALL
        for _, value in finding.operands:
            self._path("linked", value.text, folders, kept)

    # -- values ---------------------------------------------------------------------------------

    def _values(self, found: Reading, folders: _Folders, before: Reading | None) -> None:
        """Judge the values and operands of a command."""
        commands = [value for kind, value in found.given if kind == "command"]
        modules = [value for kind, value in found.given if kind == "module"]
        while found.name == "env" and commands:
            assigned = _ASSIGNED.fullmatch(commands[0].text)
            if assigned is None:
                break
            self._given(assigned[1], commands.pop(0)._replace(text=assigned[2]), folders)
        if found.name == "xargs":
            if before is None or not _lists(before) or "-0" not in found.options:
                raise Refused("program", "`xargs`: write `find ... -print0 | xargs -0 ...`")
            names = _found_by(before, "-print0")
            self._on_found([*commands, Argument(FOUND)], before, folders, names)
        elif commands or found.name == "env":
            if not commands:
                raise Refused("secret", "`env` prints the environment")
            if commands[0].text == "cd":
                raise Refused("program", "`cd` is started by another program")
            self._program(commands, folders, None)
        if found.name == "cp" and re.search(
            f"ignore|{FOUND}", "".join(v.text for _, v in found.operands)
        ):
            self._places.trust_nothing()
        if modules:
            self._program([Argument("python -m"), *modules], folders, None)
        kept = _kept(found)
        for kind, value in found.given:
            if kind in TREES and kind not in self._handlers:
                self._path(kind, value.text, folders, kept)
            elif kind not in {"command", "module"}:
                self._value(kind, value, folders)
        if "-delete" in found.options:
            names = _found_by(found, "-delete")
            if _DELETED.fullmatch(names) is None:
                raise Refused("program", "`-delete`: write `find FOLDER -name '*.pyc' -delete`")
            for _, value in found.operands:
                self._path("tree", value.text, folders, Kept((names,)))
        self._into(found, folders)
        if "-i" in found.options and found.operands and found.operands[0][0] == "sed":
            for _, value in found.operands[1:2]:
                self._sed_of_bsd(value.text, folders)
                if not found.operands[0][1].text:
                    self._value("sed", value, folders)
        if found.name == "printf" and _COUNTING.search(found.operands[0][1].text):
            for _, value in found.operands[1:]:
                self._value("count", value, folders)  # some shells calculate what it says

    def _into(self, found: Reading, folders: _Folders) -> None:
        """Judge what a command puts into a directory, which may be its last operand."""
        if not found.operands or found.operands[-1][0] != "write":
            return
        entry, target = found.entries[-1], found.operands[-1][1].text
        moves = _moves(found)
        for _, source in found.operands[:-1]:
            if source.text == FOUND and not moves:
                self._path("filled", target, folders)
                continue
            inside = posixpath.join(target, posixpath.basename(source.text))
            self._path("write", inside, folders)
            if not entry.trees.isdisjoint(found.options):
                self._path("copied", source.text, folders)
                self._path("filled", inside, folders)
            elif moves:
                self._path("moved", source.text, folders)

    def _value(self, kind: str, value: Argument, folders: _Folders) -> None:
        text = value.text
        if kind in self._handlers:
            self._handlers[kind](text, folders)
        elif kind in _PATHS:
            self._path(kind, text, folders)
        elif kind == "ask":
            self._ask(f"`{text}` is asked about")
        elif kind in SCRIPTS:
            if _OPEN.search(text) or not SCRIPTS[kind](text):
                raise Refused("program", f"this program for `{kind}` does not only change text")
        elif kind not in {"text", "pair"}:
            self._form(kind, text)

    def _form(self, kind: str, text: str) -> None:
        if _OPEN.search(text) or self._table.forms[kind].fullmatch(text) is None:
            raise Refused("program", f"`{text}` is not on the list")

    def _path(self, use: str, path: str, folders: _Folders, kept: Kept = ALL) -> None:
        if self._moved and (path != "." or use in TREES):
            why = "after a command that may change where paths lead: put it in a call of its own"
            raise Refused("outside", f"a path {why}")
        for folder in folders:
            self._places.check(use, path, folder, kept)

    def _paths(self, text: str, folders: _Folders) -> None:
        if "=" in text:
            raise Refused("outside", f"`{text}` may be read as another path")
        for path in text.split(":"):
            self._path("read", path, folders)

    def _rev(self, text: str, folders: _Folders) -> None:
        """Judge what git takes for a revision, a path or pattern, or both with a colon."""
        shown = text.translate(WILD)
        if re.search(r"[*?\[\\]|^:[^A-Za-z0-9_./]", shown) and not _GIT_PATTERN.fullmatch(shown):
            raise Refused("secret", f"`{shown}` may be a pattern of git: write paths or `*.py`")
        if self._moved and _REVISION.fullmatch(text) is None:
            self._path("read", text, folders)
        for part in text.split(":"):
            for folder in folders:
                self._places.check("read", part, folder)

    def _tests(self, text: str, folders: _Folders) -> None:
        """Judge a file with tests, which may be followed by one of them, or its line."""
        found = _TESTS.fullmatch(text)
        if found is None:
            raise Refused("program", f"`{text}` is not on the list: write `file::test`")
        self._path("read", found[1], folders)

    def _rewritten(self, text: str, folders: _Folders) -> None:
        """Judge a directory whose files are read and written, behind links too."""
        self._path("write", text, folders)
        self._path("opened", text, folders)

    def _compared(self, text: str, folders: _Folders) -> None:
        """Judge what `git diff` takes; outside a repository it reads directories like `diff`."""
        self._rev(text, folders)
        if not self._is_own(folders) and ":" not in text:
            self._path("linked", text, folders)

    def _lines(self, text: str, folders: _Folders) -> None:
        """Judge lines of a file, as in ``1,9:x.py``."""
        self._form("lines", text)
        self._rev(text.partition(":")[2], folders)

    def _target(self, text: str, folders: _Folders) -> None:
        """Judge what is built, which may be a file."""
        self._form("target", text)
        if "/" in text:
            self._path("write", text, folders)

    def _yq(self, text: str, folders: _Folders) -> None:
        """Judge a program for yq, which takes the name of a file or of a subcommand instead."""
        if _OPEN.search(text) or _YQ.search(text.strip()) is not None:
            raise Refused("program", "this program for `yq` does not only change text")
        self._path("read", f"./{text}", folders)

    def _sed_of_bsd(self, text: str, folders: _Folders) -> None:
        """Judge the first file of `sed -i`, which BSD's takes for the program."""
        script = _BSD_SED.fullmatch(text)
        if script is not None and script[1] is None:
            raise Refused("program", f"`{text}` may be a program for `sed`: write it from `./`")
        if script is not None:
            self._path("read" if script[1] == "r" else "write", script[2].strip(), folders)

    def _is_own(self, folders: _Folders) -> bool:
        """Return whether commands run where the workspace's own repository is."""
        return folders == _HERE and self._places.has(".git", "")

    def _context(self, text: str, folders: _Folders) -> None:
        """Judge a directory that docker gets, which also takes hosts such as `github.com/a/b`."""
        if re.match(r"(?!\.)[^/]*[.@]", text):
            raise Refused("network", f"`{text}` may be on another host: write it from `./`")
        self._tracked(text, folders)

    def _method(self, text: str, _folders: _Folders) -> None:
        if text not in {"GET", "HEAD", "OPTIONS"}:
            self._ask(f"`{text}` is asked about")

    def _tracked(self, text: str, folders: _Folders) -> None:
        """Judge what git adds, with patterns of its own, or a directory that docker gets."""
        if text == "-":
            self._ask("what is only in the command is asked about")
        shown = text.translate(WILD)
        self._path("tracked", "." if re.search(r"[*?\[\\]|^:", shown) else text, folders)

    def _removed(self, text: str, folders: _Folders) -> None:
        """Judge what git removes, with patterns of its own."""
        if _OPEN.search(text) or re.search(r"[*?\[\\]|^:|ignore", text, re.IGNORECASE):
            self._places.trust_nothing()
        self._path("look", text, folders)

    def _repository(self, text: str, folders: _Folders) -> None:
        """Judge a directory that becomes a repository, in which other files are ignored."""
        self._places.trust_nothing()
        self._path("write", text, folders)

    def _settings(self, text: str, folders: _Folders) -> None:
        """Judge git in a directory, where it prints the addresses of its settings."""
        for folder in folders:
            self._places.check_addresses(posixpath.join(folder, text))

    def _setting(self, text: str, folders: _Folders) -> None:
        self._form("named_setting", text)
        if text.startswith(("remote.", "branch.")):
            self._settings(".", folders)

    def _quoted(self, text: str, folders: _Folders) -> None:
        """Judge a pattern that the program itself reads."""
        if ".." in text or _QUOTED.fullmatch(text) is None:
            raise Refused("outside", f"`{text}` may lead out of the workspace")
        fixed = re.split(r"[*{]", text)[0]
        folder = posixpath.dirname(fixed) or "."
        self._path("opened", text if fixed == text else folder, folders)

    def _activate(self, text: str, folders: _Folders) -> None:
        if _ACTIVATE.fullmatch(text) is None:
            raise Refused("program", "`source`: only `.venv/bin/activate` is on the list")
        self._path("read", text, folders)

    def _link(self, text: str, folders: _Folders) -> None:
        if ".." in text:
            raise Refused("outside", "a link that climbs")
        self._path("read", text, folders)

    def _source(self, text: str, folders: _Folders) -> None:
        if _SOURCE.search(text) is None:
            raise Refused("program", f"`{text}` is not a file for a compiler")
        self._path("read", text, folders)

    def _module_path(self, text: str, folders: _Folders) -> None:
        if _MODULE_PATH.fullmatch(text) is None:
            raise Refused("network", f"`{text}` may be a package of others: write it from `./`")
        self._path("read", text, folders)

    def _package(self, text: str, _folders: _Folders) -> None:
        if _OWN_PACKAGE.fullmatch(text) is None:
            self._ask(f"to install `{text}` is asked about")

    def _exported(self, text: str, folders: _Folders) -> None:
        assigned = _ASSIGNED.fullmatch(text)
        if assigned is None:
            raise Refused("program", "`export`: write NAME=value")
        self._given(assigned[1], Argument(assigned[2]), folders)

    def _test(self, text: str, _folders: _Folders) -> None:
        if _TEST.fullmatch(text.replace(UNKNOWN, "")) is None:
            raise Refused("program", f"`{text}` is not on the list for `[`")

    def _folder(self, text: str, folders: _Folders) -> None:
        if text[:1] in {"-", "+"}:
            raise Refused("outside", "`cd -` leads to what is not known")
        self._path("look", text, folders)

    def _name(self, text: str, _folders: _Folders) -> None:
        self._check_name(text)

    def _number(self, text: str, _folders: _Folders) -> None:
        if _NUMBER.fullmatch(text.replace(UNKNOWN, "")) is None:
            raise Refused("program", f"`{text}` is not a number")

    def _script(self, text: str, folders: _Folders) -> None:
        if text == "-":
            self._ask("a program that is only in the command is asked about")
        elif text == PIPE:
            raise Refused("unread", "a program is only known when it runs")
        else:
            self._path("read", text, folders)

    def _own_script(self, text: str, folders: _Folders) -> None:
        """Judge a script that a shell runs: what has no directory, it also looks for elsewhere."""
        if "/" not in text and text not in {"-", PIPE}:
            raise Refused("program", f"`{text}` may be a program of the system: write `./{text}`")
        self._script(text, folders)

    def _any(self, text: str, folders: _Folders) -> None:
        """Judge an argument of a program that is not known: each path that it may be."""
        name = text.partition("=")[0]
        if re.search(r"[~$]|%\w+%", text) or (name[:1] == "-" and re.search(r"/|\.\.", name)):
            raise Refused("outside", f"`{text}`: write the option and its path as two words")
        is_short = name.startswith("-") and not name.startswith("--")
        for part in (*_PLACE.findall(text), name[2:] if is_short else ""):
            if part not in {"", "-"}:
                self._path("read", part, folders)


def _kept(found: Reading) -> Kept:
    """Return what grep and rg keep of a directory, where it is certain."""
    given: dict[str, list[str]] = {"glob": [], "included": [], "excluded": [], "left_out": []}
    for kind, value in found.given:
        given.get(kind, []).append(value.text)
    only = [*given["glob"], *given["included"]]
    if given["excluded"] or not all(map(_ENDING.fullmatch, only)):
        only = []
    return Kept(tuple(only), frozenset(given["left_out"]))


def _found_by(finding: Reading, action: str) -> str:
    """Return the form of all names that `find` hands to an action, or nothing."""
    texts = [each.text for each in finding.args]
    before = texts[: texts.index(action)]
    names = [text for option, text in itertools.pairwise(before) if option == "-name"]
    used = {*finding.options, *(value.text for _, value in finding.operands)}
    return names[0] if names and _CHOOSING.isdisjoint(used) else ""


def _lists(found: Reading) -> bool:
    """Return whether a command prints names with an end that no name has, and nothing else."""
    return "-print0" in found.options and _PRINTING.isdisjoint(found.options)


def _moves(found: Reading) -> bool:
    """Return whether a command may change where paths lead."""
    moves = found.entries[-1].moves
    return "*" in moves or not moves.isdisjoint(found.options)


def _cut(args: Sequence[Argument]) -> tuple[list[Argument], list[list[Argument]]]:
    """Return the arguments of `find` without the commands that it runs, and these."""
    kept: list[Argument] = []
    commands: list[list[Argument]] = []
    inner: list[Argument] | None = None
    for arg in args:
        if inner is None and arg.text == "-exec":
            inner = []
        elif inner is None:
            kept.append(arg)
        elif arg.text in {";", "+"}:
            commands.append(inner)
            inner = None
        elif arg.text == "{}" or "{}" not in arg.text:
            inner.append(Argument(FOUND) if arg.text == "{}" else arg)
        else:
            raise Refused("program", "`find -exec`: write `{}` as a word of its own")
    if inner is not None or not all(Argument(FOUND) in each[1:] for each in commands):
        raise Refused("program", "`find -exec` needs a command with `{}`, and its end")
    return kept, commands


def _check_typed(text: str) -> None:
    """Refuse what is a key or history to a terminal, also in here-documents, or gets out of step.

    A program that is started before may read the first of several lines that belong together.
    """
    if "\t" in text or _HISTORY.search(text):
        raise Refused("unread", "a TAB, or a `!` without a blank behind it, in text for a terminal")
    whole = parse(text)
    if len(whole.parts) > 1 and any(map(_has_lines, nodes(whole))):
        raise Refused(
            "unread", "text for a terminal with lines that belong together: use two calls"
        )


def _has_lines(node: Node) -> bool:
    return any(each.operator == "<<" for each in node.redirects) or any(
        "\n" in part.text for word in _words(node) for part in word
    )


def _literal(word: Word) -> str:
    return "".join(part.text for part in word)


def _check_sums(whole: Block) -> None:
    """Refuse sums with names that may not be numbers, since shells calculate what their value says.

    A name is a number if a command of its own has made it one before, and nothing else than numbers
    and sums is assigned to it anywhere.
    """
    others: set[str] = set()
    for node in nodes(whole):
        if isinstance(node, Block):
            others.add(node.name)
            continue
        others |= {name for name, word in node.assigned if not all(map(_is_number, word))}
        if node.words and _literal(node.words[0]) == "read":
            others |= {_literal(word) for word in node.words[1:]}
    numbers: set[str] = set()
    for part in whole.parts:
        used = {
            name
            for node in nodes(part)
            for word in _words(node)
            for each in word
            if each.kind == "sum"
            for name in _NAME.findall(each.text)
        }
        if not used <= numbers - others:
            raise Refused("unread", "a sum of what may not be a number: begin with `x=0` on a line")
        if isinstance(part, Simple) and not part.words and not part.redirects:
            numbers |= {name for name, _ in part.assigned}


def _is_number(part: Part) -> bool:
    return part.kind == "sum" or (part.kind == "text" and _DIGITS.fullmatch(part.text) is not None)


def _words(node: Node) -> list[Word]:
    """Return the words of a node itself."""
    words = [*node.words, *(each.word for each in node.redirects)]
    return words if isinstance(node, Block) else [*words, *(word for _, word in node.assigned)]


def nodes(node: Node) -> Iterator[Node]:
    """Yield a node and all in it, those in words too."""
    yield node
    if isinstance(node, Block):
        for part in node.parts:
            yield from nodes(part)
    for word in _words(node):
        for part in word:
            if part.node is not None:
                yield from nodes(part.node)
