"""The errors of cloudretry, one tree. Each says who has to act; none replaces an error that the SDK has for the case.

CloudRetryError
├── ConfigurationError     whoever wrote the configuration: it is not used until it is corrected
│   └── PluginNotFound     whoever deploys: a plugin that the configuration names is not installed
├── MissingExtra           whoever installs: an optional dependency is not there
├── PoolUnavailable        whoever runs the egress: no member can be used now
├── TurnTimeout            whoever schedules: a quota is so busy that the call's turn would come too late
└── CallsLost              whoever reads the inventory: it has holes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "CallsLost",
    "CloudRetryError",
    "ConfigurationError",
    "MissingExtra",
    "PluginNotFound",
    "PoolUnavailable",
    "TurnTimeout",
]

_SHOWN = 20  # lines of a message; the error itself has them all


class CloudRetryError(Exception):
    """Root of every error that cloudretry raises in its own name."""


class ConfigurationError(CloudRetryError):
    """A configuration was refused; `problems` holds every fault found, one line each."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


class PluginNotFound(ConfigurationError):  # noqa: N818 - named for what happened; its base carries the suffix
    """A configured getDelay() plugin is not installed in this environment."""


class MissingExtra(CloudRetryError):  # noqa: N818 - named for what happened; its base carries the suffix
    """An optional dependency is needed for what was asked; `extra` names the one to install."""

    def __init__(self, extra: str) -> None:
        super().__init__(extra)
        self.extra = extra

    def __str__(self) -> str:
        return f'what the extra "{self.extra}" brings is not installed; run: pip install "cloudretry[{self.extra}]"'


class PoolUnavailable(CloudRetryError):  # noqa: N818 - named for what happened; its base carries the suffix
    """No member of an egress pool can be used; the message lists each with its state and when it may be tried again.

    What is raised is also an error of the SDK: botocore's EndpointConnectionError or azure-core's ServiceRequestError.

    Attributes:
        retry_at: when (UTC) the first of them may be; None: nothing comes back by itself. `history(error)` has it too.
    """

    retry_at: datetime | None = None


class TurnTimeout(CloudRetryError):  # noqa: N818 - named for what happened; its base carries the suffix
    """A call can't have its turn within the `queue_timeout`. Nothing was sent; `history(error).retry_at` says when it could be.

    What a client raises is also an error of the SDK, as with PoolUnavailable.
    """


class CallsLost(CloudRetryError):  # noqa: N818 - named for what happened; its base carries the suffix
    """Calls were given up during a run, so what was collected is incomplete; `lost` lists them, one line each."""

    def __init__(self, *lost: str) -> None:
        super().__init__(*lost)
        self.lost = lost

    def __str__(self) -> str:
        more = len(self.lost) - _SHOWN
        lines = [f"{len(self.lost)} calls were lost:", *self.lost[:_SHOWN]]
        return "\n".join([*lines, f"… and {more} more"] if more > 0 else lines)
