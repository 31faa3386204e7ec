"""The JSON Schema of policy files: what loads fits it, and the loader knows every key of it."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from otelhooks.errors import PolicyFileError
from otelhooks.policy import packs
from otelhooks.policy.files import front_matter, schema
from otelhooks.policy.files.document import parse
from otelhooks.policy.files.rules import KEYS, read_rules
from otelhooks.policy.files.source import Source

DOCS = pathlib.Path(__file__).parent.parent.parent / "docs"


def _misfits(value: Any, form: dict[str, Any], where: str = "$") -> Iterator[str]:
    """Yield where a value does not fit a schema; knows the words that ours uses, and no others."""
    known = {"$schema", "$id", "title", "description"}
    known |= {"anyOf", "const", "enum", "type", "properties", "additionalProperties", "required"}
    known |= {"items", "minItems", "minLength", "minimum", "exclusiveMinimum"}
    assert form.keys() <= known
    if "anyOf" in form and all(any(_misfits(value, each, where)) for each in form["anyOf"]):
        yield f"{where}: none of several"
    if "const" in form and value != form["const"]:
        yield f"{where}: not {form['const']}"
    if "enum" in form and value not in form["enum"]:
        yield f"{where}: none of {form['enum']}"
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
    kind: Any = {**kinds, "number": (int, float)}.get(form.get("type", ""), object)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
        yield f"{where}: no {form.get('type')}"
        return
    for key in form.get("required", ()):
        if isinstance(value, dict) and key not in value:
            yield f"{where}: no {key}"
    if isinstance(value, dict):
        properties = form.get("properties", {})
        others = form.get("additionalProperties", {})
        for key, each in value.items():
            if key not in properties and others is False:
                yield f"{where}: unknown {key}"
            else:
                yield from _misfits(each, properties.get(key) or others or {}, f"{where}.{key}")
    if isinstance(value, list):
        if len(value) < form.get("minItems", 0):
            yield f"{where}: too few"
        for index, each in enumerate(value):
            yield from _misfits(each, form.get("items", {}), f"{where}[{index}]")
    if isinstance(value, str) and len(value) < form.get("minLength", 0):
        yield f"{where}: too short"
    if kind in (int, (int, float)):
        if value < form.get("minimum", value):
            yield f"{where}: too small"
        if "exclusiveMinimum" in form and value <= form["exclusiveMinimum"]:
            yield f"{where}: too small"


def _examples() -> list[Any]:
    """Return the YAML policy files of the documentation and of the packs."""
    found: list[Any] = []
    for page in sorted(DOCS.rglob("*.md")):
        for number, block in enumerate(
            re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
        ):
            if re.search(r"^(policies|include|default):", block, re.MULTILINE):
                found.append(pytest.param(block, id=f"{page.stem}-{number}"))
    for name in packs.PACKS:
        folder = packs.folder(name)
        assert folder is not None
        found += [pytest.param(path.read_text(), id=path.name) for path in folder.glob("*.yaml")]
    return found


@pytest.mark.parametrize("text", _examples())
def test_every_example_loads_and_fits_the_schema(text: str) -> None:
    value = parse(text, "example.yaml").plain()
    assert list(_misfits(value, schema.json_schema())) == []
    value.pop("include", None)
    if value.keys() - {"version"}:
        assert read_rules([Source("example.yaml", text.replace("include:", "#"), "example", "")])


def test_there_are_examples() -> None:
    assert len(_examples()) >= 3


VALUES: dict[str, Any] = {
    "when": "True",
    "prices": {"m": {"input": 1, "output": 2}},
    "tools": {"render": "template"},
    "when_annotations": {"readOnlyHint": False},
    "agent": "a/*",
    "storage": "memory",
    "calls": 3,
    "when_user": {"role": "x"},
    "when_argument_from": {"url": "x"},
}


def _value(name: str, form: dict[str, Any]) -> Any:
    """Return a value that fits a schema."""
    if name in VALUES:
        return VALUES[name]
    if "enum" in form:
        return form["enum"][0]
    if "const" in form:
        return form["const"]
    if "anyOf" in form:
        return _value(name, form["anyOf"][0])
    return {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "array": []}[form["type"]]


def _filled() -> list[Any]:
    """Return, for each form of an entry, the entry with each key alone and with all of them."""
    found: list[Any] = []
    for form in schema.json_schema()["properties"]["policies"]["items"]["anyOf"]:
        if "enum" in form:
            found += [pytest.param(word, id=word) for word in form["enum"]]
            continue
        (word, *needed) = form["required"]
        own = form["properties"][word]
        records: list[Any] = [None]
        if own.get("type") == "object":
            settings = own["properties"]
            whole = {"limit": ["tool_calls"], "repeat": [], "budget": ["cost_usd", "prices"]}[word]
            least = {key: _value(key, settings[key]) for key in whole}
            records = [{**least, key: _value(key, settings[key])} for key in settings]
        for record in records:
            base = {word: record or _value(word, own)}
            base |= {key: _value(key, form["properties"][key]) for key in needed}
            options = {key: _value(key, f) for key, f in form["properties"].items() if key != word}
            for extra in ({}, *({key: value} for key, value in options.items()), options):
                found.append(pytest.param({**base, **extra}, id=f"{word} {'+'.join(extra)}"))
    return found


@pytest.mark.parametrize("entry", _filled())
def test_the_loader_knows_every_key_of_the_schema(entry: Any) -> None:
    import json

    file = {"version": 1, "default": "deny", "mode": "enforce", "policies": [entry]}
    assert list(_misfits(file, schema.json_schema())) == []
    (found,) = read_rules([Source("f.yaml", json.dumps(file), "f", "")])
    assert found.rules or found.gates


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\n",
        "policy: []\n",
        "version: 2\npolicies: []\n",
        "default: ask\n",
        "policies: {}\n",
        "policies: [deny]\n",
        "policies: [{deny: a, whne: 'True'}]\n",
        "policies: [{deny: a, allow: b}]\n",
        "policies: [{reason: a}]\n",
        "policies: [{deny: 1}]\n",
        "policies: [{deny: []}]\n",
        "policies: [{deny: a, severity: hgih}]\n",
        "policies: [{veto: a, mode: monitor}]\n",
        "policies: [{label: a}]\n",
        "policies: [{limit: {turns: 0}}]\n",
        "policies: [{repeat: 3}]\n",
        "policies: [{repeat: {calls: 0}}]\n",
        "policies: [{repeat: {per: minute}}]\n",
        "policies: [{repeat: {of: name}}]\n",
        "policies: [{limit: {tool_calls: 1, on_breach: allow}}]\n",
        "policies: [{budget: {tokens: 1, prices: {a: {input: 1}}}}]\n",
    ],
)
def test_what_does_not_load_does_not_fit_the_schema_either(text: str) -> None:
    assert list(_misfits(parse(text, "f.yaml").plain(), schema.json_schema()))
    with pytest.raises(PolicyFileError):
        read_rules([Source("f.yaml", text, "f", "")])


def test_every_key_is_told_in_markdown() -> None:
    text = schema.markdown()
    properties = schema.json_schema()["properties"]
    assert set(properties) == {key.name for key in KEYS}
    for form in properties["policies"]["items"]["anyOf"]:
        for word in form.get("enum") or form["properties"]:
            assert f"`{word}`" in text
    for key in front_matter.KEYS:
        assert f"| `{key.name}` | {key.about}" in text
