"""Seats on a small fake framework, with the real wrapt and the real import system."""

import asyncio
import copy
import functools
import gc
import importlib
import inspect
import logging
import sys
import threading
import weakref
from pathlib import Path

import pytest
import wrapt

from otelhooks.errors import ConfigError, SeatError
from otelhooks.patching import packages, patches
from otelhooks.patching.patches import Adapter, NotCovered, Package, Seat
from otelhooks.patching.seats import SeatWrapper

FAKES = Path(__file__).parent / "fake_frameworks"
NAMES = ("fakefw", "otherfw")


def _purge():
    for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
        del sys.modules[name]


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Put the fake modules on the path; returns a function that publishes a distribution."""
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.syspath_prepend(str(tmp_path))
    _purge()

    def publish(name="fake-fw", version="1.4.0"):
        info = tmp_path / f"{name.replace('-', '_')}-0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        importlib.invalidate_caches()

    yield publish
    patches.uninstall()
    _purge()


@pytest.fixture
def seen(publish):
    """The names of the seats that ran, in order, on a published framework."""
    publish()
    return []


@pytest.fixture
def often_switched():
    """Threads take turns so often that a race shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def _spy(seen, name):
    def wrapper(wrapped, instance, args, kwargs):
        seen.append(name)
        return wrapped(*args, **kwargs)

    return wrapper


def _seat(seen, target, module="fakefw.tools", **fields):
    return Seat(module, target, _spy(seen, target), **fields)


def _adapter(*seats, supported=">=1.2,<2", framework="fake", **fields):
    package = Package(("fake-fw",), supported, "fakefw", seats)
    return Adapter(framework, (package,), **fields)


def _import(name):
    return importlib.import_module(name)


def _row(index=0):
    return patches.coverage()[index]


def _states():
    return {seat.name.removeprefix("fakefw."): seat.state for seat in _row().seats}


def _raw(owner, name):
    return inspect.getattr_static(owner, name)


ALL_KINDS = ("helper", "Tool.run", "Tool.arun", "Tool.make", "Tool.plain", "Tool.Options.read")


def _call_all(tools):
    return [
        tools.helper(1),
        tools.Tool().run(2),
        asyncio.run(tools.Tool().arun(3)),
        tools.Tool.make(4),
        tools.Tool.plain(5),
        tools.Tool.Options().read(),
    ]


class TestPatch:
    def test_every_kind_of_function_is_wrapped_and_keeps_its_result(self, seen):
        patches.install(_adapter(*(_seat(seen, name) for name in ALL_KINDS)), strict=True)
        tools = _import("fakefw.tools")

        results = _call_all(tools)

        assert results == [
            ("helper", 1),
            ("ran", 2),
            ("aran", 3),
            ("Tool", 4),
            ("plain", 5),
            "options",
        ]
        assert seen == list(ALL_KINDS)

    @pytest.mark.parametrize("imported_first", [True, False])
    def test_every_kind_is_put_back_identically(self, seen, imported_first):
        if imported_first:
            _import("fakefw.tools")
        seats = [_seat(seen, name) for name in ALL_KINDS]
        patches.install(_adapter(*seats), strict=True)
        tools = _import("fakefw.tools")
        owners = [tools, *[tools.Tool] * 4, tools.Tool.Options]
        places = list(zip(owners, [name.split(".")[-1] for name in ALL_KINDS], strict=True))
        wrappers = [vars(owner)[name] for owner, name in places]
        originals = [wrapper.__wrapped__ for wrapper in wrappers]

        patches.uninstall()

        assert all(type(wrapper) is SeatWrapper for wrapper in wrappers)
        assert all(
            vars(owner)[name] is original
            for (owner, name), original in zip(places, originals, strict=True)
        )
        assert type(vars(tools.Tool)["make"]) is classmethod
        assert type(vars(tools.Tool)["plain"]) is staticmethod
        _call_all(tools)
        assert seen == []

    def test_an_inherited_method_is_wrapped_on_the_class_that_defines_it(self, seen):
        targets = ("Tool.inherited", "Tool.inherited_class")
        patches.install(_adapter(*(_seat(seen, name) for name in targets)), strict=True)
        base, tools = _import("fakefw.base"), _import("fakefw.tools")
        originals = [vars(base.Root)[name].__wrapped__ for name in ("inherited", "inherited_class")]

        tools.Loud().inherited(1)
        assert tools.Loud.inherited_class(2) == ("Loud", 2)
        patches.uninstall()

        assert seen == list(targets)
        assert "inherited" not in vars(tools.Tool)
        assert [vars(base.Root)[n] for n in ("inherited", "inherited_class")] == originals
        assert vars(base.Root)["inherited_class"] is originals[1]

    def test_a_method_of_another_package_is_shadowed_and_the_shadow_removed(self, seen):
        patches.install(_adapter(_seat(seen, "Tool.__init__")), strict=True)
        tools = _import("fakefw.tools")

        tools.Tool()
        assert "__init__" in vars(tools.Tool)
        patches.uninstall()

        assert seen == ["Tool.__init__"]
        assert "__init__" not in vars(tools.Tool)

    def test_an_override_that_calls_super_passes_the_base_seat_once(self, seen):
        patches.install(_adapter(_seat(seen, "Tool.run")), strict=True)

        assert _import("fakefw.tools").Loud().run(1) == ("loud", "ran", 1)
        assert seen == ["Tool.run"]

    def test_a_name_copied_by_from_import_is_wrapped_and_put_back_in_each_module(self, seen):
        # `agent` is imported after `tools` was patched, so it copies our wrapper of `helper`
        seats = [_seat(seen, "helper"), _seat(seen, "helper", module="fakefw.agent")]
        patches.install(_adapter(*seats), strict=True)
        agent, tools = _import("fakefw.agent"), _import("fakefw.tools")

        agent.Agent().run(1)
        assert seen == ["helper"]
        assert _row().state == "patched"
        original = tools.helper.__wrapped__
        assert not isinstance(original, wrapt.FunctionWrapper)
        patches.uninstall()

        assert tools.helper is original
        assert agent.helper is original

    def test_a_copy_in_a_module_that_is_not_a_seat_is_put_back_too(self, seen):
        patches.install(_adapter(_seat(seen, "helper")), strict=True)
        agent = _import("fakefw.agent")
        original = agent.helper.__wrapped__
        agent.Agent().run(1)
        assert seen == ["helper"]

        patches.uninstall()

        assert agent.helper is _import("fakefw.tools").helper is original

    def test_an_object_made_before_install_is_guarded(self, seen):
        tool = _import("fakefw.tools").Tool()

        patches.install(_adapter(_seat(seen, "Tool.run")), strict=True)
        tool.run(1)

        assert seen == ["Tool.run"]

    def test_installing_twice_patches_once_and_returns_the_same_state(self, seen):
        adapter = _adapter(_seat(seen, "Tool.run"))

        first, second = (patches.install(adapter, strict=True) for _ in range(2))
        _import("fakefw.tools").Tool().run(1)

        assert first is second
        assert seen == ["Tool.run"]

    def test_two_adapters_of_one_framework_conflict(self, seen):
        patches.install(_adapter(_seat(seen, "Tool.run")), strict=True)

        with pytest.raises(ConfigError, match=r"already patched by another adapter\nhint: call"):
            patches.install(_adapter(_seat(seen, "Tool.run")), strict=True)

    def test_a_seat_that_another_otelhooks_holds_refuses_instead_of_judging_twice(self, seen):
        tools = _import("fakefw.tools")
        patches.install(_adapter(_seat(seen, "Tool.run"), framework="first"), strict=True)
        patches.install(_adapter(_seat(seen, "Tool.run"), framework="second"), strict=True)

        with pytest.raises(SeatError, match=r"`fakefw.tools.Tool.run` is already patched by"):
            tools.Tool().run(1)
        patches.uninstall("second")
        tools.Tool().run(1)
        assert seen == ["Tool.run"]

    def test_installing_again_after_uninstall_works(self, seen):
        adapter = _adapter(_seat(seen, "Tool.run"))
        tools = _import("fakefw.tools")
        original = vars(tools.Tool)["run"]

        for _ in range(3):
            patches.install(adapter, strict=True)
            tools.Tool().run(1)
            patches.uninstall()

        assert seen == ["Tool.run"] * 3
        assert vars(tools.Tool)["run"] is original

    def test_a_wrapper_runs_only_one_flag_check_before_the_adapter(self, seen):
        """Between wrapt and the adapter's wrapper lies one frame."""
        depths = []

        def wrapper(wrapped, instance, args, kwargs):
            depths.append([frame.function for frame in inspect.stack()[1:3]])
            return wrapped(*args, **kwargs)

        patches.install(_adapter(Seat("fakefw.tools", "helper", wrapper)), strict=True)
        _import("fakefw.tools").helper(1)

        name = "test_a_wrapper_runs_only_one_flag_check_before_the_adapter"
        assert depths[0][0] == "call"
        assert depths[0][1] in (name, "__call__")  # the latter in wrapt without its extension


class TestForeignWrappers:
    def test_a_plain_wrapper_on_top_stays_and_ours_passes_through(self, seen):
        patches.install(_adapter(_seat(seen, "Tool.run")), strict=True)
        tools = _import("fakefw.tools")
        ours = tools.Tool.run

        @functools.wraps(ours)
        def foreign(self, x):
            return ("foreign", ours(self, x))

        tools.Tool.run = foreign
        assert tools.Tool().run(1) == ("foreign", ("ran", 1))
        patches.uninstall()

        assert seen == ["Tool.run"]
        assert vars(tools.Tool)["run"] is foreign
        assert tools.Tool().run(2) == ("foreign", ("ran", 2))
        assert seen == ["Tool.run"]

    def test_a_wrapt_wrapper_on_top_survives_and_ours_below_it_goes(self, seen):
        patches.install(_adapter(_seat(seen, "Tool.run")), strict=True)
        tools = _import("fakefw.tools")
        original = vars(tools.Tool)["run"].__wrapped__
        foreign = wrapt.wrap_function_wrapper(tools.Tool, "run", _spy(seen, "foreign"))
        patches.uninstall()

        tools.Tool().run(1)

        assert seen == ["foreign"]
        assert vars(tools.Tool)["run"] is foreign
        assert foreign.__wrapped__ is original

    def test_installing_under_what_was_left_runs_the_new_wrapper_only(self, seen):
        adapter = _adapter(_seat(seen, "Tool.run"))
        patches.install(adapter, strict=True)
        tools = _import("fakefw.tools")
        ours = tools.Tool.run
        tools.Tool.run = foreign = lambda self, x: ours(self, x)
        patches.uninstall()
        patches.install(adapter, strict=True)

        tools.Tool().run(1)
        assert seen == ["Tool.run"]
        assert _row().state == "patched"
        patches.uninstall()
        assert vars(tools.Tool)["run"] is foreign

    def test_a_replaced_name_is_reported_and_left_alone(self, seen):
        patches.install(_adapter(_seat(seen, "Tool.run"), _seat(seen, "helper")), strict=True)
        tools = _import("fakefw.tools")
        tools.Tool.run = replaced = lambda self, x: x

        assert _states() == {"tools.Tool.run": "displaced", "tools.helper": "patched"}
        patches.uninstall()
        assert vars(tools.Tool)["run"] is replaced


class TestDeferredImport:
    def test_installing_imports_nothing_of_the_framework(self, seen):
        seats = [_seat(seen, "helper"), _seat(seen, "compact", module="fakefw.inner.late")]
        patches.install(_adapter(*seats), strict=True)

        assert not [name for name in sys.modules if name.startswith("fakefw")]
        assert _row().state == "not imported"
        assert set(_states().values()) == {"not imported"}

    def test_a_module_that_is_imported_later_is_patched_then(self, seen):
        seats = [_seat(seen, "helper"), _seat(seen, "compact", module="fakefw.inner.late")]
        patches.install(_adapter(*seats), strict=True)
        _import("fakefw.tools").helper(1)
        assert _row().state == "partial"
        assert _states() == {"tools.helper": "patched", "inner.late.compact": "not imported"}

        assert _import("fakefw.inner.late").compact(2) == ("compact", 2)
        assert _row().state == "patched"
        assert seen == ["helper", "compact"]

    def test_an_import_after_uninstall_patches_nothing(self, seen):
        patches.install(_adapter(_seat(seen, "helper")), strict=True)
        patches.uninstall()

        helper = _import("fakefw.tools").helper

        assert not isinstance(helper, wrapt.FunctionWrapper)

    def test_hooks_of_an_earlier_generation_do_not_patch_beside_those_of_a_later(self, seen):
        adapter = _adapter(_seat(seen, "helper"))
        patches.install(adapter, strict=True)
        patches.uninstall()
        patches.install(adapter, strict=True)

        helper = _import("fakefw.tools").helper
        helper(1)

        assert seen == ["helper"]
        assert not isinstance(helper.__wrapped__, wrapt.FunctionWrapper)

    def test_a_hook_that_fails_does_not_break_the_import_and_refuses(
        self, seen, monkeypatch, caplog
    ):
        def fail(self, modules):
            raise RuntimeError("bug of ours")

        patches.install(_adapter(_seat(seen, "helper")), strict=True)
        monkeypatch.setattr(packages.Unit, "_judge", fail)
        tools = _import("fakefw.tools")

        with pytest.raises(SeatError, match="import hook failed: RuntimeError"):
            tools.helper(1)
        assert "import hook failed: fake-fw" in caplog.text

    def test_even_a_failing_refusal_does_not_break_the_import(self, seen, monkeypatch, caplog):
        def fail(self, *args):
            raise RuntimeError("bug of ours")

        patches.install(_adapter(_seat(seen, "helper")), strict=True)
        monkeypatch.setattr(packages.Unit, "_judge", fail)
        monkeypatch.setattr(packages.Unit, "_apply_problem", fail)

        assert _import("fakefw.tools").helper(1) == ("helper", 1)
        assert "refusal failed: fake-fw" in caplog.text

    def test_an_import_that_fails_fails_as_it_would_without_us(self, seen):
        seat = Seat("fakefw.broken", "anything", _spy(seen, "broken"))
        patches.install(_adapter(seat), strict=True)

        with pytest.raises(RuntimeError, match="broken on purpose"):
            _import("fakefw.broken")
        assert _row().state == "partial"

    def test_a_distribution_that_appears_after_install_is_judged_at_its_import(self, publish):
        seen = []
        patches.install(_adapter(_seat(seen, "helper")), strict=True)
        assert _row().state == "not installed"
        publish()

        _import("fakefw.tools").helper(1)

        assert seen == ["helper"]
        assert (_row().state, _row().version) == ("patched", "1.4.0")

    def test_a_version_that_changed_before_the_import_counts(self, seen, publish):
        patches.install(_adapter(_seat(seen, "helper")), strict=True)
        publish(version="2.5")

        with pytest.raises(SeatError, match=r"fake-fw 2.5: this version is not supported"):
            _import("fakefw.tools").helper(1)

    def test_a_module_of_the_users_own_with_the_same_name_is_left_alone(
        self, publish, tmp_path, caplog
    ):
        (tmp_path / "fakefw.py").write_text("answer = 42\n")
        patches.install(_adapter(_seat([], "helper")), strict=True)

        assert _import("fakefw").answer == 42
        assert _row().state == "not installed"
        assert not caplog.records

    def test_a_framework_without_metadata_is_refused(self, publish):
        patches.install(_adapter(_seat([], "helper")), strict=True)

        with pytest.raises(SeatError, match=r"\(unknown version\): its version cannot be read"):
            _import("fakefw.tools").helper(1)

    def test_an_import_that_runs_in_another_thread_is_waited_for(self, seen, tmp_path):
        (tmp_path / "fakefw").mkdir()
        (tmp_path / "fakefw" / "__init__.py").touch()
        (tmp_path / "fakefw" / "slow.py").write_text(
            "import fakefw_gate\nfakefw_gate.begun.set()\nfakefw_gate.go.wait(5)\n"
            "def late(x):\n    return x\n"
        )
        gate = type(sys)("fakefw_gate")
        gate.begun, gate.go = threading.Event(), threading.Event()
        sys.modules["fakefw_gate"] = gate
        importlib.invalidate_caches()
        adapter = _adapter(_seat(seen, "late", module="fakefw.slow"))
        thread = threading.Thread(target=_import, args=("fakefw.slow",))
        try:
            thread.start()
            assert gate.begun.wait(5)
            threading.Timer(0.05, gate.go.set).start()
            patches.install(adapter, strict=True)
            thread.join(5)
        finally:
            del sys.modules["fakefw_gate"]

        sys.modules["fakefw.slow"].late(1)
        assert seen == ["late"]

    def test_an_import_that_found_its_module_before_the_watch_is_waited_for(self, seen):
        found, go = threading.Event(), threading.Event()

        class Slow:
            """Finds the module, and takes its time before other code can see that it will run."""

            def find_spec(self, name, path=None, target=None):
                if name == "fakefw.tools":
                    found.set()
                    go.wait(5)
                return None

        slow = Slow()
        thread = threading.Thread(target=_import, args=("fakefw.tools",))
        sys.meta_path.insert(0, slow)
        try:
            thread.start()
            assert found.wait(5)
            threading.Timer(0.05, go.set).start()
            patches.install(_adapter(_seat(seen, "helper")), strict=True)
            thread.join(5)
        finally:
            sys.meta_path.remove(slow)

        sys.modules["fakefw.tools"].helper(1)
        assert seen == ["helper"]

    def test_looking_for_a_seat_does_not_run_a_lazy_module_attribute(self, seen):
        lazy = _import("fakefw.lazy")
        seat = _seat(seen, "Thing.run", module="fakefw.lazy", required=False)
        patches.install(_adapter(seat), strict=True)

        assert lazy.asked == []
        assert _states() == {"lazy.Thing.run": "missing"}


BAD = [
    pytest.param(("Tool.gone",), ">=1.2,<2", "`fakefw.tools.Tool.gone` is missing", id="seat"),
    pytest.param(("Gone.run",), ">=1.2,<2", "`fakefw.tools.Gone.run` is missing", id="class"),
    pytest.param(("Tool.level",), ">=1.2,<2", "`fakefw.tools.Tool.level` is missing", id="value"),
    pytest.param((), ">=1.5,<2", "fake-fw 1.4.0: this version is not supported", id="version"),
]


class TestRefusal:
    @pytest.mark.parametrize("imported_first", [True, False])
    @pytest.mark.parametrize(("targets", "supported", "problem"), BAD)
    def test_under_strict_every_seat_that_was_found_refuses(
        self, seen, caplog, targets, supported, problem, imported_first
    ):
        if imported_first:
            _import("fakefw.tools")
        seats = [_seat(seen, name) for name in ("helper", "Tool.run", *targets)]
        patches.install(_adapter(*seats, supported=supported), strict=True)
        tools = _import("fakefw.tools")

        with pytest.raises(SeatError, match=problem) as caught:
            tools.helper(1)
        with pytest.raises(SeatError, match=problem):
            tools.Tool().run(1)
        assert f"(supported: {supported})" in str(caught.value)
        assert 'frameworks={"fake": "off"} or strict=False' in str(caught.value)
        assert seen == []
        assert _row().state == "refused"
        assert problem.split(": ")[-1] in _row().error
        errors = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert len(errors) == 1
        assert "it refuses to run" in caplog.text

    @pytest.mark.parametrize("imported_first", [True, False])
    @pytest.mark.parametrize(("targets", "supported", "problem"), BAD)
    def test_without_strict_nothing_is_patched_and_one_error_says_so(
        self, seen, caplog, targets, supported, problem, imported_first
    ):
        if imported_first:
            _import("fakefw.tools")
        seats = [_seat(seen, name) for name in ("helper", "Tool.run", *targets)]
        patches.install(_adapter(*seats, supported=supported), strict=False)
        tools = _import("fakefw.tools")

        assert tools.helper(1) == ("helper", 1)
        assert type(vars(tools.Tool)["run"]) is type(_raw)
        assert _row().state == "unpatched"
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        assert "it runs unguarded" in caplog.text

    def test_a_module_that_does_not_exist_is_known_before_any_import(self, seen):
        seats = [_seat(seen, "helper"), _seat(seen, "get_model", module="fakefw.moved.loop")]
        patches.install(_adapter(*seats), strict=True)
        assert "no module `fakefw.moved.loop`" in _row().error

        with pytest.raises(SeatError, match=r"no module `fakefw.moved.loop`"):
            _import("fakefw.tools").helper(1)

    def test_a_seat_missing_in_a_later_module_turns_the_earlier_ones_to_refusing(self, seen):
        seats = [_seat(seen, "helper"), _seat(seen, "gone", module="fakefw.inner.late")]
        patches.install(_adapter(*seats), strict=True)
        tools = _import("fakefw.tools")
        tools.helper(1)
        _import("fakefw.inner.late")

        with pytest.raises(SeatError, match=r"`fakefw.inner.late.gone` is missing"):
            tools.helper(2)
        assert seen == ["helper"]

    def test_a_seat_missing_in_a_later_module_puts_the_earlier_ones_back(self, seen):
        seats = [_seat(seen, "helper"), _seat(seen, "gone", module="fakefw.inner.late")]
        patches.install(_adapter(*seats), strict=False)
        tools = _import("fakefw.tools")
        assert isinstance(tools.helper, wrapt.FunctionWrapper)
        _import("fakefw.inner.late")

        assert not isinstance(tools.helper, wrapt.FunctionWrapper)
        assert _states() == {"tools.helper": "unpatched", "inner.late.gone": "missing"}

    def test_a_failure_while_patching_undoes_what_was_done(self, seen, caplog):
        def fail(owner, name, call):
            raise TypeError("immutable")

        seats = [_seat(seen, "helper"), _seat(seen, "FunctionTool.invoke", install=fail)]
        tools = _import("fakefw.tools")
        original = tools.helper
        patches.install(_adapter(*seats), strict=False)

        assert tools.helper is original
        assert "`fakefw.tools.FunctionTool.invoke` cannot be patched: TypeError" in caplog.text

    def test_a_failing_table_is_refused_where_nothing_is_known(self, publish, caplog):
        publish()

        def table(version):
            raise LookupError(version)

        patches.install(
            Adapter("fake", (Package(("fake-fw",), ">=1", "fakefw", table),)), strict=True
        )
        _import("fakefw")

        assert _row().state == "unpatched"
        assert "table of seats failed: LookupError('1.4.0')" in _row().error
        assert "it runs unguarded" in caplog.text

    def test_a_seat_answers_in_the_form_of_its_framework(self, seen):
        def refuse(error, wrapped, instance, args, kwargs):
            return f"refused: {error.version}"

        seats = [_seat(seen, "Tool.run", refuse=refuse), _seat(seen, "Tool.gone")]
        patches.install(_adapter(*seats), strict=True)

        assert _import("fakefw.tools").Tool().run(1) == "refused: 1.4.0"

    def test_each_refused_call_raises_an_error_of_its_own(self, seen):
        patches.install(_adapter(_seat(seen, "helper"), supported=">=9"), strict=True)
        helper = _import("fakefw.tools").helper
        errors = []
        for _ in range(2):
            with pytest.raises(SeatError) as caught:
                helper(1)
            errors.append(caught.value)

        assert errors[0] is not errors[1]

    def test_strict_may_be_switched_on_and_off_while_running(self, seen):
        patches.install(_adapter(_seat(seen, "helper"), supported=">=9"), strict=False)
        tools = _import("fakefw.tools")
        original = tools.helper
        assert tools.helper(1) == ("helper", 1)

        patches.set_strict(True)
        with pytest.raises(SeatError):
            tools.helper(1)
        patches.set_strict(False)

        assert tools.helper is original

    def test_strict_does_not_touch_a_package_without_a_problem(self, seen):
        patches.install(_adapter(_seat(seen, "helper")), strict=False)
        helper = _import("fakefw.tools").helper

        patches.set_strict(True)

        assert helper(1) == ("helper", 1)
        assert seen == ["helper"]

    def test_an_optional_seat_may_be_missing(self, seen):
        seats = [_seat(seen, "helper"), _seat(seen, "Tool.gone", required=False)]
        patches.install(_adapter(*seats), strict=True)
        _import("fakefw.tools").helper(1)

        assert seen == ["helper"]
        assert _row().state == "patched"
        assert _states() == {"tools.helper": "patched", "tools.Tool.gone": "missing"}

    def test_refusal_is_put_back_by_uninstall(self, seen):
        patches.install(_adapter(_seat(seen, "helper"), supported=">=9"), strict=True)
        tools = _import("fakefw.tools")
        patches.uninstall()

        assert tools.helper(1) == ("helper", 1)
        assert not isinstance(tools.helper, wrapt.FunctionWrapper)


class TestTables:
    def test_the_table_depends_on_the_version(self, publish):
        publish(version="1.9")
        seen = []
        asked = []

        def table(version):
            asked.append(version)
            return (_seat(seen, "helper"),)

        patches.install(
            Adapter("fake", (Package(("fake-fw",), ">=1", "fakefw", table),)), strict=True
        )
        _import("fakefw.tools").helper(1)

        assert set(asked) == {"1.9"}
        assert seen == ["helper"]

    def test_since_and_until_leave_out_seats_of_other_versions(self, seen):
        seats = [
            _seat(seen, "helper", since="1.4", until="1.5"),
            _seat(seen, "Tool.later", since="1.4.1"),
            _seat(seen, "Tool.earlier", until="1.4"),
        ]
        patches.install(_adapter(*seats), strict=True)
        _import("fakefw.tools").helper(1)

        assert _states() == {"tools.helper": "patched"}

    def test_a_package_whose_version_cannot_be_read_refuses_at_seats_of_all_versions(self, publish):
        publish(version="unknown")
        seats = [_seat([], "helper", until="1.4", required=False), _seat([], "Tool.later")]
        patches.install(_adapter(*seats), strict=True)

        with pytest.raises(SeatError):
            _import("fakefw.tools").helper(1)

    def test_each_package_of_a_framework_counts_for_itself(self, publish):
        publish()
        publish("other-fw", "7.0")
        seen = []
        adapter = Adapter(
            "fake",
            (
                Package(("fake-fw",), ">=1,<2", "fakefw", (_seat(seen, "helper"),)),
                Package(
                    ("other-fw",), "<7", "otherfw", (_seat(seen, "Graph.stream", module="otherfw"),)
                ),
            ),
        )
        patches.install(adapter, strict=True)

        assert _import("fakefw.tools").helper(1) == ("helper", 1)
        with pytest.raises(SeatError, match=r"fake is not guarded: other-fw 7.0"):
            _import("otherfw").Graph().stream(1)
        assert [row.state for row in patches.coverage()] == ["patched", "refused"]

    @pytest.mark.parametrize("name", ["fake", "fake-fw"])
    def test_off_leaves_the_framework_untouched(self, publish, caplog, name):
        publish(version="9.9")
        patches.install(_adapter(_seat([], "helper")), strict=True, off=frozenset({name}))

        helper = _import("fakefw.tools").helper
        patches.set_strict(True)

        assert helper(1) == ("helper", 1)
        assert not isinstance(helper, wrapt.FunctionWrapper)
        assert (_row().state, _row().version, _row().error) == ("off", "9.9", "")
        assert not caplog.records

    def test_what_is_not_covered_refuses_under_strict_only(self, publish):
        publish()
        publish("other-fw", "1.0")
        gap = NotCovered(
            "graphs", "no seat yet", "other-fw", "otherfw", (Seat("otherfw", "Graph.stream"),)
        )
        adapter = _adapter(_seat([], "helper"), not_covered=(gap,))
        patches.install(adapter, strict=False)
        graph = _import("otherfw").Graph()

        assert graph.stream(1) == ("stream", 1)
        patches.set_strict(True)
        with pytest.raises(SeatError, match="graphs is not covered: no seat yet"):
            graph.stream(1)
        assert [(row.distribution, row.state) for row in patches.coverage()] == [
            ("fake-fw", "not imported"),
            ("other-fw", "refused"),
        ]


class _Invoker:
    """A data descriptor such as openai-agents needs, in its smallest form."""

    def __init__(self, name, call):
        self.name, self.call = name, call

    def __get__(self, instance, owner=None):
        if instance is None:
            raise AttributeError(self.name)
        raw = instance.__dict__[self.name]
        return lambda *args, **kwargs: self.call(raw, instance, args, kwargs)

    def __set__(self, instance, value):
        instance.__dict__[self.name] = value


def _install_invoker(owner, name, call):
    setattr(owner, name, _Invoker(name, call))
    return lambda: delattr(owner, name)


class TestDescriptors:
    def test_a_field_without_default_is_a_seat_by_descriptor(self, seen):
        old = _import("fakefw.tools").FunctionTool("old", lambda x: ("raw", x))
        seat = _seat(seen, "FunctionTool.invoke", install=_install_invoker)
        patches.install(_adapter(seat), strict=True)
        new = _import("fakefw.tools").FunctionTool("new", lambda x: ("raw", x))

        assert old.invoke(1) == new.invoke(1) == copy.copy(new).invoke(1) == ("raw", 1)
        assert seen == ["FunctionTool.invoke"] * 3
        assert _states() == {"tools.FunctionTool.invoke": "patched"}

    def test_a_descriptor_is_removed_and_what_was_handed_out_passes_through(self, seen):
        seat = _seat(seen, "FunctionTool.invoke", install=_install_invoker)
        patches.install(_adapter(seat), strict=True)
        tools = _import("fakefw.tools")
        tool = tools.FunctionTool("new", lambda x: ("raw", x))
        kept = tool.invoke
        patches.uninstall()

        assert kept(1) == tool.invoke(1) == ("raw", 1)
        assert "invoke" not in vars(tools.FunctionTool)
        assert seen == []

    def test_a_refused_descriptor_refuses(self, seen):
        seat = _seat(seen, "FunctionTool.invoke", install=_install_invoker)
        patches.install(_adapter(seat, supported=">=9"), strict=True)
        tool = _import("fakefw.tools").FunctionTool("new", lambda x: x)

        with pytest.raises(SeatError):
            tool.invoke(1)

    def test_a_field_that_is_gone_is_missing(self, seen):
        seat = _seat(seen, "FunctionTool.call", install=_install_invoker)
        patches.install(_adapter(seat), strict=True)
        _import("fakefw.tools")

        assert _row().error == "seat `fakefw.tools.FunctionTool.call` is missing"


class TestOverrides:
    def test_overrides_are_wrapped_also_in_classes_made_later(self, seen):
        tools = _import("fakefw.tools")
        patches.install(_adapter(_seat(seen, "Tool.run", overrides=True)), strict=True)

        class Mine(tools.Loud):
            def run(self, x):
                return ("mine", x)

        class Plain(tools.Tool):
            pass

        assert Mine().run(1) == ("mine", 1)
        assert Plain().run(2) == ("ran", 2)
        assert seen == ["Tool.run"] * 2
        assert tools.Loud().run(3) == ("loud", "ran", 3)
        assert seen == ["Tool.run"] * 4  # by the override, and by its super()

    def test_a_method_inherited_from_a_mixin_before_the_class_is_an_override(self, seen):
        tools = _import("fakefw.tools")

        class Mixin:
            def run(self, x):
                return ("mixin", x)

        earlier = type("Earlier", (Mixin, tools.Tool), {})
        own = vars(Mixin)["run"]
        patches.install(_adapter(_seat(seen, "Tool.run", overrides=True)), strict=True)
        later = type("Later", (Mixin, tools.Tool), {})
        below = type("Below", (later,), {})

        for made in (earlier, later, below):
            assert made().run(1) == ("mixin", 1)
        assert seen == ["Tool.run"] * 3
        assert Mixin().run(1) == ("mixin", 1)
        assert seen == ["Tool.run"] * 3  # the mixin by itself is not of the framework
        patches.uninstall()
        assert "run" not in {**vars(earlier), **vars(later), **vars(below)}
        assert vars(Mixin)["run"] is own

    def test_classes_are_watched_below_one_that_calls_no_init_subclass_above_it(self, seen):
        tools = _import("fakefw.tools")

        class Silent(tools.Tool):
            def __init_subclass__(cls, **kwargs):
                pass

        hook = vars(Silent)["__init_subclass__"]
        patches.install(_adapter(_seat(seen, "Tool.run", overrides=True)), strict=True)
        mine = type("Mine", (Silent,), {"run": lambda self, x: x})

        assert mine().run(1) == 1
        assert seen == ["Tool.run"]
        patches.uninstall()
        assert vars(Silent)["__init_subclass__"] is hook

    def test_a_partial_method_is_an_override(self, seen):
        tools = _import("fakefw.tools")
        patches.install(_adapter(_seat(seen, "Tool.run", overrides=True)), strict=True)

        class Mine(tools.Tool):
            def act(self, kind, x):
                return (kind, x)

            run = functools.partialmethod(act, "mine")

        assert Mine().run(1) == ("mine", 1)
        assert seen == ["Tool.run"]

    def test_a_class_can_be_made_after_the_method_was_taken_away(self, seen):
        tools = _import("fakefw.tools")
        patches.install(_adapter(_seat(seen, "Tool.run", overrides=True)), strict=True)
        del tools.Tool.run
        assert not hasattr(type("Mine", (tools.Tool,), {}), "run")

    def test_an_override_that_is_no_function_is_logged(self, seen, caplog):
        tools = _import("fakefw.tools")
        patches.install(_adapter(_seat(seen, "Tool.run", overrides=True)), strict=True)
        type("Mine", (tools.Tool,), {"run": property(lambda self: lambda x: x)})
        assert "override not guarded" in caplog.text

    def test_overrides_are_put_back_identically(self, seen):
        tools = _import("fakefw.tools")
        loud = vars(tools.Loud)["run"]
        patches.install(_adapter(_seat(seen, "Tool.run", overrides=True)), strict=True)

        def run(self, x):
            return x

        mine = type("Mine", (tools.Tool,), {"run": run})
        patches.uninstall()

        assert vars(tools.Loud)["run"] is loud
        assert vars(mine)["run"] is run
        assert "__init_subclass__" not in vars(tools.Tool)
        type("Later", (tools.Tool,), {"run": run})().run(1)
        assert seen == []

    def test_init_subclass_of_the_framework_still_runs(self, seen, tmp_path):
        (tmp_path / "otherfw.py").write_text(
            "made = []\n"
            "class Base:\n"
            "    def __init_subclass__(cls, label='', **kwargs):\n"
            "        made.append((cls.__name__, label))\n"
            "    def run(self):\n"
            "        return 'base'\n"
        )
        package = Package(
            ("fake-fw",), ">=1", "otherfw", (_seat(seen, "Base.run", "otherfw", overrides=True),)
        )
        patches.install(Adapter("fake", (package,)), strict=True)
        other = _import("otherfw")
        original = vars(other.Base)["__init_subclass__"].__func__.__closure__

        class Mine(other.Base, label="mine"):
            def run(self):
                return "mine"

        assert other.made == [("Mine", "mine")]
        assert Mine().run() == "mine"
        assert seen == ["Base.run"]
        patches.uninstall()
        restored = vars(other.Base)["__init_subclass__"]
        assert any(cell.cell_contents is restored for cell in original)

    def test_classes_made_while_running_are_not_kept_alive(self, seen):
        tools = _import("fakefw.tools")
        patches.install(_adapter(_seat(seen, "Tool.run", overrides=True)), strict=True)
        made = weakref.ref(type("Short", (tools.Tool,), {"run": lambda self, x: x}))

        gc.collect()

        assert made() is None


class TestThreads:
    def test_installing_uninstalling_and_importing_at_once_ends_in_a_clean_state(self, seen):
        adapter = _adapter(_seat(seen, "helper"), _seat(seen, "Tool.run"))
        failures = []
        start = threading.Barrier(5)

        def repeat(action):
            start.wait()
            for _ in range(40):
                try:
                    action()
                except Exception as error:
                    failures.append(error)

        def use():
            tools = _import("fakefw.tools")
            tools.helper(1)
            tools.Tool().run(1)

        actions = [lambda: patches.install(adapter, strict=True)] * 2
        actions += [patches.uninstall, use, patches.coverage]
        threads = [threading.Thread(target=repeat, args=(action,)) for action in actions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        patches.uninstall()

        assert failures == []
        tools = _import("fakefw.tools")
        assert not isinstance(tools.helper, wrapt.FunctionWrapper)
        assert not isinstance(vars(tools.Tool)["run"], wrapt.FunctionWrapper)
        assert patches.coverage() == ()

    def test_whoever_imports_while_another_installs_is_guarded(self, seen, often_switched):
        adapter = _adapter(_seat(seen, "helper"), _seat(seen, "Tool.run"))
        failures = []

        def repeat(action, start):
            start.wait()
            for _ in range(3):
                try:
                    action()
                except Exception as error:
                    failures.append(error)

        for _ in range(60):
            patches.uninstall()
            _purge()
            start = threading.Barrier(4)
            actions = [lambda: patches.install(adapter, strict=True)] * 2
            actions += [lambda: _import("fakefw.tools").helper(1), patches.coverage]
            threads = [threading.Thread(target=repeat, args=(each, start)) for each in actions]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20)

            assert failures == []
            assert _states() == {"tools.helper": "patched", "tools.Tool.run": "patched"}
            assert isinstance(_import("fakefw.tools").helper, wrapt.FunctionWrapper)


class TestCoverage:
    def test_a_row_is_plain_data(self, seen):
        adapter = _adapter(
            _seat(seen, "helper", entry=True),
            not_covered=(NotCovered("kept functions", "they hold no seat"),),
        )
        state = patches.install(adapter, strict=True)
        _import("fakefw.tools")

        assert state.coverage() == patches.coverage()
        assert _row().to_dict() == {
            "framework": "fake",
            "distribution": "fake-fw",
            "version": "1.4.0",
            "supported": ">=1.2,<2",
            "state": "patched",
            "seats": [
                {
                    "name": "fakefw.tools.helper",
                    "state": "patched",
                    "required": True,
                    "entry": True,
                }
            ],
            "not_covered": [{"what": "kept functions", "why": "they hold no seat"}],
            "error": "",
        }

    def test_a_seat_tells_its_name(self, seen):
        assert _seat(seen, "helper").name == "fakefw.tools.helper"
