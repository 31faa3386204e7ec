r"""Commands as a POSIX shell or bash reads them: simple commands as lists of words.

A word is what is left of it after quotes, escapes (``\``, ``$'\x72'``), variables that the same
text sets or the environment has, braces, and what ``echo`` and ``printf`` put in its place. Where
there are several ways to read a word, each of them is a word. A text that may be a command in
turn (``sh -c '...'``, a here-document, what is echoed) is read as one. What only running it tells
is `UNKNOWN`.

More is read than runs: branches not taken, quoted texts that are not commands. Guards may err
only that way.
"""

from __future__ import annotations

import fnmatch
import itertools
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "UNKNOWN",
    "arguments",
    "commands",
    "folders",
    "pattern",
    "stands_for",
    "unescaped",
    "words",
]

UNKNOWN = "\ufffc"
"""Stands in words for a text that only running the command tells."""

_MOST = 64  # ways to read a word
_DEEPEST = 8
_IN_QUOTES = str.maketrans(" \t\n", "\ue020\ue021\ue022")  # blanks, while words are read
_AS_WRITTEN = {quoted: blank for blank, quoted in _IN_QUOTES.items()}

_EXPANSIONS = r"""
  | (?P<open>\$\(|`)
  | \$\{(?P<braced>(?:[^{}]|\{[^{}]*\})*)\}
  | \$(?P<variable>[A-Za-z_]\w*|[0-9@*\#?$!-])
"""
_TOKEN = re.compile(
    r"""
    (?P<joined>\\\r?\n)
  | \\(?P<escaped>.)
  | \$'(?P<ansi>(?:[^'\\]|\\.)*)(?:'|\Z)
  | '(?P<single>[^']*)(?:'|\Z)
  | (?P<double>\$?")
  """
    + _EXPANSIONS
    + r"""
  | (?P<close>\))
  | (?P<heredoc><<-?(?!<))
  | (?P<redirect>\d*(?:&>>?|[<>]&|<<<|>>|>\||<>|[<>]))
  | (?P<end>[;&|(\n]+)
  | (?P<blank>[^\S\n]+)
  | (?P<comment>\#[^\n]*)
  | (?P<chunk>[^\s\\'"`$()<>;&|\#]+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_DOUBLE = re.compile(
    r"""
    (?P<joined>\\\r?\n)
  | \\(?P<escaped>[$`"\\])
  | (?P<double>")
  """
    + _EXPANSIONS
    + r"""
  | (?P<chunk>[^\\"`$]+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DELIMITER = re.compile(r"""[^\S\n]*((?:\\.|'[^'\n]*'|"[^"\n]*"|[^\s;&|<>()'"\\])+)""")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_EXPANSION = re.compile(r"([A-Za-z_]\w*|[0-9@*#?$!-])(.*)", re.DOTALL)
_DEFAULT = re.compile(r":?[-=+](.*)", re.DOTALL)
_SLICE = re.compile(r":\s*(\d+)(?::\s*(\d+))?")
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"([^{}]|\d{1,4})\.\.([^{}]|\d{1,4})")
_MAY_BE_COMMAND = re.compile(r"[\s;&|`$()<>]")
_CHANGES_FOLDER = frozenset(
    ("-C", "-d", "--chdir", "--cwd", "--directory", "--prefix", "--work-tree", "cd", "pushd")
)
_FOLDER_OPTION = re.compile(r"(?:-C|--(?:chdir|cwd|directory|prefix|work-tree)=)(.+)", re.DOTALL)
_WORDS = re.compile(r"[\s;|&<>()=\"'`,{}]+")
_READERS = frozenset(("getopts", "mapfile", "read", "readarray", "select"))
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,4})|(.))",
    re.DOTALL,
)
_LETTERS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "v": "\v",
}


def unescaped(text: str) -> str:
    r"""Return a text without escapes such as ``\x72``: of ``$'...'`` and of Git's quoted paths."""
    return _ESCAPE.sub(_sign, text)


def _sign(escape: re.Match[str]) -> str:
    if escape[5] is not None:
        return _LETTERS.get(escape[5], escape[5])
    hexadecimal = escape[1] or escape[2] or escape[3]
    number = int(hexadecimal, 16) if hexadecimal else int(escape[4], 8) & 0xFF
    return chr(number) if number <= 0x10FFFF else UNKNOWN


def commands(text: str) -> list[list[str]]:
    """Return the simple commands of a text, those in other commands among them.

    The file of a redirection is a command of one word.

    Raises:
        ValueError: They are nested too deep to be read.
    """
    variables: dict[str, list[str]] = {}
    found = _Reader(_Shared(variables, text), text).read()
    if variables:  # a function may use what is set below it
        found = _Reader(_Shared(variables, text), text).read()
    return found


def arguments(command: list[str]) -> Iterator[str]:
    """Yield the words of a simple command, and what may be values in them.

    Values of options (``-opolicies/p.yaml``, ``--output=x``, ``-d@x``) and parts (``host:x``).
    """
    for word in command:
        yield word
        if word.startswith("-"):
            letters = re.match("-[^/=]{0,16}", word)
            yield from (word[start:] for start in range(2, letters.end() if letters else 0))
        parts = re.split("[=:@,]", word)
        if len(parts) > 1 and parts[1]:
            yield from parts
            yield word[len(parts[0]) + 1 :]


def words(text: str) -> list[str]:
    """Return the words of a text in any language."""
    return _WORDS.split(text)


def folders(command: list[str]) -> list[str]:
    """Return the folders that a simple command makes paths relative to: ``cd x``, ``-C x``."""
    found = [after for word, after in itertools.pairwise(command) if word in _CHANGES_FOLDER]
    attached = (_FOLDER_OPTION.fullmatch(word) for word in command)
    return found + [each[1] for each in attached if each is not None]


def pattern(word: str) -> str | None:
    """Return a pattern for `fnmatch` that matches all that a shell's does; None for a plain word.

    Brackets, whatever is in them, and what is unknown stand for any text.
    """
    word = word.replace(UNKNOWN, "*")
    parts = [_any(_any(p, r"\[", "]"), r"[@!+?*]\(", ")") for p in word.split("/")]
    found = re.sub(r"\*+", "*", "/".join(parts))
    return found if "*" in found or "?" in found else None


def _any(part: str, begin: str, end: str) -> str:
    """Return a name with all from its first to its last bracket as any text."""
    start, stop = re.search(begin, part), part.rfind(end)
    if start is None or stop < start.end():
        return part
    return f"{part[: start.start()]}*{part[stop + 1 :]}"


def stands_for(pattern: str, name: str) -> bool:
    """Return whether a `pattern` can stand for a name."""
    return len(pattern.replace("*", "")) <= len(name) and fnmatch.fnmatchcase(name, pattern)


class _Shared:
    """What the readers of a text and of the texts in it have in common."""

    def __init__(self, variables: dict[str, list[str]], text: str) -> None:
        self.variables = variables
        self._left = 100_000 + 8 * len(text)

    def count(self, length: int) -> None:
        """Count what was read.

        Raises:
            ValueError: A short text becomes more than can be read.
        """
        self._left -= length + 1
        if self._left < 0:
            raise ValueError("commands are nested too deep")


class _Frame(NamedTuple):
    """What was being read when a substitution began."""

    sign: str
    words: list[str]
    word: list[str] | None
    in_double: bool
    is_target: bool


class _Reader:
    """Reads one text."""

    def __init__(self, shared: _Shared, text: str, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise ValueError("commands are nested too deep")
        shared.count(len(text))
        self._shared = shared
        self._variables = shared.variables
        self._text = text
        self._depth = depth
        self._found: list[list[str]] = []
        self._frames: list[_Frame] = []
        self._start()

    def _start(self) -> None:
        self._words: list[str] = []
        self._word: list[str] | None = None  # the ways to read it
        self._last: list[str] = []
        self._in_double = False
        self._is_target = False

    def read(self) -> list[list[str]]:
        """Return the simple commands of the text."""
        text, position, pending = self._text, 0, list[str]()
        while position < len(text):
            token = (_IN_DOUBLE if self._in_double else _TOKEN).match(text, position)
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
                self._end_command()
                position = token.start() + token[0].index("\n") + 1
                for each in pending:
                    body, position = _until(text, position, each)
                    self._read_more(body)
                pending = []
            elif kind == "comment" and self._word is not None:  # a sign in a word
                position = token.start() + 1
                self._add(["#"])
            elif kind is not None and kind != "comment":
                self._take(kind, token[kind])
        while self._frames:
            self._close()
        self._end_command()
        return self._found

    def _take(self, kind: str, value: str) -> None:
        signs = [frame.sign for frame in self._frames]
        if kind == "blank":
            self._end_word()
        elif kind == "end" or (kind == "close" and "$(" not in signs):
            self._end_command()
        elif kind == "close" or (value == "`" and kind == "open" and "`" in signs):
            self._close("`" if value == "`" else "$(")
        elif kind == "redirect":
            self._end_word()
            self._is_target = True
        elif kind == "double":
            self._in_double = not self._in_double
            self._add([""])
        elif kind == "open":
            self._frames.append(
                _Frame(value, self._words, self._word, self._in_double, self._is_target)
            )
            self._start()
        elif kind == "braced":
            self._add(self._expanded(value), splits=True)
        elif kind == "variable":
            self._add(self._values(value), splits=True)
        elif kind != "joined":
            self._add([unescaped(value) if kind == "ansi" else value])

    # -- words --------------------------------------------------------------------------------

    def _add(self, ways: list[str], *, splits: bool = False) -> None:
        """Go on with a word; a blank in what a variable has may end it."""
        if not splits or self._in_double:
            ways = [way.translate(_IN_QUOTES) for way in ways]
        joined = itertools.product(self._word or [""], ways)
        made = [before + way for before, way in itertools.islice(joined, _MOST + 1)]
        self._word = made if len(made) <= _MOST else [UNKNOWN]

    def _end_word(self) -> None:
        ways, self._word = self._word, None
        if ways is None:
            return
        for way in dict.fromkeys(itertools.chain.from_iterable(map(_braced, ways))):
            assigned = _ASSIGNED.fullmatch(way)
            if assigned is not None:
                self._assign(assigned[1], assigned[3].translate(_AS_WRITTEN), bool(assigned[2]))
            for part in way.split():
                word = part.translate(_AS_WRITTEN)
                self._shared.count(len(word))
                if self._is_target:
                    self._found.append([word])
                else:
                    self._words.append(word)
                if _MAY_BE_COMMAND.search(word):
                    self._read_more(word)
        self._is_target = False

    def _end_command(self) -> None:
        self._end_word()
        self._is_target = False
        words, self._words = self._words, []
        if not words:
            return
        self._found.append(words)
        self._last = words
        if words[0] == "for" and words[2:3] == ["in"]:
            for word in words[3:]:
                self._assign(words[1], word)
        if not _READERS.isdisjoint(words) or words[:2] == ["printf", "-v"]:
            for word in words[1:]:
                self._assign(word, UNKNOWN)
        said = _said(words)
        if said is not None and said != " ".join(words[1:]):
            self._read_more(said)

    def _read_more(self, text: str) -> None:
        if text != self._text:
            self._found += _Reader(self._shared, text, self._depth + 1).read()

    def _close(self, sign: str = "") -> None:
        """End a substitution, and those in it that were not ended."""
        while True:
            self._end_command()
            said = _said(self._last)
            frame = self._frames.pop()
            self._start()
            self._words, self._word = frame.words, frame.word
            self._in_double, self._is_target = frame.in_double, frame.is_target
            self._add([UNKNOWN, ""] if said is None else [said.rstrip("\n")], splits=True)
            if sign in {"", frame.sign}:
                return

    # -- variables ----------------------------------------------------------------------------

    def _assign(self, name: str, value: str, adds: bool = False) -> None:
        known = self._variables.setdefault(name, [])
        for each in [old + value for old in [*known, ""]] if adds else [value]:
            if each not in known and len(known) <= _MOST:
                known.append(each if len(known) < _MOST else UNKNOWN)

    def _values(self, name: str) -> list[str]:
        if name == "IFS":
            return [" "]
        if name in "#?$!-":
            return [UNKNOWN]
        return self._variables.get(name) or [_variable(name)]

    def _expanded(self, text: str) -> list[str]:
        """Return the values of ``${...}``."""
        found = _EXPANSION.fullmatch(text)
        if found is None:
            return [UNKNOWN]
        values, operation = self._values(found[1]), found[2]
        if not operation or found[1] == "IFS":
            return values
        default, part = _DEFAULT.fullmatch(operation), _SLICE.fullmatch(operation)
        if default is not None:
            self._read_more(default[1])
            word = re.sub("['\"]", "", default[1])
            return [*values, "", UNKNOWN if re.search("[$`]", word) else word]
        if part is not None:
            start, length = int(part[1]), part[2]
            end = None if length is None else start + int(length)
            return [UNKNOWN if UNKNOWN in value else value[start:end] for value in values]
        return [UNKNOWN]  # such as `${!x}`, which names a variable by another


def _until(text: str, position: int, delimiter: str) -> tuple[str, int]:
    """Return the text of a here-document, and where it ends."""
    end = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(text, position)
    if end is None:
        return text[position:], len(text)
    return text[position : end.start()], end.end()


def _braced(word: str) -> list[str]:
    """Return the words that braces stand for, and the word as it is, as a plain shell takes it."""
    done, left = [word], [word]
    while left:
        each = left.pop()
        for found in _BRACES.finditer(each):
            for choice in _choices(found[1]):
                if len(done) > _MOST:
                    return [_BRACES.sub(UNKNOWN, word)]
                made = each[: found.start()] + choice + each[found.end() :]
                done.append(made)
                left.append(made)
            if _choices(found[1]):
                break
    return done


def _choices(text: str) -> list[str]:
    if "," in text:
        return text.split(",")
    between = _RANGE.fullmatch(text)
    if between is None:
        return []
    first, last = between.groups()
    if first.isdigit() and last.isdigit():
        low, high = sorted((int(first), int(last)))
        return [str(number) for number in range(low, min(high, low + _MOST) + 1)]
    low, high = sorted((ord(first[0]), ord(last[0])))
    return [chr(code) for code in range(low, min(high, low + _MOST) + 1)]


def _said(words: list[str]) -> str | None:
    """Return what a command prints; None if only running it tells."""
    if words[:1] == ["echo"]:
        given = itertools.dropwhile(lambda word: re.fullmatch("-[neE]+", word), words[1:])
        return unescaped(" ".join(given))
    if words[:1] != ["printf"]:
        return None
    rest = iter(words[1:])
    form = next((word for word in rest if word != "--"), "")
    said = re.sub("%[sb]", lambda _: next(rest, ""), unescaped(form))
    return None if "%" in said else said + "".join(rest)


def _variable(name: str) -> str:
    """Return a variable as the command will inherit it; empty if it is not set."""
    text = f"${{{name}}}"
    value = os.path.expandvars(text)
    return "" if value == text else value
