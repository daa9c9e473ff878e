"""Learns what a provider grants to one quota, from what it accepts and what it throttles. Pure: time is passed in.

Providers meter with token buckets: `burst` tokens at most, `rate` tokens a second, a call costs one and is throttled when
there is none. Three facts carry the whole rule.

1. A bucket loses tokens only while it is full. To pause after a throttle costs nothing, nor is a burst lost by spreading it.
2. A throttle says exactly "no token now". Between two such moments the provider accepted rate * time calls, however they were
   sent, unless the bucket was full in between. The moments are called marks here.
3. Wasted at the first throttle is what was in flight just then. So what may be in flight is bounded by what was seen to work.

After a mark the calls leave at the learned rate, and ever so slowly faster, until the next throttle confirms or corrects it:
about one wasted call for every two hundred. If the provider grants more than before, the ramp ends in doubling; if less, three
throttles in short succession halve the rate, and it is measured anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from cloudretry.core.header_rate import HeaderRate

__all__ = ["Learning", "Limit", "ProviderRate"]

_FEW: Final = 4  # calls that may always be in flight
_OPEN_SHARE: Final = 0.1  # while nothing is known: in flight at most this share of what was accepted
_OPEN_RATE: Final = 40.0  # calls a second that are risked from the start, where latency is long
_KNOWN_SHARE: Final = 0.25  # in flight at most this share of the tokens that we believe in: others may have spent them
_FILL_TIME: Final = 6.0  # first guess: published buckets hold 2 to 20 s of refill, and guessing too high costs least
_DOUBLING: Final = 1.0  # s in which the rate doubles while it is measured
_RAMP: Final = (3.0, 15.0)  # s, shortest and longest: how soon a higher limit is found, against waste
_RAMP_CALLS: Final = (20, 200)  # what such a ramp should hold at least; and what suffices
_RAMP_END: Final = 75.0  # s, longest all the same: a wasted call a minute harms nobody, and what others took comes back
_RAMP_BUCKETS: Final = 6.0  # no ramp is longer than so many fillings of the bucket: a small one overflows soon
_RAMP_POWER: Final = 6  # flat at first, then steep
_RAMP_GAIN: Final = 10.0  # 1/s; a ramp ends at rate + sqrt(rate * this), or at twice the rate
_LATENCIES: Final = (4.0, 20.0)  # a doubling, a ramp lasts at least so many round trips: news is that old
_ENOUGH: Final = 6  # calls accepted between two marks that make a measurement
_SLOW_ENOUGH: Final = (2, 5.0)  # or so many over so long
_QUICK: Final = 3  # throttles without a measurement between them that halve the rate
_LOWEST: Final = 0.02  # calls a second
_SURPRISE: Final = 1.6  # times the rate that was foretold: measure rather than believe
_SAME: Final = 0.9  # share of what we sent that must have been accepted to say that the provider grants no less
_SPARE: Final = 4.0  # tokens left in the bucket where a header counts them,
_SPARE_SHARE: Final = 0.1  # and of a small bucket this share
_HEADER_GUESS: Final = 10.0  # calls a second, before headers have told it
_PROBE: Final = (60.0, 300.0)  # with a reserve: s until a rate that was only foretold, that was measured, is probed upwards
_REST: Final = 10.0  # s without a call after which an opening starts over
_STEPS: Final = 64  # moments kept of the time since the last mark
_PLENTY: Final = 2.0  # tokens
_NEARLY_ONE: Final = 1.0 - 1e-9
_TICK: Final = 1e-6  # s; shorter waits could be lost in rounding

_SILENT: Final = HeaderRate()  # of all quotas without such headers: most have none, and there may be many

_Count: TypeAlias = "tuple[float, int]"  # a moment, and how many calls were accepted until then


class Learning(str, Enum):
    """What is known of a quota."""

    OPEN = "open"  # nothing was throttled yet
    MEASURE = "measure"  # throttled; the rate is not known
    TRACK = "track"  # the rate is known


_OPEN, _MEASURE, _TRACK = Learning


@dataclass(frozen=True, slots=True)
class Limit:
    """A token bucket: `rate` tokens a second, `burst` at most."""

    rate: float
    burst: float


class ProviderRate:
    """The state of learning for one quota. Times are monotonic seconds that never run backwards; not thread-safe.

    Args:
        reserve: share of the learned rate that is left to others; with it half of the bucket is left to them, too.
        prior: a published or remembered limit, or one that the user knows: where learning starts, until a throttle
            contradicts it.

    Attributes:
        rate, burst: the provider's bucket as far as it is known; `rate` is infinite while nothing was throttled.
        level: tokens that we may spend at the moment.
        hold: nothing leaves before.
    """

    __slots__ = (
        "_accrued_at",
        "_doubling",
        "_epoch",
        "_gain",
        "_granted",
        "_header",
        "_leaves",
        "_mark",
        "_next_step",
        "_opened",
        "_opening",
        "_quick",
        "_ramp",
        "_ramp_from",
        "_speed",
        "_steps",
        "_sure",
        "_used_at",
        "accepted",
        "burst",
        "hold",
        "latency",
        "learning",
        "level",
        "rate",
        "reserve",
        "throttled",
    )

    def __init__(self, now: float, *, reserve: float = 0.0, prior: Limit | None = None) -> None:
        self.learning = _TRACK if prior else _OPEN
        self.rate = prior.rate if prior else math.inf
        self.burst = prior.burst if prior else 0.0
        self.level = self.burst * (1.0 - reserve)
        self.hold = -math.inf
        self.accepted = self.throttled = 0
        self.latency = 0.0  # from sending to answer; a moving average over accepted calls
        self.reserve = reserve
        self._opened: _Count = (now, 0)
        self._opening: tuple[_Count, ...] = ()  # how the burst was accepted, until the rate is known
        self._mark: _Count | None = None
        self._steps: list[_Count] = [self._opened]  # since the mark
        self._next_step = self._used_at = self._accrued_at = self._ramp_from = now
        self._epoch = -math.inf
        self._header = _SILENT
        self._sure = False  # measured over a whole ramp, or by a header
        self._leaves = reserve  # a rate that is not sure is measured once more before the reserve is kept
        self._quick = 0
        self._doubling = self._ramp = self._gain = self._granted = self._speed = 1.0
        if prior:
            self._pace()

    def ready_at(self, now: float, in_flight: int) -> float:
        """When one more call may leave: `now`, or a later moment at which to ask again; infinite: after the next answer."""
        if now < self.hold:
            return self.hold
        learning = self.learning
        if learning is _OPEN:
            if now - self._used_at > _REST and not in_flight:
                self._open(now)
            return now if in_flight < self._risked() else math.inf
        if self.level >= _PLENTY and in_flight < _FEW and learning is _TRACK:
            return now  # the short way of most calls; what accrued is counted when it matters
        self._accrue(now)
        if in_flight >= _FEW and not self._bears(in_flight):
            return math.inf
        if self.level > _NEARLY_ONE:
            return now
        if learning is _TRACK and self._mark is None and not (self._header.measured or self.reserve):
            self._measure(self.rate, now)  # what we were told is spent, and was right so far
        soon = (self._ramp if self.learning is _TRACK else self._doubling) / 10.0  # the speed grows meanwhile
        return now + max(_TICK, min((1.0 - self.level) / self._speed, soon))

    def take(self, now: float) -> None:
        """A call leaves, or will leave in a moment."""
        self._used_at = now
        if self.learning is not _OPEN:
            self.level -= 1.0

    def give_back(self) -> None:
        """A call that `take` counted did not leave."""
        if self.learning is not _OPEN:
            self.level += 1.0

    def accept(self, now: float, sent: float) -> None:
        """The provider did not throttle a call."""
        self.accepted += 1
        self.latency = self.latency * 0.9 + (now - sent) * 0.1 if self.latency else now - sent
        if now >= self._next_step:
            self._steps.append((now, self.accepted))
            if len(self._steps) > _STEPS:
                del self._steps[0]
            self._next_step = now + (self._ramp / 16.0 if self.learning is _TRACK else 0.1)

    def hear(self, now: float, sent: float, remaining: float, newer: int, *, resets_after: float | None = None) -> None:
        """An answer said how many tokens were left; `newer`: calls that left later, so that it can't have counted them.

        With `resets_after` the bucket is not refilled gradually, but filled up so many seconds after the answer.
        """
        if self._header is _SILENT:
            self._header = HeaderRate()
        if not self._header.listen(now, sent):
            return
        if resets_after is None and self._header.contradicts(remaining):
            self._header.distrust(now)
            return
        self.burst = max(1.0, self.burst, remaining)
        spare = remaining - newer
        if self.learning is not _TRACK:
            self.rate = max(_HEADER_GUESS, self.rate) if self.learning is _MEASURE else _HEADER_GUESS
            self.learning = _TRACK
            self.level, self._accrued_at, self._ramp_from = spare, now, now
            self._pace()
        self._accrue(now)
        if self._header.resets and resets_after is None:
            self._accrued_at = min(self._accrued_at, now)
        self._header.resets = resets_after is not None
        if resets_after is not None:
            self._await_reset(spare, now + resets_after)
            return
        rate = self._header.measure(
            sent, remaining, self.accepted, rate=self.rate, burst=self.burst, reserved=self.reserve > 0.0
        )
        if rate != self.rate:
            self.rate = rate
            self._sure = self._sure or self._header.measured
            self._pace()
        usable = spare - min(_SPARE, self.burst * _SPARE_SHARE)
        self.level = min(self.level, usable) if self.reserve else usable

    def _await_reset(self, spare: float, reset: float) -> None:
        """Nothing accrues until the bucket is filled up again."""
        if spare < 1.0:
            self.hold, spare = max(self.hold, reset), self.burst
        self.level, self._accrued_at = spare, reset

    def throttle(self, now: float, sent: float, retry_after: float = 0.0) -> None:
        """The provider throttled a call, and perhaps said for how many seconds it wants no more."""
        self.throttled += 1
        if self.learning is not _OPEN:
            self._accrue(now)
        self.hold = max(self.hold, now + retry_after)
        if self._header.resets and retry_after > 0.0:
            self._await_reset(0.0, self.hold)
            return
        if sent <= self._epoch:
            return  # it left before we knew: the same herd
        self._epoch = now
        if self._header.is_fresh(now) and self.level > _SPARE:
            self._header.distrust(now)
        self._learn(now)
        self.level = 1.0 if retry_after >= 1.0 else -1.0  # who names a time expects us then
        self._accrued_at = self._ramp_from = max(now, self.hold)  # nothing accrues while the provider wants us to wait
        self._pace()

    def doubt(self) -> None:
        """Look for more than the prior at once, and leave nothing until it is verified: others may have had a part of it."""
        self._leaves = 0.0
        self._granted = self.rate
        self._speed = self.speed(self._accrued_at)

    def leave(self, reserve: float) -> None:
        """Another share is left to others from now on."""
        self.reserve = reserve
        if self.learning is not _OPEN:
            self._pace()

    @property
    def verified(self) -> bool:
        """Whether `rate` was measured, by throttles or by a header."""
        return self._header.measured or self._mark is not None

    @property
    def foreseen(self) -> float:
        """Calls a second that we expect to leave in the long run; infinite where nothing can be foreseen."""
        return self._granted if self.learning is _TRACK else math.inf

    def speed(self, now: float) -> float:
        """Calls a second that leave at a moment, where enough are waiting; infinite while nothing was throttled."""
        if self.learning is _OPEN:
            return math.inf
        after = now - self._ramp_from
        if self.learning is _MEASURE:
            return self.rate * math.pow(2.0, min(8.0, max(0.0, after) / self._doubling))
        if self._leaves:
            after -= _PROBE[self.verified]
        if after <= 0.0 or (self._header is not _SILENT and self._header.is_fresh(now)):
            return self._granted
        ramp = after / self._ramp
        if ramp <= 1.0:
            return self._granted + self._gain * math.pow(ramp, _RAMP_POWER)
        return (self._granted + self._gain) * math.pow(2.0, min(12.0, 4.0 * (ramp - 1.0)))

    def _accrue(self, now: float) -> None:
        """Let tokens accrue up to the bucket's size. The ramp only counts time in which calls used them."""
        if now <= self._accrued_at:
            return
        speed, before = self.speed(now), self.level
        self.level += (now - self._accrued_at) * (speed + self._speed) / 2.0
        self._accrued_at, self._speed = now, speed
        if self.level <= self.burst / 2.0:
            return  # the bucket holds that in any case
        top = max(1.0, self.burst / 2.0) if self.reserve else max(1.0, self.burst, self.rate)
        top = max(top, before)  # what there was at the start may be spent, once
        if self.level > top:
            self._ramp_from = min(now, self._ramp_from + (self.level - top) / speed)
            self.level, self._speed = top, self.speed(now)

    def _open(self, now: float) -> None:
        self._opened = (now, self.accepted)
        self._steps = [self._opened]

    def _bears(self, in_flight: int) -> bool:
        """Whether the learned rate needs one more in flight, or a part of the tokens covers it: others may have spent them."""
        if in_flight < 2.0 * self._speed * self.latency:
            return True
        return self.learning is _TRACK and in_flight < self.level * _KNOWN_SHARE

    def _risked(self) -> float:
        """Most calls in flight while nothing is known."""
        return max(_FEW, _OPEN_RATE * self.latency) + _OPEN_SHARE * (self.accepted - self._opened[1])

    def _measure(self, rate: float, now: float) -> None:
        """Start at a rate and double it until the provider throttles."""
        self.learning, self.rate = _MEASURE, max(_LOWEST, rate)
        self._ramp_from = now
        self._pace()

    def _pace(self) -> None:
        """What follows from the rate, the bucket and the latency that are known now."""
        self._doubling = max(_DOUBLING, _LATENCIES[0] * self.latency)
        shortest = max(_RAMP[0], min(_RAMP_END, _RAMP_CALLS[0] / self.rate))
        enough = max(_RAMP_CALLS[1] / self.rate, _LATENCIES[1] * self.latency)
        longest = min(max(_RAMP[1], _LATENCIES[1] * self.latency), _RAMP_BUCKETS * self.burst / self.rate)
        self._ramp = max(shortest, min(enough, longest))
        self._gain = min(math.sqrt(self.rate * _RAMP_GAIN), self.rate)
        self._leaves = self.reserve if self._sure or not self.verified else 0.0
        self._granted = self.rate * (1.0 - self._leaves)
        self._speed = self.speed(self._accrued_at)

    def _learn(self, now: float) -> None:
        """The bucket is empty: take what that says of the rate."""
        if self._mark is None:
            self._learn_first(now)
            self._set_mark(now)
            return
        count, span = self.accepted - self._mark[1], max(0.05, now - self._mark[0])
        if count >= _ENOUGH or (count >= _SLOW_ENOUGH[0] and span >= _SLOW_ENOUGH[1]):
            self._sure = self.learning is _TRACK and count >= _RAMP_CALLS[0]
            self._measured((count - 0.5) / span, now)
            self._set_mark(now)
        elif self.learning is _MEASURE:  # keep the older mark: over a longer time it measures better
            self._measure(min(self.rate, self.speed(now) / 2.0), now)
        else:
            self._quick += 1
            if self._quick >= _QUICK:
                self._measure(self.rate / 2.0, now)
                self._set_mark(now)

    def _learn_first(self, now: float) -> None:
        speed = self.speed(now)
        since, before = self._opened
        if self.learning is _OPEN or self.level > self.burst * _KNOWN_SHARE:  # nothing was known, or it was wrong
            self.burst = max(1.0, self.accepted - before)
            self._opening = (*self._steps, (now, self.accepted))
            self._measure(min(self.rate, self.burst / max(_FILL_TIME, 2.0 * (now - since))), now)
        elif speed > _SURPRISE * self.rate:
            self._measure(speed / 2.0, now)
        else:
            self.learning = _TRACK

    def _measured(self, rate: float, now: float) -> None:
        """A measurement between two marks; the provider granted more if its bucket was full in between.

        A bucket that was full at a step since the mark has granted all that was accepted since, less itself.
        """
        if self._opening:
            end, total = self._opening[-1]
            self.burst = max(1.0, *(total - count - rate * (end - time) for time, count in self._opening))
            self._opening = ()
        since = self._mark[0] if self._mark else -math.inf
        more = (
            (self.accepted - count - self.burst - 0.5) / (now - time)
            for time, count in self._steps
            if now > time > since and self.accepted - count >= self.burst + _ENOUGH
        )
        rate = max(_LOWEST, rate, *more)
        if self._leaves and rate > _SAME * self._granted:
            rate = max(rate, self.rate)  # we had left a reserve, and somebody used it
        self.learning, self.rate = _TRACK, rate
        self._quick = 0

    def _set_mark(self, now: float) -> None:
        self._quick = 0
        self._mark = (now, self.accepted)
        self._steps = [self._mark]
        self._next_step = now
