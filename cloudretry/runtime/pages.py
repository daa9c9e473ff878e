"""Which page of a listing a call asks for: known by the token that an earlier answer gave. Costs nothing elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from cloudretry.core.lost import FIRST, Page

if TYPE_CHECKING:
    from collections.abc import Hashable

    _Next: TypeAlias = tuple[int | None, int, Hashable | None]

__all__ = ["PAGES", "Pages"]

_MOST: Final = 10_000  # listings under way, half of those that are kept


class Pages:
    """The numbers of the pages that come next, how many listings wait there to be followed, and of which listing they are.

    Thread-safe without a lock: what two threads do at once with the same token is lost at worst. Tokens are not kept but as
    hashes. A listing may go on in any thread or task.
    """

    def __init__(self) -> None:
        self._young: dict[int, _Next] = {}
        self._old: dict[int, _Next] = {}

    def page(self, of: Hashable, token: str | None) -> Page:
        """The page to which a token leads in a listing `of` something; None leads to the first."""
        if token is None:
            return FIRST
        key = hash((of, token))
        number, waiting, listing = self._known(key)
        if waiting:
            self._young[key] = number, waiting - 1, listing
        return Page(number, token, waiting > 0, listing=listing)

    def answered(self, of: Hashable, page: Page, following: str | None) -> Page:
        """A page came, and `following` leads to the next one, if there is one: the page, with whether it leads on."""
        if not following or following == page.token:  # some services end with the token that they were given
            return page
        if len(self._young) >= _MOST:
            self._young, self._old = {}, self._young
        key = hash((of, following))
        number = None if page.number is None else page.number + 1
        self._young[key] = number, self._known(key)[1] + 1, page.listing
        return Page(page.number, page.token, page.follows, leads_on=True, listing=page.listing)

    def _known(self, key: int) -> _Next:
        return self._young.get(key) or self._old.get(key) or (None, 0, None)


PAGES: Final = Pages()
"""This process's."""
