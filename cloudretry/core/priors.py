"""Published limits, as a place to start learning from. They are verified, not believed: a throttle ends them.

Limits are adjusted for single accounts, mostly upwards, and pages grow old; so nothing here is a cap.
Only what was read on a provider's page stands here; what is reported or assumed is left to be learned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudretry.core.rate import Limit

if TYPE_CHECKING:
    from cloudretry.core.quota import Quota

__all__ = ["published"]

# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/throttling.html: per account, region and action.
_EC2_READS: Final = Limit(rate=20.0, burst=100.0)
_EC2_UNFILTERED: Final = Limit(rate=10.0, burst=50.0)
_EC2_CHANGES: Final = Limit(rate=5.0, burst=50.0)  # mutating and resource-intensive actions alike
_EC2_ACTIONS: Final = {
    "CreateSnapshot": Limit(5.0, 100.0),
    "CreateTags": Limit(10.0, 100.0),
    "CreateVpcEndpoint": Limit(0.3, 4.0),
    "DescribeByoipCidrs": Limit(0.5, 1.0),
    "DescribeCapacityBlockOfferings": Limit(0.15, 10.0),
    "DescribeHostReservations": Limit(2.0, 5.0),
    "DescribeInstanceTopology": Limit(1.0, 1.0),
    "DescribeMovingAddresses": Limit(1.0, 1.0),
    "DescribeReservedInstancesOfferings": Limit(10.0, 10.0),
    "DescribeSecurityGroupReferences": Limit(5.0, 20.0),
    "DescribeSpotFleetInstances": Limit(5.0, 100.0),
    "DescribeStaleSecurityGroups": Limit(5.0, 20.0),
    "DescribeStoreImageTasks": Limit(0.5, 50.0),
    "RunInstances": Limit(2.0, 5.0),
    "StartInstances": Limit(2.0, 5.0),
    "TerminateInstances": Limit(5.0, 100.0),
}
_READS: Final = ("Describe", "List", "Search", "Get")

# azure-resource-manager/management/request-limits-and-throttling.md (2025-05): per subscription, principal and region.
_ARM: Final = {"reads": Limit(25.0, 250.0), "writes": Limit(10.0, 200.0), "deletes": Limit(10.0, 200.0)}
# Resource providers with less than the front door grants; the windows of their pages are read as bursts.
_PROVIDERS: Final = {
    ("Microsoft.Compute", "HighCostGet"): Limit(300.0 / 60.0, 300.0),  # compute-throttling-limits.md: 300 a minute
    ("Microsoft.Storage", "lists"): Limit(100.0 / 300.0, 100.0),  # same page as ARM's: 100 in 5 minutes
    ("Microsoft.Storage", "reads"): Limit(800.0 / 300.0, 800.0),
    ("Microsoft.ResourceGraph", "queries"): Limit(3.0, 15.0),  # 15 queries in 5 s, per user
}


def published(quota: Quota) -> Limit | None:
    """The limit that a provider publishes for a quota, None where none was read. For the clouds' own hosts alone."""
    if quota.provider == "azure":
        return _azure(quota) if quota.host.startswith("management.") else None
    if quota.service == "ec2" and quota.host.startswith("ec2.") and ".amazonaws.com" in quota.host:
        return _ec2(quota.group)
    return None


def _azure(quota: Quota) -> Limit | None:
    return _PROVIDERS.get((quota.service, quota.group)) or _ARM.get(quota.group)


def _ec2(group: str) -> Limit:
    if group.endswith(" unfiltered"):
        return _EC2_UNFILTERED
    return _EC2_ACTIONS.get(group) or (_EC2_READS if group.startswith(_READS) else _EC2_CHANGES)
