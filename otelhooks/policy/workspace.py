"""`workspace_only`: file tools stay inside the directories of the workspace.

A path is inside if it leads inside in every way in which a tool may read it
(`otelhooks.policy.paths`). Symbolic links and ``..`` are resolved first; unresolvable paths are
outside.

What this cannot stop: a link that is created between the decision and the tool's own access, hard
links, and tools that reach files in other ways (deny the shell too).
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from otelhooks import types
from otelhooks.errors import ConfigError
from otelhooks.policy.builders import deny
from otelhooks.policy.commands.named import PATH_ARGUMENTS, Role, walk
from otelhooks.policy.paths import Folder, places, real_path
from otelhooks.policy.rules import Policy

__all__ = ["PATH_ARGUMENTS", "WORKSPACE_ONLY_POLICY_NAME", "workspace_only"]

WORKSPACE_ONLY_POLICY_NAME = "workspace_only"

_HAS_READINGS = re.compile(r"[~$%:\\]")


def workspace_only(
    dirs: Sequence[str | os.PathLike[str]],
    tools: Mapping[str, str | Sequence[str]] | None = None,
) -> list[Policy]:
    """Keep file tools inside directories.

    The paths of a call are its ``canonical_path``, if the framework knows one, its arguments named
    in `PATH_ARGUMENTS`, keys of mappings in them, and the files that a patch is about. A relative
    path must lead inside from where the tool works (the working directory of the process if the
    framework does not report one), and from every directory that the call names. A path that is the
    end of the canonical path, and the only other path, is that path in another spelling. A call
    without a path is not denied.

    Args:
        dirs: Directories whose content may be read and written; resolved now.
        tools: More file tools: name, or ``server/tool``, to the arguments that are its paths.

    Returns:
        One rule for each file tool.

    Raises:
        ConfigError: `dirs` or `tools` has another form.

    Example:
        >>> [rule.tool for rule in workspace_only(["."], {"render": "template"})]
        ['view_file', 'create_file', 'edit_file', 'render']
    """
    if isinstance(dirs, (str, bytes, os.PathLike)):
        raise ConfigError("workspace_only takes a list of directories", hint=f"write [{dirs!r}]")
    workspaces = tuple(Folder.of(directory) for directory in dirs)
    canonical = [tool.value for tool in types.BuiltinTools.file_tools()]
    arguments = {tool: _names(tool, given) for tool, given in (tools or {}).items()}
    return [
        deny(
            tool,
            when=Outside(workspaces, arguments.get(tool, ()), published=tool in canonical),
            name=WORKSPACE_ONLY_POLICY_NAME,
            id=f"{WORKSPACE_ONLY_POLICY_NAME}:{tool}",
        )
        for tool in dict.fromkeys((*canonical, *arguments))
    ]


def _names(tool: str, given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(
            f"`{tool}`: no path argument is named", hint="map the tool to an argument's name"
        )
    return names


@dataclasses.dataclass(frozen=True)
class Outside:
    """Predicate: a path of the call leads out of the workspace.

    Args:
        workspaces: Where paths may lead.
        arguments: Arguments that are paths, of a tool that the user listed.
        published: Whether `PATH_ARGUMENTS` are checked.
    """

    workspaces: tuple[Folder, ...]
    arguments: tuple[str, ...] = ()
    published: bool = True

    def __str__(self) -> str:
        return f"a path leads out of {', '.join(map(str, self.workspaces))}"

    def __call__(self, call: types.ToolCall) -> bool:
        """Return whether a path of the call is outside; an unresolvable path is."""
        found = list(walk(call.args))
        bases = [each.value for each in found if each.role is Role.BASE]
        checked = bases if self.published else []
        paths = [
            each.value
            for name in self.arguments
            for each in walk(call.args.get(name), name, Role.PATH)
            if each.role is not Role.CONTENT
        ]
        if self.published:
            paths += [each.value for each in found if each.role in {Role.PATH, Role.PATCHED}]
        if call.canonical_path is not None:
            is_same = len(paths) == 1 and _is_end(paths[0], call.canonical_path)
            paths = [call.canonical_path] if is_same else [call.canonical_path, *paths]
        if not paths and not checked:
            return False
        try:
            here = os.path.abspath(call.work_dir or os.curdir)
            real = map(real_path, places(paths, checked, bases, here))
            return not all(any(w.contains(path) for w in self.workspaces) for path in real)
        except (OSError, ValueError, TypeError):  # cannot be resolved
            return True


def _is_end(value: Any, canonical_path: str) -> bool:
    """Return whether a plain relative path is the end of the canonical path."""
    if not isinstance(value, str) or ".." in value or _HAS_READINGS.search(value):
        return False
    return os.path.normpath(canonical_path).endswith(os.sep + os.path.normpath(value))
