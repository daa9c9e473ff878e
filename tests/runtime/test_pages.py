"""The numbers of pages, by the tokens that lead to them."""

from __future__ import annotations

import pytest

from cloudretry.core.lost import Page
from cloudretry.runtime.pages import Pages


def test_a_listing_counts_from_one() -> None:
    pages = Pages()
    for number, (token, following) in enumerate([(None, "b"), ("b", "c"), ("c", "d")], 1):
        page = pages.page("users", token)
        assert page == Page(number, token)
        pages.answered("users", page, following)


@pytest.mark.parametrize("of", ["roles", "groups"])
def test_a_token_that_nobody_gave_leads_to_a_page_without_a_number(of: str) -> None:
    pages = Pages()
    pages.answered("users", Page(1), "b")
    page = pages.page(of, "b")
    assert page == Page(None, "b")
    pages.answered(of, page, "c")
    assert pages.page(of, "c") == Page(None, "c")


def test_the_last_page_leads_nowhere() -> None:
    pages = Pages()
    for following in (None, ""):
        pages.answered("users", Page(7), following)
    assert pages.page("users", "") == Page(None, "")


def test_old_listings_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloudretry.runtime.pages._MOST", 3)
    pages = Pages()
    for number in range(1, 8):
        pages.answered("users", Page(number), str(number))
    assert [pages.page("users", str(number)).number for number in range(1, 8)] == [None, None, None, 5, 6, 7, 8]
