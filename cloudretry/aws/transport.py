"""Stands before a client's HTTP session: only what is really sent passes here, so moto and stubs never do.

It sends through the client's egress pool, where there is one, and notices what botocore lets pass: an answer shorter than it
says, and hosts that can't be reached.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, IncompleteReadError
from urllib3 import Timeout

from cloudretry.aws.causes import causes_of
from cloudretry.aws.egress import send_through
from cloudretry.runtime import reach
from cloudretry.runtime.current import CURRENT
from cloudretry.runtime.place import turn_of
from cloudretry.runtime.reach import REACH, host_of, is_held_unreachable, marked, missed, patience_shown

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from botocore.client import BaseClient

    from cloudretry.egress.passage import Passage
    from cloudretry.egress.passages import Passages
    from cloudretry.runtime.current import Current

__all__ = ["BOTOCORES_OWN", "Transport", "has_own_proxies", "put_before", "watch"]

BOTOCORES_OWN: Final = 60
"""Seconds that one connection may take where nobody says anything."""
_NO_BODY: Final = frozenset({204, 304})


class Transport:
    """`send` and `close` of a botocore HTTP session; whatever else is asked for is the inner one's. Thread-safe as that is.

    Args:
        patience: seconds that a connection may take.
        own_proxies: the client was given proxies; then they are used, and no pool.
    """

    def __init__(self, inner: Any, patience: float, *, own_proxies: bool) -> None:
        self._inner = inner
        self._patience = patience
        self._why_not = "it was given proxies of its own" if own_proxies else None

    @cached_property
    def _passages(self) -> Passages[Any]:
        """Made when a pool is used: a program without one does not import what it takes."""
        from cloudretry.aws.probe import get
        from cloudretry.egress.botocore_way import BotocoreWay, can_serve
        from cloudretry.egress.passages import Passages

        if not can_serve(self._inner):
            self._why_not = "its HTTP session is not botocore's"
        return Passages(lambda member, settings: BotocoreWay(self._inner, member, settings), get)

    def send(self, request: AWSPreparedRequest) -> Any:
        """Send, and vouch for the answer.

        Raises:
            EndpointConnectionError: also at once, for a host that is known to be unreachable.
            PoolUnavailable: no member of the egress pool could be had.
            IncompleteReadError: the answer is shorter than its Content-Length says.
        """
        current = CURRENT.get()
        try:
            response = self._send_directly(request) if current is None else self._send(current, request)
        except Exception:
            raise
        except BaseException:
            if current is not None:
                current.machine.interrupt()
            raise
        _check_length(request, response)
        return response

    def _send(self, current: Current, request: AWSPreparedRequest) -> Any:
        """With the call's turn, through the pool if there is one."""
        machine = current.machine
        with turn_of(machine):
            passage = self._passage(current, request.url)
            if passage is None:
                return self._send_directly(request)
            return send_through(passage, machine, request)

    def _passage(self, current: Current, url: str) -> Passage[Any] | None:
        """The way through the call's pool; None: the request goes out by itself."""
        if current.machine.settings.pool is None:
            return None
        return self._passages.of(current.engine, current.machine, host_of(url).lower(), self._why_not)

    def _send_directly(self, request: AWSPreparedRequest) -> Any:
        self._refuse_unreachable(request.url)
        try:
            response: AWSResponse = self._inner.send(request)
        except (ConnectTimeoutError, EndpointConnectionError) as error:
            self._missed(error, request.url)
            raise
        REACH.reached(host_of(request.url))
        watch(request, response)
        return response

    def _refuse_unreachable(self, url: str) -> None:
        if is_held_unreachable(host_of(url), self._patience) and self._is_direct(url):
            raise marked(EndpointConnectionError(endpoint_url=url, error="not answered before by this host"))

    def _missed(self, error: Exception, url: str) -> None:
        host = host_of(url)
        timed_out = isinstance(error, ConnectTimeoutError)
        patience = patience_shown(host, causes_of(error), self._patience, timed_out=timed_out)
        if patience is not None and self._is_direct(url):
            missed(error, host, patience)

    def _is_direct(self, url: str) -> bool:
        """Whether no proxy is in between: what one way can't reach, another may."""
        proxies = getattr(self._inner, "_proxy_config", None)
        return proxies is None or not proxies.proxy_url_for(url)

    def close(self) -> Any:
        """Close all connections."""
        self._inner.close()
        if "_passages" in vars(self):
            for ways in self._passages.ways():
                ways.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def watch(request: AWSPreparedRequest, response: Any) -> None:
    """See to it that a body is told of that breaks off while the program reads it."""
    if request.stream_output:
        from cloudretry.egress.streamed import watch_streamed  # which most programs never need

        watch_streamed(response.raw, CURRENT.get())


def has_own_proxies(client: BaseClient) -> bool:
    """Whether a client was given proxies, as opposed to those of the environment."""
    return bool(getattr(client.meta.config, "proxies", None))


def put_before(client: BaseClient) -> None:
    """Put a Transport before a client's session, once, and shorten the time that one connection may take."""
    endpoint = client._endpoint  # type: ignore[attr-defined]  # noqa: SLF001 - botocore offers no public way
    if not isinstance(endpoint.http_session, Transport):
        patience = _shorten_connect_timeout(client, endpoint.http_session)
        endpoint.http_session = Transport(endpoint.http_session, patience, own_proxies=has_own_proxies(client))


def _shorten_connect_timeout(client: BaseClient, session: Any) -> float:
    """Seconds that a connection of this client may take from now on."""
    config: Any = client.meta.config
    manager = getattr(session, "_manager", None)
    if manager is None or config.connect_timeout != BOTOCORES_OWN:
        return float(config.connect_timeout or 0)
    session._timeout = Timeout(connect=reach.CONNECT_TIMEOUT, read=config.read_timeout)  # noqa: SLF001 - as above
    manager.connection_pool_kw["timeout"] = session._timeout  # noqa: SLF001 - as above
    return reach.CONNECT_TIMEOUT


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
