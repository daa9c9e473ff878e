"""Our errors for calls that never left, as azure-core's own: programs that handle its connection errors handle them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure.core.exceptions import ServiceRequestError

from cloudretry import errors

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["PoolUnavailable", "TurnTimeout"]


class PoolUnavailable(errors.PoolUnavailable, ServiceRequestError):  # noqa: N818 - as its base is named
    """No member of the pool can be used now."""

    def __init__(self, message: str, retry_at: datetime | None = None) -> None:
        super().__init__(message)
        self.retry_at = retry_at


class TurnTimeout(errors.TurnTimeout, ServiceRequestError):  # noqa: N818 - as its base is named
    """The call's turn would come too late."""
