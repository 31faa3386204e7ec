"""What a command does beyond the values that it is given: what it deletes, edits and puts where."""

from __future__ import annotations

import posixpath
import re

from otelhooks.policy.shells.finding import DELETED, found_by
from otelhooks.policy.shells.kinds import Folders, Kinds
from otelhooks.policy.shells.nodes import Refused
from otelhooks.policy.shells.options import FOUND, Reading
from otelhooks.policy.shells.places import Kept

__all__ = ["check_effects", "moves"]

_COUNTING = re.compile(r"%(?!%|[-0-9.]*[sbcq])")
_COMPARING = frozenset("-eq -ne -lt -le -gt -ge".split())


def moves(found: Reading) -> bool:
    """Return whether a command may change where paths lead."""
    moving = found.entries[-1].moves
    return "*" in moving or not moving.isdisjoint(found.options)


def check_effects(found: Reading, kinds: Kinds, folders: Folders) -> None:
    """Judge what a command does to what its values name.

    Raises:
        Refused: It may not.
    """
    if "-delete" in found.options:
        names = found_by(found, "-delete")
        if DELETED.fullmatch(names) is None:
            raise Refused("program", "`-delete`: write `find FOLDER -name '*.pyc' -delete`")
        for _, value in found.operands:
            kinds.path("tree", value.text, folders, Kept((names,)))
    if found.operands and found.operands[-1][0] == "write":
        _put(found, kinds, folders)
    if "-i" in found.options and found.operands and found.operands[0][0] == "sed":
        for _, value in found.operands[1:2]:
            kinds.sed_of_bsd(value.text, folders)
            if not found.operands[0][1].text:
                kinds.judge("sed", value, folders)
    if found.name == "printf" and _COUNTING.search(found.operands[0][1].text):
        for _, value in found.operands[1:]:
            kinds.judge("count", value, folders)  # some shells calculate what it says
    if found.name in {"[", "test"} and not _COMPARING.isdisjoint(found.options):
        for _, value in found.operands:
            if value.text not in {"!", "]"}:
                kinds.judge("count", value, folders)  # as with `printf`


def _put(found: Reading, kinds: Kinds, folders: Folders) -> None:
    """Judge what a command puts into its last operand, which may be a directory."""
    entry, target = found.entries[-1], found.operands[-1][1].text
    if "--delete" in found.options:
        kinds.path("remove", target, folders)
    for _, source in found.operands[:-1]:
        if source.text == FOUND and not moves(found):
            kinds.path("filled", target, folders)
            continue
        inside = posixpath.join(target, posixpath.basename(source.text))
        kinds.path("write", inside, folders)
        if not entry.trees.isdisjoint(found.options):
            kinds.path("copied", source.text, folders)
            kinds.path("filled", inside, folders)
        elif moves(found):
            kinds.path("moved", source.text, folders)
