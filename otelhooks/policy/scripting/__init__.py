"""Starlark, in which policy files say what a call must be."""
