# pyright: basic
"""Runs of a runner, and of the agents inside them."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.google_adk.models import content_of, parts_of, types
from otelhooks.frameworks.google_adk.tools import failure_in

__all__ = ["AgentRun", "LiveRun", "SubAgent", "in_context"]

_AGENT = "google.adk.agents.base_agent:BaseAgent"


class _Run(kit.Run):
    """What all runs share: their consumers read events."""

    def answer_of(self, raw: Any) -> Any:
        """Return the text of the last event that has one and is final."""
        found = next(reversed(_answers(raw)), None)
        return None if found is None else _text(found.content)

    def with_answer(self, raw: Any, answer: Any) -> Any:
        """Return the events with another answer, and without pieces of the first."""
        last = next(reversed(_answers(raw)), None)
        if last is None:
            return [*raw, self.event(str(answer))]
        changed = last.model_copy(update={"content": content_of(str(answer))})
        return [changed if each is last else each for each in raw if not each.partial]

    def event(self, text: str, **fields: Any) -> Any:
        """Return an event with a text of the agent."""
        fields = {"author": self.agent, "content": content_of(text), **fields}
        return kit.native("google.adk.events.event:Event")(**fields)

    def is_paused(self, raw: Any) -> bool:
        """Return whether the run waits for a confirmation, or for a tool that takes long."""
        open_calls: set[str] = set()
        for event in raw:
            open_calls |= event.long_running_tool_ids or set()
            open_calls -= {part.function_response.id for part in _results(event)}
        return bool(open_calls)


class AgentRun(_Run):
    """A run of ``Runner.run_async``; all ways to start an agent come here."""

    can_go_on = True

    def read(self, runner: Any, **options: Any) -> None:
        """Read it; a message without a text of its own continues an earlier run."""
        self.runner, self.options = runner, options
        self.agent, self.is_measured = runner.agent.name, kit.is_a(runner.agent, _AGENT)
        self.belongs_to(options.get("session_id"))
        message = options.get("new_message")
        self.prompt = _text(message) if message is not None else None
        results = [] if message is None else _results(message)
        self.is_resumed = not self.prompt and (message is None or bool(results))
        if results:
            self.user_said = None

    def call(self, wrapped: Any) -> Any:
        """Run it with what hooks wrote."""
        if self.canned is not None:
            return self.answering(self.canned)
        options = dict(self.options)
        if self.is_rewritten:
            options["new_message"] = _written(options["new_message"], str(self.prompt))
        return wrapped(**options)

    async def answering(self, text: str) -> Any:
        """Answer with a text, which becomes part of the framework's session as well."""
        service, ids = self.runner.session_service, ("user_id", "session_id")
        keys = {name: self.options[name] for name in ids}
        session = await service.get_session(app_name=self.runner.app_name, **keys)
        answer = self.event(text)
        if session is not None:
            said = {"author": "user", "content": self.options.get("new_message")}
            for event in (self.event("", **said), answer):
                await service.append_event(session=session, event=event)
        yield answer

    def continued(self, raw: Any, reason: str) -> Any:
        """Return the run that continues with a stop hook's message."""
        further = type(self)()
        message = content_of(reason, "user")
        further.read(self.runner, **{**self.options, "new_message": message})
        further.session = self.session
        return further

    def answered_itself(self, raw: Any) -> Iterable[str]:
        """Return ids of calls whose result is an error, such as those of unknown tools."""
        for event in raw:
            for part in _results(event):
                if failure_in(part.function_response.response) is not None:
                    yield part.function_response.id or ""


class LiveRun(AgentRun):
    """A live run: it has no message of its own, and ends when its consumer leaves."""

    can_go_on = False

    def read(self, runner: Any, **options: Any) -> None:
        """Read ``Runner.run_live``."""
        session = options.get("session")
        ids = {"user_id": getattr(session, "user_id", ""), "session_id": ""}
        ids["session_id"] = getattr(session, "id", "")
        given = {name: one for name, one in options.items() if one is not None}
        super().read(runner, **{**ids, **given})
        self.given, self.source, self.prompt, self.is_resumed = options, "trigger", "", False

    def call(self, wrapped: Any) -> Any:
        """Run it."""
        return wrapped(**self.given) if self.canned is None else self.answering(self.canned)

    def holds(self) -> bool:
        """Return False: its consumer cannot wait for its end."""
        return False

    def answer_of(self, raw: Any) -> Any:
        """Return None: it has many answers."""
        return None


class SubAgent(_Run):
    """An agent that another one transfers to, or that a workflow of agents runs."""

    is_measured = True

    def read(self, agent: Any, parent_context: Any) -> Any:
        """Read ``BaseAgent.run_async``; the first agent of a run is the run itself."""
        parent = getattr(parent_context, "agent", None)
        if self.is_outermost() or parent is None or parent.name == agent.name:
            return kit.SKIP
        self.agent, self.invocation = agent.name, parent_context
        content = parent_context.user_content
        self.prompt = _text(content) if content is not None else ""
        return None

    def call(self, wrapped: Any) -> Any:
        """Run it."""
        return wrapped(self.invocation)

    def denied(self, reason: str) -> Any:
        """Return the reason as the agent's answer."""
        context = self.invocation
        return [self.event(reason, invocation_id=context.invocation_id, branch=context.branch)]


def in_context(wrapped: Any, owner: Any, /, target: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the thread of a `Runner.run` in its caller's context, as newer releases do."""
    return wrapped(contextvars.copy_context().run, target, *args, **kwargs)


def _text(content: Any) -> str:
    return "".join(part.text for part in parts_of(content) if part.text and not part.thought)


def _written(message: Any, text: str) -> Any:
    """Return a message with another text, and all else that it has."""
    rest = [part for part in parts_of(message) if part.text is None]
    return types.Content(role="user", parts=[types.Part(text=text), *rest])


def _results(event: Any) -> list[Any]:
    return [part for part in parts_of(event) if part.function_response is not None]


def _answers(events: Any) -> list[Any]:
    return [each for each in events if each.is_final_response() and _text(each.content)]
