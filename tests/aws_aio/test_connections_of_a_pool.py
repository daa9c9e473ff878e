"""The faults of tests/egress, for aiobotocore's own HTTP session on a member's route."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any

import pytest

from tests.aws_aio.test_what_boto3s_clients_pass import shared
from tests.egress import test_bodies, test_destination_faults, test_member_faults, test_socks, test_status
from tests.egress.conftest import Ask, Sent, _Aiohttp, _Botocore, authority, certified, no_names, settings, tls, trusted, work

__all__ = ["authority", "certified", "no_names", "tls", "trusted", "work"]  # fixtures

pytestmark = [
    pytest.mark.wire,
    pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),  # the same, where that is freed first
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),  # which aiobotocore does
]

globals().update(shared(test_bodies, test_destination_faults, test_member_faults, test_socks, test_status))


class Aiobotocore(_Aiohttp):
    request = _Botocore.request

    def session(self, ask: Ask, proxy: str | None = None, **options: Any) -> Any:
        from aiobotocore.httpsession import AIOHTTPSession

        proxies = {"http": proxy, "https": proxy} if proxy else None
        given = {"verify": self.trusted, "timeout": (ask.patience, ask.patience), "proxies": proxies} | options
        return AIOHTTPSession(**given, proxies_config={"proxy_ca_bundle": self.trusted} if proxy else None)

    async def _through(self, member: Any, asks: tuple[Ask, ...]) -> list[Sent]:
        from cloudretry.aws.aio_egress import way_of

        way = way_of(self.session(asks[0]), member, settings(asks[0]))
        try:
            return [await self._try_async(way, ask) for ask in asks]
        finally:
            await way.aclose()
            await asyncio.sleep(0.01)  # transports that are closing do so

    async def _plainly(self, ask: Ask, proxy: str | None) -> Any:
        async with self.session(ask, proxy) as session:
            try:
                return await session.send(self.request(ask))
            except Exception as error:  # noqa: BLE001 - what it is, is what the tests look at
                return error


@pytest.fixture
def rig(trusted: str, request: pytest.FixtureRequest) -> Any:
    if "test_certificates[names0" in request.node.name and not find_spec("aiobotocore._async_primitives"):
        pytest.skip("aiobotocore before 3.9 does not compare a certificate's names; ours does, but not with what that does")
    return Aiobotocore(trusted)
