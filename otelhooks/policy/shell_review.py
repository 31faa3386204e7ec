"""What a text of commands would do, where it is certain before it runs.

The text is followed as a shell runs it: folders after `cd`, values of variables, both ways of a
branch, loops until nothing changes. The programs are known to `otelhooks.policy.shell_programs`.
No file is looked at here: paths are noted, relative to the folder where the text starts.
"""

from __future__ import annotations

import functools
import itertools
import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from otelhooks.policy import shell_programs as known
from otelhooks.policy import shell_words
from otelhooks.policy.shell_syntax import (
    GLOB,
    Block,
    Function,
    Node,
    Part,
    Redirect,
    Simple,
    Unread,
    Word,
    parse,
)
from otelhooks.policy.shell_variables import MOST, NUMBER, UNKNOWN

__all__ = ["Argument", "Command", "Review", "review"]

_MOST_STEPS = 2_000
_MOST_PATHS = 1_000
_MOST_TURNS = 8

_NUMERIC = re.compile(rf"[0-9{NUMBER}-]*")
_SPLITS = re.compile(rf"[\s*?\[{GLOB}{UNKNOWN}]")
_SPECIAL_FILES = frozenset("- /dev/null /dev/stdin /dev/stdout /dev/stderr /dev/zero".split())
_NETWORK_FILE = re.compile(r"/+dev/+(?:tcp|udp)/")
_FILE_TEST = re.compile("-[abcdefgkprsuwxGLNOS]|-[no]t|-ef")
_COMPARING = frozenset("-eq -ne -lt -le -gt -ge".split())


_METHODS = {
    "list": "_list",
    "group": "_list",
    "&&": "_and",
    "||": "_or",
    "|": "_pipe",
    "&": "_subshell",
    "subshell": "_subshell",
    "if": "_if",
    "loop": "_loop",
    "for": "_for",
    "case": "_case",
    "[[": "_test",
}
_BUILTINS = {
    "cd": "_cd",
    "exit": "_leave",
    "return": "_leave",
    "read": "_read",
    "export": "_export",
    "local": "_export",
    "set": "_set",
    "eval": "_eval",
    "[": "_bracket",
    "test": "_bracket",
    "unset": "_unset",
}


class Argument(NamedTuple):
    """A word of a command.

    Attributes:
        values: Each value that it may have.
        spreads: Whether it may also be several words, or none.
    """

    values: frozenset[str]
    spreads: bool = False

    @property
    def text(self) -> str | None:
        """The value, if only one is possible and all of it is known."""
        if self.spreads or len(self.values) != 1:
            return None
        (value,) = self.values
        return None if UNKNOWN in value or GLOB in value or NUMBER in value else value


class Command(NamedTuple):
    """A simple command that runs.

    Attributes:
        words: Its program and arguments.
        before: The command whose output it reads; None if several commands write it.
    """

    words: tuple[Argument, ...]
    before: Command | None = None


class Review(NamedTuple):
    """What was found.

    Attributes:
        problems: Kind and sentence of each thing that speaks against running the text.
        paths: Use (``read``, ``write`` or ``remove``) and path of each file that it names.
    """

    problems: tuple[tuple[str, str], ...]
    paths: tuple[tuple[str, str], ...]


class _State(NamedTuple):
    """Where commands run, and values of variables that the text has set."""

    folders: frozenset[str] = frozenset(("",))
    variables: dict[str, frozenset[str]] = {}  # noqa: RUF012  never changed in place

    def values(self, name: str) -> frozenset[str]:
        return self.variables.get(name, _ANY)

    def having(self, name: str, values: frozenset[str]) -> _State:
        kept = values if len(values) <= MOST else _ANY
        return self._replace(variables={**self.variables, name: kept})


_Next: TypeAlias = "tuple[_State | None, _State | None]"
"""The state after success and after failure; None where that cannot be."""

_ANY = frozenset((UNKNOWN,))
_HERE = frozenset(("",))


def _either(*states: _State | None) -> _State | None:
    found = [state for state in states if state is not None]
    if not found:
        return None
    names = {name for state in found for name in state.variables}
    return _State(
        frozenset().union(*(state.folders for state in found)),
        {name: frozenset().union(*(state.values(name) for state in found)) for name in names},
    )


@functools.lru_cache(maxsize=256)
def review(text: str, more: frozenset[str] = frozenset()) -> Review:
    """Return what a text would do.

    Args:
        text: Commands, as given to a shell.
        more: Further programs that may run.
    """
    reviewer = Reviewer(more)
    try:
        reviewer.run(parse(text), _State())
    except Unread as error:
        reviewer.refuse("unread", str(error))
    return Review(tuple(reviewer.problems), tuple(reviewer.paths))


class Reviewer:
    """Follows commands, and notes what they do.

    Args:
        more: Further programs that may run.
    """

    def __init__(self, more: frozenset[str]) -> None:
        self.more = more
        self.problems: dict[tuple[str, str], None] = {}
        self.paths: dict[tuple[str, str], None] = {}
        self._functions: set[str] = set()
        self._left = _MOST_STEPS
        self._state = _State()
        self._depth = 0

    def refuse(self, kind: str, why: str) -> None:
        """Note what speaks against running the text."""
        self.problems[kind, why] = None

    # -- flow -----------------------------------------------------------------------------------

    def run(self, node: Node, state: _State | None, before: Command | None = None) -> _Next:
        """Follow commands from a state."""
        if state is None:
            return None, None
        self._left -= 1
        if self._left < 0:
            raise Unread("there is too much to follow")
        if isinstance(node, Simple):
            return self._simple(node, state, before)
        if isinstance(node, Function):
            self.refuse("unread", "a function gives a name another meaning")
            self._functions.add(node.name)
            self.run(node.body, _State(state.folders))
            return state, None
        after = getattr(self, _METHODS[node.kind])(node, state)
        self._redirects(node.redirects, state)
        return after

    def _list(self, node: Block, state: _State) -> _Next:
        after: _Next = (state, None)
        for part in node.parts:
            after = self.run(part, _either(*after))
        return after

    def _and(self, node: Block, state: _State) -> _Next:
        first, second = node.parts
        good, bad = self.run(first, state)
        good, worse = self.run(second, good)
        return good, _either(bad, worse)

    def _or(self, node: Block, state: _State) -> _Next:
        first, second = node.parts
        good, bad = self.run(first, state)
        better, bad = self.run(second, bad)
        return _either(good, better), bad

    def _subshell(self, node: Block, state: _State) -> _Next:
        self._list(node, state)
        return state, state

    def _pipe(self, node: Block, state: _State) -> _Next:
        before: Command | None = None
        for part in node.parts:
            self.run(part, state, before)
            before = self._command(part, state, before) if isinstance(part, Simple) else None
        return state, state

    def _if(self, node: Block, state: _State) -> _Next:
        good, bad = self.run(node.parts[0], state)
        yes = self.run(node.parts[1], good)
        no = self.run(node.parts[2], bad) if len(node.parts) > 2 else (bad, None)
        return _either(yes[0], no[0]), _either(yes[1], no[1])

    def _loop(self, node: Block, state: _State) -> _Next:
        return self._turns(node, state)

    def _for(self, node: Block, state: _State) -> _Next:
        self._state = state
        words = [argument for word in node.words for argument in self._arguments(word)]
        values = frozenset(v for w in words for v in (_ANY if w.spreads else w.values))
        return self._turns(node, state.having(node.name, values))

    def _turns(self, node: Block, state: _State) -> _Next:
        """Follow a loop until a further turn changes nothing."""
        for _ in range(_MOST_TURNS):
            after = state
            for part in node.parts:
                after = _either(*self.run(part, after)) or after
            joined = _either(state, after)
            if joined is None or joined == state:
                return state, state
            state = joined
        raise Unread("each turn of a loop changes its folder or a variable")

    def _case(self, node: Block, state: _State) -> _Next:
        self._state = state
        for word in node.words:
            self._arguments(word)
        after = [self.run(part, state) for part in node.parts]
        return _either(state, *(good for good, _ in after)), _either(*(bad for _, bad in after))

    def _test(self, node: Block, state: _State) -> _Next:
        self._state = state
        words = [argument for word in node.words for argument in self._arguments(word)]
        for place, word in enumerate(words):
            if word.text in _COMPARING:
                for side in words[max(place - 1, 0) : place + 2 : 2]:
                    self._check_number(side.values)
        self._look(words)
        return self._state, self._state

    def _bracket(self, command: Command) -> None:
        if any(word.spreads for word in command.words):
            self.refuse("unread", "a word of a test may be several")
        self._look(command.words)

    def _look(self, words: Sequence[Argument]) -> None:
        """Note the files that the words of a test name."""
        for word, after in itertools.pairwise(words):
            if word.text in {"-v", "-R"}:
                self.refuse("unread", f"`{word.text}` evaluates a text")
            if word.text is not None and _FILE_TEST.fullmatch(word.text):
                self.path(after, "look")

    # -- simple commands ------------------------------------------------------------------------

    def _simple(self, node: Simple, state: _State, before: Command | None) -> _Next:
        command = self._command(node, state, before)
        state = self._state
        program = command.words[0].text if command.words else "local"
        is_for_program = program not in {"export", "local"}
        after = state
        for name, word in node.assigned:
            values, _ = self._values(word)
            self._variable(name, values, is_exported=program != "local")
            if not is_for_program:
                after = self._state = self._state.having(name, values)
        self._redirects(node.redirects, state)
        if not command.words:
            return after, after
        self._state = after
        return self.execute(command)

    def _command(self, node: Simple, state: _State, before: Command | None) -> Command:
        self._state = state
        words = [argument for word in node.words for argument in self._arguments(word)]
        return Command(tuple(words), before)

    def execute(self, command: Command) -> _Next:
        """Follow a command whose program is about to start."""
        state = self._state
        name = command.words[0].text if command.words else ""
        if name in self._functions:
            return state, state
        if name is None:
            self.refuse("unread", "the name of a program is only known when it runs")
            return state, state
        special = _BUILTINS.get(name)
        if special is not None:
            return getattr(self, special)(command) or (self._state, self._state)
        known.judge(self, name, command)
        return state, state

    def inner(self, words: Sequence[Argument], before: Command | None) -> None:
        """Follow a command that another program starts."""
        if not words:
            self.refuse("unread", "a program is missing")
        elif words[0].text in _BUILTINS:
            self.refuse("unread", f"`{words[0].text}` through another command")
        else:
            self.execute(Command(tuple(words), before))

    def text(self, text: str) -> None:
        """Follow a text that a shell is given as an argument."""
        self._depth += 1
        if self._depth > _MOST_TURNS:
            raise Unread("commands are nested too deep")
        kept = self._state
        self.run(parse(text), kept)
        self._state = kept
        self._depth -= 1

    def _cd(self, command: Command) -> _Next:
        operands = [w for w in command.words[1:] if w.text not in {"-L", "--"}]
        if len(operands) != 1 or operands[0].spreads or operands[0].values & {"", "-"}:
            self.refuse("outside", "`cd` leads to a folder that is only known when it runs")
            return self._state, self._state
        self.path(operands[0], "look")
        folders = frozenset(
            posixpath.normpath(posixpath.join(folder, value))
            for folder in self._state.folders
            for value in operands[0].values
        )
        return self._state._replace(folders=folders), self._state

    def _leave(self, _command: Command) -> _Next:
        return None, None

    def _read(self, command: Command) -> None:
        for word in command.words[1:]:
            name = word.text
            if name is None:
                self.refuse("unread", "a variable's name is only known when it runs")
            elif name.startswith("-"):
                if not re.fullmatch("-[rse]+|-[ptn]\\d*", name):
                    self.refuse("unread", f"`read {name}` cannot be followed")
            elif re.fullmatch(r"[A-Za-z_]\w*", name):
                self._variable(name, _ANY, is_exported=False)
                self._state = self._state.having(name, _ANY)
            else:
                self.refuse("unread", "a variable's name cannot be followed")

    def _export(self, command: Command) -> None:
        for word in command.words[1:]:
            name = word.text
            if name is None or not re.fullmatch(r"[A-Za-z_]\w*|-r", name):
                self.refuse("unread", "what is declared cannot be followed")
            elif command.words[0].text == "export":
                self._variable(name, self._state.values(name), is_exported=True)

    def _unset(self, command: Command) -> None:
        for word in command.words[1:]:
            if word.text is None or not re.fullmatch(r"[A-Za-z_]\w*", word.text):
                self.refuse("unread", "what is unset cannot be followed")
            else:
                self._variable(word.text, _ANY, is_exported=False)
                self._state = self._state.having(word.text, _ANY)

    def _set(self, command: Command) -> None:
        for word in command.words[1:]:
            if word.text is None or not re.fullmatch(
                "[-+][euxo]+|pipefail|errexit|nounset", word.text
            ):
                self.refuse("unread", "an option of the shell cannot be followed")
        if len(command.words) == 1:
            self.refuse("secret", "`set` prints the environment")

    def _eval(self, command: Command) -> None:
        texts = [word.text for word in command.words[1:]]
        if None in texts:
            self.refuse("unread", "`eval` of a text that is only known when it runs")
        else:
            self.text(" ".join(text or "" for text in texts))

    # -- words ----------------------------------------------------------------------------------

    def _arguments(self, word: Word) -> list[Argument]:
        if len(word) == 1 and word[0].kind == "braces":
            return [Argument(frozenset((each,))) for each in shell_words.braced(word[0].text)]
        return [Argument(*self._values(word))]

    def _values(self, word: Word) -> tuple[frozenset[str], bool]:
        ways, spreads = [""], False
        for part in word:
            values, is_open = self._part(part)
            spreads |= is_open
            joined = itertools.product(ways, values)
            ways = [before + after for before, after in itertools.islice(joined, MOST + 1)]
            ways = ways if len(ways) <= MOST else [UNKNOWN]
        return frozenset(ways), spreads

    def _part(self, part: Part) -> tuple[Iterable[str], bool]:
        if part.kind in {"text", "braces"}:
            return [part.text], False
        if part.kind == "glob":
            return [GLOB], False
        if part.kind == "number":
            for name in part.text.split():
                if name in self._state.variables:
                    self._check_number(self._state.values(name))
                    self._state = self._state.having(name, frozenset((NUMBER,)))
            return [NUMBER], False
        if part.kind == "variable":
            values = self._variable_values(part)
            is_list = part.text in {"@", "*"}
            is_open = any(not value or _SPLITS.search(value) for value in values)
            return values, is_list or (not part.quoted and is_open)
        if part.inner is not None:
            kept = self._state
            self.run(part.inner, kept)
            self._state = kept
            if part.kind == "file":
                return [NUMBER], False
            said = self._said(part.inner)
            return [said], said == UNKNOWN and not part.quoted
        return [UNKNOWN], True

    def _said(self, node: Block) -> str:
        """Return what commands print, if that has a known form."""
        if len(node.parts) != 1 or not isinstance(node.parts[0], Simple):
            return UNKNOWN
        texts = [
            part.text if part.kind == "text" else UNKNOWN
            for word in node.parts[0].words
            for part in word[:1]
        ]
        if texts == ["pwd"] and self._state.folders == _HERE:
            return "."
        if texts[:1] == ["nproc"] or (texts[:1] == ["wc"] and all(t[0] == "-" for t in texts[1:])):
            return NUMBER
        if len(texts) == 2 and texts[0] == "date" and re.fullmatch(r"\+[\w%:.-]+", texts[1]):
            return GLOB
        return UNKNOWN

    def _variable_values(self, part: Part) -> frozenset[str]:
        name, change = part.text, part.change
        if name in {"#", "?", "$", "!"}:
            return frozenset((NUMBER,))
        if known.SECRET_VARIABLE.search(name) and name not in self._state.variables:
            self.refuse("secret", f"`${name}` may be a secret")
        is_here = name == "PWD" and self._state.folders == _HERE
        values = frozenset((".",)) if is_here else self._state.values(name)
        if not change:
            return values
        if change.lstrip(":").startswith("="):
            self._state = self._state.having(name, _ANY)
        if change == "##*/":
            values = frozenset(value.rpartition("/")[2] for value in values)
        if change[0] == "%" or change == "##*/":
            is_name = all(re.fullmatch(rf"[\w{GLOB}][\w{GLOB}.-]*", value) for value in values)
            return frozenset((GLOB,)) if is_name else _ANY
        return _ANY

    def _check_number(self, values: frozenset[str]) -> None:
        if not all(_NUMERIC.fullmatch(value) for value in values):
            self.refuse("unread", "arithmetic with a text that is only known when it runs")

    def _variable(self, name: str, values: frozenset[str], *, is_exported: bool) -> None:
        if is_exported and not known.HARMLESS_VARIABLE.fullmatch(name):
            self.refuse("program", f"the variable `{name}` may change what programs do")
        elif not is_exported and known.STEERING_VARIABLE.fullmatch(name):
            self.refuse("program", f"the variable `{name}` changes what programs do")
        if is_exported and name == "PYTHONPATH":
            for each in itertools.chain.from_iterable(value.split(":") for value in values):
                self.path(Argument(frozenset((each,))), "look")

    # -- files ----------------------------------------------------------------------------------

    def _redirects(self, redirects: Iterable[Redirect], state: _State) -> None:
        self._state = state
        for sign, word in redirects:
            (argument, *more) = self._arguments(word)
            if sign in {"<<", "<<<"}:
                continue
            if sign in {"<&", ">&"} and re.fullmatch(r"\d+-?|-", argument.text or ""):
                continue
            if more or argument.spreads:
                self.refuse("outside", "a redirection leads to a file that is only known later")
            self.path(argument, "read" if sign in {"<", "<&"} else "write")

    def path(self, argument: Argument, use: str) -> None:
        """Note a path; `use` is ``look``, ``read``, ``write`` or ``remove``."""
        for value in argument.values:
            if _NETWORK_FILE.match(value):
                self.refuse("network", f"`{value}` is a connection")
            elif value in _SPECIAL_FILES or not value:
                continue
            elif UNKNOWN in value:
                self.refuse("outside", "a path is only known when it runs")
            elif value.startswith("~"):
                self.refuse("outside", f"`{_shown(value)}` leads out of the workspace")
            else:
                for folder in self._state.folders:
                    self._note(posixpath.join(folder, value), use)

    def _note(self, value: str, use: str) -> None:
        if _climbs_from_pattern(value):
            self.refuse("outside", f"`{_shown(value)}` leads out of the workspace")
        parts = [part for part in re.split("[/:]", value) if part]
        if use == "read" and any(map(known.is_secret, parts)):
            self.refuse("secret", f"`{_shown(value)}` may hold secrets")
        if use in {"write", "remove"} and any(map(known.is_git, parts)):
            self.refuse("outside", "`.git` belongs to git")
        fixed = re.split(rf"[^/]*{GLOB}", value)[0]
        if GLOB in value and re.search(rf"[^{GLOB}/]", value[len(fixed) :]):
            fixed = posixpath.join(fixed, NUMBER)  # not all that is in the folder
        self.paths[use, fixed or "."] = None
        if len(self.paths) > _MOST_PATHS:
            raise Unread("there is too much to follow")


def _shown(value: str) -> str:
    return value.replace(GLOB, "*").replace(NUMBER, "0")


def _climbs_from_pattern(value: str) -> bool:
    """Return whether a path has a pattern that may stand for ``..``, or climbs from one."""
    is_pattern = False
    for part in value.split("/"):
        if part == ".." and is_pattern:
            return True
        if GLOB in part:
            is_pattern = True
            if part.startswith(".") and not part.strip("." + GLOB):
                return True
    return False
