"""A small discovery as users write it: lists, page by page, then details for each resource, on threads.

It knows neither cloudretry nor a cloud. Whatever a call's error, it records the hole and goes on, as such tools do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cloudretry.demo.cloud import Found, Item, Listing, Question, Source

__all__ = ["Discovery", "LostCall", "Resource"]

_LOOK_S: Final = 0.4
_PAGES_AHEAD: Final = 4
"""How many pages a list may be ahead of their details, so that memory stays bounded and each thread has work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource that was found. `complete`: every detail that was asked for was answered."""

    account: str
    region: str
    type: str
    id: str
    details: Mapping[str, Any]
    complete: bool


@dataclass(frozen=True, slots=True)
class LostCall:
    """A call whose answer the discovery never saw. `about` is a page or a resource's id.

    `ends_list`: what stands on that page and behind it was not seen at all.
    """

    call: str
    about: str
    reason: str
    ends_list: bool = False

    def __str__(self) -> str:
        return f"{self.call} {self.about}: {self.reason}"

    @property
    def brief(self) -> str:
        """Without a resource's id, to fit on a line."""
        return f"{self.call} {self.about}: {self.reason}" if self.ends_list else f"{self.call} {self.reason}"


@dataclass(slots=True)
class Discovery:
    """One run. The counts may be read at any time, from any thread.

    Args:
        record: gets the resources of a page once their details are there; called by many threads.
        threads: how many work items are under way at once.
        threads_each: how many threads ask for the details of one item's resources.
    """

    source: Source
    record: Callable[[Sequence[Resource]], None]
    threads: int = 6
    threads_each: int = 48
    calls: int = field(default=0, init=False)
    lost: list[LostCall] = field(default_factory=list, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _stopped: Event = field(default_factory=Event, init=False)

    def run(self, watch: Callable[[], None]) -> None:
        """Do all the work; `watch` is called now and then by the thread that called this.

        An exception, Ctrl-C too, ends it at once: calls that are out are left to their threads.
        """
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="discovery")
        try:
            work = [pool.submit(self._discover, item) for item in self.source.items]
            while wait(work, timeout=_LOOK_S).not_done:
                watch()
            for done in work:
                done.result()
        finally:
            self._stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _discover(self, item: Item) -> None:
        with ThreadPoolExecutor(self.threads_each, thread_name_prefix="details") as details:
            under_way: deque[list[Future[Resource | None]]] = deque()
            for listing in self.source.lists(item):
                for page in self._pages(listing):
                    under_way.append([details.submit(self._look_into, item, found) for found in page])
                    if len(under_way) > _PAGES_AHEAD:
                        self._finish(under_way.popleft())
            for looked_into in under_way:
                self._finish(looked_into)

    def _finish(self, page: Sequence[Future[Resource | None]]) -> None:
        self.record([resource for future in page if (resource := future.result()) is not None])

    def _pages(self, listing: Listing) -> Iterator[Sequence[Found]]:
        seen = 0
        try:
            for page in listing.pages:
                seen += 1
                self._called()
                yield page
                if self._stopped.is_set():
                    return
        except self.source.errors as error:
            # The token of the next page was in the answer that did not come, so this list ends here.
            self._called(LostCall(listing.call, f"page {seen + 1}", self.source.reason(error), ends_list=True))

    def _look_into(self, item: Item, found: Found) -> Resource | None:
        """None for what can't be recorded, because where it is could not be learnt."""
        answers = {name: self._ask(question, found.id) for name, question in found.details.items()}
        region = found.region(answers)
        if region is None:
            return None
        return Resource(
            account=item.account,
            region=region,
            type=found.type,
            id=found.id,
            details={"listed": found.listed} | answers,
            complete=None not in answers.values(),
        )

    def _ask(self, question: Question, about: str) -> Any | None:
        """The answer; None if the call was lost."""
        if self._stopped.is_set():
            return None
        try:
            answer = question.ask()
        except self.source.errors as error:
            self._called(LostCall(question.call, about, self.source.reason(error)))
            return None
        self._called()
        return answer

    def _called(self, lost: LostCall | None = None) -> None:
        with self._lock:
            self.calls += 1
            if lost:
                self.lost.append(lost)
