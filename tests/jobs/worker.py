"""Runs jobs in a process that keeps one Spark for all of them: a session of pyspark is the process's own."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import threading
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.app.classifying import classifiers
from gateway.catalog.static import StaticCatalog
from gateway.errors import BackendUnavailable
from gateway.jobs.archive import ArchiveOptions, archive
from gateway.jobs.archive_dropping import Keeping
from gateway.jobs.classification.job import ClassifyOptions, classify
from gateway.jobs.classification.source import Described, GatewaySource, Limits, TableParts
from gateway.jobs.closure import ClosureOptions, ClosureRules, closure
from gateway.jobs.job import Job
from gateway.jobs.proof.job import Gate, ProofOptions, proof
from gateway.jobs.recommending import job as recommending
from gateway.jobs.recommending.frames import Peers
from gateway.jobs.replay.job import ReplayOptions, ReplayPlan, replay
from gateway.jobs.replay.judging import ReaderOptions, Sides
from gateway.jobs.rollups import RollupOptions, rollups
from gateway.jobs.running import run_job
from gateway.jobs.spark import SparkOptions, open_session
from gateway.jobs.verifying import VerifyOptions, verify
from gateway.model.catalog import Table
from gateway.model.java_options import QUICK_START
from gateway.pipeline import Rules, seeing
from gateway.pipeline.rights import Rights, SeenTable
from gateway.policy import masks, obligations
from gateway.policy.packs import load_packs
from gateway.policy.propagation import load_propagation
from gateway.policy.service_defs import load_service_defs
from gateway.policy.views import Viewing
from gateway.reader.class_archive import find_spark_classes
from gateway.reader.java_runtime import find_java, find_spark_home, spark_version
from gateway.reader.limits import ReaderLimits
from gateway.reader.pool import ReaderPool
from gateway.settings.jobs import ClassifySettings
from gateway.sql.functions import AGGREGATES
from tests.judge_world import SERVICE_DEFS, World
from tests.policy.ranger.data import shipped
from tests.readers import patient, patient_reader

HEAP = "1g"
JAVA_OPTIONS = " ".join(("-XX:+UseSerialGC", *QUICK_START))
"""At this size G1 marks all the time: a third of what the jobs took."""
_remote = ""
"""In the worker: where its Spark is, if that is not in the process."""
_loop = asyncio.Runner()
"""In the worker: runs one job after the other, so that a parser can stay for the next."""
_parser: ReaderPool | None = None


async def _kept_parser() -> ReaderPool:
    """Return the parser that stays as long as the worker: starting one takes longer than a job asks of it."""
    global _parser
    if _parser is None:
        started = patient_reader()
        await started.start()
        _parser = started
    return _parser


def options() -> SparkOptions:
    if _remote:
        return SparkOptions(remote=_remote, shuffle_partitions=2, stop=False)
    return SparkOptions(
        master="local[2]",
        driver_memory=HEAP,
        shuffle_partitions=2,
        java_home=find_java().resolve().parent.parent,
        classes=find_spark_classes(find_java(), find_spark_home()),
        # A few events are sooner read than code for them is compiled, by Spark or by Java.
        conf={
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            "spark.ui.liveUpdate.period": "1h",
            "spark.buffer.pageSize": "1m",
        },
        stop=False,
    )


@dataclasses.dataclass(frozen=True)
class Ran:
    rows_in: int
    rows_out: int
    lines: tuple[str, ...]
    application: str


class Worker:
    """Where jobs run; each job comes as what makes it, since a job itself cannot be sent."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    async def run(self, made: Any, chosen: Any, *, dsn: str, lake: Path, now: datetime) -> Ran:
        call = self._pool.submit(_run, made, chosen, dsn, str(lake), now)
        return await asyncio.wrap_future(call)

    async def killed_at(
        self, line: str, made: Any, chosen: Any, *, dsn: str, lake: Path, now: datetime
    ) -> tuple[bool, tuple[str, ...]]:
        """Run a job until it says something with `line` in it; return whether it did, and all that it said.

        There it stands still for good, and PostgreSQL loses its connections: files and tables are what
        SIGKILL leaves, and the Spark of all the others goes on.
        """
        call = self._pool.submit(_run_to, line, made, chosen, dsn, str(lake), now)
        return await asyncio.wrap_future(call)

    async def make_database(self, name: str, place: Path) -> None:
        await self.sql(f"CREATE DATABASE {name} LOCATION '{place}'")

    async def drop_database(self, name: str) -> None:
        await self.sql(f"DROP DATABASE {name} CASCADE")

    async def make_table(
        self, name: str, columns: str, rows: list[tuple[Any, ...]], partitioned: str = ""
    ) -> None:
        """Make a table of Spark's own catalog anew."""
        await asyncio.wrap_future(self._pool.submit(_make_table, name, columns, rows, partitioned))

    async def sql(self, text: str) -> None:
        await asyncio.wrap_future(self._pool.submit(_sql, text))

    async def rows(self, path: Path, select: str) -> list[dict[str, Any]]:
        """Ask a table of the lake as any Spark would, as the view `lake`."""
        return await asyncio.wrap_future(self._pool.submit(_rows, str(path), select))


@contextmanager
def working(remote: str = "") -> Iterator[Worker]:
    """Start a worker; `remote`: with a Spark behind Spark Connect."""
    with ProcessPoolExecutor(
        max_workers=1,
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(remote,),
    ) as pool:
        yield Worker(pool)
        # Threads that stand still are not waited for.
        with contextlib.suppress(BrokenProcessPool):
            pool.submit(_end).result()


def _end() -> None:
    if _parser is not None:
        _loop.run(_parser.close())
    os._exit(0)


def _begin(remote: str) -> None:
    """Set what a shell, or a client of Spark Connect in the same process, leaves in the environment."""
    global _remote
    _remote = remote
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    os.environ["SPARK_REMOTE"] = "sc://127.0.0.1:1"


def _run(made: Any, chosen: Any, dsn: str, lake: str, now: datetime) -> Ran:
    lines: list[str] = []
    job: Job = made(chosen)
    work = run_job(job, dsn=dsn, lake=Path(lake), spark=options(), progress=lines.append, clock=lambda: now)
    try:
        done = _loop.run(work)
    except BackendUnavailable as error:
        # What it comes from cannot be sent.
        raise BackendUnavailable(error.message) from None
    return Ran(done.outcome.rows_in, done.outcome.rows_out, tuple(lines), done.application)


def _run_to(
    line: str, made: Any, chosen: Any, dsn: str, lake: str, now: datetime
) -> tuple[bool, tuple[str, ...]]:
    lines: list[str] = []
    failed: list[BaseException] = []
    stands, moved = threading.Event(), threading.Event()

    def progress(text: str) -> None:
        lines.append(text)
        if line in text:
            stands.set()
            moved.set()
            threading.Event().wait()

    def work() -> None:
        try:
            run = run_job(
                made(chosen), dsn=dsn, lake=Path(lake), spark=options(), progress=progress, clock=lambda: now
            )
            asyncio.run(run)
        except BaseException as error:  # noqa: BLE001  # told to the test
            failed.append(error)
        moved.set()

    others = asyncio.run(_backends(dsn))
    threading.Thread(target=work, daemon=True).start()
    moved.wait()
    if stands.is_set():
        asyncio.run(_terminate(dsn, others))
    elif failed:
        raise failed[0]
    return stands.is_set(), tuple(lines)


async def _backends(dsn: str) -> list[int]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return [row["pid"] for row in rows]
    finally:
        await connection.close()


async def _terminate(dsn: str, others: list[int]) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid <> ALL ($1)",
            others,
        )
    finally:
        await connection.close()


def _make_table(name: str, columns: str, rows: list[tuple[Any, ...]], partitioned: str) -> None:
    spark = open_session(options())
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    writer = spark.createDataFrame(rows, columns).repartition(1).write
    (writer.partitionBy(partitioned) if partitioned else writer).saveAsTable(name)


def _sql(text: str) -> None:
    open_session(options()).sql(text).collect()


def _rows(path: str, select: str) -> list[dict[str, Any]]:
    spark = open_session(options())
    spark.read.parquet(path).createOrReplaceTempView("lake")
    return [row.asDict(recursive=True) for row in spark.sql(select).collect()]


def archive_of(chosen: dict[str, Any]) -> Job:
    """Make the job; the key and an older one come as bytes."""
    keys = [
        Ed25519PublicKey.from_public_bytes(chosen.pop(name)) for name in ("key", "older") if name in chosen
    ]
    return archive(ArchiveOptions(keeping=Keeping(keys=keys, **chosen), file_rows=50))


def verify_of(chosen: dict[str, Any]) -> Job:
    """Make the job; the key comes as bytes."""
    key = Ed25519PublicKey.from_public_bytes(chosen.pop("key"))
    return verify(VerifyOptions(keys=(key,), **chosen))


def rollups_of(chosen: dict[str, Any]) -> Job:
    """Make the job, with a parser of its own; not `parsed`, each text is its own shape."""
    parsed = chosen.pop("parsed", True)

    @asynccontextmanager
    async def reader() -> AsyncIterator[Any]:
        async def itself(text: str) -> str:
            return text

        if not parsed:
            yield itself
            return
        if threading.current_thread() is threading.main_thread():
            yield (await _kept_parser()).fingerprint
            return
        async with patient_reader() as pool:
            yield pool.fingerprint

    return rollups(RollupOptions(reader=reader, **chosen))


def replay_of(chosen: dict[str, Any]) -> Job:
    """Make the job with the packs `old` and `new`, and `now`, the tables that Spark has; None: no Spark."""
    definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
    old, new = (load_packs({"p.yaml": chosen.pop(side)}, definitions, 1) for side in ("old", "new"))
    principals, now = chosen.pop("principals", {}), chosen.pop("now", None)

    def proposal() -> ReplayPlan:
        return ReplayPlan(
            sides=Sides(old=old, new=new, principals=principals, rules=Rules()),
            old="old",
            new="new",
            reader=ReaderOptions(
                spark_version=spark_version(find_spark_home()), limits=patient(ReaderLimits())
            ),
            catalogs=frozenset({"spark_catalog"}),
        )

    @asynccontextmanager
    async def look_up() -> AsyncIterator[Any]:
        if now is None:
            raise BackendUnavailable("no address of Spark")
        yield StaticCatalog(now).look_up

    return replay(ReplayOptions(proposal=proposal, look_up=look_up, parts=4, **chosen))


def proof_of(chosen: dict[str, Any]) -> Job:
    """Make the job over `data`, rows of tables by name; `broken` is a thing that the gateway does wrong."""
    world, data = World(chosen.pop("world", None)), chosen.pop("data")
    broken, source_fails = chosen.pop("broken", ""), chosen.pop("unreadable", ())
    reader_name = chosen.pop("reader", "")

    class Source:
        def reader(self) -> str:
            return str(reader_name)

        def read(self, table: Table, rows: int, max_bytes: int) -> Any:
            name = str(table.name)
            if name in source_fails:
                return None
            ddl = ", ".join(f"`{one.name}` {one.type}" for one in table.columns)
            return open_session(options()).createDataFrame(data.get(name, [])[:rows], ddl).toArrow()

    @contextmanager
    def source(work: Any) -> Iterator[Source]:
        yield Source()

    @asynccontextmanager
    async def gate() -> AsyncIterator[Gate]:
        with breaking(broken):
            yield Gate(
                reader=await _kept_parser(),
                policies=world.policies,
                principals=world.principals,
                rules=Rules(),
                catalogs=frozenset({"spark_catalog"}),
                look_up=StaticCatalog(list(world.tables.values())).look_up,
            )

    return proof(ProofOptions(gate=gate, source=source, **chosen))


@contextmanager
def breaking(what: str) -> Iterator[None]:
    """Break one thing that the gateway does, and nothing that the copies are made by."""
    places: dict[str, tuple[Any, str, Any]] = {
        "no mask": (Viewing, "masks", lambda self: {}),
        "no filter": (Viewing, "rows", lambda self, remembered: None),
        "no hash": (masks, "_hash", lambda c, type_, b: c),
        "no definer": (seeing, "combine_views", _seen_by_readers),
    }
    obligations._plain_mask.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        if what:
            patch.setattr(*places[what])
        yield
    obligations._plain_mask.cache_clear()


def _seen_by_readers(
    table: Table, views: Any, rights: Rights, hidden: frozenset[str], used: tuple[str, ...] | None
) -> SeenTable:
    """Lend what a view reads without the masks and filters of its definer."""
    return SeenTable(hidden=hidden, eyes=tuple((one, views[one]) for one in rights.readers), used=used)


def classify_of(chosen: dict[str, Any]) -> Job:
    """Make the job, reading by this process's own Spark; `fail_at` is a table at which it is killed."""
    fail_at, tagged = chosen.pop("fail_at", ""), chosen.pop("tagged", {})

    class Source(GatewaySource):
        def describe(self, table: TableParts) -> Described:
            if table.name == fail_at:
                raise RuntimeError("killed")
            return super().describe(table)

    class Policies:
        def tags(self, table: TableParts, columns: Sequence[str]) -> dict[str, Collection[str]]:
            return dict.fromkeys(columns, tagged.get(table.table, ()))

        def list_masked_columns(
            self, user: str, table: TableParts, columns: Sequence[str]
        ) -> Collection[str]:
            return ()

        def list_hidden_columns(
            self, user: str, table: TableParts, columns: Sequence[str]
        ) -> Collection[str]:
            return ()

    async def policies(_: Any) -> Policies:
        return Policies()

    @contextmanager
    def source(work: Any) -> Iterator[GatewaySource]:
        yield Source(open_session(options()))

    return classify(
        ClassifyOptions(
            classifiers=lambda: classifiers(ClassifySettings()),
            source=source,
            policies=policies,
            limits=Limits(**chosen.pop("limits", {})),
            **chosen,
        )
    )


def recommend_of(chosen: dict[str, Any]) -> Job:
    """Make the job with the policies of one pack; `peers` are keywords."""
    policies = load_packs({"pack.yaml": chosen.pop("pack")}, shipped())
    peers = Peers(**chosen.pop("peers", {}))

    async def rules(_: Any) -> recommending.PoliciesInForce:
        return recommending.PoliciesInForce(policies=policies)

    return recommending.recommend(recommending.RecommendOptions(rules=rules, peers=peers, **chosen))


def closure_of(chosen: dict[str, Any]) -> Job:
    """Make the job with the policies of one pack, and rules of propagation by their text."""
    pack, text = chosen.pop("pack"), chosen.pop("propagation")

    async def rules(_: Any) -> ClosureRules:
        return ClosureRules(
            policies=load_packs({"pack.yaml": pack}, shipped()),
            propagation=load_propagation(text, "rules.yaml", AGGREGATES),
            basis=pack,
        )

    return closure(ClosureOptions(rules=rules, **chosen))
