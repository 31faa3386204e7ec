"""A loaded set of rules as a YAML policy file, which loads as a set with the same verdicts.

Decision code: a rule is never written without its condition. The text is read back and compared
before it is returned.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from otelhooks.errors import ConfigError
from otelhooks.hooks.gates import Gate
from otelhooks.plain_text import is_unseen
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.files.document import is_plain, parse
from otelhooks.policy.files.protection import POLICY_ID as PROTECTION
from otelhooks.policy.files.rules import FORMAT_VERSION, read_entry, written
from otelhooks.policy.files.statements import STATEMENTS
from otelhooks.policy.labels import Label
from otelhooks.policy.rules import Decision, Policy, Rule
from otelhooks.policy.scripting.starlark import Expression
from otelhooks.policy.shells.rules import Found, shell_only
from otelhooks.policy.values.unseen import find_unseen
from otelhooks.policy.workspace import Outside, workspace_only

__all__ = ["export"]

_WORDS = {Decision.APPROVE: "allow", Decision.DENY: "deny", Decision.ASK_USER: "ask"}


@dataclasses.dataclass
class _Part:
    """Some rules of the set, or a gate, as one entry.

    Attributes:
        rules: The rules that it contains.
        entry: The entry as written; None if YAML cannot express it.
        why: What YAML cannot express.
    """

    rules: Sequence[Rule | Gate]
    entry: dict[str, Any] | None = None
    why: str = ""


def export(rules: PolicySet, gates: Iterable[Gate] = (), *, leave_out: bool = False) -> str:
    """Return a set as the text of a YAML policy file.

    Args:
        rules: The set.
        gates: Limits, budgets and labels beside it.
        leave_out: Whether rules that YAML cannot express are named in a comment instead.

    Raises:
        ConfigError: The set has rules that YAML cannot express: conditions and handlers in Python,
            tool lists of MCP servers.
    """
    parts = [*_parts(rules), *(_gate(gate) for gate in gates)]
    for part in parts:
        if part.entry is not None and not _comes_back(part):
            part.entry, part.why = None, "YAML cannot express it"
    servers = [s.name for s in rules.mcp_servers if s.enabled_tools or s.disabled_tools]
    unsaid = [f"{_name(part)}: {part.why}" for part in parts if part.entry is None]
    unsaid += [f"server `{name}`: its tool lists are in code" for name in servers]
    if unsaid and not leave_out:
        raise ConfigError(
            f"not all of the set can be written as YAML: {'; '.join(unsaid)}",
            hint="write conditions in Starlark, or leave these out of the export",
        )
    header: dict[str, Any] = {"version": FORMAT_VERSION}
    if rules.default != "allow":
        header["default"] = rules.default
    if rules.mode != "enforce":
        header["mode"] = rules.mode
    lines = [_dump(header), "policies:\n" if any(p.entry for p in parts) else "policies: []\n"]
    source = ""
    for part in parts:
        if part.entry is None:
            lines.append(_comment(f"left out: {_name(part)}: {part.why}"))
            continue
        if part.rules[0].policy_id != source:
            source = part.rules[0].policy_id
            lines.append(_comment(f"from `{source}`, version {part.rules[0].policy_version}"))
        lines.append(_dump([part.entry]))
    lines += [_comment(f"left out: server `{name}`: its tool lists") for name in servers]
    return "".join(lines)


def _parts(rules: PolicySet) -> list[_Part]:
    parts: list[_Part] = []
    pending = [rule for rule in rules.rules if rule.policy_id != PROTECTION]
    while pending:
        part = _workspace(pending) or _shell(pending) or _rule(pending[0])
        parts.append(part)
        del pending[: len(part.rules)]
    return parts


def _workspace(rules: list[Rule]) -> _Part | None:
    """Return the rules of one ``workspace_only`` at the start of a list, None if there is none."""
    first = rules[0].policy.when
    if not isinstance(first, Outside):
        return None
    run: list[Rule] = []
    tools: dict[str, Any] = {}
    for rule in rules:
        when = rule.policy.when
        if not isinstance(when, Outside) or when.workspaces != first.workspaces:
            break
        if when.arguments:
            tools[rule.policy.tool] = when.arguments
        run.append(rule)
    dirs = [workspace.path for workspace in first.workspaces]
    while run and workspace_only(dirs, tools) != [rule.policy for rule in run]:
        tools.pop(run.pop().policy.tool, None)
    if not run:
        return None
    statement = STATEMENTS["workspace_only"]
    written = {key.name: key.kind.write(tools) for key in statement.options if tools}
    return _Part(run, {"workspace_only": statement.kind.write(dirs), **written})


def _shell(rules: list[Rule]) -> _Part | None:
    """Return the rules of one ``shell_only`` at the start of a list, None if there is none."""
    first = rules[0].policy.when
    if not isinstance(first, Found):
        return None
    dirs = [workspace.path for workspace in first.workspaces]
    wanted = shell_only(dirs, first.programs, first.runs)
    run = rules[: len(wanted)]
    if [rule.policy for rule in run] != wanted:
        return None
    statement = STATEMENTS["shell_only"]
    given = {"programs": sorted(first.programs), "runs": first.runs}
    written = {
        key.name: key.kind.write(given[key.name])
        for key in statement.options
        if given[key.name] not in ([], "allow")
    }
    return _Part(run, {"shell_only": statement.kind.write(dirs), **written})


def _rule(rule: Rule) -> _Part:
    policy = rule.policy
    if policy.when is not None and not isinstance(policy.when, Expression):
        return _Part([rule], why="its condition is Python")
    if policy.ask_user is not None:
        return _Part([rule], why="its handler is Python")
    word = "veto" if policy.veto else "hide" if policy.hide else _WORDS[policy.decision]
    return _Part([rule], _entry(word, policy.tool, vars(policy)))


def _entry(word: str, tool: str | list[str], values: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {word: tool}
    for key in STATEMENTS[word].options:
        value = values.get(key.name)
        if value is not None and value != "":
            entry[key.name] = key.kind.write(value)
    return entry


def _gate(gate: Gate) -> _Part:
    if isinstance(gate, Label):
        name = gate.label if gate.label != gate.tools[0] else ""
        values = {"adds": gate.adds, "per": gate.per, "id": gate.id, "name": name}
        tools = gate.tools[0] if len(gate.tools) == 1 else list(gate.tools)
        return _Part([gate], _entry("label", tools, values))
    entry = written(gate)
    return _Part([gate], entry, "" if entry else "its numbers are in code")


def _comes_back(part: _Part) -> bool:
    """Return whether reading an entry returns the same rules."""
    try:
        found = read_entry(parse(_dump(part.entry), ""))
    except ConfigError:
        return False
    wanted = [each.policy if isinstance(each, Rule) else each for each in part.rules]
    return len(found) == len(wanted) and all(map(_is_same, found, wanted))


def _is_same(found: Policy | Gate, wanted: Policy | Gate) -> bool:
    if isinstance(found, Label) and isinstance(wanted, Label):
        return _facts(found) == _facts(wanted)
    if isinstance(found, Gate) and isinstance(wanted, Gate):
        return written(found) == written(wanted)
    return found == wanted


def _facts(label: Label) -> tuple[Any, ...]:
    return label.tools, label.adds, label.per, label.id, label.label


def _name(part: _Part) -> str:
    return f"`{part.rules[0].id}` of `{part.rules[0].policy_id}`"


def _comment(text: str) -> str:
    return f"# {''.join('?' if is_unseen(char) else char for char in text)}\n"


class _Dumper(yaml.SafeDumper):
    """Writes texts so that every YAML tool reads them as texts."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write every value in full."""
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else None if is_plain(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _dump(value: Any) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    if find_unseen(text) >= 0:
        text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=False, width=100)
    return text
