"""The entries that ship with the package, and the presets that an entry can start from.

The values of the built-in entries are provisional: measured ones replace them with the pacing work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from cloudretry.core.headers import ERROR_TEXT, KNOWN_UNITS, HeaderSource, Unit
from cloudretry.core.settings import ProviderSettings, RetrySettings, Settings

__all__ = ["BUILTIN", "PRESETS"]


def _known(*names: str) -> tuple[HeaderSource, ...]:
    return tuple(HeaderSource(name, KNOWN_UNITS[name]) for name in names)


_AWS = RetrySettings(response_header=_known("x-amz-retry-after", "retry-after"))

_AZURE = RetrySettings(
    response_header=_known(
        "retry-after",
        "retry-after-ms",
        "x-ms-retry-after-ms",
        "x-ms-user-quota-resets-after",
        "x-ms-ratelimit-microsoft.costmanagement-qpu-retry-after",
        "x-ms-ratelimit-microsoft.costmanagement-entity-retry-after",
        "x-ms-ratelimit-microsoft.costmanagement-tenant-retry-after",
        "x-ms-ratelimit-microsoft.costmanagement-client-retry-after",
        "x-ms-ratelimit-microsoft.consumption-retry-after",
        ERROR_TEXT,
    )
)

# The example that ServiceNow's documentation prints. What ServiceNow ships for AWS and Azure is not published.
_EXAMPLE = RetrySettings(
    max_retries=3,
    response_codes=frozenset({429}),
    base_delay=1.0,
    max_delay=10.0,
    additional_delay_window=1.5,
    response_header=(HeaderSource("retry-after", Unit.SECONDS),),
)

PRESETS: Final[Mapping[str, Mapping[str, RetrySettings]]] = {
    "builtin": {"aws": _AWS, "azure": _AZURE},
    "example": {"aws": _EXAMPLE, "azure": _EXAMPLE},
    "azure-core": {"azure": replace(_AZURE, strategy="sdk")},
}
"""preset → provider → settings."""

BUILTIN: Final = Settings(providers={name: ProviderSettings(retry=retry) for name, retry in PRESETS["builtin"].items()})
"""What holds where nothing is configured."""
