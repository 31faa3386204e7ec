"""One connection to the CLI: its conversation, its turns, and what it reports."""
# pyright: basic

from __future__ import annotations

import collections
import dataclasses
import re
import uuid
import weakref
from typing import Any

import anyio

from otelhooks.errors import SeatError
from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import unjudged
from otelhooks.frameworks.kit.remote import loops

__all__ = [
    "AGENT",
    "TABLE",
    "Claude",
    "SubRun",
    "Turn",
    "check_settings",
    "close",
    "configure",
    "disconnect",
]

AGENT = "Claude"
"""Name of the agent: those of the SDK have none."""

_TOOLS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "Bash": (("run_command",), "shell"),
    "PowerShell": (("run_command",), "shell"),
    "Monitor": (("run_command",), "shell"),
    "Read": (("view_file",), "file_read"),
    "Glob": (("find_file",), "file_read"),
    "Grep": (("search_directory",), "file_read"),
    "LS": (("list_directory",), "file_read"),
    "LSP": ((), "file_read"),
    "Write": (("create_file",), "file_write"),
    "Edit": (("edit_file",), "file_write"),
    "MultiEdit": (("edit_file",), "file_write"),
    "NotebookEdit": (("edit_file",), "file_write"),
    "WebSearch": (("search_web",), "net"),
    "WebFetch": (("read_url_content",), "net"),
    "Agent": (("invoke_subagent",), None),
    "Workflow": (("invoke_subagent",), None),
    "AskUserQuestion": (("ask_question",), None),
}

TABLE = kit.BuiltIns({f"claude_agent_sdk:{name}": (name, *what) for name, what in _TOOLS.items()})
"""Tools that the CLI includes; only their names are known here."""

_STATUS_S = 10
"""How long the CLI may take to report its settings or its servers."""


def _plain(name: str) -> str:
    """Return a name as the CLI shows it to the model."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


class SubRun(loops.RemoteRun):
    """The run of a sub-agent."""

    can_go_on = True


class Turn(loops.RemoteRun):
    """A turn: from a message of the user's until the agent may stop.

    Attributes:
        given: The message, as the application wrote it.
        shown: Frames that wait for what hooks make of the answer.
        is_refused: Whether the model must not see the message.
    """

    can_go_on = True
    given: Any = None
    is_refused = False

    @classmethod
    def on(cls, given: Any, source: str) -> Turn:
        """Return a turn on a message, which hooks see as a text if it is one."""
        texts = [block.get("text") for block in given] if isinstance(given, list) else [given]
        is_text = all(isinstance(text, str) for text in texts)
        turn = cls.of(AGENT, "\n".join(texts) if is_text else given)
        turn.given, turn.source, turn.shown = given, source, []
        return turn


class Claude(loops.Loop):
    """One connection to the CLI.

    Attributes:
        servers: Names of the application's servers that run in this process.
        named: The application's names for servers of any kind.
        places: Its configurations of them, by those names.
        sent: The turn whose message was sent and has not reached the model.
        turns: Turns whose answers have not been read, oldest first.
        halted: Why we stopped the running turn; empty if we did not.
        is_stopped: Whether we stopped the last one.
    """

    framework, unnamed = "claude_agent_sdk", AGENT
    package = "claude-agent-sdk", "claude_agent_sdk"
    provider = "anthropic"
    agent_run = SubRun
    unseen = "the CLI did not report an end"

    def __init__(self, query: Any, options: Any) -> None:
        given, again = _conversation(options)
        super().__init__(given or str(uuid.uuid4()), AGENT, getattr(options, "model", None) or "")
        self._query: Any = weakref.ref(query)
        self.has_history = again
        self.servers = frozenset(query.sdk_mcp_servers)
        servers = getattr(options, "mcp_servers", None)
        self.places = servers if isinstance(servers, dict) else {}
        self.named = self.servers | self.places.keys()
        self.sent: Turn | None = None
        self.turns: collections.deque[Turn] = collections.deque()
        self.halted, self.is_stopped = "", False
        self._counted: dict[str, dict[str, int]] = {}

    async def begin(self, turn: Any) -> bool:
        """Begin a turn; one that may not is kept as well, since the CLI answers it."""
        self.halted, self.is_stopped = "", False
        self.turns.append(turn)
        goes_on = await super().begin(turn)
        turn.is_refused = not goes_on
        return goes_on

    async def stop(self, reason: str) -> None:
        """Interrupt the turn; the reader of the answer gets the reason."""
        self.halted = reason
        query = self._query()
        if query is not None:
            with loops.understood("the end of an interrupted turn"):
                await query.interrupt()

    async def check_asked(self) -> None:
        """End the connection if the CLI begins a turn without having asked about its message.

        Raises:
            SeatError: It does, and something could be denied.
        """
        if not self.turns or self.turns[0] is not self.sent:
            return  # the reader is behind, at an earlier turn
        try:
            self.unguarded(_BARE)
        except SeatError:
            await self.stop(_BARE)  # closing alone lets the CLI work on for seconds
            await self._query().transport.close()
            raise

    async def place_of(self, given: dict[str, Any]) -> tuple[str | None, str]:
        """Return a called tool's server, None for a built-in one, and its own name.

        The name that the model uses has ``_`` for each odd character, so the CLI is asked for the
        tools behind it. Decision code: it is not judged by a name that rules may not mean.

        Raises:
            SeatError: The CLI does not tell, and something could be denied.
        """
        full, server = given["tool_name"], (given.get("mcp_server") or {}).get("name")
        if server is None and not full.startswith("mcp__"):
            return None, full
        short = full.removeprefix(f"mcp__{_plain(server)}__") if server else ""
        if server and "_" not in short:
            return server, short
        found = {
            (one["name"], tool["name"])
            for one in await self._servers()
            for tool in one.get("tools") or ()
            if server in (None, one["name"])
            if f"mcp__{_plain(one['name'])}__{_plain(tool['name'])}" == full
        }
        if len(found) != 1:
            self.unguarded(f"the CLI does not tell the name of the tool that it calls {full}")
            found.add((server or full.split("__")[1], short or full))
        return found.pop()

    async def _servers(self) -> list[dict[str, Any]]:
        """Return the servers that the CLI is a client of; empty if it does not tell."""
        query = self._query()
        with loops.understood("the status of the CLI's servers"), anyio.fail_after(_STATUS_S):
            return (await query.get_mcp_status()).get("mcpServers") or []
        return []

    async def spent(self, message: dict[str, Any]) -> None:
        """Count the tokens of a model call, which the CLI reports with each part of its answer."""
        usage, id = message.get("usage") or {}, message.get("id", "")
        cached = usage.get("cache_read_input_tokens") or 0
        written = usage.get("cache_creation_input_tokens") or 0
        total = collections.Counter(self.used)
        total.subtract(self._counted.get(id, {}))
        self._counted[id] = {
            "input_tokens": (usage.get("input_tokens") or 0) + cached + written,
            "output_tokens": usage.get("output_tokens") or 0,
            "cache_read_input_tokens": cached,
        }
        total.update(self._counted[id])
        await self.count(total)

    async def spent_in_all(self, usage: dict[str, Any]) -> None:
        """Correct the tokens of a turn at its end: before, the CLI reports those of the start."""
        counted, self._counted = self._counted.values(), {}
        late = (usage.get("output_tokens") or 0) - sum(one["output_tokens"] for one in counted)
        total = collections.Counter(self.used)
        total["output_tokens"] += max(0, late)
        await self.count(total)


_FLAGS = {"resume", "r", "continue", "c", "session-id", "fork-session"}


def _conversation(options: Any) -> tuple[str, bool]:
    """Return the id of the conversation, empty if the CLI chooses it, and whether it has a past."""
    extra = getattr(options, "extra_args", None) or {}
    resumed, goes_on = (
        getattr(options, "resume", None),
        getattr(options, "continue_conversation", 0),
    )
    given, forks = getattr(options, "session_id", None), getattr(options, "fork_session", False)
    has_past = bool(resumed or goes_on or _FLAGS & set(extra) - {"session-id"})
    return given or ("" if forks or extra.keys() & _FLAGS else resumed or ""), has_past


def configure(wrapped: Any, transport: Any, prompt: Any, options: Any) -> None:
    """Listen to ``SubprocessCLITransport.__init__``: name the conversation, hide tools.

    Raises:
        SeatError: The options switch hooks off, and something could be denied.
    """
    is_on = _is_on(loops.variable(_SIMPLE, options.env))
    if "bare" in options.extra_args or is_on or _SIMPLE in str(options.settings):
        Claude.unguarded(_BARE)
    given, has_past = _conversation(options)
    hiding = unjudged.Hiding(AGENT)
    calls = [unjudged.Call(n, {}, kind=what[1], canonical=what[0]) for n, what in _TOOLS.items()]
    hidden = [call.name for call in calls if hiding.hides(call)]
    servers = options.mcp_servers if isinstance(options.mcp_servers, dict) else {}
    for server, place in servers.items():
        prefix = f"mcp__{_plain(server)}__"
        hidden += [f"{prefix}{_plain(name)}" for name in hiding.of_server(server, place)]
    changes: dict[str, Any] = {}
    if not given and not has_past:
        changes["session_id"] = str(uuid.uuid4())
    if hidden:
        changes["disallowed_tools"] = [*options.disallowed_tools, *hidden]
    wrapped(prompt, dataclasses.replace(options, **changes))


_SIMPLE = "CLAUDE_CODE_SIMPLE"
_BARE = (
    f"`bare` and `{_SIMPLE}` have the CLI run tools without asking; leave them out of its options,"
    " settings and environment, and of a wrapper at `cli_path`"
)


def _is_on(value: Any) -> bool:
    return str(value).lower() in ("1", "true", "yes", "on")


async def check_settings(query: Any) -> None:
    """Refuse a CLI whose settings, of whatever source, switch hooks off.

    Raises:
        SeatError: They do, and something could be denied.
    """
    settings: dict[str, Any] = {}
    with loops.understood("the CLI's settings"):
        settings = await query._send_control_request({"subtype": "get_settings"}, _STATUS_S)
    if _is_on(((settings.get("effective") or {}).get("env") or {}).get(_SIMPLE)):
        Claude.unguarded(_BARE)


async def close(wrapped: Any, query: Any) -> None:
    """Listen to ``Query.close``: nothing of the turn continues."""
    try:
        await wrapped()
    finally:
        session = Claude.of(query)
        if session is not None:
            await session.end()


async def disconnect(wrapped: Any, client: Any) -> None:
    """Listen to ``ClaudeSDKClient.disconnect``: for all we can see, the conversation ends."""
    session = Claude.of(client._query) if client._query is not None else None
    try:
        await wrapped()
    finally:
        if session is not None:
            await session.close()
