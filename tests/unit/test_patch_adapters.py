"""The list of adapters, and what ``frameworks=`` chooses from it."""

import sys
from types import ModuleType

import pytest

from otelhooks.errors import ConfigError
from otelhooks.patching import patches
from otelhooks.patching.patches import Adapter, NotCovered, Package, Seat
from otelhooks.setup import catalogue, guarded


@pytest.fixture
def adapters(monkeypatch):
    """Two adapters; the second knows a distribution that it does not cover."""
    one = ModuleType("otelhooks.frameworks.one")
    options = {"taste": ("sweet", "sour")}
    one.ADAPTER = Adapter("one", (Package(("one-fw",), ">=1", "one_fw", ()),), options=options)
    two = ModuleType("otelhooks.frameworks.two")
    gap = NotCovered("deep", "later", "two-deep", "two_deep", (Seat("two_deep", "go"),))
    two.ADAPTER = Adapter("two", (Package(("two-fw", "two-slim"), ">=1", "two_fw", ()),), (gap,))
    for module in (one, two):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    packages = {"one": ("one_fw",), "two": ("two_fw", "two_deep")}
    monkeypatch.setattr(catalogue, "ADAPTERS", packages)
    yield
    guarded.uninstall()


@pytest.mark.usefixtures("adapters")
class TestWanted:
    @pytest.mark.parametrize(
        ("frameworks", "off"),
        [
            (None, set()),
            ("one", {"two"}),
            (["two"], {"one"}),
            ([], {"one", "two"}),
            ({}, set()),
            ({"one": "off"}, {"one"}),
            ({"one": "on", "two": {"spans": "own"}}, set()),
            ({"two-slim": "off"}, {"two-slim"}),
            ({"two-deep": "off"}, {"two-deep"}),
        ],
    )
    def test_what_is_not_wanted_is_off(self, frameworks, off):
        assert catalogue.wanted(frameworks) == (("one", "two"), frozenset(off))

    @pytest.mark.parametrize("frameworks", ["three", ["one", "three"], {"three": "on"}])
    def test_an_unknown_framework_is_an_error_that_lists_the_known(self, frameworks):
        with pytest.raises(ConfigError, match=r"unknown framework `three`\nhint: use one of `one`"):
            catalogue.wanted(frameworks)

    def test_a_package_that_no_adapter_guards_may_be_meant(self):
        with pytest.raises(ConfigError, match=r"did you mean `livekit_agents`\?"):
            catalogue.wanted({"livekit-agents": "off"})

    def test_an_unknown_setting_is_an_error(self):
        with pytest.raises(ConfigError, match="unknown setting for framework `one`: `maybe`"):
            catalogue.wanted({"one": "maybe"})

    def test_an_unknown_option_is_an_error_that_lists_the_known(self):
        hint = "hint: use one of `spans`, `taste`"
        with pytest.raises(ConfigError, match=rf"of framework `one`: `colour`\n{hint}"):
            catalogue.wanted({"one": {"colour": "red"}})

    def test_an_option_takes_its_own_words_only(self):
        assert catalogue.wanted({"one": {"taste": "sour"}}) == (("one", "two"), frozenset())
        with pytest.raises(ConfigError, match=r'cannot be `salt`\nhint: use "sweet" or "sour"'):
            catalogue.wanted({"one": {"taste": "salt"}})

    def test_an_unknown_adapter_is_an_error(self):
        with pytest.raises(ConfigError, match="unknown framework `three`"):
            catalogue.adapter("three")


@pytest.mark.usefixtures("adapters")
class TestInstall:
    def test_all_are_installed_in_order_and_reported(self):
        guarded.install({"one": "off"}, strict=False)
        rows = guarded.coverage()

        assert [(row.framework, row.distribution, row.state) for row in rows] == [
            ("one", "one-fw", "off"),
            ("two", "two-fw", "not installed"),
            ("two", "two-deep", "not installed"),
        ]
        assert guarded.coverage_so_far() == rows
        guarded.uninstall()
        assert guarded.coverage() == ()

    def test_an_adapter_that_cannot_be_installed_leaves_none_behind(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "two_fw", ModuleType("two_fw"))
        other = Adapter("two", ())
        patches.install(other, strict=False)

        with pytest.raises(ConfigError, match="already patched by another adapter"):
            guarded.install(strict=False)
        assert guarded.coverage() == ()
