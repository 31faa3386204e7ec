"""A policy that decides without effects: the pipeline's own decision, but nothing else happens.

It asks no person, runs no tool and sends no telemetry, and limits count in a memory of their own.
The generators that decide in a running program decide here; this module only drives them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, cast

from otelhooks import types
from otelhooks.hooks import points
from otelhooks.hooks.calls import Call, copy_json
from otelhooks.hooks.context import OperationContext, SessionContext, TurnContext
from otelhooks.hooks.drive import Run, drive
from otelhooks.hooks.registry import HookSet, Registration
from otelhooks.hooks.said import Message, Speaker
from otelhooks.hooks.verdict import ALLOW, Approval, RuleLike, Verdict
from otelhooks.hooks.watch import Watch
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.files.hook_script import HookScript
from otelhooks.policy.rules import Rule
from otelhooks.policy.scripting.starlark import CallExpression, Expression
from otelhooks.policy.values.origins import outcome

__all__ = ["DryRun", "Judgement", "Tested"]


@dataclass(frozen=True, slots=True)
class Tested:
    """One predicate that was tested on a call.

    Attributes:
        rule: The rule that it belongs to.
        value: Its answer; None if it raised, or is asynchronous.
        error: What it raised.
    """

    rule: Rule
    value: bool | None
    error: BaseException | None


@dataclass(slots=True)
class Judgement:
    """A policy's decision about one call.

    Attributes:
        call: The call with the arguments that would run.
        given: Arguments before any hook changed them.
        verdict: The pipeline's verdict.
        tested: Predicates that ran, in order.
        hooks: Hooks that ran, in order.
        passed_over: Hook files whose condition did not hold.
        context: The context in which it was decided about.
        asked_user: Whether a rule looked at the user, or at what the user said.
        asked_results: Whether a rule looked at results of tools.
    """

    call: Call
    given: dict[str, Any]
    verdict: Verdict
    tested: list[Tested] = field(default_factory=list[Tested])
    hooks: list[Registration] = field(default_factory=list[Registration])
    passed_over: list[Registration] = field(default_factory=list[Registration])
    context: OperationContext | None = None
    asked_user: bool = False
    asked_results: bool = False

    @property
    def decision(self) -> str:
        """``allow``, ``deny``, ``ask`` or ``modify``: what would happen."""
        approval = self.verdict.approval
        if approval is not None and approval.approved and self.verdict.allowed:
            return ALLOW
        return self.verdict.decision

    @property
    def needs_args(self) -> bool:
        """Whether anything that ran may have read the arguments."""
        ran = self.tested or self.hooks or self.passed_over
        return bool(ran or self.asked_user or self.asked_results)

    @property
    def observed(self) -> str:
        """The strictest decision that monitor mode only recorded; ``allow`` for none."""
        words = [seen.decision for seen in self.verdict.observed]
        return next((word for word in ("deny", "ask") if word in words), ALLOW)


class DryRun:
    """Puts calls to a policy.

    Args:
        rules: The table of rules; its predicates are watched from here on, so it must not be in use
            elsewhere.
        hooks: Hooks besides the rules; conditions of hook files are watched as well.
        monitor: Whether everything is only recorded.
        limits: Ids of the limits, which it does not keep.
    """

    def __init__(
        self,
        rules: PolicySet,
        hooks: HookSet,
        *,
        monitor: bool = False,
        limits: Iterable[str] = (),
    ) -> None:
        self.rules = rules
        rules.logs_failures = False  # results have them
        self.hooks = hooks
        self.limits: frozenset[str] = frozenset(limits)
        self._monitor = monitor
        self._tested: list[Tested] = []
        for rule in rules.rules:
            if rule.test is not None:
                rule.test = _watched(rule, self._tested)
        for registration in hooks.all:
            script = _script(registration)
            if script is not None and script.when is not None:
                script.when = cast("Expression", _WatchedWhen(script.when))

    def doubts(self, labels: Iterable[str]) -> Iterator[str]:
        """Yield hints about labels that no rule looks at, if rules look at any."""
        known: set[str] = set()
        for rule in self.rules.rules:
            known.update(rule.labels or (), *(names for _, names in rule.origins or ()))
        for label in labels:
            if known and label not in known:
                near = get_close_matches(label, known, n=1)
                meant = (
                    f"did you mean `{near[0]}`?" if near else f"known: {', '.join(sorted(known))}"
                )
                yield f"hint: no rule looks at a label `{label}`: {meant}"

    def judge(
        self,
        call: Call,
        labels: Sequence[str] = (),
        *,
        prompts: Sequence[str] = (),
        user: types.User | None = None,
        results: Sequence[tuple[str, Any]] = (),
        approves: bool = False,
    ) -> Judgement:
        """Decide about a call.

        Args:
            call: Ends with the arguments that would run.
            labels: Labels in force when the call is made.
            prompts: What the user said in the conversation; the last one in this turn.
            user: The user; None if unknown.
            results: Pairs of a label and all that results with it contained; without them, any
                value may have come from results with a label in force.
            approves: Whether approvers would say yes; otherwise they refuse.
        """
        given = copy_json(call.args)
        turn = TurnContext(SessionContext())
        context = OperationContext(turn)
        context.serve(user)
        context.hear(*(Message(text, Speaker()) for text in prompts))
        place = {"agent": call.agent, "branch": call.branch}
        said = {"prompt": context.prompt, "prompts": context.prompts, "user": user}
        call.place = lambda: {**place, **said}
        for label, result in results:
            earlier = OperationContext(turn)
            earlier.call = call
            earlier.add_label(label)
            earlier.come(outcome(result))
        for label in labels:
            if label not in context.labels:
                context.add_label(label)
        context.know(tool_name=call.name, agent_name=call.agent, branch=call.branch)
        watch = _DryWatch(approves)
        self._tested.clear()
        verdict = drive(
            points.pre_tool_call(
                self.hooks.at("pre_tool_call"), context, call, watch, (self.rules,), self._monitor
            )
        )
        tested = list(self._tested)
        selected = self._selects(call, context.labels, verdict)
        return Judgement(
            call,
            given,
            verdict,
            tested,
            watch.ran,
            watch.passed_over,
            context,
            asked_user=any(map(_asks_user, tested)) or "user" in selected,
            asked_results="results" in selected,
        )

    def _selects(self, call: Call, labels: frozenset[str], verdict: Verdict) -> set[str]:
        """Return whether rules up to the one that decides look at ``user`` and ``results``."""
        found: set[str] = set()
        for rule, _, _ in self.rules.candidates(call):
            is_apart = rule.fits_branch is not None and not rule.fits_branch(call.branch)
            if is_apart or (rule.labels is not None and rule.labels.isdisjoint(labels)):
                continue
            if not (rule.said is rule.user is None):
                found.add("user")
            if any(not labels.isdisjoint(names) for _, names in rule.origins or ()):
                found.add("results")
            if (rule.policy_id, rule.id) == (verdict.policy_id, verdict.rule_id):
                break
        return found


def _asks_user(tested: Tested) -> bool:
    when = tested.rule.policy.when
    return isinstance(when, CallExpression) and not when.names.isdisjoint(_OF_USER)


_OF_USER = ("prompt", "prompts", "user")


def _script(registration: Registration) -> HookScript | None:
    return getattr(registration.hook, "script", None)


class _WatchedWhen:
    """The condition of a hook file, which remembers its last answer."""

    def __init__(self, when: Expression) -> None:
        self._when = when
        self.held = True

    def of_plain(self, *values: Any) -> Any:
        self.held = True  # if it raises: the hook decides then
        value = self._when.of_plain(*values)
        self.held = bool(value)
        return value


class _DryWatch(Watch):
    """Asks no person, and remembers which hooks ran."""

    def __init__(self, approves: bool) -> None:
        self.ran: list[Registration] = []
        self.passed_over: list[Registration] = []
        self._status = "approved" if approves else "rejected"

    def hook_ran(self, registration: Registration, seconds: float) -> None:
        script = _script(registration)
        when: Any = None if script is None else script.when
        (self.ran if when is None or when.held else self.passed_over).append(registration)

    def hook_failed(self, registration: Registration, error: BaseException) -> None:
        """Do nothing: the verdict has the failure."""

    def approve(
        self, rules: Sequence[RuleLike], call: Call, context: Any, decision_id: str = ""
    ) -> Generator[Run, Any, Approval]:
        approval = Approval(self._status)
        approval.rules, approval.args = tuple(rules), copy_json(call.args)
        return approval
        yield  # a generator that asks nothing


def _watched(rule: Rule, tested: list[Tested]) -> Any:
    """Return a rule's predicate as one that records its answers."""
    test: Any = rule.test

    def watched(subject: Any) -> Any:
        try:
            value = test(subject)
        except BaseException as error:
            tested.append(Tested(rule, None, error))
            raise
        tested.append(Tested(rule, value if isinstance(value, bool) else None, None))
        return value

    return watched
