"""Records of a topic, checked as a mirror node gives them."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from otelhooks.audit import Audit, check
from otelhooks.audit.chain import parse_file_name
from otelhooks.audit.hcs_messages import Message, chunks_of, unwrap, wrap
from otelhooks.cli.audit import audit
from otelhooks.errors import ConfigError

PAYER = "0.0.1001"


class Mirror:
    """A topic as a mirror node has it."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def take(self, data: bytes, payer: str = PAYER) -> None:
        chunks = chunks_of(data)
        first = {"account_id": payer, "transaction_valid_start": f"{len(self.messages)}.0"}
        for number, chunk in enumerate(chunks, 1):
            info = {"initial_transaction_id": first, "number": number, "total": len(chunks)}
            self.messages.append(
                {
                    "chunk_info": info if len(chunks) > 1 else None,
                    "consensus_timestamp": f"{len(self.messages)}.000000001",
                    "message": base64.b64encode(chunk).decode(),
                    "payer_account_id": payer,
                    "sequence_number": len(self.messages) + 1,
                    "topic_id": "0.0.5005",
                }
            )

    def take_all(self, lines: list[Message]) -> None:
        for line in lines:
            self.take(wrap(line))

    def save(self, path: Path, page: int = 3) -> Path:
        pages = [self.messages[at : at + page] for at in range(0, len(self.messages), page)]
        texts = [json.dumps({"links": {"next": None}, "messages": one}, indent=1) for one in pages]
        path.write_text("\n".join(texts))
        return path


@pytest.fixture
def trail(tmp_path: Path) -> list[Message]:
    """Lines of one trail of two segments: 4 records, one of them large."""
    with Audit(tmp_path / "trail", rotate_bytes=4000) as written:
        for number in range(4):
            written.append({"tool_name": f"tool {number}", "arguments": "x" * 2500})
    found = []
    for path in sorted((tmp_path / "trail").iterdir()):
        name = parse_file_name(path.name)
        assert name is not None
        lines = path.read_bytes().splitlines()
        found += [Message(name.chain, name.number, line) for line in lines]
    return found


def kinds(mirror: Mirror, path: Path) -> list[tuple[str, str, int]]:
    report = check(mirror.save(path / "topic.json"))
    return [(one.kind, one.severity, one.line) for one in report.findings]


def test_a_topic_with_all_records_of_a_trail_is_found_sound(trail, tmp_path):
    mirror = Mirror()
    mirror.take_all(trail)
    report = check(mirror.save(tmp_path / "topic.json"))
    assert report.findings == []
    assert report.records == len(trail)
    (head,) = report.heads
    assert head.line == len(mirror.messages)
    assert check(tmp_path / "topic.json", expect=[head.hash]).findings == []


def test_the_order_on_the_topic_and_records_that_are_there_twice_are_not_findings(trail, tmp_path):
    mirror = Mirror()
    shuffled = [*trail, *trail[2:4]]
    random.Random(7).shuffle(shuffled)
    mirror.take_all(shuffled)
    assert kinds(mirror, tmp_path) == []


def test_single_messages_one_a_line_are_read_too(trail, tmp_path):
    mirror = Mirror()
    mirror.take_all(trail)
    path = tmp_path / "messages.jsonl"
    path.write_text("\n".join(map(json.dumps, mirror.messages)))
    assert check(path).findings == []


def test_a_record_that_is_missing_is_a_gap(trail, tmp_path):
    mirror = Mirror()
    mirror.take_all(trail[:1] + trail[2:])
    assert "gap" in [kind for kind, _, _ in kinds(mirror, tmp_path)]


def test_a_record_that_was_edited_is_found_at_its_message(trail, tmp_path):
    mirror = Mirror()
    edited = trail[1]._replace(line=trail[1].line.replace(b"tool 0", b"tool 9"))
    mirror.take_all([trail[0], edited, *trail[2:]])
    (found,) = check(mirror.save(tmp_path / "t.json")).findings
    assert found.kind == "edited"
    assert mirror.messages[found.line - 1]["chunk_info"]["number"] == 3  # its last chunk


def test_a_record_that_another_account_pays_for_is_foreign(trail, tmp_path):
    mirror = Mirror()
    mirror.take_all(trail)
    forged = trail[1]._replace(line=trail[1].line.replace(b"tool 0", b"tool 9"))
    mirror.take(wrap(forged), payer="0.0.666")
    found = kinds(mirror, tmp_path)
    assert ("foreign", "error", len(mirror.messages)) in found


def test_other_messages_on_the_topic_are_a_warning(trail, tmp_path):
    mirror = Mirror()
    mirror.take(b"hello")
    mirror.take_all(trail)
    assert kinds(mirror, tmp_path) == [("foreign", "warning", 1)]


def test_chunks_of_a_try_that_was_given_up_are_a_warning(trail, tmp_path):
    mirror = Mirror()
    mirror.take(wrap(trail[1]))
    del mirror.messages[2:]
    mirror.take_all(trail)
    assert kinds(mirror, tmp_path) == [("torn", "warning", 1)]


def test_messages_that_are_not_in_the_file_are_a_warning(trail, tmp_path):
    mirror = Mirror()
    mirror.take(b"hello")
    mirror.take(b"hello")
    mirror.take_all(trail)
    del mirror.messages[1]
    assert ("missing", "warning", 3) in kinds(mirror, tmp_path)


def test_a_trail_that_is_not_closed_is_a_warning_as_on_disk(trail, tmp_path):
    mirror = Mirror()
    mirror.take_all(trail[:-1])
    assert [(k, s) for k, s, _ in kinds(mirror, tmp_path)] == [("not closed", "warning")]


@pytest.mark.parametrize(
    "text",
    [
        '{"messages": 5}',
        '{"messages": [{}]}',
        '{"messages": [], "x"',
        '"messages"',
        '{"sequence_number": 1}',
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, text):
    path = tmp_path / "topic.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="not a list of a topic"):
        check(path)


def test_the_command_checks_a_topic(trail, tmp_path):
    mirror = Mirror()
    mirror.take_all(trail)
    path = str(mirror.save(tmp_path / "topic.json"))
    result = CliRunner().invoke(audit, ["verify", path, "--head"])
    assert result.exit_code == 0, result.output
    assert json.loads(trail[-1].line)["hash"] in result.stdout


def test_what_is_wrapped_can_be_unwrapped(trail):
    assert [unwrap(wrap(message)) for message in trail] == trail


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"schema":"otelhooks.hcs/2","chain":"20261122T080235839670678Z-1","segment":1,"record":{}}',
        b'{"schema":"otelhooks.hcs/1","chain":"../../x","segment":1,"record":{}}',
        b'{"schema":"otelhooks.hcs/1","chain":"20261122T080235839670678Z-1","segment":1,"record":{}',
    ],
)
def test_what_is_not_a_message_is_not_taken_for_one(data):
    assert unwrap(data) is None
