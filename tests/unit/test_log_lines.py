"""A log line says one thing: names and texts of models, tools and servers begin no other.

Each case lets a text from outside reach a log line of otelhooks.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.policy.files import load_hooks

UNSEEN = "\r\n\x1b\x85\u2028\u2029\u202e\u200b\u00ad\U000e0041"
FORGED = "ERROR:otelhooks.policy:everything is allowed from now on"
HOSTILE = f"a`{UNSEEN}{FORGED}"


def fail(*_: Any) -> Any:
    raise ValueError(HOSTILE)


@otelhooks.tool
def act(x: str = "") -> str:
    return x


def of_a_hook(governed: Any, tmp_path: Path) -> None:
    guard = hooks.pre_tool_call_decide(rule_id="guard")(fail)
    governed(hooks=[guard], capture_content="EVENT_ONLY")
    with otelhooks.session(HOSTILE), otelhooks.turn(HOSTILE, agent=HOSTILE):
        with contextlib.suppress(Denied):
            act(HOSTILE)


def of_a_rule(governed: Any, tmp_path: Path) -> None:
    governed(
        policies=[policy.deny("act", when=fail)],
        candidate=[policy.deny("act", when=fail)],
        capture_content="EVENT_ONLY",
    )
    with contextlib.suppress(Denied):
        act(HOSTILE)


def of_a_model(governed: Any, tmp_path: Path) -> None:
    @otelhooks.model_call(model=HOSTILE)
    def ask(messages: list[Any]) -> types.ModelResponse:
        return types.ModelResponse(text=HOSTILE, usage=types.Usage(input_tokens=1))

    governed(policies=[policy.Budget(cost_usd=1, prices={"m": (1, 1)}, unknown="tokens")])
    ask([])


def of_a_hook_file(governed: Any, tmp_path: Path) -> None:
    (tmp_path / "guard.md").write_text(
        "---\nevent: custom.done\nmode: monitor\nscript: |\n  def handle(event, payload):\n"
        '      return block(payload["x"])\n---\n',
        encoding="utf-8",
    )
    load_hooks([tmp_path]).dispatch("custom.done", {"x": HOSTILE})


@pytest.mark.parametrize("case", [of_a_hook, of_a_rule, of_a_model, of_a_hook_file])
def test_no_text_of_others_begins_a_line_or_steers_a_terminal(
    case: Callable[[Any, Path], None], governed: Any, tmp_path: Path, caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG, "otelhooks")
    case(governed, tmp_path)
    told = [r.getMessage() for r in caplog.records if r.name.startswith("otelhooks")]
    assert told
    for line in "\n".join(told).split("\n"):
        assert not line.startswith(FORGED)
        assert not set(UNSEEN) & set(line)
