"""Alias of `otelhooks.hooks`, under google-antigravity's path."""

from otelhooks import hooks as _hooks
from otelhooks.hooks import *  # noqa: F403
from otelhooks.types import AskQuestionInteractionSpec, QuestionHookResult

__all__ = ["AskQuestionInteractionSpec", "QuestionHookResult"]
__all__ += _hooks.__all__
