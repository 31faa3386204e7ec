"""An example: hooks and rules, what a model asks for under them, and all that must then be seen.

Write one as a subclass: attributes say what is asked for and what must come of it, `settings` makes
fresh hooks and rules for one performance. The examples know no framework; `performance.py` plays
them in each.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import otelhooks
from tests.examples.stage import LAYERS, Actor, Ask, Host, World
from tests.frameworks.contract import Step

__all__ = ["EXAMPLES", "Ask", "Example", "Line"]

EXAMPLES: dict[str, type[Example]] = {}
"""All examples by name, in the order in which they are defined."""

Line = tuple[str, str]
"""What a hook noted: its layer, and the text."""


class Example:
    """One performance of an example; subclass to write one.

    Attributes:
        prompts: What the user says, one turn each, in one conversation.
        says: What the model says, over all turns; an exception is raised in its place.
        tools: Names of the methods below that the agent has as tools.
        needs: Layers, and other words that hosts know, without which the example says nothing.
        answers: What the user gets, a text a turn; an exception's class where the run raises.
        ran: Bodies that ran, with their arguments; all others did not run.
        told: Texts that the model is shown.
        never_told: Texts that it is not shown.
        noted: What hooks noted, in order.
        trace: All spans, indented by nesting: name, then the verdict unless it is a plain allow.
    """

    prompts: ClassVar[Sequence[str]] = ("Please begin.",)
    says: ClassVar[Sequence[Step | Exception]] = ()
    tools: ClassVar[Sequence[str]] = ("run_command", "view_file")
    needs: ClassVar[Sequence[str]] = ()
    answers: ClassVar[Sequence[str | type[Exception]]] = ("Done.",)
    ran: ClassVar[Sequence[Ask]] = ()
    told: ClassVar[Sequence[str]] = ()
    never_told: ClassVar[Sequence[str]] = ()
    noted: ClassVar[Sequence[Line]] = ()
    trace: ClassVar[str] = ""

    inner: World

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.trace = textwrap.dedent(cls.trace).strip()
        if not cls.__name__.startswith("_"):
            EXAMPLES[cls.__name__] = cls

    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        self.folder = folder
        self.script = World(*self.says)
        self.notes: list[Line] = []
        self.calls: list[Ask] = []

    # -- for subclasses -----------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Return arguments of `otelhooks.instrument`."""
        raise NotImplementedError

    def begin(self, handle: otelhooks.Handle) -> None:
        """Do what is to be done between `otelhooks.instrument` and the first message."""

    def crew(self) -> Actor:
        """Return the agent that is run."""
        return Actor("ops", self.script, self.bodies(*self.tools))

    def with_researcher(self, *says: Step | Exception, tools: Sequence[str] = ()) -> Actor:
        """Return the agent that is run, for `crew`: all it has is another one, `researcher`.

        Args:
            says: What the model of `researcher` says; what it is shown is in `inner`.
            tools: Names of the methods below that `researcher` has as tools.
        """
        self.inner = World(*says)
        researcher = Actor("researcher", self.inner, self.bodies(*tools))
        return Actor("ops", self.script, (), (researcher,))

    def finish(self) -> None:
        """Check what is particular to the example, once all has run."""

    def note(self, layer: str, text: str) -> None:
        """Note what a hook saw."""
        assert layer in LAYERS
        self.notes.append((layer, text))

    def tool(self, name: str) -> str:
        """Return how a rule names a tool here."""
        return self.host.selector(name)

    def bodies(self, *names: str) -> tuple[Any, ...]:
        """Return the bodies of tools."""
        return tuple(getattr(self, name) for name in names)

    # -- tools --------------------------------------------------------------------------------

    def run_command(self, CommandLine: str) -> str:
        """Run a shell command."""
        self.calls.append(Ask("run_command", {"CommandLine": CommandLine}))
        return f"ran: {CommandLine}"

    def view_file(self, path: str) -> str:
        """Return what a file holds."""
        self.calls.append(Ask("view_file", {"path": path}))
        return f"{path} holds the key sk-4711"

    def fetch_rate(self, currency: str) -> str:
        """Look a rate up at a service that is down."""
        self.calls.append(Ask("fetch_rate", {"currency": currency}))
        reason = "connection refused" if currency == "EUR" else "unknown currency"
        raise RateError(reason)

    def send_message(self, to: str, text: str) -> str:
        """Send a message."""
        self.calls.append(Ask("send_message", {"to": to, "text": text}))
        return f"sent to {to}"


class RateError(Exception):
    """What `fetch_rate` raises."""
