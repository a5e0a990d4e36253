"""`sluice lineage` answers for people, for programs and as pictures; wrong names are told in a sentence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from gateway.app import exit_codes
from gateway.cli import main
from gateway.database.migrate import migrate
from gateway.lineage.store import store_lineage
from tests.lineage.openlineage.shapes import check
from tests.lineage.statements import seen

STATEMENTS = (
    seen("raw.ssn -> mid.ssn: ssn IDENTITY", "raw.region -> mid.ssn: region = 'x' FILTER"),
    seen("mid.ssn -> top.id: sha2(ssn, 256) TRANSFORMATION masked", minute=1),
    seen('mid.ssn -> top.`a"b<c`: ssn IDENTITY', minute=2, outcome="failed"),
)

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return a function that runs the command: exit code, output, errors."""

    async def fill() -> None:
        connection = await asyncpg.connect(database)
        await migrate(connection)
        await store_lineage(connection, STATEMENTS)
        await connection.close()

    asyncio.run(fill())
    capsys.readouterr()
    (tmp_path / "dsn").write_text(database)
    config = tmp_path / "gateway.yaml"
    config.write_text("ledger: {dsn: {file: dsn}}\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["lineage", "-c", str(config), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_tree_goes_both_ways(ask: Ask) -> None:
    code, out, _ = ask("mid.ssn")
    assert code == exit_codes.OK
    assert out == (
        "what feeds it\n"
        "spark_catalog.lab.mid.ssn\n"
        "├─ spark_catalog.lab.raw.region  [decides on it: FILTER]  region = 'x'\n"
        "└─ spark_catalog.lab.raw.ssn  [values: IDENTITY]  ssn\n"
        "what it feeds\n"
        "spark_catalog.lab.mid.ssn\n"
        '├─ spark_catalog.lab.top.`a"b<c`  [values: IDENTITY; never finished]  ssn\n'
        "└─ spark_catalog.lab.top.id  [masked values: TRANSFORMATION]  sha2(ssn, 256)\n"
    )


def test_impact_tells_what_arrives(ask: Ask) -> None:
    code, out, _ = ask("raw.ssn", "--impact")
    assert code == exit_codes.OK
    lines = [line.split(maxsplit=2) for line in out.splitlines()[1:]]
    assert ["spark_catalog.lab.top.id", "2", "masked values"] in lines
    assert ["spark_catalog.lab.mid.ssn", "1", "values: a tag on it would follow"] in lines


def test_ways_name_their_statements(ask: Ask) -> None:
    code, out, _ = ask("raw.ssn", "--to", "top.id")
    assert code == exit_codes.OK
    assert str(STATEMENTS[1].statement_id) in out
    assert "no path" in ask("top.id", "--to", "raw.ssn")[1]


def test_programs_get_json_and_pictures_are_safe(ask: Ask) -> None:
    (down,) = json.loads(ask("raw.ssn", "--down", "--json")[1])
    assert {edge["target"].rpartition("lab.")[2] for edge in down["edges"]} == {
        "mid.ssn",
        "top.id",
        'top.`a"b<c`',
    }
    assert down["complete"] is True
    mermaid = ask("raw.ssn", "--down", "--format", "mermaid")[1]
    assert mermaid.startswith("flowchart LR\n")
    assert '"b<' not in mermaid
    dot = ask("raw.ssn", "--down", "--format", "dot")[1]
    assert dot.startswith("digraph lineage {\n")
    assert 'a\\"b<c' in dot


def test_a_name_that_is_not_there_is_a_sentence(ask: Ask) -> None:
    code, _, err = ask("nope.nope")
    assert code == exit_codes.FAULTS
    assert err.startswith("sluice: no statement in the lineage graph has `nope.nope`")


def test_a_database_that_is_away_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dsn").write_text("postgresql://nobody@127.0.0.1:1/none")
    (tmp_path / "gateway.yaml").write_text("ledger: {dsn: {file: dsn}}\n")
    assert main(["lineage", "-c", str(tmp_path / "gateway.yaml"), "a.b"]) == exit_codes.UNAVAILABLE
    assert "does not answer" in capsys.readouterr().err


TABLES = """\
catalogs:
  spark_catalog:
    raw:
      orders: {columns: {id: bigint, customer: int, amount: "decimal(12,2)", region: string}}
      people: {columns: {id: int, name: string, ssn: string}}
"""
SCRIPTS = {
    "b_report.sql": "INSERT INTO mart.report SELECT name, total FROM mart.totals WHERE total > 10;",
    "a_totals.sql": """
        -- a; comment
        USE mart;
        CREATE TEMPORARY VIEW o AS SELECT customer, amount FROM raw.orders WHERE region = ';';
        CREATE TABLE totals AS
          SELECT p.name, sum(o.amount) AS total FROM o JOIN raw.people p ON p.id = o.customer GROUP BY p.name;
        SELEC nonsense;
    """,
}


@pytest.mark.in_turn(3)
def test_scripts_become_one_graph_whatever_their_order(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "tables.yaml").write_text(TABLES)
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for name, text in SCRIPTS.items():
        (scripts / name).write_text(text)
    arguments = ("import", str(scripts), "--tables", str(tmp_path / "tables.yaml"), "--processes", "2")
    code, out, err = ask(*arguments)
    assert (code, err) == (exit_codes.OK, "")
    assert "a_totals.sql, statement 4: not read: " in out
    assert out.endswith(
        "5 statements: 3 new in the graph, 1 without lineage, 0 with table-level lineage only, 1 not parsed\n"
    )
    (up,) = json.loads(ask("mart.report.*", "--up", "--json")[1])
    carried = {one["column"].removeprefix("spark_catalog."): one["carries"] for one in up["reached"]}
    assert carried["raw.orders.amount"] == "values"
    assert carried["raw.people.name"] == "values"
    assert carried["raw.orders.region"] == "influence"
    assert "raw.people.ssn" not in carried
    assert "3 statements: 0 new" not in ask(*arguments)[1]
    assert " 0 new in the graph" in ask(*arguments)[1]


@pytest.mark.in_turn(3)
def test_imported_statements_are_events_too(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "tables.yaml").write_text(TABLES)
    (tmp_path / "gateway.yaml").write_text(
        "ledger: {dsn: {file: dsn}}\n"
        "lineage: {openlineage: {namespace: shop, catalogs: {spark_catalog: 'hive://meta:9083'}}}\n"
    )
    (tmp_path / "totals.sql").write_text(SCRIPTS["a_totals.sql"])
    events = tmp_path / "events.jsonl"
    arguments = ("import", str(tmp_path / "totals.sql"), "--tables", str(tmp_path / "tables.yaml"))
    code, out, _ = ask(*arguments, "--openlineage", str(events))
    assert code == exit_codes.OK, out
    told = [json.loads(line) for line in events.read_bytes().splitlines()]
    for event in told:
        check(event)
    create = told[-1]
    assert create["job"]["name"] == "create.spark_catalog.mart.totals"
    (made,) = create["outputs"]
    assert (made["namespace"], made["name"]) == ("hive://meta:9083", "mart.totals")
    sources = {
        column: [f"{s['name']}.{s['field']}" for s in field["inputFields"]]
        for column, field in made["facets"]["columnLineage"]["fields"].items()
    }
    assert sources == {"name": ["raw.people.name"], "total": ["raw.orders.amount"]}
    raw = {d["name"]: d["facets"]["schema"]["fields"] for d in create["inputs"] if "schema" in d["facets"]}
    assert {"name": "amount", "type": "decimal(12,2)"} in raw["raw.orders"]
    code, _, err = ask(*arguments, "--openlineage", str(tmp_path))
    assert code == exit_codes.FAULTS
    assert "cannot be written: Is a directory" in err


def test_a_dbt_project_says_what_its_models_make(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "tables.yaml").write_text(TABLES)
    compiled = tmp_path / "target" / "compiled" / "shop" / "models"
    compiled.mkdir(parents=True)
    (compiled / "stg.sql").write_text("select id, upper(name) as name from raw.people")
    (compiled / "top.sql").write_text("select name as who from shop_dev.stg")
    path = "target/compiled/shop/models"
    nodes = {
        name: {"relation_name": f"`shop_dev`.`{name}`", "compiled_path": f"{path}/{name}.sql"}
        for name in ("stg", "top")
    }
    (tmp_path / "target" / "manifest.json").write_text(json.dumps({"nodes": nodes}))
    code, out, _ = ask("import", str(tmp_path / "target"), "--tables", str(tmp_path / "tables.yaml"))
    assert code == exit_codes.OK, out
    (up,) = json.loads(ask("shop_dev.top.who", "--up", "--json")[1])
    assert [one["column"].rpartition("catalog.")[2] for one in up["reached"]] == [
        "shop_dev.stg.name",
        "raw.people.name",
    ]


def test_what_cannot_be_imported_is_a_sentence(ask: Ask, tmp_path: Path) -> None:
    assert "name files" in ask("import")[2]
    assert "name files" in ask("import", "x", "--since", "1h")[2]
    assert "cannot be read" in ask("import", str(tmp_path / "absent.sql"))[2]
    assert "only `import` takes" in ask("raw.ssn", "mid.ssn")[2]
