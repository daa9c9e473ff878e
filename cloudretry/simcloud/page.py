"""The page of counters: one HTML document that needs nothing else and loads itself again every two seconds."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cloudretry.simcloud.limits import Standing

__all__ = ["counters_page"]

_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>Simulated %s</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1rem 0 2rem }
th, td { padding: .15rem .8rem .15rem 0; text-align: left; border-bottom: 1px solid #ddd }
td.number { text-align: right; font-variant-numeric: tabular-nums }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } th, td { border-color: #444 } }
</style></head><body>
"""


def counters_page(cloud: str, place: Sequence[str], totals: Mapping[str, Any], standings: Iterable[Standing]) -> str:
    """The document; `totals` as Counts.totals() gives them, `place` the names of what they are counted by."""
    rows: Sequence[Mapping[str, Any]] = totals["rows"]
    verdicts = [name for name in totals if name != "rows"]
    said = ", ".join(f"{totals[name]:,} {name}" for name in verdicts)
    counted = [[*(row[name] for name in place), *(row.get(name, 0) for name in verdicts)] for row in rows]
    buckets = [[s.account, s.region, s.actions, s.limit.burst, s.limit.refill, s.tokens, s.source] for s in standings]
    return "".join(
        (
            _HEAD.replace("%s", cloud),
            f"<h1>Simulated {cloud}</h1><p>{escape(said)} since the start or the last reset. ",
            'As JSON: <a href="counters">counters</a>, <a href="log">log</a>, <a href="inventory">inventory</a>.</p>\n',
            _table("Requests", (*place, *verdicts), counted),
            _table("Buckets", (*place[:2], "actions", "burst", "refill a second", "tokens now", "source"), buckets),
            "</body></html>\n",
        )
    )


def _table(title: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows)
    return f"<h2>{title}</h2>\n<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>\n"


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    return f'<td class="number">{value:,.{0 if value % 1 == 0 else 2 if value < 1 else 1}f}</td>'
