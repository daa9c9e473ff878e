"""One complete exchange through one member of a pool, without credentials, by the HTTP clients that azure-core uses."""

from __future__ import annotations

from asyncio import to_thread
from contextlib import aclosing, closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from azure.core.pipeline.transport import HttpRequest

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.egress.record import Record

__all__ = ["get", "get_async"]


def get(member: Member, settings: PoolSettings, url: str, record: Record, timeout: float) -> Any:
    """GET a URL; any answer of the destination will do. `timeout`: seconds to wait for each byte.

    Returns and raises what a client's own transport would. Raises ConfigurationError where the member can't be used at all.
    """
    from azure.core.pipeline.transport import RequestsTransport

    from cloudretry.egress.requests_way import RequestsWay

    with closing(RequestsWay(RequestsTransport(read_timeout=timeout), member, settings)) as way:
        return way.send(HttpRequest("GET", url), record)


async def get_async(member: Member, settings: PoolSettings, url: str, record: Record, timeout: float) -> Any:
    """The async twin, on aiohttp; in a thread where that is not installed."""
    if find_spec("aiohttp") is None:
        return await to_thread(get, member, settings, url, record, timeout)
    from azure.core.pipeline.transport import AioHttpTransport

    from cloudretry.egress.aiohttp_way import AiohttpWay

    async with aclosing(AiohttpWay(AioHttpTransport(read_timeout=timeout), member, settings)) as way:
        return await way.send(HttpRequest("GET", url), record)
