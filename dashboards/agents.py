"""The dashboard *Agents*: turns, tools, models, and what governing them costs."""

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
    row,
    table,
    traceql,
)
from dashboards.queries import (
    AGENT,
    BY_AGENT,
    BY_SERVICE,
    ERROR,
    HOOK,
    HOOK_TIME,
    INPUT_TOKENS,
    MODEL,
    OUTPUT_TOKENS,
    POINT,
    POLICY_TIME,
    RANGE,
    SERVICE,
    STEP,
    TOOL,
    TOOL_CALLS,
    TOOL_P95,
    TOOL_TIME,
    TOOLS,
    TURNS,
    model_calls,
    or_zero,
    quantile,
    total,
)
from otelhooks.records import semconv


def agents() -> JSON:
    """How agents, tools and models do, and what governing them costs."""
    turns, tools = f"{TURNS}_count{{{BY_AGENT}}}", f"{TOOL_CALLS}{{{BY_AGENT}}}"
    tool_time = total(f"{TOOL_TIME}{{{BY_AGENT}}}", STEP, TOOL)
    model_buckets = model_calls(STEP, "le", MODEL, part="bucket")
    overhead = f"{POLICY_TIME}_sum{{{BY_SERVICE}}}"
    return page(
        AGENTS,
        "otelhooks / Agents",
        "Turns, tools and models of the agents, and what hooks and policies add.",
        [
            row("Now"),
            number("Turns", "Runs of an agent, sub-agents included.", total(turns, RANGE)),
            number(
                "Tool calls",
                "Calls that ran; a denied one did not.",
                total(tools, RANGE),
            ),
            number("Model calls", "Requests to models.", model_calls(RANGE)),
            number(
                "Failed turns",
                "Runs that ended in an error.",
                or_zero(total(f'{TURNS}_count{{{BY_AGENT},{ERROR}!=""}}', RANGE), RANGE),
                bad=1,
            ),
            number(
                "Failed tool calls",
                "Calls that raised, those recovered by a hook included.",
                or_zero(total(f'{TOOL_CALLS}{{{BY_AGENT},{ERROR}!=""}}', RANGE), RANGE),
                bad=1,
            ),
            number(
                "Tokens",
                "Input and output together, as the providers bill them.",
                f"{total(f'{INPUT_TOKENS}{{{BY_SERVICE}}}', RANGE)} + "
                f"{total(f'{OUTPUT_TOKENS}{{{BY_SERVICE}}}', RANGE)}",
            ),
            row("Turns and tools"),
            chart(
                "Turns by agent",
                "Runs that ended, a step.",
                "short",
                [metric(total(turns, STEP, AGENT), f"{{{{{AGENT}}}}}")],
                bars=True,
            ),
            chart(
                "Turn duration, p95",
                "From question to answer. Dots are single turns: a click opens the trace.",
                "s",
                [metric(quantile(0.95, TURNS, BY_AGENT, AGENT), f"{{{{{AGENT}}}}}", dots=True)],
            ),
            table(
                "Tools",
                "Calls that ran. Click a tool: traces with it.",
                {SERVICE: "Service", AGENT: "Agent", TOOL: "Tool", ERROR: "Error"},
                total(tools, RANGE, SERVICE, AGENT, TOOL, ERROR),
                {
                    TOOL: [link("Traces with this tool", in_tempo(semconv.GEN_AI_TOOL_NAME))],
                    AGENT: [link("Its decisions", dashboard(GOVERNANCE, agent="${__value.raw}"))],
                },
            ),
            chart(
                "Tool duration, mean and p95",
                "Without policies, hooks and people that are asked. p95, and dots that open "
                "traces, only of agents with `OTELHOOKS_TOOL_HISTOGRAM=1`.",
                "s",
                [
                    metric(f"{tool_time} / {total(tools, STEP, TOOL)}", f"{{{{{TOOL}}}}} mean"),
                    metric(quantile(0.95, TOOLS, BY_AGENT, TOOL), f"{{{{{TOOL}}}}} p95", dots=True),
                ],
            ),
            row("Models"),
            table(
                "Model calls",
                "By model. Click one: traces with it.",
                {SERVICE: "Service", MODEL: "Model", ERROR: "Error"},
                model_calls(RANGE, SERVICE, MODEL, ERROR),
                {MODEL: [link("Traces with this model", in_tempo(semconv.GEN_AI_REQUEST_MODEL))]},
                width=8,
            ),
            chart(
                "Model call duration, p95",
                "Until the whole answer is there. Dots open traces.",
                "s",
                [
                    metric(
                        f"histogram_quantile(0.95, {model_buckets})", f"{{{{{MODEL}}}}}", dots=True
                    )
                ],
                width=8,
            ),
            chart(
                "Tokens",
                "Input includes what came from the cache.",
                "short",
                [
                    metric(
                        total(f"{INPUT_TOKENS}{{{BY_SERVICE}}}", STEP, MODEL),
                        f"{{{{{MODEL}}}}}: input",
                    ),
                    metric(
                        total(f"{OUTPUT_TOKENS}{{{BY_SERVICE}}}", STEP, MODEL),
                        f"{{{{{MODEL}}}}}: output",
                    ),
                ],
                bars=True,
                width=8,
            ),
            row("What governing costs"),
            chart(
                "Seconds spent, tools beside governance",
                "Sums of a step. Policies: evaluations of 0.1 ms and more; shorter ones are not "
                "timed one by one.",
                "s",
                [
                    metric(total(f"{TOOL_TIME}{{{BY_AGENT}}}", STEP), "tools"),
                    metric(total(f"{HOOK_TIME}_sum{{{BY_SERVICE}}}", STEP), "hooks"),
                    metric(total(overhead, STEP), "policies"),
                ],
                width=8,
            ),
            chart(
                "Hook duration, p99",
                "By hook.",
                "s",
                [metric(quantile(0.99, HOOK_TIME, BY_SERVICE, HOOK), f"{{{{{HOOK}}}}}")],
                width=8,
            ),
            chart(
                "Policy evaluation, p50 and p99",
                "Of evaluations of 0.1 ms and more, by point.",
                "s",
                [
                    metric(quantile(0.5, POLICY_TIME, BY_SERVICE, POINT), f"{{{{{POINT}}}}} p50"),
                    metric(quantile(0.99, POLICY_TIME, BY_SERVICE, POINT), f"{{{{{POINT}}}}} p99"),
                ],
                width=8,
            ),
            row("From traces"),
            chart(
                "Tool duration, p95, from traces",
                "Computed by Tempo among the traces it has, so after sampling. Dots open traces.",
                "ns",
                [traceql(TOOL_P95)],
                width=24,
            ),
        ],
    )
