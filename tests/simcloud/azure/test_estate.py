"""What a tenant holds."""

from __future__ import annotations

from collections import Counter

import pytest

from cloudretry.simcloud.azure.estate import GROUP_TYPE, Estate, build_estate

LOCATIONS = ("eastus", "westeurope")


@pytest.fixture(scope="module")
def estate() -> Estate:
    return build_estate(0, 3, LOCATIONS)


def test_the_seed_decides_everything_ids_included(estate: Estate) -> None:
    same, other = build_estate(0, 3, LOCATIONS), build_estate(1, 3, LOCATIONS)
    assert (same.tenant, same.truth()) == (estate.tenant, estate.truth())
    assert estate.tenant != other.tenant
    assert not {name for *_, name in estate.truth()} & {name for *_, name in other.truth()}


def test_every_resource_is_in_a_group_of_its_subscription_and_its_location(estate: Estate) -> None:
    places = {name: place for _, place, kind, name in estate.truth() if kind == GROUP_TYPE}
    assert len(places) > 20
    for subscription, place, kind, name in estate.truth():
        group = "/".join(name.split("/")[:5])
        assert (places[group], group.split("/")[2]) == (place, subscription)
        assert kind in {GROUP_TYPE, "/".join(name.split("/")[6:8])}
    assert set(places.values()) == set(LOCATIONS)


def test_every_machine_has_its_disk_and_its_interface(estate: Estate) -> None:
    kinds = Counter(kind for _, _, kind, _ in estate.truth())
    machines = kinds["Microsoft.Compute/virtualMachines"]
    assert machines == kinds["Microsoft.Compute/disks"] == kinds["Microsoft.Network/networkInterfaces"] > 100
    known = {name for *_, name in estate.truth()}
    for subscription in estate.subscriptions.values():
        for resource in subscription.resources.values():
            if resource.type.endswith("virtualMachines"):
                facts = resource.body["properties"]
                assert facts["storageProfile"]["osDisk"]["managedDisk"]["id"] in known
                assert facts["networkProfile"]["networkInterfaces"][0]["id"] in known


def test_the_first_subscription_holds_most(estate: Estate) -> None:
    held = Counter(subscription for subscription, *_ in estate.truth())
    first, *others = (held[name] for name in estate.subscriptions)
    assert first > 2 * max(others)


def test_its_size_follows_the_setting(estate: Estate) -> None:
    small = build_estate(0, 3, LOCATIONS, 0.1)
    assert len(estate.truth()) / 20 > len(small.truth()) >= 3 * 7


def test_what_is_removed_takes_what_is_in_it_along() -> None:
    (subscription,) = build_estate(0, 1, LOCATIONS, 0.3).subscriptions.values()
    first, second, *_ = (group.id for group in subscription.groups.values())
    subscription.remove(first.upper())
    assert first.lower() not in subscription.groups
    assert not [known for known in subscription.resources if known.startswith(first.lower() + "/")]
    assert [known for known in subscription.resources if known.startswith(second.lower() + "/")]
