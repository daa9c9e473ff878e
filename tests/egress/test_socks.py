"""The SOCKS 5 dialogue, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudretry.egress.socks import AUTH_REJECTED, SocksError, handshake

NO_LOGIN, LOGIN, NONE_ACCEPTED = b"\x05\x00", b"\x05\x02", b"\x05\xff"
CONNECTED = b"\x05\x00\x00\x01" + bytes(6)


def talk(answers: bytes, *asked: str | int | None) -> tuple[bytes, int]:
    """What is sent while a proxy says `answers`, and how many bytes of them are left unread."""
    host, port, user, password = asked
    dialogue = handshake(str(host), int(port or 0), user, password)  # type: ignore[arg-type]
    sent, answer = b"", None
    while True:
        try:
            step = dialogue.send(answer)
        except StopIteration:
            return sent, len(answers)
        answer = None
        if isinstance(step, bytes):
            sent += step
        else:
            answer, answers = answers[:step], answers[step:]
            assert len(answer) == step, "reads more than there is"


def test_a_name() -> None:
    sent, left = talk(NO_LOGIN + CONNECTED, "host.test", 443, None, None)
    assert sent == b"\x05\x01\x00" + b"\x05\x01\x00\x03\x09host.test\x01\xbb"
    assert left == 0


@pytest.mark.parametrize(("host", "coded"), [("10.1.2.3", b"\x01\x0a\x01\x02\x03"), ("::1", b"\x04" + bytes(15) + b"\x01")])
def test_an_address(host: str, coded: bytes) -> None:
    assert talk(NO_LOGIN + CONNECTED, host, 80, None, None)[0].endswith(b"\x05\x01\x00" + coded + b"\x00\x50")


def test_a_login_is_offered_and_given_where_it_is_wanted() -> None:
    sent, left = talk(LOGIN + b"\x01\x00" + CONNECTED, "h", 80, "me", "pä")
    assert sent.startswith(b"\x05\x02\x00\x02" + b"\x01\x02me\x03p\xc3\xa4")
    assert left == 0


def test_a_login_is_not_given_where_it_is_not_wanted() -> None:
    assert b"secret" not in talk(NO_LOGIN + CONNECTED, "h", 80, "me", "secret")[0]


@pytest.mark.parametrize("answers", [NONE_ACCEPTED, LOGIN + b"\x01\x01"])
def test_a_login_that_is_not_taken(answers: bytes) -> None:
    with pytest.raises(SocksError) as caught:
        talk(answers, "h", 80, "me", "wrong")
    assert caught.value.reply == AUTH_REJECTED


def test_a_method_that_was_not_offered_is_not_believed() -> None:
    with pytest.raises(SocksError):
        talk(LOGIN, "h", 80, None, None)


@pytest.mark.parametrize("kind", [b"\x01" + bytes(4), b"\x04" + bytes(16), b"\x03\x05bound"])
def test_nothing_of_the_proxys_answer_is_left_for_what_comes_next(kind: bytes) -> None:
    assert talk(NO_LOGIN + b"\x05\x00\x00" + kind + bytes(2), "h", 80, None, None)[1] == 0


@given(st.binary(min_size=300, max_size=600), st.text(max_size=300), st.text(max_size=300))
def test_whatever_it_says_the_end_is_a_connection_or_an_error(answers: bytes, user: str, password: str) -> None:
    replies: list[int] = []
    sent = b""
    try:
        sent, _ = talk(answers, "host.test", 443, user, password)
    except SocksError as error:
        replies.append(error.reply)
    assert sent.endswith(b"host.test\x01\xbb") if not replies else AUTH_REJECTED <= replies[0] <= 255
