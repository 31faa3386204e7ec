"""Alias of `otelhooks.hooks.runner`, under google-antigravity's path."""

from otelhooks.hooks.runner import HookRunner

__all__ = ["HookRunner"]
