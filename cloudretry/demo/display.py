"""How the demo shows itself: live on a terminal (with rich), as plain lines without control characters anywhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

__all__ = ["Display", "LiveDisplay", "PlainDisplay", "Standing", "choose_display"]

_EVERY_S: Final = 3.0
_DUMB: Final = frozenset({"", "dumb", "unknown"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a run stands: of the resources that are `there`, how many it holds with all their details."""

    name: str
    complete: int
    there: int
    calls: int
    throttled: int
    lost: int
    seconds: float


class Display(Protocol):
    """What the demo needs of a display."""

    def say(self, line: str = "") -> None:
        """Show a line that stays."""

    def live(self) -> Any:
        """A context in which `show` is called."""

    def show(self, standing: Standing) -> None:
        """Show where a run stands; called often."""

    def table(self, rows: Sequence[tuple[str, ...]]) -> None:
        """Show a table; the first row is its head."""


def choose_display() -> Display:
    """Live where standard output is a terminal and rich is installed."""
    if sys.stdout.isatty() and os.environ.get("TERM", "") not in _DUMB and find_spec("rich") is not None:
        from rich.console import Console

        return LiveDisplay(Console(highlight=False))
    return PlainDisplay()


def _printable(line: str) -> str:
    return "".join(character for character in line if character.isprintable())


class PlainDisplay:
    """Plain lines, a few for each run."""

    def __init__(self) -> None:
        self._shown: tuple[str, float] = ("", 0.0)

    def say(self, line: str = "") -> None:
        """Print the line, without its control characters."""
        print(_printable(line), flush=True)  # noqa: T201 - its purpose

    @contextmanager
    def live(self) -> Iterator[None]:
        """Nothing to prepare."""
        yield

    def show(self, standing: Standing) -> None:
        """Print a line every few seconds."""
        name, seconds = self._shown
        if name == standing.name and standing.seconds < seconds + _EVERY_S:
            return
        self._shown = (standing.name, standing.seconds)
        self.say(
            f"{standing.name}, {standing.seconds:.0f} s: {standing.complete} of {standing.there} resources complete, "
            f"{standing.calls} calls, {standing.throttled} throttled, {standing.lost} lost"
        )

    def table(self, rows: Sequence[tuple[str, ...]]) -> None:
        """Print the rows in columns."""
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for label, *cells in rows:
            self.say("  ".join([label.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]).rstrip())


class LiveDisplay:
    """A table that moves. Colours follow NO_COLOR, by rich's own rule."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._standings: dict[str, Standing] = {}

    def say(self, line: str = "") -> None:
        """Print the line as it is."""
        self._console.print(_printable(line), markup=False)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Draw until the context ends, then leave no trace: the final table says the same."""
        from rich.live import Live

        self._standings.clear()
        with Live(console=self._console, transient=True, refresh_per_second=8) as self._live:
            yield

    def show(self, standing: Standing) -> None:
        """Move the row of this run."""
        self._standings[standing.name] = standing
        if self._live is not None:
            self._live.update(_moving(self._standings.values()))

    def table(self, rows: Sequence[tuple[str, ...]]) -> None:
        """Print the rows as a table."""
        from rich import box
        from rich.table import Table

        head, *body = rows
        drawn = Table(box=box.SIMPLE_HEAD, title_justify="left")
        for number, name in enumerate(head):
            drawn.add_column(name, justify="right" if number else "left", style="" if number else "bold")
        for label, *cells in body:
            drawn.add_row(label, *(_lost(cell) if label == "lost calls" else cell for cell in cells))
        self._console.print(drawn)


def _lost(count: str) -> Text:
    from rich.text import Text

    return Text(count, style="green" if count == "0" else "bold red")


def _moving(standings: Any) -> Table:
    from rich import box
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD)
    for name, justify in (("", "left"), ("", "left"), ("complete", "right"), ("calls", "right"), ("throttled", "right")):
        drawn.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]  # literals in a tuple
    drawn.add_column("lost", justify="right")
    drawn.add_column("time", justify="right")
    for at in standings:
        drawn.add_row(
            at.name,
            ProgressBar(total=at.there, completed=at.complete, width=14),
            f"{at.complete}/{at.there}",
            str(at.calls),
            Text(str(at.throttled), style="yellow" if at.throttled else ""),
            _lost(str(at.lost)),
            f"{at.seconds:.0f} s",
        )
    return drawn
