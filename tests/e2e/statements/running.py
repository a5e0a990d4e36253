"""Runs statements at Spark and through a gateway, side by side, and says what differs and why."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pyhive import hive

from tests.e2e.one_pack import PASSWORD
from tests.e2e.running import RunningGateway, Spark, connect, connect_session
from tests.e2e.statements.collection import DATABASES, FILES, TABLES, VARIES, Script, is_query

Endpoint = Literal["thrift", "connect"]

BOSS = "boss"
"""Who may do everything."""
ANALYST = "ana"
"""Who may do everything, and sees tables under masks and filters."""
_ALL = (
    '{catalog: "*"}',
    '{catalog: "*", database: "*"}',
    '{catalog: "*", database: "*", table: "*", column: "*"}',
    '{catalog: "*", database: "*", udf: "*"}',
    '{catalog: "system", database: "session", udf: "*"}',
    '{url: "*"}',
    '{setting: "*"}',
)
PACK = (
    "service: spark\npolicies:\n"
    + "".join(
        f"  - {{name: 'all {number}', on: {on}, allow: [{{users: [{BOSS}, {ANALYST}], access: [all]}}]}}\n"
        for number, on in enumerate(_ALL)
    )
    + f"""
  - name: salaries are masked
    on: {{catalog: spark_catalog, database: {DATABASES["gateway"]}, table: people, column: salary}}
    mask: [{{users: [{ANALYST}], type: MASK_NULL}}]
  - name: those of one region
    on: {{catalog: spark_catalog, database: {DATABASES["gateway"]}, table: people}}
    filter: [{{users: [{ANALYST}], where: "region = 'EMEA'"}}]
"""
)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")
_VARYING = re.compile(
    r"#\d+L?|\b[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d [A-Z]+ \d{4}|\d{4}-\d\d-\d\dT[\d:.]+Z"
    r"|\b1[5-9]\d{8}\b|\b\d+ bytes|'sluice\.definer\.\w+' = '\w+',\\n  "
)
"""Ids of expressions, times and sizes; and by what the gateway knows who defines a view."""
_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\d+")


class Answer(NamedTuple):
    """What came of a statement."""

    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    error: str = ""
    """The condition; of what has none, the message."""
    message: str = ""

    @property
    def refused(self) -> bool:
        return self.error.startswith("SLUICE_")


Ask = Callable[[str], Answer]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A statement, and what it came to on both sides."""

    script: str
    statement: str
    direct: Answer
    through: Answer

    @property
    def same(self) -> bool:
        ours, theirs = self.through, self.direct
        if theirs.error or ours.error:
            return ours.error == theirs.error
        if VARIES.search(self.statement):
            return ours[:2] == theirs[:2]
        return ours[:3] == theirs[:3]

    @property
    def refused_needlessly(self) -> bool:
        """Whether the gateway refuses what Spark runs."""
        return not self.direct.error and self.through.refused

    @property
    def reason(self) -> str:
        """Why it differs, without the names in it."""
        ours = self.through
        if not ours.error:
            return "answered otherwise"
        if ours.refused:
            said = ours.message.split("\n")[0].split("; to ask about it")[0]
        else:
            said = f"{ours.error} instead of {self.direct.error or 'an answer'}"
        return _QUOTED.sub("…", said)[:160]


def _failed(message: str) -> Answer:
    found = _CONDITION.search(message)
    told = re.sub(r"\d+|stated_[dg]", "#", message.split("\n")[0])[:120]
    return Answer(error=found[1] if found else told, message=message)


def _level(value: object, database: str) -> str:
    return _VARYING.sub("#", repr(value).replace(database, "DB"))


@contextlib.contextmanager
def _thrift(host: str, port: int, user: str, database: str, password: str | None) -> Iterator[Ask]:
    connection = connect(host, port, user, password)
    cursor = connection.cursor()
    cursor.execute(f"USE {database}")

    def ask(statement: str) -> Answer:
        try:
            cursor.execute(statement)
            described = cursor.description or []
            names = tuple(_level(column[0], database) for column in described)
            empty = not described or names == ("'Result'",)
            rows = () if empty else tuple(sorted(_level(row, database) for row in cursor.fetchall()))
            return Answer(names, tuple(str(column[1]) for column in described), rows)
        except hive.OperationalError as error:
            status = getattr(error.args[0], "status", None)
            return _failed(str(status.errorMessage if status is not None else error))

    try:
        yield ask
    finally:
        connection.close()


@contextlib.contextmanager
def _connect(session: contextlib.AbstractContextManager[Any], database: str) -> Iterator[Ask]:
    from pyspark.errors import PySparkException

    with session as frames:
        frames.sql(f"USE {database}").collect()

        def ask(statement: str) -> Answer:
            try:
                frame = frames.sql(statement)
                schema = frame.schema
                rows = tuple(sorted(_level(row, database) for row in frame.collect()))
            except (PySparkException, TypeError) as error:  # maps with keys that Python cannot hash
                return _failed(str(error))
            names = tuple(_level(name, database) for name in schema.names)
            return Answer(names, (_level(schema.simpleString(), database),), rows)

        yield ask


@contextlib.contextmanager
def _pair(spark: Spark, gateway: RunningGateway, endpoint: Endpoint, user: str) -> Iterator[tuple[Ask, Ask]]:
    theirs, ours = DATABASES["direct"], DATABASES["gateway"]
    with contextlib.ExitStack() as opened:
        if endpoint == "thrift":
            direct = opened.enter_context(_thrift(spark.host, spark.port, user, theirs, None))
            through = opened.enter_context(_thrift(gateway.host, gateway.port, user, ours, PASSWORD))
        else:
            direct = opened.enter_context(_connect(spark.session(user), theirs))
            through = opened.enter_context(
                _connect(connect_session(gateway.connect_port, f"{user}:{PASSWORD}"), ours)
            )
        yield direct, through


def make_tables(spark: Spark, user: str = BOSS) -> None:
    """Make the databases of both sides anew. What is asked directly has the rows and values that `user` sees,
    so that answers are the same where the gateway shows that, and nothing else."""
    shutil.rmtree(FILES, ignore_errors=True)
    for database in DATABASES.values():
        spark.query(
            f"DROP DATABASE IF EXISTS {database} CASCADE",
            f"DROP DATABASE IF EXISTS {database}_x CASCADE",
            f"CREATE DATABASE {database}",
            f"USE {database}",
            *TABLES,
            user="loader",
        )
    if user == ANALYST:
        seen, all_rows = (f"{DATABASES[side]}.people" for side in ("direct", "gateway"))
        spark.query(
            f"INSERT OVERWRITE {seen} SELECT id, name, region, NULL AS salary, * EXCEPT "
            f"(id, name, region, salary) FROM {all_rows} WHERE region = 'EMEA'",
            user="loader",
        )


def drop_tables(spark: Spark) -> None:
    shutil.rmtree(FILES, ignore_errors=True)
    for database in DATABASES.values():
        spark.query(
            f"DROP DATABASE IF EXISTS {database} CASCADE",
            f"DROP DATABASE IF EXISTS {database}_x CASCADE",
            user="loader",
        )


def list_functions(spark: Spark) -> list[str]:
    """Return the names of Spark's functions."""
    return [name for (name,) in spark.query("SHOW SYSTEM FUNCTIONS") if re.fullmatch(r"\w+", name)]


def describe_functions(spark: Spark, names: Iterable[str]) -> list[str]:
    """Return what Spark says of functions, with examples."""
    told = []
    with _thrift(spark.host, spark.port, "direct", "default", None) as ask:
        for name in names:
            answer = ask(f"DESCRIBE FUNCTION EXTENDED {name}")
            told += [row.encode().decode("unicode_escape") for row in answer.rows if "Examples" in row]
    return told


def run(
    spark: Spark,
    gateway: RunningGateway,
    endpoint: Endpoint,
    scripts: Iterable[Script],
    user: str = BOSS,
) -> list[Outcome]:
    """Run scripts on both sides, each in a session of its own, with tables as they were made."""
    outcomes: list[Outcome] = []
    for script in scripts:
        with _pair(spark, gateway, endpoint, user) as (direct, through):
            for statement in script.statements:
                theirs = direct(statement.replace("${db}", DATABASES["direct"]))
                ours = through(statement.replace("${db}", DATABASES["gateway"]))
                outcomes.append(Outcome(script.name, statement, theirs, ours))
    return outcomes


def share(outcomes: Iterable[Outcome]) -> float:
    """Return which part of the outcomes is the same on both sides, in percent."""
    listed = list(outcomes)
    return 100 * sum(one.same for one in listed) / max(1, len(listed))


def report(outcomes: list[Outcome], *, every: bool = False) -> Iterator[str]:
    """Yield how much is the same, and why the rest is not."""
    queries = [one for one in outcomes if is_query(one.statement)]
    ran = [one for one in outcomes if not one.direct.error]
    needless = [one for one in outcomes if one.refused_needlessly]
    yield f"{len(outcomes)} statements: {share(outcomes):.1f} % the same"
    yield f"{len(queries)} queries: {share(queries):.1f} %"
    refused = 100 * len(needless) / max(1, len(ran))
    yield f"{len(ran)} that Spark runs: {len(needless)} refused, {refused:.1f} %"
    reasons: Mapping[str, int] = Counter(one.reason for one in outcomes if not one.same)
    for reason, number in sorted(reasons.items(), key=lambda item: -item[1]):
        yield f"{number:5} {reason}"
        if every:
            for one in outcomes:
                if not one.same and one.reason == reason:
                    yield f"        {one.script}: {' '.join(one.statement.split())[:150]}"
                    if not one.through.error:
                        yield f"          direct  {one.direct[:3]}"[:300]
                        yield f"          through {one.through[:3]}"[:300]
