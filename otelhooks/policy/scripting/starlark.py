"""Starlark: expressions and scripts, compiled once and called within limits.

The only module that knows the interpreter. A call that takes too long, goes too deep, fails, or
gets a value that a script cannot hold raises `ScriptError`; decision code then denies. A single
native operation (a text multiplied by a large number from outside) cannot be interrupted in this
process, but its result does not count if it comes too late: scripts are the operator's own, and are
checked for such constants when they are loaded.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from otelhooks import types
from otelhooks.errors import PolicyFileError
from otelhooks.hooks.drive import escapes
from otelhooks.policy.scripting.plain_values import plain
from otelhooks.policy.scripting.starlark_source import (
    Place,
    error_at,
    keys_read,
    parse_expression,
    parse_script,
    refuse_attributes,
)
from otelhooks.policy.thread_clock import thread_time, without_collections
from otelhooks.records.failures import OutOfTime

__all__ = [
    "TIME_LIMIT_S",
    "Expression",
    "Place",
    "Script",
    "ScriptError",
    "ScriptTimeout",
    "compile_expression",
    "compile_script",
    "counting_time",
]

starlark: Any = importlib.import_module("starlark")  # a type checker would import this file

TIME_LIMIT_S = 0.05
"""Longest run of one call, in seconds of its thread, without the host functions that it calls.

The thread's own time counts, without garbage collections: neither they nor a busy machine must
make a script deny.
"""

_LOAD_LIMIT_S = 1.0
_STACK_LIMIT = 200  # the interpreter overflows its own stack at some tens of thousands

F = TypeVar("F", bound=Callable[..., Any])
HostFunctions = Mapping[str, Callable[..., Any]]
"""What a script may call, by name; ``a.b`` is a member of ``a``, which may itself be a function."""


class ScriptError(Exception):
    """A call of a script produced no result.

    Args:
        problem: What went wrong.
        line: Line in the file, 0 if unknown.
        column: Column in the file.
    """

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line}:{column}: {problem}" if line else problem)
        self.problem = problem
        self.line = line
        self.column = column


class ScriptTimeout(ScriptError, OutOfTime):
    """A call of a script took longer than it may."""


class _Clock:
    """The time that one call has left, which the interpreter polls while it runs.

    Attributes:
        end: On the thread's clock, in seconds; extended by the time that host functions take.
        stopped: Whether the interpreter was asked to stop.
        raised: What a host function raised, which the interpreter only keeps as text.
    """

    __slots__ = ("end", "raised", "stopped")

    def __init__(self, limit_s: float) -> None:
        self.end: float = thread_time() + limit_s
        self.stopped: bool = False
        self.raised: BaseException | None = None

    def __call__(self) -> bool:
        self.stopped = self.stopped or thread_time() > self.end
        return self.stopped


class _Running(threading.local):
    clock: _Clock | None = None


_running = _Running()


def _host(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a host function as scripts call it: its time is not counted, its errors are kept."""
    counts = getattr(function, "counts_time", False)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        clock = _running.clock or _Clock(_LOAD_LIMIT_S)
        if clock():  # the interpreter polls too rarely for a loop of slow calls
            msg = "no time left"
            raise TimeoutError(msg)
        started = thread_time()
        try:
            return plain(function(*args, **kwargs))
        except BaseException as error:
            clock.raised = error
            raise
        finally:
            if not counts:
                clock.end += thread_time() - started

    return call


def counting_time(function: F) -> F:
    """Count the time of a host function as the time of the script that calls it."""
    vars(function)["counts_time"] = True
    return function


class _Compiled:
    """A frozen module, and how places in it map to places in the user's file."""

    __slots__ = ("_limit_s", "_module", "_spot")

    def __init__(self, module: Any, spot: _Spot, limit_s: float) -> None:
        self._module = module
        self._spot = spot
        self._limit_s = limit_s

    def call(self, function: str, values: tuple[Any, ...], *, are_plain: bool = False) -> Any:
        """Call a function of the module.

        Raises:
            ScriptError: It fails, is stopped, or the values cannot be passed to it.
        """
        with without_collections():
            return self._call(function, values, are_plain=are_plain)

    def _call(self, function: str, values: tuple[Any, ...], *, are_plain: bool) -> Any:
        clock = _Clock(self._limit_s)
        outer, _running.clock = _running.clock, clock
        try:
            given = values if are_plain else [plain(value) for value in values]
            found = self._module.call_with(_options(clock), function, *given)
            if thread_time() > clock.end:
                self._refuse_late(clock, given)
            return found.value
        except BaseException as error:  # a panic of the interpreter is not an Exception
            _raise_if_escaping(error, clock)
            raise self._failure(error, clock) from clock.raised
        finally:
            _running.clock = outer

    def _refuse_late(self, clock: _Clock, given: Sequence[Any]) -> None:
        """Raise if a call took too long: one native operation cannot be interrupted.

        The time to pass arguments to the interpreter is not the script's. It is measured here, a
        second time and generously, since few calls come this far.

        Raises:
            TimeoutError: It took longer than its limit.
        """
        returned = thread_time()
        for value in given:
            plain(value)
        self._module.call(_NOTHING, *given)
        handed_over_s = thread_time() - returned
        if returned > clock.end + 2 * handed_over_s:
            clock.stopped = True
            msg = "no time left"
            raise TimeoutError(msg)

    def _failure(self, error: BaseException, clock: _Clock) -> ScriptError:
        text = str(error)
        if clock.stopped:
            problem = f"stopped after {self._limit_s:g} s, the time limit of a script"
            return ScriptTimeout(problem, *self._spot.of(text))
        if isinstance(error, starlark.StarlarkError):
            return ScriptError(_problem(text), *self._spot.of(text))
        return ScriptError(text if isinstance(error, Exception) else "the interpreter failed")


class _Spot:
    """The place of a module's text in the user's file."""

    __slots__ = ("lines_before", "place")

    def __init__(self, place: Place, lines_before: int) -> None:
        self.place: Place = place
        self.lines_before: int = lines_before

    def of(self, text: str) -> tuple[int, int]:
        """Return line and column in the file of an error of the interpreter, or zeros."""
        found = _POSITION.search(text)
        line = int(found[1]) - self.lines_before if found is not None else 0
        if found is None or line < 1:
            return 0, 0
        return self.place.within(line, int(found[2]))


def _raise_if_escaping(error: BaseException, clock: _Clock) -> None:
    """Raise what must stop the caller, even if it came through the interpreter as text."""
    for each in (error, clock.raised):
        if each is not None and escapes(each):
            raise each from None


def _options(clock: _Clock) -> Any:
    return starlark.EvalOptions(check_cancelled=clock, max_callstack_size=_STACK_LIMIT)


def _problem(text: str) -> str:
    found = _PROBLEM.search(text)
    problem: str = found[1] if found is not None else text.strip().partition("\n")[0]
    return problem.partition(", expected one of")[0]


class Expression:
    """An expression as a function of its parameters; may be the `when` of a rule.

    Two of the same text are equal. `__qualname__` is the text, so that ids and versions made from
    it depend on the text.

    Attributes:
        text: As written.
        reads: Keys that it reads of its last parameter; None if it may read any.
    """

    def __init__(self, text: str, reads: frozenset[str] | None, compiled: _Compiled) -> None:
        self.text: str = text
        self.reads: frozenset[str] | None = reads
        self._compiled = compiled
        self.__qualname__ = text
        self.__module__ = "starlark"

    def __call__(self, *values: Any) -> Any:
        """Return the value for these parameters.

        Raises:
            ScriptError: It produced no value.
        """
        return self._compiled.call(_FUNCTION, values)

    def of_plain(self, *values: Any) -> Any:
        """Return the same for parameters that are already plain values."""
        return self._compiled.call(_FUNCTION, values, are_plain=True)

    def __repr__(self) -> str:
        return f"starlark({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


class CallExpression(Expression):
    """An expression that looks at more of a call than its arguments.

    Args:
        expression: Over `NAMES`, then the arguments.
        names: Names that it uses.

    Attributes:
        names: Those of `NAMES` that it uses.
    """

    NAMES = ("prompt", "prompts", "user", "agent", "branch")

    def __init__(self, expression: Expression, names: frozenset[str]) -> None:
        super().__init__(expression.text, expression.reads, expression._compiled)
        self.names: frozenset[str] = names.intersection(self.NAMES)

    def __call__(self, call: types.ToolCall) -> Any:  # type: ignore[override]
        user = None if call.user is None else call.user.model_dump(mode="json")
        return super().__call__(
            call.prompt, list(call.prompts), user, call.agent, call.branch, call.args
        )


class Script:
    """A script with one function that can be called.

    Attributes:
        function: Name of that function.
        names: Names that the script uses.
        reads: Keys that it reads of the function's last parameter; None if it may read any.
    """

    def __init__(
        self,
        function: str,
        names: frozenset[str],
        reads: frozenset[str] | None,
        compiled: _Compiled,
    ) -> None:
        self.function: str = function
        self.names: frozenset[str] = names
        self.reads: frozenset[str] | None = reads
        self._compiled = compiled

    def __call__(self, *values: Any) -> Any:
        """Return what the function returns, as plain values.

        Raises:
            ScriptError: It fails, or returns something other than a plain value.
        """
        return self._compiled.call(self.function, values)

    def of_plain(self, *values: Any) -> Any:
        """Return the same for parameters that are already plain values."""
        return self._compiled.call(self.function, values, are_plain=True)


def compile_expression(
    text: str,
    place: Place,
    *,
    parameters: tuple[str, ...] = ("args",),
    functions: HostFunctions | None = None,
    limit_s: float = TIME_LIMIT_S,
) -> Expression:
    """Compile an expression.

    Args:
        text: Starlark, on one line or several.
        place: Place of the text, for errors.
        parameters: Names that it may use.
        functions: What it may call besides Starlark's own functions.
        limit_s: Longest run of one call, in seconds, without host functions.

    Raises:
        PolicyFileError: It is not an expression, uses unknown names or attributes of the last
            parameter, or is refused.
    """
    nodes = parse_expression(text, place)
    refuse_attributes(nodes, parameters[-1], place)
    wanted, text_as_compiled = _wanted(text, nodes, place, functions)
    head = f"def {_FUNCTION}({', '.join(parameters)}):\n return [\n"
    source = f"{head}{text_as_compiled}\n][0]\n"
    compiled = _compile(source, wanted, _Spot(place, 2), limit_s)
    return Expression(text, keys_read(nodes, parameters[-1]), compiled)


def compile_script(
    text: str,
    place: Place,
    *,
    function: str = "handle",
    parameters: int = 2,
    functions: HostFunctions | None = None,
    limit_s: float = TIME_LIMIT_S,
) -> Script:
    """Compile a script.

    Args:
        text: Starlark.
        place: Place of the text, for errors.
        function: Name of the function that it must define.
        parameters: Number of parameters of that function.
        functions: What it may call besides Starlark's own functions.
        limit_s: Longest run of one call, in seconds, without host functions.

    Raises:
        PolicyFileError: It is not a script, does not define the function, or is refused.
    """
    nodes = parse_script(text, place, function=function, parameters=parameters)
    wanted, text_as_compiled = _wanted(text, nodes, place, functions)
    names = frozenset(node.id for node in nodes if isinstance(node, ast.Name))
    compiled = _compile(text_as_compiled, wanted, _Spot(place, 0), limit_s)
    return Script(function, names, _reads(nodes, function, parameters), compiled)


def _reads(nodes: Sequence[ast.AST], function: str, parameters: int) -> frozenset[str] | None:
    """Return the keys of its last parameter that a function reads; None if unknown."""
    found = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.name == function]
    if len(found) != 1:  # one inside another, or replaced
        return None
    named = [each.arg for each in (*found[0].args.posonlyargs, *found[0].args.args)]
    return keys_read(nodes, named[parameters - 1]) if len(named) >= parameters else None


_FUNCTION = "expression"
_NOTHING = "otelhooks_nothing"
_FILE = "script"
_POSITION = re.compile(r"^ *--> script:(\d+):(\d+)", re.MULTILINE)
_PROBLEM = re.compile(r"^error: (?:Parse error: )?(.*)$", re.MULTILINE)


@functools.lru_cache(maxsize=1)
def _dialect() -> Any:
    dialect = starlark.Dialect.standard()
    dialect.enable_lambda = True
    dialect.enable_f_strings = True
    dialect.enable_keyword_only_arguments = True
    dialect.enable_load = False
    return dialect


@functools.lru_cache(maxsize=1)
def _globals() -> Any:
    # JSON is left out: its encoder overflows the stack on deep values.
    known = starlark.LibraryExtension
    return starlark.Globals.extended_by([known.StructType, known.Map, known.Filter, known.Partial])


def _compile(text: str, functions: HostFunctions, spot: _Spot, limit_s: float) -> _Compiled:
    module = starlark.Module()
    clock = _Clock(_LOAD_LIMIT_S)
    outer, _running.clock = _running.clock, clock
    try:
        _define(module, functions)
        parsed = starlark.parse(_FILE, f"{text}\ndef {_NOTHING}(*given):\n pass\n", _dialect())
        starlark.eval_with(_options(clock), module, parsed, _globals())
        if clock():
            msg = "no time left"
            raise TimeoutError(msg)
        return _Compiled(module.freeze(), spot, limit_s)
    except BaseException as error:
        _raise_if_escaping(error, clock)
        problem = f"stopped after {_LOAD_LIMIT_S:g} s" if clock.stopped else _problem(str(error))
        where = spot.of(str(error))
        where = where if where[0] else spot.place.within(1, 1)
        hint = "Starlark reads like Python without `while`, `try`, `class` and `import`"
        if "not found" in problem:
            hint = "a script knows its parameters, what it defines, and the built-in functions"
        raise PolicyFileError(spot.place.path, *where, problem, hint=hint) from None
    finally:
        _running.clock = outer


# -- host functions -------------------------------------------------------------------------------


def _wanted(
    text: str, nodes: list[ast.AST], place: Place, functions: HostFunctions | None
) -> tuple[HostFunctions, str]:
    """Return the functions that a text uses, and the text with `log.info` as one name.

    Starlark has no value for a function with members (`log` and `log.info`), so its members become
    functions of their own, with names of the same length: places stay correct.
    """
    if not functions:
        return {}, text
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    wanted = {name: f for name, f in functions.items() if name.partition(".")[0] in names}
    lines = text.split("\n")
    for node in nodes:
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        name = f"{node.value.id}.{node.attr}"
        if name not in wanted or node.value.id not in wanted:
            continue
        line = lines[node.lineno - 1].encode()
        start, end = node.col_offset, node.end_col_offset or 0
        if line[start:end] != name.encode():
            column = len(line[:start].decode()) + 1
            raise error_at(
                place, node.lineno, column, f"`{name}` in pieces", hint=f"write `{name}`"
            )
        lines[node.lineno - 1] = (line[:start] + _flat(name).encode() + line[end:]).decode()
    return wanted, "\n".join(lines)


def _flat(name: str) -> str:
    return name.replace(".", "_")


def _define(module: Any, functions: HostFunctions) -> None:
    """Put host functions into a module: `a` as a function, `a.b` as a member of `a`."""
    groups: dict[str, list[str]] = {}
    for name, function in functions.items():
        group, _, member = name.partition(".")
        module.add_callable(_flat(name), _host(function))
        if member and group not in functions:
            groups.setdefault(group, []).append(f"{member}={_flat(name)}")
    lines = [f"{group} = struct({', '.join(members)})" for group, members in groups.items()]
    if lines:
        starlark.eval(module, starlark.parse(_FILE, "\n".join(lines), _dialect()), _globals())
