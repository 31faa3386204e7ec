"""Alias of `otelhooks.state`, under google-antigravity's path."""

from otelhooks.state import StateStore

__all__ = ["StateStore"]
