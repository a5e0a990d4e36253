"""The lineage pages: what a viewer may know of is drawn and listed, and what he may not is only counted."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock
from urllib.parse import quote, unquote

import asyncpg
import pytest

from gateway.console.pages.lineage import LineagePages, part
from gateway.console.routes import Viewer, encode_cursor
from gateway.database.migrate import migrate
from gateway.lineage.graph import Edge, GraphColumn
from gateway.lineage.laundering import LaunderingReport
from gateway.lineage.store import store_lineage
from tests.console.fakes import Browser, FakeConsole, as_user, serving, viewer
from tests.lineage.statements import BEGINNING, seen

LAB = "spark_catalog.lab."


class NoSecrets:
    """What somebody may know of who may not know of the table `secret`."""

    async def knows(self, columns: Sequence[GraphColumn]) -> frozenset[GraphColumn]:
        return frozenset(one for one in columns if not one.dataset.endswith("secret"))

    async def filter_visible(self, edges: Sequence[Edge]) -> list[Edge]:
        return [replace(edge, expression=None, last_statement=None) for edge in edges]


@pytest.fixture
async def site(database: str) -> AsyncIterator[tuple[FakeConsole, Browser]]:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    await store_lineage(
        connection,
        [
            seen(
                "raw.a, secret.s -> mid.c: concat(a, 'x<b>') TRANSFORMATION", "raw.k -> mid.c: k > 7 FILTER"
            ),
            seen("older.z -> raw.a: z IDENTITY masked", "mid.c -> out.d: c IDENTITY"),
            seen(*(f"hub.h -> wide.c{n}: h IDENTITY" for n in range(503))),
        ],
    )

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        yield connection

    def sight(connection: Any, viewer: Viewer) -> NoSecrets:
        return NoSecrets()

    async def report(connection: Any) -> LaunderingReport:
        return LaunderingReport(people=3, columns=2)

    console = FakeConsole([part(LineagePages(connect, sight, report))])
    async with serving(console) as browser:
        yield console, browser
    await connection.close()


async def view(browser: Browser, query: str) -> Any:
    status, text, _ = await browser.ask("GET", f"/api/v1/lineage?{query}")
    assert status == 200, text
    return json.loads(text)


async def test_a_viewer_sees_what_he_may_know_of_and_a_count_of_the_rest(
    site: tuple[FakeConsole, Browser],
) -> None:
    cleo, ben, dora = [await as_user(*site, name) for name in ("cleo", "ben", "dora")]
    found = await view(cleo, "column=mid.c")
    assert "secret" not in json.dumps(found)
    start = next(one for one in found["columns"] if one["is_start"])
    assert start["sources"] == {"is_open": True, "more": 0, "hidden": 1, "at_least": False}
    assert {one["name"] for one in found["columns"]} == {
        f"{LAB}{x}" for x in ("mid.c", "raw.a", "raw.k", "out.d")
    } | {one["name"] for one in found["columns"] if one["name"].endswith("*")}
    assert {one["expression"] for one in found["edges"]} == {None}
    # Auditors see every name; the expressions, which hold values, only with the role that reads texts.
    whole = await view(ben, "column=mid.c")
    assert f"{LAB}secret.s" in {one["name"] for one in whole["columns"]}
    assert {one["expression"] for one in whole["edges"]} == {None}
    assert "concat(a, 'x<b>')" in {one["expression"] for one in (await view(dora, "column=mid.c"))["edges"]}
    assert (await cleo.ask("GET", "/api/v1/lineage?column=secret.s"))[0] == 404
    key = quote(encode_cursor(f"{LAB}secret", "s"))
    assert "secret" not in json.dumps(await view(cleo, f"column=mid.c&up={key}"))


async def test_columns_are_opened_by_links_and_edges_are_told_apart(
    site: tuple[FakeConsole, Browser],
) -> None:
    cleo = await as_user(*site, "cleo")
    status, text, _ = await cleo.ask("GET", "/console/lineage?column=mid.c")
    assert status == 200
    assert '<title id="graph-title">' in text
    assert "<desc" in text
    assert 'class="edge predicate"' in text
    assert 'class="edge projection"' in text
    assert "1 hidden by policies" in text
    assert "older" not in text
    links = {
        unquote(one).replace("&amp;", "&")
        for one in re.findall(r'href="(/console/lineage\?[^"]*up=[^"]*)"', text)
    }
    assert len(links) == 1
    status, opened, _ = await cleo.ask("GET", links.pop())
    assert status == 200
    assert f"{LAB}older.z" in opened
    assert "is-masked" in opened
    assert "masked</span>" in opened
    assert "close sources" in opened
    for wrong in ("up=x", "up=WzFd", "depth=3", "&".join(["up=" + encode_cursor("a", "b")] * 41)):
        assert (await cleo.ask("GET", f"/console/lineage?column=mid.c&{wrong}"))[0] == 400, wrong


async def test_names_that_mean_several_columns_are_offered(site: tuple[FakeConsole, Browser]) -> None:
    cleo = await as_user(*site, "cleo")
    assert set((await view(cleo, "column=raw"))["choices"]) >= {f"{LAB}raw.a", f"{LAB}raw.k"}
    status, text, _ = await cleo.ask("GET", "/console/lineage/columns?text=raw&limit=1")
    assert status == 200
    assert 'rel="next"' in text
    assert (await cleo.ask("GET", "/console/lineage"))[0] == 200
    assert "secret" not in (await cleo.ask("GET", "/api/v1/lineage/columns?text=s"))[1]


async def test_impact_and_less_protected_copies(site: tuple[FakeConsole, Browser]) -> None:
    console, _ = site
    cleo, ben = [await as_user(*site, name) for name in ("cleo", "ben")]
    status, text, _ = await cleo.ask("GET", "/api/v1/lineage/impact?column=raw.a")
    found = {one["name"].removeprefix(LAB): one["on_drop"] for one in json.loads(text)["items"]}
    assert (status, found) == (200, {"mid.c": "fails", "out.d": "gets nothing new"})
    status, text, _ = await cleo.ask("GET", "/console/lineage/impact?column=raw.a")
    assert status == 200
    assert "gets nothing new" in text
    text = (await cleo.ask("GET", "/console/lineage/impact?column=hub.h"))[1]
    assert text.count('<th scope="row">') == 500
    assert "3 more columns are reached; the REST API" in text
    assert (await cleo.ask("GET", "/console/lineage/laundering"))[0] == 403
    _, text, _ = await ben.ask("GET", "/console/lineage/laundering")
    assert "No report has been made" in text
    # A link makes no report, and nobody who is no auditor does.
    assert (await ben.ask("GET", "/console/lineage/laundering?make=true"))[0] == 400
    assert (await cleo.ask("POST", "/console/lineage/laundering", data={"csrf": cleo.csrf}))[0] == 403
    status, _, headers = await ben.ask("POST", "/console/lineage/laundering", data={"csrf": ben.csrf})
    assert (status, headers["Location"]) == (303, "/console/lineage/laundering")
    assert console.recorded[-1][:2] == ("ben", "make_laundering")
    assert "0 copies of 2 protected columns" in (await ben.ask("GET", "/console/lineage/laundering"))[1]


async def test_who_sees_all_names_and_who_sees_expressions() -> None:
    mine = NoSecrets()
    service = LineagePages(MagicMock(), lambda connection, viewer: mine, MagicMock())
    assert service._sight_of(None, viewer("cleo")) is mine
    assert service._sight_of(None, viewer("ben")) is None
    (edge, *_) = edges = (build_edge("raw.a", "mid.c"),)
    assert edge.expression == "x > 7"
    assert [one.expression for one in await service._filter(viewer("ben"), None, edges)] == [None]
    assert [one.expression for one in await service._filter(viewer("cleo"), mine, edges)] == [None]
    assert await service._filter(viewer("dora"), None, edges) == list(edges)


def build_edge(source: str, target: str) -> Edge:
    ends = [GraphColumn(LAB + name.split(".")[0], name.split(".")[1]) for name in (source, target)]
    return Edge(
        source=ends[0],
        target=ends[1],
        subtype="FILTER",
        masking=False,
        expression="x > 7",
        statements=1,
        finished=True,
        first_seen=BEGINNING,
        last_seen=BEGINNING,
        last_statement=None,
    )
