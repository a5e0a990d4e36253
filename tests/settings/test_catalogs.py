"""`catalogs:` of the settings: the documents' spellings are taken, every fault is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.catalog.kinds import KINDS
from gateway.errors import Faults
from gateway.settings.loading import parse_settings
from gateway.settings.models import Settings

DOCUMENT = """\
catalogs:
  - name: hive1
    catalog:
      type: hive
      is-default: false
      default-db: default
      connection-params:
        hive.metastore.uris: "thrift://host1:10000,thrift://host2:10000"
        hive.metastore.username: "flink"
  - name: flink1
    catalog:
      type: generic-hive-metastore
      is-default: true
      Default-db: sales
      connection-params:
        hive.metastore.uris: "thrift://host1:10000,thrift://host2:10000"
        hive.metastore.username: "flink"
        Hive.metastore.db: flink
"""


def read(text: str) -> Settings:
    return parse_settings(text, "g.yaml", Path("/conf"))


def faults_of(text: str) -> list[str]:
    with pytest.raises(Faults) as raised:
        read(text)
    return list(raised.value.faults)


def test_the_source_documents_list_loads_with_its_spellings() -> None:
    settings = read(DOCUMENT)
    default = settings.default_catalog
    assert [entry.name for entry in settings.catalogs] == ["hive1", "flink1"]
    assert default is not None
    assert (default.name, default.catalog.default_db) == ("flink1", "sales")
    assert default.catalog.parameter("hive.metastore.db") == "flink"
    assert settings.policies.catalogs == {"spark_catalog": "spark", "hive1": "spark", "flink1": "spark"}


def test_a_service_speaks_for_its_catalog() -> None:
    pg = "{type: jdbc, connection-params: {url: 'jdbc:postgresql://h/d', driver: D, password: {env: PW}}}"
    settings = read(f"catalogs: [{{name: pg, policies: lake, catalog: {pg}}}]")
    assert settings.policies.catalogs == {"spark_catalog": "spark", "pg": "lake"}
    assert "PW" not in repr(settings.catalogs[0].catalog.parameter("password"))
    told = faults_of(
        f"policies: {{catalogs: {{pg: other}}}}\ncatalogs: [{{name: pg, policies: lake, catalog: {pg}}}]"
    )
    assert told == ["g.yaml:1: `policies.catalogs` assigns `pg` to service `other`, and `catalogs` to `lake`"]


def test_a_source_of_files_may_stand_among_the_catalogs() -> None:
    told = read("""\
catalogs:
  - name: Lake
    policies: spark
    catalog:
      type: FILES
      connection-params:
        root: s3a://bucket/lake
        Auto-Promote: false
        formats: [json, csv]
        leaf-columns: 20
        refresh_s: 60
        database: raw
files:
  other: {root: "file:/data"}
""")
    by_key = read("""\
files:
  other: {root: "file:/data"}
  Lake: {root: s3a://bucket/lake, auto_promote: false, formats: [json, csv], leaf_columns: 20, refresh_s: 60,
    database: raw}
""")
    assert told == by_key, "one model behind both"
    assert told.catalogs == ()
    assert told.default_catalog is None


def test_faults_of_sources_among_the_catalogs_are_told_with_their_lines() -> None:
    assert faults_of("""\
files: {lake: {root: "file:/a"}}
catalogs:
  - name: Lake
    catalog: {type: files, connection-params: {root: "file:/b"}}
  - name: raw
    policies: other
    catalog: {type: files, is-default: true, default-db: x}
  - name: deep
    policies: other
    catalog:
      type: files
      connection-params:
        root: relative
        depht: 3
        Depth: 5
        depth: 6
  - name: wrong
    policies: other
    catalog:
      type: files
      connection-params:
        root: s3a://bucket/wrong
        depth: 99
        formats:
          - csv
          - xls
  - name: mine
    catalog: {type: files, connection-params: [root]}
""") == [
        "g.yaml:3: `files` also has a source `Lake`",
        "g.yaml:7: `default-db`: set the parameter `database` for tables of files",
        "g.yaml:7: a catalog of type `files` cannot be the default",
        "g.yaml:7: type `files` needs the parameter `root`",
        "g.yaml:14: unknown key `depht` (did you mean `depth`?)",
        "g.yaml:16: key `depth` is repeated here, first as `Depth`",
        "g.yaml:18: tables of files are in `spark_catalog`, whose service is `spark`, not `other`",
        "g.yaml:23: `catalogs.3.catalog.connection-params.depth`: input should be less than or equal to 16",
        "g.yaml:26: `catalogs.3.catalog.connection-params.formats.1`: input should be 'parquet', 'orc', "
        "'avro', 'json', 'csv' or 'delta'",
        "g.yaml:28: `connection-params` must be a mapping",
    ]


def test_files_of_secrets_lie_beside_the_settings() -> None:
    pg = "{type: jdbc, connection-params: {url: 'jdbc:x', driver: D, password: {file: pw}}}"
    secret = read(f"catalogs: [{{name: pg, catalog: {pg}}}]").catalogs[0].catalog.parameter("password")
    assert getattr(secret, "file", None) == Path("/conf/pw")


def test_all_faults_are_told_at_once_with_their_lines() -> None:
    told = faults_of("""\
catalogs:
  - name: a
    catalog: {type: hvie, Is-Default: true}
  - name: A
    catalog:
      type: jdbc
      type-x: 1
      is-default: true
      connection-params:
        url: jdbc:postgresql://h/d?user=u&password=p
        URL: jdbc:y
        driverr: x
        password: plain
  - name: 1b
    catalog: {type: iceberg, Default-db: x, default_db: y}
  - catalog: {type: memory, is-default: maybe}
  - name: d
    catalog: {type: delta}
  - name: system
    polices: x
""")
    assert told == [
        f"g.yaml:3: unknown type `hvie` (did you mean `hive`?); the types are {', '.join(KINDS)}",
        "g.yaml:4: `A` has capitals; Spark distinguishes case here and policies do not: write `a`",
        "g.yaml:4: a second default catalog: line 2 has the first; set exactly one",
        "g.yaml:4: catalog `A` is repeated here (line 2)",
        "g.yaml:7: unknown key `type-x` (did you mean `type`?)",
        "g.yaml:9: type `jdbc` needs the parameter `driver`",
        (
            "g.yaml:10: `url` contains a password: write the whole value as `{env: NAME}`, or use the "
            "parameter for passwords"
        ),
        "g.yaml:11: parameter `URL` is repeated here, first as `url`",
        "g.yaml:12: type `jdbc` has no parameter `driverr` (did you mean `driver`?)",
        "g.yaml:13: `password` is a secret: write `{env: NAME}` or `{file: PATH}`",
        "g.yaml:14: `1b` is not a valid catalog name: use letters, digits and `_`, without a digit first",
        "g.yaml:15: key `default_db` is repeated here, first as `Default-db`",
        "g.yaml:15: type `iceberg` needs the parameter `type` or `catalog-impl`",
        "g.yaml:16: `is-default` must be true or false",
        "g.yaml:16: key `name` is missing",
        "g.yaml:18: type `delta` is for the catalog `spark_catalog` alone",
        "g.yaml:19: `system` is a name reserved by Spark",
        "g.yaml:19: key `catalog` is missing",
        "g.yaml:20: unknown key `polices` (did you mean `policies`?)",
    ]


def test_no_catalog_of_spark_has_capitals() -> None:
    """To Spark `lake` is not `Lake`, and what is no catalog to it is a database of the current one."""
    assert faults_of("""\
policies:
  catalogs:
    spark_catalog: spark
    Other: spark
catalogs:
  - name: Lake
    catalog: {type: spark}
  - name: SPARK_CATALOG
    catalog: {type: delta}
""") == [
        "g.yaml:4: `Other` has capitals; Spark distinguishes case here and policies do not: write `other`",
        "g.yaml:6: `Lake` has capitals; Spark distinguishes case here and policies do not: write `lake`",
        (
            "g.yaml:8: `SPARK_CATALOG` has capitals; Spark distinguishes case here and policies do not: "
            "write `spark_catalog`"
        ),
    ]
    # Spark has none of these names.
    read("catalogs: [{name: Mem, catalog: {type: memory}}]\nfiles: {Raw: {root: 's3a://b/x'}}")


def test_a_list_of_catalogs_has_no_database() -> None:
    lake = "{uri: 'https://h', metalake: m}"
    told = faults_of(
        f"catalogs: [{{name: l, catalog: {{type: gravitino, default-db: x, connection-params: {lake}}}}}]"
    )
    assert told == ["g.yaml:1: `default-db`: a list of catalogs has no databases of its own"]


def test_nobody_speaks_for_what_spark_does_not_have() -> None:
    assert faults_of("catalogs: [{name: m, policies: spark, catalog: {type: memory}}]") == [
        "g.yaml:1: `policies`: Spark does not see a catalog of type `memory`, so policies do not apply to it"
    ]
