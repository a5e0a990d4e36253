"""No value of a plan stands in its shape, however it is quoted; one of SQL alone has the shape of that."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them

from gateway.app import jobs as made
from gateway.errors import BackendUnavailable
from gateway.jobs import rollup_texts
from gateway.jobs.rollup_texts import write_fingerprints
from gateway.jobs.spark import FEW_ROWS, tune_for_rows
from gateway.model.reading import NotRead
from gateway.plan.rendering import render
from gateway.reader.pool import ReaderPool
from gateway.reader.shapes import lex_statement
from gateway.settings.loading import parse_settings
from gateway.wire import connect
from tests.plan.frames import message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")
pb: Any = connect.pb

TEXTS = (
    "SELECT a FROM t WHERE name = 'Alice Smith'",
    'SELECT a FROM t WHERE name = "Alice Smith" AND id = 7',
    'SELECT a\nFROM t WHERE name = "Alice Smith"',
    'SELECT a FROM t WHERE name = """Alice Smith"""',
    "SELECT a FROM t WHERE name RLIKE 'Alice\\\\s+Smith' AND b = \"Alice Smith\"",
    "SELECT a FROM t WHERE name = 'it\\'s Alice Smith' OR b = \"Alice Smith\"",
    "SELECT a FROM t -- Alice Smith's \"\nWHERE b = 'Alice Smith'",
    "SELECT a FROM t WHERE name = r'Alice\\' AND b = \"Smith Alice\"",
    'SELECT a FROM t WHERE name = "Alice Smith',
    'SELECT a FROM t WHERE name = "" OR name = "Alice Smith" OR \'a\' = ""',
    "SELECT a FROM t WHERE name = 'Alice Smith\\",
    "SELECT a FROM t WHERE name = 'x" + "y" * 70_000 + '\' OR name = "Alice Smith"',
)


def other_renderings(text: str) -> list[str]:
    frame = table("hr.employee")
    schema = pb.DataType()
    schema.struct.fields.add(name='a"b', data_type=pb.DataType(string=pb.DataType.String()))
    return [
        render(message(sql(text).filter(text).select(F.lit(text).alias("x")))),
        render(pb.AnalyzePlanRequest(schema=pb.AnalyzePlanRequest.Schema(plan=message(sql(text))))),
        render(message(sql(text, views={"v": frame.filter(text)}))),
        render(message(sql(text, views={"o'x": frame.filter(text)}))),
        render(message(sql("SELECT :x", x=F.lit(text)))),
        render(message(frame.select(F.transform("tags", lambda x: F.concat(x, F.lit(text)))))),
        render(schema) + f".filter({render(pb.Expression.Literal(string=text))})",
        render(message(frame.filter(F.lit(text.encode()) == F.col("a")))),
    ]


@pytest.mark.parametrize("text", TEXTS)
async def test_no_value_stands_in_the_shape_of_a_plan(reader: ReaderPool, text: str) -> None:
    for rendering in other_renderings(text):
        for kept in (rendering, *(rendering[: len(rendering) * part // 7] + "…" for part in range(1, 7))):
            shape = await reader.fingerprint(lex_statement(kept, is_rendering=True, texts=(text, text)))
            assert isinstance(shape, str)
            assert not re.search("(?i)alice|smith|yyy", shape), (kept[:200], shape[:200])


@pytest.mark.parametrize("text", TEXTS)
async def test_a_plan_of_sql_alone_has_the_shape_of_the_sql(reader: ReaderPool, text: str) -> None:
    rendering = render(message(sql(text)))
    found = lex_statement(rendering, is_rendering=True, texts=(text,))
    assert found == text or rendering.endswith("…")
    assert lex_statement(rendering, is_rendering=False, texts=(text,)) == rendering


async def test_names_in_quotes_do_not_shift_what_is_a_text() -> None:
    variable = pb.Expression.UnresolvedNamedLambdaVariable(name_parts=['x"y'])
    named = pb.NamedArgumentExpression(key="k'", value=pb.Expression(literal={"string": "Alice"}))
    for rendering in (
        render(pb.Expression(unresolved_named_lambda_variable=variable)),
        render(pb.Expression(named_argument_expression=named)),
    ):
        assert not re.search("[xyk]|Alice", lex_statement(rendering, is_rendering=True))


async def test_the_job_waits_longer_for_a_parser_than_a_gateway_would(tmp_path: Path) -> None:
    text = "policies: {paths: [p.yaml]}\nledger: {directory: l}\nusers: {file: u.yaml}\nreader: {wait_s: 3}"
    options = made._rollup_options(parse_settings(text, "gateway.yaml", tmp_path))
    async with options.reader() as fingerprint:
        assert fingerprint.__self__.limits.wait_s == 30  # type: ignore[attr-defined]
        assert await fingerprint("SELECT 1") == "select ?"


def rows(*texts: str) -> Any:
    found = [{"text_digest": text, "statement": text, "is_plan": False, "texts": None} for text in texts]
    return SimpleNamespace(toLocalIterator=lambda: iter(found))


async def test_a_parser_that_is_away_for_a_moment_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup_texts, "PAUSES_S", (0.0, 0.0))
    answers: dict[str, list[str | NotRead]] = {
        "a": [NotRead("UNAVAILABLE", "restarting"), NotRead("TIMEOUT", "late"), "a's shape"],
        "b": [NotRead("TOO_DEEP", "deep")],
    }

    async def fingerprint(text: str) -> Any:
        return answers[text].pop(0)

    assert await write_fingerprints(rows("a", "b"), tmp_path, fingerprint) == 2
    assert parquet.read_table(tmp_path / "fingerprints.parquet").to_pylist() == [
        {"text_digest": "a", "fingerprint": "a's shape"},
        {"text_digest": "b", "fingerprint": None},
    ]


async def test_a_parser_that_stays_away_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup_texts, "PAUSES_S", (0.0,))

    async def fingerprint(text: str) -> NotRead:
        return NotRead("UNAVAILABLE", "the parser service is restarting; try again")

    with pytest.raises(BackendUnavailable, match="restarting"):
        await write_fingerprints(rows("a"), tmp_path, fingerprint)


async def test_a_text_that_the_parser_does_not_get_through_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may send statements could stop the roll-ups with it."""
    monkeypatch.setattr(rollup_texts, "PAUSES_S", (0.0,))

    async def fingerprint(text: str) -> Any:
        return NotRead("TIMEOUT", "late") if text == "a" else f"{text}'s shape"

    assert await write_fingerprints(rows("a", "b"), tmp_path, fingerprint) == 2
    found = parquet.read_table(tmp_path / "fingerprints.parquet").to_pylist()
    assert [row["fingerprint"] for row in found] == [None, "b's shape"]


async def test_few_rows_are_interpreted_and_many_are_compiled_for() -> None:
    told: dict[str, str] = {}
    session = SimpleNamespace(conf=SimpleNamespace(set=told.__setitem__))
    tune_for_rows(session, FEW_ROWS - 1)
    assert told == {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    tune_for_rows(session, FEW_ROWS)  # the next day of the same run
    assert told == {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
