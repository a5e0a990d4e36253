"""Logins: what is verified, what is remembered, how guessing is slowed, what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import pytest

from gateway.errors import AuthenticationFailed
from gateway.frontends import guessing, login_mechanisms
from gateway.frontends.guessing import FailedLogins, LoginLimits, SharedCount
from gateway.frontends.login_chain import LoginKind, LoginOutcome
from gateway.frontends.login_mechanisms import SimpleMechanism
from gateway.frontends.tokens import new_token
from gateway.model.audit import AuditEvent
from gateway.model.credentials import Bearer, Cookie, Credentials, Password, UnreadableLogin
from gateway.model.statement import Client
from tests.frontends.listening import CHEAP, Gateway, user
from tests.session.fakes import World, until

HERE, THERE = Client(address="10.0.0.1", protocol="thrift"), Client(address="10.0.0.2", protocol="thrift")


class Counting:
    """Counts verifications."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stored: list[str] = []
        real = login_mechanisms.fits

        def count(stored: str, password: str) -> bool:
            self.stored.append(stored)
            return real(stored, password)

        monkeypatch.setattr(login_mechanisms, "fits", count)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> Counting:
    return Counting(monkeypatch)


def gateway(*, remember_s: float = 60.0, **limits: float) -> Gateway:
    return Gateway(World(), logins=LoginLimits(**limits), remember_s=remember_s)  # type: ignore[arg-type]


async def test_the_principal_has_the_files_groups(verified: Counting) -> None:
    principal = await gateway().authenticator.login(Password("bob", "secret"), HERE)
    assert principal.user == "bob"
    assert principal.groups == {"analysts"}


async def test_a_right_password_is_not_verified_again_for_a_while(verified: Counting) -> None:
    here = gateway(remember_s=60)
    for _ in range(3):
        await here.authenticator.login(Password("bob", "secret"), HERE)
    assert len(verified.stored) == 1
    here.now += 61
    await here.authenticator.login(Password("bob", "secret"), HERE)
    assert len(verified.stored) == 2


async def test_a_changed_password_forgets_the_old_one_at_once(verified: Counting) -> None:
    here = gateway()
    await here.authenticator.login(Password("bob", "secret"), HERE)
    here.users["bob"] = user("bob", "new")
    with pytest.raises(AuthenticationFailed):
        await here.authenticator.login(Password("bob", "secret"), HERE)
    del here.users["bob"]
    with pytest.raises(AuthenticationFailed):
        await here.authenticator.login(Password("bob", "new"), HERE)


async def test_many_connections_of_a_pool_cost_one_verification(verified: Counting) -> None:
    here = gateway(failures=3)
    await asyncio.gather(*(here.authenticator.login(Password("bob", "secret"), HERE) for _ in range(20)))
    assert len(verified.stored) == 1


async def test_an_unknown_user_costs_a_verification_too(verified: Counting) -> None:
    here = gateway()
    with pytest.raises(AuthenticationFailed):
        await here.authenticator.login(Password("nobody", "secret"), HERE)
    assert len(verified.stored) == 1
    assert "m=19456,t=2,p=1" in verified.stored[0]


@pytest.mark.parametrize("password", ["", "x" * 5000, "\ud800", "secret\0", "Secret"])
async def test_passwords_that_are_never_right(password: str) -> None:
    here = gateway()
    here.users["empty"] = user("empty", "")
    for name in ("bob", "empty"):
        with pytest.raises(AuthenticationFailed, match="invalid user name or password"):
            await here.authenticator.login(Password(name, password), HERE)


async def test_a_hash_that_is_broken_lets_nobody_in() -> None:
    here = gateway()
    here.users["bob"] = type(here.users["bob"])(
        principal=here.users["bob"].principal, password_hash="$argon2id$nonsense"
    )
    with pytest.raises(AuthenticationFailed):
        await here.authenticator.login(Password("bob", "secret"), HERE)


async def test_guesses_at_the_same_time_get_no_more_tries(verified: Counting) -> None:
    here = gateway(failures=5)
    tries = await asyncio.gather(
        *(here.authenticator.login(Password("bob", f"guess{i}"), HERE) for i in range(50)),
        return_exceptions=True,
    )
    assert all(isinstance(answer, AuthenticationFailed) for answer in tries)
    assert len(verified.stored) == 5
    # Five failures and one event that tells of the block.
    assert len(here.world.ledger.of("login")) == 6


async def test_a_block_is_for_one_address_grows_and_ends() -> None:
    here = gateway(failures=2, window_s=60, longest_block_s=200)

    async def guess(times: int) -> None:
        for _ in range(times):
            with pytest.raises(AuthenticationFailed):
                await here.authenticator.login(Password("bob", "wrong"), HERE)

    async def blocked_for() -> str:
        with pytest.raises(AuthenticationFailed) as refused:
            await here.authenticator.login(Password("alice", "wonder"), HERE)
        return refused.value.message

    await guess(2)
    assert "60 seconds" in await blocked_for()
    await here.authenticator.login(Password("alice", "wonder"), THERE)
    for longer in ("120", "200", "200"):
        here.now += 200
        await guess(2)
        assert f"{longer} seconds" in await blocked_for()
    here.now += 200
    await here.authenticator.login(Password("bob", "secret"), HERE)


async def test_those_who_are_known_get_in_past_a_block() -> None:
    here = gateway(failures=2, remember_s=1000)
    await here.authenticator.login(Password("alice", "wonder"), HERE)
    for _ in range(2):
        with pytest.raises(AuthenticationFailed):
            await here.authenticator.login(Password("bob", "wrong"), HERE)
    await here.authenticator.login(Password("alice", "wonder"), HERE)


async def test_failures_of_long_ago_do_not_count() -> None:
    here = gateway(failures=2, window_s=60)
    for _ in range(4):
        with pytest.raises(AuthenticationFailed, match="invalid"):
            await here.authenticator.login(Password("bob", "wrong"), HERE)
        here.now += 61


async def test_nothing_recorded_holds_the_password() -> None:
    here = gateway()
    await here.authenticator.login(Password("bob", "secret"), HERE)
    with pytest.raises(AuthenticationFailed):
        await here.authenticator.login(Password("bob", "hunter2"), HERE)
    events = here.world.ledger.of("login")
    assert [e.body["result"] for e in events] == [1, 0]
    assert "secret" not in repr(events)
    assert "hunter2" not in repr(events)
    assert all(b"secret" not in key for key in here.chain.remembered._known)


async def test_a_token_in_the_place_of_a_name_is_not_recorded() -> None:
    here = gateway()
    for secret in (new_token()[0], "eyJhbGciOiJub25lIn0.e30."):
        with pytest.raises(AuthenticationFailed):
            await here.authenticator.login(Password(secret, "x"), HERE)
        assert secret not in repr(here.world.ledger.events)


class Broken(SimpleMechanism):
    """Fails, and says what it was shown."""

    kinds = frozenset[LoginKind]({"JWT"})
    description = "broken"

    async def check(self, shown: Credentials) -> LoginOutcome:
        raise KeyError(shown, getattr(shown, "secret", ""))


async def test_a_fault_of_ours_lets_nobody_in_and_is_recorded(capfd: pytest.CaptureFixture[str]) -> None:
    here = gateway()
    here.chain.mechanisms += (Broken(),)
    secret = "eyJhbGciOiJub25lIn0.e30.of-nobody"
    with pytest.raises(AuthenticationFailed, match="a fault of the gateway"):
        await here.authenticator.login(Bearer(secret), HERE)
    (event,) = here.world.ledger.of("login")
    assert event.body["verdict"] == "rejected"
    told = capfd.readouterr()
    assert "login_broke" in told.out + told.err
    assert "of-nobody" not in told.out + told.err + repr(event)


def test_the_cheap_hashes_of_these_tests_are_cheap() -> None:
    assert CHEAP.memory_cost == 8


async def test_calls_that_show_their_login_each_time_count_as_one_login() -> None:
    here = gateway()
    read = here.world.sessions.metrics.registry.get_sample_value

    def accepted() -> float | None:
        return read("sluice_logins_total", {"result": "accepted"})

    async def calls(client: Client, count: int) -> None:
        shown = Password("bob", "secret")
        for _ in range(count):
            await here.authenticator.login_each_time(shown, client, record_every_s=3600)

    await calls(HERE, 5)
    assert accepted() == 1
    await calls(THERE, 3)
    assert accepted() == 2
    here.now += 3601
    await calls(HERE, 2)
    assert accepted() == 3
    await here.authenticator.login(Password("bob", "secret"), HERE)
    assert accepted() == 4
    with pytest.raises(AuthenticationFailed):
        await here.authenticator.login_each_time(Password("bob", "wrong"), HERE, record_every_s=3600)
    assert read("sluice_logins_total", {"result": "rejected"}) == 1


@pytest.mark.parametrize("each_time", [False, True])
async def test_who_is_removed_while_his_login_is_recorded_is_not_logged_in(
    each_time: bool,
) -> None:
    here = gateway()

    async def record(event: AuditEvent) -> None:
        here.users.pop("bob", None)

    here.world.ledger.record = record  # type: ignore[method-assign]
    login = here.authenticator.login
    if each_time:
        login = partial(here.authenticator.login_each_time, record_every_s=3600)
    with pytest.raises(AuthenticationFailed):
        await login(Password("bob", "secret"), HERE)


# -- tokens that are for something ---------------------------------------------------------------------------


async def test_a_token_for_one_endpoint_is_refused_at_others_and_gets_no_cookie() -> None:
    here = gateway()
    secret, token = new_token(endpoints=["connect", "admin"], purpose="billing")
    plain, other = new_token()
    bob = here.users["bob"]
    here.users["bob"] = replace(bob, tokens=(token, other))
    for shown in (Bearer(secret), Password("bob", secret)):
        for protocol in ("connect", "ranger-rest"):
            found = await here.authenticator.login(shown, replace(HERE, protocol=protocol))
            assert found.values("purpose") == ("billing",)
        for protocol in ("thrift", "thrift_http"):
            with pytest.raises(AuthenticationFailed, match="the token is not for this endpoint"):
                await here.authenticator.login(shown, replace(HERE, protocol=protocol))
    principal = here.users["bob"].principal
    assert here.authenticator.cookie_for(principal, Bearer(secret)) is None
    assert here.authenticator.cookie_for(principal, Bearer(plain)) is not None
    cookie = here.authenticator.cookies.issue(here.users["bob"], token.hash)
    with pytest.raises(AuthenticationFailed, match="no longer valid"):
        await here.authenticator.login(Cookie(cookie), HERE)


class SharedByHand:
    """What all gateways count, which answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, int]] = []
        self.answers = asyncio.Semaphore(0)

    async def find(self, keys: Sequence[str]) -> Mapping[str, SharedCount]:
        return {}

    async def count(self, failures: Mapping[str, int], limits: LoginLimits) -> Mapping[str, SharedCount]:
        self.asked.append(dict(failures))
        await self.answers.acquire()
        return {}

    async def clear(self, keys: Sequence[str]) -> None: ...


@pytest.fixture
def few_unsent() -> Iterator[None]:
    with patch.object(guessing, "MAX_UNSENT", 3):
        yield


async def test_logins_that_cannot_be_read_are_counted_elsewhere_by_one_question_at_a_time(
    few_unsent: None,
) -> None:
    """A flood makes no tasks and no waiting connections of it; each failure is recorded first."""
    here, shared = gateway(failures=100), SharedByHand()
    here.authenticator._guesses = guesses = FailedLogins(LoginLimits(failures=100), shared=shared)
    recorded = here.world.ledger

    async def fail(number: int) -> None:
        client = replace(HERE, address=f"10.0.1.{number}")
        with pytest.raises(AuthenticationFailed, match="bad header"):
            await here.authenticator.login(UnreadableLogin("bad header"), client)

    await fail(0)
    await asyncio.sleep(0)
    assert shared.asked == [{"address 10.0.1.0": 1}]
    tasks = len(asyncio.all_tasks())
    for number in (1, 1, 2, 3, 4, 5, 1):
        await fail(number)
    assert (len(asyncio.all_tasks()), len(recorded.of("login"))) == (tasks, 8)
    # Guesses find room, and wait for theirs.
    guess = asyncio.ensure_future(here.authenticator.login(Password("bob", "wrong"), HERE))
    await until(lambda: len(recorded.of("login")) == 9)
    shared.answers.release()
    await until(lambda: len(shared.asked) == 2)
    assert not guess.done()
    few = {"address 10.0.1.1": 3, "address 10.0.1.2": 1, "address 10.0.1.3": 1}
    assert shared.asked[1] == few | {"address 10.0.0.1": 1, "user bob": 1}
    shared.answers.release()
    with pytest.raises(AuthenticationFailed):
        await guess
    guesses.close()


async def test_a_guess_counts_everywhere_although_its_client_has_gone() -> None:
    here, shared = gateway(), SharedByHand()
    here.authenticator._guesses = FailedLogins(shared=shared)
    guess = asyncio.ensure_future(here.authenticator.login(Password("bob", "wrong"), HERE))
    await until(lambda: bool(shared.asked))
    guess.cancel()
    await asyncio.wait([guess])
    assert [one.body["verdict"] for one in here.world.ledger.of("login")] == ["rejected"]
    assert shared.asked == [{"address 10.0.0.1": 1, "user bob": 1}]
    here.authenticator._guesses.close()
