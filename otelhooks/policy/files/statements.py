"""What an entry of ``policies:`` may contain: one table for loader, schema and export."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from otelhooks.hooks.gates import Gate
from otelhooks.hooks.labels import Lasting
from otelhooks.policy import builders, presets
from otelhooks.policy.files.document import Node
from otelhooks.policy.files.kinds import (
    AMOUNT,
    COUNT,
    FLAG,
    GLOB,
    LINE,
    PRICE,
    TEXT,
    TOOL,
    Key,
    Kind,
    checked,
    choice,
    list_of,
    map_of,
    record,
)
from otelhooks.policy.files.when import WHEN
from otelhooks.policy.labels import label
from otelhooks.policy.limits.budgets import Budget, Unknown
from otelhooks.policy.limits.limit import OnBreach, OnError, Per
from otelhooks.policy.limits.quotas import Of, RateLimit, Repeat
from otelhooks.policy.mcp.definitions import HINTS
from otelhooks.policy.rules import Mode, Policy, Severity
from otelhooks.policy.selector_values import read_labels, read_origins, read_user
from otelhooks.policy.shells.rules import Runs, check_program, shell_only
from otelhooks.policy.workspace import workspace_only

__all__ = ["PRESETS", "STATEMENTS", "Statement"]


@dataclasses.dataclass(frozen=True)
class Statement:
    """A word that an entry may start with, the kind of its value, and the keys that go with it.

    Attributes:
        word: Such as ``deny``.
        kind: Kind of its value.
        about: One sentence, for the schema and for documentation.
        options: Other keys of the entry.
        build: Returns the rules or gates for the word's value and the given options.
    """

    word: str
    kind: Kind
    about: str
    options: tuple[Key, ...]
    build: Callable[[Any, Mapping[str, Any]], Sequence[Policy | Gate]]

    @functools.cached_property
    def entry(self) -> Kind:
        """The kind of an entry that starts with the word."""
        return record(Key(self.word, self.kind, self.about, required=True), *self.options)

    def read(self, node: Node) -> Sequence[Policy | Gate]:
        """Return the rules or gates of an entry.

        Raises:
            ConfigError: It cannot be understood.
        """
        options = self.entry.read(node, f"`{self.word}`")
        return self.build(options.pop(self.word), options)


_WHEN = Key("when", WHEN, "Starlark expression that must hold; `args` is the call's arguments.")
_LABELS = list_of(checked(LINE, lambda text: read_labels("labels", text)))
_WHEN_LABELS = Key("when_labels", _LABELS, "One of these labels must be in force.")
_WHEN_ANNOTATIONS = Key(
    "when_annotations",
    record(*(Key(name, FLAG, "What the tool's MCP server must have said.") for name in HINTS)),
    "Only tools of MCP servers that are annotated like this, or whose annotations are not known.",
)
_UNLESS_USER_SAID = Key(
    "unless_user_said",
    list_of(LINE),
    "Arguments; the rule does not apply if the user said every value of them.",
)
_USER = record(
    Key("id", list_of(LINE), "The user's id, or one of several."),
    Key("role", list_of(LINE), "A role of the user's, or one of several."),
    Key("tenant", list_of(LINE), "The user's tenant, or one of several."),
)
_WHEN_USER = Key(
    "when_user",
    Kind(
        _USER.schema,
        lambda node, what: read_user(what, _USER.read(node, what)),
        lambda pairs: {key: list_of(LINE).write(values) for key, values in pairs},
    ),
    "What the user must be; what is unknown of the user fits rules that do not allow.",
)
_ORIGINS = map_of(_LABELS)
_WHEN_ARGUMENT_FROM = Key(
    "when_argument_from",
    Kind(
        _ORIGINS.schema,
        lambda node, what: read_origins(what, _ORIGINS.read(node, what)),
        lambda pairs: _ORIGINS.write(dict(pairs)),
    ),
    "Arguments and labels; a value of one of them must have come from a result with its label.",
)
_AGENT = Key("agent", GLOB, "Glob on the branch of agents that the rule is for.")
_ID = Key("id", LINE, "Stable name in telemetry; without it a hash of the rule.")
_NAME = Key("name", LINE, "What messages call the rule.")
_REASON = Key("reason", TEXT, "What the model and the approver see.")
_SEVERITY = Key("severity", choice(*get_args(Severity)), "For alerts.")
_MODE = Key(
    "mode", choice(*get_args(Mode)), "`monitor` records the decision and does not enforce it."
)
_HIDE = (_AGENT, _ID, _NAME, _REASON, _SEVERITY, _MODE)
_RULE = (_WHEN, _WHEN_LABELS, _WHEN_USER, *_HIDE)
_STRICT = (_WHEN_ANNOTATIONS, _UNLESS_USER_SAID, _WHEN_ARGUMENT_FROM, *_RULE)


def _rules(builder: Callable[..., Any]) -> Callable[[Any, Mapping[str, Any]], list[Policy]]:
    """Return a function that builds one rule for each tool of a list.

    If there are several, each one's id and name end in its tool, as with the builders.
    """

    def build(tools: Sequence[str], options: Mapping[str, Any]) -> list[Policy]:
        own = ("id", "name") if len(tools) > 1 else ()
        rules: list[Policy] = []
        for tool in tools:
            named = {key: f"{options[key]}_{tool}" for key in own if key in options}
            rules.append(builder(tool, **{**options, **named}))
        return rules

    return build


def _labels(tools: Sequence[str], options: Mapping[str, Any]) -> list[Gate]:
    return [label(tools, **options)]


def _limit(value: Mapping[str, Any], options: Mapping[str, Any]) -> list[Gate]:
    return [RateLimit(**value, **options)]


def _budget(value: Mapping[str, Any], options: Mapping[str, Any]) -> list[Gate]:
    return [Budget(**value, **options)]


def _repeat(value: Mapping[str, Any], options: Mapping[str, Any]) -> list[Gate]:
    return [Repeat(**value, **options)]


def _workspace(dirs: Sequence[str], options: Mapping[str, Any]) -> list[Policy]:
    return workspace_only(dirs, options.get("tools"))


def _shell(dirs: Sequence[str], options: Mapping[str, Any]) -> list[Policy]:
    return shell_only(dirs, options.get("programs", ()), options.get("runs", "allow"))


_TOOLS = list_of(TOOL)
_PER = Key("per", choice(*get_args(Per)), "What is counted together; `session` if not given.")
_STORAGE = Key("storage", LINE, "`memory`, or the address of a Redis for several processes.")
_ON_BREACH = Key(
    "on_breach",
    choice(*get_args(OnBreach)),
    "`ask` asks the approval channel about each further tool call; `deny` if not given.",
)
_ON_ERROR = Key(
    "on_error", choice(*get_args(OnError)), "What holds where the count cannot be reached."
)
_LIMIT = (_ID, _NAME, _REASON, _SEVERITY, _MODE)
_PRICE = (
    Key("input", PRICE, "US dollars per million input tokens.", required=True),
    Key("output", PRICE, "US dollars per million output tokens.", required=True),
    Key("cache_read", PRICE, "The same for tokens read from a cache."),
    Key("cache_write", PRICE, "The same for tokens written to a cache."),
)
_ABOVE = record(
    Key("tokens", COUNT, "Input tokens of a call above which these prices hold.", required=True),
    *_PRICE,
)
_PRICES = map_of(record(*_PRICE, Key("above", _ABOVE, "Prices of calls with more input.")), GLOB)
STATEMENTS = {
    statement.word: statement
    for statement in (
        Statement("allow", _TOOLS, "Let calls run.", _RULE, _rules(builders.allow)),
        Statement("deny", _TOOLS, "Refuse calls.", _STRICT, _rules(builders.deny)),
        Statement("block", _TOOLS, "The same as `deny`.", _STRICT, _rules(builders.deny)),
        Statement(
            "ask",
            _TOOLS,
            "Ask the approval channel before calls run.",
            _STRICT,
            _rules(builders.ask_user),
        ),
        Statement("ask_user", _TOOLS, "The same as `ask`.", _STRICT, _rules(builders.ask_user)),
        Statement(
            "veto",
            _TOOLS,
            "Refuse calls before any other rule is looked at, in any mode.",
            tuple(key for key in _STRICT if key is not _MODE),
            _rules(builders.veto),
        ),
        Statement(
            "hide",
            _TOOLS,
            "Keep a tool's definition from the model where that is possible, and refuse its calls.",
            _HIDE,
            _rules(builders.hide),
        ),
        Statement(
            "workspace_only",
            list_of(LINE),
            "Keep file tools inside directories, relative to the working directory.",
            (
                Key(
                    "tools",
                    map_of(list_of(LINE), TOOL),
                    "More file tools: name to the arguments that are its paths.",
                ),
            ),
            _workspace,
        ),
        Statement(
            "shell_only",
            list_of(LINE),
            "Let shells run known programs on files of these directories, and ask about some.",
            (
                Key(
                    "programs",
                    list_of(checked(LINE, check_program)),
                    "More programs that may run, as long as no argument leads outside.",
                ),
                Key(
                    "runs",
                    choice(*get_args(Runs)),
                    "What to do about programs that run code of the workspace; `allow` if missing.",
                ),
            ),
            _shell,
        ),
        Statement(
            "label",
            _TOOLS,
            "Mark the conversation when the tool runs; `when_labels` reads it.",
            (
                Key("adds", _LABELS, "The labels.", required=True),
                Key("per", choice(*get_args(Lasting)), "How long they last."),
                _ID,
                _NAME,
            ),
            _labels,
        ),
        Statement(
            "limit",
            record(
                Key("turns", COUNT, "User messages that may be answered."),
                Key("tool_calls", COUNT, "Tool calls that may run."),
                _PER,
                _STORAGE,
                _ON_BREACH,
                _ON_ERROR,
            ),
            "Deny turns or tool calls once there have been enough of them.",
            _LIMIT,
            _limit,
        ),
        Statement(
            "repeat",
            record(
                Key("calls", COUNT, "Number of the call that is denied: 3 lets two run."),
                Key(
                    "of",
                    choice(*get_args(Of)),
                    "`arguments` counts calls of a tool with the same arguments, `tool` all of"
                    " its calls; `arguments` if not given.",
                ),
                Key("per", choice(*get_args(Lasting)), "`turn` if not given."),
                _STORAGE,
                _ON_BREACH,
                _ON_ERROR,
            ),
            "Deny the same tool call once it has run often enough.",
            _LIMIT,
            _repeat,
        ),
        Statement(
            "budget",
            record(
                Key("tokens", COUNT, "Tokens, input and output."),
                Key("cost_usd", AMOUNT, "US dollars."),
                Key("prices", _PRICES, "Name or glob of a model to its prices; list prices else."),
                Key(
                    "unknown",
                    choice(*get_args(Unknown)),
                    "What holds where a price or the usage is not known.",
                ),
                _PER,
                _STORAGE,
                Key("on_breach", _ON_BREACH.kind, "Only `deny`: a budget cannot ask."),
                _ON_ERROR,
            ),
            "Deny model calls once others have used enough.",
            _LIMIT,
            _budget,
        ),
    )
}
"""Words that an entry may start with."""

PRESETS: dict[str, tuple[str, Callable[[], Policy | list[Policy]]]] = {
    "allow_all": ("Let every call run that no other rule denies or asks about.", presets.allow_all),
    "deny_all": ("Refuse every call that no more specific rule lets run.", presets.deny_all),
    "confirm_run_command": ("Refuse `run_command`, let the rest run.", presets.confirm_run_command),
    "safe_defaults": (
        "Let tools run that only read, ask for the rest.",
        lambda: presets.safe_defaults(None),
    ),
}
"""Entries that are one word: their sentence, and their rules."""
