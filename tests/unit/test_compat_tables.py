"""What the tables of the checker say is so: what works is here, what is missing is not."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from otelhooks_migrate.check import UPSTREAMS
from otelhooks_migrate.upstream import Upstream, Verdict
from tests.upstream.surface import MODULES, not_taken, takes

if TYPE_CHECKING:
    from collections.abc import Iterator

ABSENT = object()
NOT_HERE = {Verdict.MISSING, Verdict.STAYS}


def rows(*verdicts: Verdict) -> Iterator[Any]:
    """Yield upstream, module, name and defined name of each recorded name with these verdicts."""
    for upstream in UPSTREAMS:
        for module, names in upstream.recorded["modules"].items():
            for name, defined in names.items():
                remark = upstream.remark(defined)
                verdict = remark.verdict if remark else Verdict.WORKS
                if verdict is Verdict.WORKS and not upstream.here(module, name):
                    verdict = Verdict.STAYS
                if verdict in verdicts:
                    yield pytest.param(upstream, module, name, defined, id=f"{module}.{name}")


def load(dotted: str) -> Any:
    """Return what `from module import name` brings, `ABSENT` if that is an error."""
    module, _, name = dotted.rpartition(".")
    if not module:
        return importlib.import_module(name)
    try:
        found = getattr(importlib.import_module(module), name, ABSENT)
    except ModuleNotFoundError:
        return ABSENT
    if found is ABSENT:
        try:
            return importlib.import_module(dotted)
        except ModuleNotFoundError:
            return ABSENT
    return found


def remarked(upstream: Upstream, name: str, not_taken: set[str]) -> set[str]:
    """Return those arguments that a name's remarks do not say anything about."""
    remarks = upstream.judgement.remarks
    if f"{name}()" in remarks:
        return set()
    return {each for each in not_taken if f"{name}({each})" not in remarks}


def has_member(cls: Any, member: str) -> bool:
    """Return whether objects of a class have a member: of the class, a field, or their own."""
    fields = getattr(cls, "model_fields", {})
    annotated = {each for base in cls.__mro__ for each in inspect.get_annotations(base)}
    if inspect.getattr_static(cls, member, None) or member in fields or member in annotated:
        return True
    return cls.__name__ == "HookRunner" and hasattr(cls(), member)


@pytest.mark.parametrize(
    ("upstream", "module", "name", "defined"), [*rows(Verdict.WORKS, Verdict.DIFFERS)]
)
def test_what_is_said_to_be_here_is_and_takes_the_same(
    upstream: Upstream, module: str, name: str, defined: str
) -> None:
    here, fact = load(upstream.here(module, name)), upstream.fact(defined)

    assert here is not ABSENT, upstream.here(module, name)
    assert remarked(upstream, defined, lacking(here, fact)) == set()
    if fact.get("kind") in {"class", "record", "enum"}:
        assert isinstance(here, type)
        missing = {each for each in fact["members"] if not has_member(here, each)}
        assert {f"{defined}.{each}" for each in missing} - set(upstream.judgement.remarks) == set()
        for member, taken in fact["members"].items():
            if taken is not None and member not in missing:
                ours = takes(getattr(here, member), method=not is_of_class(here, member))
                left = remarked(upstream, f"{defined}.{member}", not_taken(taken, ours))
                assert left == set(), f"{member}({ours}) for {member}({taken})"


def lacking(here: Any, fact: dict[str, Any]) -> set[str]:
    """Return what ours does not take of what is recorded."""
    if fact.get("takes") is None or fact["kind"] == "value":
        return set()
    return not_taken(fact["takes"], takes(here))


def is_of_class(cls: type, member: str) -> bool:
    """Return whether a function is called on the class, and not on an object."""
    return isinstance(inspect.getattr_static(cls, member), (classmethod, staticmethod))


@pytest.mark.parametrize(("upstream", "module", "name", "defined"), [*rows(*NOT_HERE)])
def test_what_is_said_not_to_be_here_is_not(
    upstream: Upstream, module: str, name: str, defined: str
) -> None:
    """Fails when it has come: then take the remark out of the table."""
    modules = upstream.judgement.modules
    counterparts = {modules[at] for at in (module, defined.rpartition(".")[0]) if at in modules}

    assert [at for at in counterparts if load(f"{at}.{name}") is not ABSENT] == []


@pytest.mark.parametrize("upstream", UPSTREAMS, ids=lambda each: each.judgement.root)
def test_each_remark_is_about_something_that_was_recorded(upstream: Upstream) -> None:
    judgement = upstream.judgement
    homes = {home for names in upstream.recorded["modules"].values() for home in names.values()}
    about = [*judgement.remarks, *judgement.overrides, *judgement.lacks]
    for key in [*about, *judgement.modules, *judgement.moved]:
        name, _, argument = key.removesuffix(")").partition("(")
        owner, _, member = name.rpartition(".")
        is_member = member in upstream.fact(owner).get("members", {})
        is_module = name in upstream.recorded["modules"] or not upstream.is_recorded(owner)
        assert name in homes or is_member or is_module or name.startswith(owner), key
        fact = upstream.fact(name)
        if argument and fact.get("takes") and not argument.isdigit():
            assert argument in fact["takes"].removeprefix("await ").replace("=", "").split(", ")


@pytest.mark.parametrize("upstream", UPSTREAMS, ids=lambda each: each.judgement.root)
def test_each_remark_about_an_argument_is_still_needed(upstream: Upstream) -> None:
    """A keyword that is said to be missing is not taken."""
    for key, remark in upstream.judgement.remarks.items():
        name, is_argument, argument = key.removesuffix(")").partition("(")
        fact = upstream.fact(name)
        if not is_argument or not argument or remark.verdict is not Verdict.MISSING or not fact:
            continue
        module, _, plain = name.rpartition(".")
        dotted = upstream.here(module, plain)
        here = load(dotted) if dotted else None
        if here is None:
            continue  # it stays where it is, and what it is given has to change
        if "**" in takes(here):
            with pytest.raises(TypeError, match=argument):
                here(**{argument: []})
        else:
            assert argument in not_taken(fact["takes"], takes(here)), key


@pytest.mark.parametrize("upstream", UPSTREAMS, ids=lambda each: each.judgement.root)
def test_the_record_is_of_the_modules_that_the_recorder_names(upstream: Upstream) -> None:
    recorded = upstream.recorded

    assert tuple(recorded["modules"]) == MODULES[recorded["distribution"]]
