"""New policies: files that load, pass `check`, do nothing yet, and have a first case."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from otelhooks.errors import ConfigError
from otelhooks.policy.files.events import check_event
from otelhooks.policy.files.source import RESERVED

__all__ = ["new_policy", "write_new"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_HOOK = """\
---
event: {event}
priority: 100
description: Say in one sentence what this hook is for.
script: |
  def handle(event, payload):
      # return block("why, and what to do instead") to refuse{rewrite}
      return allow()
---
# {name}

What it does, why, and what it cannot do.
"""

_HOOK_CASES = """\
suite: {name}
cases:
  - name: nothing is blocked yet
    event: {event}
    payload: {payload}
    verdict: allow
"""

_RULES = """\
# yaml-language-server: $schema=policy.schema.json
# `otelhooks policy schema > policy.schema.json` writes the schema that editors check this file by.
version: 1
policies:
  - deny: run_command
    when: '"rm -rf" in str(args)'  # each framework names the argument as it likes
    id: no-rm
    reason: Deleting files is not allowed here; list them instead.
    severity: high
"""

_RULE_CASES = """\
suite: {name}
cases:
  - name: deleting is refused
    call: {{tool: run_command, args: {{CommandLine: rm -rf build}}}}
    verdict: deny
    rule: no-rm
  - name: listing is not
    call: {{tool: run_command, args: {{CommandLine: ls}}}}
    verdict: allow
"""

_PAYLOADS = {
    "tool.pre": "{name: view_file, args: {path: notes.txt}}",
    "tool.post": "{name: view_file, content: what the tool returned, is_error: false}",
    "turn.start": "{prompt: what the user says}",
    "turn.end": "{text: what the agent answers}",
    "completion.pre": "{model: a-model, messages: [], tools: []}",
    "completion.post": "{content: what the model answers, tool_calls: []}",
    "delegation.pre": "{agent: researcher, task: look it up}",
    "delegation.post": "{agent: researcher, content: what it found}",
    "error": "{error: ValueError, message: what went wrong}",
}


_REWRITES = {
    "tool.pre": '{"args": {...}}',
    "tool.post": '{"content": "..."}',
    "turn.start": '{"prompt": "..."}',
    "turn.end": '{"text": "..."}',
    "completion.pre": '{"messages": [...]}',
    "completion.post": '{"content": "..."}',
    "delegation.pre": '{"task": "..."}',
    "delegation.post": '{"content": "..."}',
}


def new_policy(name: str, folder: Path, *, is_yaml: bool, event: str) -> dict[Path, str]:
    """Return the files of a new policy: the policy, and its cases.

    Args:
        name: Letters, digits, ``_`` and ``-``; telemetry's name for the policy.
        folder: Target folder.
        is_yaml: Rules in YAML instead of a hook file.
        event: Event of the hook file.

    Raises:
        ConfigError: The name cannot be a file name, or the event is unknown.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"`{name}` is not a valid policy name", hint="use letters, digits, `_` and `-`"
        )
    if name in RESERVED:
        raise ConfigError(
            f"`{name}` is what telemetry calls rules that are in no file", hint="take another name"
        )
    cases = folder / "cases" / f"{name}.yaml"
    if is_yaml:
        return {folder / f"{name}.yaml": _RULES, cases: _RULE_CASES.format(name=name)}
    check_event(event)
    fields = {
        "name": name,
        "event": event,
        "payload": _PAYLOADS.get(event, "{}"),
        "rewrite": f", modify({_REWRITES[event]}) to rewrite" if event in _REWRITES else "",
    }
    return {folder / f"{name}.md": _HOOK.format(**fields), cases: _HOOK_CASES.format(**fields)}


def write_new(files: Mapping[Path, str], *, replace: bool = False) -> list[Path]:
    """Write files, all of them or none, each in one step.

    Args:
        files: Each with its text; missing folders are created.
        replace: Whether files of these names may be there already. A link is replaced, not what it
            leads to.

    Returns:
        Their paths.

    Raises:
        ConfigError: One already exists, or cannot be written.
    """
    for path in files:
        if os.path.lexists(path) and not replace:
            raise ConfigError(f"`{path}` already exists", hint="take another name")
    drafts: dict[Path, Path] = {}
    reserved: list[Path] = []
    path = Path()
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            drafts[path] = _draft(path, text)
        for path in files if not replace else ():
            path.open("x").close()  # another process may have made it by now
            reserved.append(path)
        for path, draft in drafts.items():
            draft.replace(path)
    except BaseException as error:
        for each in (*reserved, *drafts.values()):
            with contextlib.suppress(OSError):
                each.unlink()
        if isinstance(error, OSError):
            message = f"`{path}` cannot be written: {error.strerror or error}"
            raise ConfigError(message) from error
        raise
    return list(files)


def _draft(path: Path, text: str) -> Path:
    """Write a text beside its place; policies that every user may write would not be loaded."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    draft = Path(name)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        draft.chmod(0o644)
    except BaseException:
        draft.unlink()
        raise
    return draft
