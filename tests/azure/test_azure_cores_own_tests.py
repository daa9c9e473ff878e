"""azure-core's own tests of its retry policies, from the installed version's source distribution, with ours in their place.

They run under the preset `azure-core`, in which the SDK's counters and pauses decide. Needs a package index.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

_CONFTEST = """
import asyncio
import inspect

import azure.core.pipeline.policies as policies

from cloudretry.azure import policy as ours
from cloudretry.config import load_configuration
from cloudretry.runtime.engine import Engine

ENGINE = Engine(load_configuration({"azure": {"preset": "azure-core"}}).settings)
SENT = []


class Sync(ours.CloudRetryPolicy):
    def __init__(self, **kwargs):
        super().__init__(engine=ENGINE, **kwargs)

    def send(self, request):
        SENT.append(self)
        return super().send(request)


class Async(ours.AsyncCloudRetryPolicy):
    def __init__(self, **kwargs):
        super().__init__(engine=ENGINE, **kwargs)

    async def send(self, request):
        SENT.append(self)
        return await super().send(request)


policies.RetryPolicy, policies.AsyncRetryPolicy = Sync, Async


def pytest_pyfunc_call(pyfuncitem):
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_sessionfinish(session):
    if len({type(policy) for policy in SENT}) < 2:
        session.exitstatus = 9
"""
_FILES = ("test_retry_policy.py", "utils.py", "async_tests/test_retry_policy_async.py")


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """The files of the suite, in a folder of their own."""
    wanted = f"azure-core=={version('azure-core')}"
    command = ["download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary", "azure-core", wanted]
    fetched = subprocess.run([sys.executable, "-m", "pip", *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    archives = list(tmp_path.glob("*.tar.gz"))
    if fetched.returncode or not archives:
        pytest.skip(f"no source distribution of {wanted} (needs an index and setuptools): {fetched.stderr[-300:]}")
    folder = tmp_path / "suite"
    with tarfile.open(archives[0]) as archive:
        for name in _FILES:
            found = archive.extractfile(f"{archives[0].name.removesuffix('.tar.gz')}/tests/{name}")
            assert found is not None
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(found.read())
    (folder / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = asyncio\n", encoding="utf-8")
    return folder


def test_they_pass_with_our_classes(suite: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "-p",
        "no:xdist",
        *_FILES[::2],
    ]
    ran = subprocess.run(command, cwd=suite, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:]
    assert " passed" in ran.stdout
    assert "skipped" not in ran.stdout
