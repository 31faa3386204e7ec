"""The newest release of each framework beside the one in our lock: which seats have moved.

::

    python -m tests.canary requirements FRAMEWORK IN     prints requirements for its newest release
    python -m tests.canary seats FRAMEWORK FILE          writes versions and seats of this Python
    python -m tests.canary compare LOCKED NEWEST         prints what differs

A seat has moved when its name is gone, when the class or module that defines it is another one, or
when its parameters have changed. ``make canary`` runs all three, then ``doctor --prove`` and the
contract.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from otelhooks.patching import seats, versions
from otelhooks.patching.packages import seats_in
from otelhooks.setup import catalogue

__all__ = ["compare", "place", "requirements", "seats_of"]

_UPPER_BOUND = re.compile(r",?\s*<=?\s*[0-9][0-9a-z.*]*")
GONE = "gone"


def requirements(framework: str, text: str) -> str:
    """Return requirements without upper bounds for the framework's own distributions.

    Bounds of other packages stay: they say what the framework cannot live with.
    """
    own = {name for each in catalogue.adapter(framework).packages for name in each.distributions}
    lines: list[str] = []
    for line in text.splitlines():
        name, mark, rest = line.partition(";")
        is_own = re.split(r"[^A-Za-z0-9._-]", name, maxsplit=1)[0] in own
        lines.append(f"{_UPPER_BOUND.sub('', name) if is_own else name}{mark}{rest}\n")
    return "".join(lines)


def seats_of(framework: str) -> dict[str, Any]:
    """Return versions of a framework's installed packages, and where each of its seats is."""
    found: dict[str, Any] = {"versions": {}, "unsupported": [], "seats": {}}
    for package in catalogue.adapter(framework).packages:
        name, version = versions.installed(package.distributions, package.module)
        if not version:
            continue
        found["versions"][name] = version
        if not versions.supports(version, package.supported):
            found["unsupported"].append(f"{name} {version} is outside `{package.supported}`")
        for seat in seats_in(package, version):
            found["seats"][seat.name] = place(seat)
    return found


def place(seat: seats.Seat) -> str:
    """Return where a seat is defined, with its parameters, or that it is gone."""
    try:
        module = importlib.import_module(seat.module)
    except ImportError:
        return GONE
    found = seats.find(seat, module)
    if found is None:
        return GONE
    value = inspect.getattr_static(found.owner, found.attribute, None)
    value = getattr(value, "__func__", value)
    owner = found.owner
    names = (owner.__module__, owner.__qualname__) if inspect.isclass(owner) else (seat.module,)
    return f"{'.'.join(names)}.{found.attribute}{_parameters(value)}"


def _parameters(value: Any) -> str:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    return f"({', '.join(each.name for each in parameters)})"


def compare(locked: dict[str, Any], newest: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each package that has another version, and each seat that has moved."""
    for name, version in newest["versions"].items():
        old = locked["versions"].get(name, "none")
        yield f"{name} {version}" + ("" if old == version else f" (locked: {old})")
    for name in locked["versions"].keys() - newest["versions"].keys():
        yield f"{name} is not installed by the newest release"
    yield from newest["unsupported"]
    for name, place in newest["seats"].items():
        old = locked["seats"].get(name, GONE)
        if place != old:
            yield f"seat {name} has moved: {old} -> {place}"
    for name in locked["seats"].keys() - newest["seats"].keys():
        yield f"seat {name} is not looked for any more"


def _read(file: str) -> Any:
    return json.loads(Path(file).read_text(encoding="utf-8"))


def main(command: str, first: str, second: str) -> None:
    """Do what the module's text says."""
    if command == "requirements":
        sys.stdout.write(requirements(first, Path(second).read_text(encoding="utf-8")))
    elif command == "seats":
        Path(second).write_text(json.dumps(seats_of(first)), encoding="utf-8")
    else:
        sys.stdout.writelines(f"  {line}\n" for line in compare(_read(first), _read(second)))


if __name__ == "__main__":
    main(*sys.argv[1:])
