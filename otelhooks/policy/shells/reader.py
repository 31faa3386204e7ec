"""Reads a small language of commands: what bash, dash, zsh and busybox all read alike.

Everything else is refused, with a hint about what to write instead. Nothing is simulated: the value
of a variable is not known, and every command counts as run, whatever precedes it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NoReturn

from otelhooks.policy.shells.nodes import Block, Node, Part, Redirect, Refused, Simple, Word, check

__all__ = ["parse"]

_MOST_DEPTH = 20

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_PLAIN = re.compile(r"[A-Za-z0-9_@%+,./^\]-]+")
_QUOTED = re.compile(r"[^\"$`\\!]+")
_VARIABLE = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]*)(?![A-Za-z0-9_\[:])|\{([A-Za-z_][A-Za-z0-9_]*)\}|(\?)(?![\[:]))"
)
_CHANGED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(?:%%?|##?)[A-Za-z0-9_.,/*?-]+|\^\^?|,,?)\}")
"""A variable without its beginning or end, or with other capitals (an error but in bash)."""
_TESTED = (
    r"(?:[A-Za-z0-9_.,/][A-Za-z0-9_.,/-]*|\$[A-Za-z_][A-Za-z0-9_]*"
    r"|'[^'\n]*'|\"(?:[^\"$`\\!\n]|\$(?=[A-Za-z_{]))*\")"
)
_TEST = re.compile(
    rf"\[\[[ \t]+(?:![ \t]+)?(?:-[defnz][ \t]+{_TESTED}|{_TESTED}[ \t]+[!=]?=[ \t]+{_TESTED})"
    r"[ \t]+\]\](?=[ \t\n;|&)]|$)"
)
_TEST_WORD = re.compile(rf"{_TESTED}|[^ \t]+")
_CHOICE = r"(?:[A-Za-z0-9_.,:/@%+*?-]+|'[^'\n]*'|\"[^\"$`\\!\n]*\")"
_CHOICES = re.compile(rf"{_CHOICE}(?:[ \t]*\|[ \t]*{_CHOICE})*[ \t]*\)")
_NUMBER = re.compile(r"[0-9-](?=[\s;|&)]|$)")
_RESERVED = re.compile(r"(?:[a-z]{2,9}|[{}!]|\[\[)(?=[\s;()|&<>]|$)")
_CLOSING = frozenset("then elif else fi do done } in esac".split())
_UNSUPPORTED = frozenset("function select coproc repeat foreach end".split())
_REDIRECT = re.compile(r"([0-9]?)(<<-?|>>|>&|<&|<|>)(?![<>&|(])")
_DELIMITER = re.compile(r"'(\w+)'|\"(\w+)\"|(\w+)(?=[\s;|&)]|$)", re.ASCII)
_END = frozenset(" \t\n;|&)")
_COMMENT = re.compile(r"#[\w .,:/@%+=*?#-]*")
_AFTER_BANG = frozenset(("", " ", "\n", "="))
_AFTER_DOLLAR = frozenset(("", " ", "\t", "\n"))


def _unread(why: str) -> NoReturn:
    raise Refused("unread", why)


def parse(text: str) -> Block:
    """Return the commands of a text.

    Raises:
        Refused: A part of it is not certain to be read alike by all shells.
    """
    check(text)
    return _Reader(text).whole()


class _Reader:
    """Reads one text from its start to its end.

    Args:
        text: The text.
        depth: How many lists of commands it is in.
        inner: How many substitutions it is in.
    """

    def __init__(self, text: str, depth: int = 0, inner: int = 0) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.inner = inner
        self._due: list[tuple[str, bool, bool, list[Part]]] = []
        self._tabs = 0
        self._notes: list[str] = []

    def whole(self) -> Block:
        if self.text.startswith("^") or "\n^" in self.text:
            self._notes.append("a line starts with `^`: put a blank in front of it")
        found = self._list(())
        if self._tabs < self.text.count("\t"):
            self._notes.append("a TAB, which completes names in a terminal: write blanks")
        if self.at < len(self.text):
            _unread("a `)` without its `(`")
        return found._replace(notes=tuple(self._notes))

    # -- lists ----------------------------------------------------------------------------------

    def _list(self, ends: Collection[str]) -> Block:
        """Read commands up to a reserved word, ``;;`` if it is an end, ``)``, or the very end."""
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            _unread("commands are nested too deep")
        parts: list[Node] = []
        while True:
            self._blanks(lines=True)
            if self._peek() in {"", ")"} or self._reserved() in ends or self._ends_choice(ends):
                break
            parts.append(self._and_or())
            self._blanks()
            following = self._peek()
            if self._ends_choice(ends):
                break
            if following == "&":
                self.at += 1
                self._blanks(lines=True)
                if self.at < len(self.text) or self.depth > 1:
                    _unread("`&` may only end the whole text")
                parts[-1] = Block("background", (parts[-1],))
            elif following == ";":
                self.at += 1
                self._blanks()
                if self._peek() in {";", "&", "|"}:
                    _unread("`;` is followed by no command")
            elif following not in {"\n", "", ")"}:
                _unread("a command does not end here: put `;` between commands")
        if self._due:
            _unread("a here-document has no end")
        self.depth -= 1
        if not parts and (ends or self._peek() == ")") and not self._ends_choice(ends):
            _unread("a list of commands is empty: write a command")
        return Block("list", tuple(parts))

    def _ends_choice(self, ends: Collection[str]) -> bool:
        return ";;" in ends and self.text.startswith(";;", self.at)

    def _and_or(self) -> Node:
        parts = [self._pipe()]
        operators: set[str] = set()
        while True:
            self._blanks()
            operator = self.text[self.at : self.at + 2]
            if operator not in {"&&", "||"}:
                break
            operators.add(operator)
            self.at += 2
            self._blanks(lines=True, joins=True)
            parts.append(self._pipe())
        if not operators:
            return parts[0]
        return Block("and" if operators == {"&&"} else "or", tuple(parts))

    def _pipe(self) -> Node:
        negated = self._reserved() == "!"
        if negated:
            self.at += 1
            if self._peek() not in {" ", "\t"}:
                _unread("put a blank after `!`")
            self._blanks()
        parts = [self._command()]
        while True:
            self._blanks()
            if self._peek() != "|" or self.text[self.at : self.at + 2] == "||":
                break
            self.at += 1
            if self._peek() == "&":
                _unread("`|&`: write `2>&1 |`")
            self._blanks(lines=True, joins=True)
            parts.append(self._command())
        found = parts[0] if len(parts) == 1 else Block("pipe", tuple(parts))
        return Block("not", (found,)) if negated else found

    # -- commands -------------------------------------------------------------------------------

    def _command(self) -> Node:
        if self._peek() == "(":
            self.at += 1
            if self._peek() == "(":
                _unread("`((`, which calculates: use a program of the workspace")
            body = self._list(())
            self._take(")")
            return Block("subshell", (body,), self._redirects())
        word = self._reserved()
        if word == "{":
            if self.text[self.at + 1 : self.at + 2] not in {" ", "\t", "\n"}:
                _unread("put a blank after `{`")
            return self._compound("list", ("}",))
        if word == "if":
            return self._compound("if", ("then",), ("elif", "else", "fi"))
        if word in {"while", "until"}:
            loop = self._compound("loop", ("do",), ("done",))
            negated = Block("not", loop.parts[:1])
            return loop if word == "while" else loop._replace(parts=(negated, *loop.parts[1:]))
        if word == "for":
            return self._for()
        if word == "case":
            return self._case()
        if word == "[[":
            return self._test()
        if word in _CLOSING or word in _UNSUPPORTED or word == "!":
            _unread(f"`{word}` is not read here: write plain commands")
        return self._simple()

    def _compound(self, kind: str, *stages: Collection[str]) -> Block:
        """Read a compound command, from its first word on, in lists that end with given words."""
        self.at += len(self._reserved())
        parts: list[Node] = []
        stage = 0
        while True:
            parts.append(self._list(stages[stage]))
            word = self._reserved()
            if not word:
                _unread("a compound command has no end")
            self.at += len(word)
            if word in {"fi", "done", "}"}:
                return Block(kind, tuple(parts), self._redirects())
            stage = 0 if word == "elif" else 1
            if word == "else":
                stages = (*stages[:1], ("fi",))

    def _for(self) -> Block:
        self.at += 3
        self._blanks()
        name = _NAME.match(self.text, self.at)
        if name is None:
            _unread("`for` needs the name of a variable")
        self.at = name.end()
        self._blanks()
        if self._reserved() != "in":
            _unread("`for` needs `in` and words")
        self.at += 2
        words: list[Word] = []
        while True:
            self._blanks()
            if self._peek() in {"", "\n", ";"}:
                break
            if self._peek() in _END:
                _unread("`for` needs words")
            words.append(self._word())
        self.at += self._peek() == ";"
        self._blanks(lines=True, joins=True)
        if self._reserved() != "do":
            _unread("`for` needs `do`")
        body = self._compound("for", ("done",))
        return body._replace(name=name[0], words=tuple(words))

    def _case(self) -> Block:
        self.at += 4
        self._blanks()
        if self.inner:
            _unread("`case` in a substitution, which old shells read up to its first `)`")
        if self._peek() not in {'"', "$"}:
            _unread('`case`: write `case "$x" in`')
        word = self._word(assigned=True)
        self._blanks()
        if self._reserved() != "in":
            _unread("`case` needs `in`")
        self.at += 2
        parts: list[Node] = []
        while True:
            self._blanks(lines=True, joins=True)
            if parts and self._reserved() == "esac":
                self.at += 4
                return Block("case", tuple(parts), self._redirects(), words=(word,))
            choices = _CHOICES.match(self.text, self.at)
            if choices is None or "esac" in choices[0]:
                _unread("`case` needs patterns of letters, `*` and `?`, and `esac` behind a `;;`")
            self.at = choices.end()
            parts.append(self._list((";;",)))
            self._take(";")
            self._take(";")

    def _test(self) -> Simple:
        """Read ``[[ ... ]]``, which is a program to shells that do not know it."""
        match = _TEST.match(self.text, self.at)
        if match is None:
            _unread("`[[`: write `[`, or one test with `-d`, `-e`, `-f`, `-n`, `-z`, `==` or `!=`")
        self.at = match.end()
        words: list[Word] = []
        for text in _TEST_WORD.findall(match[0]):
            is_plain = text[0] not in "'\"$"
            words.append((Part("text", text),) if is_plain else _Reader(text)._word())
        return Simple((), tuple(words), ())

    def _simple(self) -> Simple:
        assigned: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            self._blanks()
            if self._peek() == "" or self._peek() in _END:
                break
            redirect = self._redirect()
            assignment = None if words else _ASSIGNMENT.match(self.text, self.at)
            if redirect is not None:
                redirects.append(redirect)
            elif assignment is not None:
                self.at = assignment.end()
                assigned.append((assignment[1], self._word(assigned=True)))
            else:
                words.append(self._word())
        if not assigned and not words and not redirects:
            _unread("a command is missing")
        return Simple(tuple(assigned), tuple(words), tuple(redirects))

    def _redirects(self) -> tuple[Redirect, ...]:
        found: list[Redirect] = []
        while True:
            self._blanks()
            redirect = self._redirect()
            if redirect is None:
                return tuple(found)
            found.append(redirect)

    def _redirect(self) -> Redirect | None:
        match = _REDIRECT.match(self.text, self.at)
        if match is None:
            if self._peek() in {"<", ">"} and self.text[self.at : self.at + 2] != "<(":
                _unread("a redirection of another kind: write `>file`, `2>&1` or `<file`")
            return None
        self.at = match.end()
        operator = match[2]
        if operator.startswith("<<"):
            return Redirect("<<", self._announce(strips=operator == "<<-"))
        if operator in {">&", "<&"}:
            if _NUMBER.match(self.text, self.at) is None:
                _unread("`>&` needs the number of a file: write `>file 2>&1`")
            self.at += 1
            return Redirect(operator, ())
        self._blanks()
        if self._peek() == "" or self._peek() in _END:
            _unread("a redirection has no target")
        return Redirect(operator, self._word())

    # -- blanks, comments and here-documents ----------------------------------------------------

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _reserved(self) -> str:
        match = _RESERVED.match(self.text, self.at)
        return "" if match is None else match[0]

    def _take(self, character: str) -> None:
        if self._peek() != character:
            _unread(f"a `{character}` is missing")
        self.at += 1

    def _blanks(self, *, lines: bool = False, joins: bool = False) -> None:
        """Skip blanks and joined lines; with `lines` also ends of lines and comments.

        With `joins` no command is possible here, and so no comment.
        """
        while True:
            here = self._peek()
            if here in {" ", "\t"}:
                self.at += 1
            elif here == "\\" and self.text[self.at + 1 : self.at + 2] == "\n":
                if self.at and self.text[self.at - 1] not in " \t\n":
                    _unread("put a blank in front of `\\` at the end of a line")
                self.at += 2
                if self._peek() in {"#", "\\"}:
                    _unread("a joined line starts with `#` or `\\`")
            elif here == "#" and (not self.at or self.text[self.at - 1] in " \n;"):
                if self.inner:
                    _unread("a comment in a substitution: put it on a line before the command")
                self._comment(joins=joins)
            elif here == "\n" and lines:
                self.at += 1
                self._bodies()
            else:
                return

    def _comment(self, *, joins: bool) -> None:
        """Skip a comment; note one that would do harm as a command `#`, as in a terminal of zsh."""
        start = self.at
        while start and self.text[start - 1] == " ":
            start -= 1
        before = self.text[max(start - 2, 0) : start]
        if joins or (before and (before[-1] not in "\n;" or before[0] == "\\")):
            self._notes.append("a comment in a command: put it on a line before the command")
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        if _COMMENT.fullmatch(self.text, self.at, end) is None:
            self._notes.append("a comment has other signs than letters, digits and `.,:/@%+=*?-`")
        self.at = end

    def _announce(self, *, strips: bool) -> Word:
        """Note a here-document whose content starts on the next line."""
        self._blanks()
        match = _DELIMITER.match(self.text, self.at)
        if match is None:
            _unread("the end of a here-document is not a plain word")
        self.at = match.end()
        if self._peek() and self._peek() not in _END:
            _unread("the end of a here-document is not a plain word")
        content: list[Part] = []
        self._due.append((match[1] or match[2] or match[3], match[3] is None, strips, content))
        return content

    def _bodies(self) -> None:
        """Read the here-documents that a line has announced."""
        due, self._due = self._due, []
        for name, is_literal, strips, content in due:
            lines: list[str] = []
            start = self.at
            while True:
                if self.at >= len(self.text):
                    _unread("a here-document has no end")
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = end + 1
                line = line.lstrip("\t") if strips else line
                if line == name:
                    break
                if line.startswith(name):
                    _unread("a line of a here-document starts with the word that ends it")
                lines.append(line)
            self._tabs += self.text.count("\t", start, self.at)
            if not is_literal:
                text = "\n".join([*lines, ""])  # its end too: a `\` there joins what follows
                content += _Reader(text, self.depth, self.inner + 1).expanding("")

    # -- words ----------------------------------------------------------------------------------

    def _word(self, *, assigned: bool = False) -> Word:
        parts: list[Part] = []
        start = self.at
        is_equal = self.text[self.at + 1 : self.at + 2] in {" ", "\t"} and self._peek() == "="
        if self._peek() in {"#", "="} and not assigned and not is_equal:
            _unread("a word starts with `#` or `=`: put it in quotes")
        while True:
            here = self._peek()
            if here == "" or here in _END:
                return tuple(parts)
            plain = _PLAIN.match(self.text, self.at)
            if plain is not None:
                self.at = plain.end()
                parts.append(Part("text", plain[0]))
            elif here == "'":
                parts.append(Part("text", self._up_to_quote()))
            elif here == '"':
                self.at += 1
                parts.append(Part("text", ""))
                parts += self.expanding('"')
                self.at += 1
            elif here == "$":
                parts.append(self._dollar(quoted=assigned))
            elif here in {"*", "?"} and not assigned:
                if self.text[self.at + 1 : self.at + 2] == here == "*":
                    _unread("`**`: put it in quotes, or use `find`")
                self.at += 1
                parts.append(Part("glob", here, quoted=False))
            elif here == "<" and self.at == start and not assigned:
                self.at += 1
                parts.append(Part("pipe", "", node=self._commands()))
                if self._peek() and self._peek() not in _END:
                    _unread("`<(...)` is a part of a word")
            else:
                parts.append(Part("text", self._other(start)))

    def _other(self, start: int) -> str:
        """Read one more character of a word, outside of quotes."""
        here, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
        alone = following == "" or following in _END
        if here == "\\" and following not in {"", "\n"} and following.isascii():
            self.at += 2
            return following
        if here == "{" and following == "}":
            self.at += 2
            return "{}"
        if here == "~" and (self.at == start or self.text[self.at - 1] in "=:"):
            raise Refused("outside", "`~` leads out of the workspace")
        if (
            here in {"#", "=", ":", "~"}
            or (here == "!" and following in _AFTER_BANG)
            or (here == "[" and alone and self.at == start)
        ):
            self.at += 1
            return here
        _unread(f"`{here}` outside of quotes: put it in single quotes if it is meant as text")

    def _up_to_quote(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            _unread("a quote has no end")
        found = self.text[self.at + 1 : end]
        if self._due and "\n" in found:
            _unread("a line ends in quotes before a here-document has started")
        self.at = end + 1
        return found

    def expanding(self, end: str) -> list[Part]:
        """Read a text in which `$` has its meaning, up to a double quote or to the very end."""
        parts: list[Part] = []
        while self._peek() != end:
            here, following = self._peek(), self.text[self.at + 1 : self.at + 2]
            plain = _QUOTED.match(self.text, self.at)
            if here == "":
                _unread("a quote has no end")
            if plain is not None:
                if self._due and "\n" in plain[0]:
                    _unread("a line ends in quotes before a here-document has started")
                self.at = plain.end()
                parts.append(Part("text", plain[0]))
            elif here == "$":
                parts.append(self._dollar(quoted=True))
            elif here == "\\" and following != "\n":
                is_escape = following in {"$", "`", "\\"} or following == end
                parts.append(Part("text", following if is_escape else here + following))
                self.at += 2
            elif here == '"' or (here == "!" and (not end or following in _AFTER_BANG)):
                parts.append(Part("text", here))
                self.at += 1
            else:
                _unread(f"`{here}` in double quotes: use single quotes, or `$(...)` for commands")
        return parts

    def _dollar(self, *, quoted: bool) -> Part:
        match = _VARIABLE.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
            return Part("variable", match[1] or match[2] or match[3], quoted)
        match = _CHANGED.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
            return Part("changed", match[1], quoted)
        self.at += 1
        following = self._peek()
        if following == "(":
            return Part("output", "", quoted, self._commands())
        if following in _AFTER_DOLLAR or (quoted and following in {'"', "/"}):
            return Part("text", "$")
        _unread("`$` is followed by what is not read: write `$NAME`, `${NAME}` or `$(command)`")

    def _commands(self) -> Node:
        """Read commands in parentheses."""
        self._take("(")
        if self._peek() == "(":
            _unread("`$((`, which calculates: use a program of the workspace")
        if self._due:
            _unread("a substitution before a here-document has started")
        self.inner += 1
        found = self._list(())
        self.inner -= 1
        self._take(")")
        return found
