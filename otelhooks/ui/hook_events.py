"""Stored records as the `HookEvent`s that listeners inside a program get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json

from otelhooks import types
from otelhooks.hooks.runner import EVENT_TYPES
from otelhooks.records import semconv
from otelhooks.store.records import Span
from otelhooks.store.verdicts import RANK_REFUSED, is_about_approval, rank

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otelhooks.store.records import Event

__all__ = ["hook_event"]

_ENDS = {
    semconv.OP_EXECUTE_TOOL: "post_tool_use",
    semconv.OP_CHAT: "post_model_call",
    semconv.OP_GENERATE_CONTENT: "post_model_call",
    semconv.OP_TEXT_COMPLETION: "post_model_call",
    semconv.OP_INVOKE_AGENT: "after_run",
}
"""What the end of a span reports, by its operation."""

_AFTER = {*_ENDS.values(), "model_error"}
_TEXTS = {
    "agent_name": semconv.GEN_AI_AGENT_NAME,
    "task_id": semconv.TASK_ID,
    "branch": semconv.AGENT_BRANCH,
    "tool_call_id": semconv.GEN_AI_TOOL_CALL_ID,
    "tool_name": semconv.GEN_AI_TOOL_NAME,
    "decision": semconv.POLICY_DECISION,
    "rule_id": semconv.POLICY_RULE_ID,
    "reason": semconv.POLICY_REASON,
}
_USAGE = {
    "input_tokens": semconv.GEN_AI_USAGE_INPUT_TOKENS,
    "output_tokens": semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
    "cache_read_input_tokens": semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
    "cache_write_input_tokens": semconv.GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS,
    "reasoning_output_tokens": semconv.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
}


_CONTENT = {
    semconv.GEN_AI_TOOL_CALL_ARGUMENTS: "input",
    semconv.GEN_AI_TOOL_CALL_RESULT: "output",
    semconv.GEN_AI_INPUT_MESSAGES: "input",
    semconv.GEN_AI_OUTPUT_MESSAGES: "output",
}
_OF_POINTS = {
    semconv.EVENT_POLICY_DECISION,
    semconv.EVENT_SESSION_START,
    semconv.EVENT_SESSION_END,
    semconv.EVENT_USER_MESSAGE,
    semconv.EVENT_INTERACTION,
    semconv.EVENT_COMPACTION,
    semconv.EVENT_STOP,
    semconv.EVENT_SUBAGENT_START,
    semconv.EVENT_SUBAGENT_STOP,
}


def hook_event(record: Span | Event) -> types.HookEvent | None:
    """Return what a record reports, None for what listeners do not get, such as an open question.

    The span of a refused call reports the point that refused it, and any other span its end.
    """
    attributes = record.attributes
    kind = _kind_of_span(record) if isinstance(record, Span) else _kind_of_log(record)
    if not kind:
        return None
    fields: dict[str, Any] = {
        field: str(attributes[name]) for field, name in _TEXTS.items() if name in attributes
    }
    if attributes.get(semconv.POLICY_ENFORCEMENT) == semconv.ENFORCEMENT_OBSERVED:
        fields |= {"decision": semconv.DECISION_ALLOW, "rule_id": None, "reason": None}
    if isinstance(record, Span):
        fields |= _content(attributes)
        if kind in _AFTER:
            fields |= _end(record)
    ids = {"trace_id": record.trace_id or "", "span_id": record.span_id or ""}
    return types.HookEvent(type=kind, timestamp=record.at / 1e9, **ids, **fields)


def _kind_of_log(record: Event) -> str:
    attributes = record.attributes
    is_open = attributes.get(semconv.APPROVAL_STATUS) == semconv.APPROVAL_STATUS_PENDING
    return "" if is_open or record.name not in _OF_POINTS else _kind_at(attributes)


def _kind_of_span(span: Span) -> str:
    kind = _ENDS.get(str(span.attributes.get(semconv.GEN_AI_OPERATION_NAME)), "")
    if not kind or is_about_approval(span.name):
        return ""
    if rank(span.attributes) == RANK_REFUSED:
        return _kind_at(span.attributes)
    return "model_error" if kind == "post_model_call" and span.status == "error" else kind


def _kind_at(attributes: Mapping[str, Any]) -> str:
    point = str(attributes.get(semconv.HOOK_POINT, semconv.POINT_PRE_TOOL_CALL))
    return EVENT_TYPES.get(point, point)


def _end(span: Span) -> dict[str, Any]:
    is_error = span.status == "error"
    error = span.status_message or span.attributes.get(semconv.ERROR_TYPE) if is_error else None
    used = {
        field: span.attributes[name] for field, name in _USAGE.items() if name in span.attributes
    }
    usage = types.Usage(**used) if used else None
    return {"duration": span.duration_s, "is_error": is_error, "error": error, "usage": usage}


def _content(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what went in and came out, if it was captured."""
    return {
        field: _decoded(attributes[name]) for name, field in _CONTENT.items() if name in attributes
    }


def _decoded(value: Any) -> Any:
    """Return what a span keeps as JSON, except numbers and words, which may have been texts."""
    try:
        found = from_json(value)
    except ValueError:  # a plain text, or JSON that was cut
        return value
    return cast("Any", found) if isinstance(found, (dict, list)) else value
