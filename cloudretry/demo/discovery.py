"""A small discovery as users write it: lists, page by page, then details for each resource, on threads.

It knows neither cloudretry nor the demo. Whatever a call's error, it records the hole and goes on, as such tools do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from cloudretry.demo.compare import counted
from cloudretry.demo.listings import LISTINGS, Detail, Listing

__all__ = ["Discovery", "Item", "Key", "LostCall", "MakeClient", "Resource", "work_items"]

Key = tuple[str, str, str, str]
"""(account, region, type, id)"""
MakeClient = Callable[[str, str, str], Any]
"""(account, service, region) → a boto3 client. Called by one thread, as boto3 demands of those who share a session."""

HOME: Final = "us-east-1"
"""Where services without regions of their own are asked."""
_WITHOUT_REGIONS: Final = frozenset({"iam", "s3"})
_LOOK_S: Final = 0.4
_PAGES_AHEAD: Final = 4
"""How many pages a list may be ahead of their details, so that memory stays bounded and each thread has work."""


@dataclass(frozen=True, slots=True)
class Item:
    """A unit of work."""

    account: str
    region: str
    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource that was found. `complete`: every detail that was asked for was answered."""

    account: str
    region: str
    type: str
    id: str
    details: Mapping[str, Any]
    complete: bool

    @property
    def key(self) -> Key:
        """What tells it from others."""
        return (self.account, self.region, self.type, self.id)


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


def work_items(accounts: Sequence[str], regions: Sequence[str]) -> list[Item]:
    """All that is to be done. Neighbours belong to different accounts, so that no two of them draw on one quota."""
    return [
        Item(account, region, service)
        for service in LISTINGS
        for region in ([HOME] if service in _WITHOUT_REGIONS else regions)
        for account in accounts
    ]


@dataclass(slots=True)
class Discovery:
    """One run. The counts may be read at any time, from any thread.

    Args:
        record: gets the resources of a page once their details are there; called by many threads.
        threads: how many work items are under way at once.
        threads_each: how many threads ask for the details of one item's resources.
    """

    make_client: MakeClient
    record: Callable[[Sequence[Resource]], None]
    threads: int = 6
    threads_each: int = 48
    calls: int = field(default=0, init=False)
    lost: list[LostCall] = field(default_factory=list, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _stopped: Event = field(default_factory=Event, init=False)

    def run(self, items: Sequence[Item], watch: Callable[[], None]) -> None:
        """Do all the work; `watch` is called now and then by the thread that called this.

        An exception, Ctrl-C too, ends it at once: calls that are out are left to their threads.
        """
        clients = [self.make_client(item.account, item.service, item.region) for item in items]
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="discovery")
        try:
            work = [pool.submit(self._discover, item, client) for item, client in zip(items, clients, strict=True)]
            while wait(work, timeout=_LOOK_S).not_done:
                watch()
            for done in work:
                done.result()
        finally:
            self._stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _discover(self, item: Item, client: Any) -> None:
        with ThreadPoolExecutor(self.threads_each, thread_name_prefix="details") as details:
            under_way: deque[list[Future[Resource | None]]] = deque()
            for listing in LISTINGS[item.service]:
                for page in self._pages(client, item, listing):
                    under_way.append([details.submit(self._look_into, client, item, listing, found) for found in page])
                    if len(under_way) > _PAGES_AHEAD:
                        self._finish(under_way.popleft())
            for looked_into in under_way:
                self._finish(looked_into)

    def _finish(self, page: Sequence[Future[Resource | None]]) -> None:
        self.record([resource for future in page if (resource := future.result()) is not None])

    def _pages(self, client: Any, item: Item, listing: Listing) -> Iterator[list[dict[str, Any]]]:
        size = {"PaginationConfig": {"PageSize": listing.page_size}} if listing.page_size else {}
        seen = 0
        try:
            for page in client.get_paginator(listing.operation).paginate(**size):
                seen += 1
                self._called()
                yield _items(page, listing.items)
                if self._stopped.is_set():
                    return
        except (ClientError, BotoCoreError) as error:
            # The token of the next page was in the answer that did not come, so this list ends here.
            self._called(LostCall(_spell(client, item, listing.operation), f"page {seen + 1}", _reason(error), ends_list=True))

    def _look_into(self, client: Any, item: Item, listing: Listing, found: Mapping[str, Any]) -> Resource | None:
        """None for what can't be recorded, because where it is could not be learnt."""
        answers = {detail.operation: self._ask(client, item, detail, found, found[listing.id]) for detail in listing.details}
        region = _region(item, listing, answers)
        if region is None:
            return None
        return Resource(
            account=item.account,
            region=region,
            type=listing.type,
            id=found[listing.id],
            details={"listed": found} | answers,
            complete=None not in answers.values(),
        )

    def _ask(self, client: Any, item: Item, detail: Detail, found: Mapping[str, Any], name: str) -> dict[str, Any] | None:
        """The answer; empty if there is nothing to tell, None if the call was lost."""
        if self._stopped.is_set():
            return None
        arguments = {detail.argument: found[detail.key], **detail.fixed}
        try:
            answer: dict[str, Any] = getattr(client, detail.operation)(**arguments)
        except (ClientError, BotoCoreError) as error:
            if _code(error) in detail.nothing:
                self._called()
                return {}
            self._called(LostCall(_spell(client, item, detail.operation), name, _reason(error)))
            return None
        self._called()
        return {name: value for name, value in answer.items() if name != "ResponseMetadata"}

    def _called(self, lost: LostCall | None = None) -> None:
        with self._lock:
            self.calls += 1
            if lost:
                self.lost.append(lost)


def _items(page: dict[str, Any], path: Sequence[str]) -> list[dict[str, Any]]:
    found = [page]
    for name in path:
        found = [item for outer in found for item in outer.get(name, ())]
    return found


def _region(item: Item, listing: Listing, answers: Mapping[str, dict[str, Any] | None]) -> str | None:
    if listing.region != "location":
        return item.region if listing.region == "client" else "global"
    location = answers["get_bucket_location"]
    return None if location is None else location["LocationConstraint"] or HOME


def _code(error: Exception) -> str | None:
    return error.response["Error"].get("Code") if isinstance(error, ClientError) else None


def _reason(error: Exception) -> str:
    if not isinstance(error, ClientError):
        return f"{type(error).__name__}: {error}"
    attempts = error.response["ResponseMetadata"].get("RetryAttempts", 0) + 1
    return f"{_code(error)}, gave up after {counted(attempts, 'attempt')}"


def _spell(client: Any, item: Item, operation: str) -> str:
    return f"{item.service}:{client.meta.method_to_api_mapping[operation]}@{item.account}/{item.region}"
