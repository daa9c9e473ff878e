"""The three transports behind one face, and certificates."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from cloudretry.core.pool_settings import Member, PoolSettings
from cloudretry.egress.ends import end_of
from cloudretry.egress.record import Record

if TYPE_CHECKING:
    from cloudretry.core.tries import TryEnd

HOST = "destination.test"


def nothing() -> None:
    pass


@dataclass(frozen=True)
class Sent:
    end: TryEnd
    answer: Any
    record: Record


@dataclass(frozen=True)
class Ask:
    """What is sent. `url` may be that of nobody: members know the way."""

    url: str
    method: str = "GET"
    body: bytes | None = None
    patience: float = 5.0
    ca_bundle: str | None = None
    between: Callable[[], None] = nothing


def settings(ask: Ask) -> PoolSettings:
    return PoolSettings(name="pool", members=(), connect_timeout=ask.patience, ca_bundle=ask.ca_bundle)


class _Botocore:
    """boto3's HTTP session."""

    def __init__(self, trusted: str) -> None:
        self.trusted = trusted

    def session(self, ask: Ask, proxy: str | None = None, **options: Any) -> Any:
        from botocore.httpsession import URLLib3Session

        proxies = {"http": proxy, "https": proxy} if proxy else None
        settings = {"verify": self.trusted, "timeout": (ask.patience, ask.patience), "proxies": proxies} | options
        return URLLib3Session(**settings, proxies_config={"proxy_ca_bundle": self.trusted} if proxy else None)

    def through(self, member: Member, *asks: Ask) -> list[Sent]:
        from cloudretry.egress.botocore_way import BotocoreWay

        way = BotocoreWay(self.session(asks[0]), member, settings(asks[0]))
        try:
            return [self._try(way, ask) for ask in asks]
        finally:
            way.close()

    def _try(self, way: Any, ask: Ask) -> Sent:
        record = Record()
        try:
            answer = way.send(self.request(ask), record)
        except Exception as error:  # noqa: BLE001 - what it is, is what the tests look at
            answer = error
        ask.between()
        return Sent(end_of(record, answer), answer, record)

    def plainly(self, ask: Ask, proxy: str | None = None) -> Any:
        session = self.session(ask, proxy)
        try:
            return session.send(self.request(ask))
        except Exception as error:  # noqa: BLE001 - what it is, is what the tests look at
            return error
        finally:
            session.close()

    def request(self, ask: Ask) -> Any:
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(ask.method, ask.url, data=ask.body).prepare()
        request.stream_output = False
        return request


class _Requests(_Botocore):
    """azure-core's transport on requests."""

    def session(self, ask: Ask, proxy: str | None = None, **options: Any) -> Any:
        from azure.core.pipeline.transport import RequestsTransport

        timeouts = {"connection_timeout": ask.patience, "read_timeout": ask.patience}
        return RequestsTransport(**(timeouts | {"connection_verify": self.trusted} | options))

    def through(self, member: Member, *asks: Ask) -> list[Sent]:
        from cloudretry.egress.requests_way import RequestsWay

        way = RequestsWay(self.session(asks[0]), member, settings(asks[0]))
        try:
            return [self._try(way, ask) for ask in asks]
        finally:
            way.close()

    def plainly(self, ask: Ask, proxy: str | None = None) -> Any:
        with self.session(ask) as transport:
            try:
                return transport.send(self.request(ask), proxies={"http": proxy, "https": proxy} if proxy else None)
            except Exception as error:  # noqa: BLE001 - what it is, is what the tests look at
                return error

    def request(self, ask: Ask) -> Any:
        from azure.core.rest import HttpRequest

        return HttpRequest(ask.method, ask.url, content=ask.body)


class _Aiohttp(_Requests):
    """azure-core's transport on aiohttp."""

    def session(self, ask: Ask, proxy: str | None = None, **options: Any) -> Any:
        from azure.core.pipeline.transport import AioHttpTransport

        timeouts = {"connection_timeout": ask.patience, "read_timeout": ask.patience}
        return AioHttpTransport(**(timeouts | {"connection_verify": self.trusted} | options))

    def through(self, member: Member, *asks: Ask) -> list[Sent]:
        if sys.version_info < (3, 11) and (member.url or "").startswith("https"):
            pytest.skip("asyncio has no TLS in TLS before Python 3.11")
        return asyncio.run(self._through(member, asks))

    async def _through(self, member: Member, asks: tuple[Ask, ...]) -> list[Sent]:
        from cloudretry.egress.aiohttp_way import AiohttpWay

        way = AiohttpWay(self.session(asks[0]), member, settings(asks[0]))
        try:
            return [await self._try_async(way, ask) for ask in asks]
        finally:
            await way.aclose()
            await asyncio.sleep(0.01)  # transports that are closing do so

    async def _try_async(self, way: Any, ask: Ask) -> Sent:
        record = Record()
        try:
            answer = await way.send(self.request(ask), record)
        except Exception as error:  # noqa: BLE001 - what it is, is what the tests look at
            answer = error
        if ask.between is not nothing:
            await asyncio.get_running_loop().run_in_executor(None, ask.between)
            await asyncio.sleep(0.05)  # what has arrived meanwhile is noticed
        return Sent(end_of(record, answer), answer, record)

    def plainly(self, ask: Ask, proxy: str | None = None) -> Any:
        return asyncio.run(self._plainly(ask, proxy))

    async def _plainly(self, ask: Ask, proxy: str | None) -> Any:
        async with self.session(ask) as transport:
            try:
                return await transport.send(self.request(ask), proxies={"http": proxy, "https": proxy} if proxy else None)
            except Exception as error:  # noqa: BLE001 - what it is, is what the tests look at
                return error


RIGS = {"botocore": _Botocore, "requests": _Requests, "aiohttp": _Aiohttp}


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def trusted(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with the certificate of the authority that clients trust."""
    place = tmp_path_factory.mktemp("tls") / "authority.pem"
    authority.cert_pem.write_to_path(str(place))
    return str(place)


@pytest.fixture(scope="session")
def certified(authority: trustme.CA) -> Callable[..., ssl.SSLContext]:
    """`certified(name, …, by=…)`: the TLS of a server of these names."""

    def make(*names: str, by: trustme.CA = authority) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        by.issue_cert(*names).configure_cert(context)
        return context

    return make


@pytest.fixture(scope="session")
def tls(certified: Callable[..., ssl.SSLContext]) -> ssl.SSLContext:
    """That of the destination, by whatever name it is reached, and of the proxy."""
    return certified(HOST, "localhost", "127.0.0.1")


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest, trusted: str) -> Any:
    return RIGS[request.param](trusted)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names below .invalid are not known, without asking anybody."""
    import socket

    resolve = socket.getaddrinfo

    def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name.endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
