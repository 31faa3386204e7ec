"""Canonical tools, and the current name of each."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from typing import Any

from typing_extensions import deprecated

__all__ = ["BuiltinTools", "normalize_builtin_tool_name"]

_START_SUBAGENT = "start_subagent"


class _DeprecatedMember:
    """A class-level alias of an enum member that warns when it is read."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        self.fget = fget
        self.__deprecated__: Any | None = getattr(fget, "__deprecated__", None)

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        return self.fget(owner if owner is not None else type(instance))


class BuiltinTools(str, enum.Enum):
    """Canonical tool names; adapters map their framework's own tools to them."""

    LIST_DIR = "list_directory"
    SEARCH_DIR = "search_directory"
    FIND_FILE = "find_file"
    VIEW_FILE = "view_file"
    CREATE_FILE = "create_file"
    EDIT_FILE = "edit_file"
    RUN_COMMAND = "run_command"
    ASK_QUESTION = "ask_question"
    INVOKE_SUBAGENT = "invoke_subagent"
    RUN_WORKFLOW = "run_workflow"
    GENERATE_IMAGE = "generate_image"
    SEARCH_WEB = "search_web"
    READ_URL_CONTENT = "read_url_content"
    SCHEDULE = "schedule"
    FINISH = "finish"

    def __str__(self) -> str:
        return self.value

    @_DeprecatedMember
    @deprecated("START_SUBAGENT is deprecated; use INVOKE_SUBAGENT", stacklevel=2)
    def START_SUBAGENT(cls) -> BuiltinTools:
        return cls.INVOKE_SUBAGENT

    @classmethod
    def _missing_(cls, value: object) -> BuiltinTools | None:
        if value != _START_SUBAGENT:
            return None
        warnings.warn(
            "'start_subagent' is deprecated; use 'invoke_subagent'",
            DeprecationWarning,
            stacklevel=3,
        )
        return cls.INVOKE_SUBAGENT

    @classmethod
    def read_only(cls) -> list[BuiltinTools]:
        """Return the tools that only read, without those that are off by default."""
        return [cls.VIEW_FILE, cls.READ_URL_CONTENT, cls.SCHEDULE, cls.FINISH]

    @classmethod
    def nondestructive(cls) -> list[BuiltinTools]:
        """Return the tools that cannot delete content."""
        excluded = {cls.RUN_COMMAND, *cls.deprecated()}
        return [tool for tool in cls if tool not in excluded]

    @classmethod
    def all_tools(cls) -> list[BuiltinTools]:
        """Return every tool."""
        return list(cls)

    @classmethod
    def file_tools(cls) -> list[BuiltinTools]:
        """Return the tools that take a path and read or write there."""
        return [cls.VIEW_FILE, cls.CREATE_FILE, cls.EDIT_FILE]

    @classmethod
    def none(cls) -> list[BuiltinTools]:
        """Return an empty list."""
        return []

    @classmethod
    def minimal(cls) -> list[BuiltinTools]:
        """Return the smallest set that can write software."""
        return [cls.RUN_COMMAND, cls.VIEW_FILE, cls.CREATE_FILE, cls.EDIT_FILE]

    @classmethod
    def deprecated(cls) -> list[BuiltinTools]:
        """Return the tools that are off unless requested by name."""
        return [cls.LIST_DIR, cls.SEARCH_DIR, cls.FIND_FILE]

    @classmethod
    def default(cls) -> list[BuiltinTools]:
        """Return the tools of an autonomous agent."""
        excluded = {cls.ASK_QUESTION, *cls.deprecated()}
        return [tool for tool in cls if tool not in excluded]


# The alias is not a member of its own, but `BuiltinTools["START_SUBAGENT"]` finds it, as upstream.
BuiltinTools._member_map_["START_SUBAGENT"] = BuiltinTools.INVOKE_SUBAGENT


def normalize_builtin_tool_name(
    name: BuiltinTools | str, *, server_name: str | None = None
) -> BuiltinTools | str:
    """Return the current name of a tool; a server's own tool keeps its name.

    Args:
        name: Tool name in a rule, a label or a call.
        server_name: Name of the MCP server that the tool belongs to, if any.
    """
    if name == _START_SUBAGENT and not server_name:
        return BuiltinTools.INVOKE_SUBAGENT.value
    return name
