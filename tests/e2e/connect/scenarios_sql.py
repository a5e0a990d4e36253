"""SQL text with every kind of argument, temporary views, and what names mean after USE."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from tests.e2e.connect.framework import Ordered, Place, error_of, scenario

# --- texts


@scenario("sql")
def sql_star(x: Place) -> Any:
    return x.spark.sql(f"SELECT * FROM {x.db}.dept")


@scenario("sql")
def sql_plain(x: Place) -> Any:
    return Ordered(x.spark.sql(f"SELECT id, name, email, salary FROM {x.db}.people WHERE active ORDER BY id"))


@scenario("sql")
def sql_one_part_name(x: Place) -> Any:
    return x.spark.sql("SELECT id, people.email FROM people")


@scenario("sql")
def sql_three_part_name(x: Place) -> Any:
    return x.spark.sql(f"SELECT spark_catalog.{x.db}.people.id FROM spark_catalog.{x.db}.people")


@scenario("sql")
def sql_join_group_having(x: Place) -> Any:
    return x.spark.sql(
        f"SELECT p.region, count(*) AS n, sum(o.amount) AS s FROM {x.db}.people p JOIN {x.db}.orders o "
        "ON p.id = o.person_id GROUP BY p.region HAVING count(*) > 1"
    )


@scenario("sql")
def sql_with_ctes(x: Place) -> Any:
    return x.spark.sql(
        "WITH rich AS (SELECT * FROM people WHERE salary > 3000), "
        "few AS (SELECT id, email FROM rich WHERE id < 15) "
        "SELECT few.*, d.title FROM few LEFT JOIN dept d ON d.id = few.id"
    )


@scenario("sql")
def sql_cte_hides_a_table(x: Place) -> Any:
    return x.spark.sql(
        f"WITH people AS (SELECT 1 AS id) SELECT * FROM people UNION ALL SELECT id FROM {x.db}.people"
    )


@scenario("sql")
def sql_subqueries(x: Place) -> Any:
    return x.spark.sql(
        "SELECT id, (SELECT max(amount) FROM orders o WHERE o.person_id = p.id) AS best FROM people p "
        "WHERE EXISTS (SELECT 1 FROM orders o WHERE o.person_id = p.id) "
        "AND region IN (SELECT 'EMEA' UNION SELECT 'APAC')"
    )


@scenario("sql")
def sql_named_arguments(x: Place) -> Any:
    return x.spark.sql(
        "SELECT id, salary FROM people WHERE salary > :least AND region = :where",
        args={"least": 2500, "where": "EMEA"},
    )


@scenario("sql")
def sql_positional_arguments(x: Place) -> Any:
    return x.spark.sql("SELECT id, ? AS mark FROM people WHERE id BETWEEN ? AND ?", args=["m", 3, 12])


@scenario("sql")
def sql_arguments_of_columns(x: Place) -> Any:
    return x.spark.sql(
        "SELECT id FROM people WHERE array_contains(:ids, id)",
        args={"ids": F.array(F.lit(3), F.lit(5), F.lit(9))},
    )


@scenario("sql")
def sql_frame_argument(x: Place) -> Any:
    rich = x.people.where("salary > 3000")
    return x.spark.sql("SELECT region, count(*) AS n FROM {rich} GROUP BY region", rich=rich)


@scenario("sql")
def sql_two_frame_arguments(x: Place) -> Any:
    return x.spark.sql(
        "SELECT p.id, o.item, d.title FROM {p} p JOIN {o} o ON p.id = o.person_id "
        "LEFT JOIN dept d ON d.id = p.dept_id",
        p=x.people,
        o=x.orders.where("qty > 2"),
    )


@scenario("sql")
def sql_frame_and_named_arguments(x: Place) -> Any:
    return x.spark.sql("SELECT id FROM {p} WHERE salary > :least", args={"least": 3000}, p=x.people)


@scenario("sql")
def sql_column_argument(x: Place) -> Any:
    p = x.people
    return x.spark.sql("SELECT {p.id}, {p.email} FROM {p} WHERE {c} > 2", p=p, c=p.id)


@scenario("sql")
def sql_then_frame(x: Place) -> Any:
    frame = x.spark.sql("SELECT id, email, salary, region FROM people")
    return Ordered(frame.where("salary >= 3000").groupBy("region").agg(F.max("email")).orderBy("region"))


@scenario("sql")
def sql_twice_the_same_frame(x: Place) -> Any:
    """The relation that came back is sent again: nothing is masked twice."""
    frame = x.spark.sql("SELECT id, email, tags, salary FROM people")
    return [
        frame,
        frame.collect(),
        frame.select("email").union(frame.select("email")),
        frame.schema.simpleString(),
    ]


@scenario("sql")
def sql_frame_columns(x: Place) -> Any:
    frame = x.spark.sql("SELECT id, name, salary AS s FROM people")
    return frame.select(frame.id, frame["s"]).where(frame.s > 2500)


@scenario("sql")
def sql_of_every_clause(x: Place) -> Any:
    return [
        x.spark.sql(
            "SELECT region, id, row_number() OVER (PARTITION BY region ORDER BY id) AS r FROM people"
        ),
        x.spark.sql("SELECT DISTINCT region FROM people"),
        x.spark.sql("SELECT id, t FROM people LATERAL VIEW explode(tags) x AS t"),
        x.spark.sql("SELECT id FROM people UNION SELECT person_id FROM orders"),
        x.spark.sql(
            "SELECT * FROM (SELECT region, active, salary FROM people) "
            "PIVOT (sum(salary) FOR active IN (true, false))"
        ),
        x.spark.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(n, s)"),
        x.spark.sql("TABLE dept"),
        x.spark.sql("FROM dept SELECT title"),
        x.spark.sql("SELECT id FROM people TABLESAMPLE (100 PERCENT)"),
        x.spark.sql("SELECT * FROM range(3)"),
    ]


@scenario("sql")
def sql_pipes(x: Place) -> Any:
    return x.spark.sql("FROM people |> WHERE salary > 2500 |> AGGREGATE count(*) AS n GROUP BY region")


@scenario("sql")
def sql_constant(x: Place) -> Any:
    return x.spark.sql("SELECT 1 AS one, 'two' AS two, current_database() = ? AS here", args=[x.db])


@scenario("sql")
def sql_set_operations(x: Place) -> Any:
    return x.spark.sql("SELECT id FROM people EXCEPT SELECT person_id FROM orders MINUS SELECT 3")


@scenario("sql", governed="elsewhere")
def sql_show_tables(x: Place) -> Any:
    return x.spark.sql(f"SHOW TABLES IN {x.db} LIKE 'peo*|or*'")


@scenario("sql")
def sql_describe(x: Place) -> Any:
    return x.spark.sql(f"DESCRIBE TABLE {x.db}.people").where("NOT startswith(col_name, '#')")


@scenario("sql")
def sql_show_columns(x: Place) -> Any:
    return x.spark.sql(f"SHOW COLUMNS IN {x.db}.dept")


@scenario("sql")
def sql_view(x: Place) -> Any:
    return x.spark.sql(f"SELECT * FROM {x.db}.people_view WHERE salary > 2000")


@scenario("sql")
def frame_of_view(x: Place) -> Any:
    v = x.table("people_view")
    return v.where(v.region == "EMEA").select(v.id, "people_view.email", "name")


@scenario("sql", governed="refused")
def sql_explain(x: Place) -> Any:
    return "Scan" in x.spark.sql("EXPLAIN SELECT id FROM people WHERE salary > 1").collect()[0][0]


# --- temporary views


@scenario("views")
def view_from_frame(x: Place) -> Any:
    x.people.where("salary > 2500").createOrReplaceTempView("rich")
    return [x.spark.sql("SELECT id, email FROM rich"), x.spark.table("rich").select("rich.id", "salary")]


@scenario("views")
def view_from_sql(x: Place) -> Any:
    x.spark.sql("CREATE TEMPORARY VIEW poor AS SELECT id, email, salary FROM people WHERE salary < 4000")
    return [x.spark.table("poor"), x.spark.sql("SELECT count(*), max(email) FROM poor")]


@scenario("views")
def view_created_twice(x: Place) -> Any:
    x.dept.createTempView("once")
    return error_of(lambda: x.dept.createTempView("once"))


@scenario("views")
def view_replaced(x: Place) -> Any:
    x.dept.createOrReplaceTempView("v")
    first = x.spark.table("v").count()
    x.dept.where("id > 2").createOrReplaceTempView("v")
    return [first, x.spark.table("v"), x.spark.sql("SELECT * FROM v")]


@scenario("views")
def view_dropped(x: Place) -> Any:
    x.dept.createTempView("v")
    dropped = x.spark.catalog.dropTempView("v")
    return [dropped, x.spark.catalog.dropTempView("v"), error_of(lambda: x.spark.table("v").collect())]


@scenario("views")
def view_dropped_by_sql(x: Place) -> Any:
    x.dept.createTempView("v")
    x.spark.sql("DROP VIEW v")
    return error_of(lambda: x.spark.sql("SELECT * FROM v").collect())


@scenario("views")
def views_nested(x: Place) -> Any:
    x.people.select("id", "email", "salary", "region").createTempView("a")
    x.spark.sql("CREATE TEMP VIEW b AS SELECT * FROM a WHERE region = 'EMEA'")
    x.spark.table("b").groupBy("region").agg(F.max("email").alias("m")).createTempView("c")
    return [x.spark.table("c"), x.spark.sql("SELECT * FROM b JOIN c ON b.region = c.region")]


@scenario("views")
def view_over_join(x: Place) -> Any:
    p, o = x.people, x.orders
    p.join(o, p.id == o.person_id).select(p.id, p.email, o.item).createOrReplaceTempView("bought")
    return x.spark.sql("SELECT item, count(email) FROM bought GROUP BY item")


@scenario("views")
def view_of_local_data(x: Place) -> Any:
    x.spark.createDataFrame([(1, "x"), (3, "y")], "id int, v string").createTempView("mine")
    return x.spark.sql("SELECT mine.v, p.email FROM mine JOIN people p ON p.id = mine.id")


@scenario("views")
def view_hides_a_table(x: Place) -> Any:
    x.spark.range(3).createOrReplaceTempView("dept")
    return [
        x.spark.sql("SELECT * FROM dept"),
        x.spark.sql(f"SELECT id FROM {x.db}.dept"),
        x.spark.table("dept"),
    ]


@scenario("views")
def view_with_arguments(x: Place) -> Any:
    x.spark.sql("SELECT id, salary FROM people WHERE id > :i", args={"i": 4}).createTempView("later")
    return x.spark.sql("SELECT sum(id) FROM later")


# --- what names mean


@scenario("names")
def set_current_database(x: Place) -> Any:
    x.spark.catalog.setCurrentDatabase("default")
    lost = error_of(lambda: x.spark.table("dept").collect())
    x.spark.catalog.setCurrentDatabase(x.db)
    return [lost, x.spark.table("dept"), x.spark.sql("SELECT title FROM dept")]


@scenario("names")
def use_by_sql(x: Place) -> Any:
    x.spark.sql("USE default")
    lost = error_of(lambda: x.spark.sql("SELECT * FROM dept").collect())
    x.spark.sql(f"USE {x.db}")
    return [lost, x.spark.table("dept"), x.spark.catalog.currentDatabase()]


@scenario("names")
def use_catalog(x: Place) -> Any:
    x.spark.catalog.setCurrentCatalog("spark_catalog")
    x.spark.sql(f"USE spark_catalog.{x.db}")
    return [
        x.spark.catalog.currentCatalog(),
        x.spark.sql("SELECT current_catalog(), current_schema()"),
        x.dept.count(),
    ]


@scenario("names")
def name_of_another_database(x: Place) -> Any:
    x.spark.sql(f"USE {x.scratch}")
    return [x.spark.table(f"{x.db}.dept"), error_of(lambda: x.spark.table("dept").collect())]


@scenario("names")
def frame_made_before_use(x: Place) -> Any:
    frame = x.spark.sql("SELECT title FROM dept")
    x.spark.sql("USE default")
    return error_of(frame.collect)
