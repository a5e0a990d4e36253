"""What table formats have beside plain rows: each is read under a filter and a mask as over a copy that was
filtered and masked beforehand. docs/formats.md lists them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.model.spark_minors import Minor
from tests.e2e.lake.worlds import LakeSpark, OpenLake, Twins
from tests.e2e.running import RunningGateway

pytestmark = pytest.mark.night

PAGE = Path(__file__).parents[3] / "docs" / "formats.md"
CANARY = "canary-6618"
PACK = """
service: spark
policies:
  - name: analysts read
    on: {catalog: [spark_catalog, ice, paimon], database: features, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select, show]}]
  - name: rows of a region
    on: {catalog: [spark_catalog, ice, paimon], database: features, table: "*"}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: addresses
    on: {catalog: [spark_catalog, ice, paimon], database: features, table: "*", column: email}
    mask: [{groups: [analysts], type: MASK_HASH}]
"""


@dataclass(frozen=True)
class Feature:
    """A feature of a format: a table that has it, and what is done to it before it is read."""

    format: str
    name: str
    """As docs/formats.md has it."""
    properties: str = ""
    column: str = "n INT"
    value: str = "id * 10"
    """What the column of the feature gets; empty where it gets its value by itself."""
    then: Sequence[str] = ()
    """`{t}`: the table."""
    reads: Sequence[str] = ()
    minors: tuple[Minor, Minor] = (Minor(3, 5), Minor(4, 1))
    """The first and the last that have it."""
    clause: str = ""

    @property
    def table(self) -> str:
        return f"{self.format}_{self.name.replace(' ', '_').lower()}"


def delta(name: str, properties: str = "", **more: object) -> Feature:
    return Feature("delta", name, properties, **more)  # type: ignore[arg-type]


SINCE_4 = (Minor(4, 0), Minor(4, 1))
FEATURES = (
    delta(
        "row tracking",
        "'delta.enableRowTracking' = 'true'",
        then=("UPDATE {t} SET n = 7 WHERE id IN (1, 2)",),
    ),
    delta(
        "deletion vectors",
        "'delta.enableDeletionVectors' = 'true'",
        then=("DELETE FROM {t} WHERE id IN (1, 2)",),
        reads=("SELECT id FROM {t} VERSION AS OF 1 ORDER BY id",),
    ),
    delta(
        "column mapping",
        "'delta.columnMapping.mode' = 'name'",
        then=("ALTER TABLE {t} RENAME COLUMN n TO m", "ALTER TABLE {t} ADD COLUMN n STRING"),
        reads=("SELECT id, m, n, email FROM {t} WHERE m > 10 ORDER BY id",),
    ),
    delta(
        "type widening",
        "'delta.enableTypeWidening' = 'true'",
        column="n SMALLINT",
        then=("ALTER TABLE {t} ALTER COLUMN n TYPE INT",),
        reads=("SELECT id, n FROM {t} WHERE n >= 20 ORDER BY id",),
    ),
    delta(
        "default values",
        "'delta.feature.allowColumnDefaults' = 'supported'",
        column="n INT DEFAULT 5",
        value="",
        reads=("SELECT id, n FROM {t} WHERE n = 5 ORDER BY id",),
    ),
    delta(
        "identity columns",
        column="n BIGINT GENERATED ALWAYS AS IDENTITY",
        value="",
        minors=SINCE_4,
        reads=("SELECT count(DISTINCT n) AS n FROM {t}",),
    ),
    delta(
        "generated columns",
        column="n INT GENERATED ALWAYS AS (id + 1)",
        value="",
        reads=("SELECT id, n FROM {t} WHERE n > 3 ORDER BY id",),
    ),
    delta("liquid clustering", clause="CLUSTER BY (id)", minors=SINCE_4),
    delta(
        "VARIANT",
        column="n VARIANT",
        value="parse_json('{\"a\": 1}')",
        reads=("SELECT id, variant_get(n, '$.a', 'int') AS a FROM {t} ORDER BY id",),
        minors=SINCE_4,
    ),
    Feature("iceberg", "row lineage", "'format-version' = '3'", then=("UPDATE {t} SET n = 7 WHERE id < 3",)),
    Feature(
        "iceberg",
        "deletion vectors",
        "'format-version' = '3', 'write.delete.mode' = 'merge-on-read'",
        then=("DELETE FROM {t} WHERE id IN (1, 2)",),
    ),
    Feature(
        "iceberg",
        "position deletes",
        "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'",
        then=("DELETE FROM {t} WHERE id IN (1, 2)",),
    ),
    Feature(
        "iceberg",
        "column mapping",
        then=("ALTER TABLE {t} RENAME COLUMN n TO m", "ALTER TABLE {t} ADD COLUMN n STRING"),
        reads=("SELECT id, m, n, email FROM {t} WHERE m > 10 ORDER BY id",),
    ),
    Feature("iceberg", "type widening", then=("ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",)),
    Feature(
        "iceberg",
        "VARIANT",
        "'format-version' = '3'",
        column="n VARIANT",
        value="parse_json('{\"a\": 1}')",
        reads=("SELECT id, variant_get(n, '$.a', 'int') AS a FROM {t} ORDER BY id",),
        minors=SINCE_4,
    ),
    Feature(
        "paimon",
        "deletion vectors",
        "'primary-key' = 'id', 'bucket' = '1', 'deletion-vectors.enabled' = 'true'",
        then=("DELETE FROM {t} WHERE id IN (1, 2)",),
    ),
    Feature("paimon", "type widening", then=("ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",)),
)
"""Geometry is in none: neither Spark's parser up to 4.1 nor these builds have a type for it."""

CATALOG = {"delta": "spark_catalog", "iceberg": "ice", "paimon": "paimon"}
READS = (
    "SELECT id, region, email FROM {t} ORDER BY id",
    "SELECT count(*) AS n, max(email) AS e FROM {t}",
    "SELECT id FROM {t} WHERE email LIKE '%canary%' ORDER BY id",
    "SELECT a.id FROM {t} a JOIN {t} b ON a.email = b.email ORDER BY 1",
)


def made(feature: Feature, database: str, *, seen: bool) -> Iterator[str]:
    """Yield what makes a table with a feature; `seen`: as whoever has the filter and the mask sees it."""
    name = f"{CATALOG[feature.format]}.{database}.{feature.table}"
    properties = f" TBLPROPERTIES ({feature.properties})" if feature.properties else ""
    using = f" USING {feature.format}" if feature.format != "paimon" else ""
    columns = f"id INT, region STRING, email STRING, {feature.column}"
    yield f"CREATE TABLE {name} ({columns}){using} {feature.clause}{properties}"
    email = "sha2(email, 256)" if seen else "email"
    where = " WHERE region = 'EMEA'" if seen else ""
    rows = ", ".join(f"({one}, '{'AMER' if one % 2 else 'EMEA'}', '{one}@{CANARY}')" for one in range(1, 7))
    listed = "(id, region, email)" if not feature.value else ""
    value = f", {feature.value}" if feature.value else ""
    yield (
        f"INSERT INTO {name} {listed} SELECT id, region, {email}{value} "
        f"FROM VALUES {rows} AS v(id, region, email){where}"
    )
    for text in feature.then:
        yield text.replace("{t}", name)


@pytest.fixture(scope="module", params=["3.5", "3.5-paimon", "4.0", "4.1"])
def lake(request: pytest.FixtureRequest, lakes: OpenLake) -> LakeSpark:
    return lakes(request.param)


@pytest.fixture(scope="module")
def features(lake: LakeSpark) -> tuple[Feature, ...]:
    """Those that this Spark has, with a table of each."""
    found = tuple(
        one for one in FEATURES if one.format in lake.formats and one.minors[0] <= lake.minor <= one.minors[1]
    )
    for database, seen in (("features", False), ("features_copy", True)):
        for catalog in sorted({CATALOG[one.format] for one in found}):
            lake.spark.query(f"CREATE DATABASE {catalog}.{database}", user="loader")
        for one in found:
            lake.spark.query(*made(one, database, seen=seen), user="loader")
    return found


@pytest.fixture(scope="module")
def gateway(lake: LakeSpark, features: tuple[Feature, ...]) -> Iterator[RunningGateway]:
    with lake.gateway("features", PACK, {"bob": ["analysts"]}) as running:
        yield running


def test_each_is_read_as_a_copy_that_was_filtered_and_masked(
    lake: LakeSpark, gateway: RunningGateway, features: tuple[Feature, ...]
) -> None:
    wrong = []
    for catalog in sorted({CATALOG[one.format] for one in features}):
        with Twins.open(
            lake, gateway, "bob", governed=f"{catalog}.features", copies=f"{catalog}.features_copy"
        ) as bob:
            for one in (one for one in features if CATALOG[one.format] == catalog):
                for text in (*READS, *one.reads):
                    try:
                        answer = bob.same(text.replace("{t}", f"{{db}}.{one.table}"))
                        assert not answer.error, (one.name, text, answer.error)
                        assert CANARY not in str(answer.rows), (one.name, text)
                    except AssertionError as found:
                        wrong.append(f"{one.format} {one.name}: {str(found)[:600]}")
    assert not wrong, "\n".join(wrong)


def test_the_page_lists_them() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for one in FEATURES:
        assert one.name in page, one.name
