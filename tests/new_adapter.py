"""Lay out the files of a new adapter: `make adapter NAME=haystack DISTRIBUTION=haystack-ai`.

What it writes is imported, documented and refused by its own test: it guards a function that does
not exist. docs/writing-an-adapter.md says what to put in, step by step.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

ADAPTER = '''"""TITLE (``DISTRIBUTION``): what passes which seat, how a deny reaches the model."""

from __future__ import annotations

from typing import Any

from otelhooks.frameworks import kit

__all__ = ["ADAPTER"]


class Tool(kit.ToolCall):
    """A call of a tool."""

    def read(self, tool: Any, /, **given: Any) -> None:
        """Read ``NAME.tools:Tool.invoke``; take over the parameters of the real function."""
        self.name, self.description = tool.name, tool.description
        self.take(given)

    def call(self, wrapped: Any, args: Any) -> Any:
        """Call it with what was approved."""
        return wrapped(**args)

    def denied(self, reason: str) -> Any:
        """Return, or raise, what the framework takes for an error of the tool."""
        return reason


ADAPTER = kit.Adapter(
    "NAME",
    kit.Package("DISTRIBUTION", ">=1,<2", module="NAME"),
    seats=(kit.seat("NAME.tools:Tool.invoke", Tool, overrides=True),),
    not_covered={"model calls and runs": "no seat reads them yet"},
)
'''

SCRIPTED = '''# pyright: basic, reportMissingImports=false
"""A model of TITLE that says what a function says, and the proof of a deny with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otelhooks.frameworks.kit import trials

__all__ = ["prove", "scripted_model"]


def scripted_model(next_step: Callable[[str], Any]) -> Any:
    """Return a model.

    Args:
        next_step: Function of all that the model is shown, as one text; returns a final text, or
            the tool calls to ask for: pairs of name and arguments.
    """
    raise NotImplementedError("make a model of TITLE")


async def _run(trial: trials.Trial) -> str:
    """Run an agent with `trial.danger` and `trial.safe`; return its answer."""
    scripted_model(trial.next_step)
    raise NotImplementedError("make an agent of TITLE, and run it")


prove = trials.Proving("NAME", {"run": _run})
'''

TESTS = '''"""TITLE: contract on every path."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("NAME")

from tests.frameworks.contract import Contract, Path, World


def build_run(world: World) -> Any:
    """Build a path: make an agent whose model calls `world.next`, and return a way to run it."""
    raise NotImplementedError("make an agent of TITLE")


class TestAdapter(Contract):
    """All scenarios, on each path."""

    framework = "NAME"
    paths = (Path("run", build_run),)
'''

EXAMPLES = '''"""The examples on TITLE, and the scenarios of the contract that need a host."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

pytest.importorskip("NAME")

from tests.examples.performance import Examples
from tests.examples.stage import Actor, Converse, Host, Run
from tests.frameworks.scenarios import Scenarios


class Adapter(Host):
    """How TITLE runs an agent."""

    framework = "NAME"
    lacks: ClassVar = {}  # what it has no path for: the reason, in a few words

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        """Make an agent of the actor; give what runs it on a message."""
        raise NotImplementedError("make an agent of TITLE")
        yield

    @contextlib.asynccontextmanager
    async def converse(self, actor: Actor) -> AsyncIterator[Converse]:
        """Make an agent of the actor; give what runs it on a message and a history."""
        raise NotImplementedError("run an agent of TITLE on a history")
        yield

    def own_spans(self, provider: Any) -> Any:
        """Have TITLE make its own spans within a block."""
        raise NotImplementedError("turn on the spans of TITLE")


class TestExamples(Examples):
    """The examples of five systems."""

    host = Adapter()


class TestScenarios(Scenarios):
    """Those for which an agent must be made."""

    host = Adapter()
'''

PAGE = """# TITLE

Package `DISTRIBUTION`, **`>=1,<2`**; tested with the oldest and newest.

## What is guarded

| seat | paths |
| --- | --- |
| `Tool.invoke` | every call of a tool |

## How a deny reaches the model

As the result of the tool.

## What is not covered

`otelhooks doctor` lists the same.
"""

WANTED = 'DISTRIBUTION>=1,<2 ; python_version >= "3.10"\n'
LATEST = "# With certifi-override.txt. The first Python is that of DISTRIBUTION.\n" + WANTED
OLDEST = "# The lowest that the adapter claims.\n" + WANTED

FILES = {
    "otelhooks/frameworks/NAME/__init__.py": ADAPTER,
    "otelhooks/frameworks/NAME/scripted.py": SCRIPTED,
    "tests/frameworks/test_NAME.py": TESTS,
    "tests/frameworks/test_NAME_examples.py": EXAMPLES,
    "tests/locks/NAME-latest.in": LATEST,
    "tests/locks/NAME-oldest.in": OLDEST,
    "docs/frameworks/NAME.md": PAGE,
}

BY_HAND = """\
Then, by hand:
- otelhooks/setup/catalogue.py: a line in ADAPTERS
- otelhooks/setup/known.py: remove its line, if it has one
- tests/locks/NAME-*.in: the first Python that it, or what it needs, supports
- noxfile.py: a line in FRAMEWORKS, and in LOCK_ARGUMENTS
    "NAME-latest": ("--group", "test", *CERTIFI),
    "NAME-oldest": ("--group", "test", *LOWEST),
- tests/test_public_api.py: the module that it imports, in NOT_AT_IMPORT
- .venv/bin/nox --session locks -- NAME-latest NAME-oldest
- README.md and docs/index.md: its row and its page; CHANGELOG.md: a line
- docs/writing-an-adapter.md: its column in the table of scenarios
docs/writing-an-adapter.md goes through all of it.
"""


def lay_out(name: str, distribution: str, root: Path = ROOT) -> list[Path]:
    """Write the files of an adapter; return them.

    Args:
        name: The framework's import name.
        distribution: Its package on an index.
        root: Folder of the repository.

    Raises:
        ValueError: The name cannot be a Python module's.
        FileExistsError: One of the files is there already; nothing is written then.
    """
    if not name.isidentifier() or not name.islower():
        raise ValueError(f"`{name}` is not the name of a module: write it as in `import {name}`")
    title = name.replace("_", " ").title()
    texts = {
        root / path.replace("NAME", name): text.replace("NAME", name)
        .replace("DISTRIBUTION", distribution)
        .replace("TITLE", title)
        for path, text in FILES.items()
    }
    for path in texts:
        if path.exists():
            raise FileExistsError(f"{path} is there already")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def main(arguments: list[str]) -> None:
    """Lay out an adapter and say what is left to do."""
    if not arguments or not arguments[0]:
        sys.exit("usage: make adapter NAME=haystack DISTRIBUTION=haystack-ai")
    name = arguments[0]
    distribution = (arguments[1:] or [""])[0] or name.replace("_", "-")
    try:
        written = lay_out(name, distribution)
    except (ValueError, FileExistsError) as error:
        sys.exit(f"error: {error}")
    for path in written:
        print(path.relative_to(ROOT))
    print(BY_HAND.replace("NAME", name), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
