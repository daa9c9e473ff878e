"""Which page of a listing a call asks for: known by the token that an earlier answer gave. Costs nothing elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudretry.core.lost import FIRST, Page

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["PAGES", "Pages"]

_MOST: Final = 10_000  # listings under way, half of those that are kept


class Pages:
    """The numbers of the pages that come next. Thread-safe without a lock: what two threads do at once is lost at worst.

    Tokens are not kept but as hashes. A listing may go on in any thread or task.
    """

    def __init__(self) -> None:
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}

    def page(self, of: Hashable, token: str | None) -> Page:
        """The page to which a token leads in a listing `of` something; None leads to the first."""
        if token is None:
            return FIRST
        key = hash((of, token))
        return Page(self._young.get(key) or self._old.get(key), token)

    def answered(self, of: Hashable, page: Page, following: str | None) -> None:
        """A page came, and `following` leads to the next one, if there is one."""
        if not following or page.number is None:
            return
        if len(self._young) >= _MOST:
            self._young, self._old = {}, self._young
        self._young[hash((of, following))] = page.number + 1


PAGES: Final = Pages()
"""This process's."""
