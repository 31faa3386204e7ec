"""Many sessions at once: ``python -m tests.fleet.sessions FRAMEWORK SESSIONS AUDIT``.

Each session is one turn of `tests.e2e.agents`: with a sub-agent, denies, questions and rewrites.
All of a process run at the same time, in one event loop, and its tools in worker threads.
"""

from __future__ import annotations

import asyncio
import logging
import sys

import otelhooks
from otelhooks.demo import story
from tests.e2e import agents


async def at_once(framework: str, sessions: int) -> None:
    """Run the sessions, all started before the first has ended."""
    turn = getattr(agents, f"run_{framework}")
    await asyncio.gather(*(turn() for _ in range(sessions)))


def main() -> None:
    """Run the sessions, then let everything that is queued go out."""
    framework, sessions, audit = sys.argv[1:]
    logging.disable(logging.CRITICAL)  # failing tools are part of the turns
    otelhooks.instrument(
        policies=story.policies(), hooks=[*story.HOOKS], approvals=story.approver, audit=audit
    )
    asyncio.run(at_once(framework, int(sessions)))
    otelhooks.uninstrument()


if __name__ == "__main__":
    main()
