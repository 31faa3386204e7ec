"""The append-only, hash-chained audit trail; `docs/audit.md` says what it proves and what not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otelhooks.audit.checking import check, verify
from otelhooks.audit.report import Finding, Head, Report
from otelhooks.audit.ticket import Ticket
from otelhooks.audit.trail import Audit

if TYPE_CHECKING:
    from otelhooks.audit.hook import AuditTrailHook

__all__ = ["Audit", "AuditTrailHook", "Finding", "Head", "Report", "Ticket", "check", "verify"]


def __getattr__(name: str) -> Any:
    if name == "AuditTrailHook":  # the hook classes are loaded only by those who want the hook
        from otelhooks.audit.hook import AuditTrailHook

        return AuditTrailHook
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
