"""How shells replace a text: escapes, braces, a command that only prints."""

from __future__ import annotations

import itertools
import os
import re
import tempfile

from otelhooks.policy.commands.shell_variables import MOST, UNKNOWN

__all__ = ["braced", "new_file", "said", "unescaped"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"([^{}]|0|[1-9]\d{0,3})\.\.([^{}]|0|[1-9]\d{0,3})")
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(c.|.))",
    re.DOTALL,
)
_UNCLEAR_ESCAPE = re.compile(r"\\(?:x\{[0-9a-fA-F]*\}?|0[0-7]{3})")  # shells differ
_LETTERS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
}


def unescaped(text: str) -> str:
    r"""Return a text without escapes such as ``\x72``: of ``$'...'`` and of Git's quoted paths."""
    return _ESCAPE.sub(_sign, _UNCLEAR_ESCAPE.sub(UNKNOWN, text))


def _sign(escape: re.Match[str]) -> str:
    if escape[5] is not None:
        return UNKNOWN if len(escape[5]) > 1 else _LETTERS.get(escape[5], escape[5])
    hexadecimal = escape[1] or escape[2] or escape[3]
    number = int(hexadecimal, 16) if hexadecimal else int(escape[4], 8) & 0xFF
    is_byte = not (escape[2] or escape[3])
    return chr(number) if number <= (0x7F if is_byte else 0x10FFFF) else UNKNOWN


def braced(word: str) -> list[str]:
    """Return the words that braces produce, and the unchanged word, as a plain shell reads it."""
    done, left = [word], [word]
    while left:
        each = left.pop()
        for found in _BRACES.finditer(each):
            choices = _choices(found[1])
            for choice in choices:
                if len(done) > MOST:
                    return [_BRACES.sub(UNKNOWN, word)]
                made = each[: found.start()] + choice + each[found.end() :]
                done.append(made)
                left.append(made)
            if choices:
                break
    return done


def _choices(text: str) -> list[str]:
    if "," in text:
        return text.split(",")
    if ".." not in text:
        return []
    between = _RANGE.fullmatch(text)
    if between is None:
        return [UNKNOWN]
    first, last = between.groups()
    if first.isdigit() and last.isdigit():
        low, high = sorted((int(first), int(last)))
        return [str(number) for number in range(low, min(high, low + MOST) + 1)]
    low, high = sorted((ord(first[0]), ord(last[0])))
    return [chr(code) for code in range(low, min(high, low + MOST) + 1)]


def new_file() -> str:
    """Return a placeholder for a file or folder that ``mktemp`` creates."""
    return os.path.join(tempfile.gettempdir(), "tmp.XXXXXXXXXX")


def said(words: list[str]) -> str | None:
    """Return what a command prints; None if that is only known when it runs."""
    if words == ["pwd"]:
        return "."
    if words[0] == "mktemp" and {"-d", "-q"}.issuperset(words[1:]):
        return new_file()
    if len(words) > 1 and words[:-1] in (["which"], ["command", "-v"]):
        return words[-1]
    if words[0] == "echo":
        given = itertools.dropwhile(lambda word: re.fullmatch("-[neE]+", word), words[1:])
        return unescaped(" ".join(given))
    if words[0] != "printf":
        return None
    rest = words[2:] if words[1:2] == ["--"] else words[1:]
    form, given = unescaped("".join(rest[:1])), rest[1:]
    if form in {"%s", "%b"} or len(given) == len(re.findall("%[sb]", form)):
        values = iter(given)
        text = re.sub("%[sb]", lambda _: unescaped(next(values, "")), form)
        return None if "%" in text else text + "".join(map(unescaped, values))
    return None
