"""azure-identity's own credentials against a token endpoint and a metadata service on loopback that throttle."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from azure.core.credentials import AccessTokenInfo
from azure.core.exceptions import AzureError, ClientAuthenticationError

from cloudretry import AzureApiCommand, Report
from cloudretry.azure.credentials import shared
from cloudretry.azure.identity import _MadeOf, _parts

identity = pytest.importorskip("azure.identity")
pytestmark = pytest.mark.wire

Make = Callable[..., Any]
SCOPE = "https://management.example/.default"
TENANT = "11111111-1111-1111-1111-111111111111"
CLIENT = "22222222-2222-2222-2222-222222222222"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def tls() -> Any:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return SimpleNamespace(authority=authority, context=context)


@pytest.fixture
def said(Answer: Any) -> Make:
    """An answer of the token endpoint: a token, or an error."""

    def make(
        status: int = 200, error: str = "temporarily_unavailable", text: str = "AADSTS90055: later", **headers: str
    ) -> Any:
        document: dict[str, Any] = {"token_type": "Bearer", "expires_in": 3600, "access_token": "fake-token"}
        if status != 200:
            document = {"error": error, "error_description": text}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Answer(status, json.dumps(document).encode(), {**JSON, **named})

    return make


class Endpoint:
    """A token endpoint, and a credential of one kind that asks it."""

    def __init__(self, server: Any, kwargs: dict[str, Any], *, aio: bool) -> None:
        self.server, self.kwargs, self.aio = server, kwargs, aio
        self.classes = _aio_classes() if aio else identity

    def say(self, *answers: Any, Answer: Any) -> None:
        """Only MSAL, for the sync credentials, asks for the tenant's endpoints first."""
        url = f"{self.server.url}/{TENANT}"
        found = {"token_endpoint": f"{url}/token", "authorization_endpoint": f"{url}/auth", "issuer": url}
        discovery = Answer(200, json.dumps(found).encode(), JSON)
        self.server.say(*([] if self.aio else [discovery]), *answers)

    @property
    def posts(self) -> int:
        return sum(request.method == "POST" for request in self.server.requests)

    def secret(self, **options: Any) -> Any:
        return self.classes.ClientSecretCredential(TENANT, CLIENT, "fake-secret", **{**self.kwargs, **options})


def _aio_classes() -> Any:
    from azure.identity import aio

    return aio


@pytest.fixture(params=["sync", "aio"])
def endpoint(request: pytest.FixtureRequest, serve: Make, Answer: Any, tls: Any, tmp_path: Path) -> Make:
    """`endpoint(answer, …)` is an Endpoint that gives these, the last one for ever."""
    tls.authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    kwargs = {"disable_instance_discovery": True, "connection_verify": str(tmp_path / "ca.pem")}

    def make(*answers: Any) -> Endpoint:
        server = serve(Answer(), tls=tls.context)
        made = Endpoint(server, {**kwargs, "authority": server.url}, aio=request.param == "aio")
        made.say(*answers, Answer=Answer)
        return made

    return make


@pytest.fixture
def ask(engine: Make) -> Make:
    """The token that a wrapped credential gives, once; closes it. Sync whatever the credential is."""

    def one(credential: Any, *, under: Any = None) -> Any:
        answer = _asked(shared(credential, under or engine()), SCOPE)
        if not asyncio.iscoroutine(answer):
            return answer

        async def main() -> Any:
            try:
                return await answer
            finally:
                await credential.close()

        return asyncio.run(main())

    return one


def _asked(credential: Any, scope: str) -> Any:
    """As the SDK's policy asks: credentials of azure-identity before 1.19 have the first method alone."""
    return getattr(credential, "get_token_info", credential.get_token)(scope)


@pytest.fixture
def msal_follows(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the memory of MSAL for throttles live in virtual time too; a wait moves it on."""
    import msal.individual_cache  # type: ignore[import-untyped]

    monkeypatch.setattr(msal.individual_cache, "time", SimpleNamespace(time=lambda: time.time() + clock.monotonic()))


# ── the token endpoint ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_throttled_token_endpoint_is_asked_again_beneath_msal(
    endpoint: Make, said: Make, ask: Make, clock: Any, engine: Make
) -> None:
    report = Report()
    place = endpoint(said(429, Retry_After="2"), said(503), said())
    assert ask(place.secret(), under=engine(listeners=[report])).token == "fake-token"
    assert place.posts == 3
    assert len(clock.sleeps) == 2
    assert 2 <= clock.sleeps[0] <= 2.5
    assert clock.sleeps[1] <= 2.5
    assert (report.total.throttled, report.total.lost) == (1, 0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # TLS of 3.10's asyncio after a reset
def test_a_token_request_may_be_sent_twice(endpoint: Make, said: Make, ask: Make, clock: Any, Answer: Any) -> None:
    place = endpoint(Answer(reset=True), said(502, error="server_error"), said())
    assert ask(place.secret()).token == "fake-token"
    assert place.posts == 3


def test_a_refusal_is_final_and_tells_what_happened(endpoint: Make, said: Make, ask: Make, clock: Any, history: Make) -> None:
    place = endpoint(said(401, error="invalid_client", text="AADSTS7000215: invalid secret"))
    with pytest.raises(ClientAuthenticationError, match="AADSTS7000215") as caught:
        ask(place.secret())
    assert place.posts == 1
    assert clock.sleeps == []
    assert history(caught.value).reason == "not_retryable"
    assert history(caught.value).attempts[0].status == 401


def test_a_credential_made_for_one_attempt(endpoint: Make, said: Make, ask: Make, clock: Any) -> None:
    place = endpoint(said(429))
    with pytest.raises(ClientAuthenticationError):
        ask(place.secret(retry_total=0))
    assert place.posts == 1
    assert clock.sleeps == []


@pytest.mark.usefixtures("msal_follows")
def test_what_gets_through_is_waited_out_as_msal_does(endpoint: Make, said: Make, ask: Make, clock: Any, engine: Make) -> None:
    report = Report()
    place = endpoint(said(429, Retry_After="50"), said())
    assert ask(place.secret(), under=engine(listeners=[report])).token == "fake-token"
    assert place.posts == 2  # more than a request may wait for: one attempt, and the next round
    assert len(clock.sleeps) == 1
    assert 50 <= clock.sleeps[0] <= 50.5
    assert report.total.lost == 0


@pytest.mark.usefixtures("msal_follows")
def test_a_throttle_that_names_no_time_takes_msals_pause(endpoint: Make, said: Make, ask: Make, clock: Any) -> None:
    place = endpoint(*[said(429)] * 4, said())
    assert ask(place.secret()).token == "fake-token"
    assert place.posts == 5
    assert len(clock.sleeps) == 4
    assert max(clock.sleeps[:3]) <= 2.5
    assert 5 <= clock.sleeps[3] <= 5.5


@pytest.mark.usefixtures("msal_follows")
def test_each_round_is_judged_by_its_own(endpoint: Make, said: Make, ask: Make, clock: Any, history: Make) -> None:
    place = endpoint(said(429, Retry_After="50"), said(401, error="invalid_client", text="AADSTS7000215: invalid secret"))
    with pytest.raises(ClientAuthenticationError, match="AADSTS7000215") as caught:
        ask(place.secret())
    assert place.posts == 2
    assert history(caught.value).reason == "not_retryable"


@pytest.mark.usefixtures("msal_follows")
def test_patience_ends(endpoint: Make, said: Make, ask: Make, clock: Any, history: Make, engine: Make) -> None:
    report = Report()
    place = endpoint(said(429, text="AADSTS90055: later"))
    with pytest.raises(ClientAuthenticationError, match="AADSTS90055") as caught:
        ask(place.secret(), under=engine(listeners=[report]))
    assert place.posts == 3 * 4
    assert sum(clock.sleeps) <= 3 * 10 + 2 * 5.5
    told = history(caught.value)
    assert told.reason == "max_retries"
    assert [attempt.status for attempt in told.attempts] == [429] * 3
    assert told.call == "azure-identity:ClientSecretCredential@-/-"
    assert report.total.lost == 3 + 1
    assert history(pickle.loads(pickle.dumps(caught.value))) == told  # noqa: S301 - our own bytes


def test_a_pause_beyond_patience_is_told_at_once(endpoint: Make, said: Make, ask: Make, clock: Any, history: Make) -> None:
    place = endpoint(said(429, Retry_After="1200"))
    with pytest.raises(ClientAuthenticationError) as caught:
        ask(place.secret())
    assert place.posts == 1
    assert clock.sleeps == []
    told = history(caught.value)
    assert told.reason == "max_header_delay"
    assert 1199 <= told.retry_at.timestamp() - clock.wall() <= 1200


def test_a_renewal_ahead_of_time_waits_no_longer_than_a_request(
    endpoint: Make, said: Make, clock: Any, engine: Make, tmp_path: Path
) -> None:
    """Nobody waits for it: the token is still good."""
    place = endpoint(said(429))
    token = AccessTokenInfo("good", int(clock.wall()) + 200)

    def get(credential: Any) -> Any:
        wrapper: Any = shared(credential, engine())
        wrapper._tokens.seat(("get_token_info", (SCOPE,), None, False)).keep(token)
        clock.advance(60)
        return wrapper.get_token_info(SCOPE)

    async def get_async() -> Any:
        async with place.secret() as credential:
            return await get(credential)

    assert (asyncio.run(get_async()) if place.aio else get(place.secret())) is token
    assert place.posts == 4
    assert sum(clock.sleeps) <= 10


def test_settings_bound_the_rounds(endpoint: Make, said: Make, ask: Make, clock: Any, engine: Make) -> None:
    place = endpoint(said(429))
    with pytest.raises(ClientAuthenticationError):
        ask(place.secret(), under=engine({"max_retries": 0}))
    assert place.posts == 1
    assert clock.sleeps == []


def test_outside_the_command_the_credential_works_as_before(endpoint: Make, said: Make, ask: Make, clock: Any) -> None:
    place = endpoint(said(), said(429))
    credential = place.secret(retry_backoff_factor=0.001)
    ask(credential)
    credential = place.secret(retry_backoff_factor=0.001) if place.aio else credential  # an aio one was closed

    def own() -> Any:
        if not place.aio:
            return credential.get_token("https://other.example/.default")

        async def main() -> Any:
            async with credential:
                _MadeOf.of(credential)  # guarded
                return await credential.get_token("https://other.example/.default")

        return asyncio.run(main())

    before = place.posts
    with pytest.raises(ClientAuthenticationError):
        own()
    assert place.posts == before + 4  # azure-core's own three retries
    assert clock.sleeps == []


def test_a_guarded_credential_is_pickled_as_the_sdks_own(endpoint: Make, said: Make) -> None:
    if endpoint(said()).aio:
        pytest.skip("aio credentials can't be pickled")
    credential = identity.ClientSecretCredential(TENANT, CLIENT, "fake-secret")
    _MadeOf.of(credential)
    _MadeOf.of(credential)
    assert _retriers(credential) == ["_Guard"]
    code = f"""if True:
        import pickle, sys
        credential = pickle.loads({pickle.dumps(credential)!r})
        names = [type(policy).__name__ for policy in credential._client._pipeline._impl_policies]
        print([name for name in names if "Guard" in name or "Retry" in name], "cloudretry" in sys.modules)
    """
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert told.stdout.split() == ["['RetryPolicy']", "False"]


def _retriers(credential: Any) -> list[str]:
    pipelines = [part for part in _parts(credential) if hasattr(part, "_impl_policies")]
    names = [type(policy).__name__ for pipeline in pipelines for policy in pipeline._impl_policies]
    return [name for name in names if "Retry" in name or "Guard" in name]


def test_a_throttled_token_endpoint_does_not_sink_a_sweep(
    endpoint: Make, said: Make, answer: Make, serve: Make, clock: Any, tls: Any
) -> None:
    place, arm = endpoint(said(429, Retry_After="3"), said(429), said()), serve(answer({"name": "one"}), tls=tls.context)
    options = {"base_url": arm.url, "credential_scopes": [SCOPE], "connection_verify": place.kwargs["connection_verify"]}

    def on_threads() -> list[Any]:
        from azure.mgmt.resource.resources import ResourceManagementClient

        with place.secret() as credential, ThreadPoolExecutor(8) as pool:
            az = AzureApiCommand(credential, TENANT, configuration={})
            clients = [az.client(ResourceManagementClient, **options) for _ in range(2)]
            found = list(pool.map(lambda number: clients[number % 2].resource_groups.get("one").name, range(16)))
            for client in clients:
                client.close()
            return found

    async def on_a_loop() -> list[Any]:
        from azure.mgmt.resource.resources.aio import ResourceManagementClient

        async with place.secret() as credential:
            az = AzureApiCommand(credential, TENANT, configuration={})
            async with (
                az.client(ResourceManagementClient, **options) as one,
                az.client(ResourceManagementClient, **options) as two,
            ):
                calls = [client.resource_groups.get("one") for client in (one, two) for _ in range(8)]
                return [group.name for group in await asyncio.gather(*calls)]

    assert (asyncio.run(on_a_loop()) if place.aio else on_threads()) == ["one"] * 16
    assert place.posts == 3
    assert len(clock.sleeps) == 2


# ── other kinds of credential ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_certificate(endpoint: Make, said: Make, ask: Make, clock: Any, tls: Any) -> None:
    place = endpoint(said(429), said())
    leaf = tls.authority.issue_cert("client", key_type=trustme.KeyType.RSA)
    pem = leaf.private_key_pem.bytes() + leaf.cert_chain_pems[0].bytes()
    credential = place.classes.CertificateCredential(TENANT, CLIENT, certificate_data=pem, **place.kwargs)
    assert ask(credential).token == "fake-token"
    assert place.posts == 2


def test_a_workload_identity(endpoint: Make, said: Make, ask: Make, clock: Any, tmp_path: Path) -> None:
    place = endpoint()
    place.server.say(said(429), said())  # MSAL has no part in it
    (tmp_path / "assertion").write_text("fake-assertion")
    credential = place.classes.WorkloadIdentityCredential(
        tenant_id=TENANT, client_id=CLIENT, token_file_path=str(tmp_path / "assertion"), **place.kwargs
    )
    assert ask(credential).token == "fake-token"
    assert place.posts == 2


def test_the_default_credential(endpoint: Make, said: Make, ask: Make, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    place = endpoint(said(429), said())
    for name, value in (("TENANT_ID", TENANT), ("CLIENT_ID", CLIENT), ("CLIENT_SECRET", "fake-secret")):
        monkeypatch.setenv(f"AZURE_{name}", value)
    assert ask(place.classes.DefaultAzureCredential(**place.kwargs)).token == "fake-token"
    assert place.posts == 2


def test_a_chain_breaks_where_the_sdk_breaks_it(endpoint: Make, said: Make, ask: Make, clock: Any) -> None:
    place = endpoint(said(401, error="invalid_client", text="AADSTS7000215: invalid secret"), said())
    chain = place.classes.ChainedTokenCredential(place.secret(), place.secret())
    with pytest.raises(ClientAuthenticationError, match="Attempted credentials"):
        ask(chain)
    assert place.posts == 1


def test_a_public_client_of_msal_pauses_longer() -> None:
    assert _MadeOf.of(identity.DeviceCodeCredential()).pause == 60
    assert _MadeOf.of(identity.ClientSecretCredential(TENANT, CLIENT, "fake-secret")).pause == 5
    assert _MadeOf.of(identity.ManagedIdentityCredential()).pause == 5
    assert _MadeOf.of(identity.DefaultAzureCredential()).spawns
    assert not _MadeOf.of(identity.ManagedIdentityCredential()).spawns


# ── the metadata service ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["sync", "aio"])
def imds(request: pytest.FixtureRequest, serve: Make, monkeypatch: pytest.MonkeyPatch) -> Make:
    """`server, credential = imds(answer, …, known=True)`; `known=False`: it has first to be found out whether it is there."""

    def make(*answers: Any, known: bool = True, **options: Any) -> tuple[Any, Any]:
        server = serve(*answers)
        classes = _aio_classes() if request.param == "aio" else identity
        if known:
            monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url)
        credential = classes.ManagedIdentityCredential(**options)
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url)
        return server, credential

    return make


@pytest.fixture
def given(Answer: Any) -> Make:
    """An answer of the metadata service."""

    def make(status: int = 200, **headers: str) -> Any:
        document: dict[str, Any] = {"error": "busy", "error_description": "later"}
        if status == 200:
            document = {"access_token": "fake-token", "expires_in": "3600", "resource": "r", "token_type": "Bearer"}
            document["expires_on"] = str(int(time.time()) + 3600)
        return Answer(status, json.dumps(document).encode(), {**JSON, **headers})

    return make


def test_a_throttled_metadata_service(imds: Make, given: Make, ask: Make, clock: Any) -> None:
    server, credential = imds(given(429), given(500), given())
    assert ask(credential).token == "fake-token"
    assert len(server.requests) == 3
    assert len(clock.sleeps) == 2
    assert max(clock.sleeps) <= 2.5


@pytest.mark.parametrize(("status", "waits"), [(410, [0.0, 5.0, 10.0, 20.0, 40.0]), (404, [0.0, 1.6, 3.2, 6.4, 12.8])])
def test_a_metadata_service_that_is_being_updated_gets_the_sdks_own_patience(
    status: int, waits: list[float], imds: Make, given: Make, ask: Make, clock: Any
) -> None:
    server, credential = imds(*[given(status)] * 5, given())
    assert ask(credential).token == "fake-token"
    assert len(server.requests) == 6
    assert clock.sleeps == pytest.approx(waits)


def test_a_metadata_service_that_is_gone_ends(imds: Make, given: Make, ask: Make, clock: Any) -> None:
    server, credential = imds(given(410))
    with pytest.raises(ClientAuthenticationError):
        ask(credential)
    assert len(server.requests) == 6
    assert sum(clock.sleeps) == pytest.approx(75)


@pytest.mark.usefixtures("msal_follows")
def test_a_metadata_service_that_stays_throttled(imds: Make, given: Make, ask: Make, clock: Any, history: Make) -> None:
    server, credential = imds(given(429))
    with pytest.raises(ClientAuthenticationError) as caught:
        ask(credential)
    assert len(server.requests) == 3 * 4
    assert history(caught.value).reason == "max_retries"
    server.say(given())
    clock.advance(5)


@pytest.fixture
def chained() -> Make:
    """A chain of this credential and one that always has a token."""

    def make(credential: Any) -> Any:
        if type(credential).__module__.startswith("azure.identity.aio"):
            return _aio_classes().ChainedTokenCredential(credential, AioNext())
        return identity.ChainedTokenCredential(credential, Next())

    return make


@pytest.mark.parametrize("status", [429, 500])
def test_the_probe_is_a_single_attempt(status: int, imds: Make, given: Make, ask: Make, clock: Any, chained: Make) -> None:
    """Whatever it is told, somebody is there."""
    server, credential = imds(given(status), given(), known=False)
    assert ask(chained(credential)).token == "fake-token"
    assert len(server.requests) == 2
    assert clock.sleeps == []


def test_an_absent_metadata_service_leads_to_the_next_in_the_chain(
    imds: Make, ask: Make, clock: Any, Answer: Any, engine: Make, chained: Make
) -> None:
    report = Report()
    server, credential = imds(Answer(reset=True), known=False)
    assert ask(chained(credential), under=engine(listeners=[report])).token == "next"
    assert len(server.requests) <= 2  # aiohttp by itself sends a GET a second time
    assert clock.sleeps == []
    assert report.total.lost == 0  # nothing was: the token came


class Next:
    def get_token(self, *_: Any, **__: Any) -> Any:
        from azure.core.credentials import AccessToken

        return AccessToken("next", 9_999_999_999)

    def close(self) -> None:
        pass


class AioNext:
    async def get_token(self, *_: Any, **__: Any) -> Any:
        return Next().get_token()

    async def close(self) -> None:
        pass


# ── what is only text ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Says:
    """Fails with these texts, then gives a token."""

    def __init__(self, *texts: str) -> None:
        self.texts, self.calls = list(texts), 0

    def get_token(self, *_: Any, **__: Any) -> Any:
        self.calls += 1
        if self.texts:
            raise ClientAuthenticationError(self.texts.pop(0))
        return Next().get_token()


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("AADSTS90055: TenantThrottlingError", 5),
        ("HTTP 429", 5),
        ("(temporarily_unavailable) …", 5),
        ("Too many requests. Try again after '17' seconds.", 17),
    ],
)
def test_a_throttle_in_a_text_is_waited_out(text: str, least: float, ask: Make, clock: Any) -> None:
    credential = Says(text)
    assert ask(credential).token == "next"
    assert credential.calls == 2
    assert least <= clock.sleeps[0] <= least + 0.5


@pytest.mark.parametrize("text", ["AADSTS7000215: invalid secret", "Please run 'az login'", "trace 4429-0429 at 2026-01-01"])
def test_any_other_text_is_final(text: str, ask: Make, clock: Any, history: Make) -> None:
    with pytest.raises(ClientAuthenticationError, match=re.escape(text)) as caught:
        ask(Says(text))
    assert clock.sleeps == []
    assert history(caught.value) is None


def test_a_throttle_and_then_a_refusal(ask: Make, clock: Any, history: Make) -> None:
    with pytest.raises(ClientAuthenticationError, match="invalid secret") as caught:
        ask(Says("throttled", "invalid secret"))
    assert history(caught.value).reason == "not_retryable"
    assert len(clock.sleeps) == 1


def test_an_error_of_another_kind_passes(ask: Make, clock: Any) -> None:
    class Broken:
        def get_token(self, *_: Any, **__: Any) -> Any:
            raise AzureError("429")

    with pytest.raises(AzureError):
        ask(Broken())
    assert clock.sleeps == []


# ── command-line tools ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def az(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `az` on the path that gives a token and writes down when it ran; returns what it writes."""
    log, tool = tmp_path / "log", tmp_path / "bin" / "az"
    tool.parent.mkdir()
    token = '{"accessToken": "fake-token", "expires_on": 9999999999}'
    tool.write_text(f"#!/bin/sh\necho begin >> {log}\nsleep 0.02\necho end >> {log}\necho '{token}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    return log


SCOPES = [f"https://service{number}.example/.default" for number in range(4)]


def test_the_command_line_tool_runs_once_for_each_scope_and_never_twice_at_a_time(az: Path, engine: Make) -> None:
    wrapper = shared(identity.AzureCliCredential(), engine())
    with ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda scope: _asked(wrapper, scope).token, SCOPES * 4))
    assert got == ["fake-token"] * 16
    assert az.read_text().split() == ["begin", "end"] * 4


def test_the_aio_twin(az: Path, engine: Make) -> None:
    async def main() -> list[Any]:
        async with _aio_classes().AzureCliCredential() as credential:
            wrapper = shared(credential, engine())
            return await asyncio.gather(*[_asked(wrapper, scope) for scope in SCOPES * 4])

    assert [token.token for token in asyncio.run(main())] == ["fake-token"] * 16
    assert az.read_text().split() == ["begin", "end"] * 4


def test_a_throttled_command_line_tool(az: Path, ask: Make, clock: Any, history: Make) -> None:
    tool = az.parent / "bin" / "az"
    tool.write_text(f"#!/bin/sh\necho run >> {az}\necho 'AADSTS90055: request throttled' >&2\nexit 1\n")
    with pytest.raises(ClientAuthenticationError, match="AADSTS90055") as caught:
        ask(identity.AzureCliCredential())
    assert len(az.read_text().split()) == 3
    assert [attempt.outcome for attempt in history(caught.value).attempts] == ["throttled"] * 3
    assert all(5 <= pause <= 5.5 for pause in clock.sleeps)


def test_nothing_secret_is_logged(endpoint: Make, said: Make, ask: Make, clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "cloudretry")
    place = endpoint(said(429), said())
    assert ask(place.secret()).token == "fake-token"
    assert "fake" not in caplog.text
