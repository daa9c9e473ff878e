"""Stands before a client's HTTP session: only what is really sent passes here, so moto and stubs never do.

It notices what botocore lets pass: an answer shorter than it says, and hosts that can't be reached.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, IncompleteReadError
from urllib3 import Timeout

from cloudretry.aws.causes import causes_of
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.reach import REACH

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from botocore.client import BaseClient

__all__ = ["Transport", "host_of", "put_before"]

CONNECT_TIMEOUT: Final = 5.0
"""Seconds for one connection; botocore's own 60 make a blocked region cost minutes. A timeout that the user set is kept."""

_BOTOCORES_OWN: Final = 60
_NO_BODY: Final = frozenset({204, 304})
_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
_NO_WAY: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH})


class Transport:
    """`send` and `close` of a botocore HTTP session; whatever else is asked for is the inner one's. Thread-safe as that is."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Send, and vouch for the answer.

        Raises:
            EndpointConnectionError: also at once, for a host that is known to be unreachable.
            IncompleteReadError: the answer is shorter than its Content-Length says.
        """
        host = host_of(request.url)
        if REACH.is_unreachable(host, current_clock().monotonic()):
            raise EndpointConnectionError(endpoint_url=request.url, error="no connection to this host was answered before")
        try:
            response: AWSResponse = self._inner.send(request)
        except (ConnectTimeoutError, EndpointConnectionError) as error:
            if _nobody_there(error, host):
                REACH.missed(host, current_clock().monotonic())
            raise
        REACH.reached(host)
        _check_length(request, response)
        return response

    def close(self) -> None:
        """Close the inner session's connections."""
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def put_before(client: BaseClient) -> None:
    """Put a Transport before a client's session, once, and shorten the time that one connection may take."""
    endpoint = client._endpoint  # type: ignore[attr-defined]  # noqa: SLF001 - botocore offers no public way
    if not isinstance(endpoint.http_session, Transport):
        _shorten_connect_timeout(client, endpoint.http_session)
        endpoint.http_session = Transport(endpoint.http_session)


def host_of(url: str) -> str:
    """The authority of a URL: host and port."""
    return url.partition("://")[2].partition("/")[0]


def _shorten_connect_timeout(client: BaseClient, session: Any) -> None:
    config: Any = client.meta.config
    manager = getattr(session, "_manager", None)
    if manager is None or config.connect_timeout != _BOTOCORES_OWN:
        return
    session._timeout = Timeout(connect=CONNECT_TIMEOUT, read=config.read_timeout)  # noqa: SLF001 - as above
    manager.connection_pool_kw["timeout"] = session._timeout  # noqa: SLF001 - as above


def _nobody_there(error: Exception, host: str) -> bool:
    """Whether waiting a little is unlikely to help.

    Nobody answered, there is no way or no such name. A refused connection costs nothing and may be a server that is just
    starting; so may anything on an address that somebody wrote down.
    """
    if _is_local(host):
        return False
    causes = list(causes_of(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return any(isinstance(cause, socket.gaierror) and cause.errno in _NO_SUCH_NAME for cause in causes)
    if isinstance(error, ConnectTimeoutError):
        return True
    return any(isinstance(cause, OSError) and cause.errno in _NO_WAY for cause in causes)


def _is_local(host: str) -> bool:
    name = host.rpartition(":")[0] or host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return name == "localhost" or "." not in name
    return True


def _check_length(request: AWSPreparedRequest, response: AWSResponse) -> None:
    """Botocore asks urllib3 not to; its JSON parser then takes half a document for an empty one."""
    if request.stream_output or request.method == "HEAD" or response.status_code in _NO_BODY:
        return
    promised = response.headers.get("Content-Length")
    if promised is None or not promised.isdigit():
        return
    actual = len(response.content)
    if actual < int(promised):
        raise IncompleteReadError(actual_bytes=actual, expected_bytes=int(promised))
