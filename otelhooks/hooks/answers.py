"""What a handler of an ask rule answered.

Decision code: only `True`, or a valid `Approval` that approves, approves. Any other answer denies,
and an unreadable one is an error, which denies as well. None, which a function returns that ends
without an answer, is not recorded as an answer. Functions count as services under their own names:
only one with a true attribute ``asks_people``, or an `Approval` that says so, reports a person.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any, cast

from otelhooks.hooks.calls import copy_json, same_json
from otelhooks.hooks.drive import Raised
from otelhooks.hooks.verdict import Approval, RuleLike
from otelhooks.records.failures import misnamed

__all__ = ["read_answer", "signed"]

_FORMS = {
    "status": frozenset(("approved", "rejected", "expired", "withdrawn", "error")),
    "approver_type": frozenset(("human", "service", "rule")),
}


def signed(answer: Any, handler: Callable[..., Any]) -> Any:
    """Return an answer that says who gave it; None, which is not an answer, stays None."""
    if answer is None:
        return None
    inner: Any = inspect.unwrap(handler)
    while isinstance(inner, functools.partial):
        inner = cast("Any", inner).func
    asks_people = getattr(inner, "asks_people", False) is True
    name = "" if asks_people else getattr(inner, "__qualname__", type(inner).__qualname__)
    if not isinstance(answer, Approval):
        status = "approved" if answer is True else "rejected"
        kind = "human" if asks_people else "service"
        return Approval(status, approver_type=kind, approver_id=name)
    if answer.approver_id != "" or answer.approver_type != "service":
        return answer
    answer = copy.copy(answer)
    answer.approver_id = name
    return answer


def read_answer(
    answer: Any,
    rule: RuleLike,
    args: dict[str, Any],
    handler: Callable[..., Any],
    takes: frozenset[str] | None = None,
) -> Approval:
    """Return what an answer means, as an object that the handler does not hold.

    Args:
        answer: What the handler returned, or a `Raised`.
        rule: The rule that the handler belongs to.
        args: Arguments of the call, into which an edit will be merged.
        handler: Who was asked.
        takes: Names of the arguments that an edit may add; None for any.
    """
    if type(answer) is Raised:
        status = "expired" if isinstance(answer.error, TimeoutError) else "error"
        return Approval(status, error=answer.error, rejected_by=rule)
    if answer is None:
        return Approval("rejected", approver_type="", rejected_by=rule)
    try:
        answer = signed(answer, handler)
        return Approval(
            _one_of("status", answer.status),
            edit=_edit(answer.edit, args, takes),
            approver_type=_one_of("approver_type", answer.approver_type),
            approver_id=_typed("approver_id", answer.approver_id, str),
            error=_typed("error", answer.error, BaseException, type(None)),
            rejected_by=rule,
        )
    except Exception as error:  # of the handler's own classes, too
        return Approval("error", error=error, rejected_by=rule)


def _one_of(field: str, value: Any) -> str:
    if type(value) is not str or value not in _FORMS[field]:
        names = ", ".join(sorted(_FORMS[field]))
        raise ValueError(f"`{field}` of an approval is one of {names}")
    return value


def _typed(field: str, value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds):
        raise TypeError(f"`{field}` of an approval cannot be a `{type(value).__name__}`")
    return value


def _edit(edit: Any, args: dict[str, Any], takes: frozenset[str] | None) -> dict[str, Any] | None:
    """Return a copy of an edit that can be merged into arguments."""
    if edit is None:
        return None
    given = cast("dict[Any, Any]", edit)
    if type(given) is not dict or not all(type(name) is str for name in given):
        raise TypeError("`edit` of an approval is a dict of arguments by name")
    if takes is not None:
        for name in sorted(given.keys() - args.keys() - takes):
            problem = f"the tool takes no `{name}`, which `edit` of the approval names"
            raise misnamed(problem, name, takes)
    copied: dict[str, Any] = copy_json(given)
    same_json({**args, **copied}, args)  # raises here, where it denies, not where it is merged
    return copied
