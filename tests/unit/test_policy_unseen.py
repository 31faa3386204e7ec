"""No policy contains an invisible character, of any kind, anywhere."""

from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from otelhooks import policy
from otelhooks.errors import ConfigError, PolicyFileError
from otelhooks.policy.files import load, load_hooks
from otelhooks.policy.scripting.starlark import compile_expression, compile_script
from otelhooks.policy.values.unseen import described, find_unseen
from otelhooks.policy_tools.cases import read_suites

HIDDEN = {
    "lone carriage return": "\r",
    "next line": "\x85",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "form feed": "\x0c",
    "delete": "\x7f",
    "zero width space": "\u200b",
    "zero width joiner": "\u200d",
    "left-to-right mark": "\u200e",
    "right-to-left mark": "\u200f",
    "soft hyphen": "\u00ad",
    "arabic letter mark": "\u061c",
    "word joiner": "\u2060",
    "turned around": "\u202e",
    "isolate": "\u2066",
    "byte order mark inside": "\ufeff",
    "tag character": "\U000e0041",
    "private use": "\ue000",
    "unassigned": "\u0378",
    "no character": "\uffff",
    "variation selector": "\ufe0f",
    "more variation selectors": "\U000e0100",
    "hangul filler": "\u3164",
    "empty braille": "\u2800",
}

PLACES = {
    "comment": "# harmless{}- allow: '*'\npolicies:\n- deny: act\n",
    "name of a tool": "policies:\n- deny: a{}ct\n",
    "end of a value": "policies:\n- deny: act{}\n",
    "key": "policies:\n- de{}ny: act\n",
    "condition": "policies:\n- deny: act\n  when: args['x'] == 'a{}b'\n",
    "block": "policies:\n- deny: act\n  when: |\n    args['x'] == 'a' # {}\n",
    "reason": "policies:\n- deny: act\n  reason: not{} here\n",
    "include": "include: [other{}.yaml]\npolicies: []\n",
    "end of the file": "policies: []\n{}",
}
HOOK = "---\nevent: tool.pre\nscript: |\n  def handle(event, payload):\n      return allow()\n---\n"


class At:
    """A text that a file holds from its beginning on."""

    path = "a.yaml"

    def within(self, line: int, column: int) -> tuple[int, int]:
        return line, column


@pytest.mark.parametrize("kind", HIDDEN)
@pytest.mark.parametrize("place", PLACES)
def test_no_yaml_file_has_one_anywhere(tmp_path: Path, place: str, kind: str) -> None:
    """Class of the fault: only some hidden characters were refused, and a lone CR ended lines."""
    char, (before, after) = HIDDEN[kind], PLACES[place].split("{}")
    after = f" {after}" if char == "\r" else after  # before a line feed it is not alone
    path = tmp_path / "a.yaml"
    path.write_bytes(f"{before}{char}{after}".encode())
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    with pytest.raises(PolicyFileError) as caught:
        load([path])
    said = f"{path}:{line}:{column}: a character that cannot be seen: {described(char)}\nhint: "
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("kind", HIDDEN)
def test_no_hook_file_has_one_not_even_in_its_prose(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "guard.md"
    whole = f"{HOOK}# Title\n\nWhat it is for.\n"
    for at in (4, whole.index("def"), whole.index("allow"), len(HOOK), len(HOOK) + 4, len(whole)):
        path.write_bytes(f"{whole[:at]}{HIDDEN[kind]}{whole[at:]}".encode())
        with pytest.raises(PolicyFileError, match="cannot be seen: U\\+"):
            load_hooks([path])


def test_nor_does_a_file_that_is_included_its_name_or_a_file_of_cases(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("include: [b.yaml]\npolicies: []\n", encoding="utf-8")
    (tmp_path / "b.yaml").write_text("policies: []  # \u200b\n", encoding="utf-8")
    with pytest.raises(PolicyFileError, match=r"b\.yaml:1:17: .*U\+200B \(ZERO WIDTH SPACE\)"):
        load([tmp_path / "a.yaml"])
    named = tmp_path / "al\u202elow.yaml"
    named.write_text("policies: []\n", encoding="utf-8")
    with pytest.raises(PolicyFileError, match=r"its name has a character .* U\+202E .*\nhint: ren"):
        load([named])
    (tmp_path / "b.yaml").write_text("cases: []  # \u2066\n", encoding="utf-8")
    with pytest.raises(PolicyFileError, match=r"b\.yaml:1:14: .*U\+2066"):
        read_suites(tmp_path / "b.yaml")


@pytest.mark.parametrize("kind", HIDDEN)
def test_no_text_of_starlark_has_one_whoever_wrote_it(tmp_path: Path, kind: str) -> None:
    char = HIDDEN[kind]
    with pytest.raises(PolicyFileError, match=r"^a\.yaml:2:10: a character that cannot be seen"):
        compile_expression(f"(\nargs == '{char}')", At())
    with pytest.raises(PolicyFileError, match=r"^a\.yaml:2:5: a character that cannot be seen"):
        compile_script(f"def handle(event, payload):\n    {char}return 1\n", At())
    with pytest.raises(ConfigError):
        policy.deny(f"a{char}ct")
    # An escape of YAML is visible, but its character would be hidden in a condition or a name.
    path = tmp_path / "a.yaml"
    for text in (f"args['x'] == 'a{char}b'", f"args['x'] == 'a' # {char}."):
        path.write_text(f"policies:\n- deny: act\n  when: {json.dumps(text)}\n", encoding="utf-8")
        with pytest.raises(PolicyFileError):
            load([path])
    for key in ("deny", "id", "agent"):
        rest = "" if key == "deny" else "deny: act, "
        path.write_text(f"policies: [{{{rest}{key}: {json.dumps(f'a{char}b')}}}]", encoding="utf-8")
        with pytest.raises(PolicyFileError):
            load([path])


def test_a_script_can_still_look_for_them_by_their_escape(tmp_path: Path) -> None:
    test = compile_expression("'\\u200b' in args['x']", At())
    assert test({"x": "a\u200bb"}) is True
    path = tmp_path / "a.yaml"
    when = json.dumps("'\\u200b' in args['x']")
    path.write_text(f"policies:\n- deny: act\n  when: {when}\n", encoding="utf-8")
    assert load([path])


@pytest.mark.parametrize(
    "picture", ["\u26a0\ufe0f", "\U0001f469\u200d\U0001f4bb", "\u2764\ufe0f\u200d\U0001f525"]
)
def test_pictures_may_be_joined_and_coloured_in_files_and_blanks_are_free_in_prose(
    tmp_path: Path, picture: str
) -> None:
    path = tmp_path / "a.yaml"
    text = f"# {picture}\npolicies:\n- deny: act\n  reason: {picture} not here\n"
    path.write_text(text, encoding="utf-8")
    assert load([path])
    hook = tmp_path / "guard.md"
    hook.write_text(f"{HOOK}\nNicht\u00a0hier\u3000{picture}\n", encoding="utf-8")
    assert load_hooks([hook])
    with pytest.raises(PolicyFileError):
        compile_expression(f"args['x'] == '{picture}'", At())
    for wide in ("\u00a0", "\u3000"):
        path.write_text(f"policies:\n- deny: act{wide}\n", encoding="utf-8")
        with pytest.raises(PolicyFileError, match="cannot be seen"):
            load([path])


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("plain text\twith\nlines", -1),
        ("größer, 日本語, ελ, é", -1),
        ("1\ufe0f\u20e3 #\ufe0f\u20e3 \u203c\ufe0f \u2194\ufe0f", -1),
        ("\U0001f44d\U0001f3fd \U0001faff", -1),  # with a colour of skin; one that is yet to come
        ("1\ufe0f", 1),
        ("\ufe0f", 0),
        ("\u200d\U0001f525", 0),
        ("\U0001f525\u200d", 1),
        ("\U0001f525\u200da", 1),
        ("a\u200d\U0001f525", 1),
        ("\U0001f3f4\U000e0067", 1),
    ],
)
def test_what_belongs_to_a_picture(text: str, at: int) -> None:
    assert find_unseen(text, pictures=True) == at


def test_every_category_but_the_plain_ones_is_unseen() -> None:
    plain = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No"}
    plain |= {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So"}
    for code in range(0x20, sys.maxunicode + 1, 7):
        char = chr(code)
        if unicodedata.category(char) not in plain and char != " ":
            assert find_unseen(char) == 0, hex(code)


def test_a_character_without_a_name_is_told_by_its_code() -> None:
    assert described("\ue000") == "U+E000"
    assert described("\U000e0041") == "U+E0041 (TAG LATIN CAPITAL LETTER A)"


def test_a_mebibyte_of_prose_in_any_script_is_read_at_once(tmp_path: Path) -> None:
    path: Any = tmp_path / "a.yaml"
    path.write_text("policies: []\n" + "# 日本語のコメント\n" * 30_000, encoding="utf-8")
    assert load([path]) is not None
