"""Finds what the SDKs have made before the process was hooked: whoever holds it, the garbage collector knows it."""

from __future__ import annotations

import gc
import sys
from typing import Any, Final

__all__ = ["clients", "pipelines"]

_IDENTITY: Final = "azure.identity."


def clients() -> list[Any]:
    """The botocore clients, those beneath boto3 resources among them."""
    return _instances("botocore.client", "BaseClient")


def pipelines() -> tuple[list[Any], list[Any]]:
    """The pipelines of azure-core, sync and aio: those of clients, and those of azure-identity's credentials."""
    found = _instances("azure.core.pipeline", "Pipeline", "AsyncPipeline")
    credentials = [each for each in gc.get_objects() if str(type(each).__module__).startswith(_IDENTITY)] if found else []
    theirs = {id(value) for each in credentials for value in getattr(each, "__dict__", {}).values()}
    return [each for each in found if id(each) not in theirs], [each for each in found if id(each) in theirs]


def _instances(module: str, *names: str) -> list[Any]:
    """Asks for the types alone: what stands in for another object may do anything when it is looked at."""
    kinds = tuple(kind for name in names if (kind := getattr(sys.modules.get(module), name, None)) is not None)
    return [each for each in gc.get_objects() if issubclass(type(each), kinds)] if kinds else []
