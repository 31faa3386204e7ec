"""The tools that the OpenAI Agents SDK includes, and how rules see each."""
# pyright: basic

from __future__ import annotations

from typing import Any

from otelhooks.frameworks import kit

__all__ = ["TABLE", "hosted", "patch_names"]

_SHELL = ("run_command",)
_PATCH = ("create_file", "edit_file", "delete_file")
_PATCHES = ("apply_patch", _PATCH, "file_write")
_HERE, _SANDBOX = "agents.tool", "agents.sandbox.capabilities"
_CODEX = "agents.extensions.experimental.codex.codex_tool"

TABLE = kit.BuiltIns(
    here={
        f"{_HERE}:ShellTool": ("shell", _SHELL, "shell"),
        f"{_HERE}:LocalShellTool": ("local_shell", _SHELL, "shell"),
        f"{_HERE}:ApplyPatchTool": _PATCHES,
        f"{_HERE}:ComputerTool": ("computer_use_preview",),
        f"{_SANDBOX}.tools.shell_tool:ExecCommandTool": ("exec_command", _SHELL, "shell"),
        f"{_SANDBOX}.tools.shell_tool:WriteStdinTool": ("write_stdin", _SHELL, "shell"),
        f"{_SANDBOX}.tools.apply_patch_tool:SandboxApplyPatchTool": _PATCHES,
        f"{_SANDBOX}.tools.view_image:ViewImageTool": ("view_image", ("view_file",), "file_read"),
        f"{_SANDBOX}.skills:_LoadSkillTool": ("load_skill",),
        f"{_CODEX}:codex_tool.<locals>._on_invoke_tool": (
            "codex",
            ("run_command", "invoke_subagent"),
            "shell",
        ),
    },
    hosted={
        f"{_HERE}:WebSearchTool": ("web_search", ("search_web",), "net"),
        f"{_HERE}:FileSearchTool": ("file_search", (), "net"),
        f"{_HERE}:HostedMCPTool": ("hosted_mcp", (), "net"),
        f"{_HERE}:CodeInterpreterTool": ("code_interpreter", ("code_execution",), "shell"),
        f"{_HERE}:ImageGenerationTool": ("image_generation", ("generate_image",), "net"),
        f"{_HERE}:ToolSearchTool": ("tool_search",),
        f"{_HERE}:ProgrammaticToolCallingTool": ("programmatic_tool_calling",),
    },
)
"""`FunctionTool` and `CustomTool` are missing here: they are forms for a user's own tools."""

_BY_OPERATION: dict[Any, tuple[str, ...]] = {
    "create_file": ("create_file",),
    "update_file": ("edit_file",),
    "delete_file": ("edit_file", "delete_file"),
}


def hosted(definition: Any) -> Any:
    """Return how rules see a tool that runs at the provider; None for any other tool.

    Tools of a hosted MCP server are named by the label that the application gave the server.
    """
    found = TABLE.look_up(type(definition), "")
    if found is None or not (
        found.is_hosted or getattr(definition, "executor", definition) is None
    ):
        return None
    settings: Any = getattr(definition, "tool_config", None) or {}
    return TABLE.hosted_as(definition.name, found, settings.get("server_label"), settings)


def patch_names(operations: Any) -> tuple[str, ...]:
    """Return the canonical names of what a patch does; all of them if that is unknown.

    A patch that moves a file also creates one. A patch that does several things, including a
    deletion, has several names, so no rule allows it by one of them.

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
