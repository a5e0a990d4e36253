"""Views and who defined them: histories of several users, through both endpoints, on real Spark.

`people` is masked and filtered for analysts, `secret` hides a column from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive
from pyspark.errors import PySparkException
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.frontends.users import read_users, remove_user, set_user
from tests.e2e.one_pack import ENDPOINTS, PASSWORD, Ask, Thrift, sessions, write_settings
from tests.e2e.running import RunningGateway, Spark, until

pytestmark = pytest.mark.in_turn(3)

GROUPS = {"ann": ["analysts"], "abe": ["analysts"], "hal": ["hr"], "ray": [], "zoe": ["movers"]}
PACK = """
service: spark
policies:
  - name: everybody reads and makes views
    on: {catalog: spark_catalog, database: dv, table: "v*", column: "*"}
    allow: [{users: [ann, abe, hal, ray, zoe], access: [select, create, drop, alter]}]
  - name: the tables
    on: {catalog: spark_catalog, database: dv, table: [people, free], column: "*"}
    allow: [{groups: [analysts, hr, movers], access: [select]}]
  - name: what analysts see of the secret
    on: {catalog: spark_catalog, database: dv, table: secret, column: [id, name]}
    allow: [{groups: [analysts], access: [select]}]
  - name: hr sees all of it
    on: {catalog: spark_catalog, database: dv, table: secret, column: "*"}
    allow: [{groups: [hr], access: [select]}]
  - name: no numbers for analysts
    on: {catalog: spark_catalog, database: dv, table: people, column: ssn}
    mask: [{groups: [analysts], type: CUSTOM, show: "concat('x', ssn)"}]
  - name: region of analysts
    on: {catalog: spark_catalog, database: dv, table: people}
    filter: [{groups: [analysts], where: "region = 'EU'"}]
"""
DENIED = """
  - name: ann is denied
    on: {catalog: spark_catalog, database: dv, table: [people, free, secret], column: "*"}
    deny: [{users: [ann], access: [all]}]
"""
MADE = (
    "CREATE DATABASE dv",
    "CREATE TABLE dv.people USING parquet AS SELECT * FROM VALUES "
    "(1, 'EU', '11'), (2, 'EU', '22'), (3, 'US', '33') AS t(id, region, ssn)",
    "CREATE TABLE dv.free USING parquet AS SELECT * FROM VALUES (1), (2) AS t(id)",
    "CREATE TABLE dv.secret USING parquet AS SELECT * FROM VALUES (1, 'a', 'CANARY') AS t(id, name, pin)",
    "CREATE VIEW dv.v_elsewhere AS SELECT id, ssn FROM dv.people",
)
"""Made by the operator, past the gateway."""
ALL = [(1, "11"), (2, "22"), (3, "33")]
ANALYSTS = [(1, "x11"), (2, "x22")]


class Place:
    """A gateway of its own, whose policies and users change."""

    def __init__(self, directory: Path, spark: Spark) -> None:
        self.directory = directory
        file = write_settings(directory, spark, PACK, GROUPS, policies={"reload_s": 0.1})
        self.gateway = RunningGateway(file).start()

    def policies(self, pack: str) -> None:
        """Put a pack in force."""
        file = self.directory / "pack.yaml"
        if file.read_text() == pack:
            return
        before = self._version()
        # At once: of half a file the gateway would make policies of their own.
        new = self.directory / "pack.new"
        new.write_text(pack)
        new.replace(file)
        until(lambda: self._version() > before, "the policies are in force")

    def users(self, change: Callable[[Path], object]) -> None:
        """Change the user file and wait until it is in force."""
        seen = self.gateway.count_events("users_reloaded")
        change(self.directory / "users.yaml")
        until(lambda: self.gateway.count_events("users_reloaded") > seen, "the users are in force")

    def restart(self) -> None:
        """Stop the gateway and start it anew."""
        assert self.gateway.stop() == 0
        self.gateway.start()

    def _version(self) -> float:
        _, metrics = self.gateway.admin("/metrics")
        (line,) = (line for line in metrics.splitlines() if line.startswith("sluice_policy_version "))
        return float(line.split()[1])


@pytest.fixture(scope="module")
def running(spark: Spark, open_directory: Path) -> Iterator[Place]:
    spark.query(*MADE, user="loader")
    place = Place(open_directory / "definers", spark)
    yield place
    assert place.gateway.stop() == 0


@pytest.fixture
def place(running: Place) -> Iterator[Place]:
    yield running
    running.policies(PACK)


@pytest.fixture
def ask(place: Place) -> Iterator[Callable[[str, str], Ask]]:
    """Open sessions: `ask(endpoint, user)(text)`."""
    with sessions(place.gateway) as asked:
        yield asked


def refusal(ask: Ask, text: str) -> str:
    """Return the words that a statement is refused with."""
    try:
        rows = ask(text)
    except hive.OperationalError as error:
        return str(error.args[0].status.errorMessage)
    except PySparkException as error:
        return str(error)
    raise AssertionError(f"not refused, but answered {rows[:3]}")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_denial_closes_the_view_for_everybody(ask: Any, place: Place, endpoint: str) -> None:
    ann, hal, ray = (ask(endpoint, user) for user in ("ann", "hal", "ray"))
    ann("CREATE OR REPLACE VIEW dv.v_rev AS SELECT id FROM dv.free")
    ann("CREATE OR REPLACE TEMPORARY VIEW t_rev AS SELECT id FROM dv.v_rev")
    assert ann("SELECT * FROM dv.v_rev") == hal("SELECT * FROM dv.v_rev") == [(1,), (2,)]
    assert ray("SELECT * FROM dv.v_rev") == ann("SELECT * FROM t_rev") == [(1,), (2,)]
    place.policies(PACK + DENIED)
    for session in (ann, ask("thrift", "ann"), ask("connect", "ann")):
        assert "dv.free" in refusal(session, "SELECT * FROM dv.v_rev")
        refusal(session, "CREATE OR REPLACE VIEW dv.v_new AS SELECT id FROM dv.free")
        refusal(session, "CREATE OR REPLACE VIEW dv.v_new AS SELECT id FROM dv.v_rev")
    refusal(ann, "SELECT * FROM t_rev")
    for session in (hal, ray, ask("connect", "ray")):
        told = refusal(session, "SELECT * FROM dv.v_rev")
        assert "is closed, because its definer ann" in told
        assert "dv.free" not in told
    # Who has the access defines it anew, and it is open to everybody who may select from the view.
    hal("ALTER VIEW dv.v_rev AS SELECT id FROM dv.free WHERE id = 1")
    assert ann("SELECT * FROM dv.v_rev") == ray("SELECT * FROM dv.v_rev") == [(1,)]
    place.policies(PACK)
    assert hal("SELECT * FROM dv.v_rev") == [(1,)]


METRICS = """CREATE VIEW dv.v_mv WITH METRICS LANGUAGE YAML AS $$
version: 0.1
source: dv.people
filter: {rows}
dimensions:
  - name: region
    expr: region
measures:
  - name: last
    expr: max(ssn)
$$"""


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_metric_views_lend_what_their_definers_have_now(ask: Any, place: Place, endpoint: str) -> None:
    """In sessions that are open, whatever they have read before."""
    hal, ann, ray = (ask(endpoint, user) for user in ("hal", "ann", "ray"))
    hal(METRICS.format(rows="id > 0"))
    read = "SELECT region, measure(last) FROM dv.v_mv GROUP BY region"
    whole, masked = [("EU", "22"), ("US", "33")], [("EU", "x22")]
    with place.gateway.session("ray", PASSWORD) as session:
        frame = session.table("dv.v_mv").groupBy("region").agg(F.expr("measure(last) AS last"))
        for _ in range(2):
            assert [hal(read), ray(read), ann(read)] == [whole, whole, masked]
            assert sorted(map(tuple, frame.collect())) == whole
        place.policies(PACK + DENIED.replace("users: [ann]", "users: [hal]"))
        for reader in (hal, ray, ann):
            assert "SLUICE_ACCESS_DENIED" in refusal(reader, read)
        with pytest.raises(PySparkException, match="SLUICE_ACCESS_DENIED"):
            frame.collect()
        place.policies(PACK + DENIED.replace("users: [ann]", "users: [ray]"))
        # Who reads by a definer need not select himself what a view reads.
        assert [hal(read), ray(read), ann(read)] == [whole, whole, masked]
        place.policies(PACK)
        hal("DROP VIEW dv.v_mv")
        hal(METRICS.format(rows="region = 'EU' AND ssn < '20'"))
        assert [hal(read), ray(read), ann(read)] == [[("EU", "11")], [("EU", "11")], []]
        assert sorted(map(tuple, frame.collect())) == [("EU", "11")]
        hal("DROP VIEW dv.v_mv")
        hal("CREATE VIEW dv.v_mv AS SELECT region, ssn AS last FROM dv.people")
        assert [ray("SELECT max(last) FROM dv.v_mv"), ann("SELECT max(last) FROM dv.v_mv")] == [
            [("33",)],
            [("x22",)],
        ]
        with pytest.raises(PySparkException):
            frame.collect()
    hal("DROP VIEW dv.v_mv")


AUTHORED = """
  - name: rows of free, by hal
    author: hal
    on: {catalog: spark_catalog, database: dv, table: free}
    filter: [{users: [ray, zoe], where: "id IN (SELECT id FROM spark_catalog.dv.secret)"}]
  - name: ray reads free
    on: {catalog: spark_catalog, database: dv, table: free, column: "*"}
    allow: [{users: [ray], access: [select]}]
"""
CLOSED = "is closed, because its author lacks select on"


@pytest.mark.in_turn(3, place=0)
def test_a_text_closes_in_open_sessions_with_its_author(ask: Any, place: Place) -> None:
    """Whatever these have read before: in SQL, by views, temporary views, frames, and what runs at once."""
    kept = (place.directory / "users.yaml").read_text()
    hal = read_users(place.directory / "users.yaml")["hal"].principal
    authored = AUTHORED.replace("author: hal", f'author: hal\n    author_id: "{hal.id}"')
    place.policies(PACK + authored)
    readers = [ask(endpoint, user) for endpoint in ENDPOINTS for user in ("ray", "zoe")]
    ask("thrift", "zoe")("CREATE OR REPLACE VIEW dv.v_texts AS SELECT id FROM dv.free")
    texts = ["SELECT id FROM dv.free", "SELECT id FROM dv.v_texts"]
    with place.gateway.session("ray", PASSWORD) as session:
        frames = [session.table("dv.free"), session.sql("SELECT id FROM dv.free WHERE id < ?", args=[9])]
        frames.append(frames[0].filter("id > 0").select(F.col("id")))

        def opened() -> None:
            for reader in readers:
                reader("CREATE OR REPLACE TEMPORARY VIEW t_texts AS SELECT id FROM dv.free")
                assert reader("SELECT id FROM t_texts") == [(1,)]
            for _ in range(2):
                assert [reader(text) for reader in readers for text in texts] == [[(1,)]] * 8
                assert [[row.id for row in frame.collect()] for frame in frames] == [[1]] * 3

        def closed() -> None:
            for reader in readers:
                for text in texts:
                    assert CLOSED in refusal(reader, text)
                refusal(reader, "SELECT id FROM t_texts")
                refusal(reader, "CREATE OR REPLACE TEMPORARY VIEW t_more AS SELECT id FROM dv.free")
            for frame in frames:
                with pytest.raises(PySparkException, match=CLOSED):
                    frame.collect()

        opened()
        for rights in (
            DENIED.replace("users: [ann]", "users: [hal]"),
            "  - name: a mask\n    on: {catalog: spark_catalog, database: dv, table: secret, column: pin}\n"
            "    mask: [{users: [hal], type: MASK_NULL}]\n",
            "  - name: a filter\n    on: {catalog: spark_catalog, database: dv, table: secret}\n"
            "    filter: [{users: [hal], where: id > 0}]\n",
        ):
            place.policies(PACK + authored + rights)
            closed()
            place.policies(PACK + authored)
            opened()
        for change in (
            lambda file: set_user(file, "hal", password=PASSWORD, groups=[]),
            lambda file: remove_user(file, "hal"),
        ):
            place.users(change)
            closed()
            place.users(lambda file: file.write_text(kept))
            opened()
        place.users(lambda file: remove_user(file, "hal"))
        place.users(lambda file: set_user(file, "hal", password=PASSWORD, groups=GROUPS["hal"]))
        closed()
        place.users(lambda file: file.write_text(kept))
        place.policies(PACK + authored.replace("author: hal", "author: ray"))
        closed()


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_everybody_gets_his_own_obligations(ask: Any, spark: Spark, endpoint: str) -> None:
    """As dbt makes its models: what a masked analyst made is whole for whom nothing is hidden from."""
    ann, hal, ray = (ask(endpoint, user) for user in ("ann", "hal", "ray"))
    ann("CREATE OR REPLACE VIEW dv.v_own COMMENT 'it''s' AS SELECT id, ssn FROM dv.people")
    ann("USE dv")
    model = "select id, upper(ssn) as ssn -- a model\n from people p"
    ann(f"create or replace view v_model\n  as\n    (\n  {model}\n)")
    for view in ("v_own", "v_model"):
        assert hal(f"SELECT * FROM dv.{view}") == ALL
        told = [(i, s.upper()) for i, s in ANALYSTS] if view == "v_model" else ANALYSTS
        assert ann(f"SELECT * FROM dv.{view}") == told
        # By ann's access: ray sees what she sees.
        assert ray(f"SELECT * FROM dv.{view}") == told
    # What is stored is the user's own text with its names in full.
    (text,) = [row[1] for row in spark.query("DESCRIBE EXTENDED dv.v_model") if row[0] == "View Text"]
    assert "upper(ssn) as ssn -- a model" in text
    assert "`spark_catalog`.`dv`.`people` p" in text
    assert "concat" not in text


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_views_over_views_have_each_their_own_definer(ask: Any, place: Place, endpoint: str) -> None:
    ann, hal, ray = (ask(endpoint, user) for user in ("ann", "hal", "ray"))
    hal("CREATE OR REPLACE VIEW dv.v_base AS SELECT id, region, ssn FROM dv.people")
    ann("CREATE OR REPLACE VIEW dv.v_top AS SELECT id, ssn FROM dv.v_base")
    assert hal("SELECT * FROM dv.v_top") == ALL
    assert ann("SELECT * FROM dv.v_top") == ANALYSTS
    # ray may select both views: nobody's masks but his own hold, and he has none.
    assert ray("SELECT * FROM dv.v_top") == ALL
    no_base = PACK + (
        "\n  - name: not the base\n    on: {catalog: spark_catalog, database: dv, table: v_base, column: '*'}"
        "\n    deny: [{users: [ray], access: [all]}]\n"
    )
    place.policies(no_base)
    # Now he reads the base by ann's access, who is masked and filtered there.
    assert ray("SELECT * FROM dv.v_top") == ANALYSTS
    refusal(ray, "SELECT * FROM dv.v_base")
    place.policies(
        PACK + "\n  - name: hal has left\n    on: {catalog: spark_catalog, database: dv, table: people, "
        "column: '*'}\n    deny: [{users: [hal], access: [all]}]\n"
    )
    assert "is closed, because its definer hal" in refusal(ann, "SELECT * FROM dv.v_top")
    assert "is closed, because its definer hal" in refusal(ray, "SELECT * FROM dv.v_top")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_hidden_columns_are_not_there_for_a_view_either(ask: Any, spark: Spark, endpoint: str) -> None:
    ann, hal, ray = (ask(endpoint, user) for user in ("ann", "hal", "ray"))
    ann("CREATE OR REPLACE VIEW dv.v_named AS SELECT id, name FROM dv.secret")
    assert ann("SELECT * FROM dv.v_named") == ray("SELECT * FROM dv.v_named") == [(1, "a")]
    hal("CREATE OR REPLACE VIEW dv.v_pin AS SELECT id, pin FROM dv.secret")
    assert ann("SELECT * FROM dv.v_pin") == ray("SELECT * FROM dv.v_pin") == [(1, "CANARY")]
    told = []
    for column in ("pin", "nope"):
        text = f"CREATE OR REPLACE VIEW dv.v_told AS SELECT {column} FROM dv.secret"
        told.append(refusal(ann, text).replace(column, "?"))
    assert told[0] == told[1]
    refusal(ann, "CREATE OR REPLACE VIEW dv.v_told AS SELECT * FROM dv.secret")
    refusal(ann, "ALTER VIEW dv.v_pin AS SELECT pin FROM dv.secret")
    assert ("v_told",) not in [row[1:2] for row in spark.query("SHOW VIEWS IN dv")]
    assert hal("SELECT * FROM dv.v_pin") == [(1, "CANARY")]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_hidden_column_is_not_found_elsewhere(ask: Any, endpoint: str) -> None:
    """`pin` is hidden from ann: no other column of the name answers for it, nor for one that nobody has."""
    ann, hal = ask(endpoint, "ann"), ask(endpoint, "hal")
    for text, answer in (
        ("SELECT upper(name) AS {c}, concat({c}, '!') AS x FROM dv.secret", [("A", "CANARY!")]),
        ("SELECT (SELECT max({c}) FROM dv.secret) AS x FROM (SELECT 'o' AS {c}) o", [("CANARY",)]),
        ("SELECT max(name) AS {c}, count(*) AS n FROM dv.secret GROUP BY {c}", None),
        ("SELECT name AS {c}, row_number() OVER (ORDER BY {c}) AS r FROM dv.secret", [("a", 1)]),
    ):
        told = [refusal(ann, text.format(c=c)).replace(c, "?") for c in ("pin", "nope")]
        told = [re.sub(r"[0-9a-f-]{36}", "", one) for one in told]
        assert told[0] == told[1]
        assert "`?` could be resolved to a column" in told[0]
        if answer is not None:
            assert hal(text.format(c="pin")) == answer
    natural = "SELECT s.id FROM dv.secret s NATURAL JOIN (SELECT 1 AS id, 'other' AS pin) o"
    assert hal(natural) == []
    assert "select on every column of table" in refusal(ann, natural)
    assert ann("SELECT upper(name) AS pin, count(*) FROM dv.secret GROUP BY 1 ORDER BY pin") == [("A", 1)]


def test_nor_in_dataframes(place: Place) -> None:
    def frames(session: Any, column: str) -> list[Any]:
        secret = session.table("dv.secret")
        beside = F.concat(F.col(column), F.lit("!")).alias("x")
        other = session.range(1).select(F.lit("a").alias(column))
        return [
            secret.select(F.upper("name").alias(column), beside),
            other.where(secret.where(F.col(column) == F.col("name")).select("id").exists()),
        ]

    with place.gateway.session("hal", PASSWORD) as session:
        assert [len(frame.collect()) for frame in frames(session, "pin")] == [1, 0]
    with place.gateway.session("ann", PASSWORD) as session:
        for column in ("pin", "nope"):
            for frame in frames(session, column):
                with pytest.raises(PySparkException, match=f"`{column}` could be resolved to a column"):
                    frame.collect()


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_nobody_writes_a_definer(ask: Any, spark: Spark, endpoint: str) -> None:
    ann, hal, ray = (ask(endpoint, user) for user in ("ann", "hal", "ray"))
    hal("CREATE OR REPLACE VIEW dv.v_forged TBLPROPERTIES ('meta.a' = 'b') AS SELECT id, pin FROM dv.secret")
    shown = dict(spark.query("SHOW TBLPROPERTIES dv.v_forged"))
    assert shown["meta.a"] == "b"
    (key,) = [name for name in shown if name.startswith("sluice.definer.")]
    assert bytes.fromhex(shown[key]).split()[-1] == b"hal"
    for text in (
        f"ALTER VIEW dv.v_forged SET TBLPROPERTIES ('{key}' = '72617a')",
        f"ALTER VIEW dv.v_forged SET TBLPROPERTIES ('{key.upper()}' = '72617a')",
        f"ALTER TABLE dv.v_forged SET TBLPROPERTIES ('{key}' = '72617a')",
        f"ALTER VIEW dv.v_forged UNSET TBLPROPERTIES ('{key}')",
        f"ALTER TABLE dv.v_forged UNSET TBLPROPERTIES IF EXISTS ('{key}')",
        "CREATE VIEW dv.v_two TBLPROPERTIES (sluice.definer = 'hal') AS SELECT 1 AS id",
        f"CREATE TABLE dv.v_two TBLPROPERTIES ('{key}' = '{shown[key]}') AS SELECT 1 AS id",
        f"CREATE TABLE dv.v_two (id INT) USING parquet OPTIONS ('{key}' = '{shown[key]}')",
    ):
        refusal(hal, text)
        refusal(ann, text)
    assert dict(spark.query("SHOW TBLPROPERTIES dv.v_forged"))[key] == shown[key]
    # Another text past the gateway: the record is of the old one, and the reader's own access counts.
    spark.query("ALTER VIEW dv.v_forged AS SELECT id, pin AS pin FROM dv.secret")
    hal("ALTER VIEW dv.v_forged SET TBLPROPERTIES ('meta.a' = 'c')")  # so that the gateway looks again
    assert "needs select" in refusal(ray, "SELECT * FROM dv.v_forged")
    assert hal("SELECT * FROM dv.v_forged") == [(1, "CANARY")]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_what_show_create_table_tells_makes_a_view_of_whoever_runs_it(
    ask: Any, spark: Spark, endpoint: str
) -> None:
    ann, hal, ray = (ask(endpoint, user) for user in ("ann", "hal", "ray"))
    hal("CREATE OR REPLACE VIEW dv.v_told TBLPROPERTIES ('meta.a' = 'b') AS SELECT id FROM dv.people")
    hal("ALTER VIEW dv.v_told AS SELECT id, ssn FROM dv.people")
    ((told,),) = hal("SHOW CREATE TABLE dv.v_told")
    assert told.count("sluice.definer.") == 2
    again = told.replace("v_told", "v_retold").replace("CREATE VIEW", "CREATE OR REPLACE VIEW")
    for maker, seen in ((hal, ALL), (ann, ANALYSTS), (hal, ALL)):
        maker(again)
        assert ray("SELECT * FROM dv.v_retold") == seen
        shown = dict(spark.query("SHOW TBLPROPERTIES dv.v_retold"))
        assert shown["meta.a"] == "b"
        assert len([key for key in shown if key.startswith("sluice.definer.")]) == 1
    # Of the text that it will have later somebody else says nothing either.
    later = next(part for part in told.split("'") if part.startswith("sluice.definer."))
    forged = f"TBLPROPERTIES ('{later}' = '{b'hal'.hex()}', '{later.upper()}' = '{b'hal'.hex()}')"
    ann(f"CREATE OR REPLACE VIEW dv.v_retold {forged} AS SELECT id, ssn FROM dv.people WHERE true")
    ann("ALTER VIEW dv.v_retold AS SELECT id, ssn FROM dv.people")
    assert ray("SELECT * FROM dv.v_retold") == ANALYSTS


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_name_that_is_made_again_has_nothing_of_the_one_before(ask: Any, endpoint: str) -> None:
    ann, hal, ray = (ask(endpoint, user) for user in ("ann", "hal", "ray"))
    hal("CREATE OR REPLACE VIEW dv.v_again AS SELECT id, ssn FROM dv.people")
    assert ray("SELECT * FROM dv.v_again") == ALL
    ann("ALTER VIEW dv.v_again AS SELECT id, ssn FROM dv.people")
    assert ray("SELECT * FROM dv.v_again") == ANALYSTS
    assert ann("SELECT * FROM dv.v_again") == ANALYSTS
    hal("ALTER VIEW dv.v_again RENAME TO dv.v_renamed")
    assert ray("SELECT * FROM dv.v_renamed") == ANALYSTS
    ann("DROP VIEW dv.v_renamed")
    hal("CREATE VIEW dv.v_renamed AS SELECT id, ssn FROM dv.people")
    assert ray("SELECT * FROM dv.v_renamed") == ALL
    # IF NOT EXISTS changes nothing, and nobody.
    ann("CREATE VIEW IF NOT EXISTS dv.v_renamed AS SELECT id, ssn FROM dv.people")
    assert ray("SELECT * FROM dv.v_renamed") == ALL
    # Spark refuses the new text: the old one and its definer stay.
    refusal(ann, "ALTER VIEW dv.v_renamed AS SELECT id, nope FROM dv.people")
    assert ray("SELECT * FROM dv.v_renamed") == ALL
    hal("DROP VIEW dv.v_renamed")


def test_definers_are_who_they_are_now(ask: Any, place: Place) -> None:
    zoe, ray = ask("thrift", "zoe"), ask("connect", "ray")
    zoe("CREATE OR REPLACE VIEW dv.v_moved AS SELECT id FROM dv.free")
    assert ray("SELECT * FROM dv.v_moved") == [(1,), (2,)]
    place.users(lambda file: set_user(file, "zoe", groups=["nobody"]))
    assert "is closed, because its definer zoe" in refusal(ray, "SELECT * FROM dv.v_moved")
    refusal(zoe, "SELECT * FROM dv.v_moved")
    place.users(lambda file: set_user(file, "zoe", groups=["movers"]))
    assert ray("SELECT * FROM dv.v_moved") == [(1,), (2,)]
    kept = (place.directory / "users.yaml").read_text()
    place.users(lambda file: remove_user(file, "zoe"))
    assert "is closed, because its definer zoe" in refusal(ray, "SELECT * FROM dv.v_moved")
    place.users(lambda file: set_user(file, "zoe", password=PASSWORD, groups=["movers"]))
    assert "is closed, because its definer zoe" in refusal(ray, "SELECT * FROM dv.v_moved"), (
        "she is somebody else"
    )
    place.users(lambda file: file.write_text(kept))
    assert ray("SELECT * FROM dv.v_moved") == [(1,), (2,)]


def test_a_definer_outlives_the_gateway(place: Place) -> None:
    def rows(user: str) -> list[Any]:
        session = Thrift(place.gateway, user)
        try:
            return session("SELECT * FROM dv.v_lasting")
        finally:
            session.close()

    ann = Thrift(place.gateway, "ann")
    ann("CREATE OR REPLACE VIEW dv.v_lasting AS SELECT id, ssn FROM dv.people")
    ann.close()
    place.restart()
    assert rows("hal") == ALL
    assert rows("ray") == ANALYSTS
    place.policies(PACK + DENIED)
    place.restart()
    with pytest.raises(hive.OperationalError, match="is closed, because its definer ann"):
        rows("ray")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_view_that_was_made_elsewhere_is_the_operators(ask: Any, endpoint: str) -> None:
    assert ask(endpoint, "ray")("SELECT * FROM dv.v_elsewhere") == ALL
    assert ask(endpoint, "ann")("SELECT * FROM dv.v_elsewhere") == ANALYSTS
