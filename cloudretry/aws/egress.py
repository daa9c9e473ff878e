"""Sending through an egress pool, and what the caller gets where no member can be used: botocore's own errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.parsers import ResponseParserError

from cloudretry.aws.errors import PoolUnavailable
from cloudretry.runtime.reach import host_of

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest

    from cloudretry.core.machine import RetryMachine
    from cloudretry.egress.botocore_way import BotocoreWay
    from cloudretry.egress.passage import NoMember, Passage

__all__ = ["Exhausted", "in_place_of_an_answer", "no_page", "send_through"]

_STATUS: Final = 500
_ERROR_STATUS: Final = 300  # as botocore has it
_CODE: Final = "EgressPoolExhausted"


class Exhausted(AWSResponse):
    """In the place of an answer: every member was tried in vain (SPEC C1)."""

    def __init__(self, url: str, tried: tuple[str, ...]) -> None:
        super().__init__(url, _STATUS, HTTPHeaders(), None)
        self._content = b""  # which every protocol's parser takes for an error of that status
        self._tried = tried

    def tell(self, parsed: dict[str, Any]) -> None:
        """Say in the parsed answer what botocore's parsers can't know."""
        tried = ", ".join(self._tried)
        parsed["Error"] = {"Code": _CODE, "Message": f"no member of the egress pool could make a connection; tried: {tried}"}


def send_through(passage: Passage[BotocoreWay], machine: RetryMachine, request: AWSPreparedRequest) -> AWSResponse:
    """Send through the pool.

    Raises:
        PoolUnavailable: no member could be had.
        ResponseParserError: a proxy says "success" in the place of the destination, such as a portal with its login page.
    """
    destination = host_of(request.url).lower()
    try:
        response: AWSResponse = passage.send(machine, destination, lambda way, record: way.send(request, record))
    except passage.nothing as nothing:
        return in_place_of_an_answer(nothing, request.url, Exhausted)
    return no_page(machine, response)


def in_place_of_an_answer(nothing: NoMember, url: str, kind: type[Exhausted]) -> Exhausted:
    """What the caller gets where every member was tried. Raises PoolUnavailable where none could be had."""
    from cloudretry.core.pool_snapshot import Unavailable  # which a program without a pool does not import

    if isinstance(nothing.why, Unavailable):
        raise PoolUnavailable(endpoint_url=url, error=str(nothing.why), retry_at=nothing.retry_at) from None
    return kind(url, nothing.why.tried)


def no_page(machine: RetryMachine, response: AWSResponse) -> AWSResponse:
    """A response of the destination's. Raises ResponseParserError for a proxy's "success", which would pass as data."""
    if machine.journey.is_proxys and response.status_code < _ERROR_STATUS:
        if response.raw is not None:
            response.raw.close()
        raise ResponseParserError(f"a page of a proxy came in the place of an answer (status {response.status_code})")
    return response
