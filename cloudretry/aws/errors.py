"""Our errors for calls that never left, as botocore's own: programs that handle its connection errors handle them too."""

from __future__ import annotations

from botocore.exceptions import EndpointConnectionError

from cloudretry import errors

__all__ = ["PoolUnavailable", "TurnTimeout"]


class PoolUnavailable(errors.PoolUnavailable, EndpointConnectionError):  # noqa: N818 - as its base is named
    """No member of the pool can be used now."""

    fmt = "{error}"


class TurnTimeout(errors.TurnTimeout, EndpointConnectionError):  # noqa: N818 - as its base is named
    """The call's turn would come too late."""

    fmt = "{error}"
