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
    theirs = {id(value) for each in (gc.get_objects() if found else ()) if _is_of_identity(each) for value in _values(each)}
    return [each for each in found if id(each) not in theirs], [each for each in found if id(each) in theirs]


def _instances(module: str, *names: str) -> list[Any]:
    """Asks for the types alone, and these by what they were made of: whatever else there is may do anything when asked."""
    kinds = {id(kind) for name in names if (kind := getattr(sys.modules.get(module), name, None)) is not None}
    return [each for each in gc.get_objects() if not kinds.isdisjoint(map(id, _bases(each)))] if kinds else []


def _bases(thing: object) -> tuple[type, ...]:
    return type.__dict__["__mro__"].__get__(type(thing))  # type: ignore[no-any-return]


def _is_of_identity(thing: object) -> bool:
    module = type.__dict__["__dict__"].__get__(type(thing)).get("__module__")
    return isinstance(module, str) and module.startswith(_IDENTITY)


def _values(thing: Any) -> list[Any]:
    try:
        return list(vars(thing).values())
    except Exception:  # noqa: BLE001 - as above
        return []
