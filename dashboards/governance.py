"""The dashboard *Governance*: number, then table, then trace, then rule."""

from __future__ import annotations

from dashboards.panels import (
    AGENTS,
    GOVERNANCE,
    JSON,
    chart,
    dashboard,
    in_tempo,
    link,
    metric,
    number,
    page,
    panel,
    panel_of,
    row,
    table,
    traceql,
)
from dashboards.queries import (
    AGENT,
    BY_AGENT,
    BY_RULE,
    BY_SERVICE,
    CHANGE,
    DECISION,
    DECISIONS,
    DECISIONS_SHOWN,
    DENIED,
    DENIES_BY_AGENT,
    DENIES_SHOWN,
    ENFORCEMENT,
    ERROR,
    FLIPS,
    MODE,
    NEWEST_DENIES,
    PENDING,
    POLICY,
    RANGE,
    RULE,
    SERVICE,
    SEVERITY,
    STATUS,
    STEP,
    TOOL,
    UNAPPROVED,
    WAITS,
    or_zero,
    quantile,
    total,
)
from otelhooks.records import semconv

RULE_TABLE = 9  # id of the table that the number of denies leads to; a test looks


def governance() -> JSON:
    """What was decided, by which rule, about what, and who was asked."""
    enforced = f'{DECISIONS}{{{BY_AGENT},{MODE}="{semconv.MODE_ENFORCE}"'
    enforced_denies = f"{total(f'{enforced},{DENIED}}}', STEP, SERVICE)}"
    enforced_all = total(f"{enforced}}}", STEP, SERVICE)
    share = f"({enforced_denies} or 0 * {enforced_all}) / ({enforced_all} > 0)"
    to_table = [link("Denies by rule", panel_of(GOVERNANCE, RULE_TABLE))]
    asked = f'{DECISIONS}{{{BY_RULE},{DECISION}="{semconv.DECISION_ASK}"}}'
    of_rule = [
        link("Traces with this rule", in_tempo(semconv.POLICY_RULE_ID)),
        link("Only this rule", dashboard(GOVERNANCE, rule="${__value.raw}")),
    ]
    return page(
        GOVERNANCE,
        "otelhooks / Governance",
        "Decisions of policies and hooks: number, then table, then trace, then rule.",
        [
            row("Now"),
            number(
                "Decisions",
                "Verdicts in the shown time, plain allows included.",
                total(DECISIONS_SHOWN, RANGE),
            ),
            number(
                "Denies",
                "Calls that a rule or hook denied, also those that monitor mode let through. "
                "Click: by rule.",
                or_zero(total(DENIES_SHOWN, RANGE), RANGE),
                bad=1,
                links=to_table,
            ),
            number(
                "Asked",
                "Calls that a person or a service was asked about.",
                or_zero(total(asked, RANGE), RANGE),
            ),
            number(
                "Approvals pending",
                "Questions without an answer now; the processes that ask wait.",
                or_zero(f"sum({PENDING}{{{BY_SERVICE}}})", RANGE),
                bad=1,
            ),
            number(
                "Policy errors",
                "Verdicts made because a policy failed: they deny. Any is worth a look.",
                or_zero(total(f'{DECISIONS}{{{BY_RULE},{ERROR}!=""}}', RANGE), RANGE),
                bad=1,
            ),
            number(
                "Candidate would change",
                "Calls that the candidate set would have decided otherwise.",
                or_zero(total(f"{FLIPS}{{{BY_SERVICE}}}", RANGE), RANGE),
            ),
            row("Decisions"),
            table(
                "Denies by rule",
                "Click a rule: its traces, or this page for it alone.",
                {
                    SERVICE: "Service",
                    POLICY: "Policy",
                    RULE: "Rule",
                    SEVERITY: "Severity",
                    MODE: "Mode",
                },
                total(DENIES_SHOWN, RANGE, SERVICE, POLICY, RULE, SEVERITY, MODE),
                {RULE: of_rule},
            ),
            chart(
                "Decisions by outcome",
                "Verdicts a step. Dots are single decisions: a click opens the trace.",
                "short",
                [metric(total(DECISIONS_SHOWN, STEP, DECISION), f"{{{{{DECISION}}}}}", dots=True)],
                bars=True,
            ),
            chart(
                "Denies by rule over time",
                "Dots are single denies: a click opens the trace.",
                "short",
                [metric(total(DENIES_SHOWN, STEP, RULE), f"{{{{{RULE}}}}}", dots=True)],
                bars=True,
                links=[link("Denies by rule", panel_of(GOVERNANCE, RULE_TABLE))],
            ),
            chart(
                "Deny share against the budget",
                "Enforced denies among all enforced verdicts of a service; the line is the budget "
                "of 1 % that the burn alerts measure against.",
                "percentunit",
                [metric(share, f"{{{{{SERVICE}}}}}")],
                line=0.01,
            ),
            table(
                "Denies by agent and tool",
                "Who wanted what. Click a tool: traces with it.",
                {SERVICE: "Service", AGENT: "Agent", TOOL: "Tool", ENFORCEMENT: "What happened"},
                total(DENIES_SHOWN, RANGE, SERVICE, AGENT, TOOL, ENFORCEMENT),
                {
                    TOOL: [link("Traces with this tool", in_tempo(semconv.GEN_AI_TOOL_NAME))],
                    AGENT: [
                        link("Traces of this agent", in_tempo(semconv.GEN_AI_AGENT_NAME)),
                        link("This agent", dashboard(AGENTS, agent="${__value.raw}")),
                    ],
                },
            ),
            chart(
                "Verdicts other than allow, by tool",
                "Denied, asked about or rewritten.",
                "short",
                [
                    metric(
                        total(
                            f'{DECISIONS}{{{BY_RULE},{DECISION}!="{semconv.DECISION_ALLOW}"}}',
                            *(STEP, TOOL, DECISION),
                        ),
                        f"{{{{{TOOL}}}}}: {{{{{DECISION}}}}}",
                        dots=True,
                    )
                ],
                bars=True,
            ),
            table(
                "MCP tools that are not approved",
                "Tools in lists of MCP servers, each time that a list had one.",
                {SERVICE: "Service", CHANGE: "Why", MODE: "Mode"},
                total(f"{UNAPPROVED}{{{BY_SERVICE}}}", RANGE, SERVICE, CHANGE, MODE),
                {},
            ),
            row("Approvals"),
            chart(
                "Answers",
                "What became of questions, when they were answered or ran out of time.",
                "short",
                [
                    metric(
                        total(f"{WAITS}_count{{{BY_SERVICE}}}", STEP, STATUS), f"{{{{{STATUS}}}}}"
                    )
                ],
                bars=True,
                width=8,
            ),
            chart(
                "Waiting for an answer",
                "Dots are single questions: a click opens the trace.",
                "s",
                [
                    metric(quantile(0.5, WAITS, BY_SERVICE), "p50"),
                    metric(quantile(0.95, WAITS, BY_SERVICE), "p95", dots=True),
                ],
                width=8,
            ),
            chart(
                "Pending",
                "Questions without an answer, by service.",
                "short",
                [
                    metric(
                        or_zero(f"sum by ({SERVICE}) ({PENDING}{{{BY_SERVICE}}})", STEP, SERVICE),
                        f"{{{{{SERVICE}}}}}",
                    )
                ],
                width=8,
            ),
            row("Newest"),
            panel(
                "table",
                "Newest denies and questions",
                "From the trace store; click the trace id. All services: the search takes no "
                "variable.",
                "short",
                16,
                9,
                [traceql(NEWEST_DENIES)],
                {"showHeader": True, "cellHeight": "sm"},
            ),
            chart(
                "Denies by agent, from traces",
                "Counted by Tempo among the traces it has, so after sampling: denies are all kept.",
                "short",
                [traceql(DENIES_BY_AGENT)],
                width=8,
            ),
        ],
    )
