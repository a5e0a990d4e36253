"""Commits and other changes of a served catalog: what they count as, who may, and what is passed on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.reader.pool import ReaderPool
from tests.policy.restricted_tables import schema
from tests.rest.worlds import COLUMNS, PACK, Served, fault, loaded, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

UUID = "0e4b9b1c-53f5-4f3e-9d3f-5b4b6f0d8a11"
SNAPSHOT: dict[str, Any] = {
    "action": "add-snapshot",
    "snapshot": {
        "snapshot-id": 7,
        "timestamp-ms": 1,
        "manifest-list": "s3://lake/x.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    },
}
MAIN = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7}


def recorded(served: Served) -> list[tuple[str, str]]:
    """The statements that are on record, with what was decided."""
    return [(event.body["reqData"], event.body["verdict"]) for event in served.ledger.of("decided")]


async def commit(served: Served, user: str, *updates: Any, table: str = "plain", **more: Any) -> Any:
    path = f"/v1/lake/namespaces/shop/tables/{table}"
    return await served.ask(user, path, method="POST", body={"requirements": [], "updates": updates, **more})


def changed(*fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"action": "add-schema", "schema": {"type": "struct", "fields": list(fields)}, "last-column-id": 9},
        {"action": "set-current-schema", "schema-id": -1},
    ]


FIELDS: list[dict[str, Any]] = schema(dict(COLUMNS), required=("id",))["fields"]
T = "`lake`.`shop`.`plain`"


@pytest.mark.parametrize(
    ("updates", "statements"),
    [
        ([SNAPSHOT, MAIN], [f"INSERT OVERWRITE TABLE {T} VALUES (NULL)"]),
        ([MAIN], [f"INSERT OVERWRITE TABLE {T} VALUES (NULL)"]),
        (
            [{"action": "remove-snapshots", "snapshot-ids": [1]}],
            [f"INSERT OVERWRITE TABLE {T} VALUES (NULL)"],
        ),
        (
            changed(*FIELDS, {"id": 5, "name": "more", "type": "string", "required": False}),
            [f"ALTER TABLE {T} ADD COLUMNS (`more` string)"],
        ),
        (
            changed(FIELDS[0], {**FIELDS[1], "name": "other"}, *FIELDS[2:]),
            [f"ALTER TABLE {T} RENAME COLUMN `name` TO `other`"],
        ),
        (changed(*FIELDS[:3]), [f"ALTER TABLE {T} DROP COLUMNS (`born`)"]),
        (changed(*FIELDS[::-1]), [f"ALTER TABLE {T} ALTER COLUMN `born` FIRST"]),
        (
            [{"action": "set-location", "location": "s3://lake/y"}],
            [f"ALTER TABLE {T} SET LOCATION 's3://lake/y'"],
        ),
        (
            [{"action": "set-properties", "updates": {"meta.a": "b", "owner": "carol"}}],
            [f"ALTER TABLE {T} SET TBLPROPERTIES ('meta.a' = 'b')"],
        ),
        (
            [{"action": "remove-properties", "removals": ["meta.a"]}],
            [f"ALTER TABLE {T} UNSET TBLPROPERTIES ('meta.a')"],
        ),
        (
            [{"action": "add-spec", "spec": {"fields": []}}],
            [f"ALTER TABLE {T} SET TBLPROPERTIES ('meta.commit' = 'add-spec')"],
        ),
        ([], [f"ALTER TABLE {T} SET TBLPROPERTIES ('meta.commit' = 'nothing')"]),
    ],
)
async def test_a_commit_counts_as_statements(
    reader: ReaderPool, updates: list[Any], statements: list[str]
) -> None:
    async with serving(reader) as served:
        served.upstream.tables["shop", "plain"] = loaded(COLUMNS, properties={"owner": "carol"})
        reply = await commit(served, "root", *updates)
        assert reply.status == 200, reply
        assert recorded(served) == [(text, "cleared") for text in statements]
        assert served.ledger.outcomes() == ["finished"] * len(statements)
        ((path, body),) = served.upstream.sent("POST")
        assert path == "/v1/namespaces/shop/tables/plain"
        passed = json.loads(body)
        assert passed["updates"] == updates
        assert {"type": "assert-table-uuid", "uuid": UUID} in passed["requirements"]
        changes = any(one["action"] == "set-current-schema" for one in updates)
        assert (
            {"type": "assert-current-schema-id", "current-schema-id": 0} in passed["requirements"]
        ) is changes
        # Who reads may not: select alone is no right to change anything.
        served.upstream.asked.clear()
        refused = await commit(served, "bob", *updates)
        assert refused.status == 403
        assert not served.upstream.sent("POST")


async def test_snapshots_are_taken_of_writers_alone(reader: ReaderPool) -> None:
    pack = PACK.replace("allow: [{users: [root]", "allow: [{users: [root, bob, engine]")
    async with serving(reader, pack=pack) as served:
        for user in ("bob", "engine"):
            assert "files that you wrote" in fault(await commit(served, user, SNAPSHOT))
            assert (await commit(served, user, MAIN)).status == 200


@pytest.mark.parametrize("table", ["rows", "masks", "both", "partly", "gone", "new"])
async def test_nothing_is_committed_to_a_table_with_obligations(reader: ReaderPool, table: str) -> None:
    pack = PACK.replace("access: [use, show, select]", "access: [use, show, select, alter, insert, delete]")
    more = "    null_denied_columns: true\n    stricter: true\n"
    async with serving(reader, pack=pack, more=more) as served:
        for user in ("bob", "engine"):
            reply = await commit(
                served, user, {"action": "set-properties", "updates": {"meta.a": "b"}}, table=table
            )
            assert reply.status == (404 if table == "new" else 403)
            assert not served.upstream.sent("POST")
        served.upstream.tables["shop", "plain"]["read-restrictions"] = {"required-column-projections": []}
        assert (await commit(served, "bob", {"action": "add-spec", "spec": {"fields": []}})).status == 403


OTHER = {"id": 2, "name": "name", "type": "string", "required": False}


@pytest.mark.parametrize(
    ("updates", "why"),
    [
        (changed(FIELDS[0], {**FIELDS[1], "id": 5}, {"id": 2, "name": "free", "type": "string"}), "the id 5"),
        (changed({"id": 9, "name": "s", "type": {"type": "struct", "fields": [OTHER]}}), "the id 2"),
        (changed(FIELDS[0], {"id": 6, "name": "past", "type": "string"}), "the id 6"),
        ([{"action": "assign-uuid", "uuid": "x"}], "keeps its uuid"),
        ([{"action": "set-properties", "updates": {"owner": "bob"}}], "owner"),
        ([{"action": "set-properties", "updates": {"owner": "root"}}], "owner"),
        ([{"action": "set-properties", "updates": {"write.data.path": "s3://x"}}], "not supported"),
        ([{"action": "set-properties", "updates": {"meta.a": "it's"}}], "a quote"),
        ([{"action": "set-current-schema", "schema-id": -1}], "no schema was added"),
        ([{"action": "add-encryption-key", "encryption-key": {}}], "not known"),
        ([{"action": "add-spec", "spec": {"fields": []}, "more": 1}], "`more`"),
        ([{"action": ["add-spec"]}], "not known"),
        ([1], "not known"),
        ([{"action": "add-schema", "schema": {"fields": [OTHER, OTHER]}}], "an id twice"),
        ([{"action": "add-schema", "schema": {"fields": [{**OTHER, "type": {"type": "odd"}}]}}], "a type"),
    ],
)
async def test_what_no_statement_can_do_is_refused(reader: ReaderPool, updates: list[Any], why: str) -> None:
    async with serving(reader) as served:
        last = {"last-column-id": 8}
        served.upstream.tables["shop", "plain"]["metadata"] |= last
        reply = await commit(served, "root", *updates)
        assert reply.status in (400, 403), reply
        assert why in fault(reply)
        assert not served.upstream.sent("POST")


async def test_data_of_a_dropped_column_comes_back_under_its_name_alone(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        dropped = schema({"id": "long"}, ident=1, required=("id",))
        both = [schema(dict(COLUMNS), required=("id",)), dropped]
        past: dict[str, Any] = {"schemas": both, "current-schema-id": 1}
        served.upstream.tables["shop", "plain"] = loaded(COLUMNS, **past)
        for name, status in (("free", 403), ("name", 200)):
            reply = await commit(served, "root", *changed(FIELDS[0], {**FIELDS[1], "name": name}))
            assert reply.status == status, reply
        back = await commit(served, "root", {"action": "set-current-schema", "schema-id": 0})
        assert back.status == 200
        assert [text for text, _ in recorded(served)[-3:]] == [
            f"ALTER TABLE {T} ADD COLUMNS (`{name}` {kind})"
            for name, kind in (("name", "string"), ("region", "string"), ("born", "date"))
        ]


async def test_no_schema_is_added_that_is_not_judged(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        dropped = schema({"id": "long"}, ident=1, required=("id",))
        both = [schema(dict(COLUMNS), required=("id",)), dropped]
        served.upstream.tables["shop", "plain"] = loaded(COLUMNS, **{"schemas": both, "current-schema-id": 1})
        free, less = changed(FIELDS[0], {**FIELDS[1], "name": "free"}), changed(FIELDS[0])
        back = changed(FIELDS[0], FIELDS[1])
        for updates in (free[:1], [*free[:1], *less], [*back, *less, *free], [*less, *free[:1]]):
            reply = await commit(served, "root", *updates)
            assert reply.status == 403, reply
        assert not served.upstream.sent("POST")


async def test_of_a_member_that_is_written_twice_one_is_judged_and_passed_on(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        body = b'{"namespace": ["first"], "namespace": ["last"]}'
        reply = await served.ask("root", "/v1/lake/namespaces", method="POST", body=body)
        assert reply.status < 300, reply
        assert served.upstream.sent("POST") == [("/v1/namespaces", '{"namespace":["last"]}')]
        assert recorded(served) == [("CREATE NAMESPACE `lake`.`last`", "cleared")]


async def test_a_transaction_names_a_table_once(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        change = {"identifier": {"namespace": ["shop"], "name": "plain"}, "requirements": [], "updates": []}
        body = {"table-changes": [change, change]}
        reply = await served.ask("root", "/v1/lake/transactions/commit", method="POST", body=body)
        assert (reply.status, fault(reply)) == (400, "a transaction has a table twice")


async def test_creating_counts_as_create_table(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        body = {
            "name": "made",
            "schema": {"type": "struct", "fields": FIELDS},
            "properties": {"owner": "eve"},
        }
        assert (
            await served.ask("bob", "/v1/lake/namespaces/shop/tables", method="POST", body=body)
        ).status == 403
        reply = await served.ask("root", "/v1/lake/namespaces/shop/tables", method="POST", body=body)
        assert reply.status == 200, reply
        text = "CREATE TABLE `lake`.`shop`.`made` (`id` bigint, `name` string, `region` string, `born` date)"
        assert recorded(served)[-1] == (f"{text} USING iceberg", "cleared")
        (_, sent) = served.upstream.sent("POST")[-1]
        assert json.loads(sent)["properties"]["owner"] == "root"
        for odd in ({"location": "it's"}, {"x": 1}, {"schema": 1}, {"properties": {"a": 1}}, {"name": "a.b"}):
            refused = await served.ask(
                "root", "/v1/lake/namespaces/shop/tables", method="POST", body={**body, **odd}
            )
            assert refused.status in (400, 403), odd


@pytest.mark.parametrize(
    ("method", "path", "body", "text"),
    [
        ("POST", "/namespaces", {"namespace": ["n"]}, "CREATE NAMESPACE `lake`.`n`"),
        ("DELETE", "/namespaces/shop", None, "DROP NAMESPACE `lake`.`shop`"),
        (
            "POST",
            "/namespaces/shop/properties",
            {"updates": {"meta.a": "b"}, "removals": []},
            "ALTER NAMESPACE `lake`.`shop` SET PROPERTIES ('meta.a' = 'b')",
        ),
        ("DELETE", "/namespaces/shop/tables/plain", None, f"DROP TABLE {T}"),
        ("DELETE", "/namespaces/shop/tables/plain?purgeRequested=true", None, f"DROP TABLE {T} PURGE"),
        # As PyIceberg writes it.
        ("DELETE", "/namespaces/shop/tables/plain?purgeRequested=False", None, f"DROP TABLE {T}"),
        (
            "POST",
            "/tables/rename",
            {
                "source": {"namespace": ["shop"], "name": "plain"},
                "destination": {"namespace": ["shop"], "name": "new"},
            },
            f"ALTER TABLE {T} RENAME TO `shop`.`new`",
        ),
        (
            "POST",
            "/namespaces/shop/register",
            {"name": "new", "metadata-location": "s3://lake/m.json"},
            "CREATE TABLE `lake`.`shop`.`new` (id INT) USING iceberg LOCATION 's3://lake/m.json'",
        ),
        (
            "POST",
            "/transactions/commit",
            {
                "table-changes": [
                    {
                        "identifier": {"namespace": ["shop"], "name": "plain"},
                        "requirements": [],
                        "updates": [MAIN],
                    }
                ]
            },
            f"INSERT OVERWRITE TABLE {T} VALUES (NULL)",
        ),
    ],
)
async def test_a_change_counts_as_a_statement(
    reader: ReaderPool, method: str, path: str, body: Any, text: str
) -> None:
    async with serving(reader) as served:
        for name in ("plain",):
            served.catalog.add(f"lake.shop.{name}", ("id", "bigint"))
        refused = await served.ask("bob", f"/v1/lake{path}", method=method, body=body)
        assert refused.status == 403, refused
        assert not served.upstream.sent(method)
        reply = await served.ask("root", f"/v1/lake{path}", method=method, body=body)
        assert reply.status in (200, 204), reply
        assert recorded(served)[-1] == (text, "cleared")
        assert len(served.upstream.sent(method)) == 1


async def test_a_transaction_is_of_all_of_its_tables(reader: ReaderPool) -> None:
    pack = PACK.replace("access: [use, show, select]", "access: [use, show, select, alter, insert, delete]")
    async with serving(reader, pack=pack) as served:
        changes = [
            {"identifier": {"namespace": ["shop"], "name": name}, "requirements": [], "updates": [MAIN]}
            for name in ("plain", "rows")
        ]
        path = "/v1/lake/transactions/commit"
        reply = await served.ask("bob", path, method="POST", body={"table-changes": changes})
        assert reply.status == 403
        assert "lake.shop.rows" in fault(reply)
        assert not served.upstream.sent("POST")
        odds: list[Any] = [[], [{}], [{"identifier": 1, "updates": []}], changes * 26]
        for odd in odds:
            assert (await served.ask("root", path, method="POST", body={"table-changes": odd})).status == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"updates": 1}', b"[" * 100_000, b'{"x": 1}'])
@pytest.mark.parametrize(
    "path",
    ["/namespaces", "/namespaces/shop/tables", "/namespaces/shop/tables/plain", "/tables/rename",
     "/transactions/commit", "/namespaces/shop/register", "/namespaces/shop/properties"],
)  # fmt: skip
async def test_garbage_is_refused(reader: ReaderPool, path: str, body: bytes) -> None:
    async with serving(reader) as served:
        reply = await served.ask("root", f"/v1/lake{path}", method="POST", body=body)
        assert reply.status == 400, reply
        fault(reply)
        assert not served.upstream.sent("POST")
