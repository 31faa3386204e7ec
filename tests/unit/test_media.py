"""Media in prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from otelhooks import types


@pytest.mark.parametrize(
    ("name", "kind", "mime_type"),
    [
        ("a.png", types.Image, "image/png"),
        ("a.pdf", types.Document, "application/pdf"),
        ("a.mp3", types.Audio, "audio/mpeg"),
        ("a.mp4", types.Video, "video/mp4"),
    ],
)
def test_a_files_ending_says_its_kind(
    tmp_path: Path, name: str, kind: type, mime_type: str
) -> None:
    file = tmp_path / name
    file.write_bytes(b"data")
    medium = types.from_file(file, "what it shows")
    assert type(medium) is kind
    assert (medium.data, medium.mime_type, medium.description) == (
        b"data",
        mime_type,
        "what it shows",
    )
    assert kind.from_file(str(file)).mime_type == mime_type


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(b"")
    with pytest.raises(ValueError, match="Unsupported Audio MIME type: 'image/png'"):
        types.Audio.from_file(file)


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.unheard-of"
    file.write_bytes(b"")
    with pytest.raises(ValueError, match=r"extension: '\.unheard-of'"):
        types.from_file(file)


def test_an_unknown_mime_type_is_refused() -> None:
    with pytest.raises(ValueError, match="Unsupported MIME type: 'x/y'"):
        types.from_bytes(b"", "x/y")


def test_a_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"none\.png"):
        types.from_file(tmp_path / "none.png")
