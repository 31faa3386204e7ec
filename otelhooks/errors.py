"""Exceptions of otelhooks, built from facts so that wording lives in one place.

::

    OtelHooksError
    ├── ConfigError (also ValueError)     a value given to otelhooks cannot be used
    │   └── PolicyFileError               the same, at a place in a policy file
    ├── SeatError (also RuntimeError)     a framework version that cannot be guarded in full
    └── Denied (also RuntimeError)        a refusal, only where a framework wants an exception
        └── ApprovalTimeout               no answer in time
"""

from __future__ import annotations


class OtelHooksError(Exception):
    """Base of every exception that otelhooks raises on purpose."""


class ConfigError(OtelHooksError, ValueError):
    """A setting, argument or file that cannot be used as it is.

    Args:
        problem: What is wrong, lower-case, without a final period.
        hint: What to do about it; shown on a line of its own.
    """

    def __init__(self, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{problem}\nhint: {hint}" if hint else problem)
        self.problem = problem
        self.hint = hint


class PolicyFileError(ConfigError):
    """A policy file that cannot be loaded.

    Args:
        path: File as the user named it.
        line: Line, starts at 1.
        column: Column, starts at 1.
        problem: What is wrong there.
        hint: What to do about it.

    Attributes:
        further: The other errors of the same files, in the order in which they were found.
    """

    def __init__(self, path: str, line: int, column: int, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{path}:{line}:{column}: {problem}", hint=hint)
        self.further: tuple[PolicyFileError, ...] = ()
        self.path = path
        self.line = line
        self.column = column


class SeatError(OtelHooksError, RuntimeError):
    """An imported framework that cannot be patched in full, and so refuses to run.

    Args:
        framework: Name of the adapter, as in ``frameworks=``.
        distribution: Installed package with an unsupported version.
        version: Its version, empty if it could not be read.
        supported: Supported version range; `none` if no adapter guards it.
        problem: Why the table of seats could not be patched; it may end with a hint of its own.
    """

    def __init__(
        self, framework: str, distribution: str, version: str, supported: str, problem: str
    ) -> None:
        problem, _, own = problem.partition("\nhint: ")
        first = own or "install a supported version"
        if supported == "none":
            first = "decorate its calls and tools (see help(otelhooks.tool))"
        super().__init__(
            f"{framework} is not guarded: {distribution} {version or '(unknown version)'}: "
            f"{problem} (supported: {supported})\n"
            f"hint: {first}, or lift the refusal with "
            f'frameworks={{"{framework}": "off"}} or strict=False'
        )
        self.framework = framework
        self.distribution = distribution
        self.version = version
        self.supported = supported


class Denied(OtelHooksError, RuntimeError):
    """A call or turn that policy refused, if the framework has no other form of refusal.

    Args:
        reason: Message for the model or caller.
        rule_id: Rule that decided, if one did.
        policy_id: Policy of the rule.
        decision_id: Joins this refusal with span, event and audit record.
    """

    def __init__(
        self, reason: str, *, rule_id: str = "", policy_id: str = "", decision_id: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rule_id = rule_id
        self.policy_id = policy_id
        self.decision_id = decision_id


class ApprovalTimeout(Denied):
    """A question to a person was not answered in time."""
