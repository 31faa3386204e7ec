"""Runs of sub-agents: begun where their start is asked for, ended where the harness says so.

One call may start several agents, and goes on at once; each then works in a trajectory of its own.
What the harness shows of a new trajectory is matched with the agents that were to start.
"""
# pyright: basic

from __future__ import annotations

from typing import Any

from otelhooks.errors import Denied
from otelhooks.frameworks.google_antigravity.state import (
    FRAMEWORK,
    Connected,
    SubRun,
    inside,
)
from otelhooks.pipeline.agent_run import RunRequest, RunSeat, agent_run
from otelhooks.pipeline.drivers import Closed, Split
from otelhooks.pipeline.runtime import Runtime

__all__ = ["begin_agents", "end_agent", "end_agents", "meet_agent"]

_UNNAMED = "subagent"
_DEFAULT_TYPE = "self"


class _SubRunSeat(RunSeat):
    """A sub-agent's run; its result is what it said last, or the reason of a refusal."""

    framework = FRAMEWORK

    def refused(self, request: RunRequest, reason: str) -> Any:
        return reason


_SEAT = _SubRunSeat()


async def begin_agents(
    rt: Runtime, state: Connected, call: Split, args: dict[str, Any], trajectory: str
) -> str | None:
    """Begin the runs of all agents that an approved call starts; return why one may not, or None.

    Args:
        rt: The active runtime.
        state: Of the connection.
        call: The operation of the call.
        args: As approved.
        trajectory: Of the agent that makes it.
    """
    begun: list[SubRun] = []
    for entry in args.get("Subagents") or ():
        given = entry if isinstance(entry, dict) else {}
        task = str(given.get("Prompt") or "")
        request = RunRequest(str(given.get("TypeName") or _DEFAULT_TYPE), task)
        with inside(call.context):
            split = await Split(agent_run(rt, _SEAT, request)).abegin()
        if not split.proceeds:
            for run in begun:
                await _close(run)
            return _refusal(split)
        begun.append(SubRun(split, split.context or state.outside, trajectory, task))
    state.starting += begun
    return None


def _refusal(split: Split) -> str:
    try:
        return str(split.finish(None))
    except Denied as refusal:
        return refusal.reason


async def meet_agent(
    rt: Runtime, state: Connected, trajectory: str, parent: str, shown: str = ""
) -> None:
    """Tell whose trajectory has begun; begin a run of its own for what no call has announced."""
    if not parent or trajectory == state.conversation or trajectory in state.agents:
        return
    if state.turn is None:
        return
    if state.bind(trajectory, parent, shown) is not None:
        return
    if any(run.parent == parent for run in state.starting):
        return  # its first step tells which it is
    starters = [p for p in state.calls.values() if p.trajectory == parent and not p.is_python]
    outer = starters[-1].split.context if starters else state.context_of(parent)
    with inside(outer):
        split = await Split(agent_run(rt, _SEAT, RunRequest(_UNNAMED, shown))).abegin()
    run = SubRun(split, split.context or outer or state.outside, parent, "")
    run.trajectory = trajectory
    state.agents[trajectory] = run
    if not split.proceeds:
        run.refusal = _refusal(split)


async def end_agent(state: Connected, trajectory: str) -> None:
    """End the run of an agent that has nothing more to do."""
    run = state.agents.get(trajectory)
    if run is not None and run.split.proceeds:
        with inside(run.context):
            await run.split.afinish(run.text)


async def end_agents(state: Connected) -> None:
    """End what is left of sub-agents, with their turn."""
    left, state.starting = [*state.starting, *state.agents.values()], []
    for run in left:
        await _close(run)
    state.agents.clear()


async def _close(run: SubRun) -> None:
    if run.split.proceeds:
        with inside(run.context):
            await run.split.afinish(Closed(run.text))
