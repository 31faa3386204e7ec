r"""Text that models, tools and servers wrote, made safe to show in a terminal or a log line.

Such text may move the cursor, end a line and begin a forged one, reverse the direction of writing,
or consist of letters that look like blanks. `one_line` spells all of it out, so that the output
shows what the text contains: an escape character is shown as the four characters ``\x1b``.

Unicode category decides what counts as unseen, as in `str.isprintable` (Cc, Cf, Cn, Co, Cs, Zl, Zp,
and every blank except the ordinary one), together with a short list of characters that are blank or
ignored by default although their category says otherwise (Unicode's
``Default_Ignorable_Code_Point``, and the empty Braille cell).
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import urlsplit

__all__ = [
    "LOGGED",
    "columns_of",
    "counted",
    "disguise",
    "encodable",
    "is_unseen",
    "one_line",
    "pieces",
    "sanitize",
    "without_credentials",
]

LOGGED = 200
"""Most columns of a foreign name or value in a log line."""

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # operating system commands, such as the window's title
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # control sequences
    r"|\x1b[@-Z\\-_]"
)
_LOOKS_BLANK = frozenset(
    map(
        chr,
        (
            0x034F,  # combining grapheme joiner
            *(0x115F, 0x1160, 0x3164, 0xFFA0),  # fillers of Hangul
            *(0x17B4, 0x17B5),  # inherent vowels of Khmer
            *(0x180B, 0x180C, 0x180D, 0x180F, *range(0xFE00, 0xFE10)),  # variation selectors
            *range(0xE0100, 0xE01F0),  # more of them
            0x16FE4,  # filler of Khitan
            0x1D159,  # null notehead
            0x2800,  # Braille cell without a dot
        ),
    )
)
_HARMLESS = re.compile(r"(?<![!-~])[\u200c\u200d]|[\ufe00-\ufe0f]")
"""Joiners in scripts that need them and between pictures, and selectors of a picture's form."""
_LETTERS = re.compile(r"[^\W\d_]+")
_USUAL = re.compile(
    r"(?<=\d)[\xaa\xba]"  # ordinals, as in 3º
    r"|[\xaa\xba\u2160-\u216b]+(?![^\W\d_])"  # Nº, type Ⅱ
    r"|(?<![^\W\d_])[cdkm]\u2113(?![^\W\d_])"  # litres
)
"""Signs for letters where many people write them."""
_NEAR = "[-!#%&+./0-9:=?@A-Z_a-z~]"
_TWINS = re.compile(
    r"(?<=[0-9A-Za-z])(?:(?![0-9])\d)+(?=[0-9A-Za-z])"  # digits
    r"|(?<=[A-Za-z])[\u24b6-\u24e9]+(?=[A-Za-z])"  # letters in circles
    rf"|(?<={_NEAR})(?:"
    r"[\u2024\ufe52\uff0e\uff61\ufe6b\uff20\ufe4d-\ufe4f\uff3f]"  # dots, at signs, low lines
    r"|[\u2216\u29f5\u29f9\ufe68\uff3c]"  # backslashes
    # slashes outside of fractions, and signs such as that for `c/o`
    r"|(?!(?<=\d).\d)[\u2044\u2215\u2571\u27cb\u29f8\u2100\u2101\u2105\u2106]"
    rf")(?={_NEAR})"
    # what ends a host, near a host or path: texts of East Asia have it between any words
    rf"|[./:@\\][-0-9A-Z_a-z]{{0,63}}[\uff03\uff0f\uff1f](?={_NEAR})"
    rf"|(?<={_NEAR})[\uff03\uff0f\uff1f][-0-9A-Z_a-z]{{0,63}}[./:@\\]"
)
"""Digits and punctuation that look like ASCII, in and between words of it."""
_WITHOUT_TWINS = frozenset(("Hiragana", "Katakana", "Halfwidth", "Bopomofo", "Hangul", ""))
"""Scripts that mix with others in ordinary words, and have no letters that look like theirs."""
_MAX_MARKS = 4
"""Most marks that may be stacked on one letter; more of them cover the lines around it."""


def one_line(value: object, columns: int | None = None) -> str:
    r"""Return text as one line of visible characters.

    An invisible character becomes its escape, such as ``\n`` or ``\u202e``.

    Args:
        value: Anything; its `str` is taken.
        columns: Longest line, in columns of a terminal, at least 40; longer text is cut in the
            middle, with the total number of characters. None: any length.
    """
    text = str(value)
    if columns is None:
        return text if _is_plain(text) else "".join(pieces(text))
    shown = list(itertools.islice(pieces(text), columns + 1))
    if columns_of("".join(shown)) <= columns:
        return "".join(shown)
    mark = f" ...({len(text)} characters)... "
    tail = (columns - len(mark)) // 3
    head = columns - len(mark) - tail
    return _first(shown, head) + mark + _last(list(pieces(text[-tail:])), tail)


def sanitize(text: object) -> str:
    """Return text without escape sequences and other invisible characters.

    For text of several lines: tabs and line feeds stay, blanks of other widths become ordinary
    blanks. Use `one_line` for names and values, where an omitted character could matter.

    Args:
        text: Anything; its `str` is taken.
    """
    kept: list[str] = []
    for char, piece in _pairs(_ESCAPES.sub("", str(text))):
        if char in "\t\n":
            kept.append(char)
        elif unicodedata.category(char) == "Zs":
            kept.append(" ")
        elif piece == char:
            kept.append(char)
    return "".join(kept)


def without_credentials(url: str) -> str:
    """Return a URL without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(not a URL)"
    if not parts.netloc:  # without a scheme, all of it counts as a path
        return url.partition("?")[0].rpartition("@")[2]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def pieces(text: str) -> Iterator[str]:
    """Yield what `one_line` shows for each character: itself or its escape.

    Args:
        text: Of any length; no more of it is read than needed.
    """
    return iter(text) if _is_plain(text) else (piece for _, piece in _pairs(text))


def columns_of(text: str) -> int:
    """Return how many columns of a terminal text takes at most.

    Characters whose width depends on the terminal count as wide.

    Args:
        text: As `one_line` returns it.
    """
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(char) in "AFW") for char in text)


def disguise(text: str) -> str:
    """Return why text may be another than it looks like; empty for ordinary text.

    A word with letters of several scripts may have a letter that only looks like the expected one.
    What looks like a slash or a dot may make a host or path look like another. Invisible characters
    may change the direction of writing, or make two texts look like one.
    """
    if text.isascii():
        return ""
    found: list[str] = []
    for word in _LETTERS.findall(_USUAL.sub("", text)):
        scripts = set[str]() if word.isascii() else {*map(_script, set(word))} - _WITHOUT_TWINS
        if len(scripts) > 1:
            found.append(f"letters of {' and '.join(sorted(scripts))} in one word")
            break
    if _TWINS.search(text):
        found.append("characters that look like ASCII")
    unseen = set(_HARMLESS.sub("", text))
    if any(char in _LOOKS_BLANK or unicodedata.category(char) in ("Cf", "Co") for char in unseen):
        found.append("invisible characters")
    return ", ".join(found)


@functools.lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """Return the script of a letter; empty if its name says none.

    Signs that stand for ASCII letters, such as roman numerals and ligatures, are a script too.
    """
    name = unicodedata.name(letter, "")
    if " LETTER " in name or name.startswith("MATHEMATICAL "):
        return name.partition(" ")[0].capitalize()
    is_sign = unicodedata.category(letter) in ("Ll", "Lo", "Lu", "Nl")
    return "Symbols" if is_sign and unicodedata.normalize("NFKC", letter).isascii() else ""


def is_unseen(char: str) -> bool:
    """Return whether a character is invisible; this includes line feeds and tabs."""
    return not char.isprintable() or char in _LOOKS_BLANK


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield each character and its visible form: itself or its escape."""
    marks = _MAX_MARKS  # a text that begins with one would put it onto the character before
    for char in text:
        if is_unseen(char):
            marks, piece = 0, ascii(char)[1:-1]
        elif not char.isascii() and unicodedata.category(char) in ("Mn", "Me"):
            marks, piece = marks + 1, char if marks < _MAX_MARKS else ascii(char)[1:-1]
        else:
            marks, piece = 0, char
        yield char, piece


def _first(shown: list[str], columns: int) -> str:
    widths = itertools.accumulate(map(columns_of, shown))
    return "".join(piece for piece, end in zip(shown, widths, strict=True) if end <= columns)


def _last(shown: list[str], columns: int) -> str:
    widths = itertools.accumulate(map(columns_of, reversed(shown)))
    kept = sum(end <= columns for end in widths)
    return "".join(shown[len(shown) - kept :])


def encodable(value: Any) -> Any:
    r"""Return a value in whose texts UTF-8 can encode everything; a lone surrogate is its escape.

    Models write such text: JSON may hold ``\ud800``.

    Args:
        value: Anything; texts, dicts, lists and tuples are looked at.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        made: dict[Any, Any] = {}
        for key, item in cast("dict[Any, Any]", value).items():
            # in line, because nearly all are
            is_ascii = type(key) is str and key.isascii() and type(item) is str and item.isascii()
            made[key if is_ascii else encodable(key)] = item if is_ascii else encodable(item)
        return made
    if isinstance(value, (list, tuple)):
        items = map(encodable, cast("list[Any]", value))
        return list(items) if isinstance(value, list) else tuple(items)
    return value


def counted(number: int, noun: str) -> str:
    """Return a number of things, such as ``1 rule`` and ``2 rules``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
