"""Where a call's history rides: inside the SDK error's own data, because that is what survives the error's pickling.

For a response it is one more key beside botocore's RetryAttempts; class, message and every other field stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cloudretry.errors import PoolUnavailable

if TYPE_CHECKING:
    from cloudretry.core.history import History

__all__ = ["carried", "put_on_error", "put_on_response"]

_KEY: Final = "CloudRetry"


def put_on_response(parsed: dict[str, Any], history: History) -> None:
    """Add to the parsed error response from which botocore makes a ClientError."""
    metadata = parsed.setdefault("ResponseMetadata", {})
    metadata[_KEY] = history.to_dict()


def put_on_error(error: Exception, history: History) -> None:
    """Add to an exception that has no response. A BotoCoreError is pickled as its `kwargs`, any other as its attributes."""
    if isinstance(error, PoolUnavailable):
        history = replace(history, retry_at=error.retry_at)
    kwargs = getattr(error, "kwargs", None)
    place = kwargs if isinstance(kwargs, dict) else vars(error)
    place[_KEY] = history.to_dict()


def carried(error: BaseException) -> Any:
    """What was put on an error (a WaiterError has the last response under another name); None if nothing was."""
    for name in ("response", "last_response"):
        response = getattr(error, name, None)
        metadata = response.get("ResponseMetadata") if isinstance(response, dict) else None
        if isinstance(metadata, dict) and _KEY in metadata:
            return metadata[_KEY]
    kwargs = getattr(error, "kwargs", None)
    place = kwargs if isinstance(kwargs, dict) else getattr(error, "__dict__", {})
    return place.get(_KEY)
