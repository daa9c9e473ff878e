"""The public names are a list that this test guards; importing them stays cheap."""

from __future__ import annotations

import subprocess
import sys

import cloudretry


def test_all_is_sorted_visible_and_complete() -> None:
    assert cloudretry.__all__ == sorted(cloudretry.__all__)
    assert set(cloudretry._HOMES) == set(cloudretry.__all__)
    for name in cloudretry.__all__:
        assert getattr(cloudretry, name) is not None
    visible = {name for name in dir(cloudretry) if name.isidentifier() and not name.startswith("_")}
    modules = {
        "aws",
        "azure",
        "cli",
        "commands",
        "config",
        "core",
        "demo",
        "egress",
        "errors",
        "launcher",
        "order",
        "references",
        "report",
        "runtime",
        "simcloud",
    }
    modules |= {"strategies", "telemetry", "testing", "annotations", "import_module", "Any", "TYPE_CHECKING"}
    assert visible - modules == set(cloudretry.__all__)


def test_importing_brings_no_sdk_and_nothing_heavy() -> None:
    script = "import sys, cloudretry; print([name for name in sys.modules if name in %r])"
    heavy = ["boto3", "botocore", "pydantic", "rich", "click", "azure", "aiohttp", "moto"]
    result = subprocess.run([sys.executable, "-c", script % (heavy,)], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_client_under_the_built_in_settings_needs_no_pydantic() -> None:
    script = (
        "import sys; sys.modules['pydantic'] = None\n"
        "import boto3, cloudretry\n"
        "client = cloudretry.attach(boto3.client('sts', region_name='eu-west-1'))\n"
        "print('_cloudretry' in vars(client))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "True"
