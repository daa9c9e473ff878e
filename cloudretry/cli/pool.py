"""`cloudretry pool`: what the egress pools of running programs look like. Reads the state folder; asks no program anything."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.pool_states import running_pools
from cloudretry.runtime.state_folder import state_path

if TYPE_CHECKING:
    from cloudretry.core.pool_snapshot import MemberState, PairState, PoolSnapshot

__all__ = ["pool"]

_HEADS: Final = ("member", "state", "reason", "phase", "since", "left", "in flight", "answered", "failures")
_STYLES: Final = {"eligible": "green", "cooling": "red", "probe_allowed": "yellow", "disabled": "dim"}
_UNITS: Final = ((86_400.0, "d"), (3600.0, "h"), (60.0, "m"))

Row = tuple[str, ...]


@click.group()
def pool() -> None:
    """Look at the egress pools of running programs."""


@pool.command()
@click.option("--json", "as_json", is_flag=True, help="All that is known, with histories; times left count from `taken`.")
def status(*, as_json: bool) -> None:
    """Show each member: its state and why, since when, how long still, and what it has done."""
    processes = running_pools()
    if as_json:
        click.echo(json.dumps([asdict(process) for process in processes], indent=2))
        return
    if not any(process.pools for process in processes):
        click.echo(f"no running program keeps pools (looked in {state_path() or 'no folder: HOME is not set'})")
    now = current_clock().wall()
    for process in processes:
        place = f"{process.command} ({process.process} on {process.host})"
        for snapshot in process.pools:
            waiting = f", {snapshot.waiting} waiting" if snapshot.waiting else ""
            title = f"{place}: pool {snapshot.pool}, seen {_span(now - process.taken)} ago{waiting}"
            _draw(title, list(_rows(snapshot, now, now - process.taken)))


def _rows(snapshot: PoolSnapshot, now: float, age: float) -> Iterator[Row]:
    pairs: dict[str, list[PairState]] = {}
    for pair in snapshot.pairs:
        pairs.setdefault(pair.member, []).append(pair)
    for member in snapshot.members:
        yield _row_of_member(member, now, age)
        yield from ((f"  to {pair.destination}", *_state(pair, now, age), "", "", "") for pair in pairs.get(member.name, ()))


def _row_of_member(member: MemberState, now: float, age: float) -> Row:
    marks = [mark for mark, is_set in (("backup", member.backup), ("removed", member.removed)) if is_set]
    name = f"{member.name} ({', '.join(marks)})" if marks else member.name
    counters = ", ".join(f"{reason} {count}" for reason, count in sorted(member.counters.items()) if count)
    return (name, *_state(member, now, age), str(member.in_flight), str(member.answered), counters)


def _state(item: MemberState | PairState, now: float, age: float) -> Row:
    left = "" if item.remaining is None else _span(item.remaining - age) if item.remaining > age else "due"
    return item.state, item.reason or "", item.phase or "", f"{_span(now - item.since)} ago", left


def _span(seconds: float) -> str:
    """Two figures are enough for people: `4s`, `12m`, `3h`."""
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds // size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def _draw(title: str, rows: list[Row]) -> None:
    """Colours on a terminal, where rich is installed; else columns."""
    if sys.stdout.isatty():
        try:
            _draw_table(title, rows)
        except ImportError:
            pass
        else:
            return
    click.echo(title)
    for line in _columns([_HEADS, *rows]):
        click.echo(line)


def _columns(rows: Iterable[Row]) -> Iterator[str]:
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    for row in listed:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _draw_table(title: str, rows: Iterable[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*_HEADS, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row, style=_STYLES.get(row[1], ""))
    Console().print(table)
