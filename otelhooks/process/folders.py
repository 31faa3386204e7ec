"""Folders of this user, in which otelhooks keeps what no setting puts elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from otelhooks.errors import ConfigError

__all__ = ["user_folder"]


def user_folder(kind: Literal["data", "state"], instead: str) -> Path:
    """Return the folder of otelhooks for this user, which may not exist yet.

    Args:
        kind: Which of the folders that a system has for users.
        instead: The setting that names another place.

    Raises:
        ConfigError: The user has no home folder, as in a container that does not know the user.
    """
    import platformdirs

    find = platformdirs.user_data_path if kind == "data" else platformdirs.user_state_path
    try:
        folder = find("otelhooks", appauthor=False)
    except RuntimeError:
        folder = Path("~")
    if not folder.is_absolute():  # as older releases of platformdirs say it
        raise ConfigError("this user has no home folder", hint=f"set HOME, or {instead}")
    return folder
