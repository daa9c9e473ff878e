"""Resource Graph: pages of resources and resource groups. Pure.

Of a query only the table, conditions `where type =~ '…'` (also `==`) on type, location, name and resourceGroup, and `limit` or
`take` are read; everything else is ignored, so that columns which `project` would drop are still there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from cloudretry.simcloud.azure.answers import error, reply
from cloudretry.simcloud.azure.paging import make_token, read_token

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloudretry.simcloud.answers import Answer
    from cloudretry.simcloud.azure.estate import Estate, Resource, Subscription

__all__ = ["ask_graph"]

_MOST: Final = 1000
_CONDITION: Final = re.compile(r"\b(type|location|name|resourcegroup)\s*(?:=~|==)\s*['\"]([^'\"]*)['\"]", re.IGNORECASE)
_LIMIT: Final = re.compile(r"\|\s*(?:limit|take)\s+(\d+)", re.IGNORECASE)
_TABLES: Final = ("resources", "resourcecontainers")


def ask_graph(estate: Estate, body: Mapping[str, Any]) -> Answer:
    """The answer to a query's body."""
    query, options = str(body.get("query", "")), body.get("options") or {}
    table = (query.split() or [""])[0].strip("|").lower()
    if table not in _TABLES:
        details = [{"code": "InvalidQuery", "message": f"Table {table!r} is not simulated; known: {', '.join(_TABLES)}."}]
        return error(400, "BadRequest", "Please provide a valid query.", details=details)
    rows = list(_rows(estate, table, body.get("subscriptions"), query))
    if found := _LIMIT.search(query):
        rows = rows[: int(found[1])]
    begin = read_token(str(options.get("$skipToken") or "")) or _number(options.get("$skip"), 0)
    end = begin + min(_MOST, _number(options.get("$top"), _MOST))
    page = rows[begin:end]
    answer: dict[str, Any] = {
        "totalRecords": len(rows),
        "count": len(page),
        "data": _table(page) if options.get("resultFormat") == "table" else page,
        "facets": [],
        "resultTruncated": "false",
    }
    if end < len(rows):
        answer["$skipToken"] = make_token(end)
    return reply(answer)


def _rows(estate: Estate, table: str, wanted: object, query: str) -> Iterator[dict[str, Any]]:
    asked = {str(each).lower() for each in wanted} if isinstance(wanted, list) else set()
    conditions = {name.lower(): value.lower() for name, value in _CONDITION.findall(query)}
    for subscription in estate.subscriptions.values():
        if asked and subscription.id not in asked:
            continue
        held = subscription.resources if table == "resources" else subscription.groups
        for resource in held.values():
            row = _row(subscription, resource, estate.tenant)
            if all(
                str(row["resourceGroup" if name == "resourcegroup" else name]).lower() == v for name, v in conditions.items()
            ):
                yield row


def _row(subscription: Subscription, resource: Resource, tenant: str) -> dict[str, Any]:
    kind = resource.type.lower()
    if kind == "microsoft.resources/resourcegroups":
        kind = "microsoft.resources/subscriptions/resourcegroups"  # as Resource Graph has it
    who = {"tenantId": tenant, "subscriptionId": subscription.id, "resourceGroup": resource.group}
    return {**resource.body, **who, "type": kind}


def _table(rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = sorted({name for row in rows for name in row})
    columns = [{"name": name, "type": "object" if name in {"properties", "sku", "tags"} else "string"} for name in names]
    return {"columns": columns, "rows": [[row.get(name) for name in names] for row in rows]}


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and value >= 0 else otherwise
