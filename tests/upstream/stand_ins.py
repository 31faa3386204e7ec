"""Stand-ins for modules that google-antigravity's own tests import and otelhooks does not have."""

from __future__ import annotations

import functools
import sys
import types
import unittest
from typing import Any

MODULES = (
    "otelhooks.agent",
    "otelhooks.connections",
    "otelhooks.connections.local",
    "otelhooks.conversation",
    "otelhooks.conversation.conversation",
    "otelhooks.proto",
    "otelhooks.proto.localharness_pb2",
)


class StandIn(types.ModuleType):
    """A module of google-antigravity that has no counterpart: using it is an AttributeError."""

    __path__ = ()

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"{self.__name__} has no counterpart in otelhooks")


class Attribute:
    """Any attribute of a stand-in, for what is evaluated when a test module is imported."""

    def __getattr__(self, name: str) -> Attribute:
        return self


class TestCase(unittest.TestCase):
    """What absl adds to `unittest.TestCase`, as far as it is used."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, function in list(vars(cls).items()):
            for label, arguments in getattr(function, "cases", ()):
                test = functools.partialmethod(function, *arguments[0], **arguments[1])
                setattr(cls, f"{name}_{label}", test)
            if hasattr(function, "cases"):
                delattr(cls, name)

    def assertLen(self, container: Any, length: int) -> None:
        self.assertEqual(len(container), length)

    def assertEmpty(self, container: Any) -> None:
        self.assertEqual(len(container), 0)


def _with(function: Any, cases: dict[str, Any]) -> Any:
    def arguments(case: Any) -> tuple[Any, dict[str, Any]]:
        if isinstance(case, dict):
            return (), case
        return (case if isinstance(case, tuple) else (case,)), {}

    function.cases = [(label, arguments(case)) for label, case in cases.items()]
    return function


def parameters(*cases: Any) -> Any:
    """Make a test of each case."""
    return lambda function: _with(function, {str(i): case for i, case in enumerate(cases)})


def named_parameters(*cases: Any) -> Any:
    """Make a test of each case, named by its first value or its `testcase_name`."""
    named: dict[str, Any] = {}
    for case in cases:
        if isinstance(case, dict):
            rest = dict(case)
            named[str(rest.pop("testcase_name"))] = rest
        else:
            named[str(case[0])] = case[1:]
    return lambda function: _with(function, named)


def put_in_place() -> None:
    """Put the stand-ins where an import finds them."""
    for name in MODULES:
        module = StandIn(name)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        setattr(sys.modules[parent], child, module)
    sys.modules["otelhooks.conversation.conversation"].Conversation = Attribute()

    for name in ("absl", "absl.testing", "absl.testing.absltest", "absl.testing.parameterized"):
        sys.modules[name] = types.ModuleType(name)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, sys.modules[name])
    for name in ("absl.testing.absltest", "absl.testing.parameterized"):
        sys.modules[name].TestCase = TestCase
    sys.modules["absl.testing.parameterized"].parameters = parameters
    sys.modules["absl.testing.parameterized"].named_parameters = named_parameters
