"""Limits of packs count the calls of a served catalog that count as statements."""

from __future__ import annotations

import pytest

from gateway.reader.pool import ReaderPool
from tests.rest.worlds import PACK, fault, serving, told

pytestmark = pytest.mark.asyncio(loop_scope="session")

TABLES = "/v1/lake/namespaces/shop/tables"


def limited(bounds: str) -> str:
    return f"{PACK}limits:\n  - {{name: small, groups: [analysts], set_by: ops, {bounds}}}\n"


async def test_a_call_is_a_statement_and_what_goes_on_with_it_is_none(reader: ReaderPool) -> None:
    async with serving(reader, pack=limited("statements_per_minute: 3")) as served:
        served.upstream.replies["plan"] = {"status": "submitted", "plan-id": "p-1", "plan-tasks": ["t-1"]}
        # What is refused, and lists, count as none.
        for path in (f"{TABLES}/rows", f"{TABLES}/rows", f"{TABLES}/rows", TABLES, TABLES):
            assert (await served.ask("bob", path)).status in (200, 403)
        assert (await served.load_table("bob", "plain")).status == 200
        assert (await served.load_table("bob", "plain")).status == 200
        planned = await served.ask("bob", f"{TABLES}/plain/plan", method="POST", body={})
        plan = told(planned)["plan-id"]
        for _ in range(3):
            assert (await served.ask("bob", f"{TABLES}/plain/plan/{plan}")).status == 200
        over = await served.load_table("bob", "plain")
        assert over.status == 429
        assert 0 < int(over.headers["Retry-After"]) <= 60
        assert "limit `small`, set by ops, allows 3 statements a minute" in fault(over)
        refused = served.ledger.of("decided")[-1].body
        assert (refused["code"], refused["limit"]) == ("LIMIT_EXCEEDED", "small")
        # It is of analysts alone.
        assert (await served.load_table("root", "plain")).status == 200


async def test_a_budget_of_a_day_is_not_tried_again(reader: ReaderPool) -> None:
    async with serving(reader, pack=limited("statements_per_day: 1")) as served:
        assert (await served.load_table("bob", "plain")).status == 200
        over = await served.load_table("bob", "plain")
        assert over.status == 403
        assert "it begins anew at" in fault(over)
        assert "Retry-After" not in over.headers


async def test_a_table_that_wants_a_condition_is_not_loaded_whole(reader: ReaderPool) -> None:
    bounds = "on: {catalog: lake, database: shop, table: plain}, filtered_by: [born]"
    async with serving(reader, pack=limited(bounds)) as served:
        assert "wants a condition on `born`" in fault(await served.load_table("bob", "plain"))
        assert (await served.load_table("root", "plain")).status == 200
        assert (await served.load_table("root", "rows")).status == 200


async def test_a_change_of_several_statements_counts_once(reader: ReaderPool) -> None:
    pack = limited("statements_per_day: 2").replace("groups: [analysts], set_by", "users: [root], set_by")
    async with serving(reader, pack=pack) as served:
        updates = [
            {"action": "set-properties", "updates": {"meta.a": "b"}},
            {"action": "remove-properties", "removals": ["meta.c"]},
        ]
        for status in (200, 200, 403):
            body = {"requirements": [], "updates": updates}
            reply = await served.ask("root", f"{TABLES}/plain", method="POST", body=body)
            assert reply.status == status, reply
        assert len(served.upstream.sent("POST")) == 2


async def test_a_transaction_counts_once_by_the_limits_of_all_of_its_tables(reader: ReaderPool) -> None:
    bounds = "on: {catalog: lake, database: shop, table: plain}, statements_per_day: 1"
    pack = limited(bounds).replace("groups: [analysts], set_by", "users: [root], set_by")
    async with serving(reader, pack=pack) as served:
        changes = [
            {
                "identifier": {"namespace": ["shop"], "name": name},
                "requirements": [],
                "updates": [{"action": "set-properties", "updates": {"meta.a": "b"}}],
            }
            for name in ("gone", "plain")
        ]
        for status in (200, 403):
            body = {"table-changes": changes}
            reply = await served.ask("root", "/v1/lake/transactions/commit", method="POST", body=body)
            assert reply.status == status, reply
        assert len(served.upstream.sent("POST")) == 1


async def test_logins_to_files_are_not_had_past_a_limit(reader: ReaderPool) -> None:
    bounds = "on: {catalog: lake, database: shop, table: plain}, filtered_by: [born]"
    pack = limited(bounds).replace("groups: [analysts], set_by", "users: [root], set_by")
    async with serving(reader, pack=pack) as served:
        served.upstream.replies["credentials"] = {"storage-credentials": [{"prefix": "s3", "config": {}}]}
        for name, status in (("plain", 403), ("gone", 200)):
            assert (await served.ask("root", f"{TABLES}/{name}/credentials")).status == status
