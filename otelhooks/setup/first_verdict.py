"""A sign of life: the first verdict about a tool call, as one line on stderr.

The first that monitor mode only observed is such a line too. A program that logs is not written to:
its log has the same line as INFO.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from otelhooks.hooks.verdict import ALLOW, DENY
from otelhooks.plain_text import one_line
from otelhooks.process.console import program_logs
from otelhooks.process.environment import is_helper
from otelhooks.records import semconv
from otelhooks.setup.unasked import is_one_of_several
from otelhooks.telemetry.quiet import fails_open

if TYPE_CHECKING:
    from otelhooks.hooks.verdict import Observed, Verdict
    from otelhooks.telemetry.providers import Providers

__all__ = ["tell"]

log: logging.Logger = logging.getLogger("otelhooks.setup")


@fails_open
def tell(verdict: Verdict, tool: str, providers: Providers) -> None:
    """Write the line.

    Args:
        verdict: The first of this process about a tool call, or the first with observed ones.
        tool: Name of the tool, as metrics have it.
        providers: They say where the rest goes.
    """
    shown: Verdict | Observed = verdict
    if tool == semconv.TOOL_NAME_OTHER:
        tool = "a tool that only the model or a server names"
    what = f"first verdict: {verdict.decision} {tool}"
    if verdict.observed and verdict.decision == ALLOW:
        denies = (seen for seen in verdict.observed if seen.decision == DENY)
        shown = next(denies, verdict.observed[0])
        verb = "deny" if shown.decision == DENY else "ask about"
        what = f"monitor mode would {verb} {tool}"
    rule = f" (rule {shown.rule_id} of {shown.policy_id})" if shown.rule_id else ""
    where = providers.describe()
    if "local store" in where:
        where = "`otelhooks trace show` shows it"
    line = one_line(f"{what}{rule}; {where}")
    log.info("%s", line)
    if sys.stderr is not None and not _is_logging() and not (is_helper() or is_one_of_several()):
        sys.stderr.write(f"otelhooks: {line}; OTELHOOKS_ANNOUNCE=false leaves this line out\n")


def _is_logging() -> bool:
    """Return whether the program has set logging up: a handler, a level, or all switched off."""
    if program_logs(log.name) or log.manager.disable >= logging.INFO:
        return True
    return log.level != logging.NOTSET or logging.getLogger("otelhooks").level != logging.NOTSET
