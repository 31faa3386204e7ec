"""The tool call as the hot path carries it: slots first, a pydantic record on first use."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otelhooks import types

if TYPE_CHECKING:
    from otelhooks.hooks.said import Message

__all__ = ["Call", "copy_json", "same_json"]

_SCALARS = frozenset((str, int, float, bool, type(None)))
_MAPPINGS = frozenset((collections.OrderedDict, collections.defaultdict))
_MUTABLE = _MAPPINGS | {set, bytearray}
_OWN_FIELDS = frozenset(("name", "args", "id", "canonical_path", "work_dir", "server_name", "raw"))
"""Fields of a record that a `Call` carries itself; the others say where it was made."""


def copy_json(value: Any) -> Any:
    """Copy JSON-like containers, at any depth; other values are passed on uncopied.

    Containers are the standard library's own; an instance of a subclass is another value.

    Raises:
        RecursionError: They are nested too deep, or contain themselves.
    """
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # a cast costs on the hot path
    if kind in _SCALARS:
        return value
    if kind is dict:
        for item in value.values():
            if type(item) not in _SCALARS:
                return {key: copy_json(item) for key, item in value.items()}
        return value.copy()
    if kind is list:
        return [copy_json(item) for item in value]
    if kind is tuple:
        return tuple(copy_json(item) for item in value)
    if kind is collections.deque:
        return collections.deque(map(copy_json, value), value.maxlen)
    if kind in _MUTABLE:
        copied: Any = value.copy()
        if kind in _MAPPINGS:
            for key, item in value.items():
                copied[key] = copy_json(item)
        return copied
    return value


def same_json(left: Any, right: Any) -> bool:
    """Return whether two values are equal; values that are not JSON are equal if identical."""
    if left is right:
        return True
    kind = type(left)  # pyright: ignore[reportUnknownVariableType]  # as above
    if kind is not type(right):
        # 1, 1.0 and True are equal in Python but not to a tool that checks the type.
        return False
    if kind is dict or kind in _MAPPINGS:
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if kind is list or kind is tuple or kind is collections.deque:
        return len(left) == len(right) and all(map(same_json, left, right))
    if kind is float and left != left:
        return bool(right != right)  # NaN is not equal to itself, but is the same value
    return bool((kind in _SCALARS or kind in _MUTABLE) and left == right)


class Call:
    """A tool call on its way through a seat.

    Attributes:
        name: Name that rules see.
        args: Arguments; after the last pass a copy that no other code holds.
        id: The framework's id of the call.
        server: Name the application gave to the tool's MCP server.
        claimed_server: True for an MCP tool whose server the application did not name: deny and ask
            rules of every server apply to it, allow rules of none.
        server_says: The name that such a server gives itself; matches deny and ask rules only.
        canonical: Canonical names that rules may use for this tool as well, such as
            ``run_command`` or ``invoke_subagent``; if it has several names, all of them.
        kind: ``shell``, ``file_read``, ``file_write`` or ``net``, if the adapter knows.
        path: Normalised path of a file tool.
        work_dir: Directory that the tool works in, if the adapter knows it.
        raw: The model's own text of the arguments.
        agent: Agent that the call runs under.
        branch: Path of agents.
        tool_type: ``function``, ``extension`` or ``datastore``.
        description: The tool's own description.
        is_known: False for a name that only the model or a remote side vouches for; metrics then
            say ``_OTHER``.
        version: Counts changes of value of the arguments.
        place: Returns what a record says about where it was made, as keyword arguments. Called
            once, when the first record is created; None if only agent and branch are known.
        holds_back: Whether the items of a generator tool must wait for a hook that may change them.
        is_counted: Whether limits have counted the operation already: it continues after a pause,
            or only more is known of it now.
        op: The operation that carries it, if any.
        said: What the user said in the request whose answer asked for it.
        takes: Names of all arguments that the tool takes; None if unknown, or any.
        ahead: Context in which it was judged ahead of its tool; None if it was not.
        owner: The object whose method is the seat, if that is needed to tell seats of one name
            apart.
        listing: What the MCP client that makes the call knows of the tool's definition, see
            `otelhooks.policy.mcp.definitions.Listing`; None at any other seat.
    """

    owner: Any = None
    listing: Any = None

    __slots__ = (
        "_record",
        "_where",
        "agent",
        "ahead",
        "args",
        "branch",
        "canonical",
        "claimed_server",
        "description",
        "foreign",
        "holds_back",
        "id",
        "is_counted",
        "is_known",
        "kind",
        "name",
        "op",
        "path",
        "place",
        "raw",
        "said",
        "server",
        "server_says",
        "takes",
        "tool_type",
        "version",
        "work_dir",
    )

    def __init__(
        self,
        name: str = "",
        args: dict[str, Any] | None = None,
        id: str | None = None,
        server: str | None = None,
        claimed_server: bool = False,
        server_says: str | None = None,
        canonical: tuple[str, ...] = (),
        kind: str | None = None,
        path: str | None = None,
        raw: str | None = None,
        agent: str = "",
        branch: str = "",
        tool_type: str = "function",
        description: str | None = None,
        is_known: bool = True,
        work_dir: str | None = None,
    ) -> None:
        self.name: str = name
        self.args: dict[str, Any] = {} if args is None else args
        self.id: str | None = id
        self.server: str | None = server
        self.claimed_server: bool = claimed_server
        self.server_says: str | None = server_says
        self.canonical: tuple[str, ...] = canonical
        self.kind: str | None = kind
        self.path: str | None = path
        self.raw: str | None = raw
        self.agent: str = agent
        self.branch: str = branch
        self.tool_type: str = tool_type
        self.description: str | None = description
        self.is_known: bool = is_known
        self.work_dir: str | None = work_dir
        self.version: int = 0
        self.place: Callable[[], dict[str, Any]] | None = None
        self.holds_back: bool = False
        self.is_counted: bool = False
        self.op: Any = None
        self.said: tuple[Message, ...] = ()
        self.takes: frozenset[str] | None = None
        self.ahead: Any = None  # an `OperationContext` or None
        self.foreign: Any = None
        self._record: types.ToolCall | None = None
        self._where: dict[str, Any] | None = None

    @classmethod
    def of(cls, record: Any) -> Call:
        """Carry a record that was passed to a dispatch; return any other value unchanged."""
        if not isinstance(record, types.ToolCall):
            call = cls(getattr(record, "name", "") or type(record).__name__, {})
            call.foreign = record
            return call
        call = cls(
            str(record.name),
            record.args,
            id=record.id,
            server=record.server_name,
            path=record.canonical_path,
            work_dir=record.work_dir,
            raw=record.raw,
            agent=record.agent,
            branch=record.branch,
        )
        call._record = record
        return call

    @property
    def recorded(self) -> types.ToolCall | None:
        """The record that this call was made from, or that was made of it; None for neither."""
        return self._record

    def record(self) -> Any:
        """Return the call as hooks see it; its ``args`` are this object's."""
        if self.foreign is not None:
            return self.foreign
        record, where = self._record, self._where
        if where is None:
            if record is not None:  # the record that this call was made from
                names = types.ToolCall.model_fields.keys() - _OWN_FIELDS
                where = {name: getattr(record, name) for name in names}
            else:
                known: dict[str, Any] = {"agent": self.agent, "branch": self.branch}
                where = known if self.place is None else self.place()
            self._where = where
        if record is None or self._is_renamed(record, where):
            record = types.ToolCall(
                name=self.name,
                args={},
                id=self.id,
                canonical_path=self.path,
                work_dir=self.work_dir,
                server_name=self.server,
                raw=self.raw,
                **where,
            )
            record.args = self.args
        elif record.args is not self.args:
            record = record.model_copy(update={"args": self.args})
        self._record = record
        return record

    def _is_renamed(self, record: types.ToolCall, where: dict[str, Any]) -> bool:
        """Return whether a hook changed anything but the arguments in its record."""
        return (
            record.name != self.name
            or record.server_name != self.server
            or record.canonical_path != self.path
            or record.work_dir != self.work_dir
            or record.id != self.id
            or record.raw != self.raw
            or any(getattr(record, name) != value for name, value in where.items())
        )

    def rewrite(self, args: dict[str, Any]) -> bool:
        """Take other arguments; return whether that changed their value."""
        changed = not same_json(args, self.args)
        self.args = args
        self.version += changed
        return changed
