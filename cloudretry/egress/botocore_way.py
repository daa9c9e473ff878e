"""A way out for boto3: a twin of a client's own HTTP session that takes a member's route.

The twin is a copy of the session, with its timeouts, certificates and pool size, whatever its class. No SDK is imported here.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from urllib3 import PoolManager, ProxyManager, Timeout

from cloudretry.egress.record import CURRENT
from cloudretry.egress.route import Route, route_of
from cloudretry.egress.tls import proxy_context, shared_context, trust
from cloudretry.egress.urllib3_connections import close_pools, recorded_pools, watch_body

if TYPE_CHECKING:
    import ssl

    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.egress.record import Record

__all__ = ["BotocoreWay", "can_serve"]


def can_serve(session: Any) -> bool:
    """Whether a client's HTTP session is one that BotocoreWay can be made from; aiobotocore's is not."""
    return all(hasattr(session, name) for name in ("_get_pool_manager_kwargs", "_setup_ssl_cert", "_proxy_config", "_timeout"))


class BotocoreWay:
    """Thread-safe, as the session is.

    Args:
        session: the client's own; it stays what it is.
        member: of the pool. Raises ConfigurationError where it can't be used.
    """

    def __init__(self, session: Any, member: Member, settings: PoolSettings) -> None:
        route = route_of(member)
        self._proxied = route.proxied
        self._session = _twin(session, route, settings)
        self._send = self._session.send

    def send(self, request: Any, record: Record) -> Any:
        """Send an AWSPreparedRequest; returns and raises what the client's own session would."""
        record.proxied = self._proxied
        token = CURRENT.set(record)
        try:
            response = self._send(request)
        finally:
            CURRENT.reset(token)
        if request.stream_output:
            watch_body(response.raw, record)
        return response

    def close(self) -> None:
        """Close the connections that nobody uses now; those in use are closed after use."""
        for manager in (self._session._manager, *self._session._proxy_managers.values()):  # noqa: SLF001 - as below
            close_pools(manager)

    def is_usable(self) -> bool:
        """Always."""
        return True

    def is_busy(self) -> bool:
        """Never so that closing it would matter."""
        return False


def _twin(session: Any, route: Route, settings: PoolSettings) -> Any:
    twin = copy.copy(session)
    twin._timeout = _timeout(session._timeout, settings.connect_timeout)  # noqa: SLF001 - botocore offers no public way
    certificates = _Certificates(session, settings.ca_bundle)
    twin._get_ssl_context = certificates.context  # noqa: SLF001
    twin._setup_ssl_cert = certificates.set_up  # noqa: SLF001
    twin._cert_file = twin._key_file = None  # noqa: SLF001 - in the context already
    twin._pool_classes_by_scheme = recorded_pools(session._pool_classes_by_scheme, route)  # noqa: SLF001
    twin._manager = PoolManager(**twin._get_pool_manager_kwargs())  # noqa: SLF001
    twin._manager.pool_classes_by_scheme = twin._pool_classes_by_scheme  # noqa: SLF001
    proxy = route.proxy_url
    twin._proxy_config = SimpleNamespace(settings={}, proxy_url_for=lambda _: proxy)  # noqa: SLF001 - without looking at the URL
    twin._proxy_managers = {}  # noqa: SLF001
    if proxy is not None:
        twin._proxy_managers[proxy] = _proxy_manager(twin, proxy, route, certificates.trusted, settings)  # noqa: SLF001
    return twin


def _proxy_manager(twin: Any, proxy: str, route: Route, trusted: str | None, settings: PoolSettings) -> ProxyManager:
    """Made here, since botocore's own takes ASCII credentials alone."""
    tls = proxy_context(trusted, settings.ca_bundle) if proxy.startswith("https:") else None
    kwargs = twin._get_pool_manager_kwargs(proxy_headers=route.proxy_headers)  # noqa: SLF001
    manager = ProxyManager(proxy, proxy_ssl_context=tls, **kwargs)
    manager.pool_classes_by_scheme = twin._pool_classes_by_scheme  # noqa: SLF001
    return manager


def _timeout(own: Any, connect: float) -> Timeout:
    """The shorter time to connect of the two."""
    if not isinstance(own, Timeout):
        own = Timeout(connect=own, read=own)
    known = own.connect_timeout
    shorter = min(known, connect) if isinstance(known, int | float) else connect
    return Timeout(connect=shorter, read=own._read)  # noqa: SLF001 - the property changes with a running request


class _Certificates:
    """What a session trusts, and shows: loaded once, instead of for every connection as botocore does."""

    def __init__(self, session: Any, ca_bundle: str | None) -> None:
        self._session = session
        self._ca_bundle = ca_bundle
        wanted = SimpleNamespace()
        session._setup_ssl_cert(wanted, "https://", session._verify)  # noqa: SLF001
        self._requirement = wanted.cert_reqs
        self.trusted: str | None = wanted.ca_certs

    def context(self) -> ssl.SSLContext:
        session = self._session
        key = (type(session), self._requirement, self.trusted, session._cert_file, session._key_file, self._ca_bundle)  # noqa: SLF001
        return shared_context(key, self._build, self.trusted, self._ca_bundle)

    def _build(self) -> ssl.SSLContext:
        session = self._session
        context: ssl.SSLContext = session._get_ssl_context()  # noqa: SLF001
        if self.trusted is not None:
            for place in (self.trusted, self._ca_bundle):
                if place is not None:
                    trust(context, place)
        if session._cert_file is not None:  # noqa: SLF001
            context.load_cert_chain(session._cert_file, session._key_file)  # noqa: SLF001
        return context

    def set_up(self, pool: Any, url: str, verify: object) -> None:  # noqa: ARG002 - botocore's signature
        """In the place of `_setup_ssl_cert`."""
        pool.cert_reqs = self._requirement
