"""Adapters wait for their framework: none is loaded before, none comes too late."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
import textwrap
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from otelhooks import frameworks
from otelhooks.errors import SeatError
from otelhooks.patching import imports, patches
from otelhooks.setup import catalogue, guarded

ADAPTER = "otelhooks.frameworks.shop"


class Shop:
    """A framework on disk whose modules copy functions by name, and its adapter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        importlib.invalidate_caches()

    @property
    def is_loaded(self) -> bool:
        """Whether the adapter is."""
        return ADAPTER in sys.modules

    @property
    def seen(self) -> list[str]:
        return sys.modules[ADAPTER].seen

    @property
    def state(self) -> str:
        (row,) = patches.coverage()
        return row.state


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "ADAPTERS", {"shop": ("shop",)})
    monkeypatch.setattr(frameworks, "__path__", [*frameworks.__path__, str(tmp_path)])
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    shop = Shop(tmp_path)
    shop.write(
        "lib/shop/__init__.py",
        """
        from shop.tools import buy
        def pay(x): return x
        """,
    )
    shop.write("lib/shop/tools.py", "def buy(x): return x\n")
    shop.write("lib/shop-1.dist-info/METADATA", "Name: shop\nVersion: 1.0\n")
    shop.write(
        "shop.py",
        """
        from otelhooks.patching.patches import Adapter, Package, Seat
        seen = []
        def note(wrapped, instance, args, kwargs):
            seen.append(wrapped.__name__)
            return wrapped(*args, **kwargs)
        seats = (Seat("shop", "pay", note), Seat("shop.tools", "buy", note))
        ADAPTER = Adapter("shop", (Package(("shop",), ">=1,<2", "shop", seats),))
        """,
    )
    yield shop
    guarded.uninstall()
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]
    sys.modules.pop(ADAPTER, None)
    vars(guarded).pop("shop", None)


def test_an_adapter_is_loaded_when_its_framework_is_imported_and_not_before(shop):
    guarded.install(strict=True)
    guarded.set_strict(True)
    assert guarded.coverage_so_far() == ()
    assert not shop.is_loaded
    importlib.import_module("shop")
    assert shop.state == "patched"


def test_a_package_of_a_namespace_waits_for_itself_and_not_for_its_neighbours(shop, monkeypatch):
    monkeypatch.setattr(catalogue, "ADAPTERS", {"shop": ("mall.shop",)})
    shop.write("lib/mall/shop/__init__.py", "def pay(x): return x\n")
    shop.write("lib/mall/bakery.py", "")
    shop.write(
        "shop.py",
        """
        from otelhooks.patching.patches import Adapter, Package, Seat
        seen = []
        def note(wrapped, instance, args, kwargs):
            seen.append(wrapped.__name__)
            return wrapped(*args, **kwargs)
        seats = (Seat("mall.shop", "pay", note),)
        ADAPTER = Adapter("shop", (Package(("shop",), ">=1,<2", "mall.shop", seats),))
        """,
    )
    guarded.install(strict=True)
    importlib.import_module("mall.bakery")
    assert not shop.is_loaded
    importlib.import_module("mall.shop").pay(1)
    assert shop.seen == ["pay"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "mall"]:
        del sys.modules[name]


def test_it_is_there_before_the_first_code_of_the_framework_runs(shop):
    guarded.install(strict=True)
    framework = importlib.import_module("shop")
    framework.buy(1)  # a copy that the framework made as it was imported
    framework.pay(1)
    assert shop.seen == ["buy", "pay"]


def test_a_framework_that_is_imported_already_is_patched_at_once(shop):
    framework = importlib.import_module("shop")
    guarded.install(strict=True)
    assert shop.state == "patched"
    framework.pay(1)
    assert shop.seen == ["pay"]


def test_an_import_that_had_begun_is_noticed_at_its_next_module(shop, monkeypatch):
    """As if the finder had come right after the import system looked for the package."""
    package = ModuleType("shop")
    package.__path__ = [str(shop.folder / "lib" / "shop")]  # type: ignore[attr-defined]
    guarded.install(strict=True)
    monkeypatch.setitem(sys.modules, "shop", package)
    package.pay = lambda x: x  # type: ignore[attr-defined]
    tools = importlib.import_module("shop.tools")
    tools.buy(1)
    assert shop.seen == ["buy"]


def test_threads_that_import_at_once_all_wait_for_the_adapter(shop):
    source = (shop.folder / "shop.py").read_text()
    shop.write("shop.py", f"import time\ntime.sleep(0.2)\n{source}")
    guarded.install(strict=True)
    failed: list[BaseException] = []

    def use() -> None:
        try:
            importlib.import_module("shop")
            sys.modules["shop.tools"].buy(1)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=use, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert failed == []
    assert shop.seen == ["buy"] * len(threads)


def test_asking_whether_it_is_there_does_no_harm(shop):
    guarded.install(strict=True)
    spec = importlib.util.find_spec("shop")
    assert spec is not None
    assert spec.loader is not None
    assert spec.loader.get_filename("shop") == spec.origin  # type: ignore[attr-defined]
    assert not shop.is_loaded
    importlib.import_module("shop").pay(1)
    assert shop.seen == ["pay"]


def test_the_whole_coverage_loads_the_adapters_and_no_framework(shop):
    guarded.install(strict=True)
    (row,) = guarded.coverage()
    assert (row.version, row.state) == ("1.0", "not imported")
    assert "shop" not in sys.modules
    assert guarded.modules() == ("shop", "shop.tools")


def test_an_import_after_uninstall_loads_nothing(shop):
    guarded.install(strict=True)
    guarded.uninstall()
    importlib.import_module("shop").pay(1)
    assert not shop.is_loaded
    assert guarded.coverage() == ()


def test_what_is_strict_when_a_framework_is_imported_is_what_holds(shop):
    shop.write("lib/shop-1.dist-info/METADATA", "Name: shop\nVersion: 7.0\n")
    guarded.install(strict=False)
    guarded.set_strict(True)
    framework = importlib.import_module("shop")
    with pytest.raises(SeatError, match="this version is not supported"):
        framework.pay(1)


def test_a_framework_that_is_off_is_left_alone_and_reported(shop):
    guarded.install({"shop": "off"}, strict=True)
    importlib.import_module("shop").pay(1)
    assert shop.state == "off"
    assert shop.seen == []


def test_an_unknown_name_is_an_error_before_anything_is_imported(shop):
    with pytest.raises(ValueError, match="unknown framework `shops`"):
        guarded.install(["shops"], strict=True)
    assert not shop.is_loaded


def test_a_framework_that_is_imported_while_adapters_are_installed_is_guarded(shop):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for attempt in range(60):
            ends = [
                threading.Thread(target=guarded.install, kwargs={"strict": True}),
                threading.Thread(target=importlib.import_module, args=("shop",)),
            ]
            for thread in ends:
                thread.start()
            for thread in ends:
                thread.join(10)
            shop.seen.clear()
            sys.modules["shop"].pay(1)
            sys.modules["shop.tools"].buy(1)
            assert (shop.seen, shop.state) == (["pay", "buy"], "patched"), attempt
            guarded.uninstall()
            for name in ("shop", "shop.tools", ADAPTER):
                del sys.modules[name]
    finally:
        sys.setswitchinterval(interval)


def test_reporting_while_a_framework_is_imported_waits_for_no_lock_that_waits_for_it(shop):
    """Adapters are loaded by the reporter, and modules looked for by the importer, at once."""
    for attempt in range(20):
        guarded.install(strict=True)
        ends = [
            threading.Thread(target=guarded.coverage, daemon=True),
            threading.Thread(target=importlib.import_module, args=("shop",), daemon=True),
        ]
        for thread in ends:
            thread.start()
        for thread in ends:
            thread.join(10)
        assert not any(thread.is_alive() for thread in ends), attempt
        assert shop.state == "patched"
        guarded.uninstall()
        for name in ("shop", "shop.tools", ADAPTER):
            del sys.modules[name]


@pytest.mark.parametrize("behind", [0, 1], ids=["before ours", "after ours"])
def test_an_adapter_that_comes_after_the_first_finders_were_asked_guards_the_import_all_the_same(
    shop, monkeypatch, behind
):
    """As another thread that reports may load it, just between two finders."""
    guarded.install(strict=True)

    class Reporting:
        @staticmethod
        def find_spec(name: str, *args: object) -> None:
            if name == "shop" and not shop.is_loaded:
                guarded.coverage()

    place = sys.meta_path.index(imports.imports) + behind
    finders = [*sys.meta_path[:place], Reporting, *sys.meta_path[place:]]
    monkeypatch.setattr(sys, "meta_path", finders)
    importlib.import_module("shop")
    assert shop.state == "patched"


@pytest.mark.parametrize("failure", ["raise OSError('gone')", "ADAPTER = None"])
def test_where_an_adapter_fails_the_framework_cannot_be_imported_under_strict(
    shop, failure, caplog
):
    shop.write("shop.py", failure)
    guarded.install(strict=True)
    for name in ("shop", "shop", "shop.tools"):
        with pytest.raises(ImportError, match="otelhooks cannot guard `shop`, its adapter failed"):
            importlib.import_module(name)
    assert "shop" not in sys.modules
    assert [each.message for each in caplog.records] == ["adapter failed: shop"]


def test_where_an_adapter_fails_without_strict_the_import_goes_on_and_one_line_says_so(
    shop, caplog
):
    shop.write("shop.py", "raise OSError('gone')")
    guarded.install(strict=False)
    assert importlib.import_module("shop").pay(1) == 1
    assert [(each.levelno, each.message) for each in caplog.records] == [
        (logging.ERROR, "adapter failed: shop")
    ]


def test_an_interrupted_adapter_is_loaded_at_the_next_import(shop):
    source = (shop.folder / "shop.py").read_text()
    shop.write("shop.py", "raise KeyboardInterrupt")
    guarded.install(strict=True)
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("shop")
    shop.write("shop.py", source + "\n# another size, or its byte code would be taken\n")
    importlib.import_module("shop").pay(1)
    assert shop.seen == ["pay"]


@pytest.mark.parametrize("framework", catalogue.ADAPTERS)
def test_the_packages_that_load_an_adapter_are_those_it_has_seats_in(framework: Any):
    known = catalogue.adapter(framework)
    names = {package.module for package in known.packages}
    names |= {item.module for item in known.not_covered if item.seats}
    for package in known.packages:
        table = package.seats("9999") if callable(package.seats) else package.seats
        names |= {seat.module for seat in table}
    names |= {seat.module for item in known.not_covered for seat in item.seats}
    packages = catalogue.ADAPTERS[framework]
    found = {next((p for p in packages if f"{name}.".startswith(f"{p}.")), name) for name in names}
    assert found == set(packages)
