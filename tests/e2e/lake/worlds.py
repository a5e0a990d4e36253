"""Sparks of other minors with table formats, gateways before them, and what both have to answer alike.

All modules on a minor share its Spark, with all formats that are tried there, so their databases have names
of their own. A module has one gateway with one pack, and two sets of tables: the governed ones, and copies
that were filtered and masked beforehand. The same text gives the same over both.

```python
@pytest.fixture(scope="module", params=["3.5", "4.1"])
def twins(request: pytest.FixtureRequest, lakes: OpenLake) -> Iterator[Twins]:
    lake = lakes(request.param)
    with lake.gateway("shop", PACK, {"bob": ["analysts"]}) as gateway:
        with Twins.open(lake, gateway, "bob", governed="ice.shop", copies="ice.shop_copy") as twins:
            yield twins
```
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.model.spark_configuration import CATALOG_PREFIX
from gateway.model.spark_minors import Minor, minor_of
from gateway.reader.java_runtime import find_java, jdk_openings
from gateway.wire.tcli import TSessionHandle
from tests.costs import charged
from tests.e2e import one_pack
from tests.e2e.lake.formats import TOGETHER, catalogs_of, conf_of, jars_of, spark_home_of
from tests.e2e.lake.servers import drivers
from tests.e2e.running import LoopThread, RunningGateway, Spark, answers
from tests.e2e.standing import CONF
from tests.e2e.wire_client import StatusError, WireClient
from tests.e2e.wire_comparison import neutral
from tests.speed import patience

HEAP = "1g"
OWN_CONF = {key: value for key, value in CONF.items() if not key.startswith(CATALOG_PREFIX)} | {
    # A few rows are sooner read than code for them is compiled.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Delta reads what a table is in 50 tasks.
    "spark.databricks.delta.snapshotPartitions": "1",
    # Delta lists a table's files for VACUUM in 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}

OpenLake = Callable[[str], "LakeSpark"]
"""`lakes(name)`, as `Lakes` has it."""


@dataclass(frozen=True)
class LakeSpark:
    """A running Spark of a minor with table formats."""

    spark: Spark
    minor: Minor
    formats: tuple[str, ...]
    directory: Path
    """Where its gateways put their settings; Spark's user can reach it."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The endpoints that can be tried before it."""
        return one_pack.ENDPOINTS if self.spark.connect_port else ("thrift",)

    @property
    def warehouse(self) -> Path:
        """Where the tables of its formats lie."""
        return self.spark.directory / "warehouse"

    @contextlib.contextmanager
    def gateway(
        self,
        name: str,
        pack: str,
        users: Mapping[str, Sequence[str]],
        **more: Mapping[str, Any],
    ) -> Iterator[RunningGateway]:
        """Yield a gateway before it; see `one_pack.write_settings`. Passwords are `one_pack.PASSWORD`."""
        policies = {"catalogs": catalogs_of(self.formats), **more.pop("policies", {})}
        file = one_pack.write_settings(
            self.directory / name, self.spark, pack, users, policies=policies, **more
        )
        running = RunningGateway(file).start()
        try:
            yield running
        finally:
            running.stop()
        assert running.process is not None
        assert running.process.returncode == 0


def statements(text: str) -> list[str]:
    """Return the statements of a text, one a line; a line that begins with a blank goes on with its first."""
    return re.sub(r"\n +", " ", text.strip()).splitlines()


class Lakes:
    """The Spark that runs now; there is room for one."""

    def __init__(self, loop: LoopThread, directory: Path) -> None:
        self._loop = loop
        self._directory = directory
        self._process: EmbeddedSpark | None = None
        self._lake: LakeSpark | None = None

    def __call__(self, name: str) -> LakeSpark:
        """Return the Spark of a name in `formats.TOGETHER`; another is stopped."""
        minor, formats = minor_of(name.partition("-")[0]), tuple(TOGETHER[name])
        lake = self._lake
        if lake is None or (lake.minor, lake.formats) != (minor, formats):
            with charged(f"(Spark {name})"):
                self.stop()
                lake = self._lake = self._start(minor, formats)
        return lake

    def stop(self) -> None:
        process, lake = self._process, self._lake
        self._process = self._lake = None
        if process is not None:
            self._loop.run(process.stop())
        if lake is not None:
            # Jars that its user could not reach are copies: 400 MB.
            shutil.rmtree(lake.directory, ignore_errors=True)

    def _start(self, minor: Minor, formats: tuple[str, ...]) -> LakeSpark:
        directory = self._directory / "-".join(("lake", str(minor), *formats))
        directory.mkdir()
        directory.chmod(0o711)
        place = directory / "spark"
        self._process = process = EmbeddedSpark(
            EmbeddedSparkOptions(
                directory=place,
                java=find_java(),
                spark_home=spark_home_of(minor),
                java_options=jdk_openings(),
                start_timeout_s=patience(240),
                heap=HEAP,
                jars=[*jars_of(minor, formats), *drivers()],
                conf={**OWN_CONF, **conf_of(formats, place / "warehouse")},
            ),
            answers,
        )
        self._loop.run(process.start())
        return LakeSpark(spark=Spark.of(process), minor=minor, formats=formats, directory=directory)


@dataclass(frozen=True)
class Answer:
    """What a statement gave: columns with their types, and rows; or the condition of its error."""

    columns: list[tuple[str, str]]
    rows: list[tuple[Any, ...]]
    error: str = ""


@dataclass
class Twins:
    """A session of a user's over governed tables, and one straight at Spark over copies made beforehand."""

    ours: _Side
    theirs: _Side
    compared: list[str] = field(default_factory=list)
    """Texts that answered alike, to be counted."""

    @classmethod
    @contextlib.contextmanager
    def open(
        cls,
        lake: LakeSpark,
        gateway: RunningGateway,
        user: str,
        *,
        governed: str,
        copies: str,
        told: Sequence[str] = (),
    ) -> Iterator[Twins]:
        """Open sessions through Thrift, and through Spark Connect where there is one. `told`: statements that
        those straight at Spark begin with."""
        with contextlib.ExitStack() as opened:
            thrift = opened.enter_context(WireClient(gateway.host, gateway.port, user, one_pack.PASSWORD))
            direct = opened.enter_context(WireClient(lake.spark.host, lake.spark.port, "direct"))
            ours, theirs = _Side(thrift, governed), _Side(direct, copies)
            if lake.spark.connect_port:
                ours.frames = opened.enter_context(gateway.session(user, one_pack.PASSWORD))
                theirs.frames = opened.enter_context(lake.spark.session())
            ours.begin()
            theirs.begin(told)
            yield cls(ours, theirs)

    def same(self, text: str, **different: tuple[str, str]) -> Answer:
        """Run a text over both and require the same rows, names and types; return the answer.

        `different`: what a word in braces in the text stands for, over the governed tables and over the
        copies, such as the number of a snapshot; `{db}` is the database. A text that fails has to fail over
        both, with the same condition. Rows are in the same order where the text ends with an ORDER BY.
        """
        ours, theirs = (
            side.ask(
                _filled(text, {key: pair[at] for key, pair in different.items()} | {"db": side.database})
            )
            for at, side in enumerate((self.ours, self.theirs))
        )
        _require_equal(text, ours, theirs, ordered=re.search(r"\bORDER BY [^()]*$", text) is not None)
        self.compared.append(text)
        return ours

    def same_frame(self, name: str, program: Callable[[Any, str], Any], *, ordered: bool = False) -> Answer:
        """Have a program make a DataFrame of a session and the database's name, and compare both."""
        ours, theirs = (side.collect(program) for side in (self.ours, self.theirs))
        _require_equal(name, ours, theirs, ordered=ordered)
        self.compared.append(name)
        return ours

    def all_same(self, texts: Iterable[str]) -> None:
        """The same of each text; tells all that differ."""
        self._all([partial(self.same, text) for text in texts])

    def all_same_frames(self, programs: Mapping[str, Callable[[Any, str], Any]]) -> None:
        """The same of each program, by its name; tells all that differ."""
        self._all([partial(self.same_frame, name, program) for name, program in programs.items()])

    def same_stream(self, name: str, program: Callable[[Any, str], Any]) -> Answer:
        """Have a program make a stream, run all that is there into memory, and compare what arrived."""
        sink = f"stream_{len(self.compared)}"
        for side in (self.ours, self.theirs):
            writer = program(side.frames, side.database).writeStream.format("memory").queryName(sink)
            query = writer.trigger(availableNow=True).start()
            assert query.awaitTermination(patience())
            assert query.exception() is None
        return self.same_frame(name, lambda spark, db: spark.table(sink))

    def require_refused_frames(
        self, programs: Mapping[str, Callable[[Any, str], Any]], place: Path, canary: str
    ) -> None:
        """Require that every program, given a session of the user's and a place, is refused by Sluice without
        the canary; tells all that are not."""
        from pyspark.errors import PySparkException

        passed: list[tuple[str, object]] = []
        for name, program in programs.items():
            try:
                passed.append((name, program(self.ours.frames, str(place)).collect()))
            except PySparkException as error:
                if "SLUICE_" not in str(error) or canary in str(error):
                    passed.append((name, str(error)))
        assert not passed, passed

    def _all(self, questions: Iterable[Callable[[], object]]) -> None:
        different = []
        for question in questions:
            try:
                question()
            except AssertionError as found:
                different.append(str(found))
        assert not different, "\n".join(different)

    def forwarded(self, gateway: RunningGateway, user: str, text: str) -> str:
        """Return what a text becomes for a user in the governed database, to be asked for its plan at Spark:
        it is not shown to whoever has obligations."""
        catalog, _, database = self.ours.database.rpartition(".")
        explained = gateway.sluice(
            *("explain", "-c", str(gateway.config), "--json", "--as", user),
            *("--catalog", catalog or "spark_catalog", "--database", database, text),
        )
        forwarded: str = json.loads(explained.stdout)["forwarded"]
        assert forwarded != text
        return forwarded

    def refusal(self, text: str) -> str:
        """Return the message that a statement of the user's is refused with; `{db}` is the database."""
        message = self.ours.message(_filled(text, {"db": self.ours.database}))
        assert message is not None, f"not refused: {text}"
        return message


class _Side:
    """Sessions whose current database is one of the two."""

    def __init__(self, client: WireClient, database: str) -> None:
        self.database = database
        self.frames: Any = None
        self._client = client
        self._session: TSessionHandle | None = None

    def begin(self, told: Sequence[str] = ()) -> None:
        """Open the session, and have both be in the database."""
        self._session = self._client.open_session()
        for text in (*told, f"USE {self.database}"):
            self._client.result(self._session, text)
            if self.frames is not None:
                self.frames.sql(text).collect()

    def ask(self, text: str) -> Answer:
        try:
            result = self._client.result(self._opened, text)
        except StatusError as error:
            return Answer([], [], _condition(str(error)))
        columns = [(column.columnName, repr(neutral(column.typeDesc))) for column in result.schema.columns]
        return Answer(columns, result.rows)

    def message(self, text: str) -> str | None:
        """Return the message of its error; None when there is none."""
        try:
            self._client.result(self._opened, text)
        except StatusError as error:
            return str(error)
        return None

    def collect(self, program: Callable[[Any, str], Any]) -> Answer:
        from pyspark.errors import PySparkException

        try:
            frame = program(self.frames, self.database)
            columns = [(column.name, column.dataType.simpleString()) for column in frame.schema.fields]
            return Answer(columns, [tuple(row) for row in frame.collect()])
        except PySparkException as error:
            return Answer([], [], _condition(str(error)))

    @property
    def _opened(self) -> TSessionHandle:
        assert self._session is not None
        return self._session


def _filled(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace("{" + word + "}", value)
    return text


def _condition(message: str) -> str:
    """Return the condition of an error, without which it is the begin of its text."""
    found = re.search(r"\[([A-Z][A-Z_.0-9]+)\]", message)
    return found[1] if found else re.sub(r"\d+", "0", message)[:80]


def _require_equal(what: str, ours: Answer, theirs: Answer, *, ordered: bool) -> None:
    assert ours.error == theirs.error, f"{what}: {ours.error!r}, {theirs.error!r}"
    assert ours.columns == theirs.columns, f"{what}: {ours.columns}, {theirs.columns}"
    in_order: Callable[[list[Any]], list[Any]] = (lambda rows: rows) if ordered else _sorted
    assert in_order(ours.rows) == in_order(theirs.rows), f"{what}: {ours.rows}, {theirs.rows}"


def _sorted(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)
