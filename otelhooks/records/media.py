"""Media in a prompt: image, document, audio and video, with the MIME types that models take.

Source: names and MIME types are those of google-antigravity 0.1.22.
"""

from __future__ import annotations

import mimetypes
import pathlib
from typing import ClassVar

import pydantic
from typing_extensions import Self

__all__ = ["Audio", "Content", "Document", "Image", "Video", "from_bytes", "from_file"]


def _kinds(family: str, names: str) -> frozenset[str]:
    return frozenset(f"{family}/{name}" for name in names.split())


class _Media(pydantic.BaseModel):
    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True)

    MIME_TYPES: ClassVar[frozenset[str]] = frozenset()

    data: bytes
    mime_type: str
    description: str | None = None

    @pydantic.field_validator("mime_type")
    @classmethod
    def _known_mime_type(cls, value: str) -> str:
        if value not in cls.MIME_TYPES:
            msg = f"Unsupported {cls.__name__} MIME type: '{value}'"
            raise ValueError(msg)
        return value

    @classmethod
    def from_file(cls, path: str | pathlib.Path, description: str | None = None) -> Self:
        """Read a medium from a file; its MIME type follows from the file's suffix.

        Args:
            path: File to read.
            description: Text that goes with it.

        Raises:
            OSError: The file cannot be read.
            ValueError: The suffix is unknown or the MIME type is not of this kind.
        """
        data, mime_type = _read(path)
        return cls(data=data, mime_type=mime_type, description=description)


class Image(_Media):
    """A picture."""

    MIME_TYPES: ClassVar[frozenset[str]] = _kinds("image", "bmp jpeg png webp")


class Document(_Media):
    """A text or PDF document."""

    MIME_TYPES: ClassVar[frozenset[str]] = _kinds("application", "pdf json") | _kinds(
        "text", "css csv html javascript plain rtf xml"
    )


class Audio(_Media):
    """A sound recording."""

    MIME_TYPES: ClassVar[frozenset[str]] = _kinds(
        "audio", "wav x-wav wave vnd.wave mp3 mp4 webm aac ogg flac opus mpeg m4a l16"
    )


class Video(_Media):
    """A film."""

    MIME_TYPES: ClassVar[frozenset[str]] = _kinds(
        "video", "3gpp avi mp4 mpeg mpg quicktime webm wmv x-flv"
    )


ContentPrimitive = str | Image | Document | Audio | Video
Content = ContentPrimitive | list[ContentPrimitive]
"""A user's prompt: text, one medium, or a list of them."""

_KIND_OF = {mime: kind for kind in (Image, Document, Audio, Video) for mime in kind.MIME_TYPES}


def _read(path: str | pathlib.Path) -> tuple[bytes, str]:
    file = pathlib.Path(path)
    mime_type, _ = mimetypes.guess_type(file)
    data = file.read_bytes()
    if not mime_type:
        msg = f"Could not infer a valid MIME type for extension: '{file.suffix}'"
        raise ValueError(msg)
    return data, mime_type


def from_file(
    path: str | pathlib.Path, description: str | None = None
) -> Image | Document | Audio | Video:
    """Read a medium of the kind that the file's suffix shows.

    Args:
        path: File to read.
        description: Text that goes with it.

    Raises:
        OSError: The file cannot be read.
        ValueError: The suffix is unknown or belongs to no kind of medium.
    """
    data, mime_type = _read(path)
    return from_bytes(data, mime_type, description)


def from_bytes(
    data: bytes, mime_type: str, description: str | None = None
) -> Image | Document | Audio | Video:
    """Create a medium of the kind that the MIME type shows.

    Args:
        data: The medium itself.
        mime_type: For example ``image/png``.
        description: Text that goes with it.

    Raises:
        ValueError: The MIME type belongs to no kind of medium.
    """
    kind = _KIND_OF.get(mime_type)
    if kind is None:
        msg = f"Unsupported MIME type: '{mime_type}'. Supported: {sorted(_KIND_OF)}"
        raise ValueError(msg)
    return kind(data=data, mime_type=mime_type, description=description)
