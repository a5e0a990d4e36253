"""Code of the user's: what runs when it is granted, and is refused otherwise; pandas on Spark.

Without postponed annotations: pandas UDFs are told apart by theirs.
"""

import importlib
from collections.abc import Iterator
from typing import Any

from tests.e2e.connect.framework import Place, fresh, scenario

F: Any = importlib.import_module("pyspark.sql.functions")

# --- code


@scenario("code", governed="refused")
def python_udf(x: Place) -> Any:
    shout = F.udf(lambda text: None if text is None else text.upper() + "!", "string")
    return x.people.select("id", shout("name").alias("s"))


@scenario("code", governed="refused")
def python_udf_as_filter(x: Place) -> Any:
    odd = F.udf(lambda i: i % 2 == 1, "boolean")
    return x.people.where(odd("id")).select("id")


@scenario("code", governed="refused")
def python_udf_registered(x: Place) -> Any:
    name = fresh("twice")
    x.spark.udf.register(name, lambda i: i * 2, "int")
    return [x.spark.sql(f"SELECT id, {name}(id) AS t FROM dept"), x.dept.selectExpr(f"{name}(id) AS t")]


@scenario("code", governed="refused")
def pandas_udf(x: Place) -> Any:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    def add(v: pd.Series) -> pd.Series:
        return v + 1

    return x.people.select("id", F.pandas_udf(add, "long")("salary").alias("more"))


@scenario("code", governed="refused")
def pandas_udf_aggregate(x: Place) -> Any:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    def mean(v: pd.Series) -> float:
        return float(v.mean())

    return x.people.groupBy("region").agg(F.pandas_udf(mean, "double")("salary").alias("mean"))


@scenario("code", governed="refused")
def map_in_pandas(x: Place) -> Any:
    def work(parts: Iterator[Any]) -> Iterator[Any]:
        for part in parts:
            yield part[part.id > 5]

    return x.people.select("id", "salary").mapInPandas(work, "id int, salary int")


@scenario("code", governed="refused")
def map_in_arrow(x: Place) -> Any:
    def work(parts: Iterator[Any]) -> Iterator[Any]:
        yield from parts

    return x.dept.select("id").mapInArrow(work, "id int")


@scenario("code", governed="refused")
def apply_in_pandas(x: Place) -> Any:
    def work(part: Any) -> Any:
        return part.assign(salary=part.salary - part.salary.min())

    return (
        x.people.select("id", "region", "salary")
        .groupBy("region")
        .applyInPandas(work, "id int, region string, salary int")
    )


@scenario("code", governed="refused")
def cogrouped(x: Place) -> Any:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    def work(a: Any, b: Any) -> Any:
        return pd.DataFrame({"n": [len(a) * 100 + len(b)]})

    left, right = x.people.select("id").groupBy("id"), x.orders.select("person_id").groupBy("person_id")
    return left.cogroup(right).applyInPandas(work, "n int")


@scenario("code", governed="refused")
def table_function(x: Place) -> Any:
    class Count:
        def eval(self, n: int) -> Iterator[tuple[int]]:
            for i in range(n):
                yield (i,)

    return F.udtf(Count, returnType="i int")(F.lit(3))


@scenario("code", governed="refused")
def table_function_registered(x: Place) -> Any:
    class Twice:
        def eval(self, row: Any) -> Iterator[tuple[int, int]]:
            yield row["id"], row["id"] * 2

    name = fresh("twice")
    x.spark.udtf.register(name, F.udtf(Twice, returnType="a int, b int"))
    return x.spark.sql(f"SELECT * FROM {name}(TABLE(SELECT id FROM dept))")


@scenario("code", governed="refused")
def artifact_with_udf(x: Place) -> Any:
    module = fresh("module")
    file = x.directory / f"{module}.py"
    file.write_text("def seven(i):\n    return i * 7\n")
    x.spark.addArtifacts(str(file), pyfile=True)

    def work(i: int) -> int:
        import importlib

        return int(importlib.import_module(module).seven(i))

    return x.dept.select(F.udf(work, "int")("id").alias("s"))


@scenario("code", governed="refused")
def foreach_row(x: Place) -> Any:
    def nothing(row: Any) -> None:
        assert row is not None

    x.dept.foreach(nothing)
    return "done"


@scenario("code", governed="refused")
def data_source_in_python(x: Place) -> Any:
    from pyspark.sql.datasource import DataSource, DataSourceReader

    class Reader(DataSourceReader):
        def read(self, partition: Any) -> Iterator[tuple[int]]:
            yield from ((1,), (2,))

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers_of_the_test"

        def schema(self) -> str:
            return "n int"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    x.spark.dataSource.register(Numbers)
    return x.spark.read.format("numbers_of_the_test").load()


# --- pandas on Spark


def _ps() -> Any:
    import pyspark.pandas as ps

    return ps


@scenario("pandas on Spark")
def ps_read_table(x: Place) -> Any:
    frame = _ps().read_table(f"{x.db}.dept")
    return [list(frame.columns), len(frame), frame.sort_values("id").to_pandas()]


@scenario("pandas on Spark")
def ps_group_and_sort(x: Place) -> Any:
    frame = x.people.select("region", "salary").pandas_api()
    return frame.groupby("region")["salary"].sum().sort_index().to_pandas()


@scenario("pandas on Spark")
def ps_head_and_filter(x: Place) -> Any:
    frame = x.people.select("id", "email", "salary").pandas_api(index_col="id").sort_index()
    return [frame.head(3).to_pandas(), frame[frame.salary > 3000].head(2).to_pandas()]


@scenario("pandas on Spark")
def ps_describe(x: Place) -> Any:
    return x.people.select("salary", "score").pandas_api().describe().to_pandas().round(6)


@scenario("pandas on Spark")
def ps_merge(x: Place) -> Any:
    people = x.people.select("id", "name", "dept_id").pandas_api()
    dept = x.dept.withColumnRenamed("id", "dept_id").pandas_api()
    return people.merge(dept, on="dept_id").sort_values("id").reset_index(drop=True).to_pandas()


@scenario("pandas on Spark")
def ps_from_pandas(x: Place) -> Any:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    frame = _ps().from_pandas(pd.DataFrame({"a": [3, 1, 2], "b": ["x", "y", None]}))
    frame["c"] = frame["a"] * 2
    return [frame.sort_values("a").to_pandas(), frame.to_spark().orderBy("a")]


@scenario("pandas on Spark")
def ps_to_spark_and_back(x: Place) -> Any:
    frame = x.people.select("id", "salary").pandas_api()
    frame = frame.assign(more=frame.salary + 1)
    return frame.to_spark().where("more > 3000").select("id", "more")


@scenario("pandas on Spark")
def ps_sql(x: Place) -> Any:
    return _ps().sql("SELECT region, count(*) AS n FROM people GROUP BY region ORDER BY region").to_pandas()


@scenario("pandas on Spark")
def ps_missing_and_values(x: Place) -> Any:
    frame = x.people.select("id", "dept_id", "region").pandas_api(index_col="id").sort_index()
    return [
        frame.fillna({"dept_id": 0}).to_pandas(),
        frame.region.value_counts().sort_index().to_pandas(),
        frame.shape,
    ]
