"""What ibis does with a small shop, twice in a row; runs where `ibis-framework` is installed.

`client.py REMOTE SHOP SCRATCH`: where Spark Connect is, which database to read and which to write.
"""

from __future__ import annotations

import sys
from typing import Any

import ibis
import pandas as pd
from ibis import _
from pyspark.sql import SparkSession

from tests.e2e.programs.steps import Steps, tell


def steps(con: Any, shop: str, scratch: str) -> Steps:
    def table(name: str) -> Any:
        return con.table(name, database=shop)

    def rows(expression: Any) -> Any:
        found = expression.to_pyarrow()
        if not hasattr(found, "schema"):
            return found.as_py()
        return {
            "columns": [str(one) for one in found.schema],
            "rows": [list(one.values()) for one in found.to_pylist()],
        }

    def ordered(expression: Any) -> Any:
        return rows(expression.order_by(list(expression.columns)))

    def named(database: str) -> list[str]:
        """Data in memory has another name in each run."""
        return sorted(one for one in con.list_tables(database=database) if "memtable" not in one)

    def made(name: str) -> Any:
        return ordered(con.table(name, database=scratch))

    def done(given: object) -> str:
        return type(given).__name__

    customer, numbers, region = table("customer"), table("numbers"), table("region")

    def twice(value: int) -> int:
        return value * 2

    def batches() -> Any:
        with numbers.order_by("id").to_pyarrow_batches(chunk_size=1000) as reader:
            return [sum(one.num_rows for one in reader), [str(one) for one in reader.schema]]

    def cached() -> Any:
        kept = customer.filter(_.region == "EMEA").cache()
        try:
            return ordered(kept.select("id", "email"))
        finally:
            kept.release()

    windowed = customer.mutate(
        place=ibis.row_number().over(group_by="region", order_by=_.joined),
        before=_.name.lag().over(group_by="region", order_by="id"),
        running=_.id.sum().over(ibis.cumulative_window(order_by="id")),
    ).select("id", "place", "before", "running")
    return {
        "version": lambda: con.version,
        "catalogs": lambda: sorted(con.list_catalogs()),
        "databases": lambda: sorted(set(con.list_databases()) & {shop, scratch}),
        "current": lambda: [con.current_catalog, con.current_database],
        "tables": lambda: named(shop),
        "tables by pattern": lambda: sorted(con.list_tables(like="cust.*", database=shop)),
        "schema": lambda: str(customer.schema()),
        "schema of every type": lambda: str(table("every_type").schema()),
        "schema of a query": lambda: str(con.sql(f"SELECT id, email AS e FROM {shop}.customer").schema()),
        "customers": lambda: ordered(customer),
        "customers by pandas": lambda: customer.order_by("id").execute().astype(str).to_numpy().tolist(),
        "every type": lambda: rows(table("every_type").drop("wall").order_by("number")),
        "a view": lambda: ordered(table("emea")),
        "head": lambda: rows(numbers.order_by("id").head(3)),
        "count": lambda: rows(customer.count()),
        "batches": batches,
        "filtered": lambda: ordered(customer.filter(_.spent > 0, _.joined >= "2020-01-01")),
        "computed": lambda: ordered(customer.select("id", up=_.name.upper(), length=_.email.length())),
        "cases": lambda: ordered(
            customer.select(
                "id", kind=ibis.cases((_.spent.isnull(), "none"), (_.spent > 5, "big"), else_="small")
            )
        ),
        "strings": lambda: ordered(
            customer.select(
                "id",
                host=_.email.split("@")[1],
                first=_.name.substr(0, 1),
                like=_.email.like("%example"),
                found=_.email.re_search(r"^[a-z]+@"),
            )
        ),
        "dates": lambda: ordered(
            customer.select("id", y=_.joined.year(), m=_.joined.truncate("M"), s=_.joined.strftime("%Y/%m"))
        ),
        "filled": lambda: ordered(
            customer.select("id", "email", "spent").fill_null({"email": "?", "spent": 0})
        ),
        "dropped": lambda: ordered(customer.drop_null(["email"])),
        "cast": lambda: ordered(
            customer.select("id", text=_.spent.cast("string"), real=_.spent.cast("float64"))
        ),
        "tried": lambda: ordered(customer.select("id", number=_.name.try_cast("int64"))),
        "grouped": lambda: ordered(
            customer.group_by("region").agg(
                n=_.count(), who=_.email.nunique(), most=_.spent.max(), mean=_.id.mean()
            )
        ),
        "having": lambda: ordered(customer.group_by("region").having(_.count() > 1).agg(n=_.count())),
        "collected": lambda: ordered(customer.group_by("region").agg(ids=_.id.collect(order_by=_.id))),
        "quantiles": lambda: rows(numbers.agg(half=_.id.median(), some=_.id.approx_nunique())),
        "counted": lambda: ordered(numbers.rest.value_counts()),
        "joined": lambda: ordered(
            customer.join(region, customer.region == region.code).select("id", "title")
        ),
        "left": lambda: ordered(
            customer.left_join(region, customer.region == region.code).select("id", "title")
        ),
        "anti": lambda: ordered(customer.anti_join(region, customer.region == region.code).select("id")),
        "united": lambda: ordered(
            customer.select("id").union(numbers.filter(_.id < 9).select(id=_.id.cast("int32")), distinct=True)
        ),
        "distinct": lambda: ordered(customer.select("region").distinct()),
        "windowed": lambda: ordered(windowed),
        "wide": lambda: ordered(
            customer.select("region", "id", "spent").pivot_wider(
                names_from="region", names=["EMEA", "AMER"], values_from="spent"
            )
        ),
        "unnested": lambda: ordered(table("every_type").select("number", one=_.list.unnest())),
        "structs": lambda: ordered(table("every_type").select("number", a=_.pair.a, k=_.dict.get("k"))),
        "subquery": lambda: ordered(customer.filter(_.region.isin(region.code)).select("id")),
        "sampled": lambda: rows(numbers.sample(1.0, method="row", seed=1).count()),
        "by SQL": lambda: ordered(customer.alias("c").sql("SELECT id, email FROM c WHERE id < 3")),
        "compiled": lambda: str(ibis.to_sql(customer.filter(_.id > 1).select("email"), dialect="pyspark")),
        "raw": lambda: [
            list(one) for one in con.raw_sql(f"SELECT count(*), max(email) FROM {shop}.customer").collect()
        ],
        "memory": lambda: ordered(
            ibis.memtable({"id": [1, 9], "word": ["a", None]})
            .join(customer, "id", how="left")
            .select("id", "word", "email")
        ),
        "cached": cached,
        "function": lambda: ordered(
            customer.select("id", two=ibis.udf.scalar.python(twice)(_.id.cast("int64")))
        ),
        "made": lambda: done(
            con.create_table("made", customer.select("id", "email"), database=scratch, overwrite=True)
        ),
        "what was made": lambda: made("made"),
        "inserted": lambda: done(
            con.insert("made", customer.filter(_.id < 3).select("id", "email"), database=scratch)
        ),
        "what is there": lambda: made("made"),
        "overwritten": lambda: done(
            con.insert(
                "made",
                pd.DataFrame({"id": [7], "email": ["p@q.example"]}).astype({"id": "int32"}),
                database=scratch,
                overwrite=True,
            )
        ),
        "what is left": lambda: made("made"),
        "of a schema": lambda: done(
            con.create_table(
                "empty",
                schema=ibis.schema({"a": "int64", "b": "!string", "c": "array<date>"}),
                database=scratch,
                overwrite=True,
            )
        ),
        "of pandas": lambda: done(
            con.create_table(
                "frame", pd.DataFrame({"a": [1, 2], "b": ["x", None]}), database=scratch, overwrite=True
            )
        ),
        "what pandas gave": lambda: made("frame"),
        "view": lambda: done(
            con.create_view(
                "shown", customer.group_by("region").agg(n=_.count()), database=scratch, overwrite=True
            )
        ),
        "what it shows": lambda: made("shown"),
        "listed": lambda: named(scratch),
        "emptied": lambda: con.truncate_table("made", database=scratch),
        "what is none": lambda: made("made"),
        "gone": lambda: [con.drop_view("shown", database=scratch), con.drop_table("empty", database=scratch)],
        "gone already": lambda: con.drop_table("empty", database=scratch),
        "gone if there": lambda: con.drop_table("empty", database=scratch, force=True),
        "stats": lambda: con.compute_statistics("made") if hasattr(con, "compute_statistics") else None,
        "no such table": lambda: con.table("nothing", database=shop),
        "no such database": lambda: con.list_tables(database="programs_nothing"),
        "no such column": lambda: con.sql(f"SELECT nothing FROM {shop}.customer"),
        "no SQL": lambda: con.raw_sql("SELEKT 1").collect(),
        "a value that fails": lambda: rows(customer.select(x=1 / (_.id - _.id))),
        "a cast that fails": lambda: rows(customer.filter(_.id == 1).select(x=_.name.cast("int64"))),
    }


def main(remote: str, shop: str, scratch: str) -> None:
    session = SparkSession.builder.remote(remote).create()
    con = ibis.pyspark.connect(session)
    tell(steps(con, shop, scratch), times=2)
    con.disconnect()


if __name__ == "__main__":
    main(*sys.argv[1:])
