"""OpenTelemetry's own SDK reads back what a throttled call leaves in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cloudretry.config import load_configuration
from cloudretry.core.call import Call
from cloudretry.core.member_changes import Actor, Instant, MemberChanged, Transition
from cloudretry.core.member_health import State
from cloudretry.core.outcome import Kind, Outcome, Phase
from cloudretry.core.tries import Reason
from cloudretry.runtime.engine import Engine
from cloudretry.telemetry.otel import OpenTelemetry
from cloudretry.testing import VirtualClock, virtual_clock

CALL = Call(provider="aws", service="ec2", operation="DescribeInstances", region="eu-west-1", account="111122223333")
NAMES = {
    "cloud.provider": "aws",
    "rpc.service": "ec2",
    "rpc.method": "DescribeInstances",
    "cloud.region": "eu-west-1",
    "cloud.account.id": "111122223333",
}
THROTTLED = Outcome(kind=Kind.THROTTLED, status=503, code="RequestLimitExceeded", request_id="0f9d")
FAILURE = {"cloudretry.outcome": "throttled", "error.type": "RequestLimitExceeded"}


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with virtual_clock() as clock:
        yield clock


class Told:
    """What was exported: `metrics` as {name: [(attributes, value or sum)]}, `spans` as OpenTelemetry has them."""

    def __init__(self) -> None:
        self.reader, self.spans = InMemoryMetricReader(), InMemorySpanExporter()
        tracing = TracerProvider()
        tracing.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = tracing.get_tracer("test")
        self.listener = OpenTelemetry(MeterProvider([self.reader]))

    @property
    def metrics(self) -> dict[str, Any]:
        data: Any = self.reader.get_metrics_data()
        return {
            metric.name: [
                (dict(point.attributes), getattr(point, "value", None) or point.sum) for point in metric.data.data_points
            ]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def told() -> Told:
    return Told()


def call(told: Told, *throttles: Outcome) -> None:
    """One that is throttled so often, of three attempts at most."""
    engine = Engine(load_configuration({"aws": {"max_retries": 2}}).settings, listeners=[told.listener])
    machine = engine.begin(CALL)
    for throttle in throttles:
        if not engine.retried(machine, throttle):
            break
    else:
        machine.answered()
    engine.end(machine)


def test_a_call_that_is_answered_in_the_end(told: Told, clock: VirtualClock) -> None:
    with told.tracer.start_as_current_span("list"):
        call(told, THROTTLED)
    assert told.metrics == {
        "cloudretry.calls": [({**NAMES, "cloudretry.ended": "answered"}, 1)],
        "cloudretry.attempts": [(NAMES, 2)],
        "cloudretry.failures": [({**NAMES, **FAILURE}, 1)],
        "cloudretry.wait": [(NAMES, pytest.approx(clock.sleeps[0]))],
        "cloudretry.queue": [(NAMES, 0.0)],
    }
    (span,) = told.spans.get_finished_spans()
    (event,) = span.events
    assert event.name == "cloudretry.attempt_failed"
    assert dict(event.attributes or {}) == {
        **NAMES,
        **FAILURE,
        "cloudretry.attempt": 1,
        "cloudretry.phase": "done",
        "cloudretry.delay": clock.sleeps[0],
        "cloudretry.request_id": "0f9d",
    }


def test_a_call_that_is_given_up(told: Told, clock: VirtualClock) -> None:
    with told.tracer.start_as_current_span("list"):
        call(told, *[THROTTLED] * 3)
    assert told.metrics["cloudretry.calls"] == [({**NAMES, "cloudretry.ended": "max_retries"}, 1)]
    assert told.metrics["cloudretry.wait"] == [(NAMES, pytest.approx(sum(clock.sleeps)))]
    (span,) = told.spans.get_finished_spans()
    assert [event.name for event in span.events] == ["cloudretry.attempt_failed"] * 3 + ["cloudretry.given_up"]
    assert dict(span.events[-1].attributes or {}) == {**NAMES, "cloudretry.ended": "max_retries", "cloudretry.attempts": 3}


def test_what_has_no_code_is_named_by_its_status_or_phase(told: Told, clock: VirtualClock) -> None:
    call(told, Outcome(kind=Kind.THROTTLED, status=429), Outcome(kind=Kind.NOT_SENT, phase=Phase.CONNECT))
    assert {attributes["error.type"] for attributes, _ in told.metrics["cloudretry.failures"]} == {"429", "connect"}


def test_a_member_that_goes_out(told: Told) -> None:
    at = Instant(1.0, 1.0)
    change = Transition(before=State.ELIGIBLE, after=State.COOLING, reason=Reason.REFUSED, phase=None, at=at, by=Actor.CALL)
    told.listener(MemberChanged("corp", "egress-a:3128", change))
    assert told.metrics["cloudretry.member_changes"] == [
        (
            {
                "cloudretry.pool": "corp",
                "cloudretry.member": "egress-a:3128",
                "cloudretry.state": "cooling",
                "cloudretry.reason": "refused",
            },
            1,
        )
    ]


def test_without_its_sdk_nothing_is_told_and_nothing_breaks(clock: VirtualClock) -> None:
    engine = Engine(load_configuration({}).settings, listeners=[OpenTelemetry()])
    machine = engine.begin(CALL)
    assert engine.retried(machine, THROTTLED)
    machine.answered()
    engine.end(machine)
    assert machine.told
