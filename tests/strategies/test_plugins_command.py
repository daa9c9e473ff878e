"""`cloudretry plugins`: what is installed, without importing it, and whether one of them works."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from cloudretry.cli.plugins import plugins
from cloudretry.testing import RECORDED

Install = Callable[..., str]

STEADY = """
    class Strategy:
        def __init__(self, *, wait_ms=700, label=""):
            self.wait_ms = wait_ms

        def getDelay(self, context):
            return self.wait_ms if context.provider == "aws" else None
"""
PICKY = """
    class Strategy:
        def getDelay(self, context):
            return float(context.headers["Retry-After"]) * 1000
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(plugins, arguments)


def test_the_list_names_plugin_entry_point_and_distribution(install: Install) -> None:
    install("steady", STEADY)
    install("explosive", "raise RuntimeError('imported')")
    result = run()
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["steady", "cloudretry_steady:Strategy", "cloudretry-steady", "1.2.3"] in lines
    assert ["explosive", "cloudretry_explosive:Strategy", "cloudretry-explosive", "1.2.3"] in lines
    assert lines == sorted(lines)
    assert "cloudretry_explosive" not in sys.modules


def test_the_list_says_so_when_it_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "site-packages" not in entry])
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if "editable" not in repr(finder)])
    assert "no plugin is installed" in run().stdout


def test_check_tries_a_plugin_on_every_recorded_throttle(install: Install) -> None:
    install("steady", STEADY)
    result = run("check", "steady", "--retries", "3")
    assert result.exit_code == 0
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert [name for name, _ in lines] == list(RECORDED)
    assert dict(lines)["s3-slow-down"] == "700 700 700"
    assert dict(lines)["arm-429-retry-after"] == "stop (plugin)"
    assert result.stderr == ""


def test_options_reach_the_plugin(install: Install) -> None:
    install("steady", STEADY)
    result = run("check", "steady", "--retries", "1", "-o", "wait_ms=250", "-o", "label=plain text")
    assert " 250\n" in result.stdout


def test_a_number_that_looks_like_seconds_is_a_warning(install: Install) -> None:
    install("steady", STEADY)
    result = run("check", "steady", "-o", "wait_ms=2")
    assert result.exit_code == 0
    assert result.stderr.count("did it mean seconds?") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("nowhere",), "'nowhere' is not installed; installed: "),
        (("picky",), "raised KeyError"),
        (("broken",), "can't be imported"),
        (("steady", "-o", "speed=1"), "refused its plugin_options (speed)"),
        (("steady", "-o", 'wait_ms="soon"'), "returned a value of type str"),
    ],
)
def test_a_failure_is_one_line_and_exit_status_1(install: Install, arguments: tuple[str, ...], text: str) -> None:
    install("steady", STEADY)
    install("picky", PICKY)
    install("broken", "import a_module_that_is_not_there")
    result = run("check", *arguments)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert text in result.stderr
    assert "'" + arguments[0] + "'" in result.stderr


def test_an_option_without_a_value_is_a_usage_error(install: Install) -> None:
    install("steady", STEADY)
    result = run("check", "steady", "-o", "wait_ms")
    assert result.exit_code == 2
    assert "KEY=VALUE" in result.stderr
