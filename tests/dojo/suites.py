"""The suites of AgentDojo, their tools as tools of otelhooks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from agentdojo.functions_runtime import Function, FunctionCall, FunctionsRuntime, TaskEnvironment
from agentdojo.task_suite.load_suites import get_suite

import otelhooks

VERSION = "v1.2.2"


class Bench:
    """One suite, and its tools under `@otelhooks.tool`.

    Attributes:
        suite: The suite itself, with tasks and checkers.
        tools: Its tools by name.
        environment: What the tools work on; set it before a run.
    """

    def __init__(self, name: str) -> None:
        self.suite = get_suite(VERSION, name)
        self.environment: TaskEnvironment | None = None
        self._runtime = FunctionsRuntime(self.suite.tools)
        self.tools = {function.name: self._tool(function) for function in self.suite.tools}
        self._fresh = self.suite.load_and_inject_default_environment({})
        names = self.suite.get_injection_vector_defaults()
        self._canaries = {name: f"CANARY-{name}-CANARY" for name in names}
        self._reads: dict[str, int] = {}
        self._marked = self.suite.load_and_inject_default_environment(self._canaries)

    def fresh(self) -> TaskEnvironment:
        """Return a new environment as the suite defines it."""
        return self._fresh.model_copy(deep=True)

    def governed(self, call: FunctionCall) -> Any:
        """Run a call through the pipeline: it raises what the pipeline or the tool raises."""
        return self.tools[call.function](**call.args)

    def ungoverned(self, environment: TaskEnvironment, call: FunctionCall) -> Any:
        """Run a call as AgentDojo does."""
        result, _ = self._runtime.run_function(
            environment, call.function, call.args, raise_on_error=True
        )
        return result

    def full(self, call: FunctionCall) -> tuple[str, dict[str, Any]]:
        """Return tool and arguments of a call, defaults included, to compare calls by."""
        parameters = self._runtime.functions[call.function].parameters
        return call.function, parameters.model_validate(dict(call.args)).model_dump()

    def first_foreign_read(self, task: Any) -> int:
        """Return how many of the task's calls have run when the agent has read what others wrote.

        AgentDojo names the places of an environment that strangers can write to. A task that reads
        none of them has run to its end.
        """
        if task.ID not in self._reads:
            self._reads[task.ID] = self._first_read(task)
        return self._reads[task.ID]

    def _first_read(self, task: Any) -> int:
        environment = task.init_environment(self._marked.model_copy(deep=True))
        calls = task.ground_truth(environment)
        for number, call in enumerate(calls, 1):
            text = str(self.ungoverned(environment, call))
            if any(canary in text for canary in self._canaries.values()):
                return number
        return len(calls)

    def _tool(self, function: Function) -> Callable[..., Any]:
        def run(**args: Any) -> Any:
            call = FunctionCall(function=function.name, args=args)
            return self.ungoverned(self.environment, call)

        signature = inspect.signature(function.run)
        run.__name__ = run.__qualname__ = function.name
        # AgentDojo fills in what a tool depends on, such as the inbox: no model passes it.
        run.__signature__ = signature.replace(
            parameters=[
                each.replace(annotation=inspect.Parameter.empty)
                for each in signature.parameters.values()
                if each.name not in function.dependencies
            ],
            return_annotation=inspect.Signature.empty,
        )
        return otelhooks.tool(run)
