"""Names of every kind, as they are written, misspelt, doubled and quoted; self joins; long and wide plans."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructField, StructType

from tests.e2e.connect.framework import Place, error_of, scenario

# --- names that nobody can read, or that mean nothing


@scenario("names of nothing", daily=True)
def column_names_that_cannot_be_read(x: Place) -> Any:
    p = x.people
    names = ["`", "a.", "a..b", ".", "`id`x", "id`", "a..b.*", "", "id ", "*.*", "a.*.b"]
    return [error_of(lambda name=name: p.select(name).collect()) for name in names]  # type: ignore[misc]


@scenario("names of nothing", daily=True)
def table_names_that_cannot_be_read(x: Place) -> Any:
    names = [
        "",
        " ",
        "`",
        "a.",
        "a..b",
        "`id`x",
        "a-b",
        "a b",
        "12",
        "(SELECT 1)",
        "/tmp/x",
        "größe",
        "t AS x",
    ]
    return [error_of(lambda name=name: x.spark.table(name).schema) for name in names]  # type: ignore[misc]


@scenario("names of nothing")
def catalogs_that_are_not_there(x: Place) -> Any:
    return [
        error_of(lambda: x.spark.table("nowhere.db.t").collect()),
        error_of(lambda: x.spark.sql("SELECT * FROM nowhere.db.t")),
        error_of(lambda: x.spark.table("a.b.c.d").schema),
        error_of(lambda: x.spark.sql("SELECT * FROM spark_catalog.a.b.c")),
        error_of(lambda: x.spark.catalog.setCurrentCatalog("nowhere")),
    ]


@scenario("names of nothing")
def functions_that_are_not_there(x: Place) -> Any:
    return [
        error_of(lambda: x.spark.sql("SELECT no_such_function(1)").collect()),
        error_of(lambda: x.spark.sql("SELECT nowhere.no_such_function(1)").collect()),
        error_of(lambda: x.spark.sql("SELECT * FROM no_such_function(1)").collect()),
        error_of(lambda: x.dept.selectExpr("no_such_function(id)").collect()),
        error_of(lambda: x.dept.where(F.expr("no_such_function(id)")).schema),
        error_of(lambda: x.dept.select(F.call_function("no_such_function", "id")).collect()),
        error_of(lambda: x.dept.select(F.call_function("no such function", "id")).collect()),
    ]


@scenario("names of nothing")
def markers_without_a_value(x: Place) -> Any:
    return [error_of(lambda: x.spark.sql("SELECT :x")), error_of(lambda: x.spark.sql("SELECT ?"))]


@scenario("references")
def markers_beside_signs(x: Place) -> Any:
    return [
        x.spark.sql("SELECT :m['a'] AS a", args={"m": F.create_map(F.lit("a"), F.lit(1))}),
        x.spark.sql("SELECT :l[1], :n-1, :n/2, 6/:n", args={"l": F.array(F.lit(7), F.lit(8)), "n": -3}),
        x.spark.sql("SELECT ?/2, ?-1 FROM dept WHERE id=?", args=[5, 6, 2]),
    ]


@scenario("references", daily=True)
def names_from_arguments(x: Place) -> Any:
    return x.spark.sql(
        "SELECT IDENTIFIER(:c), IDENTIFIER(:f)(id) AS f FROM IDENTIFIER(:t) WHERE id > :i",
        args={"c": "title", "f": "abs", "t": f"{x.db}.dept", "i": 2},
    )


# --- names that are odd


@scenario("references")
def columns_called_like_keywords(x: Place) -> Any:
    names = "select from where order group table and null true current_date user date interval limit".split()
    frame = x.spark.createDataFrame([tuple(range(len(names)))], names)
    return [
        frame.select(*names),
        frame.select(*[frame[name] + 1 for name in names]),
        frame.selectExpr(*[f"`{name}` AS c{i}" for i, name in enumerate(names)]),
        frame.where("`null` > 1 AND `true` = 8").select(F.col("user"), "current_date"),
        frame.groupBy("order", "group").agg(F.sum("select")),
    ]


@scenario("references")
def columns_with_any_sign(x: Place) -> Any:
    names = [
        "größe",
        "名前",
        "a b",
        "a`b",
        "x.y",
        "🙂",
        "a,b",
        "'q'",
        '"d"',
        "-",
        "1",
        "$",
        "{b}",
        "new\nline",
    ]
    frame = x.spark.createDataFrame(
        [tuple(range(len(names)))], StructType([StructField(name, LongType()) for name in names])
    )
    quoted = ["`" + name.replace("`", "``") + "`" for name in names]
    return [
        frame.select(*[F.col(name) for name in quoted]),
        frame.select(*[frame[name] for name in quoted]),
        frame.selectExpr("`größe` + `名前` AS `ü`"),
        frame.drop("a b", "x.y", "🙂").columns,
        frame.groupBy("`x.y`").agg(F.max("`a``b`")),
        frame.withColumnRenamed("x.y", "x_y").withColumn("x.y", F.lit(5)).select("x_y", "`x.y`"),
        frame.dropDuplicates(["x.y"]).count(),
        error_of(lambda: frame.select("x.y").collect()),
    ]


@scenario("references")
def columns_of_one_name(x: Place) -> Any:
    p = x.people.select("id", "region")
    frame = p.select("id", "id", p.id, F.lit(1).alias("id"))
    return [
        frame,
        frame.toDF(*"abcd").select("a", "d"),
        frame.distinct().count(),
        error_of(lambda: frame.select("id").collect()),
        error_of(lambda: x.spark.createDataFrame([(1, 2)], "a int, A int").select("a").collect()),
    ]


@scenario("references")
def stars_of_frames_and_structs(x: Place) -> Any:
    p, d = x.people.select("id", "home"), x.dept
    joined = p.join(d, p.id == d.id)
    return [
        p.select(p["*"]),
        joined.select(d["*"], p["id"].alias("i")),
        p.alias("q").select("q.home.*", F.col("q.id")),
        p.select(F.struct(p["*"]).alias("s")).select("s.*", "s.home.city"),
        p.select(p.colRegex("`h.*`")),
        x.people.alias("k").select(x.people.alias("k").colRegex("k.`(id|reg.*)`")),
    ]


@scenario("references")
def structs_in_arrays_in_structs(x: Place) -> Any:
    listed = x.people.groupBy("region").agg(
        F.sort_array(F.collect_list(F.struct("id", "name", "home"))).alias("l")
    )
    deep = x.people.select("id", F.struct(F.struct("home", "id").alias("b"), "tags").alias("a"))
    return [
        listed.select("region", "l.id", "l.home.city"),
        listed.select(listed["l"][0]["name"], F.col("l").getItem(1).getField("home").getField("street")),
        listed.select(F.explode("l").alias("e")).select("e.*"),
        deep.select("a.b.home.city", deep.a.b.home.street, deep["a"]["b"]["id"], "a.b.*"),
        deep.where("a.b.home.zip = 0").select(F.col("a.tags")[0]),
    ]


# --- a frame and itself


@scenario("references")
def joins_with_what_it_was(x: Place) -> Any:
    p = x.people.select("id", "region", "salary", "dept_id")
    made = [
        p.where("id > 3"),
        p.withColumn("z", F.lit(1)),
        p.withColumnRenamed("salary", "pay"),
        p.groupBy("id").agg(F.max("salary").alias("m")),
        p.orderBy("id").limit(9),
        p.union(p),
        p.na.fill(0),
        p.alias("q"),
        p.withColumn("r", F.row_number().over(Window.orderBy("id"))),
        p.unpivot("id", ["salary"], "k", "v"),
    ]
    return [
        error_of(lambda f=f: sorted(map(str, p.join(f, p.id == f.id).select(p.region, f.id).collect())))  # type: ignore[misc]
        for f in made
    ]


@scenario("references", daily=True)
def joins_of_checkpoints_and_caches(x: Place) -> Any:
    p = x.people
    kept = p.select("id", "dept_id").localCheckpoint()
    cached = p.select("id", "region").cache()
    try:
        return [
            kept.join(kept.select("id"), "id").count(),
            kept.join(p, kept.id == p.id).select(kept.dept_id, p.name),
            cached.join(p, cached.id == p.id).select(p.name, cached.region),
            kept.alias("k").select("k.*").where(kept.id > 5),
        ]
    finally:
        cached.unpersist()


@scenario("references", daily=True)
def texts_that_are_sent_again(x: Place) -> Any:
    """Each is a DataFrame of its own: what is asked of one by its id is not the other's."""
    text = f"SELECT id, name, region FROM {x.db}.people"
    one, two, three = (x.spark.sql(text) for _ in range(3))
    of_none = error_of(lambda: one.select(two.name).collect())
    return [
        two.where(two.id > 5).select(two.name),
        one.join(two, one.id == two.id).select(one.name, two.region),
        three.join(one, "id").where(three.region == one.region).select(three["id"], one["name"]),
        [(frame.schema.simpleString(), frame.columns, frame.isStreaming) for frame in (three, two, one)],
        of_none,
    ]


# --- long and wide


@scenario("references")
def a_chain_of_selects(x: Place) -> Any:
    frame = x.people.select("id", "region")
    for _ in range(120):
        frame = frame.select((frame.id + 1).alias("id"), frame["region"])
    return frame


@scenario("references")
def long_lists_and_wide_rows(x: Place) -> Any:
    wide = x.people.select("id", *[(F.col("salary") + i).alias(f"c{i}") for i in range(400)])
    return [
        x.people.where(F.col("id").isin(list(range(0, 20_000, 3)))).select("id"),
        x.people.where(f"id IN ({', '.join(map(str, range(3000)))})").count(),
        wide.select(*[wide[f"c{i}"] for i in range(0, 400, 97)]),
    ]
