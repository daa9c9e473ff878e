"""What AWS meters and how much of it: token buckets and the table of limits. Pure: time is passed in, no I/O.

Only request buckets: the per-instance buckets of RunInstances and its like, and the smaller ones for calls from the
console, are left out. A row's source says how far it can be trusted: a page that was read, rates that users of other
tools report (their bursts are assumed), or "assumed": a plausible value, or one remembered from AWS's pages and not looked up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from cloudretry.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cloudretry.simcloud.identity import Identity

__all__ = ["PUBLISHED", "UNLIMITED", "Limit", "Meter", "Rule", "Standing", "TokenBucket"]

EC2_PAGE = "EC2 API throttling page"
ISSUES = "seen in issues of discovery tools"
ASSUMED = "assumed"
REMEMBERED = "assumed, after what AWS publishes, not looked up"


@dataclass(frozen=True, slots=True)
class Limit:
    """A bucket of `burst` tokens that gains `refill` tokens a second; a request costs one."""

    burst: float
    refill: float

    def __post_init__(self) -> None:
        if not (1 <= self.burst < math.inf and 0 <= self.refill < math.inf):
            given = f"burst={self.burst}, refill={self.refill}"
            raise ConfigurationError(f"{given}: a burst is at least 1, a refill at least 0, both finite")


class TokenBucket:
    """Admits while it holds a token. Times are monotonic seconds; one that runs backwards counts as no time."""

    __slots__ = ("_at", "_level", "limit")

    def __init__(self, limit: Limit, now: float) -> None:
        self.limit = limit
        self._level = limit.burst
        self._at = now

    def take(self, now: float) -> bool:
        """Take one token; False, and nothing taken, where less than one is left."""
        if now > self._at:
            self._level = min(self.limit.burst, self._level + (now - self._at) * self.limit.refill)
            self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True

    def tokens(self, now: float) -> float:
        """How many tokens there are."""
        return min(self.limit.burst, self._level + max(0.0, now - self._at) * self.limit.refill)

    def wait(self, now: float) -> float:
        """Seconds until there is a whole token; infinite where none comes."""
        missing = 1 - self.tokens(now)
        if missing <= 0:
            return 0.0
        return missing / self.limit.refill if self.limit.refill else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Gives actions of a service their bucket. Patterns are those of fnmatch; of several rules that match the first counts."""

    service: str
    """The signing name: `monitoring`, not `cloudwatch`."""
    actions: tuple[str, ...]
    limit: Limit
    source: str
    shared: bool = False
    """One bucket for all matching actions of an account and region, instead of one for each action."""
    bare: bool = False
    """Only for requests with neither filter nor page size."""

    def matches(self, identity: Identity) -> bool:
        """Whether this rule can meter such a request."""
        return (
            (identity.bare or not self.bare)
            and fnmatchcase(identity.service, self.service)
            and any(fnmatchcase(identity.action, pattern) for pattern in self.actions)
        )


class Standing(NamedTuple):
    """A bucket as it is."""

    account: str
    region: str
    actions: str
    limit: Limit
    tokens: float
    source: str


class Meter:
    """Holds a bucket for each (account, region, service, action or group of actions). Not thread-safe."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self._chosen: dict[tuple[str, str, bool], int | None] = {}
        self._buckets: dict[tuple[str, str, int, str], TokenBucket] = {}

    def admit(self, identity: Identity, now: float) -> bool:
        """True when the request's bucket had a token, or when no rule limits it."""
        bucket = self._bucket(identity, now)
        return bucket is None or bucket.take(now)

    def wait(self, identity: Identity, now: float) -> float:
        """Seconds until such a request would be admitted."""
        bucket = self._bucket(identity, now)
        return 0.0 if bucket is None else bucket.wait(now)

    def standings(self, now: float) -> Iterator[Standing]:
        """The buckets that were asked for a token since the start or the last reset."""
        for (account, region, index, actions), bucket in sorted(self._buckets.items()):
            rule = self._rules[index]
            shared = f"{rule.service}: {', '.join(rule.actions)}, together"
            named = shared if rule.shared else actions + (" with neither filter nor page size" if rule.bare else "")
            yield Standing(account, region, named, bucket.limit, bucket.tokens(now), rule.source)

    def reset(self) -> None:
        """Fill every bucket."""
        self._buckets.clear()

    def _bucket(self, identity: Identity, now: float) -> TokenBucket | None:
        index = self._choose(identity)
        if index is None:
            return None
        rule = self._rules[index]
        key = (identity.account, identity.region, index, "*" if rule.shared else f"{identity.service}:{identity.action}")
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(rule.limit, now)
        return bucket

    def _choose(self, identity: Identity) -> int | None:
        question = (identity.service, identity.action, identity.bare)
        if question not in self._chosen:
            found = (index for index, rule in enumerate(self._rules) if rule.matches(identity))
            self._chosen[question] = next(found, None)
        return self._chosen[question]


def _ec2(burst: float, refill: float, *actions: str, bare: bool = False) -> Rule:
    return Rule(service="ec2", actions=actions, limit=Limit(burst, refill), source=EC2_PAGE, bare=bare)


def _rule(service: str, burst: float, refill: float, source: str, *actions: str, shared: bool = False) -> Rule:
    return Rule(service=service, actions=actions or ("*",), limit=Limit(burst, refill), source=source, shared=shared)


UNLIMITED: tuple[()] = ()

# What AWS publishes for EC2; for other services what is reported or assumed, so that none of them is without a limit.
PUBLISHED: tuple[Rule, ...] = (
    # EC2: actions with a bucket of their own size
    _ec2(1, 0.5, "DescribeByoipCidrs"),
    _ec2(1, 1, "DescribeInstanceTopology", "DescribeMovingAddresses"),
    _ec2(5, 2, "DescribeHostReservations"),
    _ec2(20, 5, "DescribeStaleSecurityGroups", "DescribeSecurityGroupReferences"),
    _ec2(100, 5, "DescribeSpotFleetInstances"),
    _ec2(50, 0.5, "DescribeStoreImageTasks"),
    _ec2(10, 0.15, "DescribeCapacityBlockOfferings"),
    _ec2(10, 10, "DescribeReservedInstancesOfferings"),
    _ec2(100, 10, "CreateTags"),
    _ec2(100, 5, "CreateSnapshot", "TerminateInstances"),
    _ec2(4, 0.3, "CreateVpcEndpoint"),
    _ec2(5, 2, "RunInstances", "StartInstances"),
    # EC2: the categories
    _ec2(
        50,
        10,
        "DescribeInstances",
        "DescribeInstanceStatus",
        "DescribeNetworkInterfaces",
        "DescribeSecurityGroups",
        "DescribeSnapshots",
        "DescribeSpotInstanceRequests",
        "DescribeVolumes",
        bare=True,
    ),
    _ec2(100, 20, "Describe*", "List*", "Search*", "Get*"),
    _ec2(50, 5, "*"),  # mutating and resource-intensive actions have the same size
    # GetFunction and GetPolicy are remembered to have buckets of their own; here they share the control plane's
    _rule("lambda", 10_000, 10_000, REMEMBERED, "Invoke*", shared=True),
    _rule("lambda", 15, 15, REMEMBERED, shared=True),
    # remembered as per prefix; here per account and region
    _rule("s3", 5_500, 5_500, REMEMBERED, "GetObject*", "HeadObject", shared=True),
    _rule("s3", 3_500, 3_500, REMEMBERED, "*Object", "*Part", "*PartCopy", shared=True),
    _rule("s3", 50, 25, ASSUMED),
    _rule("sts", 600, 600, REMEMBERED, shared=True),
    _rule("route53", 5, 5, REMEMBERED, shared=True),
    _rule("cloudformation", 5, 5, ISSUES, "Describe*"),
    _rule("cloudformation", 5, 5, ASSUMED),
    _rule("athena", 5, 5, ISSUES, "List*"),
    _rule("cloudcontrolapi", 25, 25, ISSUES, shared=True),
    _rule("servicequotas", 5, 5, ISSUES, "ListServiceQuotas"),
    _rule("servicequotas", 2, 2, ISSUES, "ListTagsForResource"),
    _rule("iam", 60, 15, ASSUMED, "Get*", "List*", shared=True),
    _rule("iam", 20, 5, ASSUMED, shared=True),
    _rule("rds", 40, 10, ASSUMED, "Describe*", "List*", shared=True),
    _rule("organizations", 10, 2, ASSUMED, shared=True),
    _rule("*", 100, 50, ASSUMED),
)
