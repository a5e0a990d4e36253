"""Who gets a table of a served catalog, what of it, and what the record says of that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from tests.policy.restricted_tables import schema
from tests.rest.worlds import CANARY, COLUMNS, PACK, fault, loaded, serving, told

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_table_without_obligations_passes_byte_by_byte(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        reply = await served.load_table("bob", "plain")
        assert reply.status == 200
        assert reply.body == json.dumps(served.upstream.tables["shop", "plain"]).encode()
        (decided,) = served.ledger.of("decided")
        assert decided.body["verdict"] == "cleared"
        assert decided.body["reqUser"] == "bob"
        assert decided.body["reqData"] == "SELECT * FROM `lake`.`shop`.`plain`"
        assert decided.body["cliType"] == "iceberg_rest"
        assert decided.body["client"] == {"operation": "loadTable"}
        (completed,) = served.ledger.of("completed")
        assert completed.body["outcome"] == "finished"
        assert completed.body["bytes"] == len(reply.body)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("rows", "a row filter of table lake.shop.rows applies to user bob"),
        ("masks", "a mask of column `name` of table lake.shop.masks applies"),
        ("both", "a mask of column `name` and a row filter"),
        ("partly", "needs select on every column"),
        ("gone", "needs select on table lake.shop.gone"),
        ("nothing", "needs select on table lake.shop.nothing"),
    ],
)
async def test_any_obligation_is_a_refusal_that_says_which(reader: ReaderPool, table: str, why: str) -> None:
    async with serving(reader) as served:
        reply = await served.load_table("bob", table)
        assert reply.status == 403
        assert why in fault(reply)
        assert CANARY not in reply.body.decode()
        assert "ETag" not in reply.headers
        (decided,) = served.ledger.of("decided")
        assert decided.body["verdict"] == "refused"
        assert not served.ledger.of("completed")
        assert decided.event_id in fault(reply)


async def test_what_is_not_there_is_told_to_whoever_might_have_had_it(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        missing = await served.load_table("bob", "new")
        assert (missing.status, fault(missing)) == (404, "table `lake.shop.new` does not exist")
        hidden = await served.ask("bob", "/v1/lake/namespaces/hidden/tables/secret")
        absent = await served.ask("bob", "/v1/lake/namespaces/hidden/tables/absent")
        assert hidden.status == absent.status == 403
        said = [fault(one).split(";")[0].replace("absent", "secret") for one in (hidden, absent)]
        assert said[0] == said[1]


async def test_who_enforces_is_given_restrictions(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        both = told(await served.load_table("engine", "both"))
        assert both["read-restrictions"] == {
            "required-row-filter": {
                "type": "and",
                "left": {"type": "eq", "left": {"type": "reference", "id": 3}, "right": "EMEA"},
                "right": {"type": "not-null", "child": {"type": "reference", "id": 3}},
            },
            "required-column-projections": [{"field-id": 2, "action": "sha-256-global"}],
        }
        assert both["metadata"] == served.upstream.tables["shop", "both"]["metadata"]
        (decided,) = served.ledger.of("decided")
        assert len(decided.body["scans"][0]["obligations"]) == 2
        assert "read-restrictions" not in told(await served.load_table("engine", "plain"))
        # What may not be selected is not NULL unless the operator says so.
        assert (await served.load_table("engine", "partly")).status == 403


async def test_denied_columns_are_null_where_the_operator_says_so(reader: ReaderPool) -> None:
    async with serving(reader, more="    null_denied_columns: true\n") as served:
        partly = told(await served.load_table("engine", "partly"))
        assert partly["read-restrictions"] == {
            "required-column-projections": [{"field-id": 4, "action": "replace-with-null"}]
        }
        assert (await served.load_table("bob", "partly")).status == 403
        # All columns are denied: there is nothing to give.
        assert (await served.load_table("engine", "gone")).status == 403


async def test_columns_that_a_star_leaves_out_are_in_no_files_either(reader: ReaderPool) -> None:
    async with serving(reader, rules=Rules(star="visible")) as served:
        assert "columns that you may not select" in fault(await served.load_table("bob", "partly"))
        # Who enforces restrictions is told of none for them.
        told_why = fault(await served.load_table("engine", "partly"))
        assert "it has columns that you may not select" in told_why
        assert (await served.load_table("root", "partly")).status == 200


async def test_who_has_to_enforce_has_no_logins_to_files(reader: ReaderPool) -> None:
    """By policies the engine may overwrite the table, and sees all of it; its catalog restricts it."""
    pack = PACK.replace("users: [root]", "users: [root, engine]")
    async with serving(reader, pack=pack) as served:
        login = {"storage-credentials": [{"prefix": "s3://", "config": {"s3.session-token": CANARY}}]}
        served.upstream.replies["credentials"] = login
        served.upstream.tables["shop", "plain"] |= login
        path = "/v1/lake/namespaces/shop/tables/plain/credentials"
        assert "storage-credentials" in told(await served.load_table("engine", "plain"))
        assert (await served.ask("engine", path)).status == 200
        served.upstream.tables["shop", "plain"]["read-restrictions"] = {
            "required-column-projections": [{"field-id": 2, "action": "replace-with-null"}]
        }
        restricted = told(await served.load_table("engine", "plain"))
        assert restricted["read-restrictions"]
        assert "storage-credentials" not in restricted
        assert (await served.ask("engine", path)).status == 403


async def test_credentials_are_for_who_may_overwrite(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        secret = {"s3.access-key-id": CANARY, "s3.endpoint": "http://s3", "client.region": "eu"}
        for name in ("plain", "both"):
            served.upstream.tables["shop", name] |= {
                "config": dict(secret),
                "storage-credentials": [{"prefix": "s3://", "config": {"s3.session-token": CANARY}}],
            }
        asking = {"X_Iceberg_Access_Delegation": "vended-credentials,remote-signing,other"}
        full = await served.load_table("root", "plain", **asking)
        assert full.body == json.dumps(served.upstream.tables["shop", "plain"]).encode()
        given = served.upstream.headers[-1]["X-Iceberg-Access-Delegation"]
        assert given == "vended-credentials"
        for user, name in (("bob", "plain"), ("engine", "both")):
            plain = told(await served.load_table(user, name, **asking))
            assert "storage-credentials" not in plain
            assert plain["config"] == {"s3.endpoint": "http://s3", "client.region": "eu"}
            assert plain["metadata"] == served.upstream.tables["shop", name]["metadata"]
        # No login to the catalog itself passes, to nobody.
        past = {"token": CANARY, "uri": CANARY, "s3.signer.uri": CANARY, "header.Authorization": CANARY}
        served.upstream.tables["shop", "plain"]["config"] |= past
        assert told(await served.load_table("root", "plain", **asking))["config"] == secret
        # Nor is a token of ours shown to the catalog, for new logins.
        refresh = "client.refresh-credentials-endpoint"
        login = {"prefix": "s3://", "config": {refresh: f"https://{CANARY}/x", "token": CANARY}}
        served.upstream.tables["shop", "plain"]["storage-credentials"] = [login]
        (given,) = told(await served.load_table("root", "plain", **asking))["storage-credentials"]
        assert given["config"] == {refresh: "v1/lake/namespaces/shop/tables/plain/credentials"}


async def test_a_304_hides_no_revocation(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        first = await served.load_table("bob", "plain")
        etag = first.headers["ETag"]
        again = await served.load_table("bob", "plain", If_None_Match=f'"other", W/{etag}')
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", etag)
        assert len(served.ledger.of("decided")) == 2
        # Another user's, another version of policies and other metadata: each another one.
        assert (await served.load_table("root", "plain", If_None_Match=etag)).status == 200
        served.policies = served.load()
        renewed = await served.load_table("bob", "plain", If_None_Match=etag)
        assert renewed.status == 200
        served.policies = served.load(PACK.replace("table: [rows, both]", "table: [plain, both]"))
        etag = renewed.headers["ETag"]
        assert (await served.load_table("bob", "plain", If_None_Match=etag)).status == 403
        assert (await served.load_table("bob", "plain", If_None_Match="*")).status == 403
        # The catalog is never asked whether something is as it was.
        assert not any("If-None-Match" in one for one in served.upstream.headers)


async def test_what_the_catalog_restricts_counts_beside_policies(reader: ReaderPool) -> None:
    async with serving(reader, more="    stricter: true\n") as served:
        own = {
            "required-row-filter": {"type": "not-null", "child": {"type": "reference", "id": 2}},
            "required-column-projections": [
                {"field-id": 2, "action": "mask-alphanum"},
                {"field-id": 4, "action": "truncate-to-year"},
            ],
        }
        for name in ("plain", "both"):
            served.upstream.tables["shop", name]["read-restrictions"] = own
        refused = await served.load_table("bob", "plain")
        assert refused.status == 403
        assert "a restriction of catalog `lake`" in fault(refused)
        assert told(await served.load_table("engine", "plain"))["read-restrictions"] == own
        both = told(await served.load_table("engine", "both"))["read-restrictions"]
        assert both["required-row-filter"]["right"] == own["required-row-filter"]
        assert both["required-column-projections"] == [
            {"field-id": 2, "action": "replace-with-null"},
            {"field-id": 4, "action": "truncate-to-year"},
        ]
        served.upstream.tables["shop", "plain"]["read-restrictions"] = {"of the future": 1}
        for user in ("bob", "engine", "root"):
            reply = await served.load_table(user, "plain")
            assert reply.status == 403
            assert "unknown member `of the future`" in fault(reply)


async def test_nothing_is_answered_that_is_not_on_record(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        served.ledger.down = True
        for path in ("/tables/plain", "/tables", ""):
            reply = await served.ask("bob", f"/v1/lake/namespaces/shop{path}")
            assert reply.status == 503
            assert CANARY not in reply.body.decode()


async def test_a_table_that_is_changed_is_judged_by_what_is_passed_on(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        assert (await served.load_table("bob", "plain")).status == 200
        served.policies = served.load(
            PACK.replace("table: [masks, both], column: name", "table: plain, column: later")
        )
        assert (await served.load_table("bob", "plain")).status == 200
        served.upstream.tables["shop", "plain"] = loaded({"id": "long", "later": "string"})
        assert "a mask of column `later`" in fault(await served.load_table("bob", "plain"))


ODD: list[Any] = [
    b"",
    b"[1]",
    b"\xff",
    b'{"metadata": 1}',
    b'{"metadata": {}}',
    b'{"metadata": {"schemas": [{"fields": [{"name": 1}]}]}}',
    b'{"metadata": {"schemas": [], "current-schema-id": 7}}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("odd", ODD)
async def test_odd_answers_of_a_catalog_give_nothing_away(reader: ReaderPool, odd: bytes) -> None:
    async with serving(reader) as served:
        served.upstream.fails = (200, odd)
        for user in ("bob", "root"):
            reply = await served.load_table(user, "plain")
            assert reply.status in (403, 502), reply
            fault(reply)


async def test_errors_of_a_catalog_are_told_to_whoever_might_have_had_the_table(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        served.upstream.fails = (500, json.dumps({"error": {"type": "E", "message": CANARY}}).encode())
        assert (await served.load_table("bob", "plain")).status == 500
        assert CANARY not in (await served.load_table("eve", "plain")).body.decode()
        served.upstream.fails = (401, b"")
        assert (await served.load_table("bob", "plain")).status == 403


async def test_existence_is_told_to_whoever_may_know(reader: ReaderPool) -> None:
    async with serving(reader) as served:

        async def head(user: str, path: str) -> int:
            return (await served.ask(user, f"/v1/lake/namespaces/{path}", method="HEAD")).status

        assert await head("bob", "shop/tables/rows") == 204
        assert await head("bob", "shop/tables/gone") == 404
        assert await head("bob", "shop/tables/new") == 404
        assert await head("bob", "hidden/tables/secret") == 404
        assert await head("root", "hidden/tables/secret") == 204
        assert await head("bob", "shop") == 204
        assert await head("bob", "hidden") == 404


async def test_lists_have_what_the_caller_may_know_of(reader: ReaderPool) -> None:
    async with serving(reader) as served:

        async def listed(user: str, path: str) -> Any:
            return told(await served.ask(user, f"/v1/lake/namespaces{path}"))

        assert await listed("bob", "") == {"namespaces": [["shop"]]}
        assert await listed("root", "") == {"namespaces": [["hidden"], ["shop"]]}
        assert await listed("bob", "?parent=shop") == {"namespaces": [["shop", "eu"]]}
        assert (await served.ask("bob", "/v1/lake/namespaces?parent=hidden")).status == 404
        names = ["both", "masks", "partly", "plain", "rows"]
        tables = [{"namespace": ["shop"], "name": name} for name in names]
        assert await listed("bob", "/shop/tables") == {"identifiers": tables}
        assert (await served.ask("bob", "/v1/lake/namespaces/hidden/tables")).status == 404
        first = await listed("bob", "/shop/tables?pageToken=&pageSize=2")
        assert first["identifiers"] == tables[:2]
        # A token tells of nothing that was not shown.
        token = first["next-page-token"]
        second = await listed("bob", f"/shop/tables?pageToken={token}&pageSize=3")
        assert second == {"identifiers": tables[2:]}
        for odd in (
            "pageSize=0",
            "pageSize=x",
            "pageToken=%FF",
            "pageToken=!!",
            "pageSize=1&pageSize=2",
            "x=1",
        ):
            assert (await served.ask("bob", f"/v1/lake/namespaces/shop/tables?{odd}")).status == 400


async def test_configuration_is_the_gateways_own(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        for path in ("/v1/config", "/v1/config?warehouse=lake"):
            config = told(await served.ask("bob", path))
            assert config["overrides"]["prefix"] == "lake"
            assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in config["endpoints"]
            assert CANARY not in json.dumps(config)
        assert (await served.ask("bob", "/v1/config?warehouse=other")).status == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/other/namespaces", 404),
        ("GET", "/v1/namespaces", 404),
        ("GET", "/v2/config", 404),
        ("PATCH", "/v1/lake/namespaces", 405),
        ("GET", "/v1/lake/namespaces/shop/tables/plain/files", 404),
        ("GET", "/v1/lake/namespaces/shop/tables/plain?snapshots=some", 400),
        ("GET", "/v1/lake/namespaces/shop/tables/plain?x=1", 400),
        ("GET", "/v1/lake/namespaces/shop/tables/a.b", 403),
        ("GET", "/v1/lake/namespaces/shop.eu/tables/plain", 403),
        ("GET", "/v1/lake/namespaces/shop/tables/%2e%2e%2f", 403),
        ("GET", "/v1/lake/namespaces/%FF/tables/t", 400),
        ("GET", "/v1/lake/namespaces/shop%1F/tables/t", 400),
        ("POST", "/v1/oauth/tokens", 400),
        ("GET", "/v1/lake/namespaces?parent=%1F", 400),
    ],
)
async def test_what_is_unknown_is_refused_and_not_passed_on(
    reader: ReaderPool, method: str, path: str, status: int
) -> None:
    async with serving(reader) as served:
        reply = await served.ask("root", path, method=method)
        assert reply.status == status, reply
        fault(reply)
        assert not served.upstream.asked


async def test_nested_namespaces_are_named_whole(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        served.upstream.tables["shop.eu", "plain"] = loaded()
        reply = await served.ask("bob", "/v1/lake/namespaces/shop%1Feu/tables/plain")
        assert reply.status == 200
        assert served.ledger.of("decided")[-1].body["reqData"] == "SELECT * FROM `lake`.`shop`.`eu`.`plain`"


def with_past(dropped: str, *, again: bool = False) -> dict[str, Any]:
    """A table that had a column more; `again`: and has one of its name now, with an id of its own."""
    full = schema(dict(COLUMNS), required=("id",))
    fields = [one for one in full["fields"] if one["name"] != dropped]
    if again:
        fields.append({"id": 9, "name": dropped, "type": "string", "required": False})
    now = {**full, "schema-id": 1, "fields": fields}
    return loaded(COLUMNS, **{"schemas": [full, now], "current-schema-id": 1, "last-column-id": 9})


async def test_a_former_column_counts_since_files_and_snapshots_have_it(reader: ReaderPool) -> None:
    async with serving(reader, more="    null_denied_columns: true\n") as served:
        for table, dropped, why in (
            ("partly", "born", "needs select on every column"),
            ("masks", "name", "a mask of column `name`"),
        ):
            served.upstream.tables["shop", table] = with_past(dropped)
            refused = await served.load_table("bob", table)
            assert (refused.status, why in fault(refused)) == (403, True), refused
        hashed = {"action": "sha-256-global"}
        for again, ids in ((False, [2]), (True, [2, 9])):
            served.upstream.tables["shop", "masks"] = with_past("name", again=again)
            masks = told(await served.load_table("engine", "masks"))["read-restrictions"]
            assert masks == {"required-column-projections": [{"field-id": one, **hashed} for one in ids]}
        partly = told(await served.load_table("engine", "partly"))["read-restrictions"]
        assert partly["required-column-projections"] == [{"field-id": 4, "action": "replace-with-null"}]
        served.upstream.tables["shop", "plain"] = with_past("name")
        assert (await served.load_table("bob", "plain")).status == 200


@pytest.mark.parametrize("name", ["branch_x", "snapshots", "HISTORY", "tag_a", "changes"])
async def test_no_table_is_taken_for_a_part_of_the_one_above(reader: ReaderPool, name: str) -> None:
    async with serving(reader) as served:
        served.upstream.tables["shop.plain", name] = loaded()
        for user in ("bob", "root"):
            path = f"/v1/lake/namespaces/shop%1Fplain/tables/{name}"
            # Iceberg's client asks for it before it reads the metadata of the table above.
            for method in ("GET", "HEAD"):
                assert (await served.ask(user, path, method=method)).status == 404
            reply = await served.ask(user, path, method="DELETE")
            assert (reply.status, "is not governed" in fault(reply)) == (403, True)
        assert not served.upstream.asked


async def test_members_of_an_answer_that_are_not_known_are_withheld(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        served.upstream.tables["shop", "plain"] = {**loaded(), "token": "secret-1"}
        reply = await served.load_table("bob", "plain")
        assert set(told(reply)) == {"metadata", "metadata-location"}


async def test_what_is_refused_or_fails_unjudged_is_on_record(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        for path, method, code in (
            ("namespaces/shop/tables/a.b", "GET", "NOT_GOVERNABLE"),
            ("namespaces/shop/tables/plain?snapshots=some", "GET", "MALFORMED"),
            ("namespaces/shop/tables/plain", "POST", "MALFORMED"),
        ):
            await served.ask("bob", f"/v1/lake/{path}", method=method)
            event = served.ledger.of("decided")[-1]
            assert (event.body["verdict"], event.body["code"], event.body["reqUser"]) == (
                "refused",
                code,
                "bob",
            )
        served.upstream.url = ""
        await served.restrictions.aclose()
        served.upstream.fails = (302, b"")
        assert (await served.load_table("bob", "plain")).status == 503
        assert served.ledger.of("completed")[-1].body["outcome"] == "failed"
        assert len(served.ledger.of("decided")) == 4
