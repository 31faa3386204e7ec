"""Predicates of rules (`when`): their parameters are read once, at load.

A predicate takes nothing, the argument dict, or, by the annotation of its first parameter, a
pydantic model parsed from the arguments or the `ToolCall`. It is sync or async.
"""

from __future__ import annotations

import abc
import dataclasses
import dis
import functools
import inspect
import itertools
import math
import types as python_types
import typing
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from otelhooks import types
from otelhooks.errors import ConfigError

if TYPE_CHECKING:
    import pydantic

__all__ = ["AllOf", "Detailed", "Test", "check_numbers", "read"]

_SCALARS = (str, bytes, int, range, type, python_types.NoneType)
_RETURNS = ("RETURN_VALUE", "RETURN_CONST")  # of CPython's byte code; the second in 3.12 and 3.13
# Names of a dict of arguments in annotations; accepted even if they cannot be resolved, since they
# are often imported only for the type checker.
_DICT_NAMES = frozenset(("dict", "Dict", "Mapping", "MutableMapping", "Any", "object", "JSON"))


def check_numbers(value: Any) -> None:
    """Raise if arguments contain NaN: every comparison with it is false, so no limit would hold.

    Args:
        value: A container, or a model that was parsed from the arguments.

    Raises:
        ValueError: They do, at any depth.
    """
    for item in _items(value):
        if isinstance(item, float):
            if math.isnan(item):
                msg = "an argument is NaN, which no condition can compare"
                raise ValueError(msg)
        elif not isinstance(item, _SCALARS):
            check_numbers(item)


def _items(value: Any) -> Iterable[Any]:
    """Return what a container, a model or a dataclass contains, including keys."""
    of_class = value.__class__
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        return itertools.chain(mapping, mapping.values())
    if isinstance(value, Collection):
        return cast("Iterable[Any]", value)
    if dataclasses.is_dataclass(of_class):
        return [getattr(value, field.name, None) for field in dataclasses.fields(of_class)]
    if not hasattr(of_class, "__pydantic_validator__"):
        return ()
    model = cast("pydantic.BaseModel", value)
    return (*model.__dict__.values(), *(model.model_extra or {}).values())


class AllOf:
    """Several predicates that must all hold.

    Args:
        predicates: Tested in order; stops at the first that does not hold.
    """

    __slots__ = ("predicates",)

    def __init__(self, *predicates: Callable[..., Any]) -> None:
        self.predicates: tuple[Callable[..., Any], ...] = predicates

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AllOf) and self.predicates == other.predicates

    def __hash__(self) -> int:
        return hash(self.predicates)

    def __call__(self, call: types.ToolCall) -> Any:
        """Test a call; the answer may be awaitable."""
        return read(self, "").function(call)


class Detailed(abc.ABC):
    """A predicate that can say what it has found in a call."""

    @abc.abstractmethod
    def detail(self, call: types.ToolCall) -> str:
        """Return a sentence for the model; it may quote arguments, so that nothing records it."""


class Test(typing.NamedTuple):
    """A predicate as the engine calls it.

    Attributes:
        function: Takes one argument; its answer may be awaitable.
        wants_call: Whether the argument is the `ToolCall`; otherwise the argument dict.
    """

    function: Callable[[Any], Any]
    wants_call: bool


def read(when: Callable[..., Any], label: str) -> Test:
    """Read what a predicate takes.

    Args:
        when: The rule's predicate.
        label: The rule's label, for errors.

    Raises:
        ConfigError: It is not callable, cannot be called with what rules can pass, or never returns
            a value.
    """
    if isinstance(when, AllOf):
        return Test(_all([_of_call(read(each, label)) for each in when.predicates]), True)
    if not callable(when):
        raise ConfigError(
            f"rule `{label}`: `when` is not callable: {when!r}",
            hint="give a function of the arguments that returns a bool",
        )
    if not _answers(when):
        raise ConfigError(
            f"rule `{label}`: `when` never returns a value, so that it would never hold",
            hint="let it `return` whether the rule holds",
        )
    try:
        signature = inspect.signature(when)
    except (ValueError, TypeError):  # a function in C may have none
        return Test(when, False)
    parameters = list(signature.parameters.values())
    if not parameters:
        return Test(_of_nothing(when), False)
    try:
        signature.bind(object())
    except TypeError as error:
        raise ConfigError(
            f"rule `{label}`: `when` cannot be called with the arguments: {error}",
            hint="let it take one parameter, or none",
        ) from error
    annotation = _annotation(when, parameters[0], label)
    if not _is_model(annotation):
        return Test(when, False)
    if issubclass(annotation, types.ToolCall):
        return Test(when, True)
    return Test(_of_model(when, annotation), False)


def _answers(when: Callable[..., Any]) -> bool:
    """Return whether a function can end with a value other than None, as far as its code shows."""
    code = getattr(_function(when), "__code__", None)
    return code is None or _returns_values(code)


@functools.lru_cache(maxsize=256)
def _returns_values(code: python_types.CodeType) -> bool:
    # A forgotten `return` would only show as a condition that never holds, so the code must tell.
    steps = list(dis.get_instructions(code))
    ends = [(a, b) for a, b in itertools.pairwise(steps) if b.opname in _RETURNS]
    return not ends or any(not _is_none(a, b) for a, b in ends)


def _is_none(before: dis.Instruction, end: dis.Instruction) -> bool:
    """Return whether a return, after the step before it, is one of None."""
    is_constant = end.opname == "RETURN_CONST" or (
        before.opname == "LOAD_CONST" and not end.is_jump_target
    )
    return is_constant and (end if end.opname == "RETURN_CONST" else before).argval is None


def _function(when: Callable[..., Any]) -> Any:
    """Return the function that runs."""
    function: Any = when
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return getattr(function, "__func__", function)


def _is_model(annotation: type[Any]) -> bool:
    import pydantic  # imported here: most programs have no predicate that takes a model

    return issubclass(annotation, pydantic.BaseModel)


def _of_nothing(when: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda _args: when()


def _of_model(when: Callable[..., Any], model: type[pydantic.BaseModel]) -> Callable[[Any], Any]:
    def test(args: Any) -> Any:
        parsed = model.model_validate(args)
        check_numbers(parsed)  # a text may be parsed as NaN
        return when(parsed)

    return test


def _of_call(test: Test) -> Callable[[types.ToolCall], Any]:
    function = test.function
    return function if test.wants_call else lambda call: function(call.args)


async def _awaited(value: Any) -> Any:
    while inspect.isawaitable(value):  # an inner `await` may be forgotten
        value = await value
    return value


def _all(functions: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def test(call: Any) -> Any:
        for index, function in enumerate(functions):
            value = function(call)
            if inspect.isawaitable(value):
                return rest(value, call, index + 1)
            if not value:
                return False
        return True

    async def rest(value: Awaitable[Any], call: Any, index: int) -> bool:
        if not await _awaited(value):
            return False
        for function in functions[index:]:
            if not await _awaited(function(call)):
                return False
        return True

    return test


def _annotation(when: Callable[..., Any], parameter: inspect.Parameter, label: str) -> type[Any]:
    """Return the class that annotates the first parameter, `object` without an annotation.

    Raises:
        ConfigError: It is a text that has no meaning where the predicate was defined, or several
            models.
    """
    resolve = functools.partial(_resolve, when, label)
    classes = _classes(parameter.annotation, resolve) - {type(None)}
    if len(classes) == 1:
        return classes.pop()
    if any(_is_model(each) for each in classes):
        raise ConfigError(
            f"rule `{label}`: `when` takes one of several: {parameter.annotation}",
            hint="annotate it with one model, `ToolCall` or a dict",
        )
    return object


def _classes(annotation: Any, resolve: Callable[[str], Any]) -> set[type[Any]]:
    """Return the classes that an annotation may mean: several for a union."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return _classes(resolve(annotation), resolve)
    origin = typing.get_origin(annotation)
    members = typing.get_args(annotation)
    if origin is typing.Annotated:
        return _classes(members[0], resolve)
    if origin in {typing.Union, python_types.UnionType}:
        return {each for member in members for each in _classes(member, resolve)}
    found = annotation if origin is None else origin
    return {found} if isinstance(found, type) else {object}


def _resolve(when: Callable[..., Any], label: str, text: str) -> Any:
    """Evaluate an annotation that is a text, with the names that its function can see."""
    name = text.partition("[")[0].rpartition(".")[2].strip("\"' ")
    function = _function(inspect.unwrap(when))
    try:
        # The text is the rule's own code, not input.
        return eval(text, getattr(function, "__globals__", {}), _captured(function))
    except Exception as error:
        if name == "ToolCall":
            return types.ToolCall
        if name in _DICT_NAMES:
            return Mapping
        raise ConfigError(
            f"rule `{label}`: the annotation `{text}` of `when` cannot be resolved: {error}",
            hint="import that name at run time, or leave the annotation out",
        ) from error


def _captured(function: Any) -> dict[str, Any]:
    """Return what a function has captured from the function that defines it."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    found: dict[str, Any] = {}
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found
