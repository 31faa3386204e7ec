"""Judges the values of options and operands, each by its kind in the table."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from otelhooks.policy.shells.nodes import Refused
from otelhooks.policy.shells.options import (
    COMMIT,
    FOUND,
    GLOBS,
    NUMBER,
    PIPE,
    TOP,
    UNKNOWN,
    Argument,
)
from otelhooks.policy.shells.places import ALL, TREES, WILD, Kept, Places
from otelhooks.policy.shells.scripts import SCRIPTS
from otelhooks.policy.shells.table import table

__all__ = ["ASSIGNED", "HERE", "MARKS", "Folders", "Kinds"]

Folders: TypeAlias = "frozenset[str]"
"""Directories that a command may run in, relative to the working directory of the call."""

HERE = frozenset(("",))
MARKS = "".join((UNKNOWN, NUMBER, COMMIT, PIPE, FOUND, *GLOBS.values()))
_UNKNOWN = re.compile(f"[{UNKNOWN}{NUMBER}]")
_OPEN = re.compile(f"[{MARKS}]")
ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_NUMBER = re.compile(r"[-+]?[0-9.,:]*[A-Za-z%]{0,2}")
_EXACT = frozenset(("local", "mode", "shown"))
"""Forms for which it matters which number is in the text, or whether there is one."""
_TEST = re.compile(r"[\]=!<>A-Za-z0-9_.:@%+,/ -]*")
_ACTIVATE = re.compile(r"(?:\./)?\.?venv/bin/activate")
_TESTS = re.compile(rf"([^:\[\\]+)(?:::[^{MARKS}]*|:[0-9]+)?")
_OWN_TESTS = re.compile(r"tests|test_\w+")
_TEST_NAME = re.compile(r"(?:\w+\.)*(?:\w*[Tt]est\w*|[A-Z]\w*)|tests\.\w+")
_SOURCE = re.compile(r"\.(?:c|cc|cpp|cxx|h|hpp|o|a|s|S)$")
_MODULE_PATH = re.compile(r"\.(?:/[A-Za-z0-9_./-]*)?|[A-Za-z0-9_/]+\.go")
_OWN_PACKAGE = re.compile(r"\.(?:\[[A-Za-z0-9,_-]+\])?")
_PATHS = frozenset(("look", "read", "write", "remove", *TREES))
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
_REVISION = re.compile(r"[A-Za-z0-9_.~^@{}-]*[A-Za-z0-9_~^@}]")
_PLACE = re.compile(rf"[\w./+{MARKS}-]+")


class Kinds:
    """What the kinds of values mean, and what speaks against values.

    Args:
        places: The places that commands may use.
        shell: Judges a text for a shell.

    Attributes:
        problems: Kind and sentence of each problem.
        moved: Whether a command may have changed where paths lead.
    """

    def __init__(self, places: Places, shell: Callable[[str, Folders], None]) -> None:
        self.problems: dict[tuple[str, str], None] = {}
        self.moved = False
        self._places = places
        self._table = table()
        self._handlers: Mapping[str, Callable[[str, Folders], None]] = {
            "activate": self._activate,
            "any": self._any,
            "context": self._context,
            "environment": self._environment,
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
            "shell": shell,
            "compared": self._compared,
            "lines": self._lines,
            "source": self._source,
            "target": self._target,
            "test": self._test,
            "tests": self._tests,
            "test_name": self._test_name,
            "yq": self._yq,
            "tracked": self._tracked,
        }

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of values that it knows, beside forms, commands and texts."""
        return frozenset((*self._handlers, *_PATHS, *SCRIPTS))

    def runs(self, name: str) -> None:
        """Note that a program runs code of the workspace."""
        self.problems["runs", f"`{name}` runs what is in the workspace"] = None

    def ask(self, why: str) -> None:
        """Note what people are asked about."""
        self.problems["asks", why] = None

    def check_name(self, name: str) -> None:
        """Refuse a variable that may change what programs do."""
        if self._table.assigned.fullmatch(name) is None:
            raise Refused("unread", f"`{name}` may change what programs do: use another name")

    def given(self, name: str, value: Argument, folders: Folders) -> None:
        """Judge a variable that a command gets."""
        kind = self._table.variables.get(name)
        if kind is None:
            raise Refused("program", f"the variable `{name}` may change what the program does")
        self.judge(kind, value, folders)
        if kind == "list":
            self.runs(f"{name}=...")

    def judge(self, kind: str, value: Argument, folders: Folders, kept: Kept = ALL) -> None:
        """Judge a value of a kind; `kept` is what is kept of a directory that is searched."""
        text = value.text
        if kind in self._handlers:
            self._handlers[kind](text, folders)
        elif kind in _PATHS:
            self.path(kind, text, folders, kept if kind in TREES else ALL)
        elif kind == "ask":
            self.ask(f"`{text}` is asked about")
        elif kind in SCRIPTS:
            if _OPEN.search(text) or not SCRIPTS[kind](text):
                raise Refused("program", f"this program for `{kind}` does not only change text")
        elif kind not in {"text", "pair"}:
            self._form(kind, text)

    def _form(self, kind: str, text: str) -> None:
        texts = [text.replace(NUMBER, "0")] if kind not in _EXACT else [text]
        if text.strip(NUMBER):
            texts.append(text.replace(NUMBER, ""))
        form = self._table.forms[kind]
        if any(_OPEN.search(each) or form.fullmatch(each) is None for each in texts):
            raise Refused("program", f"`{text}` is not on the list of values of the kind `{kind}`")

    def path(self, use: str, path: str, folders: Folders, kept: Kept = ALL) -> None:
        """Judge a path, from each directory where the command may run."""
        if self.moved and (path != "." or use in TREES):
            why = "a command that may change where paths lead: put it in a call of its own"
            raise Refused("outside", f"`{path}` comes after {why}")
        for folder in folders:
            self._places.check(use, path, folder, kept)

    def _paths(self, text: str, folders: Folders) -> None:
        if "=" in text:
            raise Refused("outside", f"`{text}` may be read as another path")
        for path in text.split(":"):
            self.path("read", path, folders)

    def _rev(self, text: str, folders: Folders) -> None:
        """Judge what git takes for a revision, a path or pattern, or both with a colon."""
        if text == COMMIT:
            return
        shown = text.translate(WILD)
        if re.search(r"[*?\[\\]|^:[^A-Za-z0-9_./]", shown) and not _GIT_PATTERN.fullmatch(shown):
            raise Refused("secret", f"`{shown}` may be a pattern of git: write paths or `*.py`")
        if self.moved and _REVISION.fullmatch(text) is None:
            self.path("read", text, folders)
        for part in text.split(":"):
            for folder in folders:
                self._places.check("read", part, folder)

    def _tests(self, text: str, folders: Folders) -> None:
        """Judge a file with tests, which may be followed by one of them, or its line."""
        found = _TESTS.fullmatch(text)
        if found is None:
            raise Refused("program", f"`{text}` is not on the list: write `file::test`")
        self.path("read", found[1], folders)

    def _test_name(self, text: str, folders: Folders) -> None:
        """Judge what unittest imports, from anywhere, and calls if it is a function."""
        first = text.split(".")[0]
        is_own = _OWN_TESTS.fullmatch(first) or all(
            self._places.has(first, each) or self._places.has(f"{first}.py", each)
            for each in folders
        )
        if not text.endswith(".py") and not (is_own and _TEST_NAME.fullmatch(text)):
            raise Refused("program", f"`{text}` may be no test: write a file as in `x/test_y.py`")
        self.path("read", text, folders)

    def _rewritten(self, text: str, folders: Folders) -> None:
        """Judge a directory whose files are read and written, behind links too."""
        self.path("write", text, folders)
        self.path("opened", text, folders)

    def _compared(self, text: str, folders: Folders) -> None:
        """Judge what `git diff` takes; outside a repository it reads directories like `diff`."""
        self._rev(text, folders)
        if not self.is_own(folders) and ":" not in text:
            self.path("linked", text, folders)

    def _lines(self, text: str, folders: Folders) -> None:
        """Judge lines of a file, as in ``1,9:x.py``."""
        self._form("lines", text)
        self._rev(text.partition(":")[2], folders)

    def _target(self, text: str, folders: Folders) -> None:
        """Judge what is built, which may be a file."""
        self._form("target", text)
        if "/" in text:
            self.path("write", text, folders)

    def _yq(self, text: str, folders: Folders) -> None:
        """Judge a program for yq, which takes the name of a file or of a subcommand instead."""
        if _OPEN.search(text) or _YQ.search(text.strip()) is not None:
            raise Refused("program", "this program for `yq` does not only change text")
        self.path("read", f"./{text}", folders)

    def sed_of_bsd(self, text: str, folders: Folders) -> None:
        """Judge the first file of `sed -i`, which BSD's takes for the program."""
        script = _BSD_SED.fullmatch(text)
        if script is not None and script[1] is None:
            raise Refused("program", f"`{text}` may be a program for `sed`: write it from `./`")
        if script is not None:
            self.path("read" if script[1] == "r" else "write", script[2].strip(), folders)

    def is_own(self, folders: Folders) -> bool:
        """Return whether commands run where the workspace's own repository is."""
        return folders == HERE and self._places.has(".git", "")

    def _context(self, text: str, folders: Folders) -> None:
        """Judge a directory that docker gets, which also takes hosts such as `github.com/a/b`."""
        if re.match(r"(?!\.)[^/]*[.@]", text):
            raise Refused("network", f"`{text}` may be on another host: write it from `./`")
        self._tracked(text, folders)

    def _method(self, text: str, _folders: Folders) -> None:
        if text not in {"GET", "HEAD", "OPTIONS"}:
            self.ask(f"`{text}` is asked about")

    def _tracked(self, text: str, folders: Folders) -> None:
        """Judge what git adds, with patterns of its own, or a directory that docker gets."""
        if text == "-":
            self.ask("what is only in the command is asked about")
        shown = text.translate(WILD)
        if shown.startswith(":"):
            text = TOP
        elif re.search(r"[*?\[\\]", shown):
            text = TOP if ".." in shown else "."
        self.path("tracked", text, folders)

    def _removed(self, text: str, folders: Folders) -> None:
        """Judge what git removes, with patterns of its own."""
        if _OPEN.search(text) or re.search(r"[*?\[\\]|^:|ignore", text, re.IGNORECASE):
            self._places.trust_nothing()
        self.path("look", text, folders)

    def _repository(self, text: str, folders: Folders) -> None:
        """Judge a directory that becomes a repository, in which other files are ignored."""
        self._places.trust_nothing()
        self.path("write", text, folders)

    def _settings(self, text: str, folders: Folders) -> None:
        """Judge git in a directory, where it prints the addresses of its settings."""
        for folder in folders:
            self._places.check_addresses(posixpath.join(folder, text))

    def _setting(self, text: str, folders: Folders) -> None:
        self._form("named_setting", text)
        if text.startswith(("remote.", "branch.")):
            self._settings(".", folders)

    def _quoted(self, text: str, folders: Folders) -> None:
        """Judge a pattern that the program itself reads."""
        if ".." in text or _QUOTED.fullmatch(text) is None:
            raise Refused("outside", f"`{text}` may lead out of the workspace")
        fixed = re.split(r"[*{]", text)[0]
        folder = posixpath.dirname(fixed) or "."
        self.path("opened", text if fixed == text else folder, folders)

    def _activate(self, text: str, folders: Folders) -> None:
        if _ACTIVATE.fullmatch(text) is None:
            raise Refused("program", "`source`: only `.venv/bin/activate` is on the list")
        self.path("read", text, folders)

    def _link(self, text: str, folders: Folders) -> None:
        if ".." in text:
            raise Refused("outside", f"`{text}` climbs, and a link would lead there")
        self.path("read", text, folders)

    def _source(self, text: str, folders: Folders) -> None:
        if _SOURCE.search(text) is None:
            raise Refused("program", f"`{text}` is not a file for a compiler")
        self.path("read", text, folders)

    def _module_path(self, text: str, folders: Folders) -> None:
        if _MODULE_PATH.fullmatch(text) is None:
            raise Refused("network", f"`{text}` may be a package of others: write it from `./`")
        self.path("read", text, folders)

    def _package(self, text: str, _folders: Folders) -> None:
        if _OWN_PACKAGE.fullmatch(text) is None:
            self.ask(f"to install `{text}` is asked about")

    def _environment(self, text: str, folders: Folders) -> None:
        """Judge a directory for packages, which may be a link."""
        self._form("packages", text)
        self.path("read", text, folders)

    def _exported(self, text: str, folders: Folders) -> None:
        assigned = ASSIGNED.fullmatch(text)
        if assigned is None:
            raise Refused("program", "`export`: write NAME=value")
        self.given(assigned[1], Argument(assigned[2]), folders)

    def _test(self, text: str, _folders: Folders) -> None:
        if _TEST.fullmatch(_UNKNOWN.sub("", text)) is None:
            raise Refused("program", f"`{text}` is not on the list for `[`")

    def _folder(self, text: str, folders: Folders) -> None:
        if text[:1] in {"-", "+"}:
            raise Refused("outside", "`cd -` leads to what is not known")
        self.path("look", text, folders)

    def _name(self, text: str, _folders: Folders) -> None:
        self.check_name(text)

    def _number(self, text: str, _folders: Folders) -> None:
        if _NUMBER.fullmatch(_UNKNOWN.sub("", text)) is None:
            raise Refused("program", f"`{text}` is not a number")

    def _script(self, text: str, folders: Folders) -> None:
        if text == "-":
            self.ask("a program that is only in the command is asked about")
        elif text == PIPE:
            raise Refused("unread", f"`{text}` is a program that is only known when it runs")
        else:
            self.path("read", text, folders)

    def _own_script(self, text: str, folders: Folders) -> None:
        """Judge a script that a shell runs: what has no directory, it also looks for elsewhere."""
        if "/" not in text and text not in {"-", PIPE}:
            raise Refused("program", f"`{text}` may be a program of the system: write `./{text}`")
        self._script(text, folders)

    def _any(self, text: str, folders: Folders) -> None:
        """Judge an argument of a program that is not known: each path that it may be."""
        name = text.partition("=")[0]
        if re.search(r"[~$`]|%\w+%", text) or (name[:1] == "-" and re.search(r"/|\.\.", name)):
            raise Refused("outside", f"`{text}`: write the option and its path as two words")
        is_short = name.startswith("-") and not name.startswith("--")
        whole = [text] if any(self._places.has(text, folder) for folder in folders) else []
        for part in (*whole, *_PLACE.findall(text), name[2:] if is_short else ""):
            if part not in {"", "-"}:
                self.path("read", part, folders)
