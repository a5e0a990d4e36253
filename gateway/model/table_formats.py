"""Table formats: the extension of Spark's that each brings, and which artifact of Maven's has it for a minor.

Minors that are not here have no build of the format, or none that was tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.errors import SluiceError
from gateway.model.spark_minors import Minor
from gateway.model.system_tables import NameForm, Treatment, list_names


class UnsupportedFormat(SluiceError):
    """A table format that is not known, or has no build for a minor version of Spark."""

    code = "UNSUPPORTED_FORMAT"
    sqlstate = "0A000"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A jar, as Maven names it."""

    group: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFormat:
    """What makes Spark read a format, and its statements."""

    name: str
    extension: str
    """Class for `spark.sql.extensions`."""
    jar: str
    """What the name of the jar with that class begins with, for every minor."""
    artifacts: Mapping[Minor, tuple[Artifact, ...]]
    """All jars that Spark needs beside its own; the first one has the extension."""
    metadata_naming: NameForm | None = None
    """How its tables of metadata are named; below their table, a nested namespace may be as well."""
    branched: bool = False
    """Whether its tables have branches."""
    loaded_by_name: bool = False
    """Whether a reader's `load` takes the name of a table; with a slash in it, it is a path."""
    kept_by_sessions: bool = False
    """Whether its catalogs keep what a table is, for each session of Spark by itself."""
    key_property: str = ""
    """Property of a table in which a row that is added takes the place of the one with its key; empty: rows
    are only added."""
    sets: Mapping[str, str] = field(default_factory=dict)
    """Settings that its extension makes in a session, when that analyses its first plan."""

    def jar_prefix(self, minor: Minor) -> str:
        """Return what the name of the jar begins with that is for a minor."""
        artifacts = self.artifacts.get(minor)
        return f"{artifacts[0].name}-" if artifacts else self.jar

    def artifacts_for(self, minor: Minor) -> tuple[Artifact, ...]:
        """Return the jars for a minor. Raises UnsupportedFormat when there is no build."""
        found = self.artifacts.get(minor)
        if found is None:
            minors = ", ".join(map(str, sorted(self.artifacts)))
            raise UnsupportedFormat(f"{self.name} does not support Spark {minor}; it supports Spark {minors}")
        return found


def _iceberg(minor: str, scala: str, version: str) -> tuple[Artifact, ...]:
    return (Artifact("org.apache.iceberg", f"iceberg-spark-runtime-{minor}_{scala}", version),)


def _delta(spark: str, version: str) -> tuple[Artifact, ...]:
    return (
        Artifact("io.delta", f"delta-spark_{spark}", version),
        Artifact("io.delta", "delta-storage", version),
    )


ICEBERG = TableFormat(
    name="iceberg",
    extension="org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    jar="iceberg-spark-runtime-",
    artifacts={
        Minor(3, 5): _iceberg("3.5", "2.12", "1.9.2"),
        Minor(4, 0): _iceberg("4.0", "2.13", "1.11.0"),
        Minor(4, 1): _iceberg("4.1", "2.13", "1.12.0"),
    },
    metadata_naming=NameForm.BELOW,
    branched=True,
    loaded_by_name=True,
    kept_by_sessions=True,
)
DELTA = TableFormat(
    name="delta",
    extension="io.delta.sql.DeltaSparkSessionExtension",
    jar="delta-spark_",
    artifacts={
        Minor(3, 5): _delta("2.12", "3.3.2"),
        Minor(4, 1): _delta("4.1_2.13", "4.4.0"),
    },
    sets=dict.fromkeys(
        ("spark.sql.parquet.fieldId.read.enabled", "spark.sql.parquet.fieldId.write.enabled"), "true"
    ),
)
PAIMON = TableFormat(
    name="paimon",
    extension="org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
    jar="paimon-spark-",
    artifacts={Minor(3, 5): (Artifact("org.apache.paimon", "paimon-spark-3.5", "0.9.0"),)},
    metadata_naming=NameForm.AFTER,
    kept_by_sessions=True,
    key_property="primary-key",
)

FORMATS: Mapping[str, TableFormat] = {one.name: one for one in (ICEBERG, DELTA, PAIMON)}
SPARK_FORMATS = frozenset({"parquet", "orc", "csv", "json", "text", "avro"})
"""Formats of files that Spark itself has."""
BY_EXTENSION: Mapping[str, TableFormat] = {one.extension: one for one in FORMATS.values()}

METADATA_TABLES: Mapping[str, frozenset[str]] = {
    one.name: list_names(one.name, Treatment.METADATA, one.metadata_naming)
    for one in FORMATS.values()
    if one.metadata_naming is not None
}
"""Format → its tables that show no rows; but values, bounds of values, counts and paths."""
NAMED_BELOW = frozenset(one.name for one in FORMATS.values() if one.metadata_naming is NameForm.BELOW)
BRANCHED = frozenset(one.name for one in FORMATS.values() if one.branched)
LOADED_BY_NAME = frozenset(one.name for one in FORMATS.values() if one.loaded_by_name)
METADATA_COLUMNS = frozenset(
    """_metadata _file _pos _deleted _partition _spec_id _row_id _last_updated_sequence_number
    _commit_snapshot_id _change_type _commit_version _commit_timestamp""".split()
)
"""Columns of Spark and of table formats that tables have beside their own, without showing them."""
CONSTRAINT_PREFIX = "delta.constraints."
"""What properties of tables begin with that are CHECK constraints."""
QUERY_AUTH = "query-auth.enabled"
"""Property of Paimon's tables whose catalog says for each reader which rows and values he sees."""
KEY_PROPERTIES = {one.name: one.key_property for one in FORMATS.values() if one.key_property}
REPLACES_ROWS = frozenset({"hudi"})
"""Formats of which nobody is told by a property whether a row that is added takes the place of another."""
COLUMNS_OF_COPIES = frozenset({"_hoodie_record_key", "_hoodie_partition_path"})
"""Columns, lower case, in which Hudi keeps values of others again, whatever the catalog calls the format:
a class, or Hive; and in views."""
KEPT_BY_SESSIONS = frozenset(one.name for one in FORMATS.values() if one.kept_by_sessions)

LISTED_EXTENSIONS = frozenset(BY_EXTENSION)
"""Classes of `spark.sql.extensions` whose parsers the reader runs as well. An extension may bring a parser
that stands before Spark's, functions in the place of built-in ones, rules that change plans: one that is not
here is refused."""

APART = frozenset({ICEBERG.name, PAIMON.name})
"""Never together on one class path: both bring a class of one name, for their parsers."""


def may_replace_rows(provider: str) -> bool:
    """Whether a row that is added to a table of this format, or class, may take the place of another one,
    which no property tells."""
    return not REPLACES_ROWS.isdisjoint(provider.lower().split("."))


def list_settings_of_formats(formats: Iterable[TableFormat], settings: Mapping[str, str]) -> dict[str, str]:
    """Return those of a session's settings that extensions of formats have made, and nobody since."""
    return {key: value for one in formats for key, value in one.sets.items() if settings.get(key) == value}


def format_named(name: str) -> TableFormat:
    """Return a format by its name. Raises UnsupportedFormat."""
    found = FORMATS.get(name)
    if found is None:
        raise UnsupportedFormat(f"unknown table format `{name}`; the formats are {', '.join(FORMATS)}")
    return found


def formats_of(extensions: tuple[str, ...]) -> tuple[TableFormat, ...]:
    """Return the formats of these extensions, in their order.

    Raises UnsupportedFormat for one that is not listed, and for two that exclude each other.
    """
    unlisted = next((name for name in extensions if name not in BY_EXTENSION), None)
    if unlisted is not None:
        raise UnsupportedFormat(
            f"Spark runs the extension `{unlisted}`, which the parser does not support, so it cannot parse "
            "statements as Spark does; start Spark without it"
        )
    found = tuple(BY_EXTENSION[name] for name in extensions)
    if {one.name for one in found} >= APART:
        raise UnsupportedFormat(
            "Spark runs the extensions of Iceberg and Paimon together, whose parsers contain different "
            "classes of the same name; start Spark with one of them"
        )
    return found
