"""Azure for the demo: a simulated Resource Manager, and its clients, as they come or as AzureApiCommand makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cloudretry.commands import AzureApiCommand
from cloudretry.core.call import Call
from cloudretry.core.quota import quota_of
from cloudretry.demo.cloud import Answers, Found, Item, Listing, Question
from cloudretry.demo.compare import counted
from cloudretry.demo.ideal import Meter, Metered
from cloudretry.order import interleave
from cloudretry.simcloud import PUBLISHED_AZURE, AzureRule, SimulatedAzure, simulated_azure
from cloudretry.simcloud.azure import calls as simulated
from cloudretry.simcloud.azure.calls import PLACE, TENANT, Target
from cloudretry.simcloud.azure.limits import PER

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from cloudretry.config import Configuration
    from cloudretry.report import Report

__all__ = ["Azure", "AzureSource"]

_MACHINES: Final = "Microsoft.Compute/virtualMachines"
_VERSION: Final = "2024-07-01"
"""Of every type at the simulated Azure. At Azure itself each provider tells the versions of its types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Azure:
    """How much there is to discover, and behind which limits. `share` of what such subscriptions hold by default."""

    name: ClassVar[str] = "Azure"
    alone: ClassVar[str] = "plain Azure SDK"
    needs: ClassVar[Sequence[str]] = (
        "azure.core",
        "azure.mgmt.compute",
        "azure.mgmt.resource",
        "azure.mgmt.resourcegraph",
        "aiohttp",
        "trustme",
    )
    hints: ClassVar[Sequence[str]] = (
        "Now your own script: Client(credential, ...) -> cloudretry.AzureApiCommand(credential).client(Client, ...)",
        "To try it against the simulated Azure: cloudretry simulate azure",
    )

    subscriptions: int
    share: float
    limits: tuple[AzureRule, ...] = PUBLISHED_AZURE

    @property
    def places(self) -> str:
        """What there is to discover."""
        return counted(self.subscriptions, "subscription")

    def simulated(self, seed: int) -> AbstractContextManager[SimulatedAzure]:
        """Azure, for as long as the context lasts."""
        return simulated_azure(seed=seed, subscriptions=self.subscriptions, size=self.share, limits=self.limits)

    def metered(self, running: SimulatedAzure) -> list[Metered]:
        """What was accepted since the last reset, and the meters that it passed."""
        return [self._metered(row) for row in running.counters()["rows"]]

    def _metered(self, row: Mapping[str, Any]) -> Metered:
        subscription, principal, service, operation = (row[name] for name in PLACE)
        subscription = "" if subscription == TENANT else subscription
        target = Target(subscription=subscription, group="", provider=service, types=(), operation=operation, path="")
        seen = simulated.Call(principal=principal, target=target)
        rules: dict[str, AzureRule] = {}
        for rule in self.limits:
            if rule.matches(seen):
                rules.setdefault(rule.gate, rule)
        meters = [
            Meter(
                f"{rule.name} of {' '.join(filter(None, (PER[part](seen)[:8] for part in rule.per)))}", rule.limit, rule.window
            )
            for rule in rules.values()
            if "resource" not in rule.per  # one call each
        ]
        call = Call(provider="azure", service=service, operation=operation, account=subscription or None)
        return Metered(row["accepted"], quota_of(call), meters)

    def source(
        self, running: SimulatedAzure, report: Report | None = None, configuration: Configuration | None = None
    ) -> AzureSource:
        """Clients as the SDK makes them; with a report, as AzureApiCommand makes them."""
        return AzureSource(running, report, configuration)


class AzureSource:
    """A Source."""

    def __init__(self, azure: SimulatedAzure, report: Report | None, configuration: Configuration | None) -> None:
        from azure.core.exceptions import AzureError
        from azure.mgmt.compute import ComputeManagementClient
        from azure.mgmt.resource.resources import ResourceManagementClient
        from azure.mgmt.resourcegraph import ResourceGraphClient

        self.errors = (AzureError,)
        items = [Item(each, "", service) for each in azure.subscriptions for service in ("groups", "resources")]
        self.items = list(interleave(items, quota=lambda item: item.account))
        credential, options = azure.credential(), azure.client_options()

        def make(subscription: str, client: type[Any]) -> Any:
            if report is not None:
                command = AzureApiCommand(credential, subscription, configuration=configuration, report=report)
                return command.client(client, **options)
            return client(credential, **({} if client is ResourceGraphClient else {"subscription_id": subscription}), **options)

        made = (ResourceManagementClient, ComputeManagementClient, ResourceGraphClient)
        self._clients = {each: [make(each, client) for client in made] for each in azure.subscriptions}

    def lists(self, item: Item) -> Iterator[Listing]:
        """Resource groups; or virtual machines, and resources but for these."""
        manager, compute, _ = self._clients[item.account]

        def listing(operation: str, pager: Any, details: Callable[..., dict[str, Question]], skip: str = "") -> Listing:
            pages = ([_found(one, details(item.account, one)) for one in page if one.type != skip] for page in pager.by_page())
            return Listing(f"{operation}@{item.account}", pages)

        if item.service == "groups":
            yield listing("Microsoft.Resources:GET resourceGroups", manager.resource_groups.list(), self._of_group)
        else:
            yield listing("Microsoft.Compute:GET virtualMachines", compute.virtual_machines.list_all(), self._of_machine)
            yield listing("Microsoft.Resources:GET resources", manager.resources.list(), self._of_resource, skip=_MACHINES)

    def reason(self, error: Exception) -> str:
        """The status and the code."""
        status, told = getattr(error, "status_code", None), getattr(error, "error", None)
        return f"{status} {told.code if told else ''}".rstrip() if status else f"{type(error).__name__}: {error}"

    def _of_group(self, subscription: str, group: Any) -> dict[str, Question]:
        """What is in it, by Resource Graph."""
        from azure.mgmt.resourcegraph.models import QueryRequest

        _, _, graph = self._clients[subscription]
        query = QueryRequest(subscriptions=[subscription], query=f"resources | where resourceGroup =~ '{group.name}'")
        return {"contents": Question("Microsoft.ResourceGraph:POST resources", lambda: graph.resources(query).data)}

    def _of_machine(self, subscription: str, machine: Any) -> dict[str, Question]:
        """Whether it runs."""
        _, compute, _ = self._clients[subscription]
        ask = partial(compute.virtual_machines.instance_view, machine.id.split("/")[4], machine.name)
        call = f"Microsoft.Compute:GET virtualMachines/{{name}}/instanceView@{subscription}"
        return {"instance view": Question(call, lambda: ask().as_dict())}

    def _of_resource(self, subscription: str, resource: Any) -> dict[str, Question]:
        """Its properties, which the list does not have."""
        manager, _, _ = self._clients[subscription]
        service, _, kind = resource.type.partition("/")
        ask = partial(manager.resources.get_by_id, resource.id, api_version=_VERSION)
        return {"properties": Question(f"{service}:GET {kind}/{{name}}@{subscription}", lambda: ask().as_dict())}


def _found(one: Any, details: dict[str, Question]) -> Found:
    def region(_: Answers) -> str:
        location: str = one.location
        return location

    return Found(type=one.type, id=one.id, listed=one.as_dict(), region=region, details=details)
