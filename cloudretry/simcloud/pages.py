"""The simulation's own pages under /_cloudretry/, a name that nothing in a cloud can have.

GET for a page to read, GET inventory, counters, log; POST reset, POST faults (a JSON list of rules, instead of the settings').
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiohttp import web

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud.counts import Counts
from cloudretry.simcloud.faults import Faults, Injector
from cloudretry.simcloud.page import counters_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cloudretry.simcloud.limits import Standing

__all__ = ["OWN_PAGES", "OwnPages"]

OWN_PAGES: Final = "/_cloudretry/"


class _Meter(Protocol):
    def standings(self, now: float) -> Iterator[Standing]: ...
    def reset(self) -> None: ...


class OwnPages:
    """Holds what the pages show and change: the counts, the faults and the buckets."""

    def __init__(
        self,
        cloud: str,
        *,
        place: tuple[str, str, str, str],
        meter: _Meter,
        faults: Sequence[Faults],
        seed: int,
        inventory: Callable[[], dict[str, Any]],
    ) -> None:
        self.counts = Counts(place)
        self.injector = Injector(faults, seed)
        self._cloud = cloud
        self._place = place
        self._meter = meter
        self._faults = tuple(faults)
        self._seed = seed
        self._inventory = inventory

    def answer(self, method: str, page: str, body: bytes) -> web.Response:
        """The page without its prefix."""
        answer: Callable[[], web.Response] | None = {
            "GET ": self._page_to_read,
            "GET inventory": lambda: web.json_response(self._inventory()),
            "GET counters": lambda: web.json_response(self.counts.totals()),
            "GET log": lambda: web.json_response(list(self.counts.log)),
            "POST faults": lambda: self._set_faults(body),
            "POST reset": self._reset,
        }.get(f"{method} {page}")
        return answer() if answer else web.json_response({"error": "no such page"}, status=404)

    def _page_to_read(self) -> web.Response:
        standings = self._meter.standings(asyncio.get_running_loop().time())
        page = counters_page(self._cloud, self._place, self.counts.totals(), standings)
        return web.Response(text=page, content_type="text/html")

    def _set_faults(self, body: bytes) -> web.Response:
        try:
            self.injector = Injector([Faults(**rule) for rule in json.loads(body)], self._seed)
        except (ConfigurationError, TypeError, ValueError) as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response({})

    def _reset(self) -> web.Response:
        self._meter.reset()
        self.counts.clear()
        self.injector = Injector(self._faults, self._seed)
        return web.json_response({})
