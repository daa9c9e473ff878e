"""OpenTelemetry: metrics, and events on the span in which a call is made. Needs the extra `otel`, which is the API alone.

| instrument | unit | what |
|---|---|---|
| `cloudretry.calls` | {call} | by `cloudretry.ended`: `answered`, or why it was given up |
| `cloudretry.attempts` | {attempt} | requests of these calls |
| `cloudretry.failures` | {attempt} | attempts that failed, by `cloudretry.outcome` and `error.type` |
| `cloudretry.wait` | s | waited between the attempts of a call |
| `cloudretry.queue` | s | waited for turns |
| `cloudretry.member_changes` | {change} | members of egress pools that went out or came back |

All but the last have `cloud.provider`, `rpc.service`, `rpc.method`, `cloud.region` and `cloud.account.id`, where known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudretry.core.decision import Retry, StopReason
from cloudretry.core.events import AttemptFailed, BodyCut, CallEnded
from cloudretry.core.history import printable
from cloudretry.errors import MissingExtra

try:
    from opentelemetry import metrics, trace
except ImportError:
    raise MissingExtra("otel") from None

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from cloudretry.core.call import Call
    from cloudretry.core.events import Event
    from cloudretry.core.member_changes import MemberChanged
    from cloudretry.core.outcome import Outcome

__all__ = ["OpenTelemetry"]


class OpenTelemetry:
    """A listener, for `Report(OpenTelemetry())`. Thread-safe.

    Args:
        provider: of meters; None for the global one.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        meter = metrics.get_meter("cloudretry", meter_provider=provider)
        self._calls = meter.create_counter("cloudretry.calls", "{call}")
        self._attempts = meter.create_counter("cloudretry.attempts", "{attempt}")
        self._failures = meter.create_counter("cloudretry.failures", "{attempt}")
        self._wait = meter.create_histogram("cloudretry.wait", "s")
        self._queue = meter.create_histogram("cloudretry.queue", "s")
        self._cuts = meter.create_counter("cloudretry.bodies_cut", "{call}")
        self._changes = meter.create_counter("cloudretry.member_changes", "{change}")
        self._known: dict[Call, dict[str, str]] = {}

    def __call__(self, event: Event) -> None:
        """Count an event; this is what makes it a listener."""
        if isinstance(event, AttemptFailed):
            self._failed(event)
        elif isinstance(event, CallEnded):
            self._ended(event)
        elif isinstance(event, BodyCut):
            self._cuts.add(1, {**self._attributes(event.call), **_failure(event.outcome)})
        else:
            self._changes.add(1, _change(event))

    def _failed(self, event: AttemptFailed) -> None:
        attributes = {**self._attributes(event.call), **_failure(event.outcome)}
        self._failures.add(1, attributes)
        span = trace.get_current_span()
        if span.is_recording():
            span.add_event("cloudretry.attempt_failed", {**attributes, **_more(event)})

    def _ended(self, event: CallEnded) -> None:
        attributes = self._attributes(event.call)
        self._attempts.add(event.attempts, attributes)
        self._wait.record(event.waited, attributes)
        self._queue.record(event.queued, attributes)
        ended = {**attributes, "cloudretry.ended": event.stop.reason.value}
        self._calls.add(1, ended)
        span = trace.get_current_span()
        if event.stop.reason is not StopReason.ANSWERED and span.is_recording():
            span.add_event("cloudretry.given_up", {**ended, "cloudretry.attempts": event.attempts})

    def _attributes(self, call: Call) -> dict[str, str]:
        known = self._known.get(call)
        if known is None:
            named = {
                "cloud.provider": call.provider,
                "rpc.service": call.service,
                "rpc.method": call.operation,
                "cloud.region": call.region,
                "cloud.account.id": call.account,
            }
            known = self._known[call] = {name: value for name, value in named.items() if value is not None}
        return known


def _failure(outcome: Outcome) -> dict[str, str]:
    kind = printable(outcome.code) if outcome.code else str(outcome.status or outcome.phase.value)
    return {"cloudretry.outcome": outcome.kind.value, "error.type": kind}


def _more(event: AttemptFailed) -> dict[str, Any]:
    more: dict[str, Any] = {"cloudretry.attempt": event.number, "cloudretry.phase": event.outcome.phase.value}
    if event.outcome.request_id is not None:
        more["cloudretry.request_id"] = printable(event.outcome.request_id)
    if event.outcome.member is not None:
        more["cloudretry.member"] = event.outcome.member
    if isinstance(event.decision, Retry):
        more["cloudretry.delay"] = event.decision.delay
    return more


def _change(event: MemberChanged) -> dict[str, str]:
    change = event.transition
    reason = {} if change.reason is None else {"cloudretry.reason": change.reason.value}
    return {"cloudretry.pool": event.pool, "cloudretry.member": event.member, "cloudretry.state": change.after.value, **reason}
