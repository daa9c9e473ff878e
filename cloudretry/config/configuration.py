"""The value that the configuration room makes: settings, and where each of them comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudretry.config.place import Place
    from cloudretry.core.settings import Settings

__all__ = ["Configuration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A valid configuration. Frozen, picklable, safe to share between threads.

    Args:
        origins: where each setting was set, by its dotted name: `aws.max_retries`, `aws.overrides[0].max_retries`.
        warnings: what is allowed and probably not meant, one line each.
        files: the files that were read, to be watched for changes.
    """

    settings: Settings
    origins: Mapping[str, Place] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
