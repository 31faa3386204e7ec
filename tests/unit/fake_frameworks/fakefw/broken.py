"""Raises while it is imported."""

raise RuntimeError("broken on purpose")
