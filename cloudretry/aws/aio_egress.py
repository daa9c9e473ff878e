"""Ways through a pool's members for aiobotocore's clients on aiohttp, and a pool's own exchanges by the same HTTP client."""

from __future__ import annotations

import os
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSRequest
from botocore.httpsession import get_cert_path

from cloudretry.egress.aiobotocore_way import AiobotocoreWay, can_serve

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.egress.record import Record

__all__ = ["get", "way_of", "why_unfit"]


def why_unfit(session: Any) -> str | None:
    """Why a client with this session can't use a pool; None: it can."""
    return None if can_serve(session) else f"its HTTP session is a {type(session).__name__}"


def way_of(session: Any, member: Member, settings: PoolSettings) -> AiobotocoreWay:
    """A way for a client's session. Raises ConfigurationError where the member can't be used."""
    verify = session._verify  # noqa: SLF001 - aiobotocore offers no public way
    return AiobotocoreWay(session, member, settings, trusted=get_cert_path(verify) if verify else None)


async def get(member: Member, settings: PoolSettings, url: str, record: Record, timeout: float) -> Any:
    """GET a URL; any answer of the destination will do. `timeout`: seconds to wait for each byte.

    Returns and raises what a client's own session would. Raises ConfigurationError where the member can't be used at all.
    """
    from aiobotocore.httpsession import AIOHTTPSession

    verify = os.environ.get("AWS_CA_BUNDLE") or True  # as a client without a configuration of its own
    session = AIOHTTPSession(verify=verify, timeout=(settings.connect_timeout, timeout))
    async with aclosing(way_of(session, member, settings)) as way:
        return await way.send(AWSRequest(method="GET", url=url).prepare(), record)
