"""Hooks as a bundle of functions, the way of an agent library in Go."""

from __future__ import annotations

import json
from typing import Any

from otelhooks import hooks, types
from tests.examples.calls import CALM, LIST, MESSAGE, RATE, RESEARCH, VIEW
from tests.examples.example import Ask, Example
from tests.examples.sse import Browser, Feed
from tests.examples.stage import Actor, World

MODIFY, DENY = types.HookAction.MODIFY, types.HookAction.DENY
SCRAPE = Ask("scraper", {"task": "look"})


def denied(reason: str) -> types.HookResult:
    return types.HookResult(action=DENY, message=reason)


def modified(**fields: Any) -> types.HookResult:
    return types.HookResult(action=MODIFY, **fields)


class ToolUseIsLogged(Example):
    """One function sees each call, and the branch that makes it."""

    says = ((VIEW,), "Done.")
    ran = (VIEW,)
    needs = ("turn",)
    noted = (("tool", "view_file on ops"),)
    trace = CALM

    def settings(self) -> dict[str, Any]:
        def log(call: types.ToolCall) -> None:
            self.note("tool", f"{call.name} on {call.branch}")

        return {"hooks": [hooks.Hooks(pre_tool_use=log)]}


class ToolIsDenied(Example):
    """The model gets the reason as the tool's error."""

    says = ((VIEW,), (LIST,), "Done.")
    ran = (VIEW,)
    told = ("this tool is not allowed",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
          execute_tool run_command: deny guard "this tool is not allowed"
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        def guard(call: types.ToolCall) -> types.HookResult | None:
            return denied("this tool is not allowed") if call.name == "run_command" else None

        return {"hooks": [hooks.Hooks(pre_tool_use=guard)]}


class InputIsRedacted(Example):
    """What a tool must not see is taken out of its input, as JSON text."""

    tools = ("send_message",)
    says = ((MESSAGE,), "Done.")
    ran = (Ask("send_message", {"to": "ada", "text": "the key is [REDACTED]"}),)
    told = ("sent to ada",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool send_message: modify redact
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        def redact(call: types.ToolCall) -> types.HookResult:
            return modified(input=json.dumps(call.args).replace("SECRET", "[REDACTED]"))

        return {"hooks": [hooks.Hooks(pre_tool_use=redact)]}


class OutputIsModified(Example):
    """What a tool returned is rewritten before the model sees it."""

    says = ((VIEW,), "Done.")
    ran = (VIEW,)
    told = ("the key [key]",)
    never_told = ("sk-4711",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: modify mask
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        def mask(result: types.ToolResult) -> types.HookResult:
            return modified(output=str(result.result).replace("sk-4711", "[key]"))

        return {"hooks": [hooks.Hooks(post_tool_use=mask)]}


class MessageIsInjected(Example):
    """The model is reminded of something in each call."""

    says = ("Done.",)
    needs = ("messages",)
    told = ("Please begin.", "Remember: answer in JSON.")
    trace = """
        invoke_agent ops
          chat scripted: modify remind
    """

    def settings(self) -> dict[str, Any]:
        def remind(call: types.ModelCall) -> types.HookResult:
            extra = {"role": "user", "content": "Remember: answer in JSON."}
            return modified(messages=[*call.messages, extra], tools=call.tools)

        return {"hooks": [hooks.Hooks(pre_model_call=remind)]}


class ModelAnswerIsModified(Example):
    """A model's text is rewritten before anything sees it."""

    says = ("The key is sk-4711.",)
    answers = ("The key is [key].",)
    needs = ("model",)
    trace = """
        invoke_agent ops
          chat scripted: modify mask
    """

    def settings(self) -> dict[str, Any]:
        def mask(answer: types.ModelResponse) -> types.HookResult:
            return modified(response=answer.text.replace("sk-4711", "[key]"))

        return {"hooks": [hooks.Hooks(post_model_call=mask)]}


class ToolErrorIsRecovered(Example):
    """The first recovery wins; hooks after the call see a result, and no error."""

    tools = ("fetch_rate",)
    says = ((RATE,), "Done.")
    ran = (RATE,)
    told = ("cached data",)
    noted = (("tool", "after: cached data, error None"),)
    needs = ("failing tool",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool fetch_rate: recovered [RateError]
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        def recover(context: hooks.HookContext, error: Exception) -> types.HookResult | None:
            if context.get("tool_name") == "fetch_rate":
                return modified(output="cached data")
            return None

        def too_late(error: Exception) -> types.HookResult:
            return modified(output="never used")

        def after(result: types.ToolResult) -> None:
            self.note("tool", f"after: {result.result}, error {result.error}")

        return {
            "hooks": [
                hooks.Hooks(on_tool_error=recover, post_tool_use=after),
                hooks.Hooks(on_tool_error=too_late),
            ]
        }


class ModelErrorIsRecovered(Example):
    """A model that fails is answered for."""

    says = (ConnectionError("overloaded"),)
    answers = ("Temporarily unavailable, try again.",)
    needs = ("model",)
    trace = """
        invoke_agent ops
          chat scripted: recovered [ConnectionError]
    """

    def settings(self) -> dict[str, Any]:
        def recover(error: Exception) -> types.HookResult:
            return modified(response="Temporarily unavailable, try again.")

        return {"hooks": [hooks.Hooks(on_model_error=recover)]}


class CachedAnswer(Example):
    """A known question is answered without the agent, another one by it."""

    prompts = ("known", "unknown")
    says = ("From the model.",)
    answers = ("From the cache.", "From the model.")
    needs = ("turn",)
    trace = """
        invoke_agent ops: modify look_up answered
        invoke_agent ops
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        cache = {"known": "From the cache."}

        def look_up(call: types.AgentCall) -> types.HookResult | None:
            found = cache.get(str(call.input))
            return None if found is None else modified(response=found)

        return {"hooks": [hooks.Hooks(before_agent=look_up)]}


class AgentIsDenied(Example):
    """An agent that may not run answers with the reason."""

    says = ()
    answers = ("Not before nine.",)
    needs = ("turn",)
    trace = """
        invoke_agent ops: deny <lambda> "Not before nine."
    """

    def settings(self) -> dict[str, Any]:
        return {"hooks": [hooks.Hooks(before_agent=lambda call: denied("Not before nine."))]}


class AnswerIsSanitised(Example):
    """What the agent says is rewritten before the caller gets it."""

    says = ("The key is sk-4711.",)
    answers = ("The key is [key].",)
    needs = ("turn",)
    trace = """
        invoke_agent ops: modify sanitise
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        def sanitise(answer: Any) -> types.HookResult:
            return modified(response=str(answer).replace("sk-4711", "[key]"))

        return {"hooks": [hooks.Hooks(after_agent=sanitise)]}


class RunsAreTimed(Example):
    """Two observers see a run begin and end, with its time, its answer or its error."""

    prompts = ("one", "two")
    says = ("Done.", ConnectionError("overloaded"))
    answers = ("Done.", ConnectionError)
    needs = ("turn", "failing model")
    noted = (
        ("turn", "starts"),
        ("turn", "answers Done., timed: True"),
        ("turn", "starts"),
        ("turn", "fails with ConnectionError, timed: True"),
    )
    trace = """
        invoke_agent ops
          chat scripted
        invoke_agent ops: [ConnectionError]
          chat scripted: [ConnectionError]
    """

    def settings(self) -> dict[str, Any]:
        def before(run: types.RunInfo) -> None:
            self.note("turn", "starts")

        def after(run: types.RunInfo) -> None:
            failed = run.error is not None
            end = f"fails with {type(run.error).__name__}" if failed else f"answers {run.response}"
            self.note("turn", f"{end}, timed: {run.duration > 0}")

        return {"hooks": [hooks.Hooks(before_run=before, after_run=after)]}


class UserMessageIsChecked(Example):
    """A message with personal data is refused, another one tidied up."""

    prompts = ("  what now?  ", "my number is 078-05-1120")
    says = ("Done.",)
    answers = ("Done.", "message contains PII")
    needs = ("turn",)
    told = ("what now?",)
    never_told = ("  what now?", "078")
    trace = """
        invoke_agent ops: modify check
          chat scripted
        invoke_agent ops: deny check "message contains PII"
    """

    def settings(self) -> dict[str, Any]:
        def check(message: Any) -> types.HookResult:
            if "078-" in str(message):
                return denied("message contains PII")
            return modified(input=str(message).strip())

        return {"hooks": [hooks.Hooks(on_user_message=check)]}


class EventsOnce(Example):
    """A listener hears once of each point, however many hooks there are."""

    says = ((VIEW,), "Done.")
    ran = (VIEW,)
    noted = (("tool", "pre_tool_use view_file"), ("tool", "post_tool_use view_file"))
    trace = CALM

    def settings(self) -> dict[str, Any]:
        def listen(event: types.HookEvent) -> None:
            if event.tool_name:
                self.note("tool", f"{event.type} {event.tool_name}")

        several = [
            hooks.Hooks(pre_tool_use=lambda call: None, post_tool_use=lambda result: None)
            for _ in range(3)
        ]
        return {"hooks": [*several, hooks.Hooks(on_event=listen)]}


class DenyWinsAtOnce(Example):
    """After a deny no further hook is asked; a change before it is gone with it."""

    says = ((LIST,), "Done.")
    told = ("second says no",)
    noted = (("tool", "first"), ("tool", "second sees ls -l"))
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command: deny second "second says no"
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        def first(call: types.ToolCall) -> types.HookResult:
            self.note("tool", "first")
            return modified(input={"CommandLine": "ls -l"})

        def second(call: types.ToolCall) -> types.HookResult:
            self.note("tool", f"second sees {call.args['CommandLine']}")
            return denied("second says no")

        def third(call: types.ToolCall) -> None:
            self.note("tool", "third")

        return {"hooks": [hooks.Hooks(pre_tool_use=each) for each in (first, second, third)]}


class LastModificationWins(Example):
    """Of several that modify, the last one's value runs."""

    says = ((LIST,), "Done.")
    ran = (Ask("run_command", {"CommandLine": "ls -a"}),)
    told = ("ran: ls -a",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command: modify <lambda>
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        def to(command: str) -> hooks.Hooks:
            return hooks.Hooks(pre_tool_use=lambda call: modified(input={"CommandLine": command}))

        return {"hooks": [to("ls -l"), to("ls -a")]}


class Branches(Example):
    """An event says which agent of a hierarchy it comes from."""

    says = ((RESEARCH,), "Done.")
    ran = (VIEW,)
    needs = ("delegate",)
    noted = (
        ("tool", "before_agent ops"),
        ("tool", "subagent_start ops/researcher"),
        ("tool", "before_agent ops/researcher"),
        ("tool", "subagent_start ops/researcher/scraper"),
        ("tool", "before_agent ops/researcher/scraper"),
        ("tool", "pre_tool_use ops/researcher/scraper"),
        ("tool", "after_agent ops/researcher/scraper"),
        ("tool", "subagent_stop ops/researcher/scraper"),
        ("tool", "after_agent ops/researcher"),
        ("tool", "subagent_stop ops/researcher"),
        ("tool", "after_agent ops"),
    )
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool researcher
            invoke_agent researcher
              chat scripted
              execute_tool scraper
                invoke_agent scraper
                  chat scripted
                  execute_tool view_file
                  chat scripted
              chat scripted
          chat scripted
    """

    def crew(self) -> Actor:
        scraper = Actor("scraper", World((VIEW,), "Looked."), self.bodies("view_file"))
        researcher = Actor("researcher", World((SCRAPE,), "Found."), (), (scraper,))
        return Actor("ops", self.script, (), (researcher,))

    def settings(self) -> dict[str, Any]:
        def listen(event: types.HookEvent) -> None:
            if event.type.endswith("agent") or event.type.startswith("subagent"):
                self.note("tool", f"{event.type} {event.branch}")
            if event.type == "pre_tool_use" and event.tool_name == "view_file":
                self.note("tool", f"{event.type} {event.branch}")

        return {"hooks": [hooks.observing_hooks(listen)]}


class SubagentsInherit(Example):
    """The hooks of the one that starts an agent hold for that one too; two more observe it."""

    says = ((RESEARCH,), "Done.")
    needs = ("delegate",)
    noted = (
        ("tool", "researcher starts for find out"),
        ("tool", "guards run_command"),
        ("tool", "researcher stops with Found."),
    )
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool researcher
            invoke_agent researcher
              chat scripted
              execute_tool run_command: deny guard "inherited"
              chat scripted
          chat scripted
    """

    def crew(self) -> Actor:
        return self.with_researcher((LIST,), "Found.", tools=["run_command"])

    def settings(self) -> dict[str, Any]:
        def guard(call: types.ToolCall) -> types.HookResult | None:
            if call.name != "run_command":
                return None
            self.note("tool", f"guards {call.name}")
            return denied("inherited")

        def start(info: types.SubagentInfo) -> None:
            self.note("tool", f"{info.agent} starts for {info.task}")

        def stop(info: types.SubagentInfo) -> None:
            self.note("tool", f"{info.agent} stops with {info.response}")

        bundle = hooks.Hooks(pre_tool_use=guard, on_subagent_start=start, on_subagent_stop=stop)
        return {"hooks": [bundle]}

    def finish(self) -> None:
        assert "inherited" in self.inner.told


class ObservedStory(Example):
    """One callback hears of everything, in order, with what it was about."""

    tools = ("view_file", "run_command", "fetch_rate")
    says = ((VIEW,), (LIST,), (RATE,), "Done.")
    ran = (VIEW, RATE)
    told = ("Not today.",)
    noted = (
        ("session", "session_start"),
        ("turn", "before_run ops"),
        ("turn", "user_message ops"),
        ("turn", "before_agent ops"),
        ("model", "pre_model_call ops"),
        ("model", "post_model_call ops"),
        ("tool", "pre_tool_use view_file"),
        ("tool", "post_tool_use view_file"),
        ("model", "pre_model_call ops"),
        ("model", "post_model_call ops"),
        ("tool", "pre_tool_use run_command"),
        ("model", "pre_model_call ops"),
        ("model", "post_model_call ops"),
        ("tool", "pre_tool_use fetch_rate"),
        ("tool", "tool_error fetch_rate"),
        ("tool", "post_tool_use fetch_rate"),
        ("model", "pre_model_call ops"),
        ("model", "post_model_call ops"),
        ("turn", "stop ops"),
        ("turn", "after_agent ops"),
        ("turn", "post_turn ops"),
        ("turn", "after_run ops"),
        ("session", "session_end"),
    )
    needs = ("failing tool",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
          execute_tool run_command: deny guard "Not today."
          chat scripted
          execute_tool fetch_rate: [RateError]
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        def guard(call: types.ToolCall) -> types.HookResult | None:
            return denied("Not today.") if call.name == "run_command" else None

        def listen(event: types.HookEvent) -> None:
            self.note(
                layer_of(event), f"{event.type} {event.tool_name or event.agent_name}".strip()
            )

        return {"hooks": [hooks.Hooks(pre_tool_use=guard), hooks.observing_hooks(listen)]}


class StreamToUi(Example):
    """What happens is streamed to a browser while it happens, denies and failures included."""

    tools = ("view_file", "run_command", "fetch_rate")
    says = ((VIEW,), (LIST,), (RATE,), "Done.")
    ran = (VIEW, RATE)
    noted = (("tool", "the browser knows: True"),) * 2
    needs = ("failing tool",)
    trace = ObservedStory.trace
    feed: Feed
    browser: Browser

    def settings(self) -> dict[str, Any]:
        self.feed = Feed()
        self.browser = Browser(self.feed.url)

        def guard(call: types.ToolCall) -> types.HookResult | None:
            return denied("Not today.") if call.name == "run_command" else None

        def wait(result: types.ToolResult) -> None:
            """Let the run go on only when the browser has heard that the tool was called."""
            self.note("tool", f"the browser knows: {self.browser.has_seen('pre_tool_use')}")

        def stream(event: types.HookEvent) -> None:
            self.feed.send(event.model_dump_json())

        bundle = hooks.Hooks(pre_tool_use=guard, post_tool_use=wait)
        return {"hooks": [bundle, hooks.observing_hooks(stream)]}

    def finish(self) -> None:
        self.feed.close()
        events = [event for event in self.browser.read() if event["tool_name"]]
        seen = [
            (event["type"], event["tool_name"], event["decision"], event["is_error"])
            for event in events
        ]
        assert seen == [
            ("pre_tool_use", "view_file", "allow", False),
            ("post_tool_use", "view_file", "allow", False),
            ("pre_tool_use", "run_command", "deny", False),
            ("pre_tool_use", "fetch_rate", "allow", False),
            ("tool_error", "fetch_rate", None, True),
            ("post_tool_use", "fetch_rate", "allow", True),
        ]
        assert events[2]["reason"] == "Not today."
        assert events[0]["tool_call_id"] == events[1]["tool_call_id"]
        after = [event for event in events if event["type"] == "post_tool_use"]
        assert all(event["duration"] > 0 for event in after)


def layer_of(event: types.HookEvent) -> str:
    """Return the layer that an event belongs to."""
    if event.tool_name or event.type in ("subagent_start", "subagent_stop"):
        return "tool"
    if "model" in event.type:
        return "model"
    return "session" if event.type.startswith("session") else "turn"
