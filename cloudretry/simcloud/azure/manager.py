"""Resource Manager: what is answered to a request that was let in. Pure: no clock, no I/O.

Known: tenants, subscriptions, locations, providers, resource groups, every resource of the estate by the paths of its own
provider (virtual machines with their instance view), Resource Graph, a cost query, long-running creations and deletions.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from cloudretry.simcloud.answers import Answer
from cloudretry.simcloud.azure.answers import error, reply
from cloudretry.simcloud.azure.estate import GROUP_TYPE, Resource
from cloudretry.simcloud.azure.graph import ask_graph
from cloudretry.simcloud.azure.paging import make_token, read_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cloudretry.simcloud.azure.calls import Target
    from cloudretry.simcloud.azure.estate import Estate, Subscription
    from cloudretry.simcloud.azure.operations import Operations

__all__ = ["Asked", "ResourceManager"]

_CONDITION: Final = re.compile(r"(\w+)\s+eq\s+'((?:[^']|'')*)'", re.IGNORECASE)
_TOKEN: Final = "$skiptoken"  # noqa: S105 - the name of a parameter


class Asked:
    """A request as Resource Manager reads it. `base` is the scheme and host that it came by."""

    __slots__ = ("base", "body", "query", "target")

    def __init__(self, target: Target, query: Mapping[str, str], body: bytes, base: str) -> None:
        self.target = target
        self.query = query
        self.body = body
        self.base = base

    @property
    def method(self) -> str:
        """In capitals."""
        return self.target.operation.partition(" ")[0]

    def json(self) -> dict[str, Any]:
        """The body; {} where it is no JSON object."""
        try:
            value = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


class ResourceManager:
    """Answers for one estate. Not thread-safe."""

    def __init__(self, estate: Estate, operations: Operations, locations: Sequence[str], page_size: int) -> None:
        self._estate = estate
        self._operations = operations
        self._locations = tuple(locations)
        self._page_size = page_size
        self._known: Mapping[str, Callable[[Asked], Answer]] = {
            "Microsoft.Resources GET subscriptions": self._subscriptions,
            "Microsoft.Resources GET subscriptions/{name}": self._subscription,
            "Microsoft.Resources GET tenants": self._tenants,
            "Microsoft.Resources GET locations": self._list_locations,
            "Microsoft.Resources GET providers": self._providers,
            "Microsoft.Resources GET providers/{name}": self._provider,
            "Microsoft.Resources POST providers/{name}/register": self._provider,
            "Microsoft.Resources GET resourceGroups": self._groups,
            "Microsoft.Resources GET resources": self._resources,
            "Microsoft.Resources GET resourceGroups/{name}/resources": self._resources,
            "Microsoft.Compute GET locations/{name}/virtualMachines": self._machines_at,
            "Microsoft.Compute GET virtualMachines/{name}/instanceView": self._instance_view,
            "Microsoft.ResourceGraph POST resources": self._graph,
            "Microsoft.CostManagement POST query": _costs,
        }

    def answer(self, asked: Asked) -> Answer:
        """The whole answer."""
        target = asked.target
        known = self._known.get(f"{target.provider} {target.operation}")
        if target.subscription and target.subscription not in self._estate.subscriptions:
            return error(404, "SubscriptionNotFound", f"The subscription '{target.subscription}' could not be found.")
        if known is not None:
            return known(asked)
        if asked.method == "GET" and target.types[-2:-1] in {("operations",), ("operationresults",)}:
            return self._operations.poll(target, asked.base)
        if not target.subscription:
            return error(404, "NotFound", f"{target.path} is not simulated.")
        return self._list_of_type(asked) if target.is_action and asked.method == "GET" else self._one(asked)

    def _held(self, target: Target) -> Subscription:
        return self._estate.subscriptions[target.subscription]

    def _subscriptions(self, asked: Asked) -> Answer:
        return self._page(asked, [json.dumps(self._describe(each)) for each in self._estate.subscriptions.values()])

    def _subscription(self, asked: Asked) -> Answer:
        return reply(self._describe(self._held(asked.target)))

    def _describe(self, subscription: Subscription) -> dict[str, Any]:
        return {
            "id": f"/subscriptions/{subscription.id}",
            "subscriptionId": subscription.id,
            "tenantId": self._estate.tenant,
            "displayName": subscription.name,
            "state": "Enabled",
            "authorizationSource": "RoleBased",
        }

    def _tenants(self, asked: Asked) -> Answer:
        return self._page(asked, [json.dumps({"id": f"/tenants/{self._estate.tenant}", "tenantId": self._estate.tenant})])

    def _list_locations(self, asked: Asked) -> Answer:
        base = f"/subscriptions/{asked.target.subscription}/locations"
        listed = [{"id": f"{base}/{name}", "name": name, "displayName": name, "type": "Region"} for name in self._locations]
        return reply({"value": listed})

    def _providers(self, asked: Asked) -> Answer:
        names = sorted({each.type.partition("/")[0] for each in self._held(asked.target).resources.values()})
        return self._page(asked, [json.dumps(self._describe_provider(asked.target, name)) for name in names])

    def _provider(self, asked: Asked) -> Answer:
        return reply(self._describe_provider(asked.target, asked.target.types[1]))

    def _describe_provider(self, target: Target, name: str) -> dict[str, Any]:
        found = sorted({each.type for each in self._held(target).resources.values()})
        types = [kind.partition("/")[2] for kind in found if kind.lower().startswith(name.lower() + "/")]
        return {
            "id": f"/subscriptions/{target.subscription}/providers/{name}",
            "namespace": name,
            "registrationState": "Registered",
            "resourceTypes": [
                {"resourceType": kind, "locations": self._locations, "apiVersions": ["2024-07-01"]} for kind in types
            ],
        }

    def _groups(self, asked: Asked) -> Answer:
        return self._page(asked, [group.full for group in self._held(asked.target).groups.values()])

    def _resources(self, asked: Asked) -> Answer:
        wanted = {name.lower(): value.lower() for name, value in _CONDITION.findall(asked.query.get("$filter", ""))}
        found = self._in_scope(asked.target)
        return (
            self._page(asked, [each.brief for each in found if _fits(each, wanted)]) if found is not None else _no_group(asked)
        )

    def _list_of_type(self, asked: Asked) -> Answer:
        kind = f"{asked.target.provider}/{asked.target.types[0]}".lower()
        found = self._in_scope(asked.target)
        if found is None:
            return _no_group(asked)
        return self._page(asked, [each.full for each in found if each.type.lower() == kind])

    def _machines_at(self, asked: Asked) -> Answer:
        place, machines = asked.target.location, "microsoft.compute/virtualmachines"
        found = self._held(asked.target).resources.values()
        return self._page(asked, [r.full for r in found if r.type.lower() == machines and r.location.lower() == place])

    def _in_scope(self, target: Target) -> Iterable[Resource] | None:
        held = self._held(target)
        if not target.group:
            return held.resources.values()
        if f"/subscriptions/{target.subscription}/resourcegroups/{target.group}" not in held.groups:
            return None
        return [each for each in held.resources.values() if each.group == target.group]

    def _instance_view(self, asked: Asked) -> Answer:
        machine = self._held(asked.target).resources.get(asked.target.path.lower().removesuffix("/instanceview"))
        return reply(_INSTANCE_VIEW) if machine else _no_resource(asked)

    def _one(self, asked: Asked) -> Answer:
        held, key = self._held(asked.target), asked.target.path.lower()
        if asked.target.is_action:
            key = key.rpartition("/")[0]
        found = held.groups.get(key) or held.resources.get(key)
        if asked.method == "PUT":
            return self._put(asked, found)
        if found is None:
            return _no_resource(asked)
        match asked.method:
            case "GET":
                with_view = "instanceview" in asked.query.get("$expand", "").lower()
                return reply(_with_instance_view(found) if with_view else found.full)
            case "HEAD":
                return Answer(status=204, body=b"")
            case "PATCH":
                return self._put(asked, found)
            case method:  # DELETE, or POST of start, deallocate and their like
                return self._begin(asked, found, lambda: held.remove(found.id) if method == "DELETE" else None)

    def _put(self, asked: Asked, found: Resource | None) -> Answer:
        target, given = asked.target, asked.json()
        is_group = target.provider == "Microsoft.Resources" and target.types[0] == "resourceGroups"
        if not is_group and self._in_scope(target) is None:
            return _no_group(asked)
        known: dict[str, Any] = found.body if found else {"location": self._locations[0]}
        facts = {
            "id": found.id if found else target.path,
            "name": target.types[-1],
            "type": GROUP_TYPE if is_group else f"{target.provider}/{'/'.join(target.types[::2])}",
            "properties": {**known.get("properties", {}), **(given.get("properties") or {}), "provisioningState": "Succeeded"},
        }
        made = Resource({**known, **given, **facts}, target.types[1].lower() if is_group else target.group)
        said = reply(made.full, 200 if found else 201)
        if not is_group and (refusal := self._operations.locked(target)):
            return refusal
        self._held(target).add(made)
        return said if is_group else self._begin(asked, made, lambda: None, said)

    def _begin(self, asked: Asked, resource: Resource, then: Callable[[], None], said: Answer | None = None) -> Answer:
        locked = self._operations.locked(asked.target)
        return locked or self._operations.begin(asked.target, resource.location, asked.base, then, said)

    def _graph(self, asked: Asked) -> Answer:
        return ask_graph(self._estate, asked.json())

    def _page(self, asked: Asked, listed: Sequence[str]) -> Answer:
        """A page of a list; each of `listed` is JSON."""
        begin = read_token(asked.query.get(_TOKEN) or asked.query.get("$skipToken", ""))
        top = asked.query.get("$top", "")
        end = begin + min(self._page_size, int(top) if top.isdecimal() and int(top) else self._page_size)
        value = f'"value": [{", ".join(listed[begin:end])}]'
        if end >= len(listed):
            return reply(f"{{{value}}}")
        kept = "".join(f"{quote(name)}={quote(text)}&" for name, text in asked.query.items() if name.lower() != _TOKEN)
        link = f"{asked.base}{asked.target.path}?{kept}{quote(_TOKEN)}={quote(make_token(end))}"
        return reply(f'{{{value}, "nextLink": {json.dumps(link)}}}')


_INSTANCE_VIEW: Final = {
    "vmAgent": {"vmAgentVersion": "2.9.1.1", "statuses": []},
    "statuses": [
        {"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Provisioning succeeded"},
        {"code": "PowerState/running", "level": "Info", "displayStatus": "VM running"},
    ],
}


def _with_instance_view(machine: Resource) -> dict[str, Any]:
    return {**machine.body, "properties": {**machine.body["properties"], "instanceView": _INSTANCE_VIEW}}


def _fits(resource: Resource, wanted: Mapping[str, str]) -> bool:
    facts = {
        "resourcetype": resource.type,
        "location": resource.location,
        "name": resource.name,
        "resourcegroup": resource.group,
    }
    tags = {name.lower(): value.lower() for name, value in resource.body.get("tags", {}).items()}
    if "tagname" in wanted and wanted.get("tagvalue", tags.get(wanted["tagname"])) != tags.get(wanted["tagname"], 0):
        return False
    return all(facts[name].lower() == value for name, value in wanted.items() if name in facts)


def _no_group(asked: Asked) -> Answer:
    return error(404, "ResourceGroupNotFound", f"Resource group '{asked.target.group}' could not be found.")


def _no_resource(asked: Asked) -> Answer:
    is_group = asked.target.types[:1] == ("resourceGroups",)
    if asked.method == "DELETE" and not is_group:
        return Answer(status=204, body=b"")
    code = "ResourceGroupNotFound" if is_group else "ResourceNotFound"
    return error(404, code, f"'{asked.target.path}' was not found.")


def _costs(asked: Asked) -> Answer:
    columns = [
        {"name": "Cost", "type": "Number"},
        {"name": "UsageDate", "type": "Number"},
        {"name": "Currency", "type": "String"},
    ]
    rows = [[12.5 + day, 20_260_100 + day, "EUR"] for day in range(1, 8)]
    name = "simulated"
    facts = {"id": f"{asked.target.path}/{name}", "name": name, "type": "Microsoft.CostManagement/query"}
    return reply({**facts, "properties": {"nextLink": None, "columns": columns, "rows": rows}})
