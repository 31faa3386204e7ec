"""What similar calls have in common in telemetry, created once: names, attributes, counts.

A call merges the start attributes of its shape with its own ids, and uses the shape's metric
attributes and cells as they are. Everything is bounded: what does not fit is created each time.

Source: design.md section 14 rule 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otelhooks.plain_text import encodable
from otelhooks.records import semconv
from otelhooks.telemetry.counters import Timing

if TYPE_CHECKING:
    from otelhooks.hooks.calls import Call
    from otelhooks.hooks.verdict import Verdict
    from otelhooks.telemetry.counters import Cell
    from otelhooks.telemetry.histograms import HistogramCell
    from otelhooks.telemetry.metrics import Instruments
    from otelhooks.telemetry.verdicts import Verdicts

__all__ = ["ModelShape", "Shapes", "ToolShape"]

_MAX_SHAPES = 4_096


class ToolShape:
    """What an agent's calls of a tool have in common if one rule simply allows them.

    Attributes:
        name: Name of the span.
        attributes: Start attributes of the span, including the verdict's; must not change.
        time: Counts calls that did not fail, and their time; None until one has ended.
        allows: Counts the verdict; None for calls without a decision, or with a less plain one.
    """

    __slots__ = ("allows", "attributes", "name", "time")

    def __init__(self, name: str, attributes: dict[str, Any], allows: Cell | None) -> None:
        self.name: str = name
        self.attributes: dict[str, Any] = attributes
        self.allows: Cell | None = allows
        self.time: Timing | None = None


class ModelShape:
    """What the calls of a model by an agent have in common.

    Args:
        name: Name of the span.
        attributes: Start attributes of the span; must not change.
        counted: Attributes of its metrics.
        instruments: Where counts go.

    Attributes:
        duration: Duration of calls that did not fail.
        counts: Counters of their tokens and cost, by metric.
    """

    __slots__ = ("attributes", "counts", "duration", "name")

    def __init__(
        self,
        name: str,
        attributes: dict[str, Any],
        counted: dict[str, str],
        instruments: Instruments,
    ) -> None:
        self.name: str = name
        self.attributes: dict[str, Any] = attributes
        durations = instruments.histogram(semconv.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION)
        self.duration: HistogramCell = durations.cell(counted)
        self.counts: dict[str, Cell] = _CountCells(counted, instruments)


class _CountCells(dict[str, "Cell"]):
    """The cells of what a model's calls use, by metric; what never came has none."""

    def __init__(self, counted: dict[str, str], instruments: Instruments) -> None:
        super().__init__()
        self._counted = counted
        self._instruments = instruments

    def __missing__(self, metric: str) -> Cell:
        cell = self[metric] = self._instruments.counter(metric).cell(self._counted)
        return cell


class Shapes:
    """The shapes of one runtime.

    Args:
        instruments: Where counts go.
        verdicts: Reports verdicts.
    """

    def __init__(self, instruments: Instruments, verdicts: Verdicts) -> None:
        self._instruments = instruments
        self._verdicts = verdicts
        self._tools: dict[tuple[Any, ...], ToolShape] = {}
        self._metrics: dict[tuple[str | None, ...], dict[str, str]] = {}
        self._models: dict[tuple[str, str, str, str, str], ModelShape] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no operation has been recorded so far."""
        return not (self._tools or self._metrics or self._models)

    def tool(self, call: Call, agent: str, branch: str, allowed: Verdict | None) -> ToolShape:
        """Return the shape of a tool's calls.

        Args:
            call: Any of them.
            agent: The calling agent.
            branch: Path of agents.
            allowed: The plain allow that they get; None if the verdict is reported otherwise.
        """
        decided = None
        if allowed is not None:
            decided = allowed.rule_id, allowed.policy_id, allowed.severity
        key = (
            call.name,
            agent,
            branch,
            call.tool_type,
            call.is_known,
            call.server,
            call.canonical,
            call.kind,
            decided,
        )
        shape = self._tools.get(key)
        if shape is None:
            shape = self._tool(call, agent, branch, allowed)
            if len(self._tools) < _MAX_SHAPES:
                self._tools[key] = shape
        return shape

    def _tool(self, call: Call, agent: str, branch: str, allowed: Verdict | None) -> ToolShape:
        attributes: dict[str, Any] = {
            semconv.GEN_AI_OPERATION_NAME: semconv.OP_EXECUTE_TOOL,
            semconv.GEN_AI_TOOL_NAME: call.name,
            semconv.GEN_AI_TOOL_TYPE: call.tool_type,
        }
        if agent:
            attributes[semconv.GEN_AI_AGENT_NAME] = agent
        if branch not in ("", agent):
            attributes[semconv.AGENT_BRANCH] = branch
        # What rules match besides the name: with it a recorded call can be judged again.
        if call.server:
            attributes[semconv.TOOL_SERVER] = call.server
        if call.canonical:
            attributes[semconv.TOOL_CANONICAL] = call.canonical
        if call.kind:
            attributes[semconv.TOOL_KIND] = call.kind
        allows = None
        if allowed is not None:
            attributes.update(self._verdicts.attributes(allowed))
            counted = call.name if call.is_known else semconv.TOOL_NAME_OTHER
            allows = self._verdicts.allows(allowed, counted, agent)
        return ToolShape(
            encodable(f"{semconv.OP_EXECUTE_TOOL} {call.name}"), encodable(attributes), allows
        )

    def tool_time(self, call: Call, agent: str, failure: str | None) -> Timing:
        """Return the counters of a tool's calls and their time."""
        attributes, instruments = self.tool_duration(call, agent, failure), self._instruments
        return Timing(
            instruments.tool_calls.cell(attributes), instruments.tool_time.cell(attributes)
        )

    def tool_duration(self, call: Call, agent: str, failure: str | None) -> dict[str, str]:
        """Return the attributes of a tool's duration; must not change."""
        name = call.name if call.is_known else semconv.TOOL_NAME_OTHER
        return self._metric(
            semconv.OP_EXECUTE_TOOL,
            (semconv.GEN_AI_TOOL_NAME, name),
            (semconv.GEN_AI_TOOL_TYPE, call.tool_type),
            (semconv.GEN_AI_AGENT_NAME, agent),
            (semconv.ERROR_TYPE, failure),
        )

    def model(
        self, operation: str, provider: str, model: str, agent: str, branch: str
    ) -> ModelShape:
        """Return the shape of a model's calls."""
        key = (operation, provider, model, agent, branch)
        shape = self._models.get(key)
        if shape is None:
            attributes: dict[str, Any] = {
                semconv.GEN_AI_OPERATION_NAME: operation,
                semconv.GEN_AI_PROVIDER_NAME: provider,
            }
            if model:
                attributes[semconv.GEN_AI_REQUEST_MODEL] = model
            if agent:
                attributes[semconv.GEN_AI_AGENT_NAME] = agent
            if branch not in ("", agent):
                attributes[semconv.AGENT_BRANCH] = branch
            counted = self.model_duration(operation, provider, model, None)
            name = f"{operation} {model}".rstrip()
            shape = ModelShape(encodable(name), encodable(attributes), counted, self._instruments)
            if len(self._models) < _MAX_SHAPES:
                self._models[key] = shape
        return shape

    def model_duration(
        self, operation: str, provider: str, model: str, failure: str | None
    ) -> dict[str, str]:
        """Return the attributes of a model call's metrics; must not change."""
        return self._metric(
            operation,
            (semconv.GEN_AI_PROVIDER_NAME, provider),
            (semconv.GEN_AI_REQUEST_MODEL, model),
            (semconv.ERROR_TYPE, failure),
        )

    def run_duration(self, operation: str, agent: str, failure: str | None) -> dict[str, str]:
        """Return the attributes of a run's duration; must not change."""
        is_workflow = operation == semconv.OP_INVOKE_WORKFLOW
        name = semconv.GEN_AI_WORKFLOW_NAME if is_workflow else semconv.GEN_AI_AGENT_NAME
        return self._metric(operation, (name, agent), (semconv.ERROR_TYPE, failure))

    def _metric(self, operation: str, *optional: tuple[str, str | None]) -> dict[str, str]:
        key = (operation, *(value for _, value in optional))
        attributes = self._metrics.get(key)
        if attributes is None:
            attributes = {semconv.GEN_AI_OPERATION_NAME: operation}
            attributes.update((name, value) for name, value in optional if value)
            if len(self._metrics) < _MAX_SHAPES:
                self._metrics[key] = attributes
        return attributes
