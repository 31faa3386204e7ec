"""What the OpenAI Agents SDK brings along as tools, and what each is to rules."""
# pyright: basic

from __future__ import annotations

import functools
from typing import Any

from otelhooks.patching.builtin import BuiltIn, look_up, parts_of
from otelhooks.pipeline.hosted_tools import Hosted, hosted_as

__all__ = ["TABLE", "hosted", "known", "patch_names"]

_SHELL = ("run_command",)
_PATCH = ("create_file", "edit_file", "delete_file")
_HERE, _SANDBOX = "agents.tool", "agents.sandbox.capabilities"

TABLE = {
    f"{_HERE}:ShellTool": BuiltIn("shell", _SHELL, "shell"),
    f"{_HERE}:LocalShellTool": BuiltIn("local_shell", _SHELL, "shell"),
    f"{_HERE}:ApplyPatchTool": BuiltIn("apply_patch", _PATCH, "file_write"),
    f"{_HERE}:ComputerTool": BuiltIn("computer_use_preview"),
    f"{_HERE}:WebSearchTool": BuiltIn("web_search", ("search_web",), "net", is_hosted=True),
    f"{_HERE}:FileSearchTool": BuiltIn("file_search", (), "net", is_hosted=True),
    f"{_HERE}:HostedMCPTool": BuiltIn("hosted_mcp", (), "net", is_hosted=True),
    f"{_HERE}:CodeInterpreterTool": BuiltIn(
        "code_interpreter", ("code_execution",), "shell", is_hosted=True
    ),
    f"{_HERE}:ImageGenerationTool": BuiltIn(
        "image_generation", ("generate_image",), "net", is_hosted=True
    ),
    f"{_HERE}:ToolSearchTool": BuiltIn("tool_search", is_hosted=True),
    f"{_HERE}:ProgrammaticToolCallingTool": BuiltIn("programmatic_tool_calling", is_hosted=True),
    f"{_SANDBOX}.tools.shell_tool:ExecCommandTool": BuiltIn("exec_command", _SHELL, "shell"),
    f"{_SANDBOX}.tools.shell_tool:WriteStdinTool": BuiltIn("write_stdin", _SHELL, "shell"),
    f"{_SANDBOX}.tools.apply_patch_tool:SandboxApplyPatchTool": BuiltIn(
        "apply_patch", _PATCH, "file_write"
    ),
    f"{_SANDBOX}.tools.view_image:ViewImageTool": BuiltIn(
        "view_image", ("view_file",), "file_read"
    ),
    f"{_SANDBOX}.skills:_LoadSkillTool": BuiltIn("load_skill"),
    "agents.extensions.experimental.codex.codex_tool:codex_tool.<locals>._on_invoke_tool": BuiltIn(
        "codex", ("run_command", "invoke_subagent"), "shell"
    ),
}
"""`FunctionTool` and `CustomTool` are not here: they are forms for tools of the user's own."""

_BY_OPERATION: dict[Any, tuple[str, ...]] = {
    "create_file": ("create_file",),
    "update_file": ("edit_file",),
    "delete_file": ("edit_file", "delete_file"),
}


def known(tool: Any, function: Any) -> BuiltIn | None:
    """Return what a tool is, None for one of the user's own.

    Args:
        tool: The SDK's.
        function: What it runs.
    """
    found = _known(type(tool), "")
    parts = parts_of(getattr(function, "_invoke_tool_impl", function)) if found is None else ()
    return next(filter(None, (_known(part.cls, part.key) for part in parts)), found)


@functools.lru_cache(maxsize=1024)
def _known(cls: type, key: str) -> BuiltIn | None:
    return look_up(TABLE, cls, key)


def hosted(tool: Any) -> Hosted | None:
    """Return what a tool is to rules that runs at the provider; None of any other.

    The tools of a hosted MCP server go by the label that the application gave the server.
    """
    built_in = _known(type(tool), "")
    if built_in is None or not (built_in.is_hosted or getattr(tool, "executor", tool) is None):
        return None
    settings: Any = getattr(tool, "tool_config", None) or {}
    return hosted_as(tool.name, built_in, settings.get("server_label"), settings)


def patch_names(operations: Any) -> tuple[str, ...]:
    """Return the canonical names of what a patch does; all of them where it cannot be told.

    A patch that moves a file creates one, too. One that does several things, a deletion among
    them, has several names, and so no rule allows it by one of them.

    Args:
        operations: The SDK's operations of an editor, or None.
    """
    names: dict[str, None] = {}
    for operation in operations or ():
        found = _BY_OPERATION.get(getattr(operation, "type", None), _PATCH)
        names |= dict.fromkeys(found)
        if getattr(operation, "move_to", None) is not None:
            names |= dict.fromkeys(("create_file",))
    return tuple(names) or _PATCH
