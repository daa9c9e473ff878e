from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from cloudretry.demo.display import LiveDisplay, PlainDisplay, Standing, choose_display

if TYPE_CHECKING:
    import pytest

STANDING = Standing(name="plain boto3", complete=3, there=9, calls=20, throttled=4, lost=1, seconds=0.2)
ROWS = [("", "plain boto3", "cloudretry"), ("lost calls", "5", "0")]
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")


def drawn(monkeypatch: pytest.MonkeyPatch, *, no_color: bool) -> str:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    display = LiveDisplay(Console(file=out, force_terminal=True, width=80, highlight=False))
    with display.live():
        display.show(STANDING)
    display.table(ROWS)
    display.say("[bold]not markup\x1b[31m")
    return out.getvalue()


def test_live_shows_every_count_and_then_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    text = drawn(monkeypatch, no_color=False)
    assert "3/9" in text
    assert COLOUR.search(text)
    assert re.search(r"lost calls +5 +0", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text))
    assert "[bold]not markup[31m" in text


def test_what_one_cloud_showed_is_gone_when_the_next_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    out = io.StringIO()
    display = LiveDisplay(Console(file=out, force_terminal=True, width=80))
    with display.live():
        display.show(STANDING)
    before = out.tell()
    with display.live():
        display.show(replace(STANDING, name="plain Azure SDK"))
    assert "plain Azure SDK" in out.getvalue()[before:]
    assert "plain boto3" not in out.getvalue()[before:]


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    text = drawn(monkeypatch, no_color=True)
    assert "3/9" in text
    assert not COLOUR.search(text)


def test_without_a_terminal_lines_are_plain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    display = choose_display()
    assert isinstance(display, PlainDisplay)
    with display.live():
        display.show(STANDING)
        display.show(replace(STANDING, seconds=1.0))
        display.show(replace(STANDING, seconds=4.0, complete=8))
        display.show(replace(STANDING, name="cloudretry", seconds=0.0))
    display.table(ROWS)
    display.say("\x1b[31mred\x07")
    assert capsys.readouterr().out.splitlines() == [
        "plain boto3, 0 s: 3 of 9 resources complete, 20 calls, 4 throttled, 1 lost",
        "plain boto3, 4 s: 8 of 9 resources complete, 20 calls, 4 throttled, 1 lost",
        "cloudretry, 0 s: 3 of 9 resources complete, 20 calls, 4 throttled, 1 lost",
        "            plain boto3  cloudretry",
        "lost calls            5           0",
        "[31mred",
    ]
