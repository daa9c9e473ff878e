from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cloudretry.config.preview import preview, waits, worst_wait
from cloudretry.core.settings import Match, Override, ProviderSettings, RetrySettings


def settings(**changes: Any) -> RetrySettings:
    example = {"base_delay": 1.0, "max_delay": 10.0, "additional_delay_window": 1.5, "max_retries": 3}
    return RetrySettings(**{"strategy": "exponential", **example, **changes})


# From an independent simulation of the published rule: base 1000 ms and 400 ms, cap 10000 ms, window 1500 ms.
PUBLISHED: dict[float, list[tuple[int, int | None, int]]] = {
    1.0: [(1251, 2330, 2500), (2251, 4204, 4500), (4243, 8035, 8500)],
    0.4: [(948, None, 1900), (1349, None, 2700), (2147, None, 4300)],
}


@pytest.mark.parametrize("base", PUBLISHED)
def test_the_draws_agree_with_an_independent_simulation(base: float) -> None:
    rows = waits(settings(base_delay=base), samples=20_000, rng=Random(7))
    for row, (mean, p99, most) in zip(rows, PUBLISHED[base], strict=True):
        assert row.most * 1000 == pytest.approx(most)
        assert row.mean * 1000 == pytest.approx(mean, rel=0.02)
        assert p99 is None or row.p99 * 1000 == pytest.approx(p99, rel=0.02)


def test_from_the_fourth_retry_on_the_cap_and_the_window_bound_every_wait() -> None:
    rows = waits(settings(max_retries=100), samples=100, rng=Random(7))
    assert len(rows) == 12
    assert {row.most for row in rows[3:]} == {11.5}


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 2.5 + 4.5 + 8.5),
        ({"max_retries": 0}, 0.0),
        ({"time_budget": 5.0}, 5.0),
        ({"max_retries": 100}, 330.0),
        ({"strategy": "response_header", "max_header_delay": 20.0}, 3 * 21.5),
        ({"strategy": "response_header", "max_header_delay": 0.0}, 2.5 + 4.5 + 8.5),
        ({"strategy": "custom", "plugin": "mine"}, 330.0),
    ],
)
def test_the_worst_wait_of_a_call(changes: dict[str, Any], seconds: float) -> None:
    assert worst_wait(settings(**changes)) == pytest.approx(seconds)


def page(mode: Any = "enforce", overrides: tuple[Override, ...] = (), **changes: Any) -> str:
    entry = ProviderSettings(retry=settings(**changes), mode=mode, overrides=overrides)
    return preview("aws", entry, samples=200, rng=Random(1))


def test_the_page_of_a_provider() -> None:
    text = page(max_retries=2)
    assert text == page(max_retries=2)
    assert "exponential backoff: min(10s, 1s x [0, 2^n - 1]) + [0s, 1.5s]" in text
    assert "worst case of a call: 3 attempts, 7s of waiting" in text
    assert "transient errors: at most 2 of the retries" in text
    rows = [line for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert [row.split()[:5] for row in rows] == [["1", "0", "..", "2500", "ms"], ["2", "0", "..", "4500", "ms"]]
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 128


def test_the_page_says_what_a_header_may_ask() -> None:
    from cloudretry.core.builtin import BUILTIN

    text = preview("azure", BUILTIN.providers["azure"], samples=200, rng=Random(1))
    assert "what the first readable of these asks for, at most 5m, plus 0s to 500ms:" in text
    assert "x-ms-user-quota-resets-after" in text
    assert "the error text" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 120
    assert "fall-back" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_retries": 0}, "no retries"),
        ({"strategy": "custom", "plugin": "mine"}, "getDelay() of the plugin mine"),
        ({"strategy": "sdk"}, "the SDK's own counters"),
        ({"mode": "observe"}, "mode observe: the SDK's own retry decides"),
        ({"transient_errors": False}, "transient errors: not retried"),
        ({"base_delay": 0.0, "additional_delay_window": 0.0, "max_delay": 0.0}, "0 ms"),
        ({"overrides": (Override(Match(), {}),)}, "1 override may"),
        ({"max_retries": 20}, "and so on to retry 20, never more than 11500 ms"),
    ],
)
def test_the_page_says_what_is_special(changes: dict[str, Any], words: str) -> None:
    assert words in page(**changes)
