"""Which setting decided that a call is lost: with its value, and where it was written. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudretry.core.decision import StopReason

if TYPE_CHECKING:
    from cloudretry.core.call import Call
    from cloudretry.core.settings import RetrySettings, Settings

__all__ = ["DECIDING", "rule_of"]

_OF_THE_CALL: Final = {
    StopReason.MAX_RETRIES: "max_retries",
    StopReason.TRANSIENT_RETRIES: "transient_retries",
    StopReason.TIME_BUDGET: "time_budget",
    StopReason.MAX_HEADER_DELAY: "max_header_delay",
    StopReason.PLUGIN: "plugin",
}
_OF_THE_POOL: Final = {StopReason.POOL_RETRIES: "retries", StopReason.POOL_UNAVAILABLE: "when_unavailable"}

DECIDING: Final = frozenset({*_OF_THE_CALL.values(), *_OF_THE_POOL.values(), "queue_timeout", "mode"})
"""Last parts of the names of settings that can end a call: their origins are worth keeping."""


def rule_of(settings: Settings, call: Call, retry: RetrySettings, reason: StopReason) -> str | None:
    """`max_retries=8 (/etc/cloudretry.toml:3:1)`; None where it was no setting, but what happened. `retry`: what held."""
    if reason in _OF_THE_CALL:
        return _of_the_call(settings, call, retry, _OF_THE_CALL[reason])
    pool = settings.pools.get(retry.pool or "")
    if reason in _OF_THE_POOL and pool is not None:
        name = _OF_THE_POOL[reason]
        return _told(settings, f"pools.{retry.pool}.{name}", name, getattr(pool, name))
    if reason is StopReason.QUEUE_TIMEOUT:
        timeout = settings.providers[call.provider].pacing.queue_timeout
        return _told(settings, f"{call.provider}.pacing.queue_timeout", "queue_timeout", timeout)
    if reason is StopReason.SDK and settings.providers[call.provider].mode == "observe":
        return _told(settings, f"{call.provider}.mode", "mode", "observe")
    return None


def _of_the_call(settings: Settings, call: Call, retry: RetrySettings, name: str) -> str:
    entry, value = settings.providers[call.provider], getattr(retry, name)
    if value != getattr(entry.for_call(call), name):  # by the SDK's own options, or because a retry loop is around it
        return f"{name}={_shown(value)} (narrowed for this call)"
    path = f"{call.provider}.{name}"
    for index, override in enumerate(entry.overrides):
        if name in override.changes and override.match.matches(call):
            path = f"{call.provider}.overrides[{index}].{name}"
    return _told(settings, path, name, value)


def _told(settings: Settings, path: str, name: str, value: Any) -> str:
    origin = settings.origins.get(path)
    return f"{name}={_shown(value)}" if origin is None else f"{name}={_shown(value)} ({origin})"


def _shown(value: Any) -> str:
    return f"{value:g}s" if isinstance(value, float) else str(value)
