"""Hooks and policies as the Hedera Agent Kit has them: bound to tools, at four places of a call."""

# ruff: noqa: E501  # traces are shown as they are

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otelhooks import audit, hooks, policy
from tests.examples.calls import LIST, MESSAGE, UNKNOWN_RATE, VIEW
from tests.examples.example import Ask, Example

FEW = Ask("transfer_hbar_tool", {"transfers": [{"account_id": "0.0.2", "amount": 1}]})
MANY = Ask(
    "transfer_hbar_tool",
    {"transfers": [{"account_id": f"0.0.{number}", "amount": 1} for number in (2, 3, 4)]},
)
MAIL = Ask("send_message", {"to": "ada, bob, cy", "text": "hello"})


class AuditTrail(Example):
    """A hook writes each call that ran to a trail that cannot be edited unseen."""

    tools = ("view_file", "run_command", "fetch_rate")
    says = ((VIEW,), (LIST,), (UNKNOWN_RATE,), "Done.")
    ran = (VIEW, UNKNOWN_RATE)
    told = ("sk-4711", "Denied by policy 'no-shell'.")
    noted = (("tool", "recorded view_file"),)
    needs = ("failing tool",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
          execute_tool run_command: deny no-shell "Denied by policy 'no-shell'."
          chat scripted
          execute_tool fetch_rate: [RateError]
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        class Sink:
            def write(sink, record: Mapping[str, Any]) -> None:  # `self` is the example
                self.note("tool", f"recorded {record['tool_name']}")

        rule = policy.deny(self.tool("run_command"), name="no-shell", id="no-shell")
        return {"hooks": [audit.AuditTrailHook(Sink(), executed_only=True)], "policies": [rule]}


class MaxRecipients(Example):
    """Transfers to few pass, those to many do not; further tools are counted by one's own function."""

    tools = ("transfer_hbar_tool", "send_message")
    says = ((FEW,), (MANY,), (MESSAGE,), (MAIL,), "Done.")
    ran = (FEW, MESSAGE)
    told = (
        "transferred to 1",
        "Action blocked by policy: Max Recipients Policy (Limits the maximum number of recipients to 2)",
        "sent to ada",
    )
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool transfer_hbar_tool
          chat scripted
          execute_tool transfer_hbar_tool: deny Max Recipients Policy "Action blocked by policy: Max Recipients Policy (Limits the maximum number of recipients to 2)"
          chat scripted
          execute_tool send_message
          chat scripted
          execute_tool send_message: deny Max Recipients Policy "Action blocked by policy: Max Recipients Policy (Limits the maximum number of recipients to 2)"
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        def count(args: Any) -> int:
            return len(_fields(args)["to"].split(","))

        limit = policy.MaxRecipientsPolicy(
            2, additional_tools=["send_message"], custom_strategies={"send_message": count}
        )
        return {"policies": [limit]}

    def transfer_hbar_tool(self, transfers: list[dict[str, Any]]) -> str:
        """Transfer hbar."""
        self.calls.append(Ask("transfer_hbar_tool", {"transfers": transfers}))
        return f"transferred to {len(transfers)}"


class RejectTool(Example):
    """Some tools are switched off by name."""

    says = ((VIEW,), (LIST,), "Done.")
    ran = (VIEW,)
    told = ("sk-4711", "Action blocked by policy: Reject Tool Policy")
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
          execute_tool run_command: deny Reject Tool Policy "Action blocked by policy: Reject Tool Policy"
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        return {"policies": [policy.RejectToolPolicy(["run_command", "delete_account"])]}


class FourPlaces(Example):
    """A hook runs before, after validation, after the work, and after the whole."""

    says = ((VIEW,), (LIST,), "Done.")
    ran = (VIEW, LIST)
    noted = (
        ("tool", "1: view_file of notes.txt"),
        ("tool", "3: view_file of notes.txt"),
        ("tool", "5: view_file has a result"),
        ("tool", "7: view_file is done"),
    )
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
          execute_tool run_command
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        note = self.note

        class Places(hooks.AbstractHook):
            name = "places"
            relevant_tools = ("view_file",)

            async def pre_tool_execution_hook(self, context: Any, params: Any, method: str) -> None:
                note("tool", f"1: {method} of {params.raw_params['path']}")

            async def post_params_normalization_hook(
                self, context: Any, params: Any, method: str
            ) -> None:
                note("tool", f"3: {method} of {_fields(params.normalized_params)['path']}")

            async def post_core_action_hook(self, context: Any, params: Any, method: str) -> None:
                known = params.core_action_result is not None
                note("tool", f"5: {method} {'has a result' if known else 'has none'}")

            async def post_secondary_action_hook(
                self, context: Any, params: Any, method: str
            ) -> None:
                assert "sk-4711" in str(params.tool_result)
                note("tool", f"7: {method} is done")

        return {"hooks": [Places()]}


class CustomPolicy(Example):
    """A policy of one's own answers whether to block, by the validated arguments."""

    says = ((LIST,), (Ask("run_command", {"CommandLine": "rm -r build"}),), "Done.")
    ran = (LIST,)
    told = ("ran: ls", "Action blocked by policy: Short Commands (no more than 5 characters)")
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command
          chat scripted
          execute_tool run_command: deny Short Commands "Action blocked by policy: Short Commands (no more than 5 characters)"
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        class ShortCommands(policy.AbstractPolicy):
            name = "Short Commands"
            description = "no more than 5 characters"
            relevant_tools = ("run_command",)

            async def should_block_post_params_normalization(
                self, context: Any, params: Any, method: str
            ) -> bool:
                return len(_fields(params.normalized_params)["CommandLine"]) > 5

        return {"policies": [ShortCommands()]}


class ParamsRewritten(Example):
    """What a hook changes in the parameters is what is judged and what runs."""

    says = ((LIST,), "Done.")
    ran = (Ask("run_command", {"CommandLine": "ls -l"}),)
    told = ("ran: ls -l",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command: modify long form
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        class LongForm(hooks.AbstractHook):
            name = "long form"
            relevant_tools = ("*",)

            async def pre_tool_execution_hook(self, context: Any, params: Any, method: str) -> None:
                params.raw_params["CommandLine"] += " -l"

        class NotShort(policy.AbstractPolicy):
            relevant_tools = ("run_command",)

            async def should_block_pre_tool_execution(
                self, context: Any, params: Any, method: str
            ) -> bool:
                return bool(params.raw_params["CommandLine"] == "ls")

        return {"hooks": [LongForm()], "policies": [NotShort()]}


class ResultBlocked(Example):
    """A policy after the work keeps the result back: the effect has happened."""

    says = ((VIEW,), "Done.")
    ran = (VIEW,)
    told = ("Action blocked by policy: No Keys",)
    never_told = ("sk-4711",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: deny No Keys "Action blocked by policy: No Keys" withheld
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        class NoKeys(policy.AbstractPolicy):
            name = "No Keys"
            relevant_tools = ("view_file",)

            async def should_block_post_secondary_action(
                self, context: Any, params: Any, method: str
            ) -> bool:
                return "sk-" in str(params.tool_result)

        return {"policies": [NoKeys()]}


def _fields(params: Any) -> Any:
    """Return the fields of arguments, or of the object that a tool made of them."""
    return params if isinstance(params, dict) else vars(params)
