"""The Spark that a job runs on: one in this process, a cluster's, or one behind Spark Connect."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gateway
from gateway.errors import BackendUnavailable
from gateway.jobs.reaching import give_up_soon, require_answer
from gateway.model.java_options import SparkClasses
from gateway.model.spark_minors import minor_of
from gateway.model.table_formats import ICEBERG, UnsupportedFormat

Keep = Callable[[str, Any], Any]
"""Writes a frame under a name, and returns it as it was written: plans stay short."""

LOCAL_HOST = "127.0.0.1"
PY_FILE = "SLUICE_PY_FILE"
"""Variable that names what Python workers import us from; without it, they have us installed."""
OF_CONNECT = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE")
"""Variables by which pyspark would have a Spark of its own be one behind Connect, whatever is asked for."""
SESSION_CONF: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    # The default is a form of twelve bytes without a zone, which nobody but Spark reads as it is meant.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Whoever reads a table by its directories gets texts as they are written there, not as they look.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
START_CONF: Mapping[str, str] = {
    # Ten times Java's own thresholds: half of what a run of some minutes costs would be compiling code that
    # is hardly used again; what works through rows passes them within seconds.
    JAVA_OPTIONS: "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000"
    " -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
    " -XX:Tier4BackEdgeThreshold=400000",
    "spark.ui.enabled": "false",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
}


class NotCollected(Exception):
    """PySpark gave no rows of a frame that has some."""


def collect(frame: Any) -> list[Any]:
    """Return the rows of a frame. Raises NotCollected.

    PySpark 4.3 gives none, and no error, of a column whose collation is indeterminate: nobody may take that
    for an empty answer.
    """
    rows: list[Any] = frame.collect()
    if not rows and frame.limit(1).count():
        raise NotCollected
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Where a job runs, and with how much."""

    name: str = "sluice-job"
    master: str = "local[*]"
    """As of `spark-submit --master`; of no concern with `remote`. Empty: a Spark that is there already."""
    remote: str = ""
    """`sc://…` of a Spark Connect server; empty: in this process."""
    driver_memory: str = "1g"
    shuffle_partitions: int = 8
    java_home: Path | None = None
    classes: SparkClasses | None = None
    """Archive of the classes of the Spark that pyspark brings along; a local one is sooner there with it."""
    directory: Path | None = None
    """For what Spark spills; its own default without."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings on top of ours."""
    tables: str = ""
    """Catalog and database of Iceberg that the jobs' tables are in, dotted; empty: directories of Parquet."""
    jars: tuple[Path, ...] = ()
    """Jars on the class path of this process's JVM besides Spark's own."""
    py_file: Path | None = None
    """A wheel that Python workers import us from, as a zip; without it, they have us installed."""
    stop: bool = True
    """Whether the session ends with the run."""

    @property
    def where(self) -> str:
        """Return where it runs, behind a verb."""
        if self.remote:
            # What stands behind may be a token.
            return f" at {self.remote.partition('/;')[0]}"
        return f" on {self.master}" if self.master else ""


def open_session(options: SparkOptions) -> Any:
    """Return the session. Raises BackendUnavailable when there is no pyspark, or Spark does not come up."""
    if not options.remote and options.master:
        _prepare_environment(options)
    keep_messages_out()
    try:
        from py4j.protocol import Py4JError
        from pyspark import __version__ as pyspark_version
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise BackendUnavailable(f"jobs need pyspark; install `sluice-gateway[spark]`: {error}") from None
    if options.tables and not options.remote:
        _require_iceberg(pyspark_version)
    conf = {**SESSION_CONF, **options.conf}
    builder = SparkSession.builder.appName(options.name)
    if options.remote or options.master:
        conf = {"spark.sql.shuffle.partitions": str(options.shuffle_partitions), **conf}
    if options.remote:
        builder = builder.remote(options.remote)
    elif options.master:
        builder = builder.master(options.master)
        conf = {**START_CONF, **conf, "spark.driver.memory": options.driver_memory}
        if options.master.startswith("local"):
            conf |= {"spark.driver.bindAddress": LOCAL_HOST, "spark.driver.host": LOCAL_HOST}
        if options.jars:
            conf["spark.jars"] = ",".join(map(str, options.jars))
        if options.directory is not None:
            options.directory.mkdir(parents=True, exist_ok=True)
            conf["spark.local.dir"] = str(options.directory)
    environment = {}
    if options.classes is not None and not options.remote and options.master.startswith("local"):
        environment = _use_classes(options.classes, conf)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        if options.remote:
            require_answer(options.remote)
        with patch_environment(environment):
            session = builder.getOrCreate()
        if options.remote:
            give_up_soon(session)
        if options.py_file is not None:
            session.sparkContext.addPyFile(str(options.py_file))
        if options.tables:
            session.sql(f"CREATE NAMESPACE IF NOT EXISTS {options.tables}")
        return session
    except (PySparkException, Py4JError, OSError) as error:
        raise BackendUnavailable(f"Spark cannot be started or reached: {cause_of(error)}") from error


FEW_ROWS = 10_000
"""Rows below which Spark is sooner done with them than with compiling code for them."""


def tune_for_rows(session: Any, rows: int) -> None:
    """Let Spark interpret its expressions where rows are few, and compile them where they are many."""
    few = rows < FEW_ROWS
    session.conf.set("spark.sql.codegen.wholeStage", "false" if few else "true")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if few else "FALLBACK")


def keep_messages_out() -> None:
    """Have pyspark not write each error of a statement to standard error as well: messages quote values, and
    the statement with its literals."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _require_iceberg(version: str) -> None:
    """Raise BackendUnavailable where there is no Iceberg for a Spark."""
    try:
        ICEBERG.artifacts_for(minor_of(version))
    except UnsupportedFormat as error:
        raise BackendUnavailable(
            f"`jobs.catalog` stores the jobs' tables in Iceberg, pyspark is {version}, and "
            f"{error.message}. Run jobs with the pyspark of one of these, with its `spark-submit`, or "
            "through its Spark Connect"
        ) from None


def build_frame_writer(session: Any, directory: Path) -> Keep:
    """Return what writes frames below a directory that the session sees under the same path."""

    def keep(name: str, frame: Any) -> Any:
        frame.write.parquet(str(directory / name))
        return session.read.schema(frame.schema).parquet(str(directory / name))

    return keep


def application_id(session: Any) -> str:
    """Return Spark's id of the application."""
    return str(session.conf.get("spark.app.id"))


def _prepare_environment(options: SparkOptions) -> None:
    """Say to the JVM that is about to be made, and to its Python workers, what they run with."""
    for name in OF_CONNECT:
        os.environ.pop(name, None)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if options.java_home is not None:
        os.environ["JAVA_HOME"] = str(options.java_home)
    if options.master.startswith("local"):
        # The machine's name need not resolve.
        os.environ.setdefault("SPARK_LOCAL_IP", LOCAL_HOST)
    root = str(Path(gateway.__file__).resolve().parent.parent)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])


def _use_classes(classes: SparkClasses, conf: dict[str, str]) -> dict[str, str]:
    """Have a JVM use an archive of classes, by its settings and the variables that are returned.

    The jar that its class path begins with stands where Spark's launcher puts the directory of settings: only
    where nobody has chosen one.
    """
    if (
        "SPARK_HOME" in os.environ
        or "SPARK_CONF_DIR" in os.environ
        or Path(classes.jar).with_name("conf").exists()
    ):
        return {}
    given = conf.get(JAVA_OPTIONS, "")
    conf[JAVA_OPTIONS] = f"{given} {classes.option}".strip()
    return {"SPARK_CONF_DIR": classes.jar}


@contextlib.contextmanager
def patch_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have environment variables for as long as a block runs."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)


def cause_of(error: BaseException) -> str:
    """Return the line of Spark's error that says most: its innermost cause, without the traces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("Caused by: ", ": "))]
    return (causes or lines[:1] or [type(error).__name__])[-1].removeprefix("Caused by").removeprefix(": ")


def failure_of(error: BaseException) -> BaseException:
    """Return what is told of an error that ends a run: the cause of one of Spark's; any other as it is."""
    if is_of_spark(error):
        return BackendUnavailable(f"Spark has failed: {cause_of(error)}")
    return error


def is_of_spark(error: BaseException) -> bool:
    """Whether Spark has raised it."""
    return "py4j" in sys.modules and isinstance(error, spark_errors())


def condition_of(error: Any) -> str:
    """Return the name of what went wrong: messages may quote values."""
    try:
        name = error.getCondition()
    except (AttributeError, NotImplementedError):  # Py4J's errors, and those before Spark 4, have none
        name = None
    return str(name or type(error).__name__)[:100]


def spark_errors() -> tuple[type[Exception], ...]:
    """Return what Spark raises, of both kinds of sessions."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError)
