"""The events of the demonstration, the same in every framework: tools, policy, hooks, script.

The tools are plain functions; each records that its body ran, so that the demonstration can check
afterwards that a denied one did not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from otelhooks import hooks, policy, types
from otelhooks.policy import Policy

__all__ = [
    "ANSWER",
    "HOOKS",
    "SCRIPT",
    "SERVER",
    "TOOLS",
    "approver",
    "bodies",
    "check",
    "findings",
    "policies",
]

SERVER = types.McpStdioServer(
    name="docs", command=sys.executable, args=["-m", "otelhooks.demo.mcp_server"]
)
"""A real MCP server, started as a process of its own."""

PROMPT = "Clean up the workspace, tell the customer, and find out about rate limits."
ANSWER = "Done: files listed, one mail sent, rates looked up."

bodies: list[tuple[str, dict[str, Any]]] = []
"""Tool bodies that ran, with the arguments that reached them."""


def _ran(name: str, **args: Any) -> None:
    bodies.append((name, args))


def view_file(path: str) -> str:
    """Return what a file holds."""
    _ran("view_file", path=path)
    return f"{path}: 12 lines"


def run_command(CommandLine: str) -> str:
    """Run a shell command; the demonstration runs none."""
    _ran("run_command", CommandLine=CommandLine)
    return f"ran: {CommandLine}"


def send_email(to: str, body: str) -> str:
    """Send a mail; the demonstration sends none."""
    _ran("send_email", to=to, body=body)
    return f"sent to {to}"


def search(query: str, limit: int = 5) -> str:
    """Search the web; the demonstration makes results up."""
    _ran("search", query=query, limit=limit)
    return f"{limit} results for {query!r}"


def read_customer(customer_id: str) -> str:
    """Return a customer's record, with a card number that must not reach the model."""
    _ran("read_customer", customer_id=customer_id)
    return f"customer {customer_id}: Ada, card 4111 1111 1111 1111"


def lookup_rate(currency: str) -> str:
    """Look a rate up; the service is down."""
    _ran("lookup_rate", currency=currency)
    msg = "rate service is down"
    raise ConnectionError(msg)


TOOLS: tuple[Callable[..., str], ...] = (
    view_file,
    run_command,
    send_email,
    search,
    read_customer,
    lookup_rate,
)

SCRIPT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("view_file", {"path": "notes.txt"}),
    ("run_command", {"CommandLine": "rm -rf ./workspace"}),
    ("run_command", {"CommandLine": "ls ./workspace"}),
    ("search", {"query": "rate limits", "limit": 500}),
    ("read_customer", {"customer_id": "c-7"}),
    ("lookup_rate", {"currency": "EUR"}),
    ("send_email", {"to": "ada@example.com", "body": "Your workspace was cleaned."}),
    ("send_email", {"to": "everyone@example.org", "body": "Hello, all of you!"}),
)
"""What the scripted model asks for, one call after another."""


def _deletes(args: dict[str, Any]) -> bool:
    return "rm -rf" in args["CommandLine"]


def policies() -> list[Policy | list[Policy]]:
    """Return the demonstration's rules."""
    no_deletions = policy.deny(
        "run_command",
        when=_deletes,
        name="no-rm",
        id="no-rm",
        reason="Deleting files is not allowed here; list them instead.",
        severity="critical",
    )
    mail = policy.ask_user("send_email", name="mail", id="mail", severity="medium")
    read_only = policy.deny(
        SERVER,
        ["delete_page"],
        name="docs",
        reason="The documentation is read-only here.",
        severity="high",
    )
    return [no_deletions, mail, read_only]


async def approver(call: types.ToolCall) -> bool:
    """Approve mails to example.com, in place of a person."""
    return str(call.args.get("to", "")).endswith("@example.com")


@hooks.pre_tool_call_decide(rule_id="at-most-10")
def limit_results(call: types.ToolCall) -> types.HookResult:
    """Rewrite searches that request too many results."""
    if call.name == "search" and call.args.get("limit", 0) > 10:
        return types.HookResult(modified_args={"limit": 10}, message="at most 10 results")
    return types.HookResult()


_CARD = re.compile(r"\b(?:\d{4} ){3}\d{4}\b")


@hooks.post_tool_call_transform(rule_id="no-card-numbers")
def mask_cards(result: types.ToolResult) -> str | None:
    """Remove card numbers from results."""
    if isinstance(result.result, str) and _CARD.search(result.result):
        return _CARD.sub("[card]", result.result)
    return None


@hooks.on_tool_error
def yesterdays_rate(context: hooks.HookContext, error: Exception) -> str | None:
    """Answer instead of the rate service while it is down."""
    return "1.08 (yesterday's rate)" if context.get("tool_name") == "lookup_rate" else None


HOOKS = (limit_results, mask_cards, yesterdays_rate)

findings: list[str] = []
"""Deviations from the story."""


def check(framework: str, seen_by_model: Sequence[str], expected: Sequence[str]) -> None:
    """Compare what a model was sent, and what ran, with the story."""
    told = "\n".join(seen_by_model)
    findings.extend(
        f"{framework}: the model was not told `{text}`" for text in expected if text not in told
    )
    for name, args in bodies:
        if "rm -rf" in str(args) or args.get("to") == "everyone@example.org":
            findings.append(f"{framework}: the body of {name} ran with {args}")
    if "4111" in told:
        findings.append(f"{framework}: the model saw a card number")
    bodies.clear()


TOLD = (
    "Deleting files is not allowed here; list them instead.",
    "ran: ls ./workspace",
    "10 results for",
    "[card]",
    "yesterday's rate",
    "sent to ada@example.com",
    "User denied tool 'send_email'",
)
"""What the model must have been sent when all of `SCRIPT` has run."""
