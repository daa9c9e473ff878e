"""A way out for Azure clients on requests: a twin of the client's transport whose session takes a member's route.

The twin is a copy of the transport, with its timeouts and certificates, whatever its class. No SDK is imported here.
"""

from __future__ import annotations

import copy
import os
import ssl
from contextvars import copy_context
from functools import partial
from inspect import iscoroutinefunction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry
from urllib3.util.ssl_ import create_urllib3_context

from cloudretry.egress.record import CURRENT
from cloudretry.egress.route import Route, route_of
from cloudretry.egress.tls import proxy_context, shared_context, trust
from cloudretry.egress.urllib3_connections import close_pools, recorded_pools, watch_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.egress.record import Record

__all__ = ["AsyncRequestsWay", "RequestsWay", "can_serve"]

_HOSTS: Final = 32
_CONNECTIONS: Final = 64
"""Kept alive for one host; requests' own 10 make more threads than that connect anew all the time."""
_CARRIED: Final = ("headers", "auth", "hooks", "params", "cookies", "verify", "cert", "max_redirects")


def can_serve(transport: Any) -> bool:
    """Whether a transport is one that RequestsWay, or where its `send` is a coroutine AsyncRequestsWay, can be made from."""
    session = getattr(transport, "session", None)
    known = any(cls.__name__ == "RequestsTransport" for cls in type(transport).__mro__)
    return known and (session is None or isinstance(session, requests.Session))


class RequestsWay:
    """Thread-safe as far as requests is.

    Args:
        transport: the client's own; it stays what it is.
        member: of the pool. Raises ConfigurationError where it can't be used.
    """

    def __init__(self, transport: Any, member: Member, settings: PoolSettings) -> None:
        route = route_of(member)
        self._twin = _twin(transport, route, settings)
        self._proxied = route.proxied
        self._patience = settings.connect_timeout
        proxy = route.proxy_url
        self._proxies = {"http": proxy, "https": proxy} if proxy else {}
        self._send = self._twin.send

    def send(self, request: Any, record: Record, **options: Any) -> Any:
        """Send a request of azure-core; takes the transport's own options, returns and raises what it would."""
        record.proxied = self._proxied
        token = CURRENT.set(record)
        try:
            response = self._send(request, **self._own(options))
        finally:
            CURRENT.reset(token)
        _watch_streamed(response, options, record)
        return response

    def _own(self, options: dict[str, Any]) -> dict[str, Any]:
        options["proxies"] = self._proxies
        if "connection_timeout" in options:
            options["connection_timeout"] = _shorter(options["connection_timeout"], self._patience)
        return options

    def close(self) -> None:
        """Close the connections that nobody uses now; those in use are closed after use."""
        self._twin.session.close()

    def is_usable(self) -> bool:
        """Always."""
        return True

    def is_busy(self) -> bool:
        """Never so that closing it would matter."""
        return False


class AsyncRequestsWay(RequestsWay):
    """The same for azure-core's transports that run requests in threads, for asyncio and for trio."""

    async def send(self, request: Any, record: Record, **options: Any) -> Any:
        """Send a request of azure-core; takes the transport's own options, returns and raises what it would."""
        record.proxied = self._proxied
        token = CURRENT.set(record)
        try:
            response = await self._send(request, **self._own(options))
        finally:
            CURRENT.reset(token)
        _watch_streamed(response, options, record)
        return response


def _watch_streamed(response: Any, options: dict[str, Any], record: Record) -> None:
    if options.get("stream"):
        inner = getattr(response, "_internal_response", None) or response.internal_response
        watch_body(inner.raw, record)


class _ThreadedSession(requests.Session):
    """Takes the caller's context along into the thread in which a transport runs it; asyncio's executors don't."""

    @property
    def request(self) -> Any:
        request: Any = super().request
        return partial(copy_context().run, request)


def _twin(transport: Any, route: Route, settings: PoolSettings) -> Any:
    twin = copy.copy(transport)
    twin.connection_config = configuration = copy.copy(transport.connection_config)
    configuration.timeout = _shorter(configuration.timeout, settings.connect_timeout)
    if configuration.verify is True and transport._use_env_settings:  # noqa: SLF001 - azure-core offers no public way
        configuration.verify = _bundle(os.environ)
    trusted = configuration.verify if isinstance(configuration.verify, str) else None
    in_threads = iscoroutinefunction(transport.send)
    twin.session = _ThreadedSession() if in_threads else requests.Session()
    _set_up(twin.session, transport.session, _Adapter(route, trusted, settings.ca_bundle))
    twin._session_owner = twin._has_been_opened = True  # noqa: SLF001 - as above
    return twin


def _set_up(session: requests.Session, own: requests.Session | None, adapter: HTTPAdapter) -> None:
    if own is not None:
        for name in _CARRIED:
            setattr(session, name, getattr(own, name))
    session.trust_env = False  # looked up once, here, instead of for every request
    session.mount("https://", adapter)
    session.mount("http://", adapter)


def _bundle(environ: Mapping[str, str]) -> str | bool:
    """What requests would find in the environment."""
    return environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE") or True


def _shorter(own: Any, patience: float) -> Any:
    if isinstance(own, tuple):
        return (_shorter(own[0], patience), *own[1:])
    return patience if own is None else min(own, patience)


class _Adapter(HTTPAdapter):
    def __init__(self, route: Route, trusted: str | None, ca_bundle: str | None) -> None:
        self._route = route
        self._trusted = trusted
        self._ca_bundle = ca_bundle
        self._known: dict[Any, tuple[str, ssl.SSLContext]] = {}
        no_retries = Retry(total=False, redirect=False, raise_on_status=False)  # as azure-core's own
        super().__init__(pool_connections=_HOSTS, pool_maxsize=_CONNECTIONS, max_retries=no_retries)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self._record(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        if proxy not in self.proxy_manager:
            tls = proxy_context(self._trusted, self._ca_bundle) if proxy.startswith("https:") else None
            self._record(super().proxy_manager_for(proxy, proxy_ssl_context=tls, **kwargs))
        return self.proxy_manager[proxy]

    def _record(self, manager: Any) -> None:
        manager.pool_classes_by_scheme = recorded_pools(manager.pool_classes_by_scheme, self._route)

    def close(self) -> None:
        for manager in (self.poolmanager, *self.proxy_manager.values()):
            close_pools(manager)

    def proxy_headers(self, proxy: str) -> dict[str, str]:  # noqa: ARG002 - requests' signature
        return self._route.proxy_headers

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Give the pool a context that is loaded already, instead of files to look for and load again."""
        if url[:5].lower() != "https":
            return
        key = (verify, tuple(cert) if isinstance(cert, list) else cert)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._tls(url, verify, cert)
        conn.cert_reqs, conn.conn_kw["ssl_context"] = known
        conn.ca_certs = conn.ca_cert_dir = conn.cert_file = conn.key_file = None

    def _tls(self, url: str, verify: Any, cert: Any) -> tuple[str, ssl.SSLContext]:
        """Whether the server has to prove itself, and the context. Raises OSError, as requests does, for a missing file."""
        wanted = SimpleNamespace(cert_file=None, key_file=None)
        super().cert_verify(wanted, url, verify, cert)
        place = getattr(wanted, "ca_certs", None) or getattr(wanted, "ca_cert_dir", None)
        return wanted.cert_reqs, _context(place, (wanted.cert_file, wanted.key_file), self._ca_bundle)


def _context(place: str | None, certificate: tuple[str | None, str | None], ca_bundle: str | None) -> ssl.SSLContext:
    def build() -> ssl.SSLContext:
        context = create_urllib3_context(cert_reqs=ssl.CERT_NONE if place is None else ssl.CERT_REQUIRED)
        for trusted in (place, ca_bundle) if place is not None else ():
            if trusted is not None:
                trust(context, trusted)
        if certificate[0] is not None:
            context.load_cert_chain(certificate[0], certificate[1])
        return context

    return shared_context(("requests", place, certificate, ca_bundle), build, place, ca_bundle)
