"""One call that passes several seats is judged once.

A call often passes an agent framework, an MCP client and an MCP server. A seat that allowed a call,
and knows that the framework will hand it to a deeper seat, leaves one permit in the call's own
operation. The deeper seat takes it if seat, name, server and arguments are all as approved; it then
opens no operation of its own. Any other call is judged again. A permit can be taken once, so none
is left when the tool's own body runs: what the body calls is judged, whatever its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from otelhooks.hooks.calls import Call, same_json

__all__ = ["NextSeat", "Permit", "Permits"]


class NextSeat(NamedTuple):
    """What a seat knows of the deeper seat that its call will reach.

    Attributes:
        seat: Group name of the deeper seat, such as ``mcp.client``.
        name: The tool's name there.
        server: The server's name there, None if this seat cannot know it.
        owner: The object whose method the deeper seat wraps; None for any.
        judges_again: Whether rules are evaluated again there.
    """

    seat: str
    name: str
    server: str | None = None
    owner: Any = None
    judges_again: bool = False


class Permit(NamedTuple):
    """A call that was approved and is on its way to a deeper seat."""

    to: NextSeat
    args: dict[str, Any]


class Permits(list[Permit]):
    """The permits of one operation; taking is atomic, since `list.remove` and `append` are.

    Most operations never have one; `clear` takes back what was not taken.
    """

    __slots__ = ()

    def leave(self, to: NextSeat, args: dict[str, Any]) -> None:
        """Leave a permit for the one deeper seat that the call will reach."""
        self.append(Permit(to, args))

    def take(self, seat: str, call: Call, outer: Any = None) -> Permit | None:
        """Take the permit for exactly this call at this seat, if there is one.

        Args:
            seat: Group of the seat.
            call: The call there.
            outer: The call that left the permits. One for a method of an object is for what the
                method overrides, not for the method itself.

        Returns:
            The permit. Its server may differ from the call's only where one of the two is unknown.
            If the permit's server is unknown, rules must be evaluated again.
        """
        for permit in tuple(self):
            to = permit.to
            if to.seat != seat or to.name != call.name:
                continue
            if to.owner is not None and (to.owner is not call.owner or _goes_back(call, outer)):
                continue
            is_unknown = call.server is None and call.claimed_server
            if to.server is not None and to.server != call.server and not is_unknown:
                continue
            if same_json(permit.args, call.args) and self._use_up(permit):
                return permit
        return None

    def claim(
        self, seat: str, name: str, fits: Callable[[dict[str, Any]], bool] | None = None
    ) -> Permit | None:
        """Take a permit for a deeper seat that can check itself whether the permit fits its call.

        Args:
            seat: Group of the deeper seat.
            name: Name of the tool.
            fits: Whether the arguments are the call's, in whatever form; None for any.
        """
        for permit in tuple(self):
            if permit.to[:2] == (seat, name) and (fits is None or fits(permit.args)):
                if self._use_up(permit):
                    return permit
        return None

    def _use_up(self, permit: Permit) -> bool:
        try:
            self.remove(permit)
        except ValueError:  # another thread was faster
            return False
        return True

    def holds(self, seat: str) -> bool:
        """Return whether any call is on its way to a seat."""
        return any(permit.to.seat == seat for permit in tuple(self))


def _goes_back(call: Any, outer: Any) -> bool:
    """Return whether a method called itself, or one that overrides it, on its own object."""
    here, before = getattr(call, "function", None), getattr(outer, "function", None)
    owner, name = getattr(here, "__self__", None), getattr(here, "__name__", "")
    if owner is None or owner is not getattr(before, "__self__", None):
        return False
    methods = [vars(cls).get(name) for cls in type(owner).__mro__]
    return 0 <= _place(methods, here) <= _place(methods, before)


def _place(methods: list[Any], method: Any) -> int:
    """Return where a bound method is among methods of classes, below their wrappers; -1 if not."""
    function = getattr(method, "__func__", None)
    for place, entry in enumerate(methods):
        while entry is not None:
            if entry is function:
                return place
            entry = getattr(entry, "__wrapped__", None)
    return -1
