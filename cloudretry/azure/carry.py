"""Where a call's history rides: on the SDK's response or exception, because its attributes survive the error's pickling.

An HttpResponseError carries its response wherever it goes; class, message and every field stay as they are. Errors whose
traceback azure-core keeps in a field (those of a broken connection, by the requests transport) can't be pickled at all.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cloudretry.errors import PoolUnavailable

if TYPE_CHECKING:
    from cloudretry.core.history import History

__all__ = ["carried", "put_on"]

_KEY: Final = "CloudRetry"


def put_on(thing: object, history: History) -> None:
    """Add to a response or to an exception that has none."""
    if isinstance(thing, PoolUnavailable):
        history = replace(history, retry_at=thing.retry_at)
    with suppress(AttributeError):  # a user's own response class may have slots
        setattr(thing, _KEY, history.to_dict())


def carried(error: BaseException) -> Any:
    """What was put on an error or its response; None if nothing was."""
    for thing in (error, getattr(error, "response", None)):
        found = getattr(thing, "__dict__", {}).get(_KEY)
        if found is not None:
            return found
    return None
