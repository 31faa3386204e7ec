"""Policy as files: YAML rules, and hooks in Markdown and Starlark.

All or nothing: any error in any file is an `otelhooks.errors.PolicyFileError` with its place, and
nothing is loaded. The first one that is found has the others as its ``further``.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from otelhooks.hooks.base import Hook
from otelhooks.hooks.gates import Gate
from otelhooks.policy.files import front_matter
from otelhooks.policy.files.chain import CustomHook, Dispatched, HookChain
from otelhooks.policy.files.hook_script import HookScript
from otelhooks.policy.files.point_hooks import hook_objects
from otelhooks.policy.files.problems import Problems
from otelhooks.policy.files.rules import RuleFile, read_rules, strictest
from otelhooks.policy.files.script_functions import functions
from otelhooks.policy.files.source import Source, read_all, refuse_namesakes
from otelhooks.policy.rules import Policy
from otelhooks.policy.scripting.starlark import TIME_LIMIT_S

__all__ = ["Dispatched", "HookChain", "Loaded", "Source", "load", "load_hooks"]

Paths = Iterable[str | os.PathLike[str]]


@dataclasses.dataclass(frozen=True)
class Loaded:
    """The content of policy files.

    Attributes:
        sources: The files, including those that they include.
        rules: Each rule with its file, in load order.
        hooks: Limits, budgets and labels, then hook files as hook objects, low priority first.
        default: ``allow`` or ``deny``; None if no file sets it.
        default_source: The file that sets it, if it is ``deny``.
        mode: ``enforce`` or ``monitor``; None if no file sets it.
        unfired: Hook files whose event this process does not fire by itself: their names, each with
            its event.
    """

    sources: tuple[Source, ...]
    rules: tuple[tuple[Policy, Source], ...]
    hooks: tuple[Hook, ...]
    default: str | None
    mode: str | None
    unfired: tuple[tuple[str, str], ...]
    default_source: Source | None = None


def load(
    paths: Paths,
    *,
    http_allow: Collection[str] = (),
    hook_tools: Collection[str] = (),
    time_limit_s: float = TIME_LIMIT_S,
    trusted: bool = False,
) -> Loaded:
    """Load policy files and the policy files of folders.

    Args:
        paths: Files and folders.
        http_allow: Hosts that scripts may call.
        hook_tools: Tools that scripts may call.
        time_limit_s: Longest run of a script or expression, in seconds, without host functions.
        trusted: Whether they came with the code, so that it does not matter who may write them.

    Raises:
        PolicyFileError: One cannot be used.
    """
    given = read_all(paths, trusted=trusted)
    problems, rule_files, scripts = Problems(), tuple[RuleFile, ...](), list[HookScript]()
    with problems:
        rule_files = read_rules(given, trusted=trusted)
    with problems:
        scripts = _scripts(given, http_allow, hook_tools, time_limit_s)
    problems.check()
    sources = tuple(dict.fromkeys((*given, *(file.source for file in rule_files))))
    refuse_namesakes(sources)
    default, mode = strictest(rule_files)
    gates: list[Gate] = [gate for file in rule_files for gate in file.gates]
    hooks = [hook for script in scripts for hook in _objects(script)]
    return Loaded(
        sources=sources,
        rules=tuple((rule, file.source) for file in rule_files for rule in file.rules),
        hooks=(*gates, *hooks),
        default=default,
        mode=mode,
        default_source=next((f.source for f in rule_files if f.default == "deny"), None),
        unfired=tuple((g.name, g.said.event) for g in scripts if not _objects(g)),
    )


def load_hooks(
    paths: str | os.PathLike[str] | Paths,
    *,
    http_allow: Collection[str] = (),
    hook_tools: Collection[str] = (),
    time_limit_s: float = TIME_LIMIT_S,
    trusted: bool = False,
) -> HookChain:
    """Load the hook files among policy files, to run them by hand.

    Args:
        paths: One file or folder, or several.
        http_allow: Hosts that scripts may call.
        hook_tools: Tools that scripts may call.
        time_limit_s: Longest run of a script or expression, in seconds, without host functions.
        trusted: As for `load`.

    Raises:
        PolicyFileError: One cannot be used.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    sources = read_all(given, trusted=trusted)
    return HookChain(_scripts(sources, http_allow, hook_tools, time_limit_s))


def _scripts(
    sources: Iterable[Source],
    http_allow: Collection[str],
    hook_tools: Collection[str],
    time_limit_s: float,
) -> list[HookScript]:
    """Compile hook files; low priority first, then by name."""
    problems, said = Problems(), list[front_matter.FrontMatter]()
    for source in sources:
        if source.is_markdown:
            with problems:
                said.append(front_matter.read(source))
    said.sort(key=lambda each: (each.priority, each.name))
    listed = [_listed(each) for each in said]
    known = functions(lambda: listed, http_allow=http_allow, hook_tools=hook_tools)
    scripts: list[HookScript] = []
    for each in said:
        with problems:
            scripts.append(HookScript(each, known, time_limit_s))
    problems.check()
    return scripts


def _listed(said: front_matter.FrontMatter) -> Mapping[str, Any]:
    return {
        "name": said.name,
        "event": said.event,
        "priority": said.priority,
        "id": said.id or said.name,
        "severity": said.severity,
        "mode": said.mode,
        "description": said.description,
    }


def _objects(script: HookScript) -> tuple[Hook, ...]:
    if script.said.event.startswith("custom."):
        return (CustomHook(script),)
    return hook_objects(script)
