"""What UPDATE and DELETE may change of a table of which their user sees a part, for every format."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from pyhive import hive

from tests.e2e import one_pack
from tests.e2e.lake.worlds import LakeSpark, Twins
from tests.e2e.running import RunningGateway

SEEN = "if(k.note = 'z', raise_error('seen'), {})"
"""The same of rows that a MERGE may have changed before."""
FAILING = "if(id IN (2, 12), raise_error('seen'), {})"
"""A condition that fails on rows that are hidden."""


def require_hidden_rows_stay(lake: LakeSpark, bob: Twins, provider: str, catalog: str = "") -> None:
    """Change rows over both, and require that hidden ones are neither changed nor asked about.

    A filter on `moved_rows` and `kept_rows` leaves those of EMEA; `contact` of the first is masked.
    """
    rows = "(1, 'a', 'EMEA', 'x'), (3, 'c', 'EMEA', NULL), (4, 'd', 'EMEA', 'y')"
    hidden = "(2, 'b', 'AMER', 'z'), (12, 'e', NULL, 'z')"
    columns = "(id INT, contact STRING, region STRING, note STRING)"
    for db, values in (("shop", f"{rows}, {hidden}"), ("shop_copy", rows)):
        for table in ("moved_rows", "kept_rows"):
            lake.spark.query(
                f"CREATE TABLE {catalog}{db}.{table} {columns} USING {provider}",
                f"INSERT INTO {catalog}{db}.{table} VALUES {values}",
                user="loader",
            )
    for text in (
        f"DELETE FROM {{db}}.kept_rows WHERE {FAILING.format('id = 1')}",
        f"UPDATE {{db}}.moved_rows SET note = 'n', id = id + 10 WHERE {FAILING.format('note IS NULL')}",
        f"UPDATE {{db}}.moved_rows m SET region = 'APAC' WHERE {FAILING.format('m.id = 4')} AND id > 3",
    ):
        bob.same(text)
    for text in (
        # Of the keys of the source only a hidden row has 2: it is inserted.
        "MERGE INTO {db}.kept_rows k USING (SELECT 2 AS id, 'n' AS contact, 'EMEA' AS region, 'i' AS note "
        "UNION ALL SELECT 3, 'n', 'EMEA', 'i') s ON k.id = s.id WHEN NOT MATCHED THEN INSERT *",
        f"MERGE INTO {{db}}.kept_rows k USING (SELECT 3 AS id UNION ALL SELECT 12) s "
        f"ON {SEEN.format('k.id = s.id')} "
        "WHEN MATCHED THEN UPDATE SET note = 'm' WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id) "
        f"WHEN NOT MATCHED BY SOURCE AND {SEEN.format('k.id = 4')} THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET contact = 's'",
        # What is masked is neither asked for nor set.
        f"MERGE INTO {{db}}.moved_rows k USING (SELECT 1 AS id, 'c' AS contact) s "
        f"ON {SEEN.format('k.id = s.id')} "
        "WHEN MATCHED AND s.contact = 'c' THEN UPDATE SET note = s.contact",
    ):
        bob.same(text)
    merges_frames = bob.ours.frames is not None and lake.minor >= (4, 0)
    if merges_frames:
        for side in (bob.ours, bob.theirs):
            _merge_frame(side.frames, f"{side.database}.kept_rows")
        bob.same("REFRESH TABLE {db}.kept_rows")
    bob.same("SELECT * FROM {db}.kept_rows WHERE region = 'EMEA' ORDER BY id, note")
    own = f"{bob.ours.database}.moved_rows"
    for text in (
        f"DELETE FROM {own} WHERE id = 1",  # with a row goes what its masked columns hide
        f"UPDATE {own} SET note = _file WHERE id = 1",  # the path of a file has the values of its partition
        f"UPDATE {own} SET note = _metadata.file_path WHERE id = 1",
        f"UPDATE {own} SET note = max(note) OVER () WHERE TRUE",
        f"UPDATE {own} AS region SET note = 'n' WHERE TRUE",  # the filter's own column is another's field
    ):
        assert "SLUICE_" in str(bob.ours.message(text)), text
    if provider == "delta":
        check = f"ALTER TABLE {catalog}shop.moved_rows ADD CONSTRAINT c CHECK (contact IS NOT NULL)"
        lake.spark.query(check, user="loader")
        assert "SLUICE_" in str(bob.ours.message(f"UPDATE {own} SET note = 'n' WHERE id = 1"))
    # Spark's words for a condition have the filter in them.
    assert "EMEA" not in str(bob.ours.message(f"UPDATE {bob.ours.database}.kept_rows SET id = 9 WHERE id"))
    bob.same("SELECT id, region, note FROM {db}.moved_rows WHERE region = 'EMEA' ORDER BY id")
    for table, ids, notes in (
        ("moved_rows", [1, 2, 4, 12, 13], ["c", "z", "y", "z", "n"]),
        ("kept_rows", [2, 2, 3, 12, 12], ["f" if merges_frames else "i", "z", "m", None, "z"]),
    ):
        kept = lake.spark.query(
            f"SELECT id, note FROM {catalog}shop.{table} ORDER BY id, note", user="loader"
        )
        assert [tuple(row) for row in kept] == list(zip(ids, notes, strict=True))


SPLIT = (
    "UPDATE {db}.split_rows SET note = 'u' WHERE id = 1",
    "DELETE FROM {db}.split_rows WHERE id = 2",
    # Of these keys the other user's rows have two as well.
    "MERGE INTO {db}.split_rows t USING (SELECT 2 AS id UNION ALL SELECT 3 UNION ALL SELECT 9) s "
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET note = 'm' "
    "WHEN NOT MATCHED THEN INSERT (id, note, region) VALUES (s.id, 'i', 'EMEA')",
    "MERGE INTO {db}.split_rows t USING (SELECT 9 AS id) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET note = 'n' WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "UPDATE {db}.split_rows SET note = 'all' WHERE TRUE",
    "DELETE FROM {db}.split_rows WHERE TRUE",
    "INSERT INTO {db}.split_rows VALUES (1, '', 'EMEA')",
)
TIMES = 3
"""How often two users change a row at the same time."""


def require_two_users_stay_apart(
    lake: LakeSpark, gateway: RunningGateway, bob: Twins, provider: str, catalog: str = ""
) -> None:
    """Have one user change rows while another reads and changes others of the same keys, each behind a row
    filter: nobody's are changed, replaced, counted or told by what the other does."""
    full, secret = f"{catalog}shop.split_rows", "kept-from-bob"
    own, hers = (
        "(1, 'a', 'EMEA'), (2, 'b', 'EMEA'), (3, 'c', 'EMEA')",
        [(1, secret), (2, secret), (9, secret)],
    )
    others = ", ".join(f"({key}, '{note}', 'AMER')" for key, note in hers)
    for db, values in (("shop", f"{own}, {others}"), ("shop_copy", own)):
        lake.spark.query(
            f"CREATE TABLE {catalog}{db}.split_rows (id INT, note STRING, region STRING) USING {provider}",
            f"INSERT INTO {catalog}{db}.split_rows VALUES {values}",
            user="loader",
        )
    read, change = (
        f"SELECT id, note FROM {full}",
        f"UPDATE {full} SET note = concat(note, '+') WHERE id = 1",
    )
    seen: list[Any] = []
    told: list[str] = []
    ended = threading.Event()

    def watch() -> None:
        with one_pack.session(gateway, "thrift", "amy") as amy:
            while not ended.is_set() or not seen:
                seen.append(amy(read))

    def change_often(user: str) -> None:
        with one_pack.session(gateway, "thrift", user) as ask:
            for _ in range(TIMES):
                while True:  # the format refuses one of two that change a table at the same time
                    try:
                        ask(change)
                        break
                    except hive.OperationalError as error:
                        told.append(str(error))

    with concurrent.futures.ThreadPoolExecutor() as pool:
        watching = pool.submit(watch)
        try:
            for text in SPLIT:
                bob.same(text)  # rows that it counts, too
                bob.same("SELECT id, note, region FROM {db}.split_rows WHERE region = 'EMEA' ORDER BY id")
        finally:
            ended.set()
        watching.result()
        assert all(rows == hers for rows in seen), "what she reads changed while he wrote"
        for change_of in [pool.submit(change_often, user) for user in ("bob", "amy")]:
            change_of.result()
    # No message of his tells of her rows, nor by its words of the filter that keeps them.
    assert not any(secret in message or "AMER" in message for message in told), told
    found = sorted(lake.spark.query(f"SELECT id, note, region FROM {full}", user="loader"))
    pluses = "+" * TIMES
    assert [tuple(row) for row in found] == [
        (1, pluses, "EMEA"),
        (1, f"{secret}{pluses}", "AMER"),
        (2, secret, "AMER"),
        (9, secret, "AMER"),
    ]


def _merge_frame(spark: Any, table: str) -> None:
    """Merge a row into a table of which one is hidden that has its key."""
    from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

    source = spark.range(2, 3).alias("s")
    on = F.expr(f"if({table}.note = 'z', raise_error('seen'), {table}.id = s.id)")
    writer = source.mergeInto(table, on).whenMatched().update({"note": F.lit("f")})
    failing = F.expr(f"if({table}.note = 'z', raise_error('seen'), {table}.id = 77)")
    writer.whenNotMatchedBySource(failing).delete().merge()


def require_hidden_rows_are_not_written(
    lake: LakeSpark, bob: Twins, provider: str, catalog: str = ""
) -> None:
    """Write rows over both endpoints that a filter with `check` hides, and require that none is there."""
    name, full = f"{bob.ours.database}.checked_rows", f"{catalog}shop.checked_rows"
    lake.spark.query(
        f"CREATE TABLE {full} (id INT, region STRING, note STRING) USING {provider}",
        f"INSERT INTO {full} VALUES (1, 'EMEA', 'x'), (2, 'AMER', 'x')",
        user="loader",
    )
    values = "VALUES (6, 'EMEA', 'x'), (7, 'APAC', 'x') AS v(id, region, note)"
    passing = (
        f"INSERT INTO {name} VALUES (3, 'EMEA', 'x')",
        # Below conditions, joins and limits there are rows that are not written.
        f"INSERT INTO {name} SELECT * FROM {values} WHERE region = 'EMEA'",
        f"INSERT INTO {name} SELECT v.id + 1, region, note FROM {values} JOIN VALUES (6) k(i) ON id = i",
        f"INSERT INTO {name} (note, region, id) SELECT note, region, 8 FROM {values} ORDER BY id LIMIT 1",
        f"UPDATE {name} SET region = upper('emea'), note = 'u' WHERE id = 3",
        f"MERGE INTO {name} t USING (SELECT 6 AS id UNION ALL SELECT 9) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET note = 'm' "
        "WHEN NOT MATCHED THEN INSERT (id, region) VALUES (s.id, 'EMEA')",
    )
    failing = (
        f"INSERT INTO {name} VALUES (13, 'EMEA', 'x'), (14, 'APAC', 'x'), (15, NULL, 'x')",
        f"INSERT INTO {name} SELECT * FROM {values}",
        f"UPDATE {name} SET region = 'APAC' WHERE id IN (1, 3)",
        f"MERGE INTO {name} t USING (SELECT 1 AS id, 'APAC' AS region, 'x' AS note) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET *",
        f"MERGE INTO {name} t USING (SELECT 19 AS id, 'EMEA' AS region, 'x' AS note UNION ALL "
        "SELECT 20, 'APAC', 'x') s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        f"MERGE INTO {name} t USING (SELECT 1 AS id) s ON t.id = s.id "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET region = 'APAC'",
    )
    for text in passing:
        assert bob.ours.message(text) is None, text
    told = [str(bob.ours.message(text)) for text in failing]
    if (spark := bob.ours.frames) is not None:
        told += [_message(partial(spark.sql, text)) for text in failing[:2]]
        hidden = spark.sql(f"SELECT id, region, note FROM {values}")
        for write in (
            lambda: hidden.write.insertInto(name),
            lambda: hidden.writeTo(name).append(),
            lambda: hidden.write.format(provider).mode("append").saveAsTable(name),
        ):
            told.append(_message(write))
        hidden.filter("id = 6").selectExpr("id + 4", "region", "note").write.insertInto(name)
    for one in told:
        assert "SLUICE_ROW_CHECK" in one, told
        assert "nothing was written" in one, told
        assert "APAC" not in one, told
    rows = lake.spark.query(f"SELECT id, region, note FROM {full} ORDER BY id", user="loader")
    written: list[tuple[Any, ...]] = [
        (1, "EMEA", "x"),
        (2, "AMER", "x"),
        (3, "EMEA", "u"),
        (6, "EMEA", "m"),
        (7, "EMEA", "x"),
    ]
    written += [(8, "EMEA", "x"), (9, "EMEA", None), *([(10, "EMEA", "x")] if spark is not None else [])]
    assert [tuple(row) for row in rows] == written


def require_files_without_hidden_rows(lake: LakeSpark, bob: Twins) -> None:
    """The same of a table of plain files in partitions: Spark takes back what a failed job has written."""
    name = f"{bob.ours.database}.checked_files"
    lake.spark.query(
        f"CREATE TABLE {name} (id INT, note STRING, region STRING) USING parquet PARTITIONED BY (region)",
        user="loader",
    )
    told = []
    for text in (
        f"INSERT INTO {name} VALUES (1, 'x', 'EMEA'), (2, 'x', 'APAC')",
        f"INSERT INTO {name} PARTITION (region = 'APAC') VALUES (3, 'x')",
        f"INSERT INTO {name} BY NAME SELECT 'APAC' AS region, 4 AS id, 'x' AS note",
    ):
        told.append(str(bob.ours.message(text)))
        if bob.ours.frames is not None:
            told.append(_message(partial(bob.ours.frames.sql, text)))
    by_name = lake.minor >= (4, 0)
    assert all("SLUICE_ROW_CHECK" in one for one in told[: None if by_name else 2]), told
    assert bob.ours.message(f"INSERT INTO {name} PARTITION (region = 'EMEA') VALUES (5, 'x')") is None
    assert bob.ours.message(f"INSERT INTO {name} VALUES (6, 'x', 'EMEA')") is None
    rows = lake.spark.query(f"SELECT id, region FROM {name} ORDER BY id", user="loader")
    assert [tuple(row) for row in rows] == [(5, "EMEA"), (6, "EMEA")]


def _message(write: Callable[[], object]) -> str:
    from pyspark.errors import PySparkException

    try:
        write()
    except PySparkException as error:
        return str(error)
    return ""
