from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudretry.core.proxy_url import ACCEPTED_URL, ProxyUrl, holds_secret, masked_url, parse_proxy_url
from cloudretry.errors import ConfigurationError
from cloudretry.references import resolve_url

EXAMPLES = settings(max_examples=200, deadline=None, derandomize=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://a:3128", ProxyUrl(scheme="http", host="a", port=3128)),
        ("HTTPS://A.example.com:443/", ProxyUrl(scheme="https", host="a.example.com", port=443)),
        ("socks5h://me@[FD00::1]:1080", ProxyUrl(scheme="socks5h", host="fd00::1", port=1080, user="me")),
        ("socks5://a%40b:c%3A%2F@10.0.0.1:1", ProxyUrl(scheme="socks5", host="10.0.0.1", port=1, user="a@b", password="c:/")),
        ("http://me:@a:1", ProxyUrl(scheme="http", host="a", port=1, user="me", password="")),
    ],
)
def test_the_parts_of_a_url(url: str, parts: ProxyUrl) -> None:
    assert parse_proxy_url(url) == parts


@pytest.mark.parametrize(
    "url",
    ["", "a", "a:1", "http://a", "http://a:0", "http://a:65536", "ftp://a:1", "http://a:1/x", "http://a:1?x", "http://:1",
     "http://a b:1", "http://u@v@a:1", "http://[a]:1", "http://a:1\n", "http://fd00::1:1", "socks4://a:1"],
)  # fmt: skip
def test_what_is_none_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_proxy_url(url)
    assert str(refused.value) == f"not the URL of a proxy; accepted: {ACCEPTED_URL}"


def test_credentials_are_no_part_of_a_representation() -> None:
    assert "hunter2" not in repr(parse_proxy_url("http://hunter2:hunter2@a:1"))


MASKED = [
    ("http://a:1", "http://a:1", False),
    ("http://u:p@a:1", "http://***@a:1", True),
    ("http://u:p/w//x@a:1", "http://***@a:1", True),
    ("u:p@a:1", "***@a:1", True),
    ("http:/u:p@a", "***@a", True),
    ("http://token@a:1", "http://***@a:1", True),
    ("http://token:@a:1", "http://***@a:1", True),
    ("http://x${env:U}@a:1", "http://***@a:1", True),
    ("http://u:x${env:P}@a:1", "http://***@a:1", True),
    ("http://a:1/path?token=x", "http://a:1", False),
    ("${env:X}", "${env:X}", False),
    ("http://${env:UP}@a:1", "http://${env:UP}@a:1", False),
    ("http://${env:U}:${env:P}@a:1", "http://${env:U}:${env:P}@a:1", False),
    ("http://u:${file:/run/@x}@a:1", "http://u:${file:/run/@x}@a:1", False),
]


@pytest.mark.parametrize(("url", "masked", "secret"), MASKED)
def test_what_is_shown_of_a_url(url: str, masked: str, secret: bool) -> None:  # noqa: FBT001 - a column of the table
    assert masked_url(url) == masked
    assert holds_secret(url) is secret


@EXAMPLES
@given(st.text(st.characters(exclude_characters="$"), max_size=30))
def test_nothing_before_the_host_is_ever_shown(noise: str) -> None:
    assert "hunter2" not in masked_url(f"http://hunter2{noise}@a:1")
    assert "hunter2" not in masked_url(f"http://u:{noise}hunter2@a:1")


@EXAMPLES
@given(user=TEXT, password=TEXT)
def test_any_credentials_arrive_as_they_are(user: str, password: str) -> None:
    resolved = resolve_url("http://${env:U}:${env:P}@a:1", {"U": user, "P": password})
    assert parse_proxy_url(resolved) == ProxyUrl(scheme="http", host="a", port=1, user=user, password=password)


def test_where_references_may_stand(tmp_path: Path) -> None:
    (tmp_path / "pass").write_text("p@ss\n")
    environ = {"UP": "me:p@ss", "URL": "http://me:p%40ss@a:1", "HOST": "a", "PORT": "1"}
    urls = [
        f"http://me:${{file:{tmp_path}/pass}}@a:1",
        "http://${env:UP}@a:1",
        "${env:URL}",
        "http://${env:UP}@${env:HOST}:${env:PORT}",
    ]
    assert {parse_proxy_url(resolve_url(url, environ)) for url in urls} == {
        ProxyUrl(scheme="http", host="a", port=1, user="me", password="p@ss")
    }


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"\$\{env:NONE\}: the environment has no variable NONE"):
        resolve_url("http://hunter2:${env:NONE}@a:1", {})
