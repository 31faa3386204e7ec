"""The user that an agent works for, as rules see one."""

from __future__ import annotations

from typing import ClassVar

import pydantic

__all__ = ["User"]


class User(pydantic.BaseModel):
    """A user of the application; what is empty is unknown.

    Attributes:
        id: Pseudonym, on spans as `session` puts it there.
        roles: Names of roles; a user without any should have one that says so.
        tenant: Whose data the user works with.
    """

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True, extra="forbid")

    id: str = ""
    roles: tuple[str, ...] = ()
    tenant: str = ""
