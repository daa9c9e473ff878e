"""Fetches tokens through azure-identity: retries inside the credential's own pipelines, beneath MSAL.

There, a guard in front of the SDK's retry policy lets ours decide while a token is fetched for one of our clients. For anybody
else the credential works as before. Nothing of azure-identity is imported: a credential is known by what it is made of.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from operator import getitem
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from azure.core.exceptions import ClientAuthenticationError
from azure.core.pipeline import AsyncPipeline, Pipeline
from azure.core.pipeline.policies import AsyncHTTPPolicy, AsyncRetryPolicy, HTTPPolicy, RetryPolicy

from cloudretry.azure.policy import AsyncCloudRetryPolicy, AsyncSends, CloudRetryPolicy, Sends
from cloudretry.azure.run import own_sleep
from cloudretry.azure.tokens import LoopLocks
from cloudretry.azure.visit import Visit, current_visit
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.current import CURRENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from azure.core.pipeline import PipelineRequest, PipelineResponse

    from cloudretry.runtime.engine import Engine

__all__ = ["fetched", "fetched_async"]

T = TypeVar("T")


def fetched(engine: Engine, credential: object, get: Callable[[], T], *, urgent: bool) -> T:
    """What `get` gives: one of the credential's methods that fetch a token.

    Where it is not `urgent`, because a good token is there, what gets through MSAL is not waited out.
    Raises the credential's own error; `history` of it tells what happened.
    """
    made_of = _MadeOf.of(credential)
    with Visit(engine, credential, pause=made_of.pause) as visit:
        while True:
            try:
                with _spawning if made_of.spawns else nullcontext():
                    return get()
            except ClientAuthenticationError as error:  # noqa: PERF203 - few rounds
                outcome = visit.throttled(error) if urgent else None
                if outcome is None or not engine.retried(visit.machine, outcome):
                    raise


async def fetched_async(engine: Engine, credential: object, get: Callable[[], Awaitable[T]], *, urgent: bool) -> T:
    """The async twin."""
    made_of = _MadeOf.of(credential)
    with Visit(engine, credential, pause=made_of.pause) as visit:
        while True:
            try:
                async with _spawning_on_loops.here() if made_of.spawns else nullcontext():
                    return await get()
            except ClientAuthenticationError as error:  # noqa: PERF203 - few rounds
                outcome = visit.throttled(error) if urgent else None
                if outcome is None or not await engine.retried_async(visit.machine, outcome):
                    raise


_spawning = Lock()  # `az` and its like take seconds of a processor, and lock each other out of one token cache
_spawning_on_loops = LoopLocks()


def _after_fork() -> None:
    global _spawning  # noqa: PLW0603 - a forked child has no thread that could give the old one back
    _spawning = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, slots=True)
class _MadeOf:
    """What a credential may do when it is asked. Its pipelines are guarded by then.

    Args:
        spawns: starts a command-line tool.
        pause: seconds for which its MSAL remembers a throttle that names no time.
    """

    spawns: bool
    pause: int

    @classmethod
    def of(cls, credential: object) -> _MadeOf:
        """Look anew each time: some credentials make their clients when they are first asked."""
        for part in _parts(credential):
            if isinstance(part, (Pipeline, AsyncPipeline)):
                _guard(part)
        asked = getattr(credential, "_successful_credential", None) or credential  # a chain that has chosen
        parts = list(_parts(asked))
        public = any(vars(part).get("_client_credential", part) is None for part in parts if hasattr(part, "__dict__"))
        return cls(
            spawns=any(type(part).__name__ in _SPAWNING for part in parts),
            pause=_PAUSE_OF_PUBLIC_CLIENTS if public else _PAUSE,
        )


_PAUSE: Final = 5  # seconds for which MSAL remembers a throttle that names no time (msal/throttled_http_client.py)
_PAUSE_OF_PUBLIC_CLIENTS: Final = 60
_SPAWNING: Final = frozenset({"AzureCliCredential", "AzureDeveloperCliCredential", "AzurePowerShellCredential"})
_MOST_PARTS: Final = 500


def _parts(credential: object) -> Iterator[object]:
    """A credential and what it is made of, as far as that is azure-identity's, down to the pipelines."""
    seen: set[int] = set()
    waiting: list[Any] = [credential]
    while waiting and len(seen) < _MOST_PARTS:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, (list, tuple)):
            waiting += part
        elif isinstance(part, (Pipeline, AsyncPipeline)):
            yield part
        elif part is credential or any(kind.__module__.startswith("azure.identity") for kind in type(part).__mro__):
            yield part
            waiting += getattr(part, "__dict__", {}).values()


def _guard(pipeline: Any) -> None:
    """Put a guard in front of the SDK's retry policy. A user's own policy that sends in its own way stays alone."""
    policies = pipeline._impl_policies  # noqa: SLF001 - there is no public way into a pipeline
    for at, policy in enumerate(policies):
        send = getattr(type(policy), "send", None)
        if send in _GUARDED:
            guard = _Guard(policy) if isinstance(policy, RetryPolicy) else _AsyncGuard(policy)
            policies[at] = guard
            if at:
                policies[at - 1].next = guard


_GUARDED: Final = (RetryPolicy.send, AsyncRetryPolicy.send, Sends.send, AsyncSends.send)
"""The SDK's own, and those that were attached."""


class _Guard(HTTPPolicy[Any, Any]):
    def __init__(self, policy: RetryPolicy[Any, Any]) -> None:
        self.next = policy
        self._sdk = policy

    def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        visit = current_visit()
        if visit is None:
            outer = CURRENT.set(None)  # this request has no part in the turn and the way of the call that needs the token
            try:
                return self.next.send(request)
            finally:
                CURRENT.reset(outer)
        ours = CloudRetryPolicy(engine=visit.engine, **_options(self._sdk, visit))
        ours.next = self._sdk.next
        unready = _Unready(self._sdk, request)
        while True:
            try:
                response = ours.send(request)
            except Exception as error:
                visit.note(error)
                raise
            pause = unready.pause(response)
            if pause is None:
                visit.note(response.http_response, response.http_response.headers.get("Retry-After"))
                return response
            (own_sleep(request.context.transport) or current_clock().sleep)(pause)

    def __reduce__(self) -> tuple[Any, ...]:
        return getitem, ((self._sdk,), 0)


class _AsyncGuard(AsyncHTTPPolicy[Any, Any]):
    def __init__(self, policy: AsyncRetryPolicy[Any, Any]) -> None:
        self.next = policy
        self._sdk = policy

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        visit = current_visit()
        if visit is None:
            outer = CURRENT.set(None)  # this request has no part in the turn and the way of the call that needs the token
            try:
                return await self.next.send(request)
            finally:
                CURRENT.reset(outer)
        ours = AsyncCloudRetryPolicy(engine=visit.engine, **_options(self._sdk, visit))
        ours.next = self._sdk.next
        unready = _Unready(self._sdk, request)
        while True:
            try:
                response = await ours.send(request)
            except Exception as error:
                visit.note(error)
                raise
            pause = unready.pause(response)
            if pause is None:
                visit.note(response.http_response, response.http_response.headers.get("Retry-After"))
                return response
            await (own_sleep(request.context.transport) or current_clock().sleep_async)(pause)

    def __reduce__(self) -> tuple[Any, ...]:
        return getitem, ((self._sdk,), 0)


def _options(policy: Any, visit: Visit) -> dict[str, Any]:
    """What the user told the SDK's policy that ours heeds, and the visit with it."""
    if policy.total_retries:
        return {"timeout": policy.timeout}
    visit.single = True
    return {"timeout": policy.timeout, "retry_total": 0}


class _Unready:
    """The metadata service is not ready: 404 or 410, for up to 70 seconds. There the SDK's own policy counts and paces."""

    def __init__(self, policy: Any, request: PipelineRequest[Any]) -> None:
        self._policy = policy
        self._settings = policy.configure_retries(dict(request.context.options))

    def pause(self, response: PipelineResponse[Any, Any]) -> float | None:
        """Seconds to wait before the request goes out again; None: this is the answer."""
        if response.http_response.status_code not in _UNREADY or not self._policy.is_retry(self._settings, response):
            return None
        if not self._policy.increment(self._settings, response=response):
            return None
        return float(self._policy.get_backoff_time(self._settings))


_UNREADY: Final = frozenset({404, 410})
