"""A compiled hook file: it gets a payload, and answers with a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast, get_args

from otelhooks.hooks.context import HookContext
from otelhooks.hooks.script_host import Speaker
from otelhooks.policy.files.front_matter import FrontMatter
from otelhooks.policy.files.script_functions import (
    ALLOW,
    BLOCK,
    MODIFY,
    PURE,
    SLOW,
    speaking,
)
from otelhooks.policy.rules import Severity
from otelhooks.policy.scripting.starlark import (
    TIME_LIMIT_S,
    Expression,
    ScriptError,
    ScriptTimeout,
    compile_expression,
    compile_script,
)
from otelhooks.records.failures import OutOfTime

__all__ = ["Decision", "HookFailed", "HookScript"]


class Decision(NamedTuple):
    """What a script decided.

    Attributes:
        action: ``allow``, ``block`` or ``modify``.
        changes: Keys of the payload that change, and their values.
        reason: Reason of a block, as the caller reads it.
        severity: Severity of a block.
    """

    action: str
    changes: dict[str, Any]
    reason: str = ""
    severity: Severity | None = None


class HookFailed(Exception):
    """A hook file made no decision; if an effect would follow, this blocks it.

    Args:
        name: Name of the hook.
        cause: What went wrong; not for the model.

    Attributes:
        model_message: What the model reads.
    """

    def __init__(self, name: str, cause: str) -> None:
        super().__init__(f"{_prefix(name)}{cause}")
        self.model_message: str = f"{_prefix(name)}the hook failed"


class HookTimeout(HookFailed, OutOfTime):
    """A hook file made no decision in time."""


def _prefix(name: str) -> str:
    return f'blocked by hook "{name}": '


class HookScript:
    """One hook file, compiled.

    Args:
        said: Its front matter.
        functions: Functions that its script may call.
        limit_s: Longest run of one call, in seconds, without host functions.

    Attributes:
        said: Its front matter.
        when: Its condition, compiled; None for none.
        rule_id: Rule id of its verdicts.
        is_slow: Whether its script may wait for something outside.

    Raises:
        PolicyFileError: Its script or expression is refused.
    """

    def __init__(
        self,
        said: FrontMatter,
        functions: Mapping[str, Callable[..., Any]],
        limit_s: float = TIME_LIMIT_S,
    ) -> None:
        self.said = said
        self.rule_id: str = said.id or said.name
        self.when: Expression | None = (
            compile_expression(
                said.when.value.rstrip(),
                said.when,
                parameters=("event", "payload"),
                functions=PURE,
                limit_s=limit_s,
            )
            if said.when is not None
            else None
        )
        self._handle = compile_script(
            said.script.value, said.script, functions=functions, limit_s=limit_s
        )
        self.is_slow: bool = not SLOW.isdisjoint(self._handle.names)
        when_reads = self.when.reads if self.when is not None else frozenset[str]()
        self._when_reads = when_reads
        self._reads = self._handle.reads

    @property
    def name(self) -> str:
        """The hook's name: the file's stem."""
        return self.said.name

    @property
    def calls(self) -> frozenset[str]:
        """Names that the script uses, including those of functions."""
        return self._handle.names

    def reads(self, key: str) -> bool:
        """Return whether the file may read a key of the payload."""
        return any(keys is None or key in keys for keys in (self._when_reads, self._reads))

    def subscribes_to(self, event: str) -> bool:
        """Return whether the file handles an event; ``custom.*`` handles all of that kind."""
        own = self.said.event
        return own == event or (own.endswith(".*") and event.startswith(own[:-1]))

    def ask(self, context: HookContext, event: str, payload: dict[str, Any]) -> Decision:
        """Test ``when``, and run the script if it holds.

        Args:
            context: State of the operation.
            event: Name of the event.
            payload: Plain values; not changed.

        Raises:
            HookFailed: One of them failed, or the script did not return a decision.
        """
        try:
            with speaking(Speaker(self.name, event, context)):
                if self.when is not None:
                    if not self.when.of_plain(event, _only(payload, self._when_reads)):
                        return _ALLOWED
                return self._decision(self._handle.of_plain(event, _only(payload, self._reads)))
        except ScriptTimeout as error:
            raise HookTimeout(self.name, str(error)) from error
        except ScriptError as error:
            raise HookFailed(self.name, str(error)) from error

    def _decision(self, value: Any) -> Decision:
        said = cast("dict[Any, Any]", value if isinstance(value, dict) else {})
        action, reason = said.get("action"), said.get("reason")
        severity = said.get("severity") or self.said.severity
        if action == ALLOW:
            return _ALLOWED
        if action in {BLOCK, "deny"} and isinstance(reason, (str, type(None))):
            if severity in (None, *get_args(Severity)):
                text = reason or "not allowed"
                return Decision(BLOCK, {}, f"{_prefix(self.name)}{text}", severity)
        if action == MODIFY and isinstance(said.get("payload"), dict):
            return Decision(MODIFY, said["payload"])
        raise HookFailed(
            self.name, "the script returned no decision: allow(), block(reason) or modify(payload)"
        )


def _only(payload: dict[str, Any], keys: frozenset[str] | None) -> dict[str, Any]:
    """Return the part of a payload that a script reads, since passing each value costs time."""
    return payload if keys is None else {key: payload[key] for key in keys if key in payload}


_ALLOWED = Decision(ALLOW, {})
