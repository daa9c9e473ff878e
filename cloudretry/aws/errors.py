"""Our errors for calls that never left, as botocore's own: programs that handle its connection errors handle them too."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import EndpointConnectionError

from cloudretry import errors

__all__ = ["PoolUnavailable", "TurnTimeout"]


class PoolUnavailable(errors.PoolUnavailable, EndpointConnectionError):  # noqa: N818 - as its base is named
    """No member of the pool can be used now."""

    fmt = "{error}"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.retry_at = kwargs.get("retry_at")  # kept there, since botocore pickles its errors as their arguments


class TurnTimeout(errors.TurnTimeout, EndpointConnectionError):  # noqa: N818 - as its base is named
    """The call's turn would come too late."""

    fmt = "{error}"
