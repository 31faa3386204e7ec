"""Code in the arguments of scripts, and of programs that are not known."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence

from otelhooks.policy.shells.options import GLOBS, Argument
from otelhooks.policy.shells.places import WILD

__all__ = ["code_in"]

_CODE = re.compile(r"[^\w./:=,@+%-]")
"""Signs that names do not have."""
_CALL = re.compile(r"[(`\n]")
"""Signs of a call or of several statements, in code of most languages."""
_SHORT = re.compile(r"-[ceEpr]|-[A-Za-z]{1,2}[ceEpr]\Z")
_LONG = (
    "--cmd --code --command --eval --exec --execute --expression --print --require --run --script"
    " --sql"
).split()

_UNMARKED = dict.fromkeys(map(ord, GLOBS.values()))


def code_in(args: Sequence[Argument], *, may_interpret: bool = False) -> Iterator[str]:
    """Yield why an argument may be code.

    An option that takes code in many programs may have no other signs than names have, others no
    sign of a call; the word behind an option, or several, may be its value.

    Args:
        args: Arguments of a script, or of a program of the workspace.
        may_interpret: Whether it may be an interpreter: then no argument may have other signs.
    """
    option, takes_code = "", False
    for text in (each.text for each in args):
        may_take_code = _may_take_code(text)
        is_option = text.startswith("-") or may_take_code
        if is_option:
            option, takes_code = text, takes_code or may_take_code
        signs = _CODE if may_interpret or takes_code else _CALL
        if option and signs.search(text if may_interpret else text.translate(_UNMARKED)):
            yield f"what is behind `{option}` may be code"
        elif may_interpret and _CODE.search(text):
            yield f"`{text}` may be code"
        if not is_option:
            option, takes_code = "", False


def _may_take_code(text: str) -> bool:
    """Return whether a word may be an option whose value is code by custom.

    Its name may be cut off, or be a pattern that matches it, such as the value of a loop.
    """
    form = text.translate(WILD)
    if form != text:
        return bool(fnmatch.filter(("-c", "-e", "-E", "-p", "-r", *_LONG), form))
    name = text.partition("=")[0]
    if name.startswith("--"):
        return name != "--" and any(each.startswith(name) for each in _LONG)
    return _SHORT.match(name) is not None
