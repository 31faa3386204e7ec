"""The append-only, hash-chained audit trail; `docs/audit.md` says what it proves and what not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otelhooks.process.late import late_names

if TYPE_CHECKING:
    from otelhooks.audit.checking import check, verify
    from otelhooks.audit.hcs import HcsAuditTrailHook
    from otelhooks.audit.hook import AuditTrailHook
    from otelhooks.audit.report import Finding, Head, Report
    from otelhooks.audit.ticket import Ticket
    from otelhooks.audit.trail import Audit

__all__ = [
    "Audit",
    "AuditTrailHook",
    "Finding",
    "HcsAuditTrailHook",
    "Head",
    "Report",
    "Ticket",
    "check",
    "verify",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(
        globals(),
        {
            "otelhooks.audit.checking": "check verify",
            "otelhooks.audit.hcs": "HcsAuditTrailHook",
            "otelhooks.audit.hook": "AuditTrailHook",
            "otelhooks.audit.report": "Finding Head Report",
            "otelhooks.audit.ticket": "Ticket",
            "otelhooks.audit.trail": "Audit",
        },
    )
