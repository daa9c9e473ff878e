"""An environment that leads the demo's clients to the simulated clouds and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["sealed_environment"]

_SEALED = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "*",
}
_PREFIXES = ("AWS_", "AZURE_", "BOTO_", "CLOUDRETRY_", "SSL_CERT_")
_SUFFIXES = ("_PROXY", "_CA_BUNDLE")


@contextmanager
def sealed_environment() -> Iterator[None]:
    """Hide whatever could lead an SDK, or cloudretry, elsewhere or change how it retries; for the whole process."""
    hidden = {name: value for name, value in os.environ.items() if _leads_elsewhere(name.upper())}
    for name in hidden:
        del os.environ[name]
    os.environ.update(_SEALED)
    try:
        yield
    finally:
        for name in _SEALED:
            os.environ.pop(name, None)
        os.environ.update(hidden)


def _leads_elsewhere(name: str) -> bool:
    return name.startswith(_PREFIXES) or name.endswith(_SUFFIXES)
