"""Turns for Azure's calls: who waits, for how long, what the caller gets, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import pickle
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core import PipelineClient
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
from azure.core.pipeline import Pipeline, PipelineContext, PipelineRequest
from azure.core.pipeline.policies import AsyncRetryPolicy, HTTPPolicy, RetryPolicy
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest

from cloudretry import AzureApiCommand
from cloudretry import history as told
from cloudretry.azure.errors import TurnTimeout
from cloudretry.azure.identity import _AsyncGuard, _Guard
from cloudretry.azure.policy import CloudRetryPolicy
from cloudretry.core.events import AttemptFailed
from cloudretry.report import Report
from cloudretry.runtime.current import CURRENT, Current
from cloudretry.runtime.pacing import PACING

simcloud = pytest.importorskip("cloudretry.simcloud")
pytest.importorskip("aiohttp")

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
PATH = "/subscriptions/aa/resourcegroups"


def paced(**pacing: Any) -> dict[str, Any]:
    return {"pacing": {"mode": "adaptive", **pacing}}


def is_tidy() -> bool:
    """Whether nobody waits, and nothing counts as under way."""
    states = PACING.states().values()
    return bool(states) and all(state.waiting == state.in_flight == 0 for state in states)


def held(server: Any, pipeline: Make, error: Make, seconds: str) -> None:
    """Let an answer ask the quota of PATH for silence."""
    server.say(error(headers={"Retry-After": seconds}))
    assert pipeline(server, paced()).send("GET", PATH).status_code == 429


def test_a_pause_longer_than_any_retry_waits_holds_those_who_come_after(
    serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any, history: Make
) -> None:
    server = serve(error(headers={"Retry-After": "400"}), answer({}))
    first = pipeline(server, paced()).send("GET", PATH)
    assert (first.status_code, history(first).reason, len(server.requests)) == (429, "max_header_delay", 1)
    assert pipeline(server, paced()).send("GET", PATH).status_code == 200
    assert clock.monotonic() == pytest.approx(400)
    assert is_tidy()


def test_a_quota_that_says_it_is_used_up_is_waited_out(serve: Make, pipeline: Make, answer: Make, clock: Any) -> None:
    used_up = {"x-ms-user-quota-remaining": "0", "x-ms-user-quota-resets-after": "00:00:05"}
    server = serve(answer({}, **used_up), answer({}))
    for _ in range(2):
        assert pipeline(server, paced()).send("GET", PATH).status_code == 200
    assert clock.monotonic() == pytest.approx(5)
    assert is_tidy()


def test_the_longest_wait_for_a_quota_that_is_used_up(serve: Make, pipeline: Make, answer: Make, clock: Any) -> None:
    used_up = {"x-ms-user-quota-remaining": "0", "x-ms-user-quota-resets-after": "99999999:00:00"}
    server = serve(answer({}, **used_up), answer({}))
    for _ in range(2):
        assert pipeline(server, paced()).send("GET", PATH).status_code == 200
    assert clock.monotonic() == pytest.approx(60)


def test_calls_that_are_left_are_learned(serve: Make, pipeline: Make, answer: Make, clock: Any) -> None:
    server = serve(answer({}, **{"x-ms-ratelimit-remaining-subscription-reads": "249"}))
    assert pipeline(server, paced()).send("GET", PATH).status_code == 200
    (state,) = PACING.states().values()
    assert (state.learning, state.limit and state.limit.burst) == ("track", 249.0)
    assert clock.monotonic() == 0.0


def test_a_turn_too_late_is_the_sdks_error_at_once(serve: Make, pipeline: Make, error: Make, clock: Any) -> None:
    server = serve(error())
    held(server, pipeline, error, "1200")
    report = Report()
    with pytest.raises(ServiceRequestError) as caught:
        pipeline(server, paced(), listeners=[report]).send("GET", PATH)
    assert isinstance(caught.value, TurnTimeout)
    assert (len(server.requests), clock.monotonic()) == (1, 0.0)
    history = told(caught.value)
    assert history is not None
    assert history.retry_at is not None
    assert (history.reason, history.attempts) == ("queue_timeout", ())
    assert history.retry_at.timestamp() == pytest.approx(clock.wall() + 1200)
    assert (report.total.calls, report.total.attempts, report.total.lost) == (1, 0, 1)
    twin = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert (type(twin), str(twin), told(twin)) == (TurnTimeout, str(caught.value), history)
    assert is_tidy()


@pytest.mark.parametrize("seconds", ["1764482400", "99999999999999", "9" * 200])
def test_an_absurd_pause_neither_breaks_nor_ends_a_quota(
    seconds: str, serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any
) -> None:
    server = serve(error())
    held(server, pipeline, error, seconds)
    with pytest.raises(TurnTimeout):
        pipeline(server, paced()).send("GET", PATH)
    clock.advance(3600)
    server.say(answer({}))
    assert pipeline(server, paced()).send("GET", PATH).status_code == 200


def test_the_callers_timeout_bounds_the_wait_for_a_turn(serve: Make, pipeline: Make, error: Make, clock: Any) -> None:
    server = serve(error())
    held(server, pipeline, error, "400")
    with pytest.raises(TurnTimeout):
        pipeline(server, paced()).send("GET", PATH, timeout=5)
    assert clock.monotonic() <= 5
    assert is_tidy()


def test_a_retry_whose_turn_comes_too_late_gives_the_answer_that_is_there(
    serve: Make, pipeline: Make, error: Make, clock: Any, history: Make
) -> None:
    """Another call of the quota was told meanwhile to be silent for long."""
    server = serve(error(headers={"Retry-After": "1"}))

    def meanwhile(event: Any) -> None:
        if isinstance(event, AttemptFailed):
            turn = PACING.turns(event.call, settings).take()
            with turn:
                pass
            turn.throttled(2000.0)

    client = pipeline(server, paced(), listeners=[meanwhile])
    settings = client.engine.settings.providers["azure"].pacing
    response = client.send("GET", PATH)
    assert (response.status_code, len(server.requests)) == (429, 1)
    assert (history(response).reason, len(history(response).attempts)) == ("queue_timeout", 1)
    assert history(response).retry_at.timestamp() == pytest.approx(clock.wall() - clock.monotonic() + 1 + 2000)
    assert is_tidy()


def test_off_leaves_no_trace(serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any) -> None:
    server = serve(error(headers={"Retry-After": "2"}), answer({}))
    assert pipeline(server, {"additional_delay_window": "0ms", **paced(mode="off")}).send("GET", PATH).status_code == 200
    assert clock.sleeps == [2.0]
    assert PACING.states() == {}


@pytest.mark.parametrize("azure", [{"mode": "observe"}, {"preset": "azure-core"}])
def test_nobody_waits_where_the_sdk_decides(
    azure: dict[str, Any], serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(error(headers={"Retry-After": "0.01"}), answer({}))
    assert pipeline(server, {**azure, **paced()}).send("GET", PATH).status_code == 200
    assert PACING.states() == {}


class Broken(HTTPPolicy[Any, Any]):
    """A user's policy that ends calls before they are sent."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.seen: list[int] = []

    def send(self, request: Any) -> Any:
        self.seen.append(sum(state.in_flight for state in PACING.states().values()))
        raise self.error


@pytest.mark.parametrize("kind", [ServiceRequestError, KeyboardInterrupt, ClientAuthenticationError, RuntimeError])
def test_a_turn_that_was_not_used_is_given_back(kind: Any, engine: Make, clock: Any) -> None:
    """At once, not after the wait for the next attempt."""
    broken = Broken(kind("no"))
    tidy: list[bool] = []

    def look(seconds: float) -> None:
        tidy.append(is_tidy())
        sleep(seconds)

    sleep, clock.sleep = clock.sleep, look
    transport: Any = None
    pipeline: Any = Pipeline(transport, [CloudRetryPolicy(engine=engine(paced())), broken])
    with pytest.raises(kind):
        pipeline.run(HttpRequest("GET", f"http://x{PATH}"))
    assert set(broken.seen) == {1}
    assert tidy == ([True] * 3 if kind is ServiceRequestError else [])
    assert is_tidy()


def test_a_lock_conflict_does_not_slow_the_quota(serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any) -> None:
    server = serve(error(code="RetryableErrorDueToAnotherOperation", headers={"Retry-After": "1"}), answer({}))
    assert pipeline(server, paced()).send("GET", PATH).status_code == 200
    (state,) = PACING.states().values()
    assert (state.throttled, state.accepted, state.limit) == (0, 1, None)


def test_redirects_and_pages_are_charged_each(serve: Make, manager: Make, answer: Make, Answer: Any, clock: Any) -> None:
    server = serve(answer())
    server.say(
        Answer(307, b"", {"Location": f"{server.url}{PATH}?moved"}),
        answer({"value": [{"name": "a"}], "nextLink": f"{server.url}{PATH}?page=2"}),
        answer({"value": [{"name": "b"}]}),
    )
    found = manager(server, paced())(lambda client: client.resource_groups.list())
    assert [group.name for group in found] == ["a", "b"]
    assert sum(state.accepted for state in PACING.states().values()) == 3
    assert is_tidy()


class Challenging(HTTPPolicy[Any, Any]):
    """Sends twice in one attempt, as authentication does when it is challenged."""

    def send(self, request: Any) -> Any:
        self.next.send(request)
        return self.next.send(request)


def test_a_second_send_of_an_attempt_is_charged_without_waiting(serve: Make, engine: Make, answer: Make, clock: Any) -> None:
    server = serve(answer({}))
    policies = [CloudRetryPolicy(engine=engine(paced(max_in_flight=1))), Challenging()]
    made: Any = PipelineClient(server.url, policies=policies)
    with made as client:
        client.send_request(HttpRequest("GET", server.url + PATH))
    assert (len(server.requests), clock.monotonic()) == (2, 0.0)
    assert is_tidy()


class Memory(HTTPPolicy[Any, Any]):
    """A user's policy that answers from memory, below the retry policy."""

    def __init__(self) -> None:
        self.kept: Any = None

    def send(self, request: Any) -> Any:
        self.kept = self.kept or self.next.send(request)
        return self.kept


def test_an_answer_from_memory_is_no_business_of_a_quota(serve: Make, engine: Make, answer: Make) -> None:
    server = serve(answer({}))
    made: Any = PipelineClient(server.url, policies=[CloudRetryPolicy(engine=engine(paced())), Memory()])
    with made as client:
        for _ in range(9):  # more than may be under way at once
            client.send_request(HttpRequest("GET", server.url + PATH))
    (state,) = PACING.states().values()
    assert (state.accepted, len(server.requests)) == (1, 1)
    assert is_tidy()


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_a_token_request_uses_no_turn_of_the_call_that_needs_it(kind: str, serve: Make, engine: Make, answer: Make) -> None:
    """Not even when the credential was used by a command's client before, and by another one now."""
    server, aio = serve(answer({})), kind == "aio"
    seen: list[Any] = []
    guard, transport = (_AsyncGuard, _aio_look(seen)) if aio else (_Guard, _look(seen))
    policy: Any = (AsyncRetryPolicy if aio else RetryPolicy)()
    policy.next = transport
    outer = Current(engine(paced()), None)  # type: ignore[arg-type]  # nothing may look at it
    token = CURRENT.set(outer)
    try:
        sent: Any = guard(policy).send(_request(server.url))
        if aio:
            with pytest.raises(StopIteration):
                sent.send(None)
        assert CURRENT.get() is outer
    finally:
        CURRENT.reset(token)
    assert seen == [None]


def _request(url: str) -> Any:
    transport: Any = SimpleNamespace(sleep=None)
    return PipelineRequest(HttpRequest("GET", url), PipelineContext(transport))


def _look(seen: list[Any]) -> Any:
    def send(request: Any) -> Any:
        seen.append(CURRENT.get())
        return SimpleNamespace(http_response=SimpleNamespace(status_code=200, headers={}), context=request.context)

    return SimpleNamespace(send=send)


def _aio_look(seen: list[Any]) -> Any:
    look = _look(seen)

    async def send(request: Any) -> Any:
        return look.send(request)

    return SimpleNamespace(send=send)


def throttling(rate: float, burst: float) -> Any:
    limit = simcloud.Limit(burst, rate)
    rule = simcloud.AzureRule(provider="*", operations=("*",), limit=limit, source="test")
    return simcloud.simulated_azure(subscriptions=1, size=0.1, limits=(rule,), seed=4)


def test_many_threads_lose_nothing(ResourceManagementClient: Any) -> None:
    with (
        throttling(200, 20) as azure,
        AzureApiCommand(azure.credential(), azure.subscriptions[0], configuration={"azure": paced()}) as az,
        az.client(ResourceManagementClient, **azure.client_options()) as client,
        ThreadPoolExecutor(64) as pool,
    ):
        found = set(pool.map(lambda _: len(list(client.resource_groups.list())), range(100)))
        assert len(found) == 1
        assert az.report.total.lost == 0
        assert az.report.total.throttled < 50  # none at all, where answers say in time how many calls are left
    assert is_tidy()


def test_tasks_cancelled_anywhere_leave_nothing_behind(AsyncResourceManagementClient: Any) -> None:
    """While they wait for their turn, while they are under way, while they wait for a retry; on two loops at once."""
    with throttling(150, 10) as azure:

        async def main() -> list[Any]:
            az = AzureApiCommand(azure.async_credential(), azure.subscriptions[0], configuration={"azure": paced()})
            async with az, az.client(AsyncResourceManagementClient, **azure.client_options()) as client:

                async def groups() -> int:
                    return len([group async for group in client.resource_groups.list()])

                tasks = [asyncio.ensure_future(groups()) for _ in range(40)]
                for task in tasks[::3]:
                    await asyncio.sleep(0.01)
                    task.cancel()
                return await asyncio.gather(*tasks, return_exceptions=True)

        with ThreadPoolExecutor(2) as loops:
            found = [item for run in [loops.submit(asyncio.run, main()) for _ in range(2)] for item in run.result()]
    counts = Counter(item if isinstance(item, int) else type(item) for item in found)
    assert counts.keys() <= {max(counts, key=lambda kind: counts[kind]), asyncio.CancelledError}
    assert counts[asyncio.CancelledError] <= 28
    assert is_tidy()


def test_a_transport_that_waits_in_its_own_way_is_not_paced_and_that_is_said_once(
    serve: Make, answer: Make, engine: Make, caplog: pytest.LogCaptureFixture
) -> None:
    class Patient(RequestsTransport):  # type: ignore[misc]  # untyped in azure-core
        def sleep(self, duration: float) -> None: ...

    server = serve(answer())
    policy = CloudRetryPolicy(engine=engine(paced()))
    client: Any = PipelineClient(server.url, policies=[policy], transport=Patient())
    with client:
        for _ in range(3):
            assert client.send_request(HttpRequest("GET", server.url + PATH)).status_code == 200
    assert PACING.states() == {}
    assert [record.getMessage() for record in caplog.records if "Patient" in record.getMessage()] == [
        "calls by Patient are not paced, because it waits in a way of its own; they are retried as configured"
    ]
