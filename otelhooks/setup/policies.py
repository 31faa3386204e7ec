"""What ``policies=`` contains: rules that are objects, and files; as one table for the engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from otelhooks.errors import ConfigError, PolicyFileError
from otelhooks.hooks.gates import Gate
from otelhooks.hooks.registry import Registration, is_observed
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.rules import Decision, Policy, RuleSource, flatten_policies

if TYPE_CHECKING:
    from otelhooks.config import Config
    from otelhooks.policy.evaluate import Default
    from otelhooks.policy.files import Loaded

__all__ = ["Policies", "refuse_unanswered"]

_HINT = (
    "give instrument() `approvals=`, or set OTELHOOKS_APPROVALS, for example to"
    " otelhooks.approvals:Terminal"
)


class Policies(NamedTuple):
    """Rules and policy files in force; immutable, a change makes a new one.

    Attributes:
        rules: Rules that were given as objects, in order.
        paths: Policy files and folders, absolute.
        files: Their content; None if there are no paths.
    """

    rules: tuple[Policy, ...] = ()
    paths: tuple[Path, ...] = ()
    files: Loaded | None = None

    @classmethod
    def load(cls, given: Sequence[Any], config: Config) -> Policies:
        """Return the policies that rules, lists of rules and paths describe.

        Args:
            given: As in `otelhooks.config.Config.policies`, without hooks.
            config: The settings that policy files need.

        Raises:
            ConfigError: A rule or file cannot be understood.
        """
        paths = tuple(item for item in given if isinstance(item, Path))
        rules = flatten_policies([item for item in given if not isinstance(item, Path)])
        return cls(tuple(rules), paths, _read(paths, config))

    def with_rules(self, rules: Sequence[Any]) -> Policies:
        """Return these policies and more rules."""
        return self._replace(rules=(*self.rules, *flatten_policies(rules)))

    def without(self, rules: Sequence[Any]) -> Policies:
        """Return these policies without some rules that were given as objects.

        Raises:
            ConfigError: One of them was not given as an object.
        """
        kept = list(self.rules)
        for rule in flatten_policies(rules):
            index = next((i for i, each in enumerate(kept) if each is rule), None)
            if index is None and rule not in kept:
                raise ConfigError(
                    f"no rule `{rule.label}` is loaded", hint="rules of files are changed there"
                )
            del kept[kept.index(rule) if index is None else index]
        return self._replace(rules=tuple(kept))

    def read_again(self, config: Config) -> Policies:
        """Return these policies with the files as they are now; unchanged limits keep their counts.

        Raises:
            ConfigError: A file cannot be understood.
        """
        from otelhooks.policy.files.rules import keep_counts

        files = _read(self.paths, config)
        if files is not None and self.files is not None:
            files = dataclasses.replace(
                files, hooks=tuple(keep_counts(files.hooks, self.files.hooks))
            )
        return self._replace(files=files)

    @property
    def written(self) -> tuple[Policy, ...]:
        """All rules except those of the built-in guard of policy files."""
        of_files = () if self.files is None else self.files.rules
        return (*self.rules, *(rule for rule, _ in of_files))

    @property
    def hooks(self) -> tuple[Any, ...]:
        """Hooks, limits and labels of the files."""
        return () if self.files is None else self.files.hooks

    @property
    def versions(self) -> dict[str, str]:
        """Policy id to version, of every file."""
        sources = () if self.files is None else self.files.sources
        return {source.policy_id: source.version for source in sources}

    @property
    def places(self) -> list[str]:
        """Files and folders that define the policies: a change in one changes the policies."""
        sources = () if self.files is None else self.files.sources
        return [*map(str, self.paths), *(source.path for source in sources)]

    def describe(self) -> str:
        """Return files and their versions as text for logs."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())

    def mode(self, config: Config) -> Literal["enforce", "monitor"]:
        """Return the mode in force: a setting's, else the files', else the default."""
        of_files = None if self.files is None else self.files.mode
        mode = of_files if of_files and config.sources["mode"] == "default" else config.mode
        return cast("Literal['enforce', 'monitor']", mode)

    def only_files_monitor(self, config: Config) -> bool:
        """Return whether files ask for monitor mode: it is then theirs, and not for code."""
        return self.mode(config) == "monitor" and config.sources["mode"] == "default"

    def refuse_unanswered(
        self, given: Iterable[tuple[Any, list[Registration]]], config: Config
    ) -> None:
        """Refuse limits made in code that ask when there is no approver.

        Args:
            given: Hooks that are being registered, with their registrations.
            config: The settings.

        Raises:
            ConfigError: There is such a limit, and it is enforced.
        """
        if not config.approvals:
            monitor = self.mode(config) == "monitor" and not self.only_files_monitor(config)
            refuse_unanswered((r for _, found in given for r in found), monitor=monitor)

    def table(self, config: Config) -> PolicySet:
        """Return the rules as the engine needs them, with the guard of policy files.

        Raises:
            ConfigError: A rule, or a limit of a file, is enforced and asks, but there is no
                approver.
        """
        files, mode = self.files, self.mode(config)
        if files is not None and not config.approvals:
            _refuse_questions(files, mode)
        default = cast("Default", files.default) if files and files.default else "allow"
        sources = [] if files is None else _sources(files)
        guarded = [*self.places, *([] if config.mcp_pins is None else [str(config.mcp_pins.path)])]
        if guarded and not config.allow_policy_writes:
            from otelhooks.policy.files import protection

            sources.append(protection.protect(guarded, monitor=mode == "monitor"))
        rules = self.rules
        if self.only_files_monitor(config):
            rules = tuple(dataclasses.replace(rule, mode=rule.mode or "enforce") for rule in rules)
        return PolicySet(
            rules,
            mcp_servers=config.mcp_servers or (),
            default=default,
            mode=mode,
            sources=sources,
            default_source=_default_source(files),
            channel=bool(config.approvals),
        )


def _default_source(files: Loaded | None) -> str | None:
    source = None if files is None else files.default_source
    return None if source is None else source.policy_id


def _sources(files: Loaded) -> list[RuleSource]:
    """Return the rules of files, each with its file; files of hooks have none."""
    rules: dict[str, list[Policy]] = {source.policy_id: [] for source in files.sources}
    for rule, source in files.rules:
        rules[source.policy_id].append(rule)
    return [
        RuleSource(source.policy_id, source.version, tuple(rules[source.policy_id]))
        for source in files.sources
    ]


def _refuse_questions(files: Loaded, mode: str) -> None:
    """Refuse rules and limits of files that ask when there is no approver.

    Files cannot name a handler. In monitor mode they ask no person.

    Raises:
        PolicyFileError: There is such a rule or limit.
    """
    asking = [
        (f"rule `{rule.label}`", rule.place)
        for rule, _ in files.rules
        if rule.decision is Decision.ASK_USER and (rule.mode or mode) == "enforce"
    ]
    asking += [
        (f"limit `{gate.label}`", gate.place)
        for gate in files.hooks
        if isinstance(gate, Gate) and gate.can_ask and (gate.mode or mode) == "enforce"
    ]
    for what, place in asking:
        path, line, column = place.rsplit(":", 2)
        raise PolicyFileError(
            path,
            int(line),
            int(column),
            f"{what} asks, but there is no approval channel",
            hint=_HINT,
        )


def refuse_unanswered(found: Iterable[Registration], *, monitor: bool) -> None:
    """Refuse limits made in code that ask, because there is no approver.

    Args:
        found: What is being registered.
        monitor: Whether those without a mode of their own are only observed; they ask no person.

    Raises:
        ConfigError: There is such a limit.
    """
    for each in found:
        if each.gate is not None and each.gate.can_ask and not is_observed(each, monitor):
            raise ConfigError(
                f"limit `{each.gate.label}` asks, but there is no approval channel", hint=_HINT
            )


def _read(paths: tuple[Path, ...], config: Config) -> Loaded | None:
    if not paths:
        return None
    from otelhooks.policy.files import load

    return load(paths, http_allow=config.http_allow, hook_tools=config.hook_tools)
