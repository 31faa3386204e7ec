"""A compiled set of rules: from a call to the few rules that can match it, and their decision.

Rules have nine levels: exact tool deny, ask, allow; pattern deny, ask, allow; ``*`` deny, ask,
allow; vetoes come before them. The first level with a rule whose predicate holds decides; within a
level, the rule that was registered first. All rules are scanned only when a tool's name is first
seen.

Decision code: a predicate that raises, or that changes the arguments in place, denies.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from otelhooks import types
from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import Call, copy_json, same_json
from otelhooks.hooks.drive import Raised, Run, escapes
from otelhooks.hooks.labels import UNKNOWN
from otelhooks.hooks.origins import Parts
from otelhooks.hooks.said import Message, Speaker
from otelhooks.hooks.verdict import ALLOW, ASK, DENY, RuleLike, Ruling, told
from otelhooks.policy import fingerprints
from otelhooks.policy.index import Index, Match, ServerList
from otelhooks.policy.mcp.definitions import may_be
from otelhooks.policy.predicates import check_numbers
from otelhooks.policy.rules import (
    Decision,
    Mode,
    Policy,
    Rule,
    RuleSource,
    content,
    flatten_policies,
    rule_ids,
)
from otelhooks.policy.selectors import EXACT
from otelhooks.policy.values.origins import came_from, outcome
from otelhooks.policy.values.spoken import all_said
from otelhooks.records.failures import says_all

if TYPE_CHECKING:
    from otelhooks.records.users import User

__all__ = ["PolicySet", "failure"]

_log = logging.getLogger("otelhooks.policy")

_TOOLS_KEPT = 16_384
"""Most names of tools that a set remembers; models invent names, so it must be bounded."""

_UNMATCHED = tuple(Ruling(ALLOW, evaluations=count) for count in range(16))
"""The outcome for a call that no rule matched, by the number of predicates that ran."""

Default = Literal["allow", "deny"]
Observations = tuple[tuple[str, RuleLike], ...]


class _Plan:
    """The rules' decision about one tool before the arguments are known.

    Attributes:
        rules: Rules that can match, in the order in which they are tried, up to one that always
            matches; each with whether it is a greedy ask, which only holds back what would be
            allowed.
        name: Name of the tool in messages.
        constant: The ruling, if only the tool matters for it; else None.
    """

    __slots__ = ("constant", "name", "rules")

    def __init__(self, matches: Iterable[Match], name: str) -> None:
        self.name = name
        tried: list[tuple[Rule, bool]] = []
        for rule, _, is_greedy in matches:
            only_holds_back = is_greedy and rule.decision == ASK
            tried.append((rule, only_holds_back))
            if not rule.is_conditional and not rule.monitored and not only_holds_back:
                break
        self.rules = tuple(tried)
        self.constant: Ruling | None = None
        if not any(rule.is_conditional for rule, _ in tried):
            self.constant = self._constant()

    def _constant(self) -> Ruling:
        observed: Observations = ()
        held: tuple[Rule, ...] = ()
        for rule, only_holds_back in self.rules:
            if only_holds_back:
                held += (rule,)
            elif not rule.monitored or rule.decision == ALLOW:
                return self.ruling(rule, observed, 0, held)
            else:
                observed += ((rule.decision, rule),)
        return self.ruling(None, observed, 0, held)

    def ruling(
        self,
        rule: Rule | None,
        observed: Observations,
        evaluations: int,
        held: tuple[Rule, ...],
    ) -> Ruling:
        """Return the ruling of a rule that matches.

        Args:
            rule: None if no rule matches.
            observed: Rules that were only recorded on the way there.
            evaluations: How many predicates ran.
            held: Greedy asks that match; they count if the call would be allowed.
        """
        if rule is None or rule.decision == ALLOW:
            for ask in held:
                if not ask.monitored:
                    rule = ask
                    break
                observed += ((ASK, ask),)
        if rule is None:
            return Ruling(ALLOW, None, "", None, observed, evaluations)
        if rule.decision == DENY:
            message = rule.reason or f"Denied by policy '{rule.label}'."
            return Ruling(DENY, rule, message, None, observed, evaluations)
        if rule.decision == ASK:
            message = rule.reason or f"User denied tool '{self.name}' (policy '{rule.label}')."
            return Ruling(ASK, rule, message, None, observed, evaluations)
        return Ruling(ALLOW, rule, "", None, observed, evaluations)


class PolicySet:
    """Rules of one or several sources, as one table; the `Judge` of a point.

    Immutable: changes make a new set, and an evaluation ends with the set that it started with.

    Args:
        rules: Rules and lists of rules, in load order.
        mcp_servers: Configurations of servers; their ``enabled_tools`` and ``disabled_tools`` deny.
        default: Decision if no rule matches.
        mode: For rules that have none of their own; ``monitor`` records but does not enforce.
        source: Policy id of these rules: a file's stem, or ``code``.
        sources: More rules, loaded after these, each with the id and version of its source.
        default_source: Policy id of the source that sets the default; `source` if None.
        channel: Whether an approval channel answers for ask rules without a handler.

    Attributes:
        rules: All rules, in load order.
        given: The same without the built-in ones, which guard policy files.
        version: Content hash, 12 hexadecimal digits.
        can_deny: Whether any call can be denied or must wait.
        can_hide: Whether any tool's definition is kept from the model.
        names_tools: Whether a rule that denies or asks names one tool.
        needs_context: Whether rules read the operation's context, for its labels, the user, what
            the user said, or where values came from.
        listens: Whether rules may look at what the user said.
        traces: Whether rules look at where values came from.
        reads_annotations: Whether rules look at the annotations of MCP tools.
        logs_failures: Whether a rule that cannot be evaluated is logged, once.

    Raises:
        ConfigError: A rule cannot be understood, or asks without an approver and is enforced.

    Example:
        >>> from otelhooks import policy
        >>> from otelhooks.hooks.calls import Call
        >>> from otelhooks.hooks.drive import drive
        >>> rules = PolicySet([policy.deny("run_command")])
        >>> drive(rules.evaluate(Call("run_command", {}))).message
        "Denied by policy 'run_command'."
    """

    def __init__(
        self,
        rules: Sequence[Policy | Sequence[Policy]] = (),
        *,
        mcp_servers: Sequence[types.BaseMcpServerConfig] | None = None,
        default: Default = "allow",
        mode: Mode = "enforce",
        source: str = "code",
        sources: Sequence[RuleSource] = (),
        default_source: str | None = None,
        channel: bool = False,
    ) -> None:
        if default not in get_args(Default):
            raise ConfigError(f"unknown default `{default}`", hint="use one of allow, deny")
        if mode not in get_args(Mode):
            raise ConfigError(f"unknown mode `{mode}`", hint="use one of enforce, monitor")
        self.default: Default = default
        self.mode: Mode = mode
        self.mcp_servers: tuple[types.BaseMcpServerConfig, ...] = tuple(mcp_servers or ())
        self._channel = channel
        self._source = default_source or source
        self._said: set[tuple[str, ...]] = set()
        self._versions = {each.policy_id: each.version for each in sources}
        entries = [(policy, source) for policy in flatten_policies(rules)]
        entries += [(policy, each.policy_id) for each in sources for policy in each.rules]
        self._load(entries)

    def _load(self, entries: list[tuple[Policy, str]]) -> None:
        for policy, _ in entries:
            if (
                policy.decision is Decision.ASK_USER
                and policy.ask_user is None
                and not self._channel
                and (policy.mode or self.mode) == "enforce"
            ):
                raise ConfigError(
                    f"ASK_USER policy '{policy.label}' is missing an ask_user handler."
                    " Provide one via policy.ask_user(tool, handler=...)."
                )
        self._entries = entries
        contents: dict[str, list[str]] = {}
        for policy, source in entries:
            if source not in self._versions:
                contents.setdefault(source, []).append(content(policy))
        versions = {s: fingerprints.digest(*texts, length=12) for s, texts in contents.items()}
        versions |= self._versions
        ids = {s: iter(rule_ids([p for p, source in entries if source == s])) for s in versions}
        rules: list[Rule] = []
        for order, (policy, source) in enumerate(entries):
            own, same = next(ids[source])
            rules.append(
                Rule(
                    policy,
                    order=order,
                    source=source,
                    version=versions[source],
                    mode=self.mode,
                    id=own,
                    identity=same,
                )
            )
        self.rules: tuple[Rule, ...] = tuple(rules)
        servers = [ServerList(config, mode=self.mode) for config in self.mcp_servers]
        settings = (self.default, self.mode, *(repr(config) for config in self.mcp_servers))
        pairs = [f"{source}={version}" for source, version in versions.items()]
        self.version: str = fingerprints.digest(*settings, *pairs, length=12)
        self._fallback: tuple[Rule, ...] = ()
        if self.default == "deny":
            version = self._versions.get(self._source, "")
            self._fallback = (_default_deny(self._source, version, self.mode, len(rules)),)
        self.given: tuple[Rule, ...] = tuple(r for r in self.rules if not r.is_built_in)
        self._index = Index(self.rules, servers)
        everything = (*self.rules, *self._fallback, *(s.rule for s in servers if s.is_limiting))
        self.can_deny: bool = any(rule.can_deny for rule in everything)
        self.can_hide: bool = any(rule.hide for rule in everything)
        self.names_tools: bool = any(
            rule.selector.specificity == EXACT and rule.decision != ALLOW for rule in self.rules
        )
        self.needs_context: bool = any(
            not (rule.labels is rule.said is rule.user is rule.origins is None)
            for rule in self.rules
        )
        self.listens: bool = any(rule.listens for rule in self.rules)
        self.traces: bool = any(rule.origins is not None for rule in self.rules)
        self.reads_annotations: bool = any(rule.annotations is not None for rule in self.rules)
        self._plans: dict[tuple[Any, ...], _Plan] = {}
        self._lock = threading.Lock()

    @staticmethod
    def outcome(result: Any, error: BaseException | None) -> Parts | None:
        """Return what rules about origins remember of a tool's result; None if that is unknown."""
        return outcome(result, error)

    def with_rules(
        self, rules: Sequence[Policy | Sequence[Policy]], *, source: str = "code"
    ) -> PolicySet:
        """Return a set that has these rules as well, loaded last.

        Args:
            rules: As for the constructor.
            source: Their policy id.
        """
        added = [(policy, source) for policy in flatten_policies(rules)]
        return self._with([*self._entries, *added])

    def without(self, *rules: Policy | Rule) -> PolicySet:
        """Return a set without these rules.

        Args:
            rules: As they were given, or as the set has them; equal rules match.

        Raises:
            ConfigError: The set does not contain one of them.
        """
        entries = list(self._entries)
        for rule in rules:
            policy = rule.policy if isinstance(rule, Rule) else rule
            kept = [entry for entry in entries if entry[0] is not policy]
            if len(kept) == len(entries):
                kept = [entry for entry in entries if entry[0] != policy]
            if len(kept) == len(entries):
                raise ConfigError(f"no rule `{policy.label}` is loaded", hint="see `.rules`")
            entries = kept
        return self._with(entries)

    def _with(self, entries: list[tuple[Policy, str]]) -> PolicySet:
        new = PolicySet.__new__(PolicySet)
        new.default, new.mode = self.default, self.mode
        new.mcp_servers, new._channel, new._source = self.mcp_servers, self._channel, self._source
        new._said, new._versions = self._said, self._versions
        new._load(entries)
        return new

    on_tool: Callable[[Call], object] | None = None
    """Called with a tool before it is judged for the first time; must not raise."""
    logs_failures: bool = True

    def constant(self, call: Call) -> Ruling | None:
        """Return the ruling about a call if only the tool matters for it; else None."""
        key = (
            call.name,
            call.server,
            call.claimed_server,
            call.server_says,
            call.canonical,
            call.kind,
        )
        plan = self._plans.get(key)
        return plan.constant if plan is not None else None

    def constant_for(self, record: types.ToolCall) -> Ruling | None:
        """Do the same for a record that was passed to a hook."""
        plan = self._plans.get((str(record.name), record.server_name, False, None, (), None))
        return plan.constant if plan is not None else None

    def evaluate(self, call: Call, context: Any = None) -> Generator[Run, Any, Ruling]:
        """Decide about a call.

        Yields only for asynchronous predicates. `KeyboardInterrupt`, `SystemExit` and cancellation
        escape; anything else that a predicate raises denies.

        Args:
            call: The call with its final arguments; predicates see a copy of them.
            context: The operation's context, in which rules read labels, user, what the user said,
                and where values came from. Without it, only what the call's record has is known.

        Returns:
            The ruling; must not be changed, because it may be shared.
        """
        key = (
            call.name,
            call.server,
            call.claimed_server,
            call.server_says,
            call.canonical,
            call.kind,
        )
        plan = self._plans.get(key) or self._plan(key)
        if plan.constant is not None:
            return plan.constant
        observed: Observations = ()
        evaluations = 0
        view: Any = None
        held: tuple[Rule, ...] = ()
        for rule, only_holds_back in plan.rules:
            if rule.fits_branch is not None and not rule.fits_branch(call.branch):
                continue
            if rule.labels is not None and rule.labels.isdisjoint(_labels(context)):
                continue
            if rule.annotations is not None and not may_be(call, rule.annotations):
                continue
            if rule.user is not None and not rule.fits_user(_user(call, context)):
                continue
            if rule.said is not None and all_said(call.args, rule.said, _said(call, context)):
                continue
            if rule.origins is not None and not came_from(call.args, rule.origins, context):
                continue
            test = rule.test
            if test is not None:
                evaluations += 1
                try:
                    if view is None:
                        view = copy_json(call.args) if call.foreign is None else _no_view(call)
                        check_numbers(view)
                    subject = call.record() if rule.wants_call else view
                    matches = test(subject)
                    if type(matches) is not bool:
                        while inspect.isawaitable(matches):  # an `await` may be forgotten
                            matches = yield _wait(matches)
                            if type(matches) is Raised:
                                raise matches.error
                        matches = bool(matches)
                    if subject is not view or view != call.args:
                        _check(call, view, subject)
                except BaseException as error:
                    if escapes(error):
                        raise
                    self._log_failure(rule, error)
                    if view is not None and rule.wants_call:
                        _restore(call, view)
                    if not rule.monitored:
                        message = failure(rule, error)
                        return Ruling(DENY, rule, message, error, observed, evaluations)
                    observed += ((DENY, rule),)
                    view = None  # the predicate may have changed it
                    continue
                if not matches:
                    continue
            if only_holds_back:
                held += (rule,)
            elif not rule.monitored or rule.decision == ALLOW:
                ruling = plan.ruling(rule, observed, evaluations, held)
                if rule.detail is not None and rule.decision == DENY:
                    ruling.reason = ruling.message
                    ruling.message = told(rule, ruling.reason, call.record())
                return ruling
            else:
                observed += ((rule.decision, rule),)
        if not held and not observed and evaluations < len(_UNMATCHED):
            return _UNMATCHED[evaluations]
        return plan.ruling(None, observed, evaluations, held)

    @property
    def asked(self) -> set[Rule]:
        """Rules that were tried, or were next to be tried, for any judged call."""
        with self._lock:
            plans = list(self._plans.values())
        return {rule for plan in plans for rule, _ in plan.rules}

    def hides(self, tool: Call) -> Rule | None:
        """Return the rule that removes a tool's definition from model calls, or None.

        A hiding rule counts only if it would deny whatever the arguments are.

        Args:
            tool: A call of it; the arguments do not matter.
        """
        for rule, _, is_greedy in self.candidates(tool):
            if is_greedy and rule.decision == ASK:
                continue
            if rule.fits_branch is not None and not rule.fits_branch(tool.branch):
                continue
            if rule.monitored and rule.decision != ALLOW:
                continue
            if not rule.has_condition:
                return rule if rule.hide else None
            if rule.decision != DENY:
                return None
        return None

    def candidates(self, call: Call) -> tuple[Match, ...]:
        """Return the rules that can match a tool, in the order in which they are tried.

        Args:
            call: A call of the tool; the arguments and the agent do not matter.
        """
        fallback = (Match(rule, rule.level) for rule in self._fallback)
        return (*self._index.candidates(call), *fallback)

    def _plan(self, key: tuple[Any, ...]) -> _Plan:
        name, server, claimed, says, canonical, kind = key
        call = Call(
            name,
            {},
            server=server,
            claimed_server=claimed,
            server_says=says,
            canonical=canonical,
            kind=kind,
        )
        local = not (server or claimed or says)
        todays_name = types.normalize_builtin_tool_name(name) if local else name
        plan = _Plan(self.candidates(call), str(todays_name))
        with self._lock:
            while len(self._plans) >= _TOOLS_KEPT:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = plan
        if self.on_tool is not None:
            self.on_tool(call)
        return plan

    def _log_failure(self, rule: Rule, error: BaseException) -> None:
        key = ("failed", rule.policy_id, rule.id, type(error).__qualname__)
        if self.logs_failures and key not in self._said:
            self._said.add(key)
            _log.error(
                "rule `%s` of policy `%s` could not be evaluated and denies: %s\n"
                "hint: give the call to `otelhooks policy explain`, which shows why",
                rule.id,
                rule.policy_id,
                error if says_all(error) else type(error).__qualname__,  # not its text: content
            )


def _default_deny(source: str, version: str, mode: Mode, order: int) -> Rule:
    """Return the rule for ``default="deny"``."""
    policy = Policy("*", Decision.DENY, name="default", id="default")
    return Rule(policy, order=order, source=source, version=version, mode=mode, id="default")


def _labels(context: Any) -> frozenset[str]:
    """Return the labels in force; they are unknown without a context."""
    return _NO_CONTEXT if context is None else context.labels


_NO_CONTEXT = frozenset((UNKNOWN,))


def _user(call: Call, context: Any) -> User | None:
    """Return the user, as the context knows or else the record that was passed to a hook."""
    known = None if context is None else context.user
    return known if known is not None or call.recorded is None else call.recorded.user


def _said(call: Call, context: Any) -> tuple[Message, ...]:
    """Return what the user said, as the context knows or else such a record."""
    known = () if context is None else context.messages()
    if known or call.recorded is None:
        return known
    texts = call.recorded.prompts or (call.recorded.prompt,)
    return tuple(Message(text, Speaker()) for text in texts if text is not None)


def _wait(awaitable: Any) -> Run:
    return Run(lambda: awaitable)


def _no_view(call: Call) -> dict[str, Any]:
    msg = f"no tool call but {type(call.foreign).__qualname__}"
    raise TypeError(msg)


def _check(call: Call, view: dict[str, Any], subject: Any) -> None:
    """Raise if a predicate changed its argument in place: the copy, or the call itself."""
    if subject is view or subject.args is not call.args or not same_json(view, call.args):
        msg = "`when` changed the arguments in place"
        raise ValueError(msg)


def _restore(call: Call, view: dict[str, Any]) -> None:
    """Restore the arguments that a failed predicate was given, in the same objects."""
    call.args.clear()
    call.args.update(copy_json(view))


def failure(rule: RuleLike, error: BaseException) -> str:
    """Return the message for the model when a predicate or a handler has failed.

    Args:
        rule: The rule that it belongs to.
        error: What it raised.
    """
    try:
        text = repr(error)
    except Exception:  # the exception's own code may raise anything
        text = type(error).__qualname__
    return f"Policy evaluation failed for policy '{rule.label}': {text}"
