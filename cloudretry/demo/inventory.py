"""Writes what was found: JSONL while it is found, page by page, and SQLite made of that file in the end."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloudretry.demo.discovery import LostCall, Resource

__all__ = ["Inventory"]

_COLUMNS = ("account", "region", "type", "id", "complete", "details")
_TABLES = """
create table resources (
  account text, region text, type text, id text, complete integer, details text,
  primary key (account, region, type, id)
);
create table lost_calls (call text, about text, reason text);
"""


class Inventory:
    """The files of one run in a folder: NAME.jsonl, NAME.sqlite and lost-NAME.txt. Thread-safe.

    Raises:
        FileExistsError: one of them is there already.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.jsonl = folder / f"{name}.jsonl"
        self.sqlite = folder / f"{name}.sqlite"
        self.lost = folder / f"lost-{name}.txt"
        self._lock = Lock()
        self._complete = 0
        for file in (self.sqlite, self.lost):
            if file.exists():
                raise FileExistsError(f"{file} exists")
        self._file = self.jsonl.open("x", encoding="utf-8")

    @property
    def complete(self) -> int:
        """How many resources were written with all their details."""
        return self._complete

    def add(self, resources: Sequence[Resource]) -> None:
        """Append the resources of a page."""
        lines = "".join(_line(resource) for resource in resources)
        with self._lock:
            if self._file.closed:
                return  # the run was broken off; late threads have nobody to tell
            self._file.write(lines)
            self._file.flush()
            self._complete += sum(resource.complete for resource in resources)

    def finish(self, lost: Sequence[LostCall]) -> None:
        """Write the SQLite file from what the JSONL file holds, and the list of lost calls."""
        self.close()
        self.lost.write_text("".join(f"{gone}\n" for gone in lost), encoding="utf-8")
        with closing(sqlite3.connect(self.sqlite)) as database, database:
            database.executescript(_TABLES)
            database.executemany("insert or replace into resources values (?, ?, ?, ?, ?, ?)", map(_row, self.read()))
            database.executemany(
                "insert into lost_calls values (?, ?, ?)", ((gone.call, gone.about, gone.reason) for gone in lost)
            )

    def read(self) -> Iterator[Mapping[str, Any]]:
        """The lines of the JSONL file."""
        with self.jsonl.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)

    def close(self) -> None:
        """Close the JSONL file."""
        with self._lock:
            self._file.close()


def _line(resource: Resource) -> str:
    return json.dumps({name: getattr(resource, name) for name in _COLUMNS}, default=str) + "\n"


def _row(resource: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(json.dumps(value) if name == "details" else value for name, value in resource.items())
