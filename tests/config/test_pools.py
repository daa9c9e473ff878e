from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudretry.config import Configuration, load_configuration
from cloudretry.config.compiled import refuse_secrets
from cloudretry.config.rendering import parse_call, show, show_call
from cloudretry.core.call import Call
from cloudretry.core.pool_settings import Cooldown, Member, PoolSettings, Probe, Slow
from cloudretry.core.settings import Settings
from cloudretry.errors import ConfigurationError

Load = Callable[..., Configuration]
Problems = Callable[..., list[str]]

GOLDEN = Path(__file__).parent / "golden"
FULL = """
[aws]
pool = "corp"

[[aws.overrides]]
match = { service = "s3" }
pool = "zones"

[[aws.overrides]]
match = { service = "sts" }
pool = ""

[pools.corp]
members = [
  "http://${env:PROXY_USER}:${env:PROXY_PASS}@egress-a:3128",
  { url = "socks5h://egress-b:1080", name = "b", weight = 3, disabled = true },
  { direct = true, backup = true },
]
algorithm = "round_robin"
retries = 2
connect_timeout = "2s"
exhausted_answer = "connection_error"
when_unavailable = "fail"
bypass = [".example.com", "10.0.0.0/8", "[::1]", "*"]
ca_bundle = "/etc/ssl/proxy.pem"

[pools.corp.cooldown]
initial = "1s"
factor = 3
max_ms = 60000
jitter = 0.5
failures = 2
timeouts = 4
destinations = 5
auth_recheck = "1m"

[pools.corp.probe]
kind = "https_get"
url = "https://sts.amazonaws.com/"
concurrency = 2
successes = 3
lease = "30s"
timeout_ms = 1500

[pools.corp.slow]
first_byte = "10s"
per_mib_ms = 500
threshold = 5

[pools.zones]
members = [{ connect_to = "10.0.0.1:443" }, { connect_to = "[fd00::1]:443" }]
"""

CORP = PoolSettings(
    name="corp",
    members=(
        Member(name="egress-a:3128", url="http://${env:PROXY_USER}:${env:PROXY_PASS}@egress-a:3128"),
        Member(name="b", url="socks5h://egress-b:1080", weight=3, disabled=True),
        Member(name="direct", direct=True, backup=True),
    ),
    algorithm="round_robin",
    retries=2,
    connect_timeout=2.0,
    exhausted_answer="connection_error",
    when_unavailable="fail",
    bypass=(".example.com", "10.0.0.0/8", "[::1]", "*"),
    ca_bundle="/etc/ssl/proxy.pem",
    cooldown=Cooldown(initial=1.0, factor=3.0, max=60.0, jitter=0.5, failures=2, timeouts=4, destinations=5, auth_recheck=60.0),
    probe=Probe(kind="https_get", url="https://sts.amazonaws.com/", concurrency=2, successes=3, lease=30.0, timeout=1.5),
    slow=Slow(first_byte=10.0, per_mib=0.5, threshold=5),
)
ZONES = PoolSettings(
    name="zones",
    members=(
        Member(name="10.0.0.1:443", connect_to="10.0.0.1:443"),
        Member(name="[fd00::1]:443", connect_to="[fd00::1]:443"),
    ),
)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """load_configuration of a process that has nothing but what the test gives it."""

    def loaded(source: Any = None, *, users: str = "", **variables: str) -> Configuration:
        if users:
            (tmp_path / "users.toml").write_text(users)
            variables["CLOUDRETRY_CONFIG"] = str(tmp_path / "users.toml")
        return load_configuration(source, environ=variables, cwd=tmp_path / "empty")

    return loaded


@pytest.fixture
def problems(load: Load, tmp_path: Path) -> Problems:
    def told(source: Any = None, **variables: str) -> list[str]:
        if isinstance(source, str):
            (tmp_path / "c.toml").write_text(source)
            source = tmp_path / "c.toml"
        with pytest.raises(ConfigurationError) as refused:
            load(source, **variables)
        return [problem.replace(f"{tmp_path}/", "") for problem in refused.value.problems]

    return told


def pool(*members: Any, **settings: Any) -> dict[str, Any]:
    return {"aws": {"pool": "p"}, "pools": {"p": {"members": list(members), **settings}}}


def test_every_setting_is_read(load: Load) -> None:
    assert load(users=FULL).settings.pools == {"corp": CORP, "zones": ZONES}


def test_the_built_in_values_are_the_specified_ones(load: Load) -> None:
    only = load(pool({"direct": True})).settings.pools["p"]
    assert only == PoolSettings(name="p", members=(Member(name="direct", direct=True),))
    assert only.cooldown == Cooldown(
        initial=5.0, factor=2.0, max=300.0, jitter=0.2, failures=1, timeouts=3, destinations=3, auth_recheck=900.0
    )


def test_without_a_pool_there_is_none(load: Load) -> None:
    settings = load().settings
    assert settings.pools == {}
    assert settings.providers["aws"].retry.pool is None


@pytest.mark.parametrize(("service", "name"), [("ec2", "corp"), ("s3", "zones"), ("sts", None)])
def test_an_override_may_choose_another_or_none(load: Load, service: str, name: str | None) -> None:
    call = Call(provider="aws", service=service, operation="X")
    assert load(users=FULL).settings.providers["aws"].for_call(call).pool == name


def test_what_is_shown_can_be_loaded_again(load: Load, tmp_path: Path) -> None:
    configuration = load(users=FULL)
    shown = show(configuration)
    for suffix, text in ((".toml", shown.as_toml(with_origins=True)), (".json", shown.as_json())):
        (tmp_path / f"again{suffix}").write_text(text)
        assert load(tmp_path / f"again{suffix}").settings == configuration.settings


def test_compiled_settings_are_equal_and_hold_references(load: Load) -> None:
    settings = load(users=FULL, PROXY_USER="me", PROXY_PASS="hunter2").settings
    compiled = settings.to_json()
    assert Settings.from_json(compiled) == settings
    assert "hunter2" not in compiled
    assert "${env:PROXY_PASS}" in compiled


def test_origins_are_told_down_to_the_inner_tables(load: Load) -> None:
    variables = {"CLOUDRETRY__POOLS__CORP__COOLDOWN__JITTER": "0.1", "CLOUDRETRY__POOLS__CORP__RETRIES": "5"}
    configuration = load(users=FULL, **variables)
    corp = configuration.settings.pools["corp"]
    assert (corp.retries, corp.cooldown.jitter, corp.cooldown.factor) == (5, 0.1, 3.0)
    origins = {name: str(place).rpartition("/")[2] for name, place in configuration.origins.items()}
    assert origins["pools.corp.retries"] == "CLOUDRETRY__POOLS__CORP__RETRIES"
    assert origins["pools.corp.cooldown.jitter"] == "CLOUDRETRY__POOLS__CORP__COOLDOWN__JITTER"
    assert origins["pools.corp.cooldown.factor"] == "users.toml:29:1"
    assert origins["pools.corp.members[1]"] == "users.toml:16:3"
    assert origins["pools.zones.retries"] == "built-in"
    assert f"# {origins['pools.corp.retries']}" in show(configuration).as_toml(with_origins=True)


def test_for_one_operation_its_pool_is_shown(load: Load) -> None:
    configuration = load(users=FULL)
    assert list(show_call(configuration, parse_call("s3:ListBuckets")).document["pools"]) == ["zones"]
    assert "pools" not in show_call(configuration, parse_call("sts:GetCallerIdentity")).document


def test_a_variable_means_the_pool_that_looks_the_same(load: Load) -> None:
    source = {"pools": {"EU-West": {"members": ["http://a:1"]}}, "aws": {"pool": "EU-West"}}
    settings = load(source, CLOUDRETRY__POOLS__EU_WEST__RETRIES="1").settings
    assert {name: pool.retries for name, pool in settings.pools.items()} == {"EU-West": 1}


def test_a_pool_may_be_written_in_variables_alone(load: Load) -> None:
    variables = {
        "CLOUDRETRY__AWS__POOL": "corp",
        "CLOUDRETRY__POOLS__CORP__MEMBERS": "http://a:1, http://b:2",
        "CLOUDRETRY__POOLS__CORP__BYPASS": '[".example.com"]',
        "CLOUDRETRY__POOLS__CORP__CONNECT_TIMEOUT_MS": "1500",
    }
    corp = load(**variables).settings.pools["corp"]
    assert [member.name for member in corp.members] == ["a:1", "b:2"]
    assert (corp.bypass, corp.connect_timeout) == ((".example.com",), 1.5)
    variables["CLOUDRETRY__POOLS__CORP__MEMBERS"] = '[{"connect_to": "10.0.0.1:443", "weight": 2}]'
    assert load(**variables).settings.pools["corp"].members[0].weight == 2


def test_lists_of_members_replace_each_other(load: Load) -> None:
    configuration = load(pool("http://c:3"), users='[pools.p]\nmembers = ["http://a:1"]\nretries = 1\n')
    assert [member.name for member in configuration.settings.pools["p"].members] == ["c:3"]
    assert configuration.settings.pools["p"].retries == 1


NAMES = [
    (["http://u:p@h:1", "http://u:q@h:1", "http://h:1"], ["h:1", "h:1#2", "h:1#3"]),
    ([{"url": "http://h:1", "name": "h:2"}, "http://h:2"], ["h:2", "h:2#2"]),
    (["${env:HTTPS_PROXY}", "${file:/run/secrets/proxy}"], ["HTTPS_PROXY", "proxy"]),
    (["http://${env:HOST}:${env:PORT}"], ["HOST:PORT"]),
    (["http://[fd00::1]:80/"], ["[fd00::1]:80"]),
    ([{"direct": True}, {"connect_to": "1.2.3.4:5"}], ["direct", "1.2.3.4:5"]),
]


@pytest.mark.parametrize(("members", "names"), NAMES)
def test_names_are_made_of_what_is_no_secret(load: Load, members: list[Any], names: list[str]) -> None:
    assert [member.name for member in load(pool(*members)).settings.pools["p"].members] == names


def test_ten_thousand_members_with_one_host_get_names(load: Load) -> None:
    members = load(pool(*(f"http://u{number}:${{env:P}}@h:1" for number in range(10_000)))).settings.pools["p"].members
    assert len({member.name for member in members}) == 10_000


WRONG = [
    ("ftp://h:1", "members[0].url: 'ftp://h:1' is not the URL of a proxy; accepted: http://, https://, socks5://"),
    ("http://h", "is not the URL of a proxy; accepted: http://, https://, socks5:// or socks5h:// with a host and a port"),
    ("h:3128", "members[0].url: 'h:3128' is not the URL of a proxy"),
    ("http://h:99999", "is not the URL"),
    ("http://h:1/path", "is not the URL"),
    ("http://***@h:1", "is not the URL"),
    ("http://${vault:x}@h:1", "is not the URL"),
    ({}, "members[0]: a table of 0 is not a member; accepted: the URL of a proxy, or a table with exactly one of url"),
    ({"url": "http://h:1", "direct": True}, "members[0]: a table of 2 is not a member"),
    ({"direct": False}, "members[0].direct: False is not a switch; accepted: true"),
    ({"connect_to": "h:1"}, "members[0].connect_to: 'h:1' is not an address with a port; accepted: an IP address with a port"),
    ({"connect_to": "1.2.3.400:1"}, "is not an address with a port"),
    ({"connect_to": "[fd00::1]:0"}, "is not an address with a port"),
    ({"connect_to": "fd00::1:443"}, "is not an address with a port"),
    ({"connect_to": "1.2.3.4"}, "is not an address with a port"),
    ({"url": "http://h:1", "weight": 0}, "members[0].weight: 0 is not a weight; accepted: a whole number from 1 to 1000"),
    ({"url": "http://h:1", "name": "a b"}, "members[0].name: 'a b' is not the name of a member"),
    ({"url": "http://h:1", "wieght": 2}, "members[0].wieght: unknown key of a member; did you mean weight?"),
    (3, "members[0]: 3 is not a member"),
]


@pytest.mark.parametrize(("member", "problem"), WRONG)
def test_a_faulty_member_is_told(problems: Problems, member: Any, problem: str) -> None:
    (told,) = problems(pool(member))
    assert told.startswith("argument: pools.p.members[0]")
    assert problem in told


def test_all_problems_are_told_at_once_each_with_its_place(problems: Problems) -> None:
    told = problems((GOLDEN / "pools_wrong.toml").read_text(encoding="utf-8"))
    assert told == (GOLDEN / "pools_wrong.txt").read_text(encoding="utf-8").splitlines()


def test_of_a_thousand_equal_members_one_line_tells(problems: Problems) -> None:
    told = problems(pool(*[{"url": "http://a:1", "name": "x"}] * 1_000))
    assert [line.partition("pools.")[2] for line in told] == [
        "p.members[1]: is the same as members[0], and so are 998 more; weight gives a member more of the work",
        "p.members[1].name: 'x' is the name of members[0] too, and of 998 more",
    ]


def test_pools_must_be_a_table(problems: Problems) -> None:
    (told,) = problems("pools = 3\n")
    assert told == "c.toml:1:1: pools: 3 is not a table of pools; accepted: a table for each pool, [pools.NAME]"
    (told,) = problems({"pools": {"corp": ["http://a:1"]}})
    assert "pools.corp: a list of 1 is not a pool; accepted: a table of settings such as [pools.corp] members" in told


def test_milliseconds_have_the_same_bounds(problems: Problems) -> None:
    (told,) = problems(pool("http://a:1", connect_timeout_ms=0))
    assert told.endswith("0 is not a number of milliseconds; accepted: a number above 0, at most 86400000")


def test_a_probe_that_asks_for_nothing(problems: Problems) -> None:
    (told,) = problems(pool("http://a:1", probe={"kind": "https_get"}))
    assert told == "argument: pools.p.probe.kind: https_get needs probe.url, what to ask for"


def test_a_setting_of_a_pool_in_the_wrong_place(problems: Problems) -> None:
    (told,) = problems({"members": ["http://a:1"]})
    assert told == "argument: members: is a setting of a pool; write it under [pools.NAME]"


def test_a_variable_alone_makes_no_pool(problems: Problems) -> None:
    assert problems(CLOUDRETRY__POOLS__CORQ__RETRIES="1") == [
        "CLOUDRETRY__POOLS__CORQ__RETRIES: pools.corq.members: is missing; a pool needs at least one member"
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[pools.corp]\nmembers = ["http://evil:1"]\n', ":1:2: pools: "),
        ('[aws]\npool = "corp"\n', ":2:1: aws.pool: "),
        ('[aws]\n[[aws.overrides]]\nmatch = { service = "s3" }\npool = "corp"\n', ":2:7: aws.overrides: "),
    ],
)
def test_a_checkout_does_not_reroute_traffic(tmp_path: Path, text: str, where: str) -> None:
    (tmp_path / "cloudretry.toml").write_text(text)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "home")}
    (tmp_path / "home" / "cloudretry").mkdir(parents=True)
    users = tmp_path / "home" / "cloudretry" / "config.toml"
    users.write_text('[pools.corp]\nmembers = ["http://a:1"]\n')
    with pytest.raises(ConfigurationError) as refused:
        load_configuration(environ=environ, cwd=tmp_path)
    (told,) = refused.value.problems
    assert f"cloudretry.toml{where}not accepted in a file found in the working directory" in told
    assert told.endswith(f"set it in {users}")


WARNINGS = [
    (pool("http://a:1", retries=8), "pools.p.retries: 8 is more than 7"),
    (
        pool("http://u:hunter2@a:1"),
        "pools.p.members[0]: credentials are written out; write them as ${env:NAME} or ${file:PATH}",
    ),
    (pool("http://token@a:1"), "pools.p.members[0]: credentials are written out"),
    (pool({"url": "http://a:1", "disabled": True}), "pools.p.members: all of them are disabled: no call can leave"),
    (pool("http://a:1", cooldown={"initial": "10m"}), "pools.p.cooldown.max: is below initial 10m: every cooldown is 5m"),
    (pool("http://a:1", probe={"url": "https://x/"}), "pools.p.probe.url: has no effect without"),
    (pool("http://a:1", slow={"threshold": 3}), "pools.p.slow.threshold: has no effect without first_byte or per_mib"),
    ({"pools": {"p": {"members": ["http://a:1"]}}}, 'pools.p: no provider uses it; write pool = "p" under one'),
    ({**pool("http://a:1"), "aws": {"pool": "p", "mode": "observe"}}, "aws.pool: has no effect in mode observe"),
]


@pytest.mark.parametrize(("source", "warning"), WARNINGS)
def test_what_is_allowed_and_probably_not_meant(load: Load, source: dict[str, Any], warning: str) -> None:
    (told,) = load(source).warnings
    assert warning in told


@pytest.mark.parametrize(
    "url", ["http://me:${env:P}@a:1", "http://${env:U}:${file:/p}@a:1", "${env:X}", "http://${env:UP}@a:1"]
)
def test_references_are_no_cause_for_a_warning(load: Load, url: str) -> None:
    assert load(pool(url)).warnings == ()


SECRETS = [
    "http://u:hunter2@a:1",
    "http://u:hun/ter2@a:1",
    "u:hunter2@a",
    "http:/u:hunter2@a:1",
    "http://a:1/?hunter2",
    "//hunter2@",
]


@pytest.mark.parametrize("url", SECRETS)
def test_a_secret_that_is_written_out_is_never_shown(load: Load, url: str) -> None:
    try:
        configuration = load(pool(url))
    except ConfigurationError as error:
        told = str(error)
    else:
        shown = show(configuration)
        told = "".join([shown.as_toml(with_origins=True), shown.as_json(), *configuration.warnings, repr(configuration)])
        with pytest.raises(ConfigurationError) as refused:
            refuse_secrets(configuration.settings)
        told += str(refused.value)
        assert json.loads(shown.as_json())["pools"]["p"]["members"][0]["url"] == "http://***@a:1"
    assert "ter2" not in told
    assert "p.members[0]" in told


@pytest.mark.parametrize("pool", ["http://u:hun/ter2@a:1", "u:hunter2@a:1"])
def test_a_url_in_the_place_of_a_name_keeps_its_secret(problems: Problems, pool: str) -> None:
    (told,) = problems({"aws": {"pool": pool}})
    assert "is not the name of a pool" in told
    assert "ter2" not in told


@pytest.mark.parametrize("pattern", ["*", "a", ".a.b", "*.a.b", "a:8080", "10.0.0.1", "10.0.0.0/8", "fd00::/8", "[::1]"])
def test_what_may_bypass(load: Load, pattern: str) -> None:
    assert load(pool("http://a:1", bypass=[pattern])).settings.pools["p"].bypass == (pattern,)


@pytest.mark.parametrize("pattern", ["", "a b", "http://a", "a,b", "10.0.0.0/33", "${env:X}", "*a"])
def test_what_may_not(problems: Problems, pattern: str) -> None:
    (told,) = problems(pool("http://a:1", bypass=[pattern]))
    assert "pools.p.bypass[0]: " in told
