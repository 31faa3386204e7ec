"""Questions to people in a trace: request, wait and call of one question become one row."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from otelhooks.records import semconv
from otelhooks.store.verdicts import is_about_approval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otelhooks.store.records import Span

__all__ = ["in_one_row"]


def in_one_row(spans: Sequence[Span]) -> list[Span]:
    """Return the spans with one for each question, in the same order.

    The call that was asked about stands for its question. Without one, because the answer is still
    out, it is the wait, with what the request says; it is named ``ask TOOL``.

    Args:
        spans: Of one trace.
    """
    called = {
        decision
        for span in spans
        if not is_about_approval(span.name) and (decision := _decision(span))
    }
    requests = {
        _decision(span): span
        for span in spans
        if span.name.startswith(semconv.SPAN_APPROVAL_REQUEST)
    }
    waits = {_decision(span) for span in spans if span.name.startswith(semconv.SPAN_APPROVAL_WAIT)}
    rows: list[Span] = []
    for span in spans:
        decision = _decision(span)
        if not is_about_approval(span.name) or not decision:
            rows.append(span)
        elif decision in called:
            continue
        elif decision not in waits:
            rows.append(dataclasses.replace(span, name=_named(span)))
        elif span is not requests.get(decision):
            asked = requests.get(decision)
            attributes = {**(asked.attributes if asked is not None else {}), **span.attributes}
            rows.append(dataclasses.replace(span, name=_named(span), attributes=attributes))
    return rows


def _decision(span: Span) -> str:
    return str(span.attributes.get(semconv.DECISION_ID) or "")


def _named(span: Span) -> str:
    return f"ask {span.name.partition(' ')[2]}".rstrip()
