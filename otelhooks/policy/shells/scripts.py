"""The few programs for sed, awk and jq that may run: those that only change text.

Each has a form. What is not certain to have the form is refused, such as every `|` in a
program for awk.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

__all__ = ["SCRIPTS"]

_CLASS = r"\[\^?\]?(?:[^\]/|,#:\\\n\[]|\[:[a-z]+:\])*\]"


def _sed(mark: str) -> str:
    """Return the form of one command, with what may delimit its texts."""
    mark = re.escape(mark)
    text = rf"(?:[^{mark}\\\n]|\\[^\n])*"
    pattern = rf"(?:[^{mark}\\\n\[]|\\[^\n]|{_CLASS})*"
    return rf"s{mark}{pattern}{mark}{text}{mark}[gpIi0-9]*"


_PATTERN = rf"/(?:[^/\\\n\[]|\\[^\n]|{_CLASS})*/I?"
_ADDRESS = rf"(?:[0-9]+|\$|{_PATTERN})"
_COMMAND = rf"(?:{_ADDRESS}(?:,{_ADDRESS})?!?[ \t]*)?(?:[pdq=]|{'|'.join(map(_sed, '/|,#:'))})"
_TEXT = rf"(?:{_ADDRESS}[ \t]*)?[aic][ \t]*[^\s\\;}}][^\\\n]*"
_SED = re.compile(rf"[ \t]*(?:{_COMMAND}[ \t]*[;\n][ \t]*)*(?:{_COMMAND}[ \t]*|{_TEXT})")

_AWK = re.compile(
    r"[|@]|\\\n|system|getline|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|ARG[VCI]|extension|close|fflush"
)
_AWK_COMPARES = re.compile(r"[^\"/{]*")
_AWK_PLAIN = re.compile(r"[^\"/#\\]*")
"""A program without texts, patterns and comments, in which parentheses are what they seem."""
_JQ_FIELD = re.compile(r"(?<![0-9.])\.[A-Za-z_][A-Za-z0-9_]*")
_JQ = re.compile(
    r"env|ENV|load|eval|input_filename|include|import|modulemeta|get_search_list|\bfile|\$__prog"
)


def _is_sed(text: str) -> bool:
    return not text or _SED.fullmatch(text) is not None  # nothing, or BSD's `sed -i ''`


def _is_awk(text: str) -> bool:
    if _AWK.search(text):
        return False
    if _AWK_PLAIN.fullmatch(text):
        return not _is_awk_writing(text)
    before = _AWK_COMPARES.match(text)
    return before is not None and ">" not in text[before.end() :]


def _is_awk_writing(text: str) -> bool:
    """Return whether a `>` may not compare, as it does in parentheses without a `print`."""
    depth = 0
    for sign in re.findall("[()>]|print", text[text.index("{") :] if "{" in text else ""):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if (sign == ">" and depth < 1) or (sign == "print" and depth > 0):
            return True
    return False


def _is_jq(text: str) -> bool:
    return _JQ.search(_JQ_FIELD.sub(".", text)) is None


SCRIPTS: Mapping[str, Callable[[str], bool]] = {"sed": _is_sed, "awk": _is_awk, "jq": _is_jq}
"""Whether a text is such a program, by kind."""
