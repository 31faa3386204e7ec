"""Runs that pause until people have answered, and go on in any process: for each framework alike.

A module of a framework subclasses `Parking`, and is a program as well, so that another process can
begin a run or go on with it: ``python -m tests.frameworks.test_x_parked FOLDER ARGUMENTS``.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import otelhooks
from otelhooks import approvals, policy
from otelhooks.approvals.questions import Answer, Question
from otelhooks.approvals.store_questions import StoreQuestions
from otelhooks.records import semconv

PAUSED = "(paused)"
REASON = "Money leaves."


class World:
    """What a run leaves in a folder: its state, and what its tool did.

    Args:
        folder: Where it is.
        amount: What the model wants to pay.
        tool_dies: Whether the process is killed as soon as the tool has begun.
        state: Name of the file with the run's state.
    """

    def __init__(
        self, folder: Path, amount: int = 5, tool_dies: bool = False, state: str = "state"
    ) -> None:
        self.folder, self.amount, self._tool_dies = folder, amount, tool_dies
        self.state = folder / state

    def pay(self, amount: int) -> str:
        """Pay an amount."""
        with (self.folder / "paid").open("a") as file:
            file.write(f"{amount}\n")
        if self._tool_dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"paid {amount}"

    @property
    def paid(self) -> list[int]:
        """What the tool has paid, in whatever process."""
        file = self.folder / "paid"
        return [*map(int, file.read_text().split())] if file.exists() else []

    @property
    def questions(self) -> StoreQuestions:
        return StoreQuestions(self.folder / "questions.db")

    def asked(self) -> list[Question]:
        """The questions that are open."""
        return [one for one in self.questions.all() if one.status == "pending"]

    def answer(self, status: str = "approved", edit: dict[str, Any] | None = None) -> None:
        """Answer the one question that is open."""
        [question] = self.asked()
        self.questions.answer(question, Answer(status, "u-17", edit))


def rules() -> dict[str, Any]:
    """Return what `instrument` gets in every process."""
    return {"policies": [policy.ask_user("pay", reason=REASON)], "approval_timeout": 60}


Play = Callable[[World, str], str]
"""Begins a run, or goes on with it, by what the framework is told: ``yes``, ``no`` or ``nothing``;
returns the model's last word, or `PAUSED`."""


def main(play: Play) -> None:
    """Begin or resume a run, as another process."""
    given = json.loads(sys.argv[1])
    said = given.pop("said")
    world = World(Path(given.pop("folder")), **given)
    queue = approvals.Queue(world.folder / "questions.db", park=True)
    otelhooks.instrument(approvals=queue, **rules())
    print(play(world, said), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def elsewhere(module: str, world: World, said: str = "yes", **given: Any) -> str:
    """Begin a run, or go on with it, in a process that is killed; return what it printed."""
    about = json.dumps({"folder": str(world.folder), "said": said, **given})
    command = [sys.executable, "-m", module, about]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.strip()


class Parking:
    """What holds for every framework that can pause."""

    play: Play
    module: str
    can_refuse = True
    """Whether the framework itself can refuse a call when it goes on."""

    @pytest.fixture
    def world(self, tmp_path: Path) -> World:
        return World(tmp_path)

    @pytest.fixture
    def on(self, providers: Any, world: World) -> Callable[..., Any]:
        def instrument(**settings: Any) -> Any:
            queue = approvals.Queue(world.folder / "questions.db", park=True)
            return otelhooks.instrument(**{**rules(), "approvals": queue, **providers, **settings})

        return instrument

    def begun(self, world: World) -> None:
        """Begin a run that pauses."""
        assert type(self).play(world, "nothing") == PAUSED
        assert world.paid == []

    def resumed(self, world: World, said: str = "yes") -> str:
        return type(self).play(world, said)

    # -- one process ------------------------------------------------------------------------------

    def test_an_approved_call_runs_under_the_same_decision(
        self, on: Any, world: World, exporter: Any, log_exporter: Any
    ) -> None:
        on()
        self.begun(world)
        world.answer()
        assert self.resumed(world) == "done"
        assert world.paid == [5]
        spans = exporter.get_finished_spans()
        [span] = [one for one in spans if one.name == "execute_tool pay"]
        [asked] = [one for one in spans if one.name == "otelhooks.approval.request pay"]
        assert span.attributes[semconv.POLICY_DECISION] == "ask"
        assert span.attributes[semconv.APPROVAL_STATUS] == "approved"
        assert span.attributes[semconv.APPROVAL_APPROVER_ID] == "u-17"
        assert span.attributes[semconv.APPROVAL_APPROVER_TYPE] == "human"
        ids = {one.attributes[semconv.DECISION_ID] for one in (asked, span)}
        assert len(ids) == 1

    def test_a_call_that_nobody_has_answered_pauses_again(
        self, on: Any, world: World, exporter: Any
    ) -> None:
        """What the framework was told approves nothing."""
        on()
        self.begun(world)
        assert self.resumed(world) == PAUSED
        assert len(world.questions.all()) == 1
        assert self.resumed(world) == PAUSED
        world.answer()
        assert self.resumed(world) == "done"
        assert world.paid == [5]
        names = [span.name for span in exporter.get_finished_spans()]
        assert names.count("otelhooks.approval.request pay") == 1
        assert names.count("execute_tool pay") == 1

    def test_a_refused_call_is_denied(self, on: Any, world: World, exporter: Any) -> None:
        on()
        self.begun(world)
        world.answer("rejected")
        assert self.resumed(world) == "done"
        assert world.paid == []
        [span] = [s for s in exporter.get_finished_spans() if s.name == "execute_tool pay"]
        assert span.attributes[semconv.APPROVAL_STATUS] == "rejected"

    def test_a_call_that_nobody_answered_in_time_is_denied(
        self, on: Any, world: World, exporter: Any
    ) -> None:
        on(approval_timeout=0.2)
        self.begun(world)
        time.sleep(0.3)
        assert self.resumed(world) == "done"
        assert world.paid == []
        [span] = [s for s in exporter.get_finished_spans() if s.name == "execute_tool pay"]
        assert span.attributes[semconv.APPROVAL_STATUS] == "expired"

    def test_an_edit_is_what_runs(self, on: Any, world: World) -> None:
        on()
        self.begun(world)
        world.answer(edit={"amount": 3})
        assert self.resumed(world) == "done"
        assert world.paid == [3]

    def test_what_the_framework_is_told_to_refuse_does_not_run(self, on: Any, world: World) -> None:
        if not self.can_refuse:
            pytest.skip("only the queue's answer counts")
        on()
        self.begun(world)
        world.answer()
        assert self.resumed(world, "no") == "done"
        assert world.paid == []

    def test_without_a_state_that_is_kept_the_process_waits(self, on: Any, world: World) -> None:
        on()
        done: list[str] = []

        def wait() -> None:
            done.append(type(self).play(world, "cannot pause"))

        waiting = threading.Thread(target=wait)
        waiting.start()
        until = time.monotonic() + 30
        while not world.asked() and time.monotonic() < until:
            time.sleep(0.02)
        world.answer()
        waiting.join(30)
        assert (len(done), world.paid) == (1, [5])

    # -- several processes ------------------------------------------------------------------------

    def test_a_run_goes_on_in_another_process(self, on: Any, world: World, exporter: Any) -> None:
        assert elsewhere(self.module, world, "nothing") == PAUSED
        world.answer()
        on()
        assert self.resumed(world) == "done"
        assert world.paid == [5]
        [span] = [s for s in exporter.get_finished_spans() if s.name == "execute_tool pay"]
        assert span.attributes[semconv.APPROVAL_APPROVER_ID] == "u-17"
        [question] = world.questions.all()
        assert question.taken

    def test_the_answer_may_come_after_the_restart(self, world: World) -> None:
        assert elsewhere(self.module, world, "nothing") == PAUSED
        assert elsewhere(self.module, world) == PAUSED
        world.answer()
        assert elsewhere(self.module, world) == "done"
        assert world.paid == [5]
        assert len(world.questions.all()) == 1

    def test_an_answer_is_used_once(self, world: World, tmp_path: Path) -> None:
        """A run that is resumed twice from the same state runs the call once."""
        assert elsewhere(self.module, world, "nothing") == PAUSED
        world.answer()
        kept = world.state.read_bytes()
        assert elsewhere(self.module, world) == "done"
        world.state.write_bytes(kept)
        assert elsewhere(self.module, world) == PAUSED
        assert world.paid == [5]
        assert len(world.asked()) == 1

    def test_of_two_that_go_on_at_once_one_runs(self, world: World) -> None:
        assert elsewhere(self.module, world, "nothing") == PAUSED
        world.answer()
        for state in "ab":
            (world.folder / state).write_bytes(world.state.read_bytes())
        with concurrent.futures.ThreadPoolExecutor() as executor:
            both = [executor.submit(elsewhere, self.module, world, state=each) for each in "ab"]
        assert sorted(each.result() for each in both) == [PAUSED, "done"]
        assert world.paid == [5]

    def test_a_process_killed_in_the_call_has_used_the_answer(self, world: World) -> None:
        assert elsewhere(self.module, world, "nothing") == PAUSED
        world.answer()
        assert elsewhere(self.module, world, tool_dies=True) == ""
        assert elsewhere(self.module, world) == PAUSED
        assert world.paid == [5]
        assert len(world.asked()) == 1
