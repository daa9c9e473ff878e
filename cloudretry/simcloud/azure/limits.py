"""What Azure meters and how much of it: the table of limits, and the buckets that a request passes. Pure: time is passed in.

A request takes a token from one bucket of every gate: Resource Manager's for its principal, Resource Manager's for the
subscription, then those of the resource provider. The first gate whose bucket is empty refuses it; what the gates before
took is gone. A row's source says how far it can be trusted, as in cloudretry.simcloud.limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud.limits import Limit, Standing, TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cloudretry.simcloud.azure.calls import Call

__all__ = ["PER", "PUBLISHED_AZURE", "AzureMeter", "AzureRule", "Passage", "Window"]

ARM_PAGE = "Resource Manager throttling page, 2025"
COMPUTE_PAGE = "Compute throttling page"
GRAPH_PAGE = "Resource Graph throttling page"
NETWORK_PAGE = "Resource Manager throttling page, network limits"
STORAGE_PAGE = "Resource Manager throttling page, storage limits"
ISSUES = "seen in issues of discovery tools"
ASSUMED = "assumed"

PER: Final[Mapping[str, Callable[[Call], str]]] = {
    "subscription": lambda call: call.target.subscription,
    "principal": lambda call: call.principal,
    "location": lambda call: call.target.location,
    "operation": lambda call: f"{call.target.provider}: {call.target.operation}",
    "resource": lambda call: call.target.path.lower(),
}
"""What can tell buckets of one rule apart. A location is known where the path names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureRule:
    """Gives operations of a provider their bucket at a gate. Patterns are those of fnmatch.

    Of several rules of the same gate that match the first counts; the gates `principal` and `subscription` are those of
    Resource Manager, and say so when they refuse.
    """

    provider: str
    """The namespace as `Microsoft.Compute`; also `login` and `imds`."""
    operations: tuple[str, ...]
    limit: Limit
    source: str
    gate: str = "principal"
    per: tuple[str, ...] = ("subscription", "principal")
    """What has a bucket of its own; some of PER."""
    name: str = "given"
    """In headers and bodies."""
    window: bool = False
    """All `burst` tokens come back at once, every `burst / refill` seconds."""

    def __post_init__(self) -> None:
        if not set(self.per) <= PER.keys():
            raise ConfigurationError(f"per={'+'.join(map(str, self.per))}: per is some of {', '.join(PER)}")
        if self.window and not self.limit.refill:
            raise ConfigurationError("window: a window needs a refill above 0")

    def matches(self, call: Call) -> bool:
        """Whether this rule can meter such a request."""
        return (
            (self.gate != "subscription" or call.target.subscription != "")
            and fnmatchcase(call.target.provider, self.provider)
            and any(fnmatchcase(call.target.operation, pattern) for pattern in self.operations)
        )


class Window:
    """Admits `burst` requests, and as many again once `burst / refill` seconds have passed since the first of them."""

    __slots__ = ("_level", "_until", "limit")

    def __init__(self, limit: Limit, now: float) -> None:
        self.limit = limit
        self._level = limit.burst
        self._until = now + limit.burst / limit.refill

    def take(self, now: float) -> bool:
        """Take one token; False where none is left in this window."""
        if now >= self._until:
            self._level = self.limit.burst
            self._until = now + self.limit.burst / self.limit.refill
        if self._level < 1:
            return False
        self._level -= 1
        return True

    def tokens(self, now: float) -> float:
        """How many tokens there are."""
        return self.limit.burst if now >= self._until else self._level

    def wait(self, now: float) -> float:
        """Seconds until there is a token."""
        return 0.0 if self.tokens(now) >= 1 else self._until - now

    def ends(self, now: float) -> float:
        """Seconds until the window ends."""
        return max(0.0, self._until - now)


class Gauge(NamedTuple):
    """A bucket that a request passed, or that stopped it; times in seconds."""

    rule: AzureRule
    tokens: float
    wait: float
    ends: float

    @property
    def by_manager(self) -> bool:
        """Whether it is Resource Manager's own, and not a provider's."""
        return self.rule.gate in {"principal", "subscription"}


@dataclass(frozen=True, slots=True)
class Passage:
    """What became of a request at the gates."""

    passed: list[Gauge] = field(default_factory=list)
    stopped: Gauge | None = None


class AzureMeter:
    """Holds the buckets. Not thread-safe."""

    def __init__(self, rules: Sequence[AzureRule]) -> None:
        self._rules = tuple(rules)
        self._chosen: dict[tuple[str, str, bool], tuple[int, ...]] = {}
        self._buckets: dict[tuple[int, tuple[str, ...]], TokenBucket | Window] = {}

    def admit(self, call: Call, now: float) -> Passage:
        """Take a token at every gate, up to the first that has none."""
        passage = Passage()
        for index in self._choose(call):
            rule, bucket = self._rules[index], self._bucket(index, call, now)
            if not bucket.take(now):
                return Passage(passage.passed, _gauge(rule, bucket, now))
            passage.passed.append(_gauge(rule, bucket, now))
        return passage

    def standings(self, now: float) -> Iterator[Standing]:
        """The buckets that were asked for a token since the start or the last reset."""
        for (index, values), bucket in self._buckets.items():
            rule = self._rules[index]
            parts = dict(zip(rule.per, values, strict=True))
            rest = ", ".join(value for name, value in parts.items() if value and name not in {"subscription", "principal"})
            named = f"{rule.provider}: {rule.name}" + (f" ({rest})" if rest else "")
            who = parts.get("subscription", "*") or "tenant", parts.get("principal", "*")
            yield Standing(*who, named, rule.limit, bucket.tokens(now), rule.source)

    def reset(self) -> None:
        """Fill every bucket."""
        self._buckets.clear()

    def _choose(self, call: Call) -> tuple[int, ...]:
        question = (call.target.provider, call.target.operation, call.target.subscription != "")
        if question not in self._chosen:
            first: dict[str, int] = {}
            for index, rule in enumerate(self._rules):
                if rule.gate not in first and rule.matches(call):
                    first[rule.gate] = index
            self._chosen[question] = tuple(first.values())
        return self._chosen[question]

    def _bucket(self, index: int, call: Call, now: float) -> TokenBucket | Window:
        rule = self._rules[index]
        key = index, tuple(PER[name](call) for name in rule.per)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = (Window if rule.window else TokenBucket)(rule.limit, now)
        return bucket


def _gauge(rule: AzureRule, bucket: TokenBucket | Window, now: float) -> Gauge:
    ends = bucket.ends(now) if isinstance(bucket, Window) else math.inf
    return Gauge(rule, bucket.tokens(now), bucket.wait(now), ends)


_MANAGED: Final = "*.*"  # a namespace, neither `login` nor `imds`


def _manager(kind: str, burst: float, refill: float, *operations: str) -> Iterator[AzureRule]:
    """Both gates of Resource Manager; the subscription as a whole has fifteen times as much as one principal."""
    yield AzureRule(
        provider=_MANAGED,
        operations=operations,
        limit=Limit(burst, refill),
        source=ARM_PAGE,
        name=f"subscription-{kind}",
    )
    yield AzureRule(
        provider=_MANAGED,
        operations=operations,
        limit=Limit(burst * 15, refill * 15),
        source=ARM_PAGE,
        gate="subscription",
        per=("subscription",),
        name=f"subscription-global-{kind}",
    )


def _minute(name: str, refill: float, burst: float, *operations: str, of_one: bool = False) -> AzureRule:
    """A row of Compute's page: tokens that come in a minute, and the most that there are. Its name is assumed."""
    return AzureRule(
        provider="Microsoft.Compute",
        operations=operations,
        limit=Limit(burst, refill / 60),
        source=COMPUTE_PAGE,
        gate="resource" if of_one else "provider",
        per=("subscription", "resource") if of_one else ("subscription", "location"),
        name=name,
    )


def _window(
    provider: str,
    name: str,
    count: float,
    seconds: float,
    source: str,
    *operations: str,
    by: str = "subscription",
    gate: str = "",
) -> AzureRule:
    return AzureRule(
        provider=provider,
        operations=operations or ("*",),
        limit=Limit(count, count / seconds),
        source=source,
        gate=gate or "provider",
        per=(by,),
        name=name,
        window=True,
    )


def _apart(provider: str, name: str, burst: float, refill: float, operation: str) -> AzureRule:
    """What has its own rows in the place of Resource Manager's."""
    limit = Limit(burst, refill)
    return AzureRule(provider=provider, operations=(operation,), limit=limit, source=ASSUMED, per=("principal",), name=name)


_VM = "virtualMachines"
_COST = "Microsoft.CostManagement"

PUBLISHED_AZURE: tuple[AzureRule, ...] = (
    # in the place of Resource Manager's rows, and so before them
    _apart("login", "token", 200, 20, "POST token"),
    _apart("imds", "token", 20, 5, "GET token"),
    _apart("Microsoft.ResourceGraph", "tenant-resource-requests", 150, 15, "POST *"),
    # Resource Manager
    *_manager("reads", 250, 25, "GET *", "HEAD *"),
    *_manager("deletes", 200, 10, "DELETE *"),
    *_manager("writes", 200, 10, "*"),
    # Compute
    _minute("PutVM", 500, 1500, f"PUT {_VM}/*", f"PATCH {_VM}/*", f"DELETE {_VM}/*", f"POST {_VM}/*"),
    _minute("PutVMResource", 4, 12, f"PUT {_VM}/*", f"PATCH {_VM}/*", f"DELETE {_VM}/*", f"POST {_VM}/*", of_one=True),
    _minute("HighCostGet", 300, 900, f"GET {_VM}", f"GET locations/{{name}}/{_VM}"),
    _minute("LowCostGet", 8000, 24000, f"GET {_VM}/*"),
    _minute("LowCostGetResource", 12, 36, f"GET {_VM}/*", of_one=True),
    _minute("GetOperation", 5000, 15000, "GET locations/{name}/operations/*"),
    # The other providers
    _window("Microsoft.Network", "Reads", 10_000, 300, NETWORK_PAGE, "GET *", "HEAD *"),
    _window("Microsoft.Network", "Writes", 1_000, 300, NETWORK_PAGE),
    _window("Microsoft.Storage", "List", 100, 300, STORAGE_PAGE, "GET storageAccounts"),
    _window("Microsoft.Storage", "Read", 800, 300, STORAGE_PAGE, "GET *", "HEAD *"),
    _window("Microsoft.Storage", "Write", 1_200, 3600, STORAGE_PAGE),
    _window("Microsoft.Cdn", "read", 50, 300, ISSUES, "GET *"),
    _window("Microsoft.ResourceGraph", "user-quota", 15, 5, GRAPH_PAGE, by="principal"),
    _window(_COST, "QueriesPerHour", 600, 3600, ISSUES, "POST query", by="subscription", gate="hour"),
    _window(_COST, "QueriesPerMin", 60, 60, ISSUES, "POST query", by="subscription", gate="minute"),
    _window(_COST, "QueriesPer10Sec", 12, 10, ISSUES, "POST query", by="subscription"),
)
