"""Rules: what a user writes (`Policy`), and what the engine makes of it at load (`Rule`)."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

from typing_extensions import Self

from otelhooks import types
from otelhooks.errors import ConfigError
from otelhooks.hooks.labels import UNKNOWN
from otelhooks.hooks.verdict import ALLOW, ASK, DENY
from otelhooks.policy import fingerprints, predicates
from otelhooks.policy.asking import BoundHandler, bind_handler
from otelhooks.policy.mcp.definitions import HINTS
from otelhooks.policy.selector_values import (
    Origins,
    WhenUser,
    read_labels,
    read_names,
    read_origins,
    read_user,
)
from otelhooks.policy.selectors import Selector, glob_matcher

if TYPE_CHECKING:
    from otelhooks.records.users import User

__all__ = [
    "SELECTORS",
    "AskUserHandler",
    "Decision",
    "Mode",
    "Policy",
    "Predicate",
    "Rule",
    "RuleSource",
    "Severity",
    "flatten_policies",
    "selection",
]

Predicate = Callable[[Any], Any] | Callable[[], Any]
"""Decides whether a rule applies: takes the argument dict, a model, the ToolCall, or nothing."""
AskUserHandler = Callable[..., bool | Awaitable[bool]]
"""Decides whether a call may run: takes the ToolCall, and optionally the rule's reason."""
Severity = Literal["low", "medium", "high", "critical"]
Mode = Literal["enforce", "monitor"]
SELECTORS = (
    "when_labels",
    "when_annotations",
    "unless_user_said",
    "when_user",
    "when_argument_from",
)
"""Parameters of rules by which they apply to fewer calls, besides tool, agent and `when`."""


class Decision(enum.Enum):
    """What a rule says about the calls that it matches."""

    APPROVE = "APPROVE"
    DENY = "DENY"
    ASK_USER = "ASK_USER"


_WORDS = {Decision.APPROVE: ALLOW, Decision.DENY: DENY, Decision.ASK_USER: ASK}
_RANK = {DENY: 0, ASK: 1, ALLOW: 2}


@dataclasses.dataclass(frozen=True)
class Policy:
    """A rule, as written.

    Attributes:
        tool: The calls that it is about; see `otelhooks.policy.selectors`.
        decision: What it says about them.
        when: Predicate that must hold; None for always.
        ask_user: Handler that is asked, for `Decision.ASK_USER`.
        name: Name in messages; the tool's name if empty.
        reason: Replaces the standard message; handlers get it.
        id: Stable name for spans, metrics and alerts; a hash of the rule if None.
        severity: For spans, metrics and alerts.
        mode: ``monitor`` records but does not enforce; None takes the mode of the set.
        agent: Glob on the branch of agents, such as ``orchestrator/*``; None for every agent.
        veto: A deny that comes before every other rule, in any mode.
        hide: A deny that also removes the tool's definition from model calls.
        when_labels: One of these labels must be in force; None for any; see
            `otelhooks.policy.label`.
        when_annotations: The tool's MCP server must have annotated it like this; not for a rule
            that allows. None for any tool.
        unless_user_said: Arguments; the rule does not apply if the user said every value of them,
            see `otelhooks.policy.values.spoken`. None for none; not for rules that allow.
        when_user: What the user must be, as pairs of ``id``, ``role`` or ``tenant`` and the values
            that fit; None for anyone.
        when_argument_from: Pairs of an argument and labels: a value of one of the arguments must
            have come from a result with one of its labels, see `otelhooks.policy.values.origins`.
            None for any; not for rules that allow.
        place: Where it is written, as ``file:line:column``; empty for code.

    Raises:
        ConfigError: A field is not understood.
    """

    tool: str
    decision: Decision
    when: Predicate | None = None
    ask_user: AskUserHandler | None = None
    name: str = ""
    reason: str = ""
    id: str | None = None
    severity: Severity | None = None
    mode: Mode | None = None
    agent: str | None = None
    veto: bool = False
    hide: bool = False
    when_labels: Collection[str] | None = None
    when_annotations: Mapping[str, bool] | None = None
    unless_user_said: Collection[str] | None = None
    when_user: WhenUser | None = None
    when_argument_from: Origins | None = None
    place: str = dataclasses.field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        tool: Any = self.tool
        if not isinstance(tool, str):
            raise ConfigError(f"`{tool!r}` is not a tool name", hint="give a text")
        object.__setattr__(self, "tool", str(types.normalize_builtin_tool_name(tool)))
        object.__setattr__(self, "_selector", Selector(self.tool))
        self._check("decision", self.decision, tuple(Decision))
        self._check("severity", self.severity, (None, *get_args(Severity)))
        self._check("mode", self.mode, (None, *get_args(Mode)))
        for field in ("name", "reason", "id", "agent"):
            value = getattr(self, field)
            if not isinstance(value, str) and (value is not None or field in {"name", "reason"}):
                raise ConfigError(f"rule `{self.label}`: {field} is not text: {value!r}")
        for field in ("when", "ask_user"):
            value = getattr(self, field)
            if value is not None and not callable(value):
                raise ConfigError(
                    f"rule `{self.label}`: `{field}` is not callable: {value!r}",
                    hint="give a function",
                )
        if (self.veto or self.hide) and self.decision is not Decision.DENY:
            raise ConfigError(f"rule `{self.label}`: only a deny can be a veto or hide a tool")
        if self.veto and self.mode == "monitor":
            raise ConfigError(
                f"rule `{self.label}`: a veto holds in any mode", hint="use `policy.deny`"
            )
        if self.agent is not None:
            glob_matcher(self.agent)
        if self.when_labels is not None:
            labels = read_labels(f"rule `{self.label}`: when_labels", self.when_labels)
            object.__setattr__(self, "when_labels", labels)
        if self.when_annotations is not None:
            self._check_annotations(self.when_annotations)
        if self.unless_user_said is not None:
            if self.decision is Decision.APPROVE:
                raise ConfigError(
                    f"rule `{self.label}` would allow what the user did not say",
                    hint="deny it with `unless_user_said`, and allow the tool without it",
                )
            names = read_names(f"rule `{self.label}`: unless_user_said", self.unless_user_said)
            object.__setattr__(self, "unless_user_said", names)
        if self.when_user is not None:
            pairs = read_user(f"rule `{self.label}`: when_user", self.when_user)
            object.__setattr__(self, "when_user", pairs)
        if self.when_argument_from is not None:
            if self.decision is Decision.APPROVE:
                raise ConfigError(
                    f"rule `{self.label}` would allow what came from a labelled result",
                    hint="deny it with `when_argument_from`, and allow the tool without it",
                )
            what = f"rule `{self.label}`: when_argument_from"
            origins = read_origins(what, self.when_argument_from)
            object.__setattr__(self, "when_argument_from", origins)

    def _check_annotations(self, given: Any) -> None:
        if self.decision is Decision.APPROVE:
            raise ConfigError(
                f"rule `{self.label}`: `when_annotations` cannot allow: annotations are the word "
                "of the tool's own server",
                hint="deny or ask for the other tools, or allow tools by name",
            )
        known = ", ".join(HINTS)
        if not isinstance(given, Mapping) or not given:
            raise ConfigError(
                f"rule `{self.label}`: `when_annotations` is not a mapping: {given!r}",
                hint=f"write {{annotation: true or false}}, with {known}",
            )
        annotations = cast("Mapping[Any, Any]", given)
        for name, value in annotations.items():
            if name not in HINTS:
                raise ConfigError(
                    f"rule `{self.label}`: unknown annotation `{name}`", hint=f"use one of {known}"
                )
            if not isinstance(value, bool):
                raise ConfigError(
                    f"rule `{self.label}`: annotation `{name}` is not true or false: {value!r}"
                )
        object.__setattr__(self, "when_annotations", dict(sorted(annotations.items())))

    def _check(self, field: str, value: object, known: Sequence[object]) -> None:
        if value not in known:
            words = ", ".join(str(word) for word in known if word is not None)
            raise ConfigError(
                f"rule `{self.label}`: unknown {field} `{value}`", hint=f"use one of {words}"
            )

    @property
    def auto(self) -> bool:
        """Whether a safety assessor should decide; see `AutoPolicy`."""
        return False

    @property
    def label(self) -> str:
        """Name of the rule in messages."""
        return self.name or self.tool

    @property
    def selector(self) -> Selector:
        """The tool part, parsed."""
        return self.__dict__["_selector"]

    def only_when(self, predicate: Predicate) -> Self:
        """Return a copy that applies only if `predicate` holds as well.

        Args:
            predicate: As ``when``.
        """
        when = predicate if self.when is None else predicates.AllOf(self.when, predicate)
        return dataclasses.replace(self, when=when)


class RuleSource(NamedTuple):
    """Rules that are one policy in telemetry, such as those of a file.

    Attributes:
        policy_id: A file's stem.
        version: Content hash of it.
        rules: In order; may be empty, so that a set's version depends on the source.
    """

    policy_id: str
    version: str
    rules: tuple[Policy, ...] = ()


BUILT_IN = "policy_files"
"""Policy id of the rules that guard policy files."""


class Rule:
    """A policy as the engine has it, with everything that can be known at load.

    Args:
        policy: What the user wrote.
        order: Place in load order, starts at 0.
        source: Policy id: a file's stem, or ``code``.
        version: Content hash of the source.
        mode: Mode of the set, for a policy that has none.
        id: Id of the rule within its source.
        identity: What approvals are for; see `identity`.

    Attributes:
        decision: ``allow``, ``deny`` or ``ask``.
        level: 0 to 8: exact deny, ask, allow; pattern deny, ...; a veto is -1.
        enforced: Whether it denies in any mode of the set and of the process.
        monitored: Whether it is recorded but not enforced.
        test: The predicate as a function of the argument dict, or of the call.
        wants_call: Which of the two.
        detail: What the predicate of a deny has found in a call, for the model; None for nothing.
        labels: One of these must be in force; None for any.
        annotations: Those that the tool must have; None for any.
        said: Arguments; the rule does not apply if the user said every value. None for none.
        user: What the user must be; None for anyone.
        origins: Where a value of one of these arguments must have come from; None for anywhere.
        listens: Whether it may look at what the user said.
        fits_branch: Whether the rule is for an agent; None for every agent.
        handler: Handler that is asked, as the user gave it.
        ask: The handler as a function of call and reason.

    Raises:
        ConfigError: Its predicate or handler cannot be called.
    """

    __slots__ = (
        "annotations",
        "ask",
        "decision",
        "detail",
        "enforced",
        "fits_branch",
        "handler",
        "hide",
        "id",
        "identity",
        "label",
        "labels",
        "level",
        "listens",
        "monitored",
        "order",
        "origins",
        "policy",
        "policy_id",
        "policy_version",
        "reason",
        "said",
        "selector",
        "severity",
        "test",
        "user",
        "wants_call",
    )

    def __init__(
        self,
        policy: Policy,
        *,
        order: int,
        source: str,
        version: str,
        mode: Mode,
        id: str,
        identity: str | None = None,
    ) -> None:
        self.policy: Policy = policy
        self.id: str = id
        self.identity: str = identity or id
        self.policy_id: str = source
        self.policy_version: str = version
        self.order: int = order
        self.label: str = policy.label
        self.reason: str = policy.reason
        self.severity: str | None = policy.severity
        self.selector: Selector = policy.selector
        self.enforced: bool = policy.veto or policy.mode == "enforce"
        self.hide: bool = policy.hide
        self.decision: str = _WORDS[policy.decision]
        self.level: int = (
            -1 if policy.veto else 3 * self.selector.specificity + _RANK[self.decision]
        )
        self.monitored: bool = not policy.veto and (policy.mode or mode) == "monitor"
        self.fits_branch: Callable[[str], object] | None = (
            None if policy.agent is None else glob_matcher(policy.agent)
        )
        self.labels: frozenset[str] | None = None
        if policy.when_labels is not None:
            # An allow rule must not see a label that it needs in a history that is unknown.
            strict = () if self.decision == ALLOW else (UNKNOWN,)
            self.labels = frozenset((*policy.when_labels, *strict))
        self.annotations: Mapping[str, bool] | None = policy.when_annotations
        said: Any = policy.unless_user_said
        self.said: tuple[str, ...] | None = said
        self.user: WhenUser | None = policy.when_user
        self.origins: Origins | None = policy.when_argument_from
        self.test: Callable[[Any], Any] | None = None
        self.wants_call: bool = False
        if policy.when is not None:
            self.test, self.wants_call = predicates.read(policy.when, policy.label)
        self.detail: Callable[[types.ToolCall], str] | None = None
        if isinstance(policy.when, predicates.Detailed):
            self.detail = policy.when.detail
        self.listens: bool = said is not None or self.wants_call
        self.handler: AskUserHandler | None = policy.ask_user
        self.ask: BoundHandler | None = None
        if policy.ask_user is not None:
            self.ask = bind_handler(policy.ask_user)

    @property
    def is_built_in(self) -> bool:
        """Whether it is a built-in rule that guards policy files."""
        return self.policy_id == BUILT_IN

    @property
    def can_deny(self) -> bool:
        """Whether this rule can hold a call up; a predicate that raises denies."""
        return not self.monitored and (self.decision != ALLOW or self.test is not None)

    @property
    def has_condition(self) -> bool:
        """Whether it depends on more than tool and agent if the rule applies."""
        given = (self.test, self.labels, self.annotations, self.said, self.user, self.origins)
        return any(each is not None for each in given)

    @property
    def is_conditional(self) -> bool:
        """Whether it depends on the call if the rule applies to a tool that it names."""
        return self.fits_branch is not None or self.has_condition

    def fits_user(self, user: User | None) -> bool:
        """Return whether `user` is one whom the rule is for.

        What is unknown of the user fits a rule that does not allow, and no rule that does.
        """
        if user is None:
            return self.decision != ALLOW
        for key, values in self.user or ():
            known = user.roles if key == "role" else (user.id if key == "id" else user.tenant,)
            if any(known):
                if not set(values).intersection(known):
                    return False
            elif self.decision == ALLOW:
                return False
        return True

    def __repr__(self) -> str:
        return f"Rule({self.policy_id}/{self.id}: {self.decision} {self.policy.tool})"


def rule_ids(policies: Sequence[Policy]) -> list[tuple[str, str]]:
    """Return the id and the identity of each rule of one source.

    An id that is not given is made of decision and label, such as ``deny:send_email``. If it would
    not be unique, a hash of what the rule does follows, so that order does not count; and a number,
    if the rules differ in their byte code alone.
    """
    names = [_made_id(policy) if policy.id is None else policy.id for policy in policies]
    times = collections.Counter(names)
    seen: collections.Counter[str] = collections.Counter()
    found: list[tuple[str, str]] = []
    for policy, name in zip(policies, names, strict=True):
        same = identity(policy)
        seen[same] += 1
        if policy.id is None:
            number = f"-{seen[same]}" if seen[same] > 1 else ""
            digest = same.rpartition("_")[2]
            name = f"{name}:{digest}{number}" if times[name] > 1 else name
            same += number
        found.append((name, same))
    return found


def _made_id(policy: Policy) -> str:
    word = "veto" if policy.veto else "hide" if policy.hide else _WORDS[policy.decision]
    return f"{word}:{policy.label}"


def identity(policy: Policy) -> str:
    """Return a rule's given id, or one made of its label and a hash of what it does.

    Approvals are for rules of one identity: the id that people see may pass to another rule.
    """
    if policy.id is not None:
        return policy.id
    word = _WORDS[policy.decision]
    when = fingerprints.describe(policy.when, code=False)
    agent = policy.agent or ""
    kind = f"{policy.veto}{policy.hide}"
    selects = [repr(each) for each in selection(policy) if each is not None]
    digest = fingerprints.digest(
        policy.tool, word, policy.name, agent, kind, when, *selects, length=8
    )
    return f"{'veto' if policy.veto else word}_{policy.label}_{digest}"


def content(policy: Policy) -> str:
    """Return a policy's whole content, as one text for the version of its source."""
    plain = {**policy.__dict__, "decision": policy.decision.value, "_selector": None}
    later = SELECTORS[1:]  # versions of policies without them stay what they were
    unused = [field for field in later if plain.get(field) is None]
    for field in ("when", "ask_user", "place", *unused):
        plain.pop(field, None)
    functions = (policy.when, policy.ask_user)
    described = (fingerprints.describe(each, code=True) for each in functions)
    return " ".join((repr(plain), *described))


def selection(policy: Policy) -> tuple[Any, ...]:
    """Return what a rule selects calls by besides tool, agent and `when`, as in `SELECTORS`."""
    return tuple(getattr(policy, name) for name in SELECTORS)


def flatten_policies(policies: Sequence[Policy | Sequence[Policy]]) -> list[Policy]:
    """Return rules and lists of rules as one list.

    Args:
        policies: Rules, and what builders for servers and presets return.

    Raises:
        ConfigError: Something in it is not a rule.
    """
    given: Any = policies
    if isinstance(given, Policy):
        raise ConfigError("a list of rules is wanted, not one rule", hint="write [rule]")
    flat: list[Policy] = []
    for entry in given:
        if isinstance(entry, Policy):
            flat.append(entry)
        elif isinstance(entry, Sequence) and not isinstance(entry, (str, bytes)):
            for policy in cast("Sequence[Any]", entry):
                if not isinstance(policy, Policy):
                    raise ConfigError(f"Expected Policy, got {type(policy)}")
                flat.append(policy)
        else:
            raise ConfigError(f"Expected Policy or Sequence of Policies, got {type(entry)}")
    return flat
