"""What a simulated tenant holds: subscriptions, resource groups and what is in them. Pure: the seed is passed in.

A resource is (subscription, location, type, id), spelled as Azure spells them; resource groups are among them, with the
type Microsoft.Resources/resourceGroups. Requests can make more and delete what there is; the ground truth is that of the start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from cloudretry.simcloud.numbers import TEAMS, Numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["GROUP_TYPE", "Estate", "Resource", "Subscription", "build_estate", "make_id"]

GROUP_TYPE: Final = "Microsoft.Resources/resourceGroups"
_VM_SIZES: Final = ("Standard_B2s", "Standard_D4s_v5", "Standard_E8s_v5")
_DONE: Final = {"provisioningState": "Succeeded"}


class Resource:
    """A resource, or a resource group, and the JSON of it: `brief` as in lists of resources, `full` as its provider has it."""

    __slots__ = ("body", "brief", "full", "group", "id", "location", "name", "type")

    def __init__(self, body: Mapping[str, Any], group: str) -> None:
        self.body = dict(body)
        self.id: str = body["id"]
        self.name: str = body["name"]
        self.type: str = body["type"]
        self.location: str = body.get("location", "")
        self.group = group
        self.full = json.dumps(self.body)
        self.brief = json.dumps({name: value for name, value in self.body.items() if name != "properties"})


@dataclass(slots=True, kw_only=True)
class Subscription:
    """A subscription; the keys are ids in lower case."""

    id: str
    name: str
    groups: dict[str, Resource] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)

    def add(self, resource: Resource) -> None:
        """Have it, in the place of what has the same id."""
        (self.groups if resource.type == GROUP_TYPE else self.resources)[resource.id.lower()] = resource

    def remove(self, resource_id: str) -> None:
        """Have it no more, nor what is in it."""
        gone = resource_id.lower()
        self.groups.pop(gone, None)
        for known in [known for known in self.resources if known == gone or known.startswith(gone + "/")]:
            del self.resources[known]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estate:
    """A tenant."""

    tenant: str
    subscriptions: Mapping[str, Subscription]

    def truth(self) -> list[tuple[str, str, str, str]]:
        """All that there is now."""
        return sorted(
            (subscription.id, resource.location, resource.type, resource.id)
            for subscription in self.subscriptions.values()
            for held in (subscription.groups, subscription.resources)
            for resource in held.values()
        )


def make_id(numbers: Numbers) -> str:
    """The next random id."""
    return str(UUID(int=numbers.getrandbits(128), version=4))


def build_estate(seed: int, subscriptions: int, locations: Sequence[str], size: float = 1.0) -> Estate:
    """Make the tenant; the same arguments make the same one. The first subscription holds several times what others do."""
    numbers = Numbers(seed)
    numbers.size = size
    tenant = make_id(numbers)
    made: dict[str, Subscription] = {}
    for number in range(subscriptions):
        subscription = Subscription(id=make_id(numbers), name=f"subscription-{number + 1}")
        for group in range(numbers.how_many(7, 11, 1 if number else 3)):
            _make_group(subscription, group, locations, numbers)
        made[subscription.id] = subscription
    return Estate(tenant=tenant, subscriptions=made)


def _make_group(subscription: Subscription, number: int, locations: Sequence[str], numbers: Numbers) -> None:
    team, location = numbers.choice(TEAMS), numbers.choice(list(locations))
    name = f"{team}-{number:03d}"
    group_id = f"/subscriptions/{subscription.id}/resourceGroups/{name}"
    facts: dict[str, Any] = {"location": location, "tags": {"team": team}, "properties": _DONE}
    subscription.add(Resource({"id": group_id, "name": name, "type": GROUP_TYPE, **facts}, name.lower()))
    for kind, its_name, more in _contents(group_id, f"{team}{number:03d}", numbers):
        identity = {"id": f"{group_id}/providers/{kind}/{its_name}", "name": its_name, "type": kind}
        subscription.add(Resource({**identity, **facts, **more}, name.lower()))


def _contents(group_id: str, prefix: str, numbers: Numbers) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for number in range(numbers.how_many(3, 7)):
        yield from _machine(group_id, f"{prefix}-vm{number:02d}", numbers)
    yield "Microsoft.Network/virtualNetworks", f"{prefix}-net", {}
    yield "Microsoft.Network/networkSecurityGroups", f"{prefix}-nsg", {}
    for number in range(numbers.how_many(1, 3)):
        unique = f"{numbers.getrandbits(32):08x}"  # account names are unique in the world
        yield (
            "Microsoft.Storage/storageAccounts",
            f"{prefix}st{number}{unique}",
            {"kind": "StorageV2", "sku": {"name": "Standard_LRS"}},
        )
    if numbers.random() < 0.5:  # noqa: PLR2004 - a coin
        yield "Microsoft.KeyVault/vaults", f"{prefix}-kv{numbers.getrandbits(16):04x}", {}
    if numbers.random() < 0.3:  # noqa: PLR2004 - one in three
        yield "Microsoft.ContainerService/managedClusters", f"{prefix}-aks", {}


def _machine(group_id: str, name: str, numbers: Numbers) -> Iterator[tuple[str, str, dict[str, Any]]]:
    compute, network = (f"{group_id}/providers/Microsoft.{each}" for each in ("Compute", "Network"))
    disk = f"{name}_osdisk"
    properties = {
        "vmId": make_id(numbers),
        "provisioningState": "Succeeded",
        "hardwareProfile": {"vmSize": numbers.choice(_VM_SIZES)},
        "storageProfile": {"osDisk": {"name": disk, "osType": "Linux", "managedDisk": {"id": f"{compute}/disks/{disk}"}}},
        "osProfile": {"computerName": name},
        "networkProfile": {"networkInterfaces": [{"id": f"{network}/networkInterfaces/{name}-nic"}]},
    }
    yield "Microsoft.Compute/virtualMachines", name, {"properties": properties}
    yield "Microsoft.Compute/disks", disk, {"sku": {"name": "Premium_LRS"}}
    yield "Microsoft.Network/networkInterfaces", f"{name}-nic", {}
