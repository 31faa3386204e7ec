r"""Commands as a POSIX shell or bash reads them: simple commands as lists of words.

A word is what remains after quotes, escapes (``\``, ``$'\x72'``), variables that the same text sets
or the environment has, braces, and the output of ``echo`` and ``printf`` in substitutions. If there
are several ways to read a word, each of them is a word. A text that may itself be a command (``sh
-c '...'``, a here-document, what is echoed) is read as one.

What is not modelled here is not guessed: it becomes `UNKNOWN`, which means any text, and several
words if it is not quoted. More is read than runs: branches not taken, quoted texts that are not
commands. Guards may only err in that direction.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from otelhooks.policy.commands import shell_words
from otelhooks.policy.commands.shell_flow import (
    ASSIGNED,
    DECLARING,
    KEYWORDS,
    Flow,
    Words,
)
from otelhooks.policy.commands.shell_tokens import IN_DOUBLE, TOKEN
from otelhooks.policy.commands.shell_variables import (
    MOST,
    NUMBER,
    UNKNOWN,
    Variables,
)

__all__ = ["NUMBER", "UNKNOWN", "Command", "commands"]

_DEEPEST = 8
_MOST_FRAMES = 64
_SEVERAL = f"{UNKNOWN} {UNKNOWN} {UNKNOWN}"
_IN_QUOTES = str.maketrans(" \t\n", "\ue020\ue021\ue022")  # blanks, while words are read
_AS_WRITTEN = {quoted: blank for blank, quoted in _IN_QUOTES.items()}

_IN_BACKTICKS = re.compile(r"(?:\\.|[^`\\]){1,10000}(?=`)", re.DOTALL)
_NO_ARITHMETIC = re.compile(r"[\w})\]'\"]\s+[\w$'\"./~]")  # a value after a value
_DELIMITER = re.compile(r"""[^\S\n]*((?:\\.|'[^'\n]*'|"[^"\n]*"|[^\s;&|<>()'"\\])+)""")
_EXPANSION = re.compile(r"([A-Za-z_]\w*|[0-9@*#?$!-])(.*)", re.DOTALL)
_DEFAULT = re.compile(r":?([-=+])(.*)", re.DOTALL)
_TILDE = re.compile(r"(?:^|[=:])(~[+-]?\d*)(?=[/:]|$)")
_COUNTED = re.compile(r"\(\(\s*([A-Za-z_]\w*)\s*=(?!=)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_MAY_BE_COMMAND = re.compile(r"[\s;&|`$()<>]")
_SEVERAL_UNKNOWN = re.compile(f"{UNKNOWN}+")
_CHANGING = re.compile("[-+][^grx]")  # an option that may change values
_PLAIN = frozenset(("blank", "chunk", "close", "end", "joined"))
_SETTING = frozenset("getopts let mapfile read readarray select unset wait".split())
_MOVING = frozenset(("cd", "popd", "pushd"))


class Command(list[str]):
    """The words of a simple command. A redirection is one of two words: its sign and the file.

    Attributes:
        runs: Whether the shell itself runs it; a quoted text only runs if a program executes it.
        certain: How many of the first words can be read in only one way.
    """

    runs: bool = True
    certain: int = 0


def commands(text: str) -> list[Command]:
    """Return the simple commands of a text, including those in other commands.

    Raises:
        ValueError: They are nested too deep to be read.
    """
    shared = _Shared(text)
    found = _Reader(shared, text).read()
    sizes = shared.variables.sizes()
    if sizes:  # a function may use what is set below it
        found = _Reader(shared.again(text), text).read()
    if sizes and shared.repeats:
        shared.variables.widen(sizes)
        found = _Reader(shared.again(text), text).read()
    return found


class _Shared:
    """What the readers of a text and of its inner texts share.

    Attributes:
        variables: Variables of all of them.
        repeats: Whether a part of the text may run more than once.
    """

    def __init__(self, text: str) -> None:
        self.variables = Variables()
        self.repeats = False
        self.again(text)

    def again(self, text: str) -> _Shared:
        """Start over, with the variables that are known by now."""
        self._left = 100_000 + 8 * len(text)
        return self

    def count(self, length: int) -> None:
        """Count what was read.

        Raises:
            ValueError: A short text expands to more than can be read.
        """
        self._left -= length + 1
        if self._left < 0:
            raise ValueError("commands are nested too deep")


class _Frame(NamedTuple):
    """What was being read when a substitution began."""

    sign: str
    words: Words
    word: list[str] | None
    in_double: bool
    target: str
    is_certain: bool
    certain: int
    names: set[str]
    commands: int
    floor: int
    flow: Flow


class _Reader:
    """Reads one text.

    Args:
        shared: State of all readers.
        text: The text to read.
        depth: How many texts surround it.
        runs: Which part of it the shell runs: ``all``, ``substitutions`` or ``nothing``.
    """

    def __init__(self, shared: _Shared, text: str, depth: int = 0, runs: str = "all") -> None:
        if depth > _DEEPEST:
            raise ValueError("commands are nested too deep")
        shared.count(len(text))
        self._shared = shared
        self._variables = shared.variables
        self._text = text
        self._depth = depth
        self._runs = runs
        self._found: list[Command] = []
        self._frames: list[_Frame] = []
        self._flow = Flow(shared.variables)
        self._start()

    def _start(self) -> None:
        self._words = Words()
        self._word: list[str] | None = None  # the ways to read it
        self._is_plain = True
        self._said: str | None = None  # by the last command
        self._count = 0  # of commands
        self._names: set[str] = set()  # that the command sets before its program
        self._is_certain = True  # whether each word of the command has only one reading
        self._certain = 0  # words before the first ambiguous one
        self._in_double = False
        self._target = ""  # the sign of a redirection

    def read(self) -> list[Command]:
        """Return the simple commands of the text."""
        text, position, pending = self._text, 0, list[str]()
        floor = self._variables.enter()
        while position < len(text):
            token = (IN_DOUBLE if self._in_double else TOKEN).match(text, position)
            assert token is not None  # one branch takes any sign
            position = token.end()
            kind = token.lastgroup
            if kind == "heredoc":
                self._end_word()
                delimiter = _DELIMITER.match(text, position)
                if delimiter is not None:
                    pending.append(re.sub(r"[\\'\"]", "", delimiter[1]))
                    position = delimiter.end()
            elif kind == "end" and pending and "\n" in token[0]:
                self._end_command(token[0])
                position = token.start() + token[0].index("\n") + 1
                for each in pending:
                    body, position, is_ended = _until(text, position, each)
                    self._read_more(body, "substitutions" if is_ended else "all")
                pending = []
            elif kind == "comment" and self._word is not None:  # a sign in a word
                position = token.start() + 1
                self._add(["#"])
            elif kind == "comment" and any(frame.sign == "`" for frame in self._frames):
                position = token.start() + (token[0] + "`").index("`")
            elif kind is not None and kind != "comment":
                if token[0] == "`":
                    self._read_escaped(text, position)
                self._take(kind, token[kind])
        while self._frames:
            self._close()
        self._end_command(";")
        self._variables.leave(floor)
        self._shared.repeats |= self._flow.repeats
        return self._found

    def _take(self, kind: str, value: str) -> None:
        signs = [frame.sign for frame in self._frames]
        self._is_plain &= kind in _PLAIN or value.startswith("((")
        if kind == "blank":
            self._end_word()
        elif kind == "end" or (kind == "close" and "$(" not in signs):
            is_keyword = self._is_plain and KEYWORDS.issuperset(self._word or [""])
            if value.startswith("(") and self._word is not None and not is_keyword:
                self._shared.repeats = True  # `f()`, `a=(x)`, `@(x|y)`
                self._word = [each.rstrip("@!+?*") + UNKNOWN for each in self._word]
            self._end_command(value)
        elif kind == "close" or (value == "`" and kind == "open" and "`" in signs):
            self._close("`" if value == "`" else "$(")
        elif kind == "redirect":
            self._end_word()
            self._target = value.lstrip("0123456789") if ">" in value else value
            self._words.leading.append(value)
        elif kind == "double":
            self._in_double = not self._in_double
            self._add([""])
        elif kind == "open":
            self._open(value)
        elif kind == "braced":
            self._add(self._expanded(value), splits=True, is_list="@" in value)
        elif kind == "variable":
            self._add(self._variables.values(value), splits=True, is_list=value == "@")
        elif kind == "arithmetic":
            self._calculate(value)
        elif kind == "unread":  # its end is unknown: what follows is another word
            self._add([UNKNOWN])
            self._end_word()
        elif kind != "joined":
            self._add([shell_words.unescaped(value).split("\0")[0] if kind == "ansi" else value])

    def _read_escaped(self, text: str, position: int) -> None:
        """Read the text between backticks if escapes in it count twice."""
        inner = _IN_BACKTICKS.match(text, position)
        if inner is not None and "\\" in inner[0]:
            self._read_more(re.sub(r"\\([$`\\])", r"\1", inner[0]), "all")

    # -- words --------------------------------------------------------------------------------

    def _add(self, ways: list[str], *, splits: bool = False, is_list: bool = False) -> None:
        """Continue a word; a blank in a variable's value may end it."""
        if splits and not self._in_double and self._variables.is_assigned("IFS"):
            ways = [UNKNOWN]
        if is_list or (splits and not self._in_double and not self._target):
            ways += [each.replace(UNKNOWN, _SEVERAL) for each in ways if UNKNOWN in each]
        else:
            ways = [way.translate(_IN_QUOTES) for way in ways]
        joined = itertools.product(self._word or [""], ways)
        made = [before + way for before, way in itertools.islice(joined, MOST + 1)]
        self._word = made if len(made) <= MOST else [_SEVERAL]

    def _end_word(self) -> None:
        ways, self._word = self._word, None
        is_plain, self._is_plain = self._is_plain and not self._target, True
        if ways is None:
            return
        read = list(dict.fromkeys(itertools.chain.from_iterable(map(self._read_ways, ways))))
        self._is_certain = self._is_certain and len(read) == 1
        if is_plain and len(self._words.leading) == len(self._words):
            self._words.leading += ways
        assigns = self._words.only_sets()
        for way in read:
            found = ASSIGNED.fullmatch(way.replace(_SEVERAL, UNKNOWN))
            if found is not None:
                self._assign(found, keeps=assigns)
            self._take_words([found[0]] if assigns and found is not None else way.split())
        self._certain = len(self._words) if self._is_certain else self._certain
        self._target = ""

    def _take_words(self, parts: list[str]) -> None:
        for part in parts:
            word = _SEVERAL_UNKNOWN.sub(UNKNOWN, part.translate(_AS_WRITTEN))
            self._shared.count(len(word))
            if word in self._words.unknown:
                continue
            if self._target:
                self._count += 1  # its output may not be read here
                self._keep([self._target, word])
            else:
                self._words.append(word)
                self._words.unknown.update([word] if UNKNOWN in word else [])
            if _MAY_BE_COMMAND.search(word):
                self._read_more(word, "nothing")

    def _read_ways(self, way: str) -> Iterator[str]:
        for each in shell_words.braced(way):
            yield from self._without_tilde(each)

    def _without_tilde(self, way: str) -> Iterator[str]:
        """Yield a way to read a word, and the possible values of a ``~`` in it."""
        yield way
        tildes = list(itertools.islice(_TILDE.finditer(way), MOST + 1))
        if len(tildes) > MOST:
            yield _TILDE.sub(lambda tilde: tilde[0].replace(tilde[1], UNKNOWN), way)
            return
        for tilde in tildes:
            name = {"~": "HOME", "~+": "PWD", "~-": "OLDPWD"}.get(tilde[1], "")
            if name != "HOME" or self._variables.is_assigned("HOME"):
                for value in self._variables.values(name) if name else [UNKNOWN]:
                    yield way[: tilde.start(1)] + value + way[tilde.end() :]

    def _end_command(self, sign: str) -> None:
        self._end_word()
        self._target = ""
        words, self._words = self._words, Words()
        names, self._names = self._names, set[str]()
        is_certain, self._is_certain = self._is_certain, True
        if not words and not sign.strip():
            return  # a line that continues
        if words:
            self._count += 1
            self._keep(words, self._certain)
            self._certain = 0
            self._flow.begin(words, names)
            self._follow(words)
            self._said = shell_words.said(words) if is_certain else None
            if self._said is not None and self._said != " ".join(words[1:]):
                self._read_more(self._said, "nothing")
        self._flow.end(names if words and words.only_sets() else set(), sign)

    def _keep(self, words: list[str], certain: int = 1) -> None:
        command = Command(words)
        command.certain = certain
        command.runs = self._runs == "all" or (self._runs != "nothing" and bool(self._frames))
        self._found.append(command)

    def _read_more(self, text: str, runs: str) -> None:
        if text != self._text:
            runs = "nothing" if self._runs == "nothing" else runs
            self._found += _Reader(self._shared, text, self._depth + 1, runs).read()

    def _open(self, sign: str) -> None:
        if len(self._frames) > _MOST_FRAMES:
            raise ValueError("commands are nested too deep")
        self._frames.append(
            _Frame(
                sign,
                self._words,
                self._word,
                self._in_double,
                self._target,
                self._is_certain,
                self._certain,
                self._names,
                self._count,
                self._variables.enter(),
                self._flow,
            )
        )
        self._flow = Flow(self._variables)
        self._start()

    def _close(self, sign: str = "") -> None:
        """End a substitution, and unfinished ones in it."""
        while True:
            self._end_command(";")
            said = self._said if self._count == 1 else None
            frame = self._frames.pop()
            self._variables.leave(frame.floor)
            self._shared.repeats |= self._flow.repeats
            self._flow = frame.flow
            self._start()
            self._words, self._word = frame.words, frame.word
            self._in_double, self._target = frame.in_double, frame.target
            self._is_certain, self._certain = frame.is_certain, frame.certain
            self._names = frame.names
            self._count = frame.commands
            self._is_plain = False
            self._add([UNKNOWN] if said is None else [said.rstrip("\n")], splits=True)
            if sign in {"", frame.sign}:
                return

    # -- variables, and where paths start from -------------------------------------------------

    def _assign(self, found: re.Match[str], *, keeps: bool) -> None:
        name, index, adds, value = found.groups()
        value = value.translate(_AS_WRITTEN)
        if keeps:
            self._names.add(name)
        if index:
            value = UNKNOWN
        old = ["", *self._variables.values(name)] if adds else [""]
        self._variables.assign(name, *(each + value for each in old))

    def _unknown(self, words: list[str], value: str = UNKNOWN) -> None:
        for name in itertools.chain.from_iterable(map(_NAME.findall, words)):
            self._variables.assign(name, value)

    def _calculate(self, text: str) -> None:
        """Read arithmetic: any variable in it may become a number."""
        self._unknown([text], NUMBER)
        self._names |= {found[1]} if (found := _COUNTED.match(text)) else set()
        inner = text.strip("$()[]")
        self._read_more(inner, "all" if _NO_ARITHMETIC.search(inner) else "substitutions")
        if text.startswith("$"):
            self._add([NUMBER])
        else:
            self._end_word()

    def _follow(self, words: list[str]) -> None:
        """Note what a command does to variables, and to the folder that paths start from."""
        last = {word: place for place, word in enumerate(words)}
        seen: set[str] = set()
        is_read = False  # whether the words after here are already read as names
        for place, (word, after) in enumerate(itertools.pairwise([*words, ""])):
            sets = word in _SETTING or (word == "printf" and after == "-v")
            if not is_read and (sets or (word in DECLARING and _CHANGING.match(after))):
                is_read = True
                self._unknown(words[place + 1 :])
            elif word in _MOVING and (word not in seen or place == last[word]):
                seen.add(word)
                self._move(word, words[place + 1 :])

    def _move(self, word: str, rest: list[str]) -> None:
        folders = [each for each in rest if not re.fullmatch("-[LPe@n]+|--", each)]
        found: list[str] = []
        if word == "cd" and not folders:
            found += self._variables.values("HOME")
        if "-" in folders:
            found += self._variables.values("OLDPWD")
        if self._variables.is_set("CDPATH"):
            found.append(UNKNOWN)
        if found:
            self._keep([word, *found])
        self._variables.assign("OLDPWD", ".")
        self._flow.keep({"OLDPWD"})

    def _expanded(self, text: str) -> list[str]:
        """Return the values of ``${...}``."""
        found = _EXPANSION.fullmatch(text)
        if found is None:
            return [UNKNOWN]
        name, operation = found.groups()
        if not operation or (name == "IFS" and not self._variables.is_assigned(name)):
            return self._variables.values(name)
        if name == "#":
            return [NUMBER]
        if operation.endswith("@P"):
            self._keep(["eval", *self._variables.values(name)])
        default = _DEFAULT.fullmatch(operation)
        if default is None:
            return self._variables.sliced(name, operation)
        self._read_more(default[2], "substitutions")
        word = UNKNOWN if re.search(r"[$`\\]", default[2]) else re.sub("['\"]", "", default[2])
        if default[1] == "=":
            self._variables.assign(name, word)
        return [*self._variables.values(name), "", word]


def _until(text: str, position: int, delimiter: str) -> tuple[str, int, bool]:
    """Return the text of a here-document, where it ends, and whether its end was found."""
    end = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(text, position)
    if end is None:
        return text[position:], len(text), False
    return text[position : end.start()], end.end(), True
