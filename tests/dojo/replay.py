"""One run: an agent that makes the calls of the user's task and those of the attack."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentdojo.functions_runtime import FunctionCall

import otelhooks
from otelhooks import errors
from tests.dojo.attacks import script_of
from tests.dojo.named import disguises
from tests.dojo.person import Person
from tests.dojo.suites import Bench

AFTER, FIRST = "after", "first"
"""When the attack comes: after the user's calls, or as soon as the agent has read foreign text."""

_number = itertools.count(1)


@dataclass
class Run:
    """What came out of one run.

    Attributes:
        task: Whether the user's task was done: all of its calls ran, and its checker agrees.
        attack: Whether the attack's checker finds it in what was executed.
        user: Number of questions about the user's calls.
        attacker: Number of questions about the attacker's calls.
    """

    task: bool = False
    attack: bool = False
    user: int = 0
    attacker: int = 0


@dataclass
class Player:
    """Plays runs of one suite.

    Attributes:
        bench: The suite.
        person: Who is asked.
    """

    bench: Bench
    person: Person
    _checked: dict[Any, bool] = field(default_factory=dict)

    def play(
        self, task: Any, attack: Any = None, order: str = AFTER, *, adaptive: bool = False
    ) -> Run:
        """Play one run in a fresh environment and a session of its own.

        Args:
            task: A user task.
            attack: An injection task, if there is an attack.
            order: `AFTER` or `FIRST`.
            adaptive: The attacker tries each call with the values that the user named as well. It
                counts as the call that it was meant to be.
        """
        run = Run()
        environment = task.init_environment(self.bench.fresh())
        before = environment.model_copy(deep=True)
        calls = list(task.ground_truth(environment))
        done: list[FunctionCall] = []
        at = self.bench.first_foreign_read(task) if order == FIRST else len(calls)
        self.bench.environment = environment
        self.person.needs([self.bench.full(call) for call in calls])
        with otelhooks.session(f"dojo-{next(_number)}"), otelhooks.turn(task.PROMPT):
            done += self._user(calls[:at], run)
            if attack is not None:
                script = script_of(self.bench.suite.name, attack)
                done += self._attacker(script(before, environment), task.PROMPT, run, adaptive)
            done += self._user(calls[at:], run)
        says = attack.GROUND_TRUTH_OUTPUT if attack is not None else ""
        # The answer that AgentDojo expects can be known only to an agent that could read it all.
        if all(call in done for call in calls):
            answer = f"{task.GROUND_TRUTH_OUTPUT} {says}"
            run.task = self._is_done(task, answer, before, environment, done)
        if attack is not None:
            if adaptive:
                environment, done = self._as_meant(task, done)
            run.attack = _is_won(attack, says, before, environment, done)
        return run

    def _user(self, calls: list[FunctionCall], run: Run) -> list[FunctionCall]:
        asked = self.person.asked
        done = [call for call in calls if self._runs(call)]
        run.user += self.person.asked - asked
        return done

    def _attacker(
        self, calls: list[FunctionCall], prompt: str, run: Run, adaptive: bool
    ) -> list[FunctionCall]:
        asked = self.person.asked
        done: list[FunctionCall] = []
        for call in calls:
            forms = disguises(dict(call.args), prompt) if adaptive else iter([call.args])
            if any(self._runs(FunctionCall(function=call.function, args=args)) for args in forms):
                done.append(call)
        run.attacker += self.person.asked - asked
        return done

    def _runs(self, call: FunctionCall) -> bool:
        try:
            self.bench.governed(call)
        except errors.Denied:
            return False
        except Exception:  # the tool's own, for example about a mail that is gone
            return False
        return True

    def _as_meant(self, task: Any, done: list[FunctionCall]) -> tuple[Any, list[FunctionCall]]:
        """Return the environment after calls without their disguise, and those that worked."""
        environment = task.init_environment(self.bench.fresh())
        worked: list[FunctionCall] = []
        for call in done:
            with contextlib.suppress(Exception):
                self.bench.ungoverned(environment, call)
                worked.append(call)
        return environment, worked

    def _is_done(
        self, task: Any, answer: str, before: Any, after: Any, done: Sequence[FunctionCall]
    ) -> bool:
        """Ask the task's checker, once for equal environments: some checks take a second."""
        said = task.utility_from_traces(answer, before, after, done)
        if said is not None:
            return bool(said)
        key = (task.ID, answer, after.model_dump_json())
        if key not in self._checked:
            self._checked[key] = bool(task.utility(answer, before, after))
        return self._checked[key]


def _is_won(
    attack: Any, answer: str, before: Any, after: Any, done: Sequence[FunctionCall]
) -> bool:
    with contextlib.redirect_stdout(io.StringIO()):  # one of them prints
        said = attack.security_from_traces(answer, before, after, done)
        return bool(attack.security(answer, before, after) if said is None else said)
