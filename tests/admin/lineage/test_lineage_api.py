"""Questions to the graph by REST: everybody is told what policies let them know of, and nothing else."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from gateway.admin.lineage.api import LineageApi
from gateway.admin.lineage.sight import Sight
from gateway.admin.listener import AdminServer
from gateway.admin.requests import Administrators
from gateway.app.lineage_admin import sight
from gateway.catalog.static import StaticCatalog
from gateway.database.migrate import migrate
from gateway.errors import BackendUnavailable, PoliciesStale
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.lineage.rows import SeenStatement
from gateway.lineage.store import store_lineage
from gateway.model.catalog import CatalogSnapshot, Table, TableKind, TableName
from gateway.model.credentials import Credentials, Password
from gateway.model.lineage import ColumnVertex, Dataset, DatasetKind, EdgeType, LineageEdge, Operation
from gateway.model.principal import Principal
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from tests.lineage.statements import edge, seen

SERVICE_DEFS = Path(__file__).resolve().parents[3] / "rules" / "service_defs"
LAB = "spark_catalog.lab."
PACK = """
service: spark
policies:
  - name: analysts read the open tables
    on: {catalog: spark_catalog, database: lab, table: ["open*", top], column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: analysts see some of the people
    on: {catalog: spark_catalog, database: lab, table: people, column: [id, name, mail, region]}
    allow: [{groups: [analysts], access: [select]}]
  - name: no mail addresses
    on: {catalog: spark_catalog, database: lab, table: people, column: mail}
    mask: [{groups: [analysts], type: MASK_HASH}]
  - name: own rows
    on: {catalog: spark_catalog, database: lab, table: open_rows}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: writers put in
    on: {catalog: spark_catalog, database: lab, table: inbox, column: "*"}
    allow: [{groups: [analysts], access: [insert]}]
  - name: owners do everything
    on: {catalog: spark_catalog, database: lab, table: "of_*", column: "*"}
    allow: [{users: ["{OWNER}"], access: [all]}]
  - name: open files
    on: {url: "s3a://open/*"}
    allow: [{groups: [analysts], access: [read]}]
"""
GROUPS = {"ann": frozenset({"analysts"}), "bob": frozenset({"analysts"}), "root": frozenset({"governors"})}


class Answers:
    """A running API, and what it is asked of."""

    def __init__(self, url: str, session: aiohttp.ClientSession, graph: Any) -> None:
        self.url = url
        self.graph = graph
        self._session = session
        self.stale: str | None = None
        self.spark_is_away = False

    async def ask(
        self, path: str, user: str = "ann", password: str = "right", method: str = "GET", **parameters: Any
    ) -> tuple[int, Any]:
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        async with self._session.request(
            method,
            f"{self.url}/lineage/{path}",
            params=parameters,
            headers={"Authorization": f"Basic {token}"},
        ) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await answer.json() if is_json else await answer.text()

    async def told(self, path: str, user: str = "ann", **parameters: Any) -> Any:
        status, body = await self.ask(path, user, **parameters)
        assert status == 200, body
        return body

    async def edges(self, column: str, user: str = "ann", path: str = "upstream") -> dict[str, str | None]:
        """Return `a.x -> b.y` → its expression, of a walk."""
        body = await self.told(path, user, column=column)
        return {f"{e['source']} -> {e['target']}".replace(LAB, ""): e["expression"] for e in body["edges"]}


class Catalog(StaticCatalog):
    def __init__(self, answers: Answers) -> None:
        mine = (
            Table(
                name=TableName("spark_catalog", "lab", f"of_{owner}"),
                kind=TableKind.TABLE,
                columns=(),
                owner=owner,
            )
            for owner in ("ann", "bob")
        )
        super().__init__(mine)
        self._answers = answers

    async def look_up(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        if self._answers.spark_is_away:
            raise BackendUnavailable("Spark is away")
        return await super().look_up(tables)


async def authenticate(shown: Credentials, _address: str) -> Principal | None:
    if not isinstance(shown, Password) or shown.password != "right":
        return None
    return Principal(user=shown.user, groups=GROUPS.get(shown.user, frozenset()))


@pytest.fixture
async def answers(database: str) -> AsyncIterator[Answers]:
    graph = await asyncpg.connect(database)
    await migrate(graph)
    definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
    policies = load_packs({"pack.yaml": PACK}, definitions, 1)

    @asynccontextmanager
    async def reading() -> AsyncIterator[Any]:
        async with graph.transaction(readonly=True):
            yield graph

    def of(connection: Any, principal: Principal, address: str) -> Sight:
        if running.stale is not None:
            raise PoliciesStale(running.stale)
        return sight(connection, principal, policies, Catalog(running), address)

    administrators = Administrators(users=frozenset(), groups=frozenset({"governors"}))
    api = LineageApi(reading, administrators, authenticate, of)
    listener = AdminServer({}, CollectorRegistry(), mounted={"/lineage": api.app})
    port = await listener.start(ConnectionLimiter("admin"), "127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        running = Answers(f"http://127.0.0.1:{port}", session, graph)
        yield running
    await listener.close()
    await graph.close()


def of_user(user: str, statement: SeenStatement) -> SeenStatement:
    return replace(statement, user=user)


async def test_an_administrator_sees_all_and_others_what_policies_let_them_know_of(answers: Answers) -> None:
    await store_lineage(
        answers.graph,
        [
            seen("people.ssn, people.name -> open.x: concat(name, ssn) TRANSFORMATION"),
            seen("secret.s -> open.x: s IDENTITY", "open.x -> open_b.y: x IDENTITY"),
            seen("open_b.y -> inbox.z: y IDENTITY"),
        ],
    )
    assert await answers.edges("open_b.y", "root") == {
        "people.ssn -> open.x": "concat(name, ssn)",
        "people.name -> open.x": "concat(name, ssn)",
        "secret.s -> open.x": "s",
        "open.x -> open_b.y": "x",
    }
    # Of a table that one may write and not read, no column is told.
    assert await answers.edges("open.x", path="downstream") == {"open.x -> open_b.y": None}
    assert await answers.edges("open_b.y") == {"people.name -> open.x": None, "open.x -> open_b.y": None}
    body = await answers.told("upstream", column="open_b.y")
    assert body["complete"]
    for word in ("ssn", "secret", "inbox"):
        assert word not in str(body)


async def test_what_is_hidden_is_answered_as_what_is_not_there(answers: Answers) -> None:
    await store_lineage(
        answers.graph, [seen("people.ssn -> secret.s: ssn IDENTITY", "people.id -> open.x: id IDENTITY")]
    )
    for path, names in (
        ("upstream", ("people.ssn", "people.ssx")),
        ("impact", ("secret.s", "secrex.s")),
        ("downstream", ("secret", "secrex")),
    ):
        hidden, missing = [await answers.ask(path, column=name) for name in names]
        assert hidden[0] == missing[0] == 404
        assert hidden[1]["msgDesc"].replace(names[0], "") == missing[1]["msgDesc"].replace(names[1], "")
    hidden, missing = [
        await answers.ask("paths", **{"from": "people.id", "to": name}) for name in ("secret.s", "secrex.s")
    ]
    assert hidden[0] == missing[0] == 404
    found = await answers.told("columns", text="e")
    assert [one["name"] for one in found["columns"]] == [f"{LAB}open.x", f"{LAB}people.id"]
    assert found["complete"]
    assert await answers.told("columns", text="ssn") == {
        "columns": [],
        "next": None,
        "complete": True,
        "cut_off": "",
    }


async def test_a_path_through_something_hidden_is_not_there(answers: Answers) -> None:
    await store_lineage(
        answers.graph,
        [
            seen("open.a -> secret.s: a IDENTITY"),
            seen("secret.s -> top.t: s IDENTITY", "open.b -> top.t: b FILTER"),
        ],
    )
    asked = {"from": "open.a", "to": "top.t"}
    assert len((await answers.told("paths", "root", **asked))["paths"]) == 1
    assert (await answers.told("paths", **asked))["paths"] == []
    assert (await answers.told("impact", column="open.a"))["affected"] == []
    assert await answers.edges("top.t") == {"open.b -> top.t": None}


async def test_bounds_count_only_what_the_asker_may_know_of(answers: Answers) -> None:
    hidden = [f"secret.s{n} -> open.x: s IDENTITY" for n in range(30)]
    await store_lineage(answers.graph, [seen(*hidden, "open_b.y -> open.x: y IDENTITY")])
    body = await answers.told("upstream", column="open.x", limit=1)
    assert (len(body["edges"]), body["complete"]) == (1, True)
    body = await answers.told("upstream", "root", column="open.x", limit=1)
    assert (len(body["edges"]), body["complete"]) == (1, False)
    found = await answers.told("columns", text="lab", limit=2)
    assert (len(found["columns"]), found["complete"]) == (2, True)
    deep = [seen(f"open{n}.x -> open{n + 1}.x: x IDENTITY") for n in range(3)]
    await store_lineage(answers.graph, [*deep, seen("open3.x -> secret.s: x IDENTITY")])
    body = await answers.told("downstream", column="open0.x", depth=3)
    assert body["complete"]
    assert not (await answers.told("downstream", "root", column="open0.x", depth=3))["complete"]


async def test_pages_are_in_order_and_complete(answers: Answers) -> None:
    await store_lineage(
        answers.graph, [seen(*(f"secret.s{n}, open.c{n:02} -> top.t: c TRANSFORMATION" for n in range(25)))]
    )
    names: list[str] = []
    after = ""
    for _ in range(9):
        body = await answers.told("columns", text="open", limit=3, after=after)
        names += [one["column"] for one in body["columns"]]
        if body["next"] is None:
            assert body["complete"]
            break
        assert "secret" not in body["next"]
        after = body["next"]
    assert names == [f"c{n:02}" for n in range(25)]


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (["open.a -> top.t: a || 'x' TRANSFORMATION"], True),
        # Another source of the same value is hidden, is masked, or is of filtered rows.
        (["open.a, secret.s -> top.t: a || s TRANSFORMATION"], False),
        (["open.a, people.ssn -> top.t: a || ssn TRANSFORMATION"], False),
        (["open.a, people.mail -> top.t: a || mail TRANSFORMATION"], False),
        (["open.a, open_rows.r -> top.t: a || r TRANSFORMATION"], False),
        # … and the words do not name it.
        (["open.a, people.ssn -> top.t: a || z TRANSFORMATION"], False),
        (["open.a -> top.t: a + 1 TRANSFORMATION", "people.ssn -> top.t: z = 'x' FILTER"], False),
        # The statement reads something hidden for something else: its name may be among the words.
        (["open.a -> top.t: a + 1 TRANSFORMATION", "secret.s -> open.z: s IDENTITY"], False),
        # It reads people, and the words name no hidden column.
        (["open.a -> top.t: a || 'q' TRANSFORMATION", "people.ssn, people.id -> top.u: f(1) JOIN"], True),
        # Words that name a hidden column, whatever column analysis made of it.
        (["open.a -> top.t: a || ssn TRANSFORMATION", "people.ssn, people.id -> top.u: f(1) JOIN"], False),
        # The same words mean another column.
        (["open.a -> top.t: ssn_of(a) TRANSFORMATION", "people.ssn, people.id -> top.u: f(1) JOIN"], True),
        (["open.a -> top.t: a IDENTITY", "open.a -> open_rows.q: a IDENTITY"], False),
    ],
)
async def test_an_expression_is_told_when_nothing_about_it_is_kept_from_the_asker(
    answers: Answers, lines: list[str], shown: bool
) -> None:
    await store_lineage(answers.graph, [seen(*lines)])
    words = edge(lines[0]).expression
    edges = await answers.edges("top.t")
    assert edges["open.a -> top.t"] == (words if shown else None)
    assert (await answers.edges("top.t", "root"))["open.a -> top.t"] == words


async def test_an_expression_of_before_the_graph_knew_what_statements_read_is_not_told(
    answers: Answers,
) -> None:
    await store_lineage(answers.graph, [seen("open.a -> top.t: a + 1 TRANSFORMATION")])
    await answers.graph.execute("UPDATE sluice.lineage_statement SET datasets = '{}'")
    assert await answers.edges("top.t") == {"open.a -> top.t": None}


async def test_a_subquery_that_reads_no_column_of_a_hidden_table_hides_the_expression(
    answers: Answers,
) -> None:
    one = seen("open.a -> top.t: EXISTS (SELECT 1 FROM secret) CONDITIONAL")
    secret = Dataset(DatasetKind.TABLE, ("spark_catalog", "lab", "secret"))
    lineage = replace(one.lineage, inputs=(*one.lineage.inputs, secret))
    await store_lineage(answers.graph, [replace(one, lineage=lineage)])
    assert await answers.edges("top.t") == {"open.a -> top.t": None}


def result_of(source: str, user: str, session: str = "s1") -> list[SeenStatement]:
    """A query of one column, and a temporary view over it."""
    one = seen(f"{source} -> open.x: x IDENTITY")
    made = []
    for kind, parts, operation in (
        (DatasetKind.RESULT, (), Operation.QUERY),
        (DatasetKind.TEMP_VIEW, ("v",), Operation.CREATE),
    ):
        target = ColumnVertex(Dataset(kind, parts), "x")
        (of_table,) = one.lineage.edges
        to = LineageEdge(
            type=EdgeType.PROJECTION,
            sources=of_table.sources,
            targets=(target,),
            expression="x + 'secret word'",
        )
        lineage = replace(
            one.lineage, operation=operation, targets=(target.dataset,), columns=(target,), edges=(to,)
        )
        made.append(
            replace(
                one,
                statement_id=uuid.uuid4(),
                user=user,
                session_id=session,
                lineage=lineage,
                text=f"of {kind}",
            )
        )
    return made


async def test_results_and_temporary_views_are_for_their_own_user(answers: Answers) -> None:
    # The same text, and the same session id: clients of Spark Connect choose theirs.
    await store_lineage(answers.graph, [*result_of("open.a", "bob"), *result_of("open.a", "ann")])
    for user in ("ann", "bob"):
        body = await answers.told("downstream", user, column="open.a")
        targets = sorted(e["target"] for e in body["edges"])
        assert len(targets) == 2
        assert targets[1] == f"session:{user}/s1.v.x"
        assert {e["statements"] for e in body["edges"]} == {1}
    assert len((await answers.told("downstream", "root", column="open.a"))["edges"]) == 4
    body = await answers.told("columns", "ann", text="session")
    assert [one["dataset"] for one in body["columns"]] == ["session:ann/s1.v"]
    # Of before users were written down: nobody's.
    await answers.graph.execute("UPDATE sluice.lineage_dataset SET user_name = NULL")
    assert (await answers.told("downstream", "ann", column="open.a"))["edges"] == []


async def test_a_name_made_to_look_like_another_table_opens_nothing(answers: Answers) -> None:
    await store_lineage(answers.graph, [seen("secret.s -> open.x: s IDENTITY")])
    # Parts of a dataset whose name says something else.
    await answers.graph.execute(
        "UPDATE sluice.lineage_dataset SET parts = '{spark_catalog,lab,open}' WHERE name LIKE '%secret'"
    )
    assert await answers.edges("open.x") == {}
    await answers.graph.execute("UPDATE sluice.lineage_dataset SET kind = 'share' WHERE name LIKE '%open'")
    assert (await answers.ask("upstream", column="open.x"))[0] == 404


async def test_files_are_told_where_they_may_be_read(answers: Answers) -> None:
    def files(location: str) -> SeenStatement:
        one = seen("open.a -> open.x: a IDENTITY")
        source = ColumnVertex(Dataset(DatasetKind.PATH, (location,)), "f")
        first = replace(one.lineage.edges[0].sources[0], column=source)
        edges = (replace(one.lineage.edges[0], sources=(first,)),)
        return replace(one, lineage=replace(one.lineage, inputs=(source.dataset,), edges=edges))

    await store_lineage(
        answers.graph, [files("s3a://open/a.csv"), files("s3a://closed/b.csv"), files("/tmp/c.csv")]
    )
    assert await answers.edges("open.x") == {"path:s3a://open/a.csv.f -> open.x": None}
    assert len(await answers.edges("open.x", "root")) == 3


async def test_owners_know_of_their_tables_and_nobody_else(answers: Answers) -> None:
    await store_lineage(
        answers.graph, [seen("of_ann.a, of_bob.b, of_nobody.c -> open.x: f() TRANSFORMATION")]
    )
    assert await answers.edges("open.x") == {"of_ann.a -> open.x": None}
    assert await answers.edges("open.x", "bob") == {"of_bob.b -> open.x": None}
    answers.spark_is_away = True
    assert await answers.edges("open.x") == {}


async def test_a_statement_tells_its_edges_to_who_ran_it(answers: Answers) -> None:
    one = of_user("ann", seen("open.a -> top.t: a IDENTITY", "people.ssn -> top.t: ssn > 1 FILTER"))
    await store_lineage(answers.graph, [one, of_user("bob", seen("open.a -> top.t: a IDENTITY", minute=1))])
    path = f"statements/{one.statement_id}"
    assert (await answers.ask(path, "bob"))[0] == 404
    assert await answers.ask(path, "bob") == await answers.ask(f"statements/{uuid.uuid4()}", "bob")
    mine = await answers.told(path)
    assert [(e["source"], e["target"]) for e in mine["edges"]] == [(f"{LAB}open.a", f"{LAB}top.t")]
    assert mine["user"] == "ann"
    # The last statement of that edge is bob's now.
    assert mine["edges"][0]["last_statement"] is None
    assert len((await answers.told(path, "root"))["edges"]) == 2


async def test_impact_says_what_fails_and_whether_a_tag_follows(answers: Answers) -> None:
    await store_lineage(
        answers.graph,
        [
            seen("open.a -> open_b.x: a IDENTITY", "open.a -> open_b.y: sha2(a) TRANSFORMATION masked"),
            seen("open_b.x -> top.t: x IDENTITY", "open_b.x -> top.u: x > 1 FILTER"),
        ],
    )
    body = await answers.told("impact", column="open.a")
    assert {
        one["column"].removeprefix(LAB): (one["on_drop"], one["on_retag"]) for one in body["affected"]
    } == {
        "open_b.x": ("fails", "follows"),
        "open_b.y": ("fails", "masked"),
        "top.t": ("stale", "follows"),
        "top.u": ("stale", "none"),
    }


async def test_pictures_hold_what_the_json_holds(answers: Answers) -> None:
    await store_lineage(answers.graph, [seen("open.a, secret.s -> top.t: a || s TRANSFORMATION")])
    for path, parameters in (("upstream", {"column": "top.t"}), ("paths", {"from": "open.a", "to": "top.t"})):
        mermaid = await answers.told(path, format="mermaid", **parameters)
        assert mermaid.startswith("flowchart LR")
        dot = await answers.told(path, format="dot", **parameters)
        assert dot.startswith("digraph")
        for picture in (mermaid, dot):
            assert "secret" not in picture
            assert picture.count("open") == 1
    assert "%% cut off" in await answers.told("upstream", "root", column="top.t", format="mermaid", limit=1)


BAD: list[tuple[str, dict[str, str], str]] = [
    ("upstream", {}, "`column` is missing"),
    ("upstream", {"column": " "}, "`column` is missing"),
    ("upstream", {"column": "x" * 5000}, "more than 4,000"),
    ("upstream", {"column": "a\0b"}, "names cannot have"),
    ("upstream", {"column": "x"}, "is ambiguous: `spark_catalog.lab.open`, `spark_catalog.lab.top`"),
    ("upstream", {"column": "open.x", "depth": "0"}, "parameter `depth` must be a number from 1 to 100"),
    ("upstream", {"column": "open.x", "depth": "-1"}, "`depth` must be a number"),
    ("upstream", {"column": "open.x", "depth": "1e3"}, "`depth` must be a number"),
    ("upstream", {"column": "open.x", "depth": "٣"}, "`depth` must be a number"),
    ("upstream", {"column": "open.x", "depth": "9" * 50}, "`depth` must be a number"),
    ("upstream", {"column": "open.x", "limit": "10001"}, "`limit` must be a number from 1 to 10,000"),
    ("upstream", {"column": "open.x", "format": "svg"}, "must be one of `json`, `mermaid`, `dot`"),
    ("upstream", {"column": "open.x", "dept": "1"}, "unknown parameter `dept`"),
    ("impact", {"column": "open.x", "format": "dot"}, "unknown parameter `format`"),
    ("paths", {"from": "open.x"}, "`to` is missing"),
    ("columns", {"after": "{"}, "`after` must be the `next` of an earlier response"),
    ("columns", {"after": '["a"]'}, "`after` must be the `next` of an earlier response"),
    ("columns", {"after": '["a", "\\u0000"]'}, "`after` must be the `next` of an earlier response"),
    ("columns", {"limit": "1001"}, "from 1 to 1,000"),
    ("statements/1", {}, "`1` is not a statement id"),
]


async def test_every_bad_question_has_a_clear_answer(answers: Answers) -> None:
    await store_lineage(answers.graph, [seen("open.x -> top.x: x IDENTITY")])
    for path, parameters, message in BAD:
        status, body = await answers.ask(path, **parameters)
        assert (status, body["statusCode"]) == (400, 400), (path, parameters)
        assert message in body["msgDesc"]


async def test_who_asks_and_how(answers: Answers) -> None:
    await store_lineage(answers.graph, [seen("open.x -> top.x: x IDENTITY")])
    asked = {"column": "open.x"}
    assert (await answers.ask("upstream", password="wrong", **asked))[0] == 401
    assert (await answers.ask("upstream", method="POST", **asked))[0] == 405
    assert (await answers.ask("nothing"))[0] == 404
    assert (await answers.ask("upstream", user="stranger", **asked))[0] == 404
    answers.stale = "policies are three hours old"
    assert await answers.ask("upstream", **asked) == (
        503,
        {"statusCode": 503, "msgDesc": "policies are three hours old"},
    )
    assert (await answers.ask("upstream", "root", **asked))[0] == 200


async def test_a_graph_with_many_ways_is_cut_and_says_so(answers: Answers) -> None:
    wide = [
        seen(*(f"open{level}.c{a} -> open{level + 1}.c{b}: c IDENTITY" for a in range(6) for b in range(6)))
        for level in range(7)
    ]
    await store_lineage(answers.graph, wide)
    body = await answers.told("paths", **{"from": "open0.c0", "to": "open7.c0"})
    assert (len(body["paths"]), body["complete"]) == (20, False)
    assert {len(way) for way in body["paths"]} == {7}
    status, body = await answers.ask("paths", **{"from": "lab.open0", "to": "lab.open7", "limit": "200"})
    assert status == 200
    status, body = await answers.ask("paths", **{"from": "lab.open1", "to": "lab.open1", "limit": "200"})
    assert status == 200
