"""Writes compiled settings for a process without pydantic. The file is its owner's alone and replaced in one step.

References to secrets stay what they are: the process that uses them resolves them.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from cloudretry.core.proxy_url import holds_secret
from cloudretry.errors import ConfigurationError

if TYPE_CHECKING:
    from cloudretry.core.settings import Settings

__all__ = ["refuse_secrets", "write_compiled"]

_PRIVATE = 0o600


def refuse_secrets(settings: Settings) -> None:
    """For a place that others may read. Raises ConfigurationError that names the members with written-out credentials."""
    problems = [
        f"pools.{pool.name}: the credentials of member {member.name} are written out:"
        " write them as ${env:NAME} or ${file:PATH}, or compile to a file with --output"
        for pool in settings.pools.values()
        for member in pool.members
        if member.url is not None and holds_secret(member.url)
    ]
    if problems:
        raise ConfigurationError(*problems)


def write_compiled(settings: Settings, path: str) -> None:
    """A reader sees the old file or the new one, never a half. Raises ConfigurationError where the system refuses."""
    temporary = f"{path}.{secrets.token_hex(8)}"
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w", encoding="utf-8") as file:
            file.write(f"{settings.to_json()}\n")
        os.replace(temporary, path)  # noqa: PTH105 - the path is shown as it was given
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - as above
        raise ConfigurationError(f"{path}: not written: {error.strerror}") from None
