"""What a program does with ADBC, and with polars and DuckDB over it and over `toArrow()`, twice in a row.

Runs where `requirements.txt` is installed.

`client.py REMOTE SHOP SCRATCH`: where Spark Connect is, which database to read and which to write.
"""

from __future__ import annotations

import sys
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from adbc_driver_spark import dbapi
from pyspark.sql import SparkSession

from tests.e2e.programs.steps import Steps, tell


def steps(connection: Any, session: Any, shop: str, scratch: str) -> Steps:
    customer = f"{shop}.customer"
    by_id = f"SELECT id, region, email, spent FROM {customer} ORDER BY id"

    def all_of(text: str, parameters: Any = None) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(text, parameters)
            found = cursor.fetch_arrow_table()
            return {
                "columns": [str(one) for one in found.schema],
                "rows": [list(one.values()) for one in found.to_pylist()],
            }

    def fetched(text: str) -> Any:
        with connection.cursor() as cursor:
            cursor.arraysize = 2
            cursor.execute(text)
            described = [[one[0], str(one[1])] for one in cursor.description]
            return [described, cursor.fetchone(), cursor.fetchmany(), cursor.fetchall(), cursor.rowcount]

    def counted(text: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.rowcount

    def batches() -> Any:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT id FROM {shop}.numbers ORDER BY id")
            reader = cursor.fetch_record_batch()
            return sum(sum(one["id"].to_pylist()) for one in reader)

    def many(parameters: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {scratch}.made VALUES (?, ?)", parameters)
            return cursor.rowcount

    def schema_of(text: str) -> Any:
        with connection.cursor() as cursor:
            return str(cursor.adbc_execute_schema(text))

    def prepared(text: str) -> Any:
        with connection.cursor() as cursor:
            return str(cursor.adbc_prepare(text))

    def ingested(mode: str) -> Any:
        with connection.cursor() as cursor:
            data = pa.table({"id": pa.array([7, 8], pa.int32()), "word": pa.array(["g", None])})
            return cursor.adbc_ingest("taken_in", data, mode=mode, db_schema_name=scratch)

    def objects(depth: str, **where: Any) -> Any:
        found = connection.adbc_get_objects(depth=depth, **where).read_all().to_pylist()
        for catalog in found:
            wanted = [
                one for one in catalog["catalog_db_schemas"] or [] if one["db_schema_name"] in {shop, scratch}
            ]
            catalog["catalog_db_schemas"] = sorted(wanted, key=lambda one: str(one["db_schema_name"]))
            for schema in wanted:
                if schema["db_schema_tables"]:
                    schema["db_schema_tables"].sort(key=lambda one: str(one["table_name"]))
        return found

    def overlapping() -> Any:
        with connection.cursor() as one, connection.cursor() as other:
            one.execute(f"SELECT id FROM {shop}.numbers ORDER BY id")
            other.execute(f"SELECT count(*) FROM {customer}")
            return [one.fetchone(), other.fetchone(), one.fetchone()]

    def abandoned() -> Any:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT id FROM {shop}.numbers ORDER BY id")
            return cursor.fetchone()

    def renamed(name: str) -> Any:
        connection.adbc_current_db_schema = name
        found = [connection.adbc_current_db_schema, all_of("SELECT current_database()")]
        connection.adbc_current_db_schema = "default"
        return found

    def frame_of(found: pl.DataFrame) -> Any:
        return [[[name, str(type_)] for name, type_ in found.schema.items()], found.rows()]

    def by_duckdb(arrow: pa.Table | pa.RecordBatchReader, text: str) -> Any:
        with duckdb.connect() as local:
            local.register("customer", arrow)
            found = local.execute(text)
            return [[str(one[:2]) for one in found.description or ()], found.fetchall()]

    def streamed_to_duckdb(text: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(by_id)
            return by_duckdb(cursor.fetch_record_batch(), text)

    def arrow_of(text: str) -> pa.Table:
        return session.sql(text).toArrow()

    counts = "SELECT region, count(*), count(email), max(email) FROM customer GROUP BY region ORDER BY region"
    return {
        "polars": lambda: frame_of(pl.read_database(by_id, connection)),
        "polars, every type": lambda: frame_of(
            pl.read_database(f"SELECT * FROM {shop}.every_type ORDER BY number", connection)
        ),
        "polars, in batches": lambda: [
            len(one)
            for one in pl.read_database(
                f"SELECT id FROM {shop}.numbers", connection, iter_batches=True, batch_size=1000
            )
        ],
        "DuckDB": lambda: streamed_to_duckdb(counts),
        "toArrow": lambda: [str(arrow_of(by_id).schema), arrow_of(by_id).to_pylist()],
        "toArrow of a table": lambda: session.table(customer).orderBy("id").toArrow().to_pylist(),
        "toArrow of nothing": lambda: str(arrow_of(f"SELECT id FROM {customer} WHERE id < 0").schema),
        "toArrow of no such column": lambda: arrow_of(f"SELECT nothing FROM {customer}"),
        "polars over toArrow": lambda: frame_of(pl.DataFrame(arrow_of(by_id))),
        "DuckDB over toArrow": lambda: by_duckdb(arrow_of(by_id), counts),
        "information": lambda: {str(k): v for k, v in connection.adbc_get_info().items()},
        "table types": lambda: sorted(connection.adbc_get_table_types()),
        "current": lambda: [connection.adbc_current_catalog, connection.adbc_current_db_schema],
        "a database": lambda: renamed(shop),
        "no such database": lambda: renamed("programs_nothing"),
        "catalogs": lambda: objects("catalogs"),
        "databases": lambda: objects("db_schemas"),
        "tables": lambda: objects("tables", db_schema_filter=shop),
        "tables by pattern": lambda: objects("tables", db_schema_filter=shop, table_name_filter="cust%"),
        "columns": lambda: objects("columns", db_schema_filter=shop),
        "schema of a table": lambda: str(connection.adbc_get_table_schema("customer", db_schema_filter=shop)),
        "schema of every type": lambda: str(
            connection.adbc_get_table_schema("every_type", db_schema_filter=shop)
        ),
        "schema of no table": lambda: str(connection.adbc_get_table_schema("nothing", db_schema_filter=shop)),
        "schema of a query": lambda: schema_of(f"SELECT id, email AS e FROM {customer}"),
        "customers": lambda: all_of(f"SELECT * FROM {customer} ORDER BY id"),
        "every type": lambda: all_of(f"SELECT * FROM {shop}.every_type ORDER BY number"),
        "by and by": lambda: fetched(f"SELECT id, email, spent FROM {customer} ORDER BY id"),
        "a view": lambda: all_of(f"SELECT * FROM {shop}.emea ORDER BY id"),
        "no rows": lambda: all_of(f"SELECT id FROM {customer} WHERE id < 0"),
        "many rows": batches,
        "grouped": lambda: all_of(
            f"SELECT region, count(*) AS n FROM {customer} GROUP BY region ORDER BY region"
        ),
        "joined": lambda: all_of(
            f"SELECT id, title FROM {customer} JOIN {shop}.region ON region = code ORDER BY id"
        ),
        "two at once": overlapping,
        "left unread": abandoned,
        "with arguments": lambda: all_of(
            f"SELECT id, ? AS said FROM {customer} WHERE id > ? ORDER BY id", ["it's \\ ?", 2]
        ),
        "with null": lambda: all_of("SELECT ? AS nothing", [None]),
        "prepared": lambda: prepared(f"SELECT id FROM {customer} WHERE id > ?"),
        "a temporary view": lambda: counted(
            f"CREATE OR REPLACE TEMPORARY VIEW mine AS SELECT * FROM {customer}"
        ),
        "what it shows": lambda: all_of("SELECT id, email FROM mine ORDER BY id"),
        "made": lambda: counted(f"CREATE TABLE {scratch}.made (id INT, word STRING) USING parquet"),
        "inserted": lambda: counted(f"INSERT INTO {scratch}.made VALUES (1, 'a'), (2, NULL)"),
        "inserted from": lambda: counted(f"INSERT INTO {scratch}.made SELECT id, email FROM {customer}"),
        "a batch": lambda: many([(3, "c"), (4, None)]),
        "read": lambda: all_of(f"SELECT * FROM {scratch}.made ORDER BY id, word"),
        "altered": lambda: counted(f"ALTER TABLE {scratch}.made ADD COLUMN more DOUBLE"),
        "described": lambda: all_of(f"DESCRIBE {scratch}.made"),
        "taken in": lambda: ingested("create"),
        "taken in again": lambda: ingested("create"),
        "more taken in": lambda: ingested("append"),
        "taken in anew": lambda: ingested("replace"),
        "what was taken in": lambda: all_of(f"SELECT * FROM {scratch}.taken_in ORDER BY id"),
        "dropped": lambda: [
            counted(f"DROP TABLE {scratch}.made"),
            counted(f"DROP TABLE IF EXISTS {scratch}.taken_in"),
        ],
        "shown": lambda: all_of(f"SHOW TABLES IN {shop}"),
        "a setting": lambda: all_of("SET spark.sql.session.timeZone = UTC"),
        "explained": lambda: all_of("EXPLAIN SELECT 1 AS one"),
        "a script": lambda: all_of("BEGIN DECLARE n INT DEFAULT 1; SET n = n + 1; SELECT n; END"),
        "two statements": lambda: all_of("SELECT 1; SELECT 2"),
        "commit": connection.commit,
        "rollback": connection.rollback,
        "no such table": lambda: all_of(f"SELECT * FROM {shop}.nothing"),
        "no such column": lambda: all_of(f"SELECT nothing FROM {customer}"),
        "no SQL": lambda: all_of("SELEKT 1"),
        "a value that fails": lambda: all_of(f"SELECT 1 / (id - id) AS x FROM {customer}"),
        "a cast that fails": lambda: all_of(f"SELECT CAST(name AS INT) AS x FROM {customer} WHERE id = 2"),
        "after all that": lambda: all_of("SELECT 1 AS one"),
    }


def main(remote: str, shop: str, scratch: str) -> None:
    session = SparkSession.builder.remote(remote).create()
    with dbapi.connect(remote, autocommit=True) as connection:
        tell(steps(connection, session, shop, scratch), times=2)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
