"""cloudretry: retry, pacing and egress beneath the real boto3 and Azure clients of discovery programs.

Importing this package imports no SDK and nothing heavy: each public name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloudretry.commands import AwsApiCommand, AzureApiCommand, attach, history, install
    from cloudretry.config import Configuration, load_configuration
    from cloudretry.core.context import BackoffContext
    from cloudretry.core.history import Attempt, History
    from cloudretry.core.lost import LostCall
    from cloudretry.errors import CallsLost, CloudRetryError, ConfigurationError, MissingExtra, PluginNotFound
    from cloudretry.order import interleave
    from cloudretry.report import Report

__all__ = [
    "Attempt",
    "AwsApiCommand",
    "AzureApiCommand",
    "BackoffContext",
    "CallsLost",
    "CloudRetryError",
    "Configuration",
    "ConfigurationError",
    "EgressPool",
    "History",
    "LostCall",
    "MissingExtra",
    "PluginNotFound",
    "PoolUnavailable",
    "Report",
    "TurnTimeout",
    "attach",
    "history",
    "install",
    "interleave",
    "load_configuration",
]

__version__ = "0.1.0"

_HOMES = {
    "Attempt": "cloudretry.core.history",
    "AwsApiCommand": "cloudretry.commands",
    "AzureApiCommand": "cloudretry.commands",
    "BackoffContext": "cloudretry.core.context",
    "CallsLost": "cloudretry.errors",
    "CloudRetryError": "cloudretry.errors",
    "Configuration": "cloudretry.config",
    "ConfigurationError": "cloudretry.errors",
    "EgressPool": "cloudretry.egress.pool",
    "History": "cloudretry.core.history",
    "LostCall": "cloudretry.core.lost",
    "MissingExtra": "cloudretry.errors",
    "PluginNotFound": "cloudretry.errors",
    "PoolUnavailable": "cloudretry.errors",
    "Report": "cloudretry.report",
    "TurnTimeout": "cloudretry.errors",
    "attach": "cloudretry.commands",
    "history": "cloudretry.commands",
    "install": "cloudretry.commands",
    "interleave": "cloudretry.order",
    "load_configuration": "cloudretry.config",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
