"""The JSON Schema of YAML policy files, also as Markdown; made from what the loader knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from otelhooks.policy.files import front_matter
from otelhooks.policy.files.kinds import Key, record_schema
from otelhooks.policy.files.rules import FORMAT_VERSION, KEYS
from otelhooks.policy.files.statements import PRESETS, STATEMENTS

__all__ = ["json_schema", "markdown"]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of YAML policy files.

    Every file that loads fits it. What a schema cannot check (tools, globs, expressions, files) is
    checked when a file is loaded.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:otelhooks:policy:{FORMAT_VERSION}",
        "title": "otelhooks policy file",
        **record_schema(KEYS),
        "anyOf": [{"required": [key.name]} for key in KEYS if key.name != "version"],
    }


def markdown() -> str:
    """Return what policy files may say as Markdown tables."""
    parts = ["## YAML policy files", "", "### Keys of a file", "", *_table(KEYS), ""]
    parts += ["### Entries of `policies`", ""]
    for statement in STATEMENTS.values():
        parts += [f"#### `{statement.word}`", "", statement.about, ""]
        properties = statement.kind.schema.get("properties")
        if properties is not None:
            parts += [f"Keys of the value of `{statement.word}`:", ""]
            parts += [*_rows((name, each["description"]) for name, each in properties.items()), ""]
        parts += ["Keys beside it:", "", *_table(statement.options), ""]
    parts += ["### Entries that are one word", ""]
    parts += _rows((word, about) for word, (about, _) in PRESETS.items())
    parts += ["", "## Markdown hook files", "", "Keys of the front matter:", ""]
    parts += _table(front_matter.KEYS)
    return "\n".join(parts) + "\n"


def _table(keys: Iterable[Key]) -> list[str]:
    return _rows((key.name, key.about + (" Required." if key.required else "")) for key in keys)


def _rows(rows: Iterable[tuple[str, str]]) -> list[str]:
    return ["| key | |", "|---|---|", *(f"| `{name}` | {about} |" for name, about in rows)]
