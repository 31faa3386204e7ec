"""Invisible characters, with which a policy could say something other than what it shows.

`otelhooks.plain_text.is_unseen` recognises them by Unicode category: control, format, private and
unassigned characters, ends of lines and paragraphs that few editors show, blanks except the
ordinary one, and characters that are ignored by default. Tabs and line feeds count as visible.
"""

from __future__ import annotations

import re
import unicodedata

from otelhooks.plain_text import is_unseen

__all__ = ["described", "find_unseen"]

_PLAIN = re.compile(r"[\t\n -~]*")
_JOINER = "\u200d"
_SELECTORS = "\ufe0e\ufe0f"  # of a picture's style: black and white, or in colour
_KEYCAP = "\u20e3"
_ALSO_PICTURES = "\u203c\u2049\u3030\u2139"  # by their use, though not by their category
_PICTURES = range(0x1F000, 0x1FB00)  # set aside for pictures, including future ones
_NAMES = {"\r": "CARRIAGE RETURN, alone", "\0": "NULL", "\x1b": "ESCAPE", "\x85": "NEXT LINE"}


def find_unseen(text: str, *, pictures: bool = False, blanks: bool = False) -> int:
    """Return the index of the first invisible character in a text; -1 if there is none.

    Args:
        text: Any text.
        pictures: Allow what joins and colours pictures (emoji), only between and after them.
        blanks: Allow blanks of every width, as in prose.
    """
    if _PLAIN.fullmatch(text):
        return -1
    hidden = {char for char in set(text) if is_unseen(char) and char not in "\t\n"}
    if blanks:
        hidden = {char for char in hidden if unicodedata.category(char) != "Zs"}
    if pictures:
        hidden = {char for char in hidden if ord(char) not in _PICTURES}
    for index, char in enumerate(text) if hidden else ():
        if char in hidden and not (pictures and _is_of_a_picture(text, index)):
            return index
    return -1


def _is_of_a_picture(text: str, index: int) -> bool:
    """Return whether a character colours the picture before it, or joins two of them."""
    before, after = text[index - 1 : index], text[index + 1 : index + 2]
    if text[index] in _SELECTORS:
        is_key = bool(before) and before in "#*0123456789" and after == _KEYCAP
        return is_key or _is_picture(before)
    if text[index] != _JOINER:
        return False
    return (_is_picture(before) or (before != "" and before in _SELECTORS)) and _is_picture(after)


def _is_picture(char: str) -> bool:
    if not char:
        return False
    category = unicodedata.category(char)
    return category in {"So", "Sm"} or ord(char) in _PICTURES or char in _ALSO_PICTURES


def described(char: str) -> str:
    """Return the name of a character in errors: its code and, if it has one, its name."""
    name = _NAMES.get(char) or unicodedata.name(char, "")
    return f"U+{ord(char):04X}{f' ({name})' if name else ''}"
