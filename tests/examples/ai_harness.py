"""Hooks as AI Harness has them: Markdown files with a script in Starlark."""

# ruff: noqa: E501  # traces are shown as they are

from __future__ import annotations

import textwrap
from typing import Any

from otelhooks import audit
from tests.examples.calls import LIST, REMOVE, RESEARCH, VIEW
from tests.examples.example import Ask, Example
from tests.examples.stage import Actor

FORMAT = Ask("run_command", {"CommandLine": "mkfs /dev/sda"})
SECRETS = Ask("view_file", {"path": "/etc/shadow"})
OWN_RULES = Ask("run_command", {"CommandLine": "echo x > .harness/hooks/a.md"})


class _Files(Example):
    """An example whose hooks are files: front matter, and the lines of `handle`."""

    def write(
        self, name: str, event: str, body: str, *, priority: int = 100, when: str = ""
    ) -> None:
        """Write a file."""
        lines = [f"event: {event}", f"priority: {priority}"]
        lines += [f"when: {when}"] if when else []
        lines += ["script: |", "  def handle(event, payload):"]
        lines += textwrap.indent(textwrap.dedent(body).strip(), " " * 6).splitlines()
        folder = self.folder / ".harness" / "hooks"
        folder.mkdir(parents=True, exist_ok=True)
        text = "\n".join(["---", *lines, "---", f"# {name}", "", "What it is for.", ""])
        (folder / f"{name}.md").write_text(text)

    def settings(self) -> dict[str, Any]:
        self.files()
        return {"policies": [self.folder / ".harness" / "hooks"]}

    def files(self) -> None:
        """Write all files."""
        raise NotImplementedError


GUARD = """
    command = payload["args"].get("CommandLine", "")
    for pattern in ["rm -r", "mkfs", "dd if=", "shutdown"]:
        if pattern in command:
            metrics.incr("guard.denied")
            return block("dangerous command pattern blocked: '" + pattern + "'")
    return allow()
"""


class CommandGuard(_Files):
    """A file that looks at the commands of one tool, and blocks those that destroy."""

    says = ((VIEW,), (LIST,), (FORMAT,), "Done.")
    ran = (VIEW, LIST)
    told = (
        "sk-4711",
        "ran: ls",
        "blocked by hook \"command_guard\": dangerous command pattern blocked: 'mkfs'",
    )
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
          execute_tool run_command
          chat scripted
          execute_tool run_command: deny command_guard "blocked by hook "command_guard": dangerous command pattern blocked: 'mkfs'"
          chat scripted
    """

    def files(self) -> None:
        gate = '\'payload["name"] == "run_command"\''
        self.write("command_guard", "tool.pre", GUARD, priority=10, when=gate)


class CommandGuardOverDelegates(_Files):
    """No agent that another one starts gets round a file."""

    says = ((RESEARCH,), "Done.")
    needs = ("delegate",)
    told = ("Found.",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool researcher
            invoke_agent researcher
              chat scripted
              execute_tool run_command: deny command_guard "blocked by hook "command_guard": dangerous command pattern blocked: 'mkfs'"
              chat scripted
          chat scripted
    """

    def crew(self) -> Actor:
        return self.with_researcher((FORMAT,), "Found.", tools=["run_command"])

    def files(self) -> None:
        self.write("command_guard", "tool.pre", GUARD)

    def finish(self) -> None:
        assert "dangerous command pattern blocked" in self.inner.told


class Decisions(_Files):
    """Allow passes on, modify rewrites for those after it and for the tool, block ends it."""

    says = ((VIEW,), (LIST,), (REMOVE,), "Done.")
    ran = (VIEW, Ask("run_command", {"CommandLine": "ls -l"}))
    told = (
        "sk-4711",
        "ran: ls -l",
        'blocked by hook "only_listing": only ls, asked for: rm -r build',
    )
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
          execute_tool run_command: modify long_form
          chat scripted
          execute_tool run_command: deny only_listing "blocked by hook "only_listing": only ls, asked for: rm -r build"
          chat scripted
    """

    def files(self) -> None:
        self.write(
            "long_form",
            "tool.pre",
            """
            command = payload["args"].get("CommandLine", "")
            if command == "ls":
                return modify({"args": {"CommandLine": "ls -l"}})
            return allow()
            """,
            priority=1,
        )
        self.write(
            "only_listing",
            "tool.pre",
            """
            command = payload["args"].get("CommandLine", "ls -l")
            if command != "ls -l":
                return block("only ls, asked for: " + command)
            return allow()
            """,
            priority=2,
        )


class OrderOfPriorities(_Files):
    """Low numbers first; the first block ends the chain, and a later file cannot undo it."""

    says = ((LIST,), "Done.")
    told = ('blocked by hook "z_first": not today',)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command: deny z_first "blocked by hook "z_first": not today"
          chat scripted
    """

    def files(self) -> None:
        self.write("a_last", "tool.pre", 'return block("never reached")', priority=30)
        self.write("m_second", "tool.pre", "return allow()", priority=20)
        self.write("z_first", "tool.pre", 'return block("not today")', priority=10)


class RedactedResult(_Files):
    """A file rewrites what a tool returned."""

    says = ((VIEW,), "Done.")
    ran = (VIEW,)
    told = ("holds the key [key]",)
    never_told = ("sk-4711",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: modify redact
          chat scripted
    """

    def files(self) -> None:
        body = 'return modify({"content": payload["content"].replace("sk-4711", "[key]")})'
        self.write("redact", "tool.post", body)


class WithheldResult(_Files):
    """A file withholds a result: the tool has run, the model does not see its result."""

    says = ((VIEW,), "Done.")
    ran = (VIEW,)
    told = ('blocked by hook "no_keys": it holds a key',)
    never_told = ("sk-4711",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: deny no_keys "blocked by hook "no_keys": it holds a key" withheld
          chat scripted
    """

    def files(self) -> None:
        body = """
            if "sk-" in payload["content"]:
                return block("it holds a key")
            return allow()
            """
        self.write("no_keys", "tool.post", body)


class TurnStart(_Files):
    """A file adds to the user's message, and refuses an empty one."""

    prompts = ("What now?", "")
    says = ("Done.",)
    answers = ("Done.", 'blocked by hook "turns": say something')
    needs = ("turn", "empty message")
    told = ("What now? (trace it)",)
    trace = """
        invoke_agent ops: modify turns
          chat scripted
        invoke_agent ops: deny turns "blocked by hook "turns": say something"
    """

    def files(self) -> None:
        body = """
            if not payload["prompt"].strip():
                return block("say something")
            return modify({"prompt": payload["prompt"] + " (trace it)"})
            """
        self.write("turns", "turn.start", body)


class TurnEnd(_Files):
    """A file reads the answer and what the other files logged on the way, and adds a summary."""

    says = ((VIEW,), (LIST,), "Done.")
    answers = ("Done. (2 calls logged)",)
    ran = (VIEW, LIST)
    needs = ("turn",)
    trace = """
        invoke_agent ops: modify summary
          chat scripted
          execute_tool view_file
          chat scripted
          execute_tool run_command
          chat scripted
    """

    def files(self) -> None:
        self.write("log", "tool.pre", 'log.info("call", tool=payload["name"])\nreturn allow()')
        body = """
            count = str(len(payload["logs"]))
            return modify({"text": payload["text"] + " (" + count + " calls logged)"})
            """
        self.write("summary", "turn.end", body)


class CacheOfARun(_Files):
    """Files share a memory for one run: each tool may be called once in it."""

    prompts = ("one", "two")
    says = ((VIEW,), (VIEW,), "Done.", (VIEW,), "Done.")
    answers = ("Done.", "Done.")
    ran = (VIEW, VIEW)
    needs = ("turn",)
    told = ('blocked by hook "once": once is enough',)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
          execute_tool view_file: deny once "blocked by hook "once": once is enough"
          chat scripted
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
    """

    def files(self) -> None:
        body = """
            if cache.get(payload["name"]):
                return block("once is enough")
            cache.set(payload["name"], True)
            return allow()
            """
        self.write("once", "tool.pre", body)


class NetworkOfFiles(_Files):
    """A file reaches no host that is not on the list, and one that fails blocks."""

    says = ((LIST,), "Done.")
    told = ('blocked by hook "ask_outside"',)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command: deny ask_outside "ask_outside: HookFailed" [policy_error]
          chat scripted
    """

    def files(self) -> None:
        body = 'http.get("http://policy.example/ok")\nreturn allow()'
        self.write("ask_outside", "tool.pre", body)


class EveryFileHasItsPriority(_Files):
    """A file about files: none may leave its priority out of the first hundred."""

    says = ((LIST,), "Done.")
    told = ('blocked by hook "about_hooks": out of order: late',)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command: deny about_hooks "blocked by hook "about_hooks": out of order: late"
          chat scripted
    """

    def files(self) -> None:
        body = """
            late = [each["name"] for each in hooks.list() if each["priority"] > 100]
            return block("out of order: " + ", ".join(late)) if late else allow()
            """
        self.write("about_hooks", "tool.pre", body, priority=1)
        self.write("late", "tool.post", "return allow()", priority=500)


class SentOn(_Files):
    """A file that hears of the end sends the agent on, with a reason."""

    says = ("I think so.", "It is so: see notes.txt.")
    answers = ("It is so: see notes.txt.",)
    needs = ("stop",)
    told = ("name a source",)
    trace = """
        invoke_agent ops
          chat scripted
          chat scripted
    """

    def files(self) -> None:
        body = 'return allow() if "see" in payload["text"] else block("name a source")'
        self.write("sources", "agent.stop", body)


class DelegateIsVerified(_Files):
    """A file that checks what a delegate answers has it asked again."""

    says = ((RESEARCH,), "Done.")
    needs = ("delegate", "verify")
    told = ("Found: see notes.txt.",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool researcher
            invoke_agent researcher
              chat scripted
              chat scripted
          chat scripted
    """

    def crew(self) -> Actor:
        return self.with_researcher("Found.", "Found: see notes.txt.")

    def files(self) -> None:
        body = 'return allow() if "see" in payload["content"] else block("name a source")'
        self.write("sources", "delegation.post_verify", body)

    def finish(self) -> None:
        assert "name a source" in self.inner.told


class GovernedStack(Example):
    """The seven guards that come along, in one word: audit, and what may be done at all."""

    says = ((LIST,), (FORMAT,), (OWN_RULES,), (SECRETS,), "Done.")
    ran = (LIST,)
    told = (
        "ran: ls",
        "blocked by hook \"command_guard\": dangerous command pattern blocked: 'mkfs'",
        'blocked by hook "meta_tool_guard": an agent may not change its own rules',
        'blocked by hook "path_guard": path outside the workspace',
    )
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command
          chat scripted
          execute_tool run_command: deny command_guard "blocked by hook "command_guard": dangerous command pattern blocked: 'mkfs'"
          chat scripted
          execute_tool run_command: deny meta_tool_guard "blocked by hook "meta_tool_guard": an agent may not change its own rules, store or audit trail"
          chat scripted
          execute_tool view_file: deny path_guard "blocked by hook "path_guard": path outside the workspace in 'path': use a relative path"
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        return {"policies": ["governed"], "audit": self.folder / "audit.jsonl"}

    def finish(self) -> None:
        """All four calls are in the trail, those that were blocked as well."""
        report = audit.check(self.folder / "audit.jsonl")
        assert report.findings == []
        text = "".join(path.read_text() for path in self.folder.glob("audit*.jsonl*"))
        for rule in ("command_guard", "meta_tool_guard", "path_guard"):
            assert f'"{rule}"' in text
