"""The harness's own tools, by the names that it gives them: all are known, and of what kind."""

from __future__ import annotations

from importlib.metadata import version

import pytest

pytest.importorskip("google.antigravity")

from google.antigravity import types as antigravity
from google.antigravity.proto import localharness_pb2 as wire
from packaging.version import Version

from otelhooks.frameworks.google_antigravity import ADAPTER, agents
from tests.frameworks import builtin_tools

IS_NEWEST = Version("0.1.22") <= Version(version("google-antigravity"))
SETTINGS = {"permissions", "tool_search_config"}
"""Fields of the harness's configuration that are not tools."""
OLD = {"google.antigravity:start_subagent"}


def test_every_tool_that_the_installed_release_brings_along_is_in_the_table() -> None:
    """A new one is red: decide what it is to rules, and write a line for it in `KINDS`."""
    fields = {field.name for field in wire.HarnessSideTools.DESCRIPTOR.fields} - SETTINGS
    names = {agents._FIELDS.get(name, name) for name in fields}
    names |= {tool.value for tool in antigravity.BuiltinTools}
    found = {f"google.antigravity:{name}" for name in names}
    builtin_tools.check(ADAPTER.built_in, found, is_newest=IS_NEWEST, gone=OLD)
