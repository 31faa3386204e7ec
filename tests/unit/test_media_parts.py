"""Media in captured messages: references, never bytes."""

from __future__ import annotations

import base64
import hashlib
from types import SimpleNamespace as Object
from typing import Any

import pytest

from otelhooks import types
from otelhooks.telemetry.content import messages
from otelhooks.telemetry.media_parts import media_part

BYTES = b"hello"
TEXT = base64.b64encode(BYTES).decode()
URN = f"urn:sha256:{hashlib.sha256(BYTES).hexdigest()}"


def part(modality: str, uri: str, mime: str = "") -> dict[str, Any]:
    return {
        "type": "uri",
        "modality": modality,
        "uri": uri,
        **({"mime_type": mime} if mime else {}),
    }


PNG = part("image", URN, "image/png")


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TEXT}"}}, PNG),
        (
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            part("image", "https://x/y.png"),
        ),
        ({"type": "input_image", "image_url": f"data:image/png;base64,{TEXT}"}, PNG),
        (
            {"type": "input_audio", "input_audio": {"data": TEXT, "format": "wav"}},
            part("audio", URN),
        ),
        (
            {"type": "file", "file": {"file_id": "f1"}},
            {"type": "file", "modality": "document", "file_id": "f1"},
        ),
        (
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": TEXT},
            },
            PNG,
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}},
            part("document", "https://x/y.pdf"),
        ),
        ({"type": "image", "base64": TEXT, "mime_type": "image/png"}, PNG),
        (types.Image(data=BYTES, mime_type="image/png"), PNG),
        (Object(type="image", source=Object(media_type="image/png", data=TEXT)), PNG),
        (
            {"type": "inline_data", "inline_data": Object(mime_type="video/mp4", data=BYTES)},
            part("video", URN, "video/mp4"),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "not base64!"}},
            part("audio", f"urn:sha256:{hashlib.sha256(b'not base64!').hexdigest()}"),
        ),
    ],
)
def test_a_medium_is_a_reference(block: Any, expected: dict[str, Any]) -> None:
    assert media_part(block) == expected
    [message] = messages([{"role": "user", "content": [block]}])
    assert message["parts"] == [expected]
    assert TEXT not in str(message)


@pytest.mark.parametrize("block", [{"type": "text", "text": "hi"}, {"type": "image"}, "hi", None])
def test_what_holds_no_medium_is_no_reference(block: Any) -> None:
    assert media_part(block) is None
