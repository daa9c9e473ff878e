"""SPEC A4: plugins are found by entry point, built once with their options, and refused with an error that helps."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from cloudretry.core.context import BackoffContext
from cloudretry.errors import ConfigurationError, PluginNotFound
from cloudretry.strategies.registry import build_plugin, installed_plugins

Install = Callable[..., str]
CONTEXT = BackoffContext()

FIXED = """
    class Strategy:
        def __init__(self, *, wait_ms=700):
            self.wait_ms = wait_ms

        def getDelay(self, context):
            return self.wait_ms
"""


def test_a_class_is_built_with_its_options(install: Install) -> None:
    install("fixed", FIXED)
    plugin = build_plugin("fixed", {"wait_ms": 1200})
    assert (plugin.name, plugin.distribution) == ("fixed", "cloudretry-fixed")
    assert plugin.ask(CONTEXT) == 1.2
    assert build_plugin("fixed", {}).ask(CONTEXT) == 0.7


def test_get_delay_is_the_same(install: Install) -> None:
    install("snake", FIXED.replace("getDelay", "get_delay"))
    assert build_plugin("snake", {}).ask(CONTEXT) == 0.7


def test_an_object_is_used_as_it_is(install: Install) -> None:
    install("ready", FIXED + "\n    ready = Strategy(wait_ms=100)\n", loads="ready")
    assert build_plugin("ready", {}).ask(CONTEXT) == 0.1


def test_a_module_that_has_getdelay_is_an_object_too(install: Install) -> None:
    distribution = install("module", "def getDelay(context):\n    return 50\n")
    entry_points = next(Path(sys.path[0]).glob("*.dist-info")) / "entry_points.txt"
    entry_points.write_text(f"[cloudretry.backoff]\nmodule = {distribution.replace('-', '_')}\n", encoding="utf-8")
    assert build_plugin("module", {}).ask(CONTEXT) == 0.05


def test_an_object_takes_no_options(install: Install) -> None:
    install("ready", FIXED + "\n    ready = Strategy()\n", loads="ready")
    with pytest.raises(ConfigurationError, match="is an object, not a class, and takes no plugin_options"):
        build_plugin("ready", {"wait_ms": 5})


def test_plugins_are_listed_without_importing_them(install: Install) -> None:
    install("explosive", "raise RuntimeError('imported')")
    install("alpha", FIXED)
    names = list(installed_plugins())
    assert {"alpha", "explosive"} <= set(names)
    assert names == sorted(names)
    assert "cloudretry_explosive" not in sys.modules


def test_a_plugin_that_is_not_installed_is_an_error_that_lists_those_that_are(install: Install) -> None:
    install("alpha", FIXED)
    install("beta", FIXED)
    with pytest.raises(PluginNotFound, match=r"'gamma' is not installed; installed: .*alpha.*beta"):
        build_plugin("gamma", {})


def test_a_plugin_that_cannot_be_imported_is_a_configuration_error(install: Install) -> None:
    install("broken", "import a_module_that_is_not_there")
    with pytest.raises(ConfigurationError, match=r"'broken' .*cloudretry-broken.* can't be imported: ModuleNotFoundError"):
        build_plugin("broken", {})


def test_an_entry_point_that_names_nothing_is_a_configuration_error(install: Install) -> None:
    install("nothing", FIXED, loads="Missing")
    with pytest.raises(ConfigurationError, match="can't be imported: AttributeError"):
        build_plugin("nothing", {})


def test_a_class_without_getdelay_is_a_configuration_error(install: Install) -> None:
    install("empty", "class Strategy:\n    getDelay = 3\n")
    with pytest.raises(ConfigurationError, match=r"'empty' .* has no getDelay\(context\)"):
        build_plugin("empty", {})


def test_a_name_that_two_distributions_offer_is_an_error_that_names_both(install: Install) -> None:
    install("fixed", FIXED, distribution="first-package")
    install("fixed", FIXED, distribution="second-package")
    with pytest.raises(ConfigurationError, match="'fixed' is offered by first-package and second-package"):
        build_plugin("fixed", {})


PICKY = """
    class Strategy:
        def __init__(self, *, token):
            raise ValueError(f"bad token {token}")

        def getDelay(self, context):
            return 1000
"""


def test_a_refused_option_is_named_without_its_value(install: Install) -> None:
    install("picky", PICKY)
    with pytest.raises(ConfigurationError, match=r"refused its plugin_options \(token\): ValueError") as refused:
        build_plugin("picky", {"token": "plain"})
    assert "plain" not in str(refused.value)
    assert isinstance(refused.value.__cause__, ValueError)  # the plugin's author sees why


def test_not_even_a_traceback_shows_a_secret(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("picky", PICKY)
    monkeypatch.setenv("PLUGIN_TOKEN", "hunter2")
    with pytest.raises(ConfigurationError) as refused:
        build_plugin("picky", {"token": "${env:PLUGIN_TOKEN}"})
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


def test_an_unknown_option_is_refused(install: Install) -> None:
    install("fixed", FIXED)
    with pytest.raises(ConfigurationError, match=r"refused its plugin_options \(speed\): TypeError"):
        build_plugin("fixed", {"speed": 1})


ECHO = """
    class Strategy:
        seen = []

        def __init__(self, **options):
            self.seen.append(options)

        def getDelay(self, context):
            return 1000
"""


def test_secrets_are_resolved_when_the_plugin_is_built_and_only_there(
    install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install("echo", ECHO)
    secret = tmp_path / "secret"
    secret.write_text("from a file\n", encoding="utf-8")
    options = {"token": "${env:PLUGIN_TOKEN}", "key": f"${{file:{secret}}}", "hosts": ["a", "${env:PLUGIN_TOKEN}"]}
    monkeypatch.setenv("PLUGIN_TOKEN", "hunter2")
    build_plugin("echo", options)
    built_with = sys.modules["cloudretry_echo"].Strategy.seen
    assert built_with == [{"token": "hunter2", "key": "from a file", "hosts": ["a", "hunter2"]}]
    assert options["token"] == "${env:PLUGIN_TOKEN}"


def test_a_secret_that_is_missing_is_named(install: Install) -> None:
    install("echo", ECHO)
    with pytest.raises(ConfigurationError, match="the environment has no variable NOT_SET_ANYWHERE"):
        build_plugin("echo", {"token": "${env:NOT_SET_ANYWHERE}"})
