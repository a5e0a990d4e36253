"""HiveServer2's calls at the edge: versions, configuration, metadata, information, errors, TLS."""

from __future__ import annotations

import asyncio
import re
import ssl
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.frontends import thrift_service
from gateway.frontends.thrift_service import FREE_TRIES, LONGEST_PAUSE_S, pause_s, read_configuration
from gateway.model.statement import AnswerFilter, AnswerRule
from gateway.reader.java_runtime import find_spark_home
from gateway.wire import calls
from gateway.wire.calls import METHODS
from gateway.wire.messages import CallFailed
from gateway.wire.rows import ColumnSpec, decode_rows, table_schema
from gateway.wire.tcli import THandleIdentifier, TOperationHandle, TSessionHandle, TTypeId
from tests.frontends.listening import OPEN, RawClient, listening, user

TLS = Path(__file__).parent / "tls"


# -- handles that are not there ------------------------------------------------------------------------------


async def test_who_goes_on_with_a_session_that_ended_waits_longer_and_longer() -> None:
    async def information(client: RawClient, session: TSessionHandle) -> calls.TGetInfoResp:
        request = calls.TGetInfoReq(sessionHandle=session, infoType=17)
        return await client.call("GetInfo", request, calls.TGetInfoResp)

    async def tries(client: RawClient) -> int:
        """Ask until two seconds are over, and return how often that was."""
        asked, clock = 0, asyncio.get_running_loop().time
        until = clock() + 2
        while clock() < until:
            reply = await information(client, gone)
            assert "Invalid SessionHandle" in (reply.status.errorMessage or "")
            asked += 1
        return asked

    gone = TSessionHandle(sessionId=THandleIdentifier(guid=b"g" * 16, secret=b"s" * 16))
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        assert await tries(client) <= FREE_TRIES + 7
        # A session that is there is served at once, and the count begins anew.
        opened = await client.call("OpenSession", calls.TOpenSessionReq(), calls.TOpenSessionResp)
        assert opened.sessionHandle is not None
        assert (await information(client, opened.sessionHandle)).status.statusCode == 0
        assert await tries(client) >= 1


def test_the_wait_for_an_unknown_handle_is_bounded() -> None:
    waits = [pause_s(before) for before in range(100)]
    assert waits == sorted(waits)
    assert (waits[0], waits[FREE_TRIES - 1], waits[-1]) == (0.0, 0.0, LONGEST_PAUSE_S)


# -- opening -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(11))
async def test_versions_1_to_11_are_echoed(version: int) -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        request = calls.TOpenSessionReq(client_protocol=version)
        reply = await client.call("OpenSession", request, calls.TOpenSessionResp)
        assert reply.serverProtocolVersion == version


async def test_a_client_that_names_no_version_speaks_10() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        request = calls.TOpenSessionReq()
        request.client_protocol = None  # type: ignore[assignment]
        reply = await client.call("OpenSession", request, calls.TOpenSessionResp)
        assert reply.serverProtocolVersion == 9


@pytest.mark.parametrize("version", [-1, 11, 0xA501, 0xA509, 2**31 - 1])
async def test_other_versions_are_refused_with_advice(version: int) -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        request = calls.TOpenSessionReq(client_protocol=version)
        reply = await client.call("OpenSession", request, calls.TOpenSessionResp)
        assert reply.status.statusCode == 3
        assert "V1 to V11" in (reply.status.errorMessage or "")
        assert gateway.world.backend.sessions == []


async def test_user_name_and_password_of_open_session_mean_nothing() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        await client.open_session(username="root", password="x")
        assert gateway.world.backend.sessions[0].principal.user == "bob"


@pytest.mark.parametrize(
    "key",
    [
        "hive.server2.proxy.user",
        "set:hiveconf:hive.server2.proxy.user",
        "set:hivevar:hive.server2.Proxy.User",
        "x.proxy.user.y",
    ],
)
async def test_nobody_becomes_somebody_else(key: str) -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        request = calls.TOpenSessionReq(configuration={key: "root"})
        reply = await client.call("OpenSession", request, calls.TOpenSessionResp)
        assert reply.status.sqlState == "28000"
        assert gateway.world.backend.sessions == []
        (event,) = gateway.world.ledger.of("security")
        assert (event.user, event.body["reason"]) == ("bob", key)


def test_the_configuration_is_an_allow_list() -> None:
    opening = read_configuration(
        {
            "use:database": "hr",
            "set:hiveconf:hive.server2.thrift.resultset.default.fetch.size": "1000",
            "set:hiveconf:spark.sql.shuffle.partitions": "4",
            "set:hivevar:x": "FROM secret",
            "set:system:user.dir": "/",
            "spark.sql.ansi.enabled": "false",
            "foo.bar": "1",
            "hive.server2.proxy.user": "bob",
        },
        "bob",
    )
    assert opening.database == "hr"
    assert opening.settings == {"spark.sql.shuffle.partitions": "4"}
    assert opening.acts_as == ()
    assert opening.backend == ""


@pytest.mark.parametrize("key", ["sluice.backend", "set:hiveconf:sluice.backend", "set:hiveconf:backend"])
def test_a_client_says_which_spark_it_wants(key: str) -> None:
    opening = read_configuration({key: "etl", "set:hivevar:backend": "bi", "backend": "bi"}, "bob")
    assert (opening.backend, opening.settings) == ("etl", {})


@pytest.mark.parametrize(
    "configuration",
    [
        {"sluice.backend": "a", "set:hiveconf:backend": "b"},
        {"sluice.backend": "a\0"},
        {"set:hiveconf:spark.sql.x y": "1"},
        {"set:hiveconf:spark.sql.x`": "1"},
        {"set:hiveconf:spark.x": "1\0"},
        {"set:hiveconf:spark.x": "1" * 5000},
        {"use:database": "x" * 300},
        {f"set:hiveconf:spark.x{i}": "1" for i in range(101)},
    ],
)
def test_settings_that_cannot_be_ones_are_refused(configuration: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        read_configuration(configuration, "bob")


async def test_settings_and_database_are_judged() -> None:
    async with listening() as gateway:
        gateway.world.judge.refused = "runSQLOnFiles"
        client = await RawClient.logged_in(gateway.port)
        await client.open_session(
            configuration={"use:database": "h`r", "set:hiveconf:spark.sql.ansi.enabled": "true"}
        )
        assert gateway.world.backend.received == ["SET `spark.sql.ansi.enabled`=`true`", "USE `h``r`"]
        request = calls.TOpenSessionReq(configuration={"set:hiveconf:spark.sql.runSQLOnFiles": "true"})
        reply = await client.call("OpenSession", request, calls.TOpenSessionResp)
        assert "[SLUICE_ACCESS_DENIED]" in (reply.status.errorMessage or "")
        assert len(gateway.world.sessions) == 1


# -- errors --------------------------------------------------------------------------------------------------


async def test_an_error_has_the_form_that_hives_driver_parses() -> None:
    async with listening() as gateway:
        gateway.world.judge.refused = "secret"
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()
        request = calls.TExecuteStatementReq(sessionHandle=session, statement="SELECT secret")
        reply = await client.call("ExecuteStatement", request, calls.TExecuteStatementResp)
        status = reply.status
        assert (status.statusCode, status.sqlState, status.errorCode) == (3, "42501", 0)
        (line,) = status.infoMessages or []
        # `*class:message:length:unique`, read from both ends; numbers must parse.
        assert line.startswith("*org.apache.hive.service.cli.HiveSQLException:[SLUICE_ACCESS_DENIED]")
        assert [int(n) for n in line.rsplit(":", 2)[1:]] == [0, -1]
        assert reply.operationHandle is None


async def test_an_asynchronous_failure_is_in_the_operations_status() -> None:
    async with listening() as gateway:
        told = "org.apache.hive.service.cli.HiveSQLException: Error running query: no\n\tat a.b(C.java:1)"
        gateway.world.backend.fail["SELECT bad"] = (told, "42000")
        client = await RawClient.logged_in(gateway.port)
        operation = await client.execute(await client.open_session(), "SELECT bad", run_async=True)
        request = calls.TGetOperationStatusReq(operationHandle=operation, getProgressUpdate=True)
        reply = await client.call("GetOperationStatus", request, calls.TGetOperationStatusResp)
        assert (reply.status.statusCode, reply.operationState, reply.sqlState) == (0, 5, "42000")
        assert reply.errorMessage == told


async def test_a_refusal_in_the_background_is_in_the_operations_status() -> None:
    async with listening() as gateway:
        gateway.world.judge.refused = "secret"
        client = await RawClient.logged_in(gateway.port)
        operation = await client.execute(await client.open_session(), "SELECT secret", run_async=True)
        (event,) = gateway.world.ledger.of("decided")
        request = calls.TGetOperationStatusReq(operationHandle=operation)
        status = await client.call("GetOperationStatus", request, calls.TGetOperationStatusResp)
        assert (status.status.statusCode, status.operationState) == (0, 5)
        assert (status.sqlState, status.errorCode) == ("42501", 0)
        assert (status.errorMessage or "").startswith("[SLUICE_ACCESS_DENIED]")
        assert (status.errorMessage or "").endswith(event.statement_id)
        about = calls.TGetResultSetMetadataReq(operationHandle=operation)
        told = await client.call("GetResultSetMetadata", about, calls.TGetResultSetMetadataResp)
        assert told.schema is not None
        assert [(c.columnName, c.position) for c in told.schema.columns] == [("Result", 0)]
        rows = calls.TFetchResultsReq(operationHandle=operation, maxRows=1)
        fetched = await client.call("FetchResults", rows, calls.TFetchResultsResp)
        assert (fetched.status.statusCode, fetched.status.sqlState) == (3, "42501")


async def test_every_call_with_an_unknown_handle_answers_in_its_own_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thrift_service, "pause_s", lambda before: 0.0)
    identifier = THandleIdentifier(guid=b"g" * 16, secret=b"s" * 16)
    session = TSessionHandle(sessionId=identifier)
    operation = TOperationHandle(operationId=identifier, operationType=99, hasResultSet=True)
    more: dict[str, dict[str, Any]] = {
        "GetInfo": {"infoType": 1},
        "ExecuteStatement": {"statement": "SELECT 1"},
        "FetchResults": {"maxRows": 1},
        "GetFunctions": {"functionName": "%"},
        "GetDelegationToken": {"owner": "bob", "renewer": "bob"},
        "CancelDelegationToken": {"delegationToken": "x"},
        "RenewDelegationToken": {"delegationToken": "x"},
    }
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        for method, (request, response) in METHODS.items():
            if method in ("OpenSession", "GetQueryId"):  # the one needs no handle, the other has no status
                continue
            handles: dict[str, Any] = (
                {"operationHandle": operation}
                if issubclass(request, calls.OperationRequest)
                else {"sessionHandle": session}
            )
            reply: Any = await client.call(method, request(**handles, **more.get(method, {})), response)
            assert reply.status.statusCode == 3, method
            if "Token" not in method:
                assert "Invalid" in reply.status.errorMessage, method
        assert gateway.world.backend.received == []


@pytest.mark.parametrize(
    "fields",
    [
        {"maxRows": -1},
        {"maxRows": 1, "orientation": 2},
        {"maxRows": 1, "orientation": 77},
        {"maxRows": 1, "fetchType": 9},
    ],
)
async def test_unknown_numbers_in_a_fetch_are_errors(fields: dict[str, int]) -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        request = calls.TGetTypeInfoReq(sessionHandle=await client.open_session())
        opened = await client.call("GetTypeInfo", request, calls.TGetTypeInfoResp)
        assert opened.operationHandle is not None
        fetch = calls.TFetchResultsReq(operationHandle=opened.operationHandle, **fields)
        reply = await client.call("FetchResults", fetch, calls.TFetchResultsResp)
        assert reply.status.statusCode == 3


# -- answers of the gateway's own ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 5, 9])
async def test_metadata_in_rows_and_in_columns(version: int) -> None:
    async with listening() as gateway:
        gateway.world.catalog.add("spark_catalog.hr.employee", ("id", "int"))
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session(client_protocol=version)
        request = calls.TGetColumnsReq(sessionHandle=session, schemaName="hr")
        opened = await client.call("GetColumns", request, calls.TGetColumnsResp)
        operation = opened.operationHandle
        assert operation is not None
        assert operation.operationType == 6
        described = await client.call(
            "GetResultSetMetadata",
            calls.TGetResultSetMetadataReq(operationHandle=operation),
            calls.TGetResultSetMetadataResp,
        )
        assert described.schema is not None
        columns = described.schema.columns
        assert [c.position for c in columns] == list(range(1, 24))
        assert columns[0].columnName == "TABLE_CAT"
        fetch = calls.TFetchResultsReq(operationHandle=operation, maxRows=100)
        reply = await client.call("FetchResults", fetch, calls.TFetchResultsResp)
        assert reply.results is not None
        assert bool(reply.results.columns) == (version >= 5)
        (row,) = decode_rows(reply.results)
        assert row[:6] == ("spark_catalog", "hr", "employee", "id", 4, "INT")
        again = await client.call("FetchResults", fetch, calls.TFetchResultsResp)
        assert again.results is not None
        assert decode_rows(again.results) == []
        assert again.results.startRowOffset == 1


async def test_filtered_answers_keep_sparks_schema() -> None:
    schema = table_schema([ColumnSpec("namespace", TTypeId.STRING)], first_position=0)
    async with listening() as gateway:
        gateway.world.judge.rules["SHOW DATABASES"] = AnswerRule(
            filter=AnswerFilter.DATABASES, catalog="spark_catalog"
        )
        gateway.world.backend.answers["SHOW DATABASES"] = [("default",), ("hr",)]
        gateway.world.hidden = {"spark_catalog.hr"}
        client = await RawClient.logged_in(gateway.port)
        operation = await client.execute(await client.open_session(), "SHOW DATABASES")
        gateway.world.backend.last.spark_schema = schema
        fetch = calls.TFetchResultsReq(operationHandle=operation, maxRows=100)
        reply = await client.call("FetchResults", fetch, calls.TFetchResultsResp)
        assert reply.results is not None
        assert decode_rows(reply.results) == [("default",)]


async def test_the_log_of_an_operation_is_empty_and_not_an_error() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        operation = await client.execute(await client.open_session(), "SELECT 1")
        fetch = calls.TFetchResultsReq(operationHandle=operation, maxRows=100, fetchType=1)
        reply = await client.call("FetchResults", fetch, calls.TFetchResultsResp)
        assert reply.status.statusCode == 0
        assert reply.results is not None
        assert decode_rows(reply.results) == []


async def test_information_in_the_member_that_its_type_wants() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()

        async def ask(number: int) -> calls.TGetInfoResp:
            request = calls.TGetInfoReq(sessionHandle=session, infoType=number)
            return await client.call("GetInfo", request, calls.TGetInfoResp)

        assert (await ask(18)).infoValue.stringValue == "4.3.0"
        assert (await ask(30)).infoValue.smallIntValue == 128
        assert (await ask(115)).infoValue.integerBitmask == 0x7F
        assert (await ask(105)).infoValue.integerFlag == 2_000_000
        assert (await ask(10006)).infoValue.stringValue == "ADD,ZONE"
        unknown = await ask(4711)
        assert unknown.status.statusCode == 3
        assert (await ask(17)).infoValue.stringValue == "Spark SQL"


async def test_client_information_is_taken_and_changes_nothing() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()
        for given in (None, {}, {"ApplicationName": "x", "hive.server2.proxy.user": "root"}):
            request = calls.TSetClientInfoReq(sessionHandle=session, configuration=given)
            reply = await client.call("SetClientInfo", request, calls.TSetClientInfoResp)
            assert reply.status.statusCode == 0


async def test_the_id_of_a_query_is_that_of_the_record() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()
        operation = await client.execute(session, "SELECT 1")
        asked = calls.TGetQueryIdReq(operationHandle=operation)
        found = (await client.call("GetQueryId", asked, calls.TGetQueryIdResp)).queryId
        assert found in {event.statement_id for event in gateway.world.ledger.events}
        operation.operationId.secret = b"0" * 16
        asked = calls.TGetQueryIdReq(operationHandle=operation)
        with pytest.raises(CallFailed, match="Invalid OperationHandle"):
            await client.call("GetQueryId", asked, calls.TGetQueryIdResp)


HIVE_2_3 = """OpenSession CloseSession GetInfo ExecuteStatement GetTypeInfo GetCatalogs GetSchemas GetTables
    GetTableTypes GetColumns GetFunctions GetPrimaryKeys GetCrossReference GetOperationStatus CancelOperation
    CloseOperation GetResultSetMetadata FetchResults GetDelegationToken CancelDelegationToken
    RenewDelegationToken"""
HIVE_3_1 = f"{HIVE_2_3} GetQueryId SetClientInfo"
HIVE_4_1 = f"{HIVE_3_1} UploadData DownloadData"


def test_every_call_of_hive_is_answered_or_refused_on_purpose() -> None:
    assert set(calls.METHODS) | set(calls.REFUSED) == set(HIVE_4_1.split())
    assert set(calls.METHODS) == set(HIVE_3_1.split())


def test_these_are_the_calls_of_the_service_that_spark_brings_along() -> None:
    """Its jar has Hive 4's interface, which 4.1 has not changed."""
    (jar,) = (find_spark_home() / "jars").glob("hive-service-rpc-*.jar")
    with zipfile.ZipFile(jar) as packed:
        interface = packed.read("org/apache/hive/service/rpc/thrift/TCLIService$Iface.class")
    found = {call for call in HIVE_4_1.split() if call.encode() in interface}
    named = {name.decode() for name in re.findall(rb"T([A-Z][A-Za-z]+)Req;", interface)}
    assert found == named == set(HIVE_4_1.split())


async def test_delegation_tokens_are_refused() -> None:
    more: dict[str, dict[str, Any]] = {
        "GetDelegationToken": {"owner": "bob", "renewer": "bob"},
        "CancelDelegationToken": {"delegationToken": "x"},
        "RenewDelegationToken": {"delegationToken": "x"},
    }
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()
        for method, fields in more.items():
            request, response = METHODS[method]
            reply: Any = await client.call(method, request(sessionHandle=session, **fields), response)
            assert reply.status.statusCode == 3, method
            assert "delegation tokens are not supported" in reply.status.errorMessage, method
            assert getattr(reply, "delegationToken", None) is None


async def test_a_login_lasts() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        gateway.users["bob"] = user("bob", "secret", "admins")
        await client.execute(await client.open_session(), "SELECT 1")
        assert gateway.world.judge.judged[-1].principal.groups == {"analysts"}


async def test_settings_that_come_with_a_statement_go_nowhere() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        request = calls.TExecuteStatementReq(
            sessionHandle=await client.open_session(),
            statement="SELECT 1",
            confOverlay={"spark.sql.ansi.enabled": "false", "hive.server2.proxy.user": "root"},
        )
        reply = await client.call("ExecuteStatement", request, calls.TExecuteStatementResp)
        assert reply.status.statusCode == 0
        told = repr((gateway.world.backend.received, gateway.world.backend.sessions))
        assert "ansi" not in told
        assert "root" not in told
        assert gateway.world.backend.sessions[0].principal.user == "bob"


# -- TLS -----------------------------------------------------------------------------------------------------


async def test_the_listener_speaks_tls_and_only_that() -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(TLS / "test-only-certificate.pem", TLS / "test-only-key.pem")
    trusting = ssl.create_default_context(cafile=str(TLS / "test-only-certificate.pem"))
    async with listening(ssl=server) as gateway:
        client = RawClient(
            *await asyncio.open_connection(
                "127.0.0.1", gateway.port, ssl=trusting, server_hostname="localhost"
            )
        )
        OPEN.append(client)
        assert (await client.log_in("bob", "secret"))[0] == 5
        await client.execute(await client.open_session(), "SELECT 1")
        plain = await RawClient.connect(gateway.port)
        plain.writer.write(b"\x01\x00\x00\x00\x05PLAIN")
        assert await plain.is_closed()
