"""What `cloudretry run` leaves behind of lost calls: records, pages, recoveries, and a table for who reads the terminal."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from cloudretry.core.lost import LostCall
from cloudretry.launcher.summary import Summary, merge
from cloudretry.report import OperationReport

PAGE = """<ListUsersResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><ListUsersResult><Users/>
<IsTruncated>true</IsTruncated><Marker>{}</Marker></ListUsersResult></ListUsersResponse>"""
LISTS = """
import sys
import boto3
try:
    for page in boto3.client("iam", endpoint_url=sys.argv[1]).get_paginator("list_users").paginate():
        print("page")
except Exception as error:
    print(type(error).__name__)
"""
LOOPS = """
import sys
import boto3
client = boto3.client("sts", endpoint_url=sys.argv[1])
for _ in range(5):
    try:
        print(client.get_caller_identity()["Account"])
        break
    except Exception as error:
        print(type(error).__name__)
"""


def left_in(folder: Path, name: str = "report.json") -> Any:
    return json.loads((folder / name).read_text())


@pytest.mark.wire
def test_the_page_and_the_token_where_a_listing_stopped(
    run: Any, script: Any, serve: Any, Answer: Any, throttle: Any, tmp_path: Path
) -> None:
    server = serve(*[Answer(200, PAGE.format(f"marker-{number}").encode()) for number in (2, 3)], throttle)
    out = tmp_path / "out"
    result = run("--report", str(out), "--fail-on-loss", "--", sys.executable, script(LISTS), server.url)
    assert (result.returncode, result.stdout) == (3, "page\npage\nClientError\n")
    (lost,) = left_in(out)["lost"]
    assert (lost["operation"], lost["page"], lost["token"]) == ("ListUsers", 3, "marker-3")
    assert (lost["status"], lost["code"], lost["reason"]) == (400, "Throttling", "max_retries")
    assert lost["rule"] == "max_retries=6 (CLOUDRETRY__AWS__MAX_RETRIES)"
    assert LostCall.from_dict(lost).at is not None
    assert " page=3 " in lost["line"]
    assert "marker-3" not in result.stderr + (out / "completeness.json").read_text() + (out / "journal.jsonl").read_text()
    assert "ListUsers" in result.stderr
    assert ": 1 call (max_retries 1), pages from 3 on are missing\n" in result.stderr


AZURE = """
import asyncio, importlib, sys
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import SansIOHTTPPolicy
def client(aio):
    for name in ("azure.mgmt.resource.resources", "azure.mgmt.resource"):
        try:
            kind = importlib.import_module(name + ".aio" * aio).ResourceManagementClient
        except (ImportError, AttributeError):
            continue
        return kind(object(), "s-1", base_url=sys.argv[1], authentication_policy=SansIOHTTPPolicy())
async def main():
    async with client(aio=True) as made:
        return [group.name async for group in made.resource_groups.list()]
try:
    if sys.argv[2] == "aio":
        asyncio.run(main())
    else:
        list(client(aio=False).resource_groups.list())
except HttpResponseError as error:
    print(error.status_code)
"""


@pytest.mark.wire
@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_the_page_and_the_token_where_a_listing_of_azures_stopped(
    run: Any, script: Any, serve: Any, Answer: Any, tmp_path: Path, kind: str
) -> None:
    pytest.importorskip("azure.mgmt.resource")
    pytest.importorskip("aiohttp")
    server = serve()
    links = [f"{server.url}/subscriptions/s-1/resourcegroups?api-version=1&$skiptoken=next%20{number}" for number in (2, 3)]
    headers = {"Content-Type": "application/json", "x-ms-request-id": "r-1"}
    pages = [json.dumps({"value": [], "nextLink": link}).encode() for link in links]
    throttled = Answer(429, b'{"error": {"code": "TooManyRequests", "message": "no"}}', headers)
    server.say(*[Answer(200, page, headers) for page in pages], throttled)
    out = tmp_path / "out"
    result = run("--report", str(out), "--fail-on-loss", "--", sys.executable, script(AZURE), server.url, kind)
    assert (result.returncode, result.stdout) == (3, "429\n")
    (lost,) = left_in(out)["lost"]
    assert (lost["operation"], lost["account"]) == ("GET resourceGroups", "s-1")
    assert (lost["page"], lost["token"], lost["request_id"]) == (3, "next 3", "r-1")
    assert "next 3" not in result.stderr
    assert "resourceGroups@s-1/-: 1 call (max_retries 1), pages from 3 on are missing\n" in result.stderr
    assert left_in(out, "completeness.json") == {"s-1": {"-": {"Microsoft.Resources:GET resourceGroups": "partial"}}}


@pytest.mark.wire
def test_what_a_loop_got_in_the_end_is_no_loss(
    run: Any, script: Any, serve: Any, Answer: Any, throttle: Any, identity: Any, tmp_path: Path
) -> None:
    server = serve(*[throttle] * 8, identity)
    out = tmp_path / "out"
    result = run("--report", str(out), "--fail-on-loss", "--", sys.executable, script(LOOPS), server.url)
    assert (result.returncode, result.stdout) == (0, "ClientError\nClientError\n111122223333\n")
    report = left_in(out)
    assert (report["total"]["calls"], report["total"]["lost"], report["total"]["recovered"]) == (3, 0, 2)
    assert (report["lost"], [lost["attempts"] for lost in report["recovered"]]) == ([], [7, 1])
    assert "0 lost, 2 repeated by loops around them, 2 recovered by them" in result.stderr
    (of_account,) = left_in(out, "completeness.json").values()
    assert of_account == {"eu-west-1": {"sts:GetCallerIdentity": "complete"}}


PRINCIPALS = """
import sys
import boto3
for key in ("AKIAIOSFODNN7EXAMPLE", "AKIAI44QH8DHBEXAMPLE"):
    try:
        boto3.Session(key, "fake", region_name="eu-west-1").client("sts", endpoint_url=sys.argv[1]).get_caller_identity()
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.mark.wire
def test_accounts_that_nobody_named_are_not_mixed(
    run: Any, script: Any, serve: Any, throttle: Any, identity: Any, tmp_path: Path
) -> None:
    server, out = serve(*[throttle] * 7, identity), tmp_path / "out"
    result = run("--report", str(out), "--", sys.executable, script(PRINCIPALS), server.url)
    assert result.stdout == "ClientError\n"
    assert left_in(out, "completeness.json") == {
        "key:087defd4dba80dcd": {"eu-west-1": {"sts:GetCallerIdentity": "complete"}},
        "key:581039954779": {"eu-west-1": {"sts:GetCallerIdentity": "partial"}},
    }
    report = left_in(out)
    assert [(each["account"], each["principal"]) for each in report["operations"]] == [
        (None, "key:087defd4dba80dcd"),
        (None, "key:581039954779"),
    ]
    assert "lost sts:GetCallerIdentity@key:581039954779/eu-west-1: 1 call (max_retries 1)\n" in result.stderr
    assert all("AKIA" not in path.read_text() for path in out.rglob("*") if path.is_file())


@pytest.mark.wire
def test_what_is_left_is_its_owners_alone(run: Any, script: Any, throttling: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.json").write_text("of another tool")
    (out / "report.json").chmod(0o644)
    run("--report", str(out), "--", sys.executable, script(LOOPS), throttling.url)
    files = [*out.glob("*.json*"), *out.glob("processes-*/*")]
    assert sorted(file.name for file in files)[-3:] == ["completeness.json", "journal.jsonl", "report.json"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert sorted(path.name for path in out.iterdir() if path.is_file()) == [
        "completeness.json",
        "journal.jsonl",
        "report.json",
    ]


@pytest.mark.wire
def test_a_second_run_takes_the_place_of_the_first(run: Any, script: Any, throttling: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "processes-mine").mkdir(parents=True)
    (out / "processes-mine" / "1-00000000.jsonl").write_text("{}")
    for _ in range(2):
        run("--report", str(out), "--", sys.executable, script(LOOPS), throttling.url)
        report = left_in(out)
        assert (report["processes"], report["total"]["calls"], len(report["lost"])) == (1, 5, 5)
        assert sorted(path.name for path in out.glob("processes-*")) == sorted(["processes-mine", report["folder"]])


@pytest.mark.wire
def test_while_a_run_goes_on_nothing_of_the_last_one_can_be_read(
    run: Any, script: Any, throttling: Any, answering: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run("--report", str(out), "--", sys.executable, script(LOOPS), answering(0).url)
    first = left_in(out)
    assert first["started"] <= first["ended"]
    looks = f"{LOOPS}\nimport os\nprint(sorted(os.listdir(sys.argv[2])))\nprint(open(sys.argv[2] + '/journal.jsonl').read())\n"
    killed = f"{looks}os.kill(os.getppid(), 9)"
    result = run("--report", str(out), "--", sys.executable, script(killed), throttling.url, str(out))
    assert result.returncode == -9
    listed, journal = result.stdout.split("ClientError\n")[-1].split("\n", 1)
    assert [name for name in eval(listed) if not name.startswith("processes-")] == ["journal.jsonl"]  # noqa: S307 - of our own
    assert "max_retries" in journal
    assert not (out / "completeness.json").exists()


def test_of_a_folder_that_somebody_else_uses_nothing_is_removed(run: Any, tmp_path: Path) -> None:
    out, folder = tmp_path / "out", tmp_path / "out" / "processes-mine"
    folder.mkdir(parents=True)
    for name in ("1-00000000.jsonl", "notes.txt"):
        (folder / name).write_text("{}")
    (out / "report.json").write_text(json.dumps({"folder": "processes-mine"}))
    run("--report", str(out), "--", sys.executable, "-c", "")
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]
    (out / "report.json").write_text(json.dumps({"folder": "../processes-mine"}))
    run("--report", str(out), "--", sys.executable, "-c", "")
    assert folder.exists()


def test_a_program_that_calls_nothing(run: Any, tmp_path: Path) -> None:
    result = run("--report", str(tmp_path / "out"), "--", sys.executable, "-c", "")
    assert result.stderr == "cloudretry: no call was made\n"


def lost_call(operation: str, **changed: Any) -> LostCall:
    nothing = dict.fromkeys(("principal", "page", "token", "status", "code", "request_id", "retry_at", "at"))
    known = {"provider": "aws", "service": "ec2", "operation": operation, "account": "1", "region": "a"}
    return LostCall(**{**nothing, **known, "attempts": 9, "waited": 1.0, "reason": "max_retries", **changed})


def counted(folder: Path, name: str, lost: list[LostCall], count: int | None = None) -> str:
    """The file of a process that has lost these, and others that it has not listed."""
    totals: dict[tuple[Any, ...], int] = {}
    for each in lost:
        key = (each.provider, each.service, each.operation, each.region, each.account, each.principal)
        totals[key] = totals.get(key, 0) + 1
    operations = [
        {
            "row": row,
            **dict(zip(("provider", "service", "operation", "region", "account", "principal"), key, strict=True)),
            **dict.fromkeys(OperationReport.__slots__, 0),
            "calls": 100,
            "lost": count or number,
        }
        for row, (key, number) in enumerate(totals.items())
    ]
    path = folder / name
    known = {"process": name, "program": "p", "number": 1, "operations": operations, "recovered": []}
    path.write_text(json.dumps({**known, "lost": [each.to_dict() for each in lost]}) + "\n")
    return str(path)


def lines(summary: Summary) -> list[str]:
    return [line.removeprefix("cloudretry: lost ") for line in summary.lines()][1:]


def test_equal_losses_of_several_processes_are_one_line(tmp_path: Path) -> None:
    one = [lost_call("DescribeVpcs", page=4), lost_call("DescribeVpcs", page=2, reason="unreachable"), lost_call("ListX")]
    two = [lost_call("DescribeVpcs"), lost_call("DescribeVpcs", region="b")]
    summary = merge([counted(tmp_path, "1.jsonl", one), counted(tmp_path, "2.jsonl", two)])
    assert lines(summary) == [
        "ec2:DescribeVpcs@1/a: 3 calls (max_retries 2, unreachable 1), pages from 2 on are missing",
        "ec2:DescribeVpcs@1/b: 1 call (max_retries 1)",
        "ec2:ListX@1/a: 1 call (max_retries 1)",
    ]


def test_the_table_ends_after_twenty(tmp_path: Path) -> None:
    lost = [lost_call(f"Describe{number:02}") for number in range(25)]
    summary = merge([counted(tmp_path, "1.jsonl", [*lost, lost[24]])])
    told = lines(summary)
    assert len(told) == 21
    assert told[0] == "ec2:Describe24@1/a: 2 calls (max_retries 2)"
    assert told[-1] == "cloudretry: and 5 more"


def test_counts_go_before_the_list(tmp_path: Path) -> None:
    summary = merge([counted(tmp_path, "1.jsonl", [lost_call("ListX")], count=12_000)])
    assert lines(summary) == ["ec2:ListX@1/a: 12000 calls (max_retries 1)"]


@pytest.mark.parametrize("content", ["", "\n\n{}", '{"operations": []\n', '{"operations": [], "lost": ["a line"]}\n', "[]\n"])
def test_what_is_torn_is_named(tmp_path: Path, content: str) -> None:
    torn = tmp_path / "2.jsonl"
    torn.write_text(content)
    summary = merge([counted(tmp_path, "1.jsonl", [lost_call("ListX")]), str(torn)])
    assert (summary.processes, summary.total.lost, summary.is_incomplete) == (1, 1, True)
    assert list(summary.lines())[-1] == f"cloudretry: {torn}: can't be read to its end, so counts are missing here"
