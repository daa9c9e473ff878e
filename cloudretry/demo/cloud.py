"""What the demo needs of a cloud: a simulated one, and clients whose lists and details the discovery can ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from cloudretry.config import Configuration
    from cloudretry.demo.ideal import Metered
    from cloudretry.report import Report

__all__ = ["Answers", "Cloud", "Found", "Item", "Key", "Listing", "Question", "Simulated", "Source"]

Key = tuple[str, str, str, str]
"""(account or subscription, region, type, id)"""
Answers = Mapping[str, "Any | None"]
"""detail → what was answered; None if the call was lost."""


class Item(NamedTuple):
    """A unit of work: what of a service is in an account and region. `region` is "" where lists cover them all."""

    account: str
    region: str
    service: str


class Question(NamedTuple):
    """A call for a detail. `call` is its name in the list of lost calls."""

    call: str
    ask: Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A resource as a list has it. `region` reads from the answers where it is; None: they don't tell."""

    type: str
    id: str
    listed: Mapping[str, Any]
    region: Callable[[Answers], str | None]
    details: Mapping[str, Question]


class Listing(NamedTuple):
    """A list; each of its pages is a call."""

    call: str
    pages: Iterable[Sequence[Found]]


class Source(Protocol):
    """Where a run gets its answers: clients of one cloud. Used by many threads."""

    @property
    def items(self) -> Sequence[Item]:
        """All that is to be done. Neighbours belong to different accounts, so that no two of them draw on one quota."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What calls raise."""

    def lists(self, item: Item) -> Iterable[Listing]:
        """The lists of an item, one after the other."""

    def reason(self, error: Exception) -> str:
        """Why a call was lost, in a few words."""


class Simulated(Protocol):
    """A simulated cloud that runs."""

    @property
    def url(self) -> str:
        """Where it answers."""

    @property
    def resources(self) -> frozenset[Key]:
        """The ground truth."""

    def counters(self) -> dict[str, Any]:
        """Its own counts of attempts."""

    def reset(self) -> None:
        """Begin anew."""


class Cloud(Protocol):
    """A cloud of the demo, of a certain size and behind certain limits."""

    name: ClassVar[str]
    alone: ClassVar[str]
    """What the SDK without cloudretry is called."""
    needs: ClassVar[Sequence[str]]
    """Modules without which it can't be shown."""
    hints: ClassVar[Sequence[str]]
    """What to do next."""

    @property
    def places(self) -> str:
        """What there is to discover."""

    def simulated(self, seed: int) -> AbstractContextManager[Any]:
        """A Simulated of this kind."""

    def metered(self, running: Any) -> list[Metered]:
        """What was accepted since the last reset, and the meters that it passed."""

    def source(self, running: Any, report: Report | None = None, configuration: Configuration | None = None) -> Source:
        """Clients as the SDK makes them; with a report, as cloudretry's command makes them."""
