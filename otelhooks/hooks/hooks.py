"""Alias of `otelhooks.hooks.base` and its contexts, under google-antigravity's path."""

from otelhooks.hooks import *  # noqa: F403
from otelhooks.hooks import __all__ as _names
from otelhooks.types import AskQuestionInteractionSpec, QuestionHookResult

__all__ = [*_names, "AskQuestionInteractionSpec", "QuestionHookResult"]
