"""Whether the user said a value: what `unless_user_said` compares, and how.

The user said a value if its normal form occurs in that of one of their messages, on word
borders.

Normal form: NFKC, lower case, each run of blanks and line ends as one blank. Characters that cannot
be seen are left out of the user's text; a value that has one was not said, and neither was one of
fewer than two characters, or without a letter or digit.

Word border: the value is a whole word, or several, of the text. Before it may be a blank, or quotes
and opening brackets after a blank; after it a blank, or quotes, closing brackets and the marks that
end a sentence or a part of one before a blank. So `evil.com` does not occur in `evil.com.au`,
`/x` or `x` does not in `../x`, and `12` not in `2012`, `1.12`, `-12` or `- 12`. A digit may be
beside a sign of a currency, or after `#`. Groups of three or four digits belong together: `100`
does not occur in `100 000`, nor `4111` in `4111 1111`.

Besides, in an e-mail address, a blank on each side of ``@`` does not matter, and commas and
semicolons are borders. In an IBAN whose checksum is right, blanks do not matter.

The user said a number if the text has it in digits: `100`, `100.0` and `1e2` are one number, and
the text may say `100`, `100.00`, or `1,000` for a thousand. `1.000` may be one or a thousand, so
it is neither. Anything but text and numbers (a bool, an object) was not said.

Decision code: in doubt a value was not said, so that a rule which denies what was not said denies.
"""

from __future__ import annotations

import array
import decimal
import functools
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otelhooks.hooks.said import PART_END, Message
from otelhooks.plain_text import is_unseen

__all__ = ["all_said", "was_said"]

_MOST_VALUES = 10_000
"""Most values of a call that are looked at; a call with more of them is in doubt."""

_QUOTES = "\"'`*\u201c\u201d\u2018\u2019\u201e\u201a\u00ab\u00bb\u2039\u203a"
_OPENING = frozenset("([{<\u00bf\u00a1\u300c\u300e" + _QUOTES)
_CLOSING = frozenset(")]}>.,;:!?\u3001\u3002\u300d\u300f" + _QUOTES)
_BETWEEN_PARTS = " \0 "  # no value has it
_SIGNS = ("- ", "\u2212 ")  # or a dash, or the mark of a list
_SEEN_BLANKS = frozenset(" \t\n\r")
_IBAN = re.compile(r"[a-z]{2}[0-9]{2}[a-z0-9]{11,30}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,30})(?:\.[0-9]{1,30})?")
_EITHER = re.compile(r"[+-]?[0-9]{1,3}\.[0-9]{3}")
_BREAK = re.compile(" ")
_BREAK_OF_ADDRESSES = re.compile("[ ,;]")
_GROUP_BEFORE = re.compile(r"[0-9] [0-9]{3,4}(?![0-9])")
_GROUP_AFTER = re.compile(r" [0-9]{3,4}(?![0-9])")


def all_said(args: Mapping[str, Any], names: Sequence[str], messages: Sequence[Message]) -> bool:
    """Return whether the user said every value of some arguments, and there is one.

    Values are those at any depth, with the keys of dicts. None, and a container without values, is
    the same as a missing argument.

    Args:
        args: Arguments of a call.
        names: Which of them count.
        messages: What the user said.
    """
    stack: list[Any] = [args[name] for name in names if name in args]
    left, found = _MOST_VALUES, False
    while stack:
        value = stack.pop()
        kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
        left -= 1
        if not left:
            return False
        if kind is dict:
            stack += value
            stack += value.values()
        elif kind in _CONTAINERS:
            stack += value
        elif value is not None:
            found = True
            if not was_said(value, messages):
                return False
    return found


_CONTAINERS = frozenset((list, tuple, set, frozenset))


def was_said(value: Any, messages: Sequence[Message]) -> bool:
    """Return whether a value that contains no others occurs in one of the messages.

    Args:
        value: Of exactly the class str, int or float; any other was not said.
        messages: What the user said.
    """
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is str:
        return _is_text_said(_normal_of_value(value), messages)
    if kind is int or (kind is float and math.isfinite(value)):
        number = decimal.Decimal(repr(value)) if kind is float else decimal.Decimal(value)
        is_digit = abs(number) < 10 and number == int(number)
        return not is_digit and any(number in _normal_of(one).numbers for one in messages)
    return False


# -- normal form ----------------------------------------------------------------------------------


def _normal(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    return " ".join(text.lower().split())


class _Normal:
    """The normal form of a message, and what is made of it once, for all values."""

    def __init__(self, text: str) -> None:
        self.text = _BETWEEN_PARTS.join(map(_normal_of_part, text.split(PART_END)))

    @functools.cached_property
    def for_addresses(self) -> str:
        return self.text.replace(" @ ", "@")  # in `report @bob`, someone is spoken to

    @functools.cached_property
    def compact(self) -> tuple[str, Sequence[int]]:
        """The text without blanks, and where each of its characters was."""
        places = array.array("L", (at for at, char in enumerate(self.text) if char != " "))
        return self.text.replace(" ", ""), places

    @functools.cached_property
    def numbers(self) -> frozenset[decimal.Decimal]:
        return frozenset(_numbers(self.text))


def _normal_of(message: Message) -> _Normal:
    if message.normal is None:
        message.normal = _Normal(message.text)
    return message.normal


def _normal_of_part(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)  # which makes ordinary blanks of others
    return _normal("".join(char for char in text if char.isspace() or not is_unseen(char)))


def _normal_of_value(value: str) -> str:
    """Return the normal form of a value, empty if a character of it cannot be seen."""
    if not (value.isascii() and value.isprintable()) and any(
        is_unseen(char) and char not in _SEEN_BLANKS for char in value
    ):
        return ""
    return _normal(value)


# -- texts ----------------------------------------------------------------------------------------


def _is_text_said(value: str, messages: Sequence[Message]) -> bool:
    if len(value) < 2 or not any(map(str.isalnum, value)):
        return False
    is_address = "@" in value
    if is_address:
        value = value.replace(" @", "@").replace("@ ", "@")
    iban = _as_iban(value)
    for message in reversed(messages):
        normal = _normal_of(message)
        text = normal.for_addresses if is_address else normal.text
        if value in text and _has_word(text, value, is_address=is_address):
            return True
        if iban and _has_iban(normal, iban):
            return True
    return False


def _has_word(text: str, value: str, *, is_address: bool) -> bool:
    start = text.find(value)
    while start >= 0:
        if _is_apart(text, start, start + len(value), is_address=is_address):
            return True
        start = text.find(value, _next_word(text, start, is_address=is_address))
    return False


def _next_word(text: str, start: int, *, is_address: bool) -> int:
    """Return where a word can begin next, so that a long run of one letter is looked at once."""
    if text[start] in _OPENING:
        return start + 1
    found = (_BREAK_OF_ADDRESSES if is_address else _BREAK).search(text, start)
    return len(text) if found is None else found.end()


def _is_apart(text: str, start: int, end: int, *, is_address: bool = False) -> bool:
    """Return whether a part of a text is between two word borders."""
    if text[end - 1].isdigit() and _GROUP_AFTER.match(text, end):
        return False
    if start > 1 and _GROUP_BEFORE.match(text, start - 2):
        return False
    is_number = text[start].isdigit()
    if start and is_number and (text[start - 1] == "#" or _is_money(text[start - 1])):
        start -= 1
    if is_number and text[max(start - 2, 0) : start] in _SIGNS:
        return False
    while start and text[start - 1] in _OPENING:
        start -= 1
    if start and text[start - 1] != " " and not (is_address and text[start - 1] in ",;"):
        return False
    if end < len(text) and text[end - 1].isdigit() and _is_money(text[end]):
        end += 1
    while end < len(text) and text[end] in _CLOSING:
        if is_address and text[end] in ",;":
            return True
        end += 1
    return end == len(text) or text[end] == " "


def _is_money(char: str) -> bool:
    return unicodedata.category(char) == "Sc"


def _as_iban(value: str) -> str:
    """Return a value without blanks if it is an IBAN; empty if not."""
    value = value.replace(" ", "")
    return value if _IBAN.fullmatch(value) and _is_checked(value) else ""


def _has_iban(normal: _Normal, iban: str) -> bool:
    text, (compact, places) = normal.text, normal.compact
    start = compact.find(iban)
    while start >= 0:
        first, end = places[start], places[start + len(iban) - 1] + 1
        goes_on = text[end : end + 1] == " " and text[end + 1 : end + 2].isdigit()
        if not goes_on and _is_apart(text, first, end):
            return True
        start = compact.find(iban, start + 1)
    return False


def _is_checked(iban: str) -> bool:
    """Return whether the checksum of an IBAN is right. Source: ISO 13616, ISO 7064 MOD 97-10."""
    return int("".join(str(int(char, 36)) for char in iban[4:] + iban[:4])) % 97 == 1


# -- numbers --------------------------------------------------------------------------------------


def _numbers(text: str) -> Iterator[decimal.Decimal]:
    for found in _NUMBER.finditer(text):
        if _is_apart(text, found.start(), found.end()) and not _EITHER.fullmatch(found[0]):
            yield decimal.Decimal(found[0].replace(",", ""))
