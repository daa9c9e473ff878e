"""What a provider meters together: from a Call to the key of its quota, by static rules. Pure.

Two calls under one key share a pacer. Too fine a key is harmless: pacers that share a bucket without knowing of each other find
their shares. Too coarse a key makes calls wait for each other that need not. So the rules are fine where nothing is known:
AWS meters by action unless a rule names a group, Resource Manager by kind of request at its front door and by provider behind.

A user's own rules come before these (`rules=`), the first that matches counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cloudretry.core.match import Match

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudretry.core.call import Call

__all__ = ["RULES", "UNFILTERED", "GroupRule", "Quota", "quota_of"]


@dataclass(frozen=True, slots=True)
class Quota:
    """A key; compared and hashed by all fields. `owner`: the account or subscription, with the principal where it counts.

    The host is part of it, so that what a simulator grants is never taken for what the cloud grants.
    """

    provider: str
    owner: str
    host: str
    region: str
    service: str
    group: str

    def __str__(self) -> str:
        """`ec2:DescribeInstances@111122223333/eu-west-1`, as calls are shown."""
        return f"{self.service}:{self.group}@{self.owner or '-'}/{self.region or '-'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRule:
    """Calls that are metered together under one name; of several rules that match a call the first counts.

    Args:
        group: the name; `{operation}` in it stands for the operation: each has a quota of its own.
        unfiltered: only for requests that neither filter nor page.
        everywhere: in all regions together.
    """

    match: Match
    group: str
    provider: str = "aws"
    unfiltered: bool = False
    everywhere: bool = False
    names: frozenset[str] = field(default_factory=frozenset)
    """Operations; empty: those that `match` fits."""

    def fits(self, call: Call, *, unfiltered: bool) -> bool:
        """Whether this rule names the group of a call."""
        return (
            call.provider == self.provider
            and (unfiltered or not self.unfiltered)
            and (not self.names or call.operation in self.names)
            and self.match.matches(call)
        )


UNFILTERED: Final = frozenset(
    {
        "DescribeInstances",
        "DescribeInstanceStatus",
        "DescribeNetworkInterfaces",
        "DescribeSecurityGroups",
        "DescribeSnapshots",
        "DescribeSpotInstanceRequests",
        "DescribeVolumes",
    }
)
"""EC2 actions with a second, smaller bucket for requests with neither filter nor page size (EC2 API throttling page)."""


def _aws(service: str, group: str, operation: str = "*", *, everywhere: bool = False) -> GroupRule:
    return GroupRule(match=Match(service=service, operation=operation), group=group, everywhere=everywhere)


def _arm(service: str, group: str, operation: str) -> GroupRule:
    return GroupRule(match=Match(service=service, operation=operation), group=group, provider="azure")


RULES: Final = (
    # EC2: every action has a bucket of its own, some have two (EC2 API throttling page).
    GroupRule(match=Match(service="ec2"), group="{operation} unfiltered", unfiltered=True, names=UNFILTERED),
    # AWS services whose limit holds for several actions together; assumed from what users of discovery tools report.
    _aws("iam", "reads", "Get*", everywhere=True),
    _aws("iam", "reads", "List*", everywhere=True),
    _aws("organizations", "all", everywhere=True),
    _aws("route53", "all", everywhere=True),
    _aws("lambda", "control plane", "[!I]*"),  # all but Invoke…
    _aws("cloudcontrolapi", "all"),
    _aws("cloudcontrol", "all"),  # botocore's name for it
    # Compute meters by cost of the request (compute-throttling-limits.md); the front door's own limits are below.
    _arm("Microsoft.Compute", "HighCostGetVMScaleSet", "GET virtualMachineScaleSets"),
    _arm("Microsoft.Compute", "HighCostGetVMScaleSet", "GET virtualMachineScaleSets/{name}/*"),
    _arm("Microsoft.Compute", "LowCostGetVMScaleSet", "GET virtualMachineScaleSets/{name}"),
    _arm("Microsoft.Compute", "HighCostGet", "GET virtualMachines"),
    _arm("Microsoft.Compute", "HighCostGet", "GET locations/{name}/virtualMachines"),
    _arm("Microsoft.Compute", "LowCostGet", "GET virtualMachines/*"),
    _arm("Microsoft.Compute", "GetOperation", "GET locations/{name}/operations/*"),
    # The storage provider counts lists apart from reads (azure-resource-manager/management/request-limits-and-throttling).
    _arm("Microsoft.Storage", "lists", "GET storageAccounts"),
    # Queries that are sent by POST have limits of their own, per user.
    _arm("Microsoft.ResourceGraph", "queries", "POST *"),
    _arm("Microsoft.CostManagement", "queries", "POST *"),
    _arm("Microsoft.Management", "queries", "POST *"),
)
"""What ships. Resource Manager's reads, writes and deletes, and AWS's single actions, need no rule."""


def quota_of(
    call: Call, *, principal: str | None = None, unfiltered: bool = False, rules: Iterable[GroupRule] = RULES
) -> Quota:
    """The key of a call's quota.

    Args:
        call: what is called.
        principal: who signs. Azure meters each principal apart; for AWS it stands in for an account that is not known.
            Never a secret: it is kept and shown.
        unfiltered: an EC2 request has neither filters nor a page size.
        rules: ours, or a user's own in front of them.
    """
    rule = next((rule for rule in rules if rule.fits(call, unfiltered=unfiltered)), None)
    azure = call.provider == "azure"
    owner = call.account or principal or ""
    if azure and principal and call.account:
        owner = f"{call.account}:{principal}"
    return Quota(
        provider=call.provider,
        owner=owner,
        host=call.host or "",
        region="" if rule and rule.everywhere else call.region or "",
        service=call.service,
        group=rule.group.replace("{operation}", call.operation) if rule else _default_group(call),
    )


def _default_group(call: Call) -> str:
    return _KINDS.get(call.operation.partition(" ")[0], "writes") if call.provider == "azure" else call.operation


_KINDS: Final = {"GET": "reads", "HEAD": "reads", "OPTIONS": "reads", "DELETE": "deletes"}
