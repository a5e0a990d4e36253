"""A gateway behind this one that wants each user's own token, over Spark Connect."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
import structlog.testing

from gateway.backends.spark_connect import SparkConnectBackend, SparkConnectOptions, SparkConnectUser
from gateway.errors import AuthenticationFailed, BackendMismatch, BackendUnavailable, InvalidRequest
from gateway.model.principal import Principal
from gateway.model.reading_settings import READING_SETTINGS
from gateway.model.spark_configuration import (
    PARSER,
    PARSER_CLASSES,
    READING_PARSERS,
    READING_VERSION,
    ParserConfiguration,
)
from gateway.model.spark_logins import SparkLogin
from gateway.session.ports import Envelope
from gateway.wire import connect_calls
from gateway.wire.connect import METHODS, pb
from gateway.wire.connect_requests import is_uuid, read_user
from tests.backends.fake_connect_server import Configured, FakeConnectServer, spark_connect
from tests.backends.test_spark_connect import SESSION, all_of, answering, cleared, two
from tests.speed import patience

KEY = ("bob", SESSION)
PLAN = pb.Plan(root=pb.Relation(sql=pb.SQL(query="SELECT 1"))).SerializeToString()
CALLS: dict[str, bytes] = {
    "Config": pb.ConfigRequest(
        session_id=SESSION, user_context=pb.UserContext(user_id="bob")
    ).SerializeToString(),
    "ArtifactStatus": connect_calls.artifact_statuses(KEY, ["a"], "", ""),
    "Interrupt": connect_calls.interrupt(KEY, "0" * 36, ""),
    "ReleaseExecute": connect_calls.release_execute(KEY, "0" * 36),
    "ReleaseSession": connect_calls.release_session(KEY),
    "FetchErrorDetails": connect_calls.fetch_error_details(KEY, "e", "", ""),
    "CloneSession": connect_calls.clone_session(KEY, SESSION, "", ""),
    "GetStatus": connect_calls.get_status(KEY),
}


async def token_of(login: SparkLogin) -> str:
    """As an issuer does: nobody gets another's."""
    if not login.is_gateway and not login.shown:
        raise AuthenticationFailed("this Spark takes users by tokens of their own")
    return f"token-of-{login.principal.user}"


@contextlib.asynccontextmanager
async def proxied(server: FakeConnectServer) -> AsyncIterator[SparkConnectBackend]:
    backend = SparkConnectBackend(
        SparkConnectOptions(
            host="127.0.0.1",
            port=server.port,
            token="of-the-gateway",
            user_tokens=token_of,
            channels=2,
            connect_timeout_s=patience(5),
        )
    )
    try:
        yield backend
    finally:
        await backend.close()


def user(backend: SparkConnectBackend, name: str = "bob", shown: str = "shown") -> SparkConnectUser:
    login = SparkLogin(Principal(user=name), shown)
    return backend.act_for(lambda: login)


def wants_own_tokens(server: FakeConnectServer) -> None:
    """Have the server take a call about a user's session with that user's token alone."""

    def checked(answer: Callable[[bytes, Any], Any]) -> Callable[[bytes, Any], Any]:
        async def unary(request: bytes, context: Any) -> Any:
            shown = dict(context.invocation_metadata()).get("authorization")
            if shown != f"Bearer token-of-{read_user(request)}":
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")
            return await answer(request, context)

        return unary

    server.answers |= {name: checked(answer) for name, answer in server.answers.items()}


async def test_a_session_is_opened_and_asked_with_its_users_token_and_its_question_with_the_gateways() -> (
    None
):
    async with spark_connect() as server, proxied(server) as backend:
        spark = Configured(server)
        wants_own_tokens(server)
        opened = await user(backend).open_session(SESSION, "bob")
        assert opened.id == f"{SESSION}@{spark.process}"
        shown = {
            read_user(request): metadata["authorization"] for _, request, metadata in server.calls if request
        }
        assert shown == {"bob": "Bearer token-of-bob", "sluice": "Bearer token-of-sluice"}
        await backend.probe()


async def test_every_call_carries_the_token_of_whose_session_it_is_about() -> None:
    assert CALLS.keys() == METHODS.keys() - {"ExecutePlan", "AnalyzePlan", "ReattachExecute", "AddArtifacts"}
    async with spark_connect() as server, proxied(server) as backend:
        server.answers |= {name: answering(b"") for name in METHODS}
        server.answers |= {"ExecutePlan": two, "ReattachExecute": two}
        bob, envelope = user(backend), Envelope(session_id=SESSION, user="bob")
        await all_of(bob.execute(cleared(PLAN), envelope))
        await bob.analyze(cleared(PLAN), envelope)
        await all_of(bob.reattach(connect_calls.reattach(KEY, "0" * 36)))
        for method, request in CALLS.items():
            await bob.call(method, request)

        async def parts() -> AsyncIterator[bytes]:
            yield pb.AddArtifactsRequest(
                session_id=SESSION, user_context=pb.UserContext(user_id="bob")
            ).SerializeToString()

        await bob.add_artifacts(parts(), "bob")
        assert {name for name, _, _ in server.calls} == METHODS.keys()
        assert {metadata["authorization"] for _, _, metadata in server.calls} == {"Bearer token-of-bob"}


async def test_nothing_about_a_session_goes_out_under_another_users_token() -> None:
    async with spark_connect() as server, proxied(server) as backend:
        ann, envelope = user(backend, "ann"), Envelope(session_id=SESSION, user="bob")
        for method, request in CALLS.items():
            with pytest.raises(AuthenticationFailed, match="another user"):
                await ann.call(method, request)
            with pytest.raises(AuthenticationFailed, match="another user"):
                await backend.own.call(method, request)
        with pytest.raises(AuthenticationFailed, match="another user"):
            await all_of(ann.execute(cleared(PLAN), envelope))
        with pytest.raises(AuthenticationFailed, match="another user"):
            await ann.analyze(cleared(PLAN), envelope)

        async def parts() -> AsyncIterator[bytes]:
            yield pb.AddArtifactsRequest(
                session_id=SESSION, user_context=pb.UserContext(user_id="bob")
            ).SerializeToString()

        server.answers["AddArtifacts"] = answering(b"")
        with pytest.raises(InvalidRequest, match="several users"):
            await ann.add_artifacts(parts(), "ann")
        assert all(not request for _, request, _ in server.calls)


async def test_who_has_nothing_to_show_sends_nothing() -> None:
    async with spark_connect() as server, proxied(server) as backend:
        Configured(server)
        with pytest.raises(AuthenticationFailed, match="tokens of their own"):
            await user(backend, shown="").open_session(SESSION, "bob")
        assert not server.calls


async def test_a_user_who_is_not_let_in_is_no_outage_and_a_gateway_that_is_not_is_one() -> None:
    async with spark_connect() as server, proxied(server) as backend:

        async def refuse(_request: bytes, context: Any) -> Any:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "token-of-bob is none of ours")

        server.answers |= dict.fromkeys(METHODS, refuse)
        with pytest.raises(AuthenticationFailed, match="does not accept you") as raised:
            await user(backend).open_session(SESSION, "bob")
        assert "token" not in str(raised.value)
        with pytest.raises(BackendUnavailable, match="does not accept the gateway's token"):
            await backend.probe()


async def test_what_stands_before_a_spark_that_is_away_tells_nobody_the_token_that_it_was_shown() -> None:
    async with spark_connect() as server, proxied(server) as backend:

        async def repeat(_request: bytes, context: Any) -> Any:
            shown = dict(context.invocation_metadata())["authorization"]
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"upstream is away ({shown})")

        server.answers |= dict.fromkeys(METHODS, repeat)
        with structlog.testing.capture_logs() as logged:
            with pytest.raises(BackendUnavailable) as raised:
                await user(backend).open_session(SESSION, "bob")
            with pytest.raises(BackendUnavailable):
                await backend.probe()
        assert "upstream is away" in raised.value.for_operators
        assert "upstream is away" in str(logged)
        assert "token-of-" not in f"{raised.value.for_operators} {logged}"


async def test_a_user_of_the_gateways_own_name_cannot_name_the_session_of_its_probes() -> None:
    async with spark_connect() as server, proxied(server) as one, proxied(server) as other:
        Configured(server)
        for backend in (one, one, other):
            await backend.probe()
        asked = [request for method, request, _ in server.calls if method == "Config"]
        probed = [pb.ConfigRequest.FromString(request).session_id for request in asked]
        assert len(set(probed)) == 2
        assert all(map(is_uuid, probed))


@contextlib.asynccontextmanager
async def before_sluice(server: FakeConnectServer) -> AsyncIterator[SparkConnectBackend]:
    backend = SparkConnectBackend(
        SparkConnectOptions(
            host="127.0.0.1",
            port=server.port,
            user_tokens=token_of,
            is_sluice=True,
            reader=ParserConfiguration(version="4.3.0"),
            connect_timeout_s=patience(5),
        )
    )
    try:
        yield backend
    finally:
        await backend.close()


def tells_reading(server: FakeConnectServer, **differing: str) -> None:
    """Have the server answer as a Sluice does that takes this gateway for one."""
    parsers = "\n".join([PARSER, *sorted(PARSER_CLASSES - {PARSER})])
    told = {**READING_SETTINGS, READING_VERSION: "4.3.1", READING_PARSERS: parsers, **differing}

    async def answer(request: bytes, context: Any) -> bytes:
        message = pb.ConfigRequest.FromString(request)
        assert message.operation.WhichOneof("op_type") == "get_all", "nothing is set there"
        pairs = [pb.KeyValue(key=key, value=value) for key, value in told.items()]
        response = pb.ConfigResponse(session_id=message.session_id, server_side_session_id="s", pairs=pairs)
        return response.SerializeToString()

    server.answers["Config"] = answer
    server.answers["ReleaseSession"] = answering(b"")


async def test_another_sluice_tells_how_texts_are_read_and_nothing_is_set_there() -> None:
    async with spark_connect() as server, before_sluice(server) as backend:
        tells_reading(server)
        opened = await user(backend).open_session(SESSION, "bob")
        assert opened.id == "s"
        assert READING_VERSION not in opened.settings


@pytest.mark.parametrize(
    "differing",
    [{READING_VERSION: "4.2.0"}, {READING_PARSERS: "A"}, {"spark.sql.caseSensitive": "true"}],
)
async def test_another_sluice_that_reads_otherwise_gets_nothing(differing: dict[str, str]) -> None:
    async with spark_connect() as server, before_sluice(server) as backend:
        tells_reading(server, **differing)
        with pytest.raises(BackendMismatch):
            await user(backend).open_session(SESSION, "bob")


async def test_what_tells_nothing_is_no_sluice_that_takes_this_one_for_a_gateway() -> None:
    async with spark_connect() as server, before_sluice(server) as backend:
        tells_reading(server, **{READING_VERSION: ""})
        with pytest.raises(BackendUnavailable, match=r"logins\.jwt\.gateway"):
            await user(backend).open_session(SESSION, "bob")
