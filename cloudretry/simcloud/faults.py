"""Which requests meet a fault, and which fault: rules, and draws that can be repeated. Pure: the seed is passed in.

Only requests that the limits admitted are struck. A draw follows from the seed, the rule and how many requests of the same
place (account, region, service and action) came before, so it does not depend on the order in which threads happen to ask.
Of several rules the first that strikes counts; `times` is counted over all requests that its rule matches.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from cloudretry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cloudretry.simcloud.patterns import Request

__all__ = ["KINDS", "Faults", "Injector", "Strike"]

KINDS: Final[Mapping[str, str]] = {
    "cut": "carried out; the answer ends, and the connection with it, before its Content-Length; reset where there is no body",
    "page": "not carried out; an HTML page with the rule's status",
    "empty": "not carried out; the rule's status and no body",
    "reset": "carried out; the connection is reset instead of an answer",
    "reset_unread": "not carried out; the connection is reset before the body was read, or at once after a form's",
    "slow": "carried out; answered the rule's seconds later",
    "throttle": "not carried out; the service's own throttle, although there was a token",
}
"""kind → what happens to a request"""

_DONE: Final[Mapping[str, str]] = {
    "cut": "body ended after {0.share:.0%}",
    "page": "HTML page with status {0.status}",
    "empty": "status {0.status} without a body",
    "reset": "connection reset instead of the answer",
    "reset_unread": "connection reset before the request was carried out",
    "slow": "answered {0.seconds:g} s later",
    "throttle": "throttled by a rule, with a token left",
}
_STATUSES: Final = range(200, 600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """A rule: of the requests that match, the share `rate`, and at most `times` of them, meet one of `kinds`."""

    match: str = "*"
    """`service:Action@account/region`, as Identity.fits reads it."""
    kinds: Sequence[str] = ("cut", "page", "reset")
    rate: float = 1.0
    times: int | None = None
    status: int = 503
    """Of `page` and `empty`."""
    seconds: float = 1.0
    """That `slow` adds, and that a `throttle` asks to wait where a Retry-After was asked for."""

    def __post_init__(self) -> None:
        kinds = "+".join(map(str, self.kinds))
        accepted = {
            f"kinds={kinds}: kinds are some of {', '.join(KINDS)}": bool(self.kinds) and KINDS.keys() >= set(self.kinds),
            f"rate={self.rate}: rate is between 0 and 1": 0 <= self.rate <= 1,
            f"times={self.times}: times is at least 0": self.times is None or self.times >= 0,
            f"status={self.status}: status is between 200 and 599": self.status in _STATUSES,
            f"seconds={self.seconds}: seconds are at least 0 and finite": 0 <= self.seconds < math.inf,
        }
        if problems := [problem for problem, holds in accepted.items() if not holds]:
            raise ConfigurationError(*problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A fault for one request. `share` of the body is sent before a cut."""

    kind: str
    status: int
    seconds: float
    share: float

    @property
    def verdict(self) -> str:
        """The word under which the request is counted."""
        return "throttled" if self.kind == "throttle" else self.kind

    @property
    def done(self) -> str:
        """What is done, for the log."""
        return _DONE[self.kind].format(self)


class Injector:
    """Draws the faults. Not thread-safe."""

    def __init__(self, rules: Sequence[Faults], seed: int) -> None:
        self._rules = tuple(rules)
        self._seed = seed
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._struck = [0] * len(self._rules)

    def strike(self, request: Request) -> Strike | None:
        """The fault that this request meets, the next of its kind; None: it is served."""
        if not self._rules:
            return None
        what = request.place
        self._seen[what] += 1
        for index, rule in enumerate(self._rules):
            if self._struck[index] == rule.times or not request.fits(rule.match):
                continue
            draw = Random("/".join((str(self._seed), str(index), *what, str(self._seen[what]))))
            if draw.random() < rule.rate:
                self._struck[index] += 1
                kind = draw.choice(rule.kinds)
                return Strike(kind=kind, status=rule.status, seconds=rule.seconds, share=draw.random())
        return None
