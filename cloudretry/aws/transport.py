"""Stands before a client's HTTP session: only what is really sent passes here, so moto and stubs never do.

It notices what botocore lets pass: an answer shorter than it says, and hosts that can't be reached.
"""

from __future__ import annotations

import errno
import ipaddress
import math
import socket
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, IncompleteReadError
from urllib3 import Timeout

from cloudretry.aws.causes import causes_of
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.reach import REACH

if TYPE_CHECKING:
    from collections.abc import Callable

    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from botocore.client import BaseClient

__all__ = ["Transport", "host_of", "is_unreachable", "put_before"]

T = TypeVar("T", bound=Exception)

CONNECT_TIMEOUT: Final = 5.0
"""Seconds for one connection; botocore's own 60 make a blocked region cost minutes. Any other that is set is kept."""

_BOTOCORES_OWN: Final = 60
_UNREACHABLE: Final = "_cloudretry_unreachable"
_NO_BODY: Final = frozenset({204, 304})
_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
_NO_WAY: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH})


class Transport:
    """`send` and `close` of a botocore HTTP session; whatever else is asked for is the inner one's. Thread-safe as that is.

    Args:
        patience: seconds that a connection may take.
        interrupted: told when the program ends an attempt in the middle.
    """

    def __init__(self, inner: Any, patience: float, interrupted: Callable[[], None]) -> None:
        self._inner = inner
        self._patience = patience
        self._interrupted = interrupted

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Send, and vouch for the answer.

        Raises:
            EndpointConnectionError: also at once, for a host that is known to be unreachable.
            IncompleteReadError: the answer is shorter than its Content-Length says.
        """
        host = host_of(request.url)
        if REACH.is_unreachable(host, current_clock().monotonic(), self._patience) and self._is_direct(request.url):
            raise _marked(EndpointConnectionError(endpoint_url=request.url, error="not answered before by this host"))
        try:
            response: AWSResponse = self._inner.send(request)
        except (ConnectTimeoutError, EndpointConnectionError) as error:
            self._missed(error, host, request.url)
            raise
        except Exception:
            raise
        except BaseException:
            self._interrupted()
            raise
        REACH.reached(host)
        _check_length(request, response)
        return response

    def _missed(self, error: Exception, host: str, url: str) -> None:
        patience = _patience_shown(error, host, self._patience)
        if patience is None or not self._is_direct(url):
            return
        if REACH.missed(host, current_clock().monotonic(), patience):
            _marked(error)

    def _is_direct(self, url: str) -> bool:
        """Whether no proxy is in between: what one way can't reach, another may."""
        proxies = getattr(self._inner, "_proxy_config", None)
        return proxies is None or not proxies.proxy_url_for(url)

    def close(self) -> None:
        """Close the inner session's connections."""
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def put_before(client: BaseClient, interrupted: Callable[[], None]) -> None:
    """Put a Transport before a client's session, once, and shorten the time that one connection may take."""
    endpoint = client._endpoint  # type: ignore[attr-defined]  # noqa: SLF001 - botocore offers no public way
    if not isinstance(endpoint.http_session, Transport):
        patience = _shorten_connect_timeout(client, endpoint.http_session)
        endpoint.http_session = Transport(endpoint.http_session, patience, interrupted)


def host_of(url: str) -> str:
    """Host and port of a URL, without the user and password that may stand before them."""
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


def _marked(error: T) -> T:
    """`is_unreachable` knows it again."""
    vars(error)[_UNREACHABLE] = True
    return error


def is_unreachable(error: Exception) -> bool:
    """Whether an error says that a host is held to be unreachable, so that trying again soon is of no use."""
    return _UNREACHABLE in vars(error)


def _shorten_connect_timeout(client: BaseClient, session: Any) -> float:
    """Seconds that a connection of this client may take from now on."""
    config: Any = client.meta.config
    manager = getattr(session, "_manager", None)
    if manager is None or config.connect_timeout != _BOTOCORES_OWN:
        return float(config.connect_timeout or 0)
    session._timeout = Timeout(connect=CONNECT_TIMEOUT, read=config.read_timeout)  # noqa: SLF001 - as above
    manager.connection_pool_kw["timeout"] = session._timeout  # noqa: SLF001 - as above
    return CONNECT_TIMEOUT


def _patience_shown(error: Exception, host: str, patience: float) -> float | None:
    """How long we have waited in vain for a host; None where that says little.

    A refused connection costs nothing and may be a server that is just starting; so may anything on an address that somebody
    wrote down. Less than our own CONNECT_TIMEOUT may be one lost packet.
    """
    if _is_local(host):
        return None
    causes = list(causes_of(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        unknown = any(isinstance(cause, socket.gaierror) and cause.errno in _NO_SUCH_NAME for cause in causes)
        return math.inf if unknown else None
    if isinstance(error, ConnectTimeoutError):
        return patience if patience >= CONNECT_TIMEOUT else None
    return math.inf if any(isinstance(cause, OSError) and cause.errno in _NO_WAY for cause in causes) else None


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
    if promised is None or not (promised.isascii() and promised.isdigit()):
        return
    actual = len(response.content)
    if actual < int(promised):
        raise IncompleteReadError(actual_bytes=actual, expected_bytes=int(promised))
