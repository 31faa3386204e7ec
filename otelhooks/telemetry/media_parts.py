"""Pictures, sound and files in messages, recorded as references.

Content is read by people and stored for long: a medium's bytes have no place in it. What has an
address or a file's id keeps it; bytes become a URN of their SHA-256, by which a holder of the
medium can recognise it.

Source: GenAI conventions, parts ``uri`` and ``file`` of messages; forms of OpenAI (chat and
responses), Anthropic, Google and LangChain, November 2026.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["media_part"]

_MODALITIES = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "input_audio": "audio",
    "video": "video",
    "document": "document",
    "file": "document",
    "input_file": "document",
    "inline_data": "",
    "file_data": "",
}
_INNER = (
    "source",
    "image_url",
    "input_audio",
    "file",
    "inline_data",
    "file_data",
    "image",
    "audio",
)
_BYTES = ("data", "base64", "file_data", "bytes")
_ADDRESSES = ("url", "uri", "file_uri", "file_url", "image_url")
_IDS = ("file_id", "id")
_TYPES = ("mime_type", "media_type", "mimeType", "format")


def media_part(block: object) -> dict[str, Any] | None:
    """Return a block that holds a medium as a part of the conventions.

    Args:
        block: One block of a message's content, a mapping or an object: with a ``type`` that names
            a medium, or with bytes in ``data``.

    Returns:
        A part ``uri`` or ``file``, with ``modality`` and, where known, ``mime_type``; None if the
        block holds no medium, or none that this function can find.
    """
    fields = _fields(block)
    kind = str(fields.get("type") or "")
    if kind not in _MODALITIES and not isinstance(fields.get("data"), bytes):
        return None
    for name in _INNER:
        fields.update(_fields(fields.get(name)))
    mime = _text(fields, _TYPES)
    address = _text(fields, _ADDRESSES)
    content = next((fields[name] for name in _BYTES if fields.get(name)), None)
    if address.startswith("data:"):
        head, _, content = address.partition(",")
        mime, address = head[len("data:") :].partition(";")[0] or mime, ""
    part: dict[str, Any] = {"type": "uri", "modality": _modality(kind, mime)}
    if "/" in mime:
        part["mime_type"] = mime
    if address:
        return {**part, "uri": address}
    if content is not None:
        return {**part, "uri": f"urn:sha256:{hashlib.sha256(_bytes(content)).hexdigest()}"}
    if id := _text(fields, _IDS):
        return {**part, "type": "file", "file_id": id}
    return None


def _fields(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    return dict(getattr(value, "__dict__", ()))


def _text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    found = (fields.get(name) for name in names)
    return next((one for one in found if isinstance(one, str) and one), "")


def _modality(kind: str, mime: str) -> str:
    family = mime.partition("/")[0]
    return family if family in ("image", "audio", "video") else _MODALITIES.get(kind) or "document"


def _bytes(content: object) -> bytes:
    if isinstance(content, (bytes, bytearray)):
        return bytes(content)
    text = content if isinstance(content, str) else str(content)
    text = text.partition(",")[2] if text.startswith("data:") else text
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "replace")
