"""What a candidate set would have done with a tool call: on its span, and counted.

Telemetry: fails open, see `otelhooks.policy.candidate`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import Run
from otelhooks.hooks.verdict import Verdict
from otelhooks.pipeline.frames import Op
from otelhooks.pipeline.runtime import Runtime
from otelhooks.policy.candidate import Candidate, Known, said
from otelhooks.records import semconv

__all__ = ["try_out"]


def try_out(
    rt: Runtime, candidate: Candidate, op: Op, call: Call, verdict: Verdict | None
) -> Generator[Run, Any, None]:
    """Evaluate the candidate set for a call that has been decided; note where the two differ.

    Args:
        rt: The active runtime.
        candidate: The set that is tried out.
        op: The call's operation; its span is not open yet.
        call: The call with its final arguments.
        verdict: What was decided; None if nothing decides.
    """
    if rt.is_suppressed():
        return
    context = op.context if candidate.rules.needs_context else None
    known = Known(frozenset(op.judged_under()), context)
    ruling = yield from candidate.flip(call, known, verdict)
    if ruling is None:
        return
    rule = ruling.rule
    version = candidate.rules.version if rule is None else rule.policy_version
    flip = {semconv.CANDIDATE_DECISION: ruling.decision}
    if rule is not None:
        flip[semconv.CANDIDATE_POLICY_ID] = rule.policy_id
        flip[semconv.CANDIDATE_RULE_ID] = rule.id
    op.flip = {**flip, semconv.CANDIDATE_VERSION: version}
    if verdict is None:
        op.flip[semconv.POLICY_DECISION] = semconv.DECISION_ALLOW
    counted = {
        **flip,
        semconv.POLICY_DECISION: said(verdict),
        semconv.HOOK_POINT: semconv.POINT_PRE_TOOL_CALL,
        semconv.GEN_AI_TOOL_NAME: call.name if call.is_known else semconv.TOOL_NAME_OTHER,
    }
    rt.instruments.candidate_flips.cell(counted).add(1)
