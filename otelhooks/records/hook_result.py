"""A hook's answer."""

from __future__ import annotations

import enum
from typing import Any, ClassVar, Literal

import pydantic
from typing_extensions import Self

from otelhooks.records.failures import misnamed

__all__ = ["HookAction", "HookResult"]


_CHANGES = frozenset(
    ("modified_args", "replace_args", "modified_prompt", "modified_messages", "modified_tools")
) | {"response", "input", "output", "messages", "tools"}


class HookAction(str, enum.Enum):
    """What a hook's answer does to the operation."""

    ALLOW = "allow"
    DENY = "deny"
    MODIFY = "modify"

    @classmethod
    def _missing_(cls, value: object) -> HookAction | None:
        return cls.DENY if value == "block" else None


class HookResult(pydantic.BaseModel):
    """A hook's answer.

    Attributes:
        allow: Whether the operation continues.
        message: Reason of a deny, as the model or user gets it.
        modified_args: Arguments to merge key by key into the call.
        replace_args: Arguments that replace all of them.
        modified_prompt: Prompt that replaces the user's (pre_turn).
        modified_messages: Messages that replace the call's (pre_model_call); ``[]`` counts.
        modified_tools: Tool definitions that replace the call's (pre_model_call); ``[]`` counts.
        response: A ready answer; nothing runs (pre_agent, pre_model_call).
        input: Input that replaces the given one, in the terms of `otelhooks.hooks.Hooks`.
        output: Output that replaces the given one, in the same terms.
        messages: Messages that replace the given ones, in the same terms.
        tools: Tool definitions that replace the given ones, in the same terms.
        rule_id: Rule that decided, if the hook knows one.
        severity: ``low``, ``medium``, ``high`` or ``critical``.
        action: Derived from the other fields when it is not given.

    Raises:
        TypeError: A field is unknown: a misspelt rewrite would change nothing.
    """

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(
        extra="forbid", arbitrary_types_allowed=True
    )

    allow: bool = True
    message: str = ""
    modified_args: dict[str, Any] | None = None
    replace_args: dict[str, Any] | None = None
    modified_prompt: Any | None = None
    modified_messages: list[Any] | None = None
    modified_tools: list[Any] | None = None
    response: Any | None = None
    input: Any | None = None
    output: Any | None = None
    messages: list[Any] | None = None
    tools: list[Any] | None = None
    rule_id: str | None = None
    severity: Literal["low", "medium", "high", "critical"] | None = None
    action: HookAction | None = pydantic.Field(default=None, validate_default=False)

    @classmethod
    def allowed(cls) -> HookResult:
        """Return the same as `HookResult()` in a third of the time: without validating defaults."""
        made = object.__new__(HookResult)
        _put(made, "__dict__", {**_ALLOWED.__dict__})
        _put(made, "__pydantic_fields_set__", {*_ALLOWED.model_fields_set})
        _put(made, "__pydantic_extra__", None)
        _put(made, "__pydantic_private__", None)
        return made

    def changes(self) -> set[str]:
        """Return the fields that change something here."""
        given = _CHANGES & self.model_fields_set
        return {name for name in given if getattr(self, name) is not None}

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _read(cls, data: Any, read: pydantic.ModelWrapValidatorHandler[Self]) -> Self:
        try:
            made = read(data)
        except pydantic.ValidationError as error:
            unknown = [one["loc"][0] for one in error.errors() if one["type"] == "extra_forbidden"]
            if unknown:
                name = str(unknown[0])
                problem = f"`HookResult` has no field `{name}`"
                raise misnamed(problem, name, cls.model_fields, _MEANT.get(name)) from None
            raise
        made._derive_action()
        return made

    def _derive_action(self) -> None:
        if self.action is None:
            derived = HookAction.MODIFY if self.changes() else HookAction.ALLOW
            self.action = derived if self.allow else HookAction.DENY
        elif self.action is HookAction.DENY:
            self.allow = False
        elif not self.allow:
            if "allow" in self.model_fields_set:
                msg = f"allow=False contradicts action='{self.action.value}'"
                raise ValueError(msg)


_MEANT = {
    **dict.fromkeys(("modified_result", "modified_output", "result", "value"), "output"),
    **dict.fromkeys(("modified_response", "answer"), "response"),
    **dict.fromkeys(("modified_input", "args", "arguments"), "modified_args"),
    "reason": "message",
    "decision": "action",
}
"""Fields that people expect, and those that exist instead."""


_ALLOWED = HookResult()
_put = object.__setattr__
