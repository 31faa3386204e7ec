"""What `make canary` says of a release that is newer than the locked one."""

from __future__ import annotations

import json
import types
from pathlib import Path

import pytest

from otelhooks.patching.seats import Seat
from tests import canary

WANTED = """\
# mcp 2 cannot be had with it
pydantic-ai-slim[mcp]>=1.99,<3 ; python_version >= "3.10"
pydantic-ai>=1.99, <= 3.1
mcp>=1.0,<2
"""


def found(version: str, *unsupported: str, **seats: str) -> dict[str, object]:
    return {"versions": {"shop": version}, "unsupported": [*unsupported], "seats": seats}


def test_only_the_frameworks_own_bounds_are_lifted() -> None:
    assert canary.requirements("pydantic_ai", WANTED).splitlines() == [
        "# mcp 2 cannot be had with it",
        'pydantic-ai-slim[mcp]>=1.99 ; python_version >= "3.10"',
        "pydantic-ai>=1.99",
        "mcp>=1.0,<2",
    ]


def test_the_same_release_differs_in_nothing() -> None:
    same = found("1.0", call="shop.Tool.call(self)")
    assert list(canary.compare(same, same)) == ["shop 1.0"]


def test_moved_gone_new_and_forgotten_seats_are_named() -> None:
    old = found("1.0", call="shop.Tool.call(self)", run="shop.run()", once="shop.once()")
    new = found("2.0", "shop 2.0 is outside `<2`", call="shop.Tool.call(self, x)", run="gone")
    new["seats"]["late"] = "shop.late()"  # type: ignore[index]
    assert list(canary.compare(old, new)) == [
        "shop 2.0 (locked: 1.0)",
        "shop 2.0 is outside `<2`",
        "seat call has moved: shop.Tool.call(self) -> shop.Tool.call(self, x)",
        "seat run has moved: shop.run() -> gone",
        "seat late has moved: gone -> shop.late()",
        "seat once is not looked for any more",
    ]


def test_a_package_that_is_left_out_is_named() -> None:
    assert list(canary.compare(found("1.0"), {**found("1.0"), "versions": {}})) == [
        "shop is not installed by the newest release"
    ]


def test_a_seat_is_where_its_class_is_defined_with_its_parameters() -> None:
    place = canary.place(Seat("json.encoder", "JSONEncoder.encode"))
    assert place == "json.encoder.JSONEncoder.encode(self, o)"
    assert canary.place(Seat("json.encoder", "JSONEncoder.missing")) == "gone"
    assert canary.place(Seat("there.is.no.such", "f")) == "gone"


def test_seats_of_an_installed_version_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seats = (
        Seat("json", "loads"),
        Seat("json", "dumps", since="3.0"),
        Seat("json", "dump", until="2.0"),
    )
    package = types.SimpleNamespace(
        distributions=("shop",), module="json", supported=">=1,<2", seats=lambda version: seats
    )
    adapter = types.SimpleNamespace(packages=(package, package))
    monkeypatch.setattr(canary.catalogue, "adapter", lambda name: adapter)
    versions = iter([("shop", "2.1"), ("shop", "")])
    monkeypatch.setattr(canary.versions, "installed", lambda names, module: next(versions))
    file = tmp_path / "seats.json"
    canary.main("seats", "shop", str(file))
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["versions"] == {"shop": "2.1"}
    assert written["unsupported"] == ["shop 2.1 is outside `>=1,<2`"]
    assert list(written["seats"]) == ["json.loads"]
    assert written["seats"]["json.loads"].startswith("json.loads(s, cls, ")
