"""Built-in tools are recognised by what defines them, under any name."""

from __future__ import annotations

import functools
import types

from otelhooks.patching.builtin import BuiltIn, find


class Shell:
    def run(self) -> str:
        return "ran"

    def __call__(self) -> str:
        return self.run()


def delete() -> str:
    return "deleted"


class Plain:
    __name__ = "shell"


SHELL, DELETE = BuiltIn("shell", ("run_command",), "shell"), BuiltIn("delete")
TABLE = {f"{__name__}:Shell": SHELL, f"{__name__}:delete": DELETE}


def test_a_tool_is_what_its_class_is_also_in_a_subclass() -> None:
    class Renamed(Shell):
        pass

    assert find(TABLE, Shell()) is SHELL
    assert find(TABLE, Renamed()) is SHELL


def test_a_tool_is_what_the_function_is_that_it_runs() -> None:
    @functools.wraps(delete)
    def wrapped() -> str:
        return delete()

    for function in (delete, wrapped, functools.partial(functools.partial(delete))):
        assert find(TABLE, Plain(), function) is DELETE


def test_a_method_taken_out_of_a_built_in_tool_is_that_tool() -> None:
    assert find(TABLE, Plain(), functools.partial(Shell().run)) is SHELL


def test_a_method_taken_from_the_class_of_a_built_in_tool_is_that_tool() -> None:
    """The class: the method is not bound, its object is an argument like any other."""

    class Renamed(Shell):
        def run(self) -> str:
            return "ran"

    class Noted(functools.partial[str]):
        """One that another partial does not dissolve."""

    assert find(TABLE, Plain(), functools.partial(Shell.run, Shell())) is SHELL
    assert find(TABLE, Plain(), functools.partial(Renamed.run, Renamed())) is SHELL
    assert find(TABLE, Plain(), functools.partial(Renamed.run, self=Renamed())) is SHELL
    assert find(TABLE, Plain(), functools.partial(Noted(Renamed.run), Renamed())) is SHELL
    assert find(TABLE, Plain(), types.MethodType(Shell.run, Plain())) is SHELL
    assert find(TABLE, Plain(), Shell.run) is SHELL
    assert find(TABLE, Plain(), functools.partial(print, Shell())) is None


def test_a_name_alone_says_nothing() -> None:
    def shell() -> str:
        return "rings"

    assert find(TABLE, Plain(), shell) is None
    assert find(TABLE, None) is None


def test_what_wraps_itself_has_an_end() -> None:
    def shell() -> str:
        return "rings"

    shell.__wrapped__ = shell  # type: ignore[attr-defined]
    assert find(TABLE, shell) is None
