"""One token for everybody: threads, tasks, clients, commands. What fetches it is faked; test_identity.py has the real ones."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import trustme
from azure.core.credentials import (
    AccessToken,
    AccessTokenInfo,
    AzureKeyCredential,
    AzureNamedKeyCredential,
    AzureSasCredential,
    SupportsTokenInfo,
    TokenCredential,
)
from azure.core.credentials_async import AsyncSupportsTokenInfo, AsyncTokenCredential
from azure.core.exceptions import ClientAuthenticationError
from hypothesis import given
from hypothesis import strategies as st

from cloudretry import AzureApiCommand, attach
from cloudretry.azure import tokens
from cloudretry.azure.credentials import shared
from cloudretry.config import load_configuration
from cloudretry.runtime.clock import current_clock, use_clock
from cloudretry.runtime.engine import Engine
from cloudretry.testing import VirtualClock, virtual_clock

Make = Callable[..., Any]
SCOPE = "https://management.example/.default"
SUBSCRIPTION = "00000000-0000-0000-0000-0000000000aa"
ENGINE = Engine(load_configuration({}).settings)


def in_(seconds: float, refresh_in: float | None = None, *, name: str = "fake-token") -> AccessTokenInfo:
    now = current_clock().wall()
    refresh = None if refresh_in is None else int(now + refresh_in)
    return AccessTokenInfo(name, int(now + seconds), refresh_on=refresh)


class Script:
    """Gives what it was told to, in order, the last for ever; an exception is raised, a callable asked."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script) or [lambda: in_(3600)]
        self.calls: list[tuple[str, tuple[str, ...], dict[str, Any]]] = []
        self.closed = 0

    def next(self, method: str, scopes: tuple[str, ...], options: dict[str, Any]) -> Any:
        self.calls.append((method, scopes, options))
        item = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        item = item() if callable(item) else item
        if isinstance(item, BaseException):
            raise item
        return item


class Credential(Script):
    def get_token(self, *scopes: str, **options: Any) -> Any:
        info = self.next("get_token", scopes, options)
        return AccessToken(info.token, info.expires_on)

    def get_token_info(self, *scopes: str, options: Any = None) -> Any:
        return self.next("get_token_info", scopes, options or {})

    def close(self) -> None:
        self.closed += 1

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed += 1


class AioCredential(Script):
    async def get_token(self, *scopes: str, **options: Any) -> Any:
        await asyncio.sleep(0)
        info = self.next("get_token", scopes, options)
        return AccessToken(info.token, info.expires_on)

    async def get_token_info(self, *scopes: str, options: Any = None) -> Any:
        await asyncio.sleep(0)
        return self.next("get_token_info", scopes, options or {})

    async def close(self) -> None:
        self.closed += 1

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed += 1


@pytest.fixture(params=[Credential, AioCredential])
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`credential, ask = make(*script)`; `ask(*scopes, method=…, **options)` is sync, each time on a loop of its own."""

    def made(*script: Any) -> tuple[Any, Callable[..., Any]]:
        credential = request.param(*script)
        wrapper = shared(credential, ENGINE)

        def ask(*scopes: str, method: str = "get_token_info", **options: Any) -> Any:
            given = {"options": options} if method == "get_token_info" else options
            answer = getattr(wrapper, method)(*(scopes or (SCOPE,)), **given)
            return asyncio.run(_awaited(answer)) if asyncio.iscoroutine(answer) else answer

        return credential, ask

    return made


async def _awaited(answer: Any) -> Any:
    return await answer


class _Arrivals(VirtualClock):
    """Counts who has looked at the clock: each who asks for a token does so once, before it waits."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = threading.Semaphore(0)

    def wall(self) -> float:
        self.seen.release()
        return super().wall()

    def await_arrivals(self, number: int) -> None:
        for _ in range(number):
            assert self.seen.acquire(timeout=30)


@pytest.fixture
def arrivals() -> Iterator[_Arrivals]:
    with use_clock(_Arrivals()) as clock:
        assert isinstance(clock, _Arrivals)
        yield clock


# ── who asks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sixteen_threads_take_one_token(arrivals: Any) -> None:
    token = AccessTokenInfo("fake-token", int(VirtualClock().wall()) + 3600)

    def fetch() -> Any:
        arrivals.await_arrivals(16)
        return token

    credential = Credential(fetch)
    wrapper = shared(credential, ENGINE)
    with ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda _: wrapper.get_token_info(SCOPE, options={}), range(16)))
    assert len(credential.calls) == 1
    assert all(item is token for item in got)


def test_an_error_reaches_each_of_sixteen_threads_once_and_is_forgotten(arrivals: Any) -> None:
    def fetch() -> Any:
        arrivals.await_arrivals(16)
        return ClientAuthenticationError("AADSTS7000215: invalid secret")

    credential = Credential(fetch, lambda: in_(3600))
    wrapper = shared(credential, ENGINE)

    def ask(_: int) -> BaseException:
        with pytest.raises(ClientAuthenticationError, match="invalid secret") as caught:
            wrapper.get_token_info(SCOPE, options={})
        return caught.value

    with ThreadPoolExecutor(16) as pool:
        errors = list(pool.map(ask, range(16)))
    assert len(credential.calls) == 1
    assert len({id(error) for error in errors}) == 16  # each raises its own: threads don't write on each other's traceback
    assert wrapper.get_token_info(SCOPE, options={}).token == "fake-token"


def test_who_is_interrupted_while_it_fetches_makes_room(arrivals: Any) -> None:
    def fetch() -> Any:
        arrivals.await_arrivals(2)
        return KeyboardInterrupt()

    credential = Credential(fetch, lambda: in_(3600))
    wrapper = shared(credential, ENGINE)

    def ask() -> str:
        try:
            return str(wrapper.get_token_info(SCOPE, options={}).token)
        except KeyboardInterrupt:
            return "interrupted"

    with ThreadPoolExecutor(2) as pool:
        assert {future.result() for future in [pool.submit(ask), pool.submit(ask)]} == {"interrupted", "fake-token"}
    assert len(credential.calls) == 2


def test_kinds_of_token_are_told_apart(make: Make) -> None:
    credential, ask = make()
    for _ in range(2):
        ask()
        ask(tenant_id="t")
        ask(enable_cae=True)
        ask("https://other.example/.default")
        ask(SCOPE, "https://other.example/.default")
        ask(method="get_token")
    assert len(credential.calls) == 6
    ask(enable_cae=False, tenant_id=None)
    assert len(credential.calls) == 6
    assert credential.calls[1] == ("get_token_info", (SCOPE,), {"tenant_id": "t"})


def test_a_proof_of_possession_is_each_callers_own(make: Make) -> None:
    credential, ask = make()
    for _ in range(2):
        ask(pop={"nonce": "1"})
    assert len(credential.calls) == 2


def test_a_claims_challenge_is_asked_about_and_its_token_serves_everybody(make: Make) -> None:
    credential, ask = make(lambda: in_(3600, name="refused"), lambda: in_(3600, name="good"))
    assert ask(enable_cae=True).token == "refused"
    assert ask(enable_cae=True, claims="{}").token == "good"
    assert ask(enable_cae=True, claims="{}").token == "good"
    assert len(credential.calls) == 3
    assert credential.calls[1][2] == {"enable_cae": True, "claims": "{}"}
    assert ask(enable_cae=True).token == "good"
    assert len(credential.calls) == 3


def test_commands_with_one_credential_share_its_tokens() -> None:
    credential = Credential()
    for _ in range(3):
        az = AzureApiCommand(credential, SUBSCRIPTION, configuration={})
        client = az.client(Kept)
        client.credential.get_token_info(SCOPE, options={})
    assert len(credential.calls) == 1


class Kept:
    """A client that shows what it was given."""

    def __init__(self, credential: Any = None, subscription_id: Any = None, **_: Any) -> None:
        self.credential = credential


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_token_is_renewed_when_it_says_so(make: Make, clock: Any) -> None:
    credential, ask = make(lambda: in_(7200, 3600))
    ask()
    clock.advance(3599)
    ask()
    assert len(credential.calls) == 1
    clock.advance(2)
    ask()
    ask()
    assert len(credential.calls) == 2


def test_a_token_that_says_nothing_is_renewed_in_its_last_five_minutes(make: Make, clock: Any) -> None:
    credential, ask = make(lambda: in_(3600))
    ask()
    clock.advance(3600 - 301)
    ask()
    assert len(credential.calls) == 1
    clock.advance(2)
    ask()
    assert len(credential.calls) == 2


def test_a_failed_renewal_leaves_the_good_token_and_is_not_repeated_at_once(
    make: Make, clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    failure = ClientAuthenticationError("secret-in-a-message")
    credential, ask = make(lambda: in_(3600, name="first"), failure)
    ask()
    clock.advance(3400)
    for _ in range(5):
        assert ask().token == "first"
    assert len(credential.calls) == 2
    assert "ClientAuthenticationError" in caplog.text
    assert "secret" not in caplog.text
    clock.advance(31)
    assert ask().token == "first"
    assert len(credential.calls) == 3
    clock.advance(200)
    with pytest.raises(ClientAuthenticationError, match="secret-in-a-message"):
        ask()


def test_others_go_on_with_the_good_token_while_one_renews_it(clock: Any) -> None:
    asked, may_end = threading.Event(), threading.Event()

    def renew() -> Any:
        asked.set()
        assert may_end.wait(30)
        return in_(3600, name="second")

    credential = Credential(lambda: in_(3600, name="first"), renew)
    wrapper = shared(credential, ENGINE)
    wrapper.get_token_info(SCOPE)
    clock.advance(3400)
    with ThreadPoolExecutor(1) as pool:
        renewed = pool.submit(wrapper.get_token_info, SCOPE)
        assert asked.wait(30)
        assert wrapper.get_token_info(SCOPE).token == "first"
        may_end.set()
        assert renewed.result().token == "second"
    assert wrapper.get_token_info(SCOPE).token == "second"


@pytest.mark.parametrize("token", [None, AccessTokenInfo("old", 0), AccessTokenInfo("odd", None)])  # type: ignore[arg-type]
def test_what_is_no_good_token_is_handed_on_and_not_kept(token: Any, make: Make) -> None:
    credential, ask = make(token)
    assert ask() is token
    assert ask() is token
    assert len(credential.calls) == 2


@given(
    steps=st.lists(st.tuples(st.floats(0, 4000), st.booleans()), max_size=30),
    lives=st.integers(1, 5000),
    refresh=st.none() | st.integers(0, 5000),
)
def test_no_token_is_given_out_that_has_ended_and_none_is_asked_for_too_often(
    steps: list[tuple[float, bool]], lives: int, refresh: int | None
) -> None:
    with virtual_clock() as clock:
        asked: list[float] = []
        next_is_broken: list[bool] = []

        def fetch() -> Any:
            asked.append(clock.wall())
            return ClientAuthenticationError("no") if next_is_broken[-1] else in_(lives, refresh)

        wrapper, good_until = shared(Credential(fetch), ENGINE), 0.0
        for pause, is_broken in steps:
            next_is_broken.append(is_broken)
            clock.advance(pause)
            before = len(asked)
            try:
                got = wrapper.get_token_info(SCOPE)
            except ClientAuthenticationError:
                assert clock.wall() >= good_until
                continue
            assert got.expires_on > clock.wall() or len(asked) > before
            if clock.wall() < good_until and len(asked) > max(before, 1):
                assert asked[-1] - asked[-2] >= 30
            good_until = got.expires_on


# ── tasks and loops ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Gated(AioCredential):
    """Waits, while it fetches, for somebody to open the gate."""

    def __init__(self, *script: Any) -> None:
        super().__init__(*script)
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    async def get_token_info(self, *scopes: str, options: Any = None) -> Any:
        self.calls.append(("get_token_info", scopes, options or {}))
        self.asked.set()
        await self.gate.wait()
        self.calls.pop()
        return self.next("get_token_info", scopes, options or {})


async def _waiting(wrapper: Any, number: int) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.ensure_future(wrapper.get_token_info(SCOPE, options={})) for _ in range(number)]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


def test_tasks_take_one_token_and_one_that_is_cancelled_takes_nobody_with_it() -> None:
    async def main() -> None:
        credential = Gated()
        tasks = await _waiting(shared(credential, ENGINE), 16)
        tasks[3].cancel()
        credential.gate.set()
        got = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(got.pop(3), asyncio.CancelledError)
        assert {token.token for token in got if isinstance(token, AccessTokenInfo)} == {"fake-token"}
        assert len(credential.calls) == 1

    asyncio.run(main())


def test_cancelling_the_task_that_fetches_lets_another_one_fetch() -> None:
    async def main() -> None:
        credential = Gated()
        tasks = await _waiting(shared(credential, ENGINE), 4)
        tasks[0].cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        credential.gate.set()
        got = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(got[0], asyncio.CancelledError)
        assert {token.token for token in got[1:] if isinstance(token, AccessTokenInfo)} == {"fake-token"}
        assert [call[0] for call in credential.calls] == ["get_token_info"] * 2  # begun twice, ended once

    asyncio.run(main())


def test_an_error_reaches_each_task_once() -> None:
    async def main() -> None:
        credential = Gated(ClientAuthenticationError("no"), lambda: in_(3600))
        wrapper = shared(credential, ENGINE)
        tasks = await _waiting(wrapper, 8)
        credential.gate.set()
        got = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(error) for error in got] == [ClientAuthenticationError] * 8
        assert len({id(error) for error in got}) == 8
        assert len(credential.calls) == 1
        assert (await wrapper.get_token_info(SCOPE, options={})).token == "fake-token"

    asyncio.run(main())


def test_tasks_go_on_with_the_good_token_while_one_renews_it(clock: Any) -> None:
    async def main() -> None:
        credential = Gated(lambda: in_(3600, name="first"), lambda: in_(3600, name="second"))
        credential.gate.set()
        wrapper = shared(credential, ENGINE)
        await wrapper.get_token_info(SCOPE, options={})
        clock.advance(3400)
        credential.gate.clear()
        (renewing,) = await _waiting(wrapper, 1)
        assert (await asyncio.wait_for(wrapper.get_token_info(SCOPE, options={}), 30)).token == "first"
        credential.gate.set()
        assert (await renewing).token == "second"

    asyncio.run(main())


def test_loops_in_several_threads_share_tokens_and_no_lock() -> None:
    """Each loop fetches at most once, also at the same time; none waits for another's."""
    together = threading.Barrier(4, timeout=30)
    credential = AioCredential()
    wrapper = shared(credential, ENGINE)

    async def main() -> set[str]:
        together.wait()
        tasks = [wrapper.get_token_info(SCOPE, options={}) for _ in range(8)]
        return {token.token for token in await asyncio.gather(*tasks)}

    with ThreadPoolExecutor(4) as pool:
        assert [future.result() for future in [pool.submit(asyncio.run, main()) for _ in range(4)]] == [{"fake-token"}] * 4
    assert 1 <= len(credential.calls) <= 4
    before = len(credential.calls)
    asyncio.run(_awaited(wrapper.get_token_info(SCOPE, options={})))
    assert len(credential.calls) == before


def test_on_trio() -> None:
    import trio

    class OnTrio(AioCredential):
        async def get_token_info(self, *scopes: str, options: Any = None) -> Any:
            await trio.lowlevel.checkpoint()
            return self.next("get_token_info", scopes, options or {})

    credential = OnTrio()
    wrapper = shared(credential, ENGINE)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(wrapper.get_token_info, SCOPE)

    trio.run(main)
    assert len(credential.calls) == 1


# ── what a wrapper is ────────────────────────────────────────────────────────────────────────────────────────────────────────


class OnlyToken:
    def get_token(self, *_: str, **__: Any) -> AccessToken:
        return AccessToken("fake-token", 9_999_999_999)


class OnlyInfo:
    def get_token_info(self, *_: str, options: Any = None) -> AccessTokenInfo:
        return AccessTokenInfo("fake-token", 9_999_999_999)


class AioOnlyInfo:
    async def get_token_info(self, *_: str, options: Any = None) -> AccessTokenInfo:
        return AccessTokenInfo("fake-token", 9_999_999_999)


@pytest.mark.parametrize("kind", [Credential, AioCredential, OnlyToken, OnlyInfo, AioOnlyInfo])
def test_a_wrapper_has_the_methods_of_its_credential_and_no_others(kind: Any) -> None:
    inner = kind()
    wrapper = shared(inner, ENGINE)
    assert wrapper is not inner
    for name in ("get_token", "get_token_info", "close"):
        assert hasattr(wrapper, name) == hasattr(inner, name)
        assert asyncio.iscoroutinefunction(getattr(wrapper, name, None)) == asyncio.iscoroutinefunction(
            getattr(inner, name, None)
        )
    for name in ("__enter__", "__exit__", "__aenter__", "__aexit__"):
        assert hasattr(type(wrapper), name) == hasattr(type(inner), name)
    for protocol in (TokenCredential, SupportsTokenInfo, AsyncTokenCredential, AsyncSupportsTokenInfo):
        assert isinstance(wrapper, protocol) == isinstance(inner, protocol)


@pytest.mark.parametrize(
    "thing",
    [
        None,
        "a key",
        {"account_name": "a", "account_key": "k"},
        AzureKeyCredential("fake-key"),
        AzureSasCredential("fake-sas"),
        AzureNamedKeyCredential("name", "fake-key"),
        Credential,
    ],
)
def test_what_gives_no_tokens_stays_as_it_is(thing: Any) -> None:
    assert shared(thing, ENGINE) is thing


def test_wrapping_twice_is_once() -> None:
    inner = Credential()
    twice: Any = shared(shared(inner, ENGINE), ENGINE)
    assert twice._inner is inner


@pytest.mark.parametrize("azure", [{"mode": "observe"}, {"preset": "azure-core"}])
def test_where_the_sdk_decides_the_credential_is_its_own(azure: dict[str, Any]) -> None:
    credential = Credential()
    assert shared(credential, Engine(load_configuration({"azure": azure}).settings)) is credential


def test_the_kill_switch_leaves_the_credential_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDRETRY_DISABLED", "1")
    credential = Credential()
    assert AzureApiCommand(credential, SUBSCRIPTION).client(Kept).credential is credential


@pytest.mark.parametrize("give", [lambda az, own: az.client(Kept, own), lambda az, own: az.client(Kept, credential=own)])
def test_a_credential_for_one_client_is_shared_too(give: Any) -> None:
    own = Credential()
    client = give(AzureApiCommand(None, SUBSCRIPTION, configuration={}), own)
    for _ in range(2):
        client.credential.get_token_info(SCOPE)
    assert len(own.calls) == 1


def test_what_else_it_is_asked_for_the_credential_answers() -> None:
    credential = Credential()
    credential.tenant = "t"  # type: ignore[attr-defined]
    wrapper: Any = shared(credential, ENGINE)
    assert wrapper.tenant == "t"
    with pytest.raises(AttributeError, match="no_such"):
        wrapper.no_such  # noqa: B018 - the question is the test


def test_closing_closes_the_credential_and_forgets() -> None:
    credential = Credential()
    wrapper: Any = shared(credential, ENGINE)
    with wrapper as same:
        assert same is wrapper
        wrapper.get_token_info(SCOPE)
    wrapper.get_token_info(SCOPE)
    wrapper.close()
    wrapper.get_token_info(SCOPE)
    assert (credential.closed, len(credential.calls)) == (2, 3)


def test_closing_an_aio_credential() -> None:
    credential = AioCredential()
    wrapper: Any = shared(credential, ENGINE)

    async def main() -> None:
        async with wrapper as same:
            assert same is wrapper
            await wrapper.get_token_info(SCOPE)
        await wrapper.close()

    asyncio.run(main())
    assert credential.closed == 2


def test_no_token_in_repr_log_or_pickle(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    credential, ask = make(AccessTokenInfo("s3cret", 9_999_999_999))
    wrapper = shared(credential, ENGINE)
    assert ask().token == "s3cret"
    kept = wrapper._tokens.seat(("get_token_info", (SCOPE,), None, False))
    credential.script.clear()
    assert kept._kept.token.token == "s3cret"
    for thing in (wrapper, wrapper._tokens, kept, kept._kept):
        assert "s3cret" not in repr(thing)
    assert "s3cret" not in caplog.text
    assert pickle.loads(pickle.dumps(wrapper._tokens))._seats == {}  # noqa: S301 - our own bytes
    twin = pickle.loads(pickle.dumps(wrapper))  # noqa: S301 - our own bytes
    assert type(twin) is type(credential)  # the user's own
    assert copy.deepcopy(wrapper).calls == credential.calls


def test_a_forked_child_can_fetch_while_the_parent_did() -> None:
    credential = Credential()
    wrapper = shared(credential, ENGINE)
    seat = wrapper._tokens.seat(("get_token_info", (SCOPE,), None, False))  # type: ignore[attr-defined]
    assert seat._lock.acquire(blocking=False)
    tokens._after_fork()
    assert wrapper.get_token_info(SCOPE).token == "fake-token"


def test_tokens_live_as_long_as_their_credential() -> None:
    credential = Credential()
    kept = tokens.tokens_of(credential)
    assert tokens.tokens_of(credential) is kept
    key = id(credential)
    del credential
    assert key not in tokens._by_credential


def test_a_credential_with_slots_is_wrapped() -> None:
    class Slotted:
        __slots__ = ()

        def get_token(self, *_: str, **__: Any) -> AccessToken:
            return AccessToken("fake-token", 9_999_999_999)

    assert shared(Slotted(), ENGINE).get_token(SCOPE).token == "fake-token"


# ── under real clients ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def tls() -> tuple[trustme.CA, ssl.SSLContext]:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return authority, context


@pytest.fixture
def arm(serve: Make, answer: Make, tls: Any, tmp_path: Any) -> dict[str, Any]:
    """What a client needs to take a loopback server for Resource Manager, with authentication."""
    server = serve(answer({"name": "one"}), tls=tls[1])
    tls[0].cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    ca = str(tmp_path / "ca.pem")
    return {"base_url": server.url, "credential_scopes": [SCOPE], "connection_verify": ca, "server": server}


def made_by_a_command(kind: Any, credential: Any, **arm: Any) -> Any:
    return AzureApiCommand(credential, SUBSCRIPTION, configuration={}).client(kind, **arm)


def made_by_the_user_and_attached(kind: Any, credential: Any, **arm: Any) -> Any:
    return attach(kind(credential, SUBSCRIPTION, **arm), configuration={})


@pytest.mark.wire
@pytest.mark.parametrize("client_of", [made_by_a_command, made_by_the_user_and_attached])
def test_sixteen_threads_on_one_cold_client(arm: dict[str, Any], client_of: Make) -> None:
    from azure.mgmt.resource.resources import ResourceManagementClient

    server, credential = arm.pop("server"), Credential()
    together = threading.Barrier(16, timeout=30)
    with client_of(ResourceManagementClient, credential, **arm) as client:

        def ask(_: int) -> Any:
            together.wait()
            return client.resource_groups.get("one").name

        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(ask, range(16))) == ["one"] * 16
    assert len(credential.calls) == 1
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer fake-token"}


@pytest.mark.wire
@pytest.mark.parametrize("client_of", [made_by_a_command, made_by_the_user_and_attached])
def test_five_clients_share_a_credential(arm: dict[str, Any], client_of: Make) -> None:
    from azure.mgmt.resource.resources import ResourceManagementClient

    server, credential = arm.pop("server"), Credential()
    for _ in range(5):
        with client_of(ResourceManagementClient, credential, **arm) as client:
            client.resource_groups.get("one")
    assert (len(server.requests), len(credential.calls)) == (5, 1)


@pytest.mark.wire
@pytest.mark.parametrize("client_of", [made_by_a_command, made_by_the_user_and_attached])
def test_five_aio_clients_share_a_credential(arm: dict[str, Any], client_of: Make) -> None:
    from azure.mgmt.resource.resources.aio import ResourceManagementClient

    server, credential = arm.pop("server"), AioCredential()

    async def main() -> None:
        async def ask() -> Any:
            async with client_of(ResourceManagementClient, credential, **arm) as client:
                return await client.resource_groups.get("one")

        await asyncio.gather(*[ask() for _ in range(5)])

    asyncio.run(main())
    assert (len(server.requests), len(credential.calls)) == (5, 1)


@pytest.mark.wire
def test_a_claims_challenge_of_resource_manager(arm: dict[str, Any], answer: Make, Answer: Any) -> None:
    from azure.mgmt.resource.resources import ResourceManagementClient

    server = arm.pop("server")
    credential = Credential(lambda: in_(3600, name="revoked"), lambda: in_(3600, name="good"))
    challenge = {"WWW-Authenticate": 'Bearer error="insufficient_claims", claims="eyJhIjoxfQ=="'}
    server.say(Answer(401, b"", challenge), answer({"name": "one"}))
    az = AzureApiCommand(credential, SUBSCRIPTION, configuration={})
    for _ in range(2):
        with az.client(ResourceManagementClient, **arm) as client:
            assert client.resource_groups.get("one").name == "one"
    assert [request.headers["Authorization"] for request in server.requests] == [
        "Bearer revoked",
        "Bearer good",
        "Bearer good",
    ]
    assert [call[2].get("claims") for call in credential.calls] == [None, '{"a":1}']
