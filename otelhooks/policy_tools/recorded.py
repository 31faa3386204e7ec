"""Tool calls that ran, or should have run, before: read back from the attributes of their spans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from otelhooks.hooks.calls import Call
from otelhooks.hooks.verdict import RECORD_REQUIRED, UNRECORDED_POLICY
from otelhooks.policy import stops
from otelhooks.records import semconv
from otelhooks.telemetry.masking import MASK

if TYPE_CHECKING:
    from otelhooks.store.records import Span

__all__ = ["RecordedCall", "Source", "read_call", "read_span"]

_SHORTENED = re.compile(r"\.\.\.\[\d+ characters\]$")


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One tool call as its span describes it.

    Attributes:
        tool: Name that rules see.
        args: Arguments; None if they were not captured.
        is_whole: Whether the arguments are complete: not masked, not shortened.
        server: Name the application gave to the tool's MCP server; empty for none.
        is_remote: Whether it is a tool of an MCP server at all.
        canonical: Canonical names of the tool.
        kind: ``shell``, ``file_read``, ``file_write`` or ``net``; empty if unknown.
        agent: Name of the agent, empty for none.
        branch: Path of agents, empty for none.
        labels: Labels in force at the decision.
        decision: ``allow``, ``deny``, ``ask`` or ``modify``; ``allow`` if nothing decided.
        has_verdict: Whether the span carries a decision at all.
        enforcement: What happened then; empty on a plain allow.
        policy_id: Policy of the rule that decided; empty on a plain allow.
        rule_id: Rule that decided, empty for none.
        has_failed: Whether the span is marked as failed.
        trace_id: 32 hex digits.
        span_id: 16 hex digits.
        at: Start, in nanoseconds since the Unix epoch.
        call_id: The framework's id of the call, empty for none.
        service: ``service.name`` of the program, empty if unknown.
    """

    tool: str
    args: dict[str, Any] | None
    is_whole: bool
    server: str
    is_remote: bool
    canonical: tuple[str, ...]
    kind: str
    agent: str
    branch: str
    labels: tuple[str, ...]
    decision: str
    has_verdict: bool
    enforcement: str
    policy_id: str
    rule_id: str
    has_failed: bool
    trace_id: str
    span_id: str
    at: int
    call_id: str
    service: str = ""

    @property
    def name(self) -> str:
        """The tool as a rule names it: ``server/tool`` for a tool of a server."""
        if not self.is_remote:
            return self.tool
        return f"{self.server or '(unnamed server)'}/{self.tool}"

    @property
    def is_observed(self) -> bool:
        """Whether monitor mode only recorded the decision."""
        return self.enforcement == semconv.ENFORCEMENT_OBSERVED

    @property
    def has_run(self) -> bool:
        """Whether the tool's body was allowed to run."""
        if self.is_observed or self.decision in (semconv.DECISION_ALLOW, semconv.DECISION_MODIFY):
            return True
        return self.enforcement == semconv.ENFORCEMENT_APPROVED

    @property
    def refused(self) -> str:
        """Why it was refused that no rule or hook denied: ``stopped`` or ``not recorded``."""
        if self.policy_id == stops.POLICY_ID and self.rule_id.startswith("stop-"):
            return "stopped"
        is_unrecorded = (self.policy_id, self.rule_id) == (UNRECORDED_POLICY, RECORD_REQUIRED)
        return "not recorded" if is_unrecorded else ""

    def call(self) -> Call:
        """Return the call as the pipeline takes it; without arguments if they are unknown."""
        return Call(
            self.tool,
            dict(self.args or {}),
            id=self.call_id or None,
            server=self.server or None,
            claimed_server=self.is_remote and not self.server,
            canonical=self.canonical,
            kind=self.kind or None,
            agent=self.agent,
            branch=self.branch,
        )


class Source(Protocol):
    """A source of recorded calls."""

    def calls(self) -> Iterable[RecordedCall]:
        """Yield the tool calls, oldest first if the source knows the order.

        Raises:
            ConfigError: It cannot be read.
        """
        ...

    def link(self, trace_id: str) -> str:
        """Return how to view a trace: a command or an address."""
        ...


def read_call(
    attributes: Mapping[str, Any],
    *,
    trace_id: str,
    span_id: str,
    at: int,
    has_failed: bool,
    resource: Mapping[str, Any] | None = None,
) -> RecordedCall | None:
    """Read a span's attributes; return None if the span is not a tool call.

    Args:
        attributes: Lists and objects may be JSON texts, as in any source.
        trace_id: 32 hex digits.
        span_id: 16 hex digits.
        at: Start, in nanoseconds since the Unix epoch.
        has_failed: Whether its status is an error.
        resource: Attributes of the program; None if they are not known.
    """
    tool = attributes.get(semconv.GEN_AI_TOOL_NAME)
    if attributes.get(semconv.GEN_AI_OPERATION_NAME) != semconv.OP_EXECUTE_TOOL or not tool:
        return None

    def text(name: str) -> str:
        value = attributes.get(name)
        return "" if value is None else str(value)

    args = _object(attributes.get(semconv.GEN_AI_TOOL_CALL_ARGUMENTS))
    decision = text(semconv.POLICY_DECISION)
    # A hook's decision about the result has replaced the decision about the call, which may run.
    is_before = text(semconv.HOOK_POINT) != semconv.POINT_POST_TOOL_CALL
    return RecordedCall(
        tool=str(tool),
        args=args,
        is_whole=args is not None and _is_whole(args),
        server=text(semconv.TOOL_SERVER),
        is_remote=bool(text(semconv.TOOL_SERVER) or text(semconv.MCP_METHOD_NAME)),
        canonical=_texts(attributes.get(semconv.TOOL_CANONICAL)),
        kind=text(semconv.TOOL_KIND),
        agent=text(semconv.GEN_AI_AGENT_NAME),
        branch=text(semconv.AGENT_BRANCH) or text(semconv.GEN_AI_AGENT_NAME),
        labels=_texts(attributes.get(semconv.LABELS)),
        decision=decision if decision and is_before else semconv.DECISION_ALLOW,
        has_verdict=bool(decision),
        enforcement=text(semconv.POLICY_ENFORCEMENT) if is_before else "",
        policy_id=text(semconv.POLICY_ID) if is_before else "",
        rule_id=text(semconv.POLICY_RULE_ID) if is_before else "",
        has_failed=has_failed,
        trace_id=trace_id,
        span_id=span_id,
        at=at,
        call_id=text(semconv.GEN_AI_TOOL_CALL_ID),
        service=str((resource or {}).get(semconv.SERVICE_NAME) or ""),
    )


def read_span(span: Span) -> RecordedCall | None:
    """Read a span of the local store; return None if it is not a tool call."""
    return read_call(
        span.attributes,
        trace_id=span.trace_id,
        span_id=span.span_id,
        at=span.started_at,
        has_failed=span.status == "error",
        resource=span.origin.resource,
    )


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):  # cut by a length limit, or never JSON
        return None


def _object(value: Any) -> dict[str, Any] | None:
    found = _decoded(value)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _texts(value: Any) -> tuple[str, ...]:
    found: Any = _decoded(value)
    if isinstance(found, (list, tuple)):
        return tuple(str(item) for item in cast("list[Any]", found))
    return () if not value else (str(value),)


def _is_whole(value: Any) -> bool:
    """Return whether nothing in a captured value was masked or left out."""
    if isinstance(value, str):
        return MASK not in value and not _SHORTENED.search(value)
    if isinstance(value, dict):
        if list(cast("dict[str, Any]", value)) == ["truncated"]:
            return False
        return all(_is_whole(item) for item in cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        return all(_is_whole(item) for item in cast("list[Any]", value))
    return True
