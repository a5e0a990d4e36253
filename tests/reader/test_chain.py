"""Parsers of extensions before Spark's own: a text has one reading, or is refused.

Delta and Iceberg before Spark 4.1. `tests.reader.chain_fuzzing` looks for more cases.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gateway.errors import BackendUnavailable
from gateway.model.reading import NotParsed, NotRead, Reading, Span, Splice
from gateway.model.spark_configuration import PARSER, PARSER_CLASSES
from gateway.model.spark_minors import Minor
from gateway.model.table_formats import DELTA, ICEBERG
from gateway.reader.extension_jars import find_cached_jars
from gateway.reader.java_runtime import find_spark_of
from gateway.reader.pool import ReaderPool
from tests.reader.chains import KEPT, chained_reader

pytestmark = [pytest.mark.lake, pytest.mark.asyncio(loop_scope="module")]

MINOR = Minor(4, 1)
CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "cases" / "reader" / "chains.yaml").read_text()
)
EXPLOIT = CASES[0]["text"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chain() -> AsyncIterator[ReaderPool]:
    async with chained_reader(MINOR, ("delta", "iceberg")) as pool:
        yield pool


def told(answer: Reading | NotParsed | NotRead) -> str:
    """Return what `is` says of an answer."""
    if isinstance(answer, NotParsed):
        return "rejected"
    if isinstance(answer, NotRead):
        return {"TWO_READINGS": "refused", "PARSER_FAILED": "failed"}.get(answer.code, answer.code)
    return f"{'extension' if answer.brought else 'same'} {answer.root}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: ascii(case["text"])[:60])
async def test_what_the_chain_makes_of_a_text(chain: ReaderPool, case: dict[str, Any]) -> None:
    answer = await chain.read(case["text"])
    assert told(answer) == case["is"]
    if isinstance(answer, NotRead):
        assert "\n" not in answer.message


async def test_the_parser_says_which_classes_a_text_goes_through(chain: ReaderPool) -> None:
    configuration = chain.configuration
    assert configuration.extensions == (DELTA.extension, ICEBERG.extension)
    placed = [name for name in configuration.parsers if name not in PARSER_CLASSES]
    assert list(dict.fromkeys(name.partition(":")[0] for name in placed)) == [
        "io.delta.sql.parser.DeltaSqlParser",
        "org.apache.spark.sql.catalyst.parser.extensions.IcebergSparkSqlExtensionsParser",
    ]
    assert all(name.partition(":")[2].isdecimal() for name in placed)
    assert PARSER in configuration.parsers


async def test_functions_of_extensions_are_known_by_name(chain: ReaderPool) -> None:
    answer = await chain.read("SELECT * FROM table_changes('t', 1)")
    assert isinstance(answer, Reading)
    assert [(function.parts, function.builtin) for function in answer.functions] == [
        (("table_changes",), True)
    ]


# -- what is forwarded ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT ' CLUSTER BY (x) ' AS a, ssn FROM d.people", ""),
        (r"SELECT r'\', ' CLUSTER BY (x) ', ssn FROM d.people --'", "is ambiguous"),
    ],
)
async def test_a_forwarded_text_is_asked_of_both_as_well(chain: ReaderPool, query: str, why: str) -> None:
    text = f"({query}\n) AS `people`"
    splice = Splice(span=Span(14, 20), text=text, kind="guard", query=query, alias="people")
    proof = await chain.prove("SELECT * FROM people", f"SELECT * FROM {text}", [splice], [("d", "people")])
    assert why in proof.why
    assert proof.holds is (why == "")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("OPTIMIZE people WHERE people = 1", "people"),
        ("DESCRIBE HISTORY `people`", "`people`"),
        ("RESTORE TABLE people TO VERSION AS OF 1", "people"),
        ("ALTER TABLE people ADD PARTITION FIELD bucket(4, people)", "people"),
        ("ALTER TABLE /* people */ people WRITE ORDERED BY a", "people"),
        ("ALTER TABLE people CREATE BRANCH people", "people"),
        ("ALTER TABLE people SET IDENTIFIER FIELDS a, b", "people"),
        ("VACUUM people", "people"),
    ],
)
async def test_a_name_in_a_statement_of_an_extension_can_be_written_in_full(
    chain: ReaderPool, text: str, name: str
) -> None:
    reading = await chain.read(text)
    assert isinstance(reading, Reading)
    (relation,) = reading.relations
    assert relation.parts == ("people",)
    assert relation.span is not None
    assert relation.span.of(text) == name
    full = ("c", "d", "people")
    splice = Splice(span=relation.span, text="`c`.`d`.`people`", kind="pin", parts=full)
    start, end = relation.span.start, relation.span.end
    forwarded = f"{text[:start]}`c`.`d`.`people`{text[end:]}"
    assert (await chain.prove(text, forwarded, [splice], [full])).why == ""
    other = await chain.prove(text, forwarded, [splice], [("people",)])
    assert "mentions `c`.`d`.`people`, which was not judged" in other.why


async def test_no_proof_makes_a_statement_of_an_extension_of_one_of_sparks(chain: ReaderPool) -> None:
    # To Spark's own parser the first one is DESCRIBE of a column.
    for original, forwarded in (("DESC a people", "DESC HISTORY people"), ("VACUUM t", "OPTIMIZE t")):
        words = Span(0, original.index(" ", 5) if original.startswith("DESC ") else 6)
        splice = Splice(span=words, text=forwarded.rpartition(" ")[0], kind="pin", parts=("x",))
        assert not (await chain.prove(original, forwarded, [splice], [("people",), ("t",)])).holds


# -- what is wrong with jars ---------------------------------------------------------------------------------


async def test_a_jar_without_the_extension_is_told_in_one_line() -> None:
    home = find_spark_of(MINOR, KEPT)
    pool = ReaderPool(home, extensions=[ICEBERG.extension], jars=find_cached_jars(DELTA, MINOR, KEPT))
    with pytest.raises(BackendUnavailable) as caught:
        await pool.start()
    assert f"no jar of the parser has the extension {ICEBERG.extension}" in caught.value.message
    assert "\n" not in caught.value.message


async def test_a_jar_of_another_minor_is_told_in_one_line() -> None:
    home = find_spark_of(MINOR, KEPT)
    jars = find_cached_jars(DELTA, Minor(3, 5), KEPT)
    pool = ReaderPool(home, extensions=[DELTA.extension], jars=jars)
    with pytest.raises(
        BackendUnavailable, match=r"the parser service of Spark 4\.1\.4 does not start"
    ) as caught:
        await pool.start()
    assert "\n" not in caught.value.message
