"""A strict reader of commands: the part of bash whose meaning is certain before it runs.

`otelhooks.policy.shell` reads more than runs, so that a list of what is denied misses nothing. A
list of what is allowed needs the opposite: each command that runs, once, with its words, its place
in a pipeline and in a compound command. Anything else is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from otelhooks.policy import shell_words
from otelhooks.policy.shell_variables import NUMBER, UNKNOWN
from otelhooks.policy.unseen import find_unseen

__all__ = [
    "GLOB",
    "Block",
    "Function",
    "Node",
    "Part",
    "Redirect",
    "Simple",
    "Unread",
    "Word",
    "parse",
]

GLOB = "\ufffa"
"""In values: what a pattern stands for, a name or a part of one."""

_OURS = frozenset((GLOB, NUMBER, UNKNOWN))
_LONGEST = 100_000
_DEEPEST = 24

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
_START = re.compile(r"\[\[(?=\s)|\(\(|[{!](?=\s)|\}(?=[\s;&|()<>]|$)|[a-z]+(?=[\s;&|()<>]|$)")
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[;&|()\n]")
_REDIRECT = re.compile(r"(\d*)(&>>|&>|<<<|<<-|<<|<>|<&|>>|>\||>&|<(?!\()|>(?!\())")
_PLAIN = re.compile(r"[^\s\\'\"`$()<>;&|*?\[!{}]+")
_IN_DOUBLE = re.compile(r"[^\\\"`$!]+")
_IN_BODY = re.compile(r"[^\\`$]+")
_ARITHMETIC = re.compile(r"\(\(([\w\s+*/%<>=!?:,$^~|&-]*)\)\)")
_BRACED = re.compile(
    r"\{(#?)([A-Za-z_]\w*|[0-9@*#?])"
    r"((?::?[-=+?]|##?|%%?|//?|\^\^?|,,?)[^{}$`\\'\"]*|:\d+(?::\d+)?)?\}",
    re.ASCII,
)
_VARIABLE = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_HISTORY = re.compile(r"![\w!$?#-]")
_LISTING = re.compile(r"\{[^{}]*\}")
_END_OF_BACKTICKS = re.compile(r"((?:\\.|[^`\\])*)`", re.DOTALL)

_STARTING = frozenset("if while until for case { ( [[ ((".split())
_RESERVED = frozenset(
    "if then elif else fi while until for do done case esac { } ! in time".split()
)
_UNKNOWN_TO_US = frozenset("coproc select".split())


class Unread(ValueError):
    """A text whose meaning is not certain before it runs."""


class Part(NamedTuple):
    """A part of a word.

    Attributes:
        kind: ``text``, ``glob``, ``braces``, ``variable``, ``output`` (of commands), ``number``,
            ``unknown``, or ``file`` (a process substitution).
        text: The text, or the name of a variable.
        quoted: Whether its value is one word whatever it is.
        inner: Commands whose output it is.
        change: What ``${name...}`` does to the value.
    """

    kind: str
    text: str = ""
    quoted: bool = True
    inner: Block | None = None
    change: str = ""


Word: TypeAlias = tuple[Part, ...]


class Redirect(NamedTuple):
    """A redirection; the word of a here-document is its text."""

    sign: str
    word: Word


class Simple(NamedTuple):
    """A simple command."""

    assigned: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: list[Redirect]  # texts of here-documents are added when they have been read


class Block(NamedTuple):
    """Commands with a sign between them, or in a compound command.

    Attributes:
        kind: ``list``, ``&&``, ``||``, ``|``, ``&``, ``subshell``, ``group``, ``if``, ``loop``,
            ``for``, ``case`` or ``[[``.
        parts: The inner commands.
        words: Words of ``for``, ``case`` and ``[[``, with the variable's name in `name`.
        redirects: Those of a compound command.
    """

    kind: str
    parts: tuple[Node, ...]
    words: tuple[Word, ...] = ()
    name: str = ""
    redirects: Sequence[Redirect] = ()


class Function(NamedTuple):
    """A definition of a function."""

    name: str
    body: Node


Node: TypeAlias = Simple | Block | Function


def parse(text: str, depth: int = 0) -> Block:
    """Return the commands of a text.

    Raises:
        Unread: Their meaning is not certain.
    """
    if len(text) > _LONGEST:
        raise Unread("the command is too long")
    if find_unseen(text, pictures=True) >= 0 or not _OURS.isdisjoint(text):
        raise Unread("it contains an invisible character")
    return _Reader(text, depth).list_until(frozenset())


def literal(word: Word) -> str | None:
    """Return the text of a word that has no quotes and nothing to expand."""
    if len(word) == 1 and word[0].kind == "text" and not word[0].quoted:
        return word[0].text
    return None


class _Reader:
    """Reads a text once, from its beginning to its end."""

    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.at: int = 0
        self._depth = depth
        self._pending: list[tuple[list[Redirect], int, str, bool, bool]] = []

    # -- signs ----------------------------------------------------------------------------------

    def _blanks(self) -> None:
        text = self.text
        while self.at < len(text):
            if text[self.at] in " \t":
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif text[self.at] == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            else:
                return

    def _sign(self) -> str:
        """Return the operator that comes next, without taking it; empty if there is none."""
        self._blanks()
        found = _OPERATOR.match(self.text, self.at)
        if found is None or _REDIRECT.match(self.text, self.at):
            return ""
        return found[0]

    def _take(self, sign: str) -> bool:
        if self._sign() != sign:
            return False
        self.at += len(sign)
        if sign == "\n":
            self._read_bodies()
        return True

    def _lines(self) -> None:
        while self._take("\n"):
            pass

    def _next_word(self) -> str:
        """Return the plain word that comes next, without taking it."""
        self._blanks()
        found = _START.match(self.text, self.at)
        return "" if found is None else found[0]

    def _keyword(self, *words: str) -> str:
        found = self._next_word()
        if found not in words:
            raise Unread(f"`{words[0]}` is missing")
        self.at += len(found)
        return found

    # -- commands -------------------------------------------------------------------------------

    def list_until(self, ends: frozenset[str]) -> Block:
        """Read commands up to a word or sign that ends them."""
        parts: list[Node] = []
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unread("commands are nested too deep")
        while True:
            self._lines()
            sign = self._sign()
            if self.at >= len(self.text) or sign in ends or self._next_word() in ends:
                break
            if sign and sign != "(":
                raise Unread(f"`{sign}` is out of place")
            node = self._and_or()
            sign = self._sign()
            if sign == "&":
                self.at += 1
                node = Block("&", (node,))
            elif sign in {";", "\n"}:
                self._take(sign)
            elif sign and sign not in ends:
                raise Unread(f"`{sign}` is out of place")
            parts.append(node)
        if self._pending:
            raise Unread("a here-document has no end")
        self._depth -= 1
        return Block("list", tuple(parts))

    def _and_or(self) -> Node:
        node = self._pipeline()
        while (sign := self._sign()) in {"&&", "||"}:
            self._take(sign)
            self._lines()
            node = Block(sign, (node, self._pipeline()))
        return node

    def _pipeline(self) -> Node:
        while self._next_word() in {"!", "time"}:
            self.at += len(self._next_word())
        parts = [self._command()]
        while (sign := self._sign()) in {"|", "|&"}:
            self._take(sign)
            self._lines()
            parts.append(self._command())
        return parts[0] if len(parts) == 1 else Block("|", tuple(parts))

    def _command(self) -> Node:
        word = "(" if self._sign() == "(" and not self.text.startswith("((", self.at) else ""
        word = word or self._next_word()
        if word in _UNKNOWN_TO_US:
            raise Unread(f"`{word}` cannot be followed")
        if word == "function":
            self.at += len(word)
            self._blanks()
            found = re.compile(r"([\w.:-]+)\s*(?:\(\s*\))?").match(self.text, self.at)
            if found is None:
                raise Unread("a function has no name")
            self.at = found.end()
            return self._function(found[1])
        found = re.compile(r"([\w.:-]+)[ \t]*\([ \t]*\)").match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            return self._function(found[1])
        if word not in _STARTING:
            if word in _RESERVED:
                raise Unread(f"`{word}` is out of place")
            return self._simple()
        self.at += len(word)
        block = self._compound(word)
        redirects: list[Redirect] = []
        while self._redirect(redirects):
            pass
        if self._sign() == "" and self.at < len(self.text):
            raise Unread("a word follows a compound command")
        return block._replace(redirects=redirects)

    def _function(self, name: str) -> Function:
        self._lines()
        if self._next_word() != "{" and self._sign() != "(":
            raise Unread("a function has no body")
        return Function(name, self._command())

    def _compound(self, word: str) -> Block:
        if word == "(":
            inner = self.list_until(frozenset(")"))
            if not self._take(")"):
                raise Unread("`)` is missing")
            return Block("subshell", inner.parts)
        if word == "{":
            inner = self.list_until(frozenset("}"))
            self._keyword("}")
            return Block("group", inner.parts)
        if word == "[[":
            return self._test()
        if word == "((":
            self.at -= 2
            return Block("[[", (), ((self._arithmetic(),),))
        if word == "if":
            return self._if()
        if word == "case":
            return self._case()
        if word == "for":
            return self._for()
        test = self.list_until(frozenset(("do",)))
        return Block("loop", (test, self._do()))

    def _do(self) -> Block:
        self._keyword("do")
        body = self.list_until(frozenset(("done",)))
        self._keyword("done")
        return body

    def _if(self) -> Block:
        parts: list[Node] = [self.list_until(frozenset(("then",)))]
        self._keyword("then")
        parts.append(self.list_until(frozenset(("elif", "else", "fi"))))
        end = self._keyword("fi", "elif", "else")
        if end == "elif":
            parts.append(self._if())
        elif end == "else":
            parts.append(self.list_until(frozenset(("fi",))))
            self._keyword("fi")
        return Block("if", tuple(parts))

    def _for(self) -> Block:
        self._blanks()
        found = _NAME.match(self.text, self.at)
        if found is None:
            raise Unread("a `for` has no name")
        self.at = found.end()
        self._lines()
        words: tuple[Word, ...] = ((Part("unknown", quoted=False),),)
        if self._next_word() == "in":
            self._keyword("in")
            words = self._words()
        self._take(";")
        self._lines()
        return Block("for", (self._do(),), words, found[0])

    def _words(self) -> tuple[Word, ...]:
        words: list[Word] = []
        while self._sign() == "" and self.at < len(self.text):
            words.append(self._word())
        return tuple(words)

    def _case(self) -> Block:
        self._blanks()
        words = [self._word()]
        self._lines()
        self._keyword("in")
        parts: list[Node] = []
        while True:
            self._lines()
            if self._next_word() == "esac":
                break
            self._take("(")
            while True:
                self._blanks()
                words.append(self._word())
                if not self._take("|"):
                    break
            if not self._take(")"):
                raise Unread("a `case` cannot be read")
            parts.append(self.list_until(frozenset((";;", "esac"))))
            if not self._take(";;"):
                break
        self._lines()
        self._keyword("esac")
        return Block("case", tuple(parts), tuple(words))

    def _test(self) -> Block:
        """Read a ``[[ ]]``; in it, signs such as ``<`` and ``&&`` are words."""
        words: list[Word] = []
        pattern = False
        while True:
            self._lines()
            if self.at >= len(self.text):
                raise Unread("`]]` is missing")
            if re.compile(r"\]\](?=[\s;&|)]|$)").match(self.text, self.at):
                self.at += 2
                return Block("[[", (), tuple(words))
            found = re.compile(r"&&|\|\||[<>()]|![\s]").match(self.text, self.at)
            if found is not None and not pattern:
                self.at = found.end()
                words.append((Part("text", found[0].strip()),))
            else:
                words.append(self._word(is_pattern=pattern))
            pattern = literal(words[-1]) == "=~"

    def _simple(self) -> Simple:
        assigned: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            if self._redirect(redirects):
                continue
            if self._sign() or self.at >= len(self.text):
                break
            found = _ASSIGNED.match(self.text, self.at)
            if found is not None and (not words or literal(words[0]) in {"export", "local"}):
                self.at = found.end()
                value = self._value()
                if found[0].endswith("+="):
                    value = (Part("variable", found[1]), *value)
                assigned.append((found[1], value))
                continue
            if re.compile(r"[A-Za-z_]\w*\[[^]]*\]\+?=").match(self.text, self.at):
                raise Unread("arrays cannot be followed")
            words.append(self._word())
        if not (assigned or words or redirects):
            raise Unread("a command is missing")
        return Simple(tuple(assigned), tuple(words), redirects)

    def _value(self) -> Word:
        if self.text.startswith("(", self.at):
            raise Unread("arrays cannot be followed")
        is_empty = self.at >= len(self.text) or self.text[self.at] in " \t\n;&|()<>"
        return () if is_empty else self._word()

    # -- redirections ---------------------------------------------------------------------------

    def _redirect(self, found: list[Redirect]) -> bool:
        self._blanks()
        sign = _REDIRECT.match(self.text, self.at)
        if sign is None:
            return False
        self.at = sign.end()
        self._blanks()
        if sign[2] in {"<<", "<<-"}:
            start = self.at
            word = self._word()
            if not all(part.kind == "text" for part in word):
                raise Unread("the end of a here-document cannot be read")
            is_quoted = any(sign in self.text[start : self.at] for sign in "'\"\\")
            if "\n" in self.text[start : self.at]:
                raise Unread("the end of a here-document cannot be read")
            end = "".join(part.text for part in word)
            self._pending.append((found, len(found), end, is_quoted, sign[2] == "<<-"))
            found.append(Redirect("<<", ()))
        else:
            found.append(Redirect(sign[2], self._word()))
        return True

    def _read_bodies(self) -> None:
        pending, self._pending = self._pending, []
        for found, place, end, is_quoted, is_indented in pending:
            lines: list[str] = []
            while True:
                if self.at >= len(self.text):
                    raise Unread("a here-document has no end")
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                line = self.text[self.at : stop]
                self.at = min(stop + 1, len(self.text))
                line = line.lstrip("\t") if is_indented else line
                if line == end:
                    break
                if not is_quoted and line.endswith("\\"):
                    raise Unread("a line of a here-document is joined with the next")
                lines.append(line)
            body = "".join(f"{line}\n" for line in lines)
            word: Word = (Part("text", body),)
            if not is_quoted:
                word = tuple(_Reader(body, self._depth).quoted(""))
            found[place] = Redirect("<<", word)

    # -- words ----------------------------------------------------------------------------------

    def _word(self, *, is_pattern: bool = False) -> Word:
        parts: list[Part] = []
        text, start = self.text, self.at
        while self.at < len(text):
            sign = text[self.at]
            if text.startswith(("<(", ">("), self.at) and self.at == start:
                self.at += 2
                parts.append(Part("file", sign, True, self._inner()))
            elif is_pattern and sign in "()|<>":
                self.at += 1
                parts.append(Part("text", sign))
            elif sign in " \t\n;&|()<>":
                break
            elif sign == "\\":
                if not text.startswith("\\\n", self.at):
                    if self.at + 1 >= len(text):
                        raise Unread("a word ends in `\\`")
                    parts.append(Part("text", text[self.at + 1]))
                self.at += 2
            elif sign == "'":
                end = text.find("'", self.at + 1)
                if end < 0:
                    raise Unread("a quote has no end")
                parts.append(Part("text", text[self.at + 1 : end]))
                self.at = end + 1
            elif sign == '"':
                self.at += 1
                parts += [Part("text", ""), *self.quoted('"')]
            elif sign in "$`":
                parts.append(self._expansion(quoted=False))
            elif sign in "*?[":
                self.at += 1
                is_test = (
                    sign == "[" and self.at - 1 == start and text[self.at : self.at + 1] in " \t"
                )
                parts.append(Part("text" if is_test else "glob", sign, quoted=False))
            elif sign in "!{}":
                if _HISTORY.match(text, self.at):
                    raise Unread("`!` may mean a line of the history")
                listing = _LISTING.match(text, self.at)
                if listing is not None and ("," in listing[0] or ".." in listing[0]):
                    self._braces(parts, start)
                    return tuple(parts)
                self.at += 1
                parts.append(Part("text", sign, quoted=False))
            else:
                found = _PLAIN.match(text, self.at)
                assert found is not None
                self.at = found.end()
                parts.append(Part("text", found[0], quoted=False))
        if not parts and self.at == start:
            raise Unread("a word is missing")
        return _joined(parts)

    def _braces(self, parts: list[Part], start: int) -> None:
        """Read a word with a list in braces, if it has nothing else that is special."""
        found = re.compile(r"[^\s\\'\"`$()<>;&|*?\[!]+").match(self.text, start)
        if found is None or re.compile(r"[^\s;&|()<>]").match(self.text, found.end()):
            raise Unread("braces beside quotes or expansions cannot be followed")
        self.at = found.end()
        parts[:] = [Part("braces", found[0], quoted=False)]

    def quoted(self, end: str) -> list[Part]:
        """Read to a closing quote, or with an empty `end` to the end of a here-document."""
        parts: list[Part] = []
        text, plain = self.text, _IN_DOUBLE if end else _IN_BODY
        while True:
            if self.at >= len(text):
                if end:
                    raise Unread("a quote has no end")
                return parts
            sign = text[self.at]
            if end and sign == end:
                self.at += 1
                return parts
            if sign == "\\":
                after = text[self.at + 1 : self.at + 2]
                if after in {"$", "`", "\\"} or (end and after == '"'):
                    parts.append(Part("text", after))
                elif after != "\n":
                    parts.append(Part("text", "\\" + after))
                self.at += 2
            elif sign in "$`":
                parts.append(self._expansion(quoted=True))
            elif end and sign == "!":
                if _HISTORY.match(text, self.at):
                    raise Unread("`!` may mean a line of the history")
                self.at += 1
                parts.append(Part("text", sign))
            else:
                found = plain.match(text, self.at)
                assert found is not None
                self.at = found.end()
                parts.append(Part("text", found[0]))

    def _expansion(self, *, quoted: bool) -> Part:
        part = self._expanded(quoted=quoted)
        if self.text.startswith("\\\n", self.at):
            raise Unread("a line is joined behind an expansion")  # which may be a longer one
        return part

    def _expanded(self, *, quoted: bool) -> Part:
        text = self.text
        if text[self.at] == "`":
            found = _END_OF_BACKTICKS.match(text, self.at + 1)
            if found is None:
                raise Unread("a backtick has no end")
            self.at = found.end()
            inner = re.sub(r"\\([$`\\])" if not quoted else r"\\([$`\\\"])", r"\1", found[1])
            return Part("output", "", quoted, parse(inner, self._depth + 1))
        self.at += 1
        rest = text[self.at : self.at + 1]
        if text.startswith("((", self.at):
            return self._arithmetic()._replace(quoted=quoted)
        if rest == "(":
            self.at += 1
            return Part("output", "", quoted, self._inner())
        if rest == "{":
            return self._braced(quoted)
        if rest == "'" and not quoted:
            found = re.compile(r"'((?:\\.|[^'\\])*)'", re.DOTALL).match(text, self.at)
            if found is None:
                raise Unread("a quote has no end")
            self.at = found.end()
            return Part("text", shell_words.unescaped(found[1]).split("\0")[0])
        if rest in {'"', "["} and not quoted:
            raise Unread(f"`${rest}` cannot be followed")
        found = _VARIABLE.match(text, self.at)
        if found is None:
            return Part("text", "$")
        self.at = found.end()
        return Part("variable", found[0], quoted)

    def _inner(self) -> Block:
        if self._pending:
            raise Unread("there are commands between a here-document and its text")
        inner = self.list_until(frozenset(")"))
        if not self._take(")"):
            raise Unread("`)` is missing")
        return inner

    def _arithmetic(self) -> Part:
        found = _ARITHMETIC.match(self.text, self.at)
        if found is None:
            raise Unread("arithmetic cannot be followed")
        self.at = found.end()
        return Part("number", " ".join(map(str, _NAME.findall(found[1]))))

    def _braced(self, quoted: bool) -> Part:
        found = _BRACED.match(self.text, self.at)
        if found is None:
            raise Unread("a `${...}` cannot be followed")
        self.at = found.end()
        if found[1]:
            return Part("number", "")
        return Part("variable", found[2], quoted, change=found[3] or "")


def _joined(parts: list[Part]) -> Word:
    """Return parts with neighbouring plain texts joined, so that a plain word is one part."""
    found: list[Part] = []
    for part in parts:
        if found and part.kind == found[-1].kind == "text" and part.quoted == found[-1].quoted:
            found[-1] = found[-1]._replace(text=found[-1].text + part.text)
        else:
            found.append(part)
    return tuple(found)
