"""Where a member's connections go."""

from __future__ import annotations

import pytest

from cloudretry.core.pool_settings import Member
from cloudretry.core.tries import Hop
from cloudretry.egress.route import DIRECT, route_of
from cloudretry.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1:8443", ("10.0.0.1", 8443)),
        ("10.0.0.1", ("10.0.0.1", None)),
        ("[fd00::1]:443", ("fd00::1", 443)),
        ("[fd00::1]", ("fd00::1", None)),
        ("vpce-1.ec2.example:443", ("vpce-1.ec2.example", 443)),
    ],
)
def test_an_address(text: str, address: tuple[str, int | None]) -> None:
    route = route_of(Member(name="x", connect_to=text))
    assert (route.address, route.first_hop, route.proxied) == (address, Hop.MEMBER, False)


@pytest.mark.parametrize("text", [":443", "host:https", ""])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ConfigurationError):
        route_of(Member(name="x", connect_to=text))


def test_direct() -> None:
    assert route_of(Member(name="x", direct=True)) == DIRECT
    assert (DIRECT.first_hop, DIRECT.proxied, DIRECT.proxy_url, DIRECT.proxy_headers) == (Hop.DESTINATION, False, None, {})


def test_a_proxy_url_is_shown_without_credentials_and_keeps_them_for_the_proxy() -> None:
    route = route_of(Member(name="x", url="https://us%40er:p%C3%A4ss@[fd00::1]:3128"))
    assert route.proxy_url == "https://[fd00::1]:3128"
    assert route.proxy_headers == {"Proxy-Authorization": "Basic dXNAZXI6cMOkc3M="}
    assert "ss" not in repr(route).replace("address", "")


def test_socks() -> None:
    route = route_of(Member(name="x", url="socks5h://user:secret@10.0.0.1:1080"))
    assert route.socks is not None
    assert (route.socks.host, route.socks.port, route.socks.user, route.socks.password) == ("10.0.0.1", 1080, "user", "secret")
    assert (route.proxy_url, route.proxied) == (None, True)
