"""One complete exchange through one member of a pool, without credentials, by the HTTP client that boto3 uses."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from cloudretry.egress.botocore_way import BotocoreWay

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.egress.record import Record

__all__ = ["get"]


def get(member: Member, settings: PoolSettings, url: str, record: Record, timeout: float) -> Any:
    """GET a URL; any answer of the destination will do. `timeout`: seconds to wait for each byte.

    Returns and raises what a client's own session would. Raises ConfigurationError where the member can't be used at all.
    """
    session: Any = URLLib3Session  # its stubs know fewer types than it takes
    verify = os.environ.get("AWS_CA_BUNDLE") or True  # as a client without a configuration of its own
    with closing(BotocoreWay(session(verify=verify, timeout=(settings.connect_timeout, timeout)), member, settings)) as way:
        return way.send(AWSRequest(method="GET", url=url).prepare(), record)
