"""The policy that a tool works on: loaded as a program would load it, but never put in force."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otelhooks import types
from otelhooks.config import Config, values
from otelhooks.hooks.base import Hook
from otelhooks.hooks.gates import Gate
from otelhooks.hooks.registry import HookSet, registrations
from otelhooks.plain_text import counted
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.files import HookChain, Loaded, load_hooks
from otelhooks.policy.labels import Label
from otelhooks.policy.rules import Policy, flatten_policies
from otelhooks.policy_tools.dry_run import DryRun
from otelhooks.setup.policies import Policies

if TYPE_CHECKING:
    from otelhooks.policy.files.hook_script import HookScript
    from otelhooks.policy.files.source import Source
    from otelhooks.policy_tools.cases import Suite

__all__ = ["Subject", "counted"]


def _nobody(call: types.ToolCall) -> bool:
    """Replace the channel that a program would have: a dry run asks no person."""
    return False


# Scripts get neither the network nor tools, whatever the variables contain.
_CONFIG = Config(approvals=(_nobody,), sources={"mode": "default"})


@dataclasses.dataclass(frozen=True)
class Subject:
    """Policies that a tool works on.

    Attributes:
        policies: Rules and files.
        objects: Hook objects that were given directly.
    """

    policies: Policies
    objects: tuple[Any, ...] = ()

    @classmethod
    def open(cls, names: Sequence[str | os.PathLike[str]]) -> Subject:
        """Load policies.

        Args:
            names: Files, folders, packs and ``module:attribute``, as ``policies=`` takes them.

        Raises:
            PolicyFileError: A file cannot be used.
            ConfigError: A name leads nowhere, or to something that is not a policy.
        """
        return cls.of(values.policies(list(names), "POLICY"))

    @classmethod
    def of(cls, given: Iterable[Any]) -> Subject:
        """Return rules, lists of rules, hook objects and paths as a subject.

        Raises:
            ConfigError: One of them is something else, or cannot be used.
        """
        items = list(given)
        hooks = tuple(item for item in items if isinstance(item, Hook))
        others = [item for item in items if not isinstance(item, Hook)]
        return cls(Policies.load(others, _CONFIG), hooks)

    @classmethod
    def of_suite(cls, suite: Suite) -> Subject:
        """Return the rules that a suite of cases contains.

        Args:
            suite: One that has ``rules``.

        Raises:
            PolicyFileError: They cannot be understood.
        """
        from otelhooks.policy.files.rules import KEYS

        assert suite.rules is not None
        reader = next(key.kind for key in KEYS if key.name == "policies")
        found: list[Any] = reader.read(suite.rules, "`rules`")
        gates = tuple(item for item in found if isinstance(item, Gate))
        rules = flatten_policies([item for item in found if not isinstance(item, Gate)])
        said = Loaded((), (), gates, suite.default, suite.mode, ())
        return cls(Policies(tuple(rules), (), said))

    def with_rule(self, old: Policy, new: Policy) -> Subject:
        """Return the subject with a rule that replaces one of its own."""
        policies = self.policies
        rules = tuple(new if rule is old else rule for rule in policies.rules)
        files = policies.files
        if files is not None:
            of_files = tuple((new if rule is old else rule, at) for rule, at in files.rules)
            files = dataclasses.replace(files, rules=of_files)
        return dataclasses.replace(self, policies=policies._replace(rules=rules, files=files))

    @property
    def paths(self) -> tuple[Path, ...]:
        """Files and folders that were named, including those of packs."""
        return self.policies.paths

    @property
    def sources(self) -> tuple[Source, ...]:
        """Files that were read."""
        files = self.policies.files
        return () if files is None else files.sources

    @property
    def hooks(self) -> tuple[Any, ...]:
        """Hooks of files, then those that were given as objects, including limits and labels."""
        return (*self.policies.hooks, *self.objects)

    @property
    def gates(self) -> tuple[Gate, ...]:
        """Limits, budgets and labels."""
        return tuple(hook for hook in self.hooks if isinstance(hook, Gate))

    @property
    def labels(self) -> frozenset[str]:
        """Labels that its entries add, and its hook files by a name that they spell out."""
        added = {one for gate in self.gates if isinstance(gate, Label) for one in gate.adds}
        for script in self.scripts:
            added.update(re.findall(r"labels\.add\([\"'](.+?)[\"']", script.said.script.value))
        return frozenset(added)

    @property
    def size(self) -> str:
        """How many rules, limits, labels and hooks it has, as words."""
        labels = sum(isinstance(gate, Label) for gate in self.gates)
        hooks = len(self.hooks) - len(self.gates)
        limits = len(self.gates) - labels
        found = [counted(len(self.table().rules), "rule")]
        found += [counted(n, word) for n, word in ((limits, "limit"), (labels, "label")) if n]
        return ", ".join((*found, counted(hooks, "hook")))

    @property
    def scripts(self) -> tuple[HookScript, ...]:
        """Hook files, compiled, in the order in which they run."""
        return self._hook_files.scripts

    def table(
        self,
        servers: Sequence[types.BaseMcpServerConfig] = (),
        *,
        guarded: bool = False,
        mode: str = "",
    ) -> PolicySet:
        """Return the rules as the engine's table.

        Args:
            servers: Configurations of MCP servers.
            guarded: Whether to include the built-in guard of policy files, which depends on their
                location.
            mode: ``enforce`` or ``monitor``, whatever files say; if empty, what they say.
        """
        changes: dict[str, Any] = {
            "mcp_servers": tuple(servers),
            "allow_policy_writes": not guarded,
        }
        if mode:
            changes |= {"mode": mode, "sources": {"mode": "argument"}}
        return self.policies.table(_CONFIG.replace(**changes))

    def dry_run(
        self,
        servers: Sequence[types.BaseMcpServerConfig] = (),
        *,
        guarded: bool = False,
        mode: str = "",
    ) -> DryRun:
        """Return a dry run of the policy; parameters as for `table`."""
        table = self.table(servers, guarded=guarded, mode=mode)
        # Limits and labels depend on what went before, which a single call does not show.
        hooks = [hook for hook in self.hooks if not isinstance(hook, Gate)]
        registered = HookSet(found for hook in hooks for found in registrations(hook))
        limits = (gate.id for gate in self.gates)
        return DryRun(table, registered, monitor=table.mode == "monitor", limits=limits)

    def dispatch(self, event: str, payload: Mapping[str, Any]) -> tuple[str, dict[str, Any], str]:
        """Put an event to the hook files.

        Args:
            event: Such as ``tool.post``.
            payload: Not changed.

        Returns:
            Action, resulting payload, reason.

        Raises:
            ConfigError: The event does not exist.
        """
        action, after, reason = self._hook_files.dispatch(event, payload)
        return action, after, reason

    @functools.cached_property
    def _hook_files(self) -> HookChain:
        return load_hooks(self.paths)
