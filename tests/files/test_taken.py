"""Where tables lie is asked about once, and again as soon as it may be otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gateway.files.taken import MAX_AGE_S, TakenPlaces
from gateway.model.catalog import TableName
from gateway.session.ports import BackendError
from tests.files.played import EVENTS, PlayedSpark

WHOLE = "SHOW TABLE EXTENDED IN `spark_catalog`.`hr` LIKE '*'"
URL = "s3a://b/raw/events"


class Asked:
    """A Spark with a database `hr`, and what is asked about its tables."""

    def __init__(self, *tables: tuple[str, str]) -> None:
        self.spark, self.now = PlayedSpark(), 0.0
        self.have(*tables)
        self._taken = TakenPlaces(
            self.spark.query, refusal=BackendError, catalog=self.spark, clock=lambda: self.now
        )

    def have(self, *tables: tuple[str, str], named: Sequence[str] = ("*",)) -> None:
        """Have tables with their places; `named`: the patterns by which they may be asked about."""
        told = [("hr", name, False, f"Location: {place}") for name, place in tables]
        self.spark.catalog = {
            "SHOW DATABASES IN `spark_catalog`": [("hr",)],
            "DESCRIBE NAMESPACE EXTENDED `spark_catalog`.`hr`": [("Location", "file:/wh/hr.db")],
            "SHOW TABLES IN `spark_catalog`.`hr`": [("hr", name, False) for name, _ in tables],
            **{
                f"SHOW TABLE EXTENDED IN `spark_catalog`.`hr` LIKE '{pattern}'": [
                    row for row in told if pattern == "*" or row[1] in pattern.split("|")
                ]
                for pattern in named
            },
        }

    async def __call__(self) -> tuple[str | None, list[str]]:
        """Return whose the place is, and what was asked about tables."""
        self.spark.asked.clear()
        found = await self._taken.find_overlap(URL, EVENTS)
        named = [sql for sql in self.spark.asked if "EXTENDED IN" in sql]
        return None if found is None or found.table is None else found.table.table, named


async def test_tables_are_asked_about_once() -> None:
    asked = Asked(("a", "file:/wh/a"), ("b", "file:/wh/b"))
    assert await asked() == (None, [WHOLE])
    assert await asked() == (None, [])


async def test_after_half_a_minute_they_are_asked_about_again() -> None:
    asked = Asked(("a", "file:/wh/a"))
    await asked()
    asked.have(("a", URL))
    asked.now = MAX_AGE_S - 0.1
    assert await asked() == (None, [])
    asked.now = MAX_AGE_S
    assert await asked() == ("a", [WHOLE])


async def test_a_statement_that_changes_names_of_a_database_has_its_tables_asked_about_again() -> None:
    asked = Asked(("a", "file:/wh/a"))
    await asked()
    asked.have(("a", f"{URL}/in"))
    asked.spark.changed += 1
    assert await asked() == ("a", [WHOLE])


async def test_what_changes_while_it_is_asked_about_is_not_kept() -> None:
    asked = Asked(("a", "file:/wh/a"))
    query = asked.spark.query

    async def changing(sql: str, before: str = "", after: str = "") -> Sequence[tuple[object, ...]]:
        if sql == WHOLE:
            asked.spark.changed += 1
        return await query(sql, before, after)

    asked._taken._query = changing
    assert await asked() == (None, [WHOLE])
    assert await asked() == (None, [WHOLE])


async def test_new_tables_are_asked_about_at_once_by_their_names() -> None:
    asked = Asked(("a", "file:/wh/a"))
    await asked()
    asked.now = 20.0
    asked.have(("a", "file:/wh/a"), ("b", "file:/wh/b"), ("c", URL), named=("b|c",))
    by_name = WHOLE.replace("*", "b|c")
    assert await asked() == ("c", [by_name])
    assert await asked() == ("c", [])
    asked.now = MAX_AGE_S
    asked.have(("a", "file:/wh/a"), ("b", URL), ("c", "file:/wh/c"))
    assert await asked() == ("b", [WHOLE]), "what was asked by name counts no longer than the rest"


async def test_names_that_a_pattern_would_mean_otherwise_are_asked_about_with_all() -> None:
    asked = Asked(("a", "file:/wh/a"))
    await asked()
    asked.have(("a", "file:/wh/a"), ("b*", URL))
    assert await asked() == ("b*", [WHOLE])


async def test_a_table_that_is_told_and_not_listed_stays_where_it_is() -> None:
    asked = Asked(("a", "file:/wh/a"), ("hidden", URL))
    asked.spark.catalog = {**asked.spark.catalog, "SHOW TABLES IN `spark_catalog`.`hr`": [("hr", "a", False)]}
    assert await asked() == ("hidden", [WHOLE])
    assert await asked() == ("hidden", [])


def played(*tables: tuple[str, str], reserved: Sequence[str] = ()) -> tuple[Asked, TakenPlaces]:
    asked = Asked(*tables)
    found = TakenPlaces(
        asked.spark.query,
        refusal=BackendError,
        catalog=asked.spark,
        reserved=lambda: reserved,
        clock=lambda: asked.now,
    )
    return asked, found


async def test_a_path_in_around_or_at_a_table_is_the_table_s_by_any_spelling(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t")
    _, taken = played(("a", f"file:{tmp_path}/t"), ("b", "s3a://b/x/t"), ("c", "hdfs://n/c d"))
    a, b, c = (TableName("spark_catalog", "hr", name) for name in "abc")
    for url, tables in {
        f"{tmp_path}/t": (a,),
        f"file://{tmp_path}/t/part-0.parquet": (a,),
        f"file:{tmp_path}": (a,),
        f"{tmp_path}//t/_delta_log": (a,),
        f"{tmp_path}/link/day=1": (a,),
        f"{tmp_path}/T": (a,),
        f"{tmp_path}/tt": (),
        "s3://b/x": (b,),
        "S3N://b/x/%74": (b,),
        "s3://b/X/t": (),
        "s3://c/x/t": (),
        "hdfs://other/c%20d/e": (c,),
    }.items():
        assert await taken.tables_at(url) == tables, url
    assert "absolute" in await taken.tables_at("x/y")


async def test_a_table_that_moves_is_found_where_it_is_then() -> None:
    asked, taken = played(("a", "s3://b/x"))
    assert await taken.tables_at("s3://b/y") == ()
    asked.have(("a", "s3://b/y"))
    asked.spark.changed += 1
    assert await taken.tables_at("s3://b/y") == (TableName("spark_catalog", "hr", "a"),)
    asked.have(("a", "s3://b/z"))
    asked.now = MAX_AGE_S
    assert await taken.tables_at("s3://b/z") == (TableName("spark_catalog", "hr", "a"),)


async def test_reserved_places_and_tables_that_lie_nowhere_let_nobody_read_by_path() -> None:
    _, taken = played(("a", "s3://b/x"), reserved=["s3://b/iceberg"])
    for url in ("s3://b/iceberg/db/t", "s3://b"):
        assert "catalog whose tables" in await taken.tables_at(url)
    _, taken = played(("a", "nowhere"))
    assert "does not say where" in await taken.tables_at("s3://b/y")
