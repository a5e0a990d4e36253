"""Kinds of catalogs: which parameters each takes, and what Spark is told of it.

Keys of parameters are compared without regard to case, as Spark compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.model.table_formats import DELTA, ICEBERG, PAIMON

SESSION_CATALOG = "spark_catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogKind:
    """One `type` of the settings."""

    name: str
    plugin: str = ""
    """Class that Spark is told as `spark.sql.catalog.NAME`; empty: none but what `class` says."""
    session_plugin: str = ""
    """The class instead, where the catalog is Spark's session catalog."""
    extension: str = ""
    """Class that Spark needs in `spark.sql.extensions`, on top."""
    required: tuple[tuple[str, ...], ...] = ()
    """Parameters that must be there: one of each tuple."""
    known: frozenset[str] = frozenset()
    """Parameters that are taken, lower case, beside the required ones."""
    prefixes: tuple[str, ...] = ()
    """What further parameters may begin with, lower case."""
    on_spark: bool = True
    """Whether names may begin with it: Spark has a catalog of this name."""
    lists: bool = False
    """Whether it is a list of catalogs, and none itself."""
    begins_somewhere: bool = True
    """Whether its class says in which database sessions of Spark Connect begin."""
    session_only: bool = False
    """Whether the only name it can have is Spark's session catalog's."""

    def takes(self, key: str) -> bool:
        """Whether there is such a parameter."""
        folded = key.lower()
        return folded in self.parameters or folded.startswith(self.prefixes)

    @property
    def parameters(self) -> frozenset[str]:
        """Names of all parameters that are known by name."""
        return self.known | {name for names in self.required for name in names}

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Say which required parameters are not among `keys`, each as `a` or `a or b`."""
        given = {key.lower() for key in keys}
        return [" or ".join(f"`{n}`" for n in names) for names in self.required if not given & set(names)]


_HIVE = frozenset(
    {
        "hive.metastore.uris",
        "hive.metastore.username",
        "hive.metastore.password",
        "hive.metastore.db",
        "hive.version",
        "class",
    }
)
_HIVE_CLASS = "org.apache.kyuubi.spark.connector.hive.HiveTableCatalog"
"""Spark has one Hive metastore, its session catalog's. For a second one there is this connector of Kyuubi's,
which the operator puts on Spark's class path; `class` names another."""

KINDS: Mapping[str, CatalogKind] = {
    one.name: one
    for one in (
        CatalogKind(name="spark", known=frozenset({"class"}), prefixes=("",)),
        CatalogKind(
            name="hive",
            plugin=_HIVE_CLASS,
            required=(("hive.metastore.uris",),),
            known=_HIVE,
            prefixes=("hive.", "hadoop."),
        ),
        CatalogKind(
            name="generic-hive-metastore",
            plugin=_HIVE_CLASS,
            required=(("hive.metastore.uris",),),
            known=_HIVE,
            prefixes=("hive.", "hadoop."),
        ),
        CatalogKind(
            name="iceberg",
            plugin="org.apache.iceberg.spark.SparkCatalog",
            session_plugin="org.apache.iceberg.spark.SparkSessionCatalog",
            extension=ICEBERG.extension,
            required=(("type", "catalog-impl"),),
            known=frozenset(
                {
                    "uri", "warehouse", "prefix", "token", "credential", "scope", "audience", "resource",
                    "oauth2-server-uri", "io-impl", "default-namespace", "clients", "lock-impl",
                    "token-refresh-enabled", "token-expires-in-ms", "metrics-reporter-impl",
                    "use-nullable-query-schema", "view-endpoints-supported", "snapshot-loading-mode",
                    "namespace-separator", "list-all-tables", "page-size",
                }
            ),
            prefixes=(
                "s3.", "gcs.", "adls.", "glue.", "client.", "cache.", "cache-", "rest.", "rest-", "header.",
                "jdbc.", "hadoop.", "table-default.", "table-override.", "view-default.", "view-override.",
                "io.", "http-client.", "encryption.", "oss.", "lock.",
            ),
        ),
        CatalogKind(
            name="paimon",
            plugin="org.apache.paimon.spark.SparkCatalog",
            extension=PAIMON.extension,
            required=(("warehouse",),),
            known=frozenset(
                {
                    "metastore", "uri", "catalog-key", "default-database", "lock.enabled", "lock.type",
                    "table.type", "case-sensitive", "allow-upper-case", "cache-enabled", "client-pool-size",
                    "format-table.enabled", "sync-all-properties", "defaultdatabase", "token",
                }
            ),
            prefixes=("s3.", "fs.", "hadoop.", "hive-", "hive.", "jdbc.", "cache.", "table-default.", "dlf."),
        ),
        CatalogKind(
            name="delta",
            plugin="org.apache.spark.sql.delta.catalog.DeltaCatalog",
            extension=DELTA.extension,
            session_only=True,
        ),
        CatalogKind(
            name="jdbc",
            plugin="org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
            required=(("url",), ("driver",)),
            begins_somewhere=False,
            known=frozenset(
                {
                    "user", "password", "fetchsize", "batchsize", "querytimeout", "isolationlevel",
                    "pushdownpredicate", "pushdownaggregate", "pushdownlimit", "pushdownoffset",
                    "pushdowntablesample", "sessioninitstatement", "truncate", "cascadetruncate",
                    "createtableoptions", "keytab", "principal", "refreshkrb5config", "connectionprovider",
                    "prefertimestampntz", "ssl", "sslmode", "sslrootcert", "sslcert", "sslkey",
                }
            ),
        ),
        CatalogKind(name="memory", on_spark=False),
        CatalogKind(
            name="gravitino",
            lists=True,
            required=(("uri",), ("metalake",)),
            known=frozenset(
                {
                    "auth", "user", "password", "oauth2-server-uri", "oauth2-token-path", "credential",
                    "scope", "connectors", "iceberg", "tags", "owners", "privileges", "poll-s",
                    "timeout-s", "max-stale-s", "max-bytes",
                }
            ),
            prefixes=("set.",),
            on_spark=False,
        ),
        # What else it takes is what `files` of the settings takes.
        CatalogKind(name="files", required=(("root",),), on_spark=False),
    )
}  # fmt: skip
"""By the name that `type` has in the settings."""

ALIASES: Mapping[str, str] = {"in-memory": "memory"}
"""Other names that documents have for a kind."""


def kind_named(name: str) -> CatalogKind | None:
    """Return the kind that a `type` names, in any case; None when there is none."""
    folded = name.strip().lower()
    return KINDS.get(ALIASES.get(folded, folded))
