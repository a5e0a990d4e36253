"""Columns by every form of reference; what is made of them; filters."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from tests.e2e.connect.framework import Ordered, Place, error_of, scenario

# --- references


@scenario("columns")
def column_by_item(x: Place) -> Any:
    p = x.people
    return p.select(p["id"], p["name"], p["email"], p["salary"])


@scenario("columns")
def column_by_attribute(x: Place) -> Any:
    p = x.people
    return p.select(p.id, p.name, p.born).where(p.id > 3)


@scenario("columns")
def column_by_name(x: Place) -> Any:
    return x.people.select("id", "pay", "hired")


@scenario("columns")
def column_with_table(x: Place) -> Any:
    return x.people.select(F.col("people.id"), "people.email", F.col("people.home"))


@scenario("columns")
def column_with_database(x: Place) -> Any:
    return x.people.select(f"{x.db}.people.id", F.col(f"{x.db}.people.name"))


@scenario("columns")
def column_with_catalog(x: Place) -> Any:
    return x.people.select(f"spark_catalog.{x.db}.people.id", F.col(f"spark_catalog.{x.db}.people.tags"))


@scenario("columns")
def column_in_backticks(x: Place) -> Any:
    return x.people.select("`id`", F.col("`people`.`region`"), "`home`.`city`")


@scenario("columns")
def star(x: Place) -> Any:
    return x.people.select("*")


@scenario("columns")
def whole_table(x: Place) -> Any:
    return x.people


@scenario("columns")
def whole_table_by_three_parts(x: Place) -> Any:
    return x.spark.table(f"spark_catalog.{x.db}.dept")


@scenario("columns")
def whole_table_by_one_part(x: Place) -> Any:
    return x.spark.table("orders")


@scenario("columns")
def whole_table_by_reader(x: Place) -> Any:
    return x.spark.read.table(f"{x.db}.events")


@scenario("columns")
def star_of_table(x: Place) -> Any:
    return x.people.select("people.*", F.lit(1).alias("one"))


@scenario("columns")
def star_of_database_and_table(x: Place) -> Any:
    return x.dept.select(f"{x.db}.dept.*")


@scenario("columns")
def star_of_alias(x: Place) -> Any:
    return x.people.alias("p").select("p.*").where("p.id < 9")


@scenario("columns")
def star_of_struct(x: Place) -> Any:
    return x.people.select("id", "home.*")


@scenario("columns")
def column_regex(x: Place) -> Any:
    return x.people.select(x.people.colRegex("`(id|na.*)`"))


@scenario("columns")
def column_regex_of_everything(x: Place) -> Any:
    p = x.people
    return p.select(p.colRegex("`.*`"))


@scenario("columns")
def get_field(x: Place) -> Any:
    p = x.people
    return p.select(p.home.getField("street").alias("s"), p["home"]["city"], "home.zip")


@scenario("columns")
def get_item(x: Place) -> Any:
    p = x.people
    return p.select("id", p.tags.getItem(0), F.get(p.tags, 1), p.props.getItem("k"), p.props["m"])


@scenario("columns")
def with_and_drop_fields(x: Place) -> Any:
    p = x.people
    changed = p.home.withField("zip", F.lit(5)).dropFields("city").alias("h")
    return p.select("id", changed)


@scenario("columns", governed="refused")
def metadata_column(x: Place) -> Any:
    p = x.people
    return p.select("id", p.metadataColumn("_metadata").getField("file_name").endswith(".parquet"))


@scenario("columns")
def column_of_other_case(x: Place) -> Any:
    p = x.people
    return p.select("ID", F.col("People.NAME"), p["Email"].alias("E"))


@scenario("columns")
def columns_schema_dtypes(x: Place) -> Any:
    p = x.people
    return [p.columns, p.dtypes, p.schema.simpleString(), [f.name for f in p.schema.fields]]


@scenario("columns")
def indexing_with_a_list(x: Place) -> Any:
    return x.people[["id", "region"]]


@scenario("columns")
def indexing_with_a_condition(x: Place) -> Any:
    p = x.people
    return p[p.id < 8].select("id", "salary")


# --- projections


@scenario("projections")
def with_column(x: Place) -> Any:
    return x.people.withColumn("double", F.col("salary") * 2).select("id", "salary", "double")


@scenario("projections")
def with_column_over_itself(x: Place) -> Any:
    return x.people.withColumn("email", F.upper("email")).select("id", "email")


@scenario("projections")
def with_columns(x: Place) -> Any:
    return x.people.withColumns({"a": F.year("born"), "b": F.month("hired")}).select("id", "a", "b")


@scenario("projections")
def with_column_renamed(x: Place) -> Any:
    return x.people.withColumnRenamed("email", "mail").select("id", "mail")


@scenario("projections")
def with_columns_renamed(x: Place) -> Any:
    return x.dept.withColumnsRenamed({"id": "dept", "title": "called"})


@scenario("projections")
def drop_by_name(x: Place) -> Any:
    return x.people.drop("name", "email", "home", "nothing")


@scenario("projections")
def drop_by_column(x: Place) -> Any:
    p = x.people
    return p.drop(p.salary, p["pay"]).select("*")


@scenario("projections")
def to_df(x: Place) -> Any:
    return x.orders.toDF("a", "b", "c", "d", "e", "f")


@scenario("projections")
def to_schema(x: Place) -> Any:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    wanted = StructType([StructField("title", StringType()), StructField("id", LongType())])
    return x.dept.to(wanted)


@scenario("projections")
def transformed(x: Place) -> Any:
    def rich(frame: Any, least: int) -> Any:
        return frame.where(F.col("salary") > least)

    return x.people.transform(rich, 3000).select("id", "salary")


@scenario("projections")
def select_expr(x: Place) -> Any:
    return x.people.selectExpr("id", "upper(name) AS n", "salary * 2 AS s", "home.city", "tags[0] AS t")


@scenario("projections")
def expressions_of_text(x: Place) -> Any:
    return x.people.select(F.expr("id + 1").alias("i"), F.expr("CASE WHEN active THEN name ELSE 'no' END"))


@scenario("projections")
def expression_with_a_star(x: Place) -> Any:
    return x.people.selectExpr("*", "id AS again")


@scenario("projections")
def expression_with_struct_of_star(x: Place) -> Any:
    return x.dept.select(F.struct("*").alias("whole"))


@scenario("projections")
def conditions(x: Place) -> Any:
    p = x.people
    grade = F.when(p.salary > 4000, "high").when(p.salary > 3000, "middle").otherwise("low")
    return p.select("id", grade.alias("grade"), F.coalesce(p.name, F.lit("?")), F.nvl(p.email, F.lit("-")))


@scenario("projections")
def casts(x: Place) -> Any:
    p = x.people
    return p.select(
        p.id.cast("string"), p.born.cast("timestamp"), p.salary.cast("double"), p.pay.try_cast("int")
    )


@scenario("projections")
def many_functions(x: Place) -> Any:
    return x.people.select(
        F.concat_ws("-", "name", "region"),
        F.length("name"),
        F.substring("email", 1, 3),
        F.date_add("born", 3),
        F.datediff(F.lit("2024-01-01"), "born"),
        F.array_contains("tags", "t1"),
        F.size("tags"),
        F.map_keys("props"),
        F.to_json("home"),
        F.round("score", 1),
        F.hash("id", "name"),
        F.greatest("id", "salary"),
        F.isnull("dept_id"),
    )


@scenario("projections")
def higher_order_functions(x: Place) -> Any:
    return x.people.select(
        "id",
        F.transform("tags", lambda t: F.upper(t)).alias("up"),
        F.filter("tags", lambda t: t.startswith("t")).alias("only"),
        F.exists("tags", lambda t: t == "t1").alias("any"),
        F.aggregate("tags", F.lit(0), lambda a, t: a + F.length(t)).alias("sum"),
    )


@scenario("projections")
def explode_and_friends(x: Place) -> Any:
    return [
        x.people.select("id", F.explode("tags").alias("tag")),
        x.people.select("id", F.posexplode_outer("tags")),
        x.people.select("id", F.explode_outer("props")),
    ]


@scenario("projections")
def names_with_dots_and_spaces(x: Place) -> Any:
    frame = x.dept.select(F.col("id").alias("a.b"), F.col("title").alias("c d"))
    return frame.select("`a.b`", F.col("`c d`")).where("`a.b` > 1")


@scenario("projections")
def table_valued_functions(x: Place) -> Any:
    return [
        x.spark.tvf.range(3),
        x.spark.tvf.explode(F.array(F.lit(1), F.lit(2))),
        x.spark.tvf.stack(F.lit(2), F.lit(1), F.lit("a"), F.lit(2), F.lit("b")),
    ]


# --- filters


@scenario("filters")
def filter_by_string(x: Place) -> Any:
    return x.people.filter("salary > 3000 AND region = 'EMEA'").select("id", "salary")


@scenario("filters")
def filter_by_column(x: Place) -> Any:
    p = x.people
    return p.filter((p.salary > 3000) & (p.region == "EMEA") | ~p.active).select("id")


@scenario("filters")
def filter_isin(x: Place) -> Any:
    return x.people.where(F.col("region").isin("EMEA", "APAC") & F.col("id").isin([1, 3, 5, 9])).select("id")


@scenario("filters")
def filter_between(x: Place) -> Any:
    return x.people.where(F.col("salary").between(2500, 4100)).select("id", "salary")


@scenario("filters")
def filter_like(x: Place) -> Any:
    p = x.people
    return [
        p.where(p.name.like("Ann%")).select("id"),
        p.where(p.name.rlike("^[A-D]")).select("id", "name"),
        p.where(p.name.ilike("%BELL%")).select("id"),
        p.where(p.name.startswith("E") | p.name.endswith("xxx") | p.name.contains(" ")).select("id"),
    ]


@scenario("filters")
def filter_nulls(x: Place) -> Any:
    p = x.people
    return [
        p.where(p.pay.isNull()).select("id"),
        p.where(p.email.isNotNull()).select("id"),
        p.where(p.dept_id.eqNullSafe(None)).select("id"),
        p.where(F.isnan("score")).select("id"),
    ]


@scenario("filters")
def filter_on_masked_values(x: Place) -> Any:
    """A predicate sees what the client sees."""
    p = x.people
    return [
        p.where("salary = 3000").select("id"),
        p.where(p.born == F.to_date(F.lit("1965-01-01"))).select("id", "born"),
        p.where("home.street = 'hidden'").select("id"),
        p.where("size(tags) = 2").select("id"),
        p.where("pay > 0").select("id"),
    ]


@scenario("filters")
def filter_with_in_subquery_text(x: Place) -> Any:
    return x.people.filter(f"id IN (SELECT person_id FROM {x.db}.orders WHERE qty > 3)").select("id")


@scenario("filters")
def filter_with_exists_text(x: Place) -> Any:
    text = f"EXISTS (SELECT 1 FROM {x.db}.orders o WHERE o.person_id = people.id AND o.qty = 2)"
    return x.people.filter(text).select("id", "name")


@scenario("filters")
def filter_with_scalar_subquery_text(x: Place) -> Any:
    return x.people.filter(f"salary > (SELECT avg(salary) FROM {x.db}.people)").select("id", "salary")


@scenario("filters")
def filter_chain(x: Place) -> Any:
    p = x.people
    return p.filter("id > 2").filter(p.active).filter(F.col("region") != "APAC").select("id")


@scenario("filters")
def filter_after_projection(x: Place) -> Any:
    """A column that was projected away is still found below, when it is one that may be seen."""
    p = x.people
    return Ordered(p.select("id").filter(p.salary > 3000).orderBy(p.salary, "id"))


@scenario("filters")
def filter_by_hidden_column(x: Place) -> Any:
    """Nobody who may not see the column finds out that it is there."""
    return error_of(lambda: x.dept.filter("nothing_there > 1").collect())


@scenario("filters")
def filter_with_side_effects(x: Place) -> Any:
    """Rows that the filter hides raise nothing."""
    return error_of(
        lambda: x.table("events").filter("assert_true(value >= 0) IS NULL").select("seq").collect()
    )
