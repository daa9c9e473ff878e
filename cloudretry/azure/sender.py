"""Stands where a pipeline hands a request to its transport: there a call's turn is used, and its way through a pool begins.

It is put there when a request first passes a retry policy of ours, from which the rest of the pipeline hangs.
"""

from __future__ import annotations

import inspect
from functools import cached_property
from operator import getitem
from typing import TYPE_CHECKING, Any, Final

from azure.core.exceptions import ServiceResponseError

from cloudretry.azure.errors import PoolUnavailable
from cloudretry.runtime.current import CURRENT
from cloudretry.runtime.place import turn_of
from cloudretry.runtime.reach import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudretry.core.machine import RetryMachine
    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.egress.passage import NoMember, Passage
    from cloudretry.egress.passages import Passages
    from cloudretry.runtime.current import Current

__all__ = ["Sender", "put_before_transport"]

_ERROR_STATUS: Final = 300


def put_before_transport(policy: Any) -> None:
    """See to it that a Sender is at the end of a retry policy's pipeline."""
    runner = policy.next
    while (following := getattr(runner, "next", None)) is not None:
        runner = following
    inner = getattr(runner, "_sender", None)
    if inner is not None and not isinstance(inner, Sender):
        runner._sender = (AsyncSender if inspect.iscoroutinefunction(inner.send) else Sender)(inner)  # noqa: SLF001 - no public way


class Sender:
    """`send` of a transport, in its place. Thread-safe as the transport is. Pickled, it is the transport.

    Args:
        inner: the client's own transport.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def send(self, request: Any, **options: Any) -> Any:
        """Send with the call's turn, through the pool if there is one, or else as the transport would."""
        current = CURRENT.get()
        if current is None:
            return self._inner.send(request, **options)
        machine = current.machine
        with turn_of(machine):
            passage = self._passage(current, request.url, options)
            if passage is None:
                return _watched(self._inner.send(request, **options), current, options)
            try:
                response = passage.send(
                    machine, host_of(request.url).lower(), lambda way, record: way.send(request, record, **options)
                )
            except passage.nothing as nothing:
                return _in_place_of_an_answer(nothing, request, is_async=False)
        if _would_pass_as_data(machine, response):
            _close(response)
            raise _a_page(response)
        return response

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return getitem, ((self._inner,), 0)

    def _passage(self, current: Current, url: str, options: dict[str, Any]) -> Passage[Any] | None:
        if current.machine.settings.pool is None:
            return None
        why_not = "it was given proxies of its own" if options.get("proxies") else self._why_unfit
        return self._passages.of(current.engine, current.machine, host_of(url).lower(), why_not)

    @cached_property
    def _passages(self) -> Passages[Any]:
        """Made when a pool is used: a program without one does not import what it takes."""
        from cloudretry.egress.passages import Passages

        return self._closing().with_passages(self._inner, Passages(self._way, self._get()))

    def _get(self) -> Callable[..., Any]:
        from cloudretry.azure.probe import get

        return get

    def _closing(self) -> type[_Close]:
        return _Close

    @cached_property
    def _why_unfit(self) -> str | None:
        from cloudretry.egress.requests_way import can_serve  # imports requests, which an aio client may not have

        return None if can_serve(self._inner) else f"its transport is a {type(self._inner).__name__}"

    def _way(self, member: Member, settings: PoolSettings) -> Any:
        from cloudretry.egress.requests_way import RequestsWay

        return RequestsWay(self._inner, member, settings)


class AsyncSender(Sender):
    """The same for async pipelines."""

    async def send(self, request: Any, **options: Any) -> Any:
        """Send with the call's turn, through the pool if there is one, or else as the transport would."""
        current = CURRENT.get()
        if current is None:
            return await self._inner.send(request, **options)
        machine = current.machine
        with turn_of(machine):
            passage = self._passage(current, request.url, options)
            if passage is None:
                return _watched(await self._inner.send(request, **options), current, options)
            try:
                response = await passage.send_async(
                    machine, host_of(request.url).lower(), lambda way, record: way.send(request, record, **options)
                )
            except passage.nothing as nothing:
                return _in_place_of_an_answer(nothing, request, is_async=True)
        if _would_pass_as_data(machine, response):
            closing = _close(response)
            if inspect.isawaitable(closing):
                await closing
            raise _a_page(response)
        return response

    @cached_property
    def _in_threads(self) -> bool:
        """Whether its transport is the one for asyncio that runs requests in threads."""
        return any(cls.__name__ == "AsyncioRequestsTransport" for cls in type(self._inner).__mro__)

    def _get(self) -> Callable[..., Any]:
        from cloudretry.azure.probe import get_async

        return get_async

    def _closing(self) -> type[_Close]:
        return _Close if self._in_threads else _AsyncClose

    @cached_property
    def _why_unfit(self) -> str | None:
        if self._in_threads:
            return super()._why_unfit
        from cloudretry.egress.aiohttp_way import can_serve

        return None if can_serve(self._inner) else f"its transport is a {type(self._inner).__name__}"

    def _way(self, member: Member, settings: PoolSettings) -> Any:
        if self._in_threads:
            from cloudretry.egress.requests_way import AsyncRequestsWay

            return AsyncRequestsWay(self._inner, member, settings)
        from cloudretry.egress.aiohttp_way import AiohttpWay

        return AiohttpWay(self._inner, member, settings)


class _Close:
    """In the place of a transport's `close`: the members' connections are closed with it. Pickled, it is that `close`."""

    def __init__(self, inner: Any, passages: Passages[Any]) -> None:
        self._inner = inner
        self.passages = passages

    @classmethod
    def with_passages(cls, inner: Any, passages: Passages[Any]) -> Passages[Any]:
        """Put it there, once; the passages that all clients on this transport share."""
        close = vars(inner).setdefault("close", cls(inner, passages))
        return close.passages if isinstance(close, _Close) else passages

    def __call__(self) -> Any:
        for ways in self.passages.ways():
            ways.close()
        return type(self._inner).close(self._inner)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._inner, "close")


class _AsyncClose(_Close):
    async def __call__(self) -> None:
        from cloudretry.egress.aiohttp_way import close_all

        for ways in self.passages.ways():
            await close_all(ways)
        await type(self._inner).close(self._inner)


def _would_pass_as_data(machine: RetryMachine, response: Any) -> bool:
    """Whether a proxy says "success" in the place of the destination, such as a portal with its login page."""
    return bool(machine.journey.is_proxys) and response.status_code < _ERROR_STATUS


def _watched(response: Any, current: Current, options: dict[str, Any]) -> Any:
    """The response, whose body is told of if it breaks off while the program reads it as a stream."""
    if options.get("stream") and (inner := _inner_of(response)) is not None:
        from cloudretry.egress.streamed import watch_streamed  # which most programs never need

        watch_streamed(inner, current)
    return response


def _inner_of(response: Any) -> Any:
    return getattr(response, "_internal_response", None) or getattr(response, "internal_response", None)


def _close(response: Any) -> Any:
    return _inner_of(response).close()


def _a_page(response: Any) -> ServiceResponseError:
    return ServiceResponseError(f"a page of a proxy came in the place of an answer (status {response.status_code})")


def _in_place_of_an_answer(nothing: NoMember, request: Any, *, is_async: bool) -> Any:
    from cloudretry.azure.exhausted import exhausted
    from cloudretry.core.pool_snapshot import Unavailable

    if isinstance(nothing.why, Unavailable):
        raise PoolUnavailable(str(nothing.why), nothing.retry_at) from None
    return exhausted(request, nothing.why.tried, is_async=is_async)
