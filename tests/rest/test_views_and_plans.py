"""Views, plans of scans, logins to files and reports of metrics of a served catalog."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.model.catalog import Column, Table, TableKind, TableName, ViewBody
from gateway.model.definers import definer_of, definer_property
from gateway.reader.pool import ReaderPool
from tests.rest.worlds import CANARY, Served, fault, serving, told

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXT = "SELECT id FROM plain"


def answer_of(text: str, **more: Any) -> dict[str, Any]:
    """An answer to `loadView`."""
    version = {
        "version-id": 1,
        "schema-id": 0,
        "representations": [{"type": "sql", "sql": text, "dialect": "spark"}],
        "default-namespace": ["shop"],
    }
    return {"metadata-location": "x", "metadata": {"current-version-id": 1, "versions": [version], **more}}


def with_view(served: Served, name: str, text: str) -> None:
    """Have the catalog and Spark know a view, and its tables."""
    served.upstream.views["shop", name] = answer_of(text)
    for table in ("plain", "rows"):
        served.catalog.add(f"lake.shop.{table}", ("id", "bigint"), ("region", "string"))
    known = TableName("lake", "shop", name)
    body = ViewBody(text=text, catalog="lake", database="shop", output=("id",))
    served.catalog.known[known] = Table(
        name=known, kind=TableKind.VIEW, columns=(Column(name="id", type="bigint"),), view=body
    )


def version_of(text: str, **more: Any) -> dict[str, Any]:
    return {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": text, "dialect": "spark"}],
        "default-namespace": ["shop"],
        **more,
    }


async def test_a_view_is_shown_to_whoever_may_read_what_it_shows(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        with_view(served, "v", TEXT)
        with_view(served, "of_rows", "SELECT id FROM rows")
        path = "/v1/lake/namespaces/shop/views"
        reply = await served.ask("bob", f"{path}/v")
        assert reply.status == 200, reply
        answer = served.upstream.views["shop", "v"]
        assert told(reply) == {**answer, "metadata": {**answer["metadata"], "schemas": []}}
        again = await served.ask("bob", f"{path}/v", If_None_Match=reply.headers["ETag"])
        assert again.status == 304
        hidden = await served.ask("bob", f"{path}/of_rows")
        assert hidden.status == 403
        assert "a row filter applies to what view lake.shop.of_rows shows you" in fault(hidden)
        assert (await served.ask("eve", f"{path}/v")).status == 403
        assert (await served.ask("bob", f"{path}/new")).status == 404
        assert (await served.ask("eve", f"{path}/new")).status == 403
        served.upstream.views["shop", "v"] = answer_of("SELECT id, name FROM rows")
        assert "not the one that Spark knows" in fault(await served.ask("bob", f"{path}/v"))
        assert (await served.ask("bob", f"{path}/v", method="HEAD")).status == 204
        assert (await served.ask("eve", f"{path}/v", method="HEAD")).status == 404


@pytest.mark.parametrize(
    ("version", "status"),
    [
        (version_of(TEXT), 200),
        (version_of("SELECT id FROM nowhere.at_all"), 403),
        (version_of("SELECT 1; DROP TABLE plain"), 403),
        (version_of(f"{TEXT} UNION SELECT id FROM hidden.secret"), 403),
        (version_of(TEXT, **{"default-catalog": "spark_catalog"}), 403),
        (version_of(TEXT, representations=[]), 403),
        (
            version_of(TEXT, representations=[{"type": "sql", "sql": TEXT, "dialect": "trino"}]),
            403,
        ),
        (version_of(TEXT, more=1), 400),
    ],
)
async def test_a_view_is_made_of_a_text_that_was_judged(
    reader: ReaderPool, version: dict[str, Any], status: int
) -> None:
    async with serving(reader) as served:
        with_view(served, "v", TEXT)
        served.policies = served.load(
            served.pack.replace("access: [use, show, select]", "access: [use, show, select, create, drop]")
        )
        body = {"name": "new", "schema": {"fields": []}, "view-version": version}
        reply = await served.ask("bob", "/v1/lake/namespaces/shop/views", method="POST", body=body)
        assert reply.status == status, reply
        assert bool(served.upstream.sent("POST")) is (status == 200)
        updates = [
            {"action": "add-view-version", "view-version": version},
            {"action": "set-current-view-version", "view-version-id": -1},
        ]
        served.upstream.asked.clear()
        path = "/v1/lake/namespaces/shop/views/v"
        reply = await served.ask("bob", path, method="POST", body={"requirements": [], "updates": updates})
        assert reply.status == status, reply
        assert bool(served.upstream.sent("POST")) is (status == 200)
        if status == 200:
            recorded = [event.body["reqData"] for event in served.ledger.of("decided")]
            assert recorded[-1] == f"CREATE OR REPLACE VIEW `lake`.`shop`.`v` AS {TEXT}"


@pytest.mark.parametrize("upper", [False, True])
async def test_no_property_says_who_defines_a_view(reader: ReaderPool, upper: bool) -> None:
    """SQL leaves them out of the statement; a body goes on as it came."""
    async with serving(reader) as served:
        with_view(served, "v", TEXT)
        served.policies = served.load(
            served.pack.replace("access: [use, show, select]", "access: [use, show, select, create, drop]")
        )
        key, value = definer_property(TEXT, "hal")
        given = {"meta.a": "b", key.upper() if upper else key: value}
        body: dict[str, Any] = {
            "name": "new",
            "schema": {"fields": []},
            "view-version": version_of(TEXT),
            "properties": given,
        }
        reply = await served.ask("bob", "/v1/lake/namespaces/shop/views", method="POST", body=body)
        assert reply.status == 403, reply
        assert "do not say who defines it" in fault(reply)
        updates = [{"action": "set-properties", "updates": given}]
        path = "/v1/lake/namespaces/shop/views/v"
        body = {"requirements": [], "updates": updates}
        assert (await served.ask("bob", path, method="POST", body=body)).status == 403
        assert not served.upstream.sent("POST")


@pytest.mark.parametrize("text", [TEXT, f" {TEXT}\n"])
async def test_who_makes_a_view_is_its_definer(reader: ReaderPool, text: str) -> None:
    """As in SQL. A record that a view has of the same text from before is another's, and is overwritten."""
    async with serving(reader) as served:
        with_view(served, "v", TEXT)
        served.policies = served.load(
            served.pack.replace("access: [use, show, select]", "access: [use, show, select, create, drop]")
        )
        path = "/v1/lake/namespaces/shop/views"
        body: dict[str, Any] = {
            "name": "new",
            "schema": {"fields": []},
            "view-version": version_of(text),
            "properties": {"meta.a": "b"},
        }
        assert (await served.ask("bob", path, method="POST", body=body)).status == 200
        made = json.loads(served.upstream.sent("POST")[-1][1])["properties"]
        assert made.pop("meta.a") == "b"
        updates = [
            {"action": "add-view-version", "view-version": version_of(text)},
            {"action": "set-current-view-version", "view-version-id": -1},
        ]
        body = {"requirements": [], "updates": updates}
        assert (await served.ask("bob", f"{path}/v", method="POST", body=body)).status == 200
        *sent, record = json.loads(served.upstream.sent("POST")[-1][1])["updates"]
        assert (sent, record["action"]) == (updates, "set-properties")
        assert record["updates"] == made
        for stored in (text, TEXT):
            assert definer_of(stored, {definer_property(stored, "hal")[0]: "68616c", **made}) == "bob"
        gone = {"action": "remove-properties", "removals": [*made]}
        body = {"requirements": [], "updates": [gone]}
        assert (await served.ask("bob", f"{path}/v", method="POST", body=body)).status == 403


async def test_plans_are_of_whoever_may_load_and_of_one_table(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        planned = {
            "status": "submitted",
            "plan-id": "p-1",
            "plan-tasks": ["t-1"],
            "storage-credentials": [{"prefix": "s3", "config": {"k": CANARY}}],
        }
        served.upstream.replies["plan"] = planned
        base = "/v1/lake/namespaces/shop/tables"
        plan = {"select": ["id"], "filter": {"type": "eq", "term": "id", "value": 1}}
        for table in ("rows", "gone"):
            assert (await served.ask("bob", f"{base}/{table}/plan", method="POST", body=plan)).status == 403
        assert not served.upstream.sent("POST")
        odd = await served.ask("bob", f"{base}/plain/plan", method="POST", body={**plan, "x": 1})
        assert odd.status == 400
        given = told(await served.ask("bob", f"{base}/plain/plan", method="POST", body=plan))
        assert "storage-credentials" not in given
        assert given["status"] == "submitted"
        handle, task = given["plan-id"], given["plan-tasks"][0]
        assert (await served.ask("bob", f"{base}/plain/plan/{handle}")).status == 200
        assert served.upstream.asked[-1][1].endswith("/tables/plain/plan/p-1")
        fetched = await served.ask("bob", f"{base}/plain/tasks", method="POST", body={"plan-task": task})
        assert fetched.status == 200
        assert json.loads(served.upstream.asked[-1][2]) == {"plan-task": "t-1"}
        # Not of another user or table, nor a task as a plan, nor what was never given.
        served.policies = served.load(served.pack.replace("table: [rows, both]", "table: [both]"))
        asked = len(served.upstream.sent("DELETE"))
        for user, path in (
            ("root", f"plain/plan/{handle}"),
            ("bob", f"rows/plan/{handle}"),
            ("bob", f"plain/plan/{task}"),
            ("bob", "plain/plan/p-1"),
            ("bob", "plain/plan/%C3%BC"),
        ):
            reply = await served.ask(user, f"{base}/{path}", method="DELETE")
            assert reply.status in (400, 404), path
        assert len(served.upstream.sent("DELETE")) == asked
        # An engine that enforces plans what it was given restrictions for.
        both = await served.ask("engine", f"{base}/both/plan", method="POST", body=plan)
        assert both.status == 200
        assert "storage-credentials" not in told(both)


async def test_credentials_are_given_to_whoever_may_overwrite(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        served.upstream.replies["credentials"] = {"storage-credentials": [{"prefix": "s3", "config": {}}]}
        for user, table, status in (
            ("root", "plain", 200),
            ("bob", "plain", 403),
            ("bob", "rows", 403),
            ("engine", "both", 403),
            ("eve", "plain", 403),
        ):
            path = f"/v1/lake/namespaces/shop/tables/{table}/credentials"
            assert (await served.ask(user, path)).status == status, (user, table)
        assert [path for path, _ in served.upstream.sent("GET") if "credentials" in path] == [
            "/v1/namespaces/shop/tables/plain/credentials"
        ]


async def test_reports_of_metrics_are_taken_and_not_passed_on(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        path = "/v1/lake/namespaces/shop/tables"
        assert (await served.ask("bob", f"{path}/rows/metrics", method="POST", body=b"\xff")).status == 204
        assert (await served.ask("bob", f"{path}/gone/metrics", method="POST", body={})).status == 404
        assert not served.upstream.asked


async def test_a_view_is_shown_without_logins_and_earlier_texts(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        with_view(served, "v", TEXT)
        answer = served.upstream.views["shop", "v"]
        (now,) = answer["metadata"]["versions"]
        earlier = {
            **now,
            "version-id": 0,
            "representations": [{"type": "sql", "sql": CANARY, "dialect": "spark"}],
        }
        answer["metadata"]["versions"] = [earlier, now]
        answer["config"] = {"token": CANARY}
        reply = await served.ask("bob", "/v1/lake/namespaces/shop/views/v")
        assert reply.status == 200
        assert TEXT in reply.body.decode()
        assert CANARY not in reply.body.decode()
