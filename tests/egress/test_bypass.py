"""Which destinations skip a pool."""

from __future__ import annotations

import pytest

from cloudretry.egress.bypass import Bypass


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "api.localhost",
        "127.0.0.1",
        "127.8.9.10",
        "[::1]",
        "[::1]:8080",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "169.254.170.23:80",
        "[fd00:ec2::254]",
        "[fd00:ec2::23]",
        "[fe80::1%eth0]",
        "168.63.129.16",
        "LOCALHOST",
        "localhost.",
    ],
)
def test_what_a_proxy_must_never_see(host: str) -> None:
    assert Bypass(environ={}).covers(host)


@pytest.mark.parametrize(
    "host", ["ec2.eu-west-1.amazonaws.com", "management.azure.com", "10.0.0.1", "8.8.8.8", "[fd00:ec2::1]"]
)
def test_what_goes_through_the_pool(host: str) -> None:
    assert not Bypass(environ={}).covers(host)


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        ("example.com", ["example.com", "a.example.com", "EXAMPLE.com."], ["badexample.com", "example.com.evil.org"]),
        (".example.com", ["a.example.com"], ["badexample.com", "example.com"]),
        ("*.example.com", ["a.example.com", "a.b.example.com"], ["badexample.com"]),
        ("10.0.0.0/8", ["10.1.2.3"], ["11.1.2.3", "10.example.com"]),
        ("10.1.2.3", ["10.1.2.3"], ["10.1.2.4"]),
        ("fd12::/16", ["[fd12::1]", "[fd12::1]:443"], ["[fd13::1]"]),
        (" a.com , b.com ", ["a.com", "b.com"], ["c.com"]),
        ("*", ["anything.org", "8.8.8.8"], []),
        ("", [], ["anything.org"]),
    ],
)
def test_patterns(pattern: str, covered: list[str], not_covered: list[str]) -> None:
    by_environment = Bypass(environ={"NO_PROXY": pattern})
    by_settings = Bypass(pattern.split(","), environ={})
    for bypass in (by_environment, by_settings):
        assert [host for host in covered if not bypass.covers(host)] == []
        assert [host for host in not_covered if bypass.covers(host)] == []


def test_a_port_narrows_a_pattern() -> None:
    bypass = Bypass(["example.com:8443"], environ={})
    assert bypass.covers("example.com:8443")
    assert not bypass.covers("example.com:443")
    assert not bypass.covers("example.com")


def test_the_small_variable_wins() -> None:
    assert Bypass(environ={"no_proxy": "a.com", "NO_PROXY": "b.com"}).covers("a.com")
    assert not Bypass(environ={"no_proxy": "a.com", "NO_PROXY": "b.com"}).covers("b.com")


def test_the_process_own_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "a.com")
    bypass = Bypass()
    monkeypatch.setenv("NO_PROXY", "b.com")
    assert bypass.covers("a.com")
    assert not bypass.covers("b.com")


def test_a_bounded_number_of_hosts_is_remembered() -> None:
    bypass = Bypass(environ={})
    for number in range(10_000):
        bypass.covers(f"bucket-{number}.s3.amazonaws.com")
    assert len(bypass._known) <= 4096
