# pyright: basic
"""A tool call at a seat: the call that rules judge, and how to read and write it.

The pipeline gets the class as seat and the object as call, so that ``seat.denied(call, reason)`` is
``call.denied(reason)`` without a further object or frame.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Generator, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

from opentelemetry.context import attach, detach

from otelhooks.errors import Denied
from otelhooks.frameworks.kit import json_text
from otelhooks.frameworks.kit.mcp.lists import is_taken
from otelhooks.frameworks.kit.mcp.servers import name_at, network_of
from otelhooks.frameworks.kit.objects.classes import is_a
from otelhooks.frameworks.kit.passages import Passage
from otelhooks.frameworks.kit.values import SCALARS, Value, copied, plain, text_of
from otelhooks.hooks.calls import Call, same_json
from otelhooks.hooks.chain import CHECK_FAILED
from otelhooks.hooks.drive import Raised
from otelhooks.hooks.registry import HookSet
from otelhooks.hooks.verdict import DENY, Ruling
from otelhooks.pipeline import runtime
from otelhooks.pipeline.call_span import put
from otelhooks.pipeline.drivers import Operation, adrive
from otelhooks.pipeline.frames import Op, current_frame, current_scope, with_scope
from otelhooks.pipeline.leads import next_seat_of, stages_of
from otelhooks.pipeline.permits import NextSeat
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.sessions import Scope
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_stages import overlooks
from otelhooks.plain_text import without_credentials
from otelhooks.records.failures import WrongAnswer
from otelhooks.telemetry.spans import error_type

__all__ = ["ToolCall"]

MCP_CLIENT = "mcp.client"


def _is_plain(value: Any) -> bool:
    if type(value) in SCALARS:
        return True
    if type(value) is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    return type(value) is list and all(map(_is_plain, value))


class ToolCall(Passage, Call):
    """One call of a tool at one seat. `read` sets what it knows: ``name`` and the rest of `Call`.

    Attributes:
        group: Name by which other seats lead calls to this one.
        judges_again: Whether rules are evaluated again although another seat led the call here.
        recovers: Whether a hook's recovery is the result; otherwise it is the failure's text.
        tells_failures: Whether even a failure that was raised is answered like a denial.
        pauses: Exceptions by which the framework pauses or jumps, such as ``pkg.mod:Class``.
        conversation: The framework's id of the conversation, for a call outside any run.
        is_approved: Whether a person approved this very call, as the framework reports; None if it
            reports no answer.
        validate: Creates the framework's objects from plain arguments.
        text_name: Name under which rules see a model's text that is not a JSON object.
    """

    must = ("read", "call", "denied")
    words = (
        "of name args id server claimed_server server_says canonical kind path work_dir raw owner "
        "agent tool_type description is_known conversation is_approved validate text_name group "
        "judges_again recovers tells_failures pauses denied value with_value withheld error failed "
        "recovered is_paused asks_framework puts_off attributes next_seat stages follow_up listing "
        "finished starts_agent is_control_flow error_type"
    )
    group: ClassVar[str] = ""
    judges_again: ClassVar[bool] = False
    recovers: ClassVar[bool] = True
    tells_failures: ClassVar[bool] = False
    pauses: ClassVar[tuple[str, ...]] = ()
    text_name: str = "arguments"
    conversation: str = ""
    is_approved: bool | None = None
    validate: Callable[[Any], Any] | None = None

    is_ahead: ClassVar[bool] = False
    is_behind: ClassVar[bool] = False
    _value: Value | None = None
    _is_text = False
    _objects: Mapping[str, tuple[Any, Any]] | None = None
    _hidden: Mapping[str, Any] | None = None
    _next: NextSeat | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # a static method, looked up on the class, would get the object as its first argument
        cls.result = inspect.getattr_static(cls, "value")
        cls.with_result = inspect.getattr_static(cls, "with_value")

    # -- what an adapter writes ---------------------------------------------------------------

    def call(self, wrapped: Callable[..., Any], args: Any) -> Any:
        """Call the framework's function.

        Args:
            wrapped: The function, bound.
            args: The approved arguments, in the form that `take` got them in.
        """
        raise NotImplementedError

    def denied(self, reason: str) -> Any:
        """Return, or raise, a refusal that the framework's model understands."""
        raise NotImplementedError

    def value(self, raw: Any) -> Any:
        """Return the result that hooks see for what the function returned."""
        return raw

    def with_value(self, raw: Any, value: Any) -> Any:
        """Return what the function returned, with another result in it."""
        return value

    def withheld(self, raw: Any, reason: str) -> Any:
        """Return what the function returned, with a reason instead of its result."""
        return self.with_value(raw, reason)

    def error(self, raw: Any) -> Exception | str | None:
        """Return the failure that the framework reports as a result, or its text."""
        return None

    def failed(self, error: BaseException, message: str) -> Any:
        """Return a failure whose text a hook replaced: `raised` of it, or a result.

        By default one that the framework has reported as a result is answered like a denial.
        """
        op, has_form = self.op, type(self).error is not ToolCall.error
        if self.tells_failures or (has_form and op is not None and op.failure is not None):
            return self.denied(message)
        replaced = RuntimeError(message)
        replaced.__cause__ = error
        return self.raised(replaced)

    def recovered(self, value: Any) -> Any:
        """Return what replaces a failure."""
        return value

    def is_paused(self, raw: Any) -> bool:
        """Return whether the call has stopped to continue later."""
        return False

    def asks_framework(self, reason: str) -> BaseException | None:
        """Return the exception by which the framework asks a person; None if it cannot now.

        Raised for an ask rule that has no handler of its own. When the framework continues the
        call, `is_approved` is the answer; None asks again.
        """
        return None

    def puts_off(self, reason: str) -> BaseException | None:
        """Return the exception by which the framework pauses the run; None if it cannot now.

        For a queue that parks calls: raised until the queue has the answer, which alone counts. It
        is also asked for when the call comes again, whether there is an answer or not.
        """
        return None

    def attributes(self) -> Mapping[str, Any] | None:
        """Return further attributes of the call's span."""
        return None

    # -- what an adapter uses in `read` -------------------------------------------------------

    raised = staticmethod(Raised)
    own = staticmethod(copied)
    text_of = staticmethod(text_of)

    def take(self, given: Any, hidden: Collection[str] = ()) -> None:
        """Take the arguments; `call` gets them back in the same form.

        Args:
            given: By name, or as JSON text. Objects are shown to rules as plain data, and returned
                as copies; if hooks changed them, `validate` creates them again.
            hidden: Names of those that the framework fills in, and rules do not see.
        """
        if given is None or isinstance(given, (str, bytes)):
            text: Any = given
            self._is_text, self.raw = True, text
            self.args = json_text.read(given, self.text_name)
            return
        if hidden:
            self._hidden = {name: given[name] for name in hidden if name in given}
        args = {name: each for name, each in given.items() if name not in hidden}
        if not all(map(_is_plain, args.values())):
            shown = {
                name: (plain(value), copied(value))
                for name, value in args.items()
                if not _is_plain(value)
            }
            self._objects = shown
            args.update({name: copy.deepcopy(each) for name, (each, _) in shown.items()})
        self.args = args

    def goes_to(self, group: str, name: str, server: str | None = None) -> None:
        """Name the deeper seat that the framework will pass this very call to.

        A call comes to one seat next: the last of these calls, and of `is_of_server`, counts.
        """
        self._next = NextSeat(group, name, server)

    def take_all(self, given: Any) -> None:
        """Take the one parameter that holds all arguments, with pydantic objects at any depth.

        `call` gets it back in the same form.

        Args:
            given: A dict, an object, or anything else, which rules see under the name `text_name`.
        """
        self._value = Value(given, self.text_name)
        self.args = self._value.shown

    @classmethod
    def expect(cls, name: str, owner: Any, given: Any, seat: str = "") -> None:
        """Leave a permit: the present call comes to this seat next.

        Args:
            name: The tool's name.
            owner: The ``owner`` of the call at this seat.
            given: Future argument of `take_all` there.
            seat: Group that another package's seat left a permit for, which becomes this one;
                without such a permit none is left.
        """
        op = current_frame()
        if type(op) is Op and (not seat or op.permits.claim(seat, name)):
            op.permits.leave(
                NextSeat(cls.group, name, owner=owner), Value(given, cls.text_name).shown
            )

    def comes_from(self, seat: str, form: Callable[[dict[str, Any]], Any]) -> None:
        """Take the permit of another package's seat, where the arguments had another form.

        Rules are evaluated again, on the same span: they see the arguments as they are here.

        Args:
            seat: Group that the other seat left the permit for.
            form: Converts those arguments to these.
        """
        rt, op = runtime.active(), current_frame()
        if rt is None or type(op) is not Op or op.call is None or overlooks(rt, op, self.stages):
            return
        if op.permits.claim(seat, self.name, lambda args: same_json(form(args), self.args)):
            outer = op.call
            self.server, self.claimed_server = outer.server, outer.claimed_server
            self.server_says, self.canonical = outer.server_says, (self.name,)
            to = NextSeat(self.group, self.name, owner=self.owner, judges_again=True)
            op.permits.leave(to, self.args)

    def is_also(self, *names: str) -> None:
        """Add names that the tool has besides ``name``; comes behind `is_of_server`.

        Such as the one that it was defined with, under a prefix. Rules that deny or ask match by
        each, rules that allow by none of them.
        """
        if not {self.name, *self.canonical}.issuperset(names):
            # for a local tool several names, ``name`` among them: an allow rule matches by none
            mine = () if self.tool_type == "extension" else (self.name,)
            self.canonical = tuple(dict.fromkeys((*self.canonical, *mine, *names)))

    def is_of_server(self, name: str, server: str | None, place: Any = None) -> None:
        """Set the MCP server that runs it, to whose client the call goes next.

        Args:
            name: The tool's name there.
            server: The application's name for the server in the framework; None if it gave none.
            place: As for `server_at`.
        """
        if name != self.name:
            self.canonical = (*self.canonical, self.name)
        self.name, self.tool_type = name, "extension"
        self.named_at(server, place)
        self.goes_to(MCP_CLIENT, name, self.server)

    def named_at(self, server: str | None, place: Any) -> None:
        """Set the server that runs it: by its name in ``mcp_servers=``, else by the framework's.

        Both are the application's: rules that deny or ask apply by either.

        Args:
            server: Its name in the framework; None if the application gave none there.
            place: As for `server_at`.
        """
        known = self.server_at(place) or server or None
        self.server = without_credentials(known) if known and "://" in known else known
        self.claimed_server = self.server is None
        if server and server != self.server:
            self.server_says = server

    def is_served_by(self, server: str | None) -> None:
        """Set the MCP server of this process that runs it, by the name that its code gave it.

        Not if ``mcp_servers=`` gives that name to another, or if a client in this process makes the
        call: it keeps the client's name for the server.
        """
        own = server if not (is_taken(server) or self.is_on_its_way(self.group)) else None
        self.server, self.claimed_server = own or None, not own
        self.server_says = None if own else server

    @classmethod
    async def denied_early(cls, owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Return the answer to a denied call, if rules deny this one; None if not.

        For a framework that asks a person before it makes the call. The arguments are those of
        `read`.
        """
        rt, frame, call = runtime.active(), current_frame(), cls()
        if rt is None:
            return None
        call.read(owner, *args, **kwargs)
        _, judges = rt.in_force(current_scope(), frame.branch if frame is not None else call.agent)
        context = frame.context if frame is not None else None
        for judge in judges:
            ruling = await adrive(judge.evaluate(call, context), _never)
            if ruling.decision == DENY and not rt.loaded.monitor:
                return await adrive(call.steps(rt), _never)
        return None

    @staticmethod
    def arguments_in(text: Any, name: str) -> dict[str, Any]:
        """Return the arguments in a model's text; one that is not a JSON object under a name."""
        return json_text.read(text, name)

    @staticmethod
    def current() -> Any:
        """Return the call whose function is running now; None outside any."""
        frame = current_frame()
        return frame.call if isinstance(frame, Op) else None

    def is_on_its_way(self, group: str) -> bool:
        """Return whether a seat has let a call through to the seats of a group."""
        frame = current_frame(self.context)
        return type(frame) is Op and frame.permits.holds(group)

    server_at = staticmethod(name_at)
    network_of = staticmethod(network_of)

    @staticmethod
    def note(attributes: Mapping[str, Any]) -> None:
        """Put attributes on the span of the call whose function is running now."""
        frame = current_frame()
        if isinstance(frame, Op):
            put(frame, attributes)

    def at(self, group: str) -> NextSeat:
        """Return a group's seat as the next one of this very call."""
        return NextSeat(group, self.name, self.server)

    def at_seat_of(self, tool: Any) -> NextSeat | None:
        """Return the seat of a tool object, or a function, that another adapter knows."""
        return next_seat_of(tool, self.name, self.server)

    def stages_of(self, tool: Any) -> Any:
        """Return the steps of such a tool, for `stages`."""
        return stages_of(tool, self.name)

    @staticmethod
    def not_run(id: str | None) -> None:
        """Note that the framework answers a call itself, by its id: its tool is never called."""
        frame = current_frame()
        if frame is not None and frame.turn is not None:
            frame.turn.judged(id)

    # -- what the kit makes of it -------------------------------------------------------------

    def steps(self, rt: Runtime) -> Operation:
        if not isinstance(self.name, str) or not self.name:
            raise WrongAnswer("it set no `name`, which rules look at first")
        seat: Any = type(self)
        return tool(rt, seat, self, self.conversation)

    def run(self, wrapped: Callable[..., Any], approved: dict[str, Any]) -> Any:
        """Call the function with approved arguments, in the form that the framework gave them."""
        given: Any = approved
        if self._value is not None:
            given = self._value.write(approved)
        elif self._is_text:
            given = json_text.write(self.raw, self.text_name, approved, self.version > 0)
        elif self._objects is not None:
            given = self._with_objects(approved, self._objects)
        elif self.version and self.validate is not None:
            given = self.validate(approved)
        return self.call(wrapped, {**given, **self._hidden} if self._hidden else given)

    def _with_objects(
        self, approved: dict[str, Any], objects: Mapping[str, tuple[Any, Any]]
    ) -> dict[str, Any]:
        kept = {
            name: value
            for name, (shown, value) in objects.items()
            if name in approved and same_json(approved[name], shown)
        }
        written = {**approved, **kept}
        changed = self.version or any(name in approved and name not in kept for name in objects)
        return self.validate(written) if changed and self.validate is not None else written

    def refused(self, error: Exception) -> Any:
        try:
            return self.denied(str(error))
        except Denied:
            raise error from None  # there is no form for it: the error has more information

    def unread(self, rt: Runtime, error: Exception) -> Operation:
        """Let a rule deny the call, so that it is reported and recorded like any other deny."""
        name: Any = self.name
        self.name = name if name and isinstance(name, str) else type(self).__name__
        self.args = {}
        context = with_scope(Scope(current_scope(), HookSet(), (_Unread(error),)))
        operation, value = self.steps(rt), None
        while True:
            token = attach(context)
            try:
                effect = operation.send(value)
            except StopIteration as stop:
                return stop.value
            finally:
                detach(token)
            value = yield effect

    def next_seat(self) -> NextSeat | None:
        return self._next

    @classmethod
    def is_control_flow(cls, error: BaseException) -> bool:
        return is_a(error, *cls.pauses)

    def stages(self) -> Any:
        return None

    def follow_up(self, raw: Any) -> NextSeat | None:
        return None

    def finished(self, seconds: float, failure: str | None, span: Any) -> None:
        """Record the rest about a call whose body ran."""

    def starts_agent(self) -> bool:
        return "invoke_subagent" in self.canonical

    error_type = staticmethod(error_type)


async def _never(approved: Any) -> Any:
    raise Denied(CHECK_FAILED)


class _Unread:
    """The rule that denies a call that its adapter could not read.

    Args:
        error: What `read` raised.
    """

    needs_context = False
    can_deny = True

    def __init__(self, error: Exception) -> None:
        self._error = error

    def evaluate(self, call: Call, context: Any = None) -> Generator[Any, Any, Ruling]:
        return self.constant(call)
        yield

    def constant(self, call: Call) -> Ruling:
        return Ruling(DENY, _RULE, CHECK_FAILED, self._error)


_RULE: Any = SimpleNamespace(
    id="unreadable",
    policy_id="adapter",
    policy_version="",
    label="unreadable",
    reason=CHECK_FAILED,
    severity=None,
)
