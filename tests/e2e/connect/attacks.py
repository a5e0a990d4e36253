"""Attacks that PySpark can be made to send, by name; each a list of steps in one session of mallory's.

He may read `people`, `orders`, `dept`, `events`, `parts` and `people_view` of `cw` under masks and filters,
and write to `cwm`. After each attack nothing that he got may hold a canary, a secret or a policy's text.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql.connect.window import Window

F: Any = importlib.import_module("pyspark.sql.connect.functions")
Step = Callable[[Any], Any]
STOLEN = "(SELECT max(code) FROM cw.vault)"
STOLEN_COLUMN = "(SELECT max(ssn) FROM cw.people)"


@dataclass(frozen=True)
class Attack:
    name: str
    steps: tuple[Step, ...]
    refused: bool
    """Whether Sluice must refuse the last step; else Spark may refuse it, or answer with what may be seen."""


def people(s: Any) -> Any:
    return s.table("cw.people")


def written(suffix: str, text: bytes = b"def f():\n    return 1\n") -> str:
    """A file of the attacker's own."""
    with tempfile.NamedTemporaryFile(suffix=suffix, delete=False) as file:
        file.write(text)
    return file.name


def expression_places(expression: str) -> Iterator[tuple[str, Step]]:
    """Every place of a DataFrame that takes the text of an expression."""
    yield "filter", lambda s: people(s).filter(f"id < 3 AND {expression} IS NOT NULL")
    yield "selectExpr", lambda s: people(s).selectExpr("id", f"{expression} AS c")
    yield "expr", lambda s: people(s).select(F.expr(expression))
    yield "without a table", lambda s: s.range(1).select(F.expr(expression))
    yield "sort", lambda s: people(s).select("id").sort(F.expr(expression), "id")
    yield "groupBy", lambda s: people(s).groupBy(F.expr(expression).alias("c")).count()
    yield "agg", lambda s: people(s).agg(F.expr(f"max({expression}) AS c"))
    yield "join condition", lambda s: people(s).join(s.range(3), F.expr(f"{expression} IS NOT NULL"))
    yield "when", lambda s: people(s).select(F.when(F.expr(f"{expression} IS NOT NULL"), F.expr(expression)))
    yield "window", lambda s: people(s).select(F.max(F.expr(expression)).over(Window.partitionBy("region")))
    yield "lambda", lambda s: people(s).select(F.transform("tags", lambda t: F.expr(expression)))
    yield "withColumn", lambda s: people(s).withColumn("c", F.expr(expression)).select("c")
    yield "sql argument", lambda s: s.sql("SELECT :c AS c", args={"c": F.expr(expression)})
    yield "positional argument", lambda s: s.sql("SELECT ? AS c", args=[F.expr(expression)])
    yield "sql", lambda s: s.sql(f"SELECT {expression} AS c")
    yield "sql over a frame", lambda s: s.sql(f"SELECT {expression} AS c FROM {{p}}", p=people(s))
    yield "observed metric", lambda s: people(s).observe("m", F.max(F.expr(expression)).alias("c"))
    yield "repartition", lambda s: people(s).repartition(2, F.expr(f"hash({expression})")).select("id")
    yield "pivot", lambda s: people(s).groupBy("region").pivot("active").agg(F.expr(f"max({expression})"))
    yield "table function", lambda s: s.tvf.explode(F.array(F.expr(expression)))
    yield "struct field", lambda s: people(s).select(F.col("home").withField("x", F.expr(expression)))
    yield "unpivot", lambda s: people(s).unpivot(F.expr(expression), ["id"], "n", "v")


def hidden_column_places(c: str) -> Iterator[tuple[str, Step]]:
    """Every place that takes the name of a column."""
    yield "select", lambda s: people(s).select(c)
    yield "select with table", lambda s: people(s).select(f"cw.people.{c}")
    yield "select by frame", lambda s: people(s)[c].alias("x") is None or people(s).select(F.col(c))
    yield "alias", lambda s: people(s).alias("p").select(f"p.{c}")
    yield "filter text", lambda s: people(s).filter(f"{c} LIKE 'C%'").select("id")
    yield "filter column", lambda s: people(s).filter(F.col(c).isNotNull()).select("id")
    yield "filter above projection", lambda s: people(s).select("id").filter(f"{c} IS NOT NULL")
    yield "sort", lambda s: people(s).select("id").orderBy(F.desc(c))
    yield "groupBy", lambda s: people(s).groupBy(c).count()
    yield "agg", lambda s: people(s).agg(F.max(c))
    yield "agg by name", lambda s: people(s).agg({c: "max"})
    yield "drop the others", lambda s: people(s).select("id", c).drop("id")
    yield "withColumn", lambda s: people(s).withColumn("x", F.upper(c)).select("x")
    yield "rename", lambda s: people(s).withColumnRenamed(c, "id2").select("id2")
    yield "dropDuplicates", lambda s: people(s).dropDuplicates([c]).select("id")
    yield "describe", lambda s: people(s).describe(c)
    yield "crosstab", lambda s: people(s).crosstab(c, "region")
    yield "freqItems", lambda s: people(s).freqItems([c])
    yield "sampleBy", lambda s: people(s).sampleBy(c, {"x": 1.0}).select("id")
    yield "replace", lambda s: people(s).replace("x", "y", subset=[c])
    yield "fillna", lambda s: people(s).fillna("x", subset=[c])
    yield "dropna", lambda s: people(s).dropna(subset=[c]).select("id")
    yield "unpivot", lambda s: people(s).unpivot("id", [c], "n", "v")
    yield "join using", lambda s: people(s).join(people(s), c).select("id")
    yield "pivot", lambda s: people(s).groupBy("region").pivot(c).count()
    yield "regex", lambda s: people(s).select(people(s).colRegex(f"`{c}`"))
    yield "repartition", lambda s: people(s).repartition(2, c).select("id")
    yield "observe", lambda s: people(s).observe("m", F.max(c).alias("x")).select("id")
    yield "window", lambda s: people(s).select(F.max("id").over(Window.partitionBy(c)))
    yield "to schema", lambda s: people(s).to(s.sql(f"SELECT '' AS {c}").schema)
    yield "sql", lambda s: s.sql(f"SELECT {c} FROM cw.people")
    yield "sql over frame", lambda s: s.sql(f"SELECT {c} FROM {{p}}", p=people(s))
    yield (
        "sql over view",
        lambda s: people(s).createOrReplaceTempView("mine") or s.sql(f"SELECT {c} FROM mine"),
    )
    yield "lateral column", lambda s: people(s).selectExpr(f"{c} AS a", "upper(a)")
    yield "toJSON of a struct", lambda s: people(s).select(F.to_json(F.struct(c)))


def metadata_places() -> Iterator[tuple[str, Step]]:
    yield "column", lambda s: people(s).select("_metadata")
    yield "field", lambda s: people(s).select("_metadata.file_path")
    yield "with table", lambda s: people(s).select("people._metadata.file_name")
    yield "metadataColumn", lambda s: people(s).select(people(s).metadataColumn("_metadata"))
    yield "crosstab", lambda s: people(s).crosstab("_metadata.file_path", "id")
    yield "describe", lambda s: people(s).describe("_metadata.file_path")
    yield "sort", lambda s: people(s).select("id").sort("_metadata.file_path")
    yield "expr", lambda s: people(s).selectExpr("_metadata.file_path AS p")
    yield "after limit", lambda s: people(s).limit(2).select("_metadata.file_path")
    yield "sql", lambda s: s.sql("SELECT _metadata.file_path FROM cw.people")
    yield "sql over frame", lambda s: s.sql("SELECT _metadata.file_path FROM {p}", p=people(s))
    yield "input_file_name", lambda s: people(s).select(F.input_file_name())
    yield "input_file_name in text", lambda s: people(s).selectExpr("input_file_name()")
    yield "input_file_block_start", lambda s: people(s).select(F.call_function("input_file_block_start"))


def of(name: str, *steps: Step, refused: bool = True) -> Attack:
    return Attack(name, steps, refused)


def attacks(table_path: str) -> Iterator[Attack]:
    """Yield every attack; `table_path` is where the files of `cw.vault` are."""
    email: Step = lambda s: s.sql("SELECT id, email, sha2(email, 256) FROM cw.people")  # noqa: E731
    yield from shadowing(email)
    yield from texts()
    yield from paths(table_path)
    for place, step in expression_places(STOLEN):
        yield of(f"subquery in {place}", step)
    for place, step in expression_places(STOLEN_COLUMN):
        yield of(f"subquery of a hidden column in {place}", step, refused=False)
    for place, step in hidden_column_places("ssn"):
        yield of(f"hidden column in {place}", step, refused=False)
    for place, step in metadata_places():
        yield of(f"metadata in {place}", step)
    yield from views()
    yield from telling()
    yield from catalog(table_path)
    yield from code()


def shadowing(email: Step) -> Iterator[Attack]:
    order = "spark.sql.functionResolution.sessionOrder"
    yield of("a Python function called sha2", lambda s: s.udf.register("sha2", lambda a, b: a, "string"))
    yield of(
        "a Java function called trunc", lambda s: s.udf.registerJavaFunction("trunc", "java.lang.String")
    )
    yield of("functions of the session first", lambda s: s.conf.set(order, "first"))
    yield of("functions of the session first by SET", lambda s: s.sql(f"SET {order}=first"))
    yield of("functions of the session first in other case", lambda s: s.conf.set(order.upper(), "first"))
    yield of(
        "a temporary SQL function",
        lambda s: s.sql("CREATE TEMPORARY FUNCTION sha2(a STRING, b INT) RETURNS STRING RETURN a"),
    )
    yield of(
        "a temporary function of a class",
        lambda s: s.sql(
            "CREATE TEMPORARY FUNCTION sha2 AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFCoalesce'"
        ),
    )
    yield of(
        "all of that, and then the mask",
        lambda s: s.conf.set(order, "first"),
        lambda s: s.udf.register("sha2", lambda a, b: a, "string"),
        email,
        refused=False,
    )


def texts() -> Iterator[Attack]:
    yield of(
        "a variable in SQL", lambda s: s.conf.set("x.y", "* from cw.vault"), lambda s: s.sql("select ${x.y}")
    )
    yield of(
        "a variable of the environment", lambda s: s.sql("SELECT '${env:SPARK_CONNECT_AUTHENTICATE_TOKEN}'")
    )
    yield of("a variable in an expression", lambda s: s.range(1).select(F.expr("'${env:HOME}'")))
    yield of("variables switched on", lambda s: s.conf.set("spark.sql.variable.substitute", "true"))
    yield of(
        "IDENTIFIER of a named argument",
        lambda s: s.sql("SELECT * FROM IDENTIFIER(:t)", args={"t": "cw.vault"}),
    )
    yield of(
        "IDENTIFIER of a positional argument",
        lambda s: s.sql("SELECT * FROM IDENTIFIER(?)", args=["cw.vault"]),
    )
    yield of(
        "IDENTIFIER of a column",
        lambda s: s.sql("SELECT IDENTIFIER(:c) FROM cw.people", args={"c": "ssn"}),
        refused=False,
    )
    yield of(
        "IDENTIFIER in an expression",
        lambda s: people(s).select(F.expr("IDENTIFIER('ssn')")),
        refused=False,
    )
    yield of("EXECUTE IMMEDIATE", lambda s: s.sql("EXECUTE IMMEDIATE 'SELECT * FROM cw.vault'"))
    yield of(
        "EXECUTE IMMEDIATE of an argument",
        lambda s: s.sql("EXECUTE IMMEDIATE :q", args={"q": "SELECT * FROM cw.vault"}),
    )
    yield of(
        "a session variable",
        lambda s: s.sql("DECLARE v = 'cw.vault'"),
        lambda s: s.sql("SELECT * FROM IDENTIFIER(v)"),
    )
    yield of("a script", lambda s: s.sql("BEGIN SELECT * FROM cw.vault; END"))
    yield of("two statements", lambda s: s.sql("SELECT 1; SELECT * FROM cw.vault"), refused=False)
    yield of("TABLE", lambda s: s.sql("TABLE cw.vault"))
    yield of("pipes", lambda s: s.sql("FROM cw.vault |> SELECT code"))
    yield of("a CTE of the same name", lambda s: s.sql("WITH vault AS (SELECT 1) SELECT * FROM cw.vault"))
    yield of("a frame called like a table", lambda s: s.sql("SELECT * FROM cw.vault", vault=s.range(1)))
    yield of("CACHE TABLE AS", lambda s: s.sql("CACHE TABLE x AS SELECT * FROM cw.vault"))
    yield of("INSERT of it", lambda s: s.sql("CREATE TABLE cwm.stolen AS SELECT * FROM cw.vault"))
    yield of("a star that is refused", lambda s: s.sql("SELECT * FROM cw.vault"))
    yield of(
        "reflect",
        lambda s: s.sql(
            "SELECT reflect('java.lang.System','getProperty','spark.connect.authenticate.token')"
        ),
    )
    yield of(
        "reflect as a function",
        lambda s: s.range(1).select(
            F.reflect(F.lit("java.lang.System"), F.lit("getenv"), F.lit("SPARK_CONNECT_AUTHENTICATE_TOKEN"))
        ),
    )
    yield of(
        "call_function of reflect",
        lambda s: s.range(1).select(F.call_function("reflect", F.lit("java.lang.System"), F.lit("getenv"))),
    )
    yield of(
        "java_method",
        lambda s: s.range(1).select(
            F.java_method(
                F.lit("java.lang.System"), F.lit("getenv"), F.lit("SPARK_CONNECT_AUTHENTICATE_TOKEN")
            )
        ),
    )
    yield of(
        "try_reflect in text",
        lambda s: s.range(1).selectExpr("try_reflect('java.lang.System','getenv','HOME')"),
    )
    yield of(
        "qualified reflect",
        lambda s: s.range(1).select(
            F.call_function("system.builtin.reflect", F.lit("java.lang.System"), F.lit("getenv"))
        ),
    )
    yield of(
        "the token from the settings", lambda s: s.conf.get("spark.connect.authenticate.token"), refused=False
    )
    yield of("every setting", lambda s: s.conf.getAll, refused=False)
    yield of("SET", lambda s: s.sql("SET"), refused=False)
    yield of("SET -v", lambda s: s.sql("SET -v"), refused=False)
    yield of("rules excluded", lambda s: s.conf.set("spark.sql.optimizer.excludedRules", "x"))


def _loaded(form: str, path: str, s: Any) -> Any:
    return s.read.format(form).load(path)


def _named(name: str, s: Any) -> Any:
    return s.table(name)


def _explained(mode: str, s: Any) -> Any:
    return s._client.explain_string(people(s)._plan.to_proto(s._client), explain_mode=mode)


def paths(table_path: str) -> Iterator[Attack]:
    place = f"{table_path}/stolen"
    for form in ("parquet", "text", "csv", "json", "orc", "binaryFile"):
        yield of(f"a path as {form}", partial(_loaded, form, table_path))
        yield of(f"a path as a table of {form}", partial(_named, f"{form}.`{table_path}`"))
    yield of("read.parquet", lambda s: s.read.parquet(table_path))
    yield of("read.text of the system", lambda s: s.read.text("/etc/passwd"))
    yield of("path as an option", lambda s: s.read.format("parquet").option("path", table_path).load())
    yield of("path as an option of a table", lambda s: s.read.option("path", table_path).table("cw.people"))
    yield of("path in SQL", lambda s: s.sql(f"SELECT * FROM parquet.`{table_path}`"))
    yield of("jdbc", lambda s: s.read.jdbc("jdbc:derby:memory:x;create=true", "t"))
    yield of("jdbc with predicates", lambda s: s.read.jdbc("jdbc:derby:memory:x", "t", predicates=["1=1"]))
    yield of("an unknown format", lambda s: s.read.format("org.example.Evil").load())
    yield of(
        "a stream of files",
        lambda s: s.readStream.schema("a string").parquet(table_path).writeStream.format("noop").start(),
    )
    yield of("a stream of text", lambda s: s.readStream.text(table_path).schema)
    yield of(
        "a stream of sockets",
        lambda s: s.readStream.format("socket").option("host", "127.0.0.1").option("port", 1).load().schema,
    )
    yield of("write to a path", lambda s: people(s).select("id").write.parquet(place))
    yield of("save to a path", lambda s: people(s).select("id").write.format("csv").save(place))
    yield of(
        "a table at a path",
        lambda s: people(s).select("id").write.option("path", place).saveAsTable("cwm.at_path"),
    )
    yield of(
        "a checkpoint of a stream",
        lambda s: (
            s.readStream.table("cw.events")
            .writeStream.option("checkpointLocation", place)
            .toTable("cwm.sink")
        ),
    )
    yield of(
        "foreachBatch",
        lambda s: s.readStream.table("cw.events").writeStream.foreachBatch(lambda f, i: None).start(),
    )
    yield of(
        "foreach of a stream",
        lambda s: s.readStream.table("cw.events").writeStream.foreach(lambda r: None).start(),
    )
    yield of(
        "a stream of the vault", lambda s: s.readStream.table("cw.vault").writeStream.format("noop").start()
    )
    yield of("a console sink", lambda s: people(s).write.format("console").save())


def views() -> Iterator[Attack]:
    yield of("a view over the vault", lambda s: s.table("cw.vault_view"))
    yield of("a view over the vault by SQL", lambda s: s.sql("SELECT * FROM cw.vault_view"))
    yield of(
        "a persistent view of masked data",
        lambda s: s.sql("CREATE OR REPLACE VIEW cwm.leak AS SELECT * FROM cw.people"),
        lambda s: s.table("cwm.leak"),
        lambda s: s.sql("SELECT * FROM cwm.leak"),
        refused=False,
    )
    yield of(
        "a persistent view of the vault", lambda s: s.sql("CREATE VIEW cwm.vaulted AS SELECT * FROM cw.vault")
    )
    yield of("a temporary view of the vault", lambda s: s.table("cw.vault").createTempView("v"))
    yield of("a temporary view by SQL", lambda s: s.sql("CREATE TEMP VIEW v AS SELECT * FROM cw.vault"))
    yield of("a global temporary view", lambda s: people(s).createGlobalTempView("g"))
    yield of(
        "a temporary view over governed data",
        lambda s: people(s).createTempView("p"),
        lambda s: s.table("p").alias("q").select("q.*"),
        refused=False,
    )
    yield of(
        "a view with a table's name, then the table",
        lambda s: s.range(1).createTempView("vault"),
        lambda s: s.table("cw.vault"),
    )
    yield of(
        "cache of a governed table", lambda s: people(s).cache().count(), lambda s: people(s), refused=False
    )
    yield of("a checkpoint of governed data", lambda s: people(s).localCheckpoint(), refused=False)
    yield of("the vault", lambda s: s.table("cw.vault"))
    yield of("the vault in other case", lambda s: s.table("`CW`.`VAULT`"))
    yield of("the vault by three parts", lambda s: s.table("spark_catalog.cw.vault"))
    yield of("the vault's schema", lambda s: s.table("cw.vault").schema)
    yield of("the vault's count", lambda s: s.table("cw.vault").count())
    yield of("the vault cached", lambda s: s.table("cw.vault").cache())
    yield of("the vault joined", lambda s: people(s).join(s.table("cw.vault"), "id"))
    yield of(
        "the vault in a set", lambda s: people(s).select("id").intersect(s.table("cw.vault").select("id"))
    )
    yield of("the vault in a subquery", lambda s: people(s).where(s.table("cw.vault").exists()))
    yield of(
        "the vault as a scalar", lambda s: s.range(1).select(s.table("cw.vault").select("code").scalar())
    )
    yield of("the vault as a frame of SQL", lambda s: s.sql("SELECT * FROM {v}", v=s.table("cw.vault")))
    yield of(
        "merge into a governed table",
        lambda s: (
            s.range(1)
            .alias("s")
            .mergeInto("cw.people", F.expr("ssn LIKE 'C%'"))
            .whenMatched()
            .delete()
            .merge()
        ),
    )
    yield of("write to a governed table", lambda s: people(s).write.mode("append").saveAsTable("cw.people"))
    yield of("overwrite the vault", lambda s: s.range(1).write.mode("overwrite").saveAsTable("cw.vault"))


def telling() -> Iterator[Attack]:
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        yield of(f"explain {mode}", partial(_explained, mode))
    yield of("EXPLAIN by SQL", lambda s: s.sql("EXPLAIN EXTENDED SELECT * FROM cw.people"))
    yield of("EXPLAIN COST by SQL", lambda s: s.sql("EXPLAIN COST SELECT * FROM cw.people"))
    yield of(
        "explain of a temporary view",
        lambda s: people(s).createTempView("p"),
        lambda s: s.table("p")._explain_string("extended"),
    )
    yield of("tree string", lambda s: people(s)._tree_string(), refused=False)
    yield of("input files", lambda s: people(s).inputFiles())
    yield of("an unknown column", lambda s: people(s).select("nope"), refused=False)
    yield of("an unknown column above a filter", lambda s: people(s).filter("nope = 1").schema, refused=False)
    yield of(
        "a column of another frame", lambda s: people(s).select(s.table("cw.orders")["item"]), refused=False
    )
    yield of("a wrong type", lambda s: people(s).select(F.explode("id")), refused=False)
    yield of("a value in an error", lambda s: people(s).select(F.col("email").cast("int")), refused=False)
    yield of(
        "a filtered row in an error",
        lambda s: s.table("cw.events").select(F.raise_error(F.col("kind"))).where("value < 0"),
        refused=False,
    )
    yield of(
        "division by zero of filtered rows",
        lambda s: s.table("cw.events").selectExpr("1 / (seq - 1)"),
        refused=False,
    )
    yield of(
        "an error of Spark's stack",
        lambda s: s.conf.set("spark.sql.connect.serverStacktrace.enabled", "true"),
        lambda s: people(s).select(F.raise_error(F.lit("x"))),
        refused=False,
    )
    yield of(
        "progress",
        lambda s: s.registerProgressHandler(lambda **k: None) or people(s).groupBy("region").count(),
        refused=False,
    )
    yield of("DESCRIBE EXTENDED", lambda s: s.sql("DESCRIBE EXTENDED cw.people"), refused=False)
    yield of("DESCRIBE a hidden column", lambda s: s.sql("DESCRIBE cw.people ssn"), refused=False)
    yield of("SHOW CREATE TABLE", lambda s: s.sql("SHOW CREATE TABLE cw.people"), refused=False)
    yield of("SHOW TABLE EXTENDED", lambda s: s.sql("SHOW TABLE EXTENDED IN cw LIKE '*'"), refused=False)
    yield of("statistics", lambda s: s.sql("ANALYZE TABLE cw.people COMPUTE STATISTICS FOR ALL COLUMNS"))


def catalog(table_path: str) -> Iterator[Attack]:
    yield of("getCreateTableString", lambda s: s.catalog.getCreateTableString("cw.people"), refused=False)
    yield of("getTableProperties", lambda s: s.catalog.getTableProperties("cw.people"), refused=False)
    yield of("listPartitions", lambda s: s.catalog.listPartitions("cw.parts"), refused=False)
    yield of("listColumns of the vault", lambda s: s.catalog.listColumns("cw.vault"))
    yield of("getTable of the vault", lambda s: s.catalog.getTable("cw.vault"))
    yield of(
        "createTable at a path",
        lambda s: s.catalog.createTable("cwm.mine", path=table_path, source="parquet"),
    )
    yield of(
        "createTable with an option",
        lambda s: s.catalog.createTable(
            "cwm.mine", source="parquet", schema=people(s).schema, path=table_path
        ),
    )
    yield of("refreshByPath", lambda s: s.catalog.refreshByPath(table_path))
    yield of("clearCache", lambda s: s.catalog.clearCache())
    yield of("dropTable", lambda s: s.catalog.dropTable("cw.vault"))
    yield of("truncateTable", lambda s: s.catalog.truncateTable("cw.people"))
    yield of("dropDatabase", lambda s: s.catalog.dropDatabase("cw", cascade=True))
    yield of("createDatabase", lambda s: s.catalog.createDatabase("cwx"))
    yield of("cacheTable of the vault", lambda s: s.catalog.cacheTable("cw.vault"))
    yield of("analyzeTable", lambda s: s.catalog.analyzeTable("cw.people"))
    yield of("recoverPartitions", lambda s: s.catalog.recoverPartitions("cw.parts"))


def code() -> Iterator[Attack]:
    def stolen(*_: Any) -> str:
        return Path("/etc/passwd").read_text()

    def pages(parts: Any) -> Any:
        yield from parts

    yield of("a Python function", lambda s: people(s).select(F.udf(stolen)("id")))
    yield of(
        "a Python function in a filter", lambda s: people(s).where(F.udf(lambda i: True, "boolean")("id"))
    )
    yield of("a Python function without a table", lambda s: s.range(1).select(F.udf(stolen)("id")))
    yield of("a registered function", lambda s: s.udf.register("f", stolen))
    yield of("mapInPandas", lambda s: people(s).mapInPandas(pages, people(s).schema))
    yield of("mapInArrow", lambda s: people(s).mapInArrow(pages, people(s).schema))
    yield of(
        "applyInPandas", lambda s: people(s).groupBy("region").applyInPandas(lambda f: f, people(s).schema)
    )
    yield of(
        "a table function",
        lambda s: F.udtf(type("T", (), {"eval": lambda self: iter([(1,)])}), returnType="i int")(),
    )
    yield of("foreach", lambda s: people(s).foreach(lambda row: None))
    yield of("an artifact for Python", lambda s: s.addArtifacts(written(".py"), pyfile=True))
    yield of("an artifact of Java", lambda s: s.addArtifacts(written(".jar")))
    yield of("an archive", lambda s: s.addArtifacts(written(".zip"), archive=True))
    yield of("a file", lambda s: s.addArtifacts(written(".txt"), file=True))
