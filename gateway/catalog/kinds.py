"""Kinds of catalogs: which parameters each takes, and what Spark is told of it.

Keys of parameters are compared without regard to case, as Spark compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.model.table_formats import DELTA, ICEBERG, PAIMON

SESSION_CATALOG = "spark_catalog"


@dataclass(frozen=True, slots=True)
class Form:
    """What a parameter's value looks like."""

    spark_class: str
    """Continues `PARAMETER is …`."""
    pattern: re.Pattern[str]


THRIFT = Form(
    "one or more metastore addresses, separated by commas without blanks: "
    "`thrift://host1:9083,thrift://host2:9083`",
    re.compile(r"thrift://[^\s,/?#]+:[1-9][0-9]{0,4}/?(?:,thrift://[^\s,/?#]+:[1-9][0-9]{0,4}/?)*"),
)
HTTP = Form(
    "an address such as `https://catalog.internal:8181`", re.compile(r"https?://[^\s/?#]+[^\s]*", re.I)
)
JDBC = Form("an address such as `jdbc:postgresql://host:5432/database`", re.compile(r"jdbc:\S.*", re.I))
CLASS = Form("the name of a class", re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*"))
WHOLE = Form("a whole number", re.compile(r"[0-9]{1,18}"))
SWITCH = Form("true or false", re.compile(r"true|false", re.I))
GIVEN = Form("not empty", re.compile(r".*\S.*", re.DOTALL))


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What a kind needs besides, where one of its parameters has some value."""

    needs: tuple[str, ...] = ()
    forms: Mapping[str, Form] = field(default_factory=dict)


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
    chosen_by: str = ""
    """Parameter that says which of `variants` it is; empty: there are none."""
    usual: str = ""
    """What that one is where nothing is said."""
    variants: Mapping[str, Variant] = field(default_factory=dict)
    """By the value of `chosen_by`, in lower case."""
    forms: Mapping[str, Form] = field(default_factory=dict)
    """What values of parameters look like."""
    opened_by: str = ""
    """Parameter with which any other is taken: a class of the operator's, which has its own."""
    known: frozenset[str] = frozenset()
    """Parameters that are taken, lower case, beside the required ones."""
    prefixes: tuple[str, ...] = ()
    """What further parameters may begin with, lower case."""
    on_spark: bool = True
    """Whether names may begin with it: Spark has a catalog of this name."""
    governed: bool = True
    """Whether policies speak for what is in it."""
    lists: bool = False
    """Whether it is a list of catalogs, and none itself."""
    begins_somewhere: bool = True
    """Whether its class says in which database sessions of Spark Connect begin."""
    session_only: bool = False
    """Whether the only name it can have is Spark's session catalog's."""

    def takes(self, key: str, given: Iterable[str] = ()) -> bool:
        """Whether there is such a parameter, beside these."""
        folded = key.lower()
        opened = bool(self.opened_by) and any(one.lower() == self.opened_by for one in given)
        return opened or folded in self.parameters or folded.startswith(self.prefixes)

    @property
    def parameters(self) -> frozenset[str]:
        """Names of all parameters that are known by name."""
        return self.known | {name for names in self.required for name in names}

    def choose_variants(self, given: Mapping[str, object]) -> str:
        """Return which of `variants` parameters name, in lower case; it may be none of them."""
        named = next((value for key, value in given.items() if key.lower() == self.chosen_by), self.usual)
        return named.lower() if isinstance(named, str) else ""

    def variant(self, given: Mapping[str, object]) -> Variant:
        """Return what parameters make it; one that needs nothing where that cannot be told."""
        return self.variants.get(self.choose_variants(given), Variant())

    def list_needed(self, given: Mapping[str, object]) -> frozenset[str]:
        """Return the names of parameters that cannot be left out, or not all of them."""
        return frozenset(self.variant(given).needs).union(*self.required)

    def list_missing(self, given: Mapping[str, object]) -> list[str]:
        """Say which required parameters are not given, each as `a` or `a or b`."""
        known = {key.lower() for key in given}
        needed = (*self.required, *((name,) for name in self.variant(given).needs))
        return [" or ".join(f"`{n}`" for n in names) for names in needed if not known & set(names)]

    def form(self, key: str, given: Mapping[str, object]) -> Form | None:
        """Return what the value of a parameter (in lower case) looks like, beside these; None where anything
        will do."""
        return self.variant(given).forms.get(key) or self.forms.get(key)


def _switches(*names: str) -> dict[str, Form]:
    return dict.fromkeys(names, SWITCH)


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
_HIVE_FORMS = {"hive.metastore.uris": THRIFT, "class": CLASS}

KINDS: Mapping[str, CatalogKind] = {
    one.name: one
    for one in (
        CatalogKind(name="spark", known=frozenset({"class"}), prefixes=("",), forms={"class": CLASS}),
        CatalogKind(
            name="hive",
            plugin=_HIVE_CLASS,
            required=(("hive.metastore.uris",),),
            known=_HIVE,
            forms=_HIVE_FORMS,
            prefixes=("hive.", "hadoop."),
        ),
        CatalogKind(
            name="generic-hive-metastore",
            plugin=_HIVE_CLASS,
            required=(("hive.metastore.uris",),),
            known=_HIVE,
            forms=_HIVE_FORMS,
            prefixes=("hive.", "hadoop."),
        ),
        CatalogKind(
            name="iceberg",
            plugin="org.apache.iceberg.spark.SparkCatalog",
            session_plugin="org.apache.iceberg.spark.SparkSessionCatalog",
            extension=ICEBERG.extension,
            required=(("type", "catalog-impl"),),
            chosen_by="type",
            opened_by="catalog-impl",
            variants={
                "rest": Variant(needs=("uri",), forms={"uri": HTTP}),
                "hadoop": Variant(needs=("warehouse",)),
                # Without `uri` it is the metastore of Spark's own `hive-site.xml`.
                "hive": Variant(forms={"uri": THRIFT}),
                "jdbc": Variant(needs=("uri", "warehouse"), forms={"uri": JDBC}),
                "nessie": Variant(needs=("uri", "warehouse"), forms={"uri": HTTP}),
                "glue": Variant(),
                "bigquery": Variant(needs=("gcp.bigquery.project-id",)),
            },
            forms={
                "catalog-impl": CLASS, "io-impl": CLASS, "clients": WHOLE,
                **_switches("cache-enabled", "token-refresh-enabled", "list-all-tables"),
            },
            known=frozenset(
                {
                    "uri", "warehouse", "io-impl", "default-namespace", "clients", "lock-impl", "user",
                    "app-id", "app-name", "unique-table-location", "client-pool-cache-keys",
                    "metrics-reporter-impl", "use-nullable-query-schema", "list-all-tables",
                    "suppress-permission-error", "parquet-enabled", "avro-enabled", "orc-enabled",
                    # REST
                    "prefix", "token", "credential", "scope", "audience", "resource", "oauth2-server-uri",
                    "token-refresh-enabled", "token-exchange-enabled", "token-expires-in-ms", "page-size",
                    "view-endpoints-supported", "snapshot-loading-mode", "namespace-separator",
                    "scan-planning-mode",
                    # Nessie, whose names it takes with `nessie.` before them and without
                    "ref", "ref.hash", "tracing", "client-api-version", "client-builder-impl",
                    "client-builder-name", "enable-api-compatibility-check", "http-redirects",
                    "http2-upgrade", "force-url-connection-client",
                }
            ),
            prefixes=(
                "s3.", "gcs.", "adls.", "glue.", "client.", "cache.", "cache-", "rest.", "rest-", "header.",
                "jdbc.", "hadoop.", "table-default.", "table-override.", "view-default.", "view-override.",
                "io.", "http-client.", "encryption.", "oss.", "lock.", "auth.", "signer.", "kms.",
                "dynamodb.", "lakeformation.", "azure.", "gcp.", "metastore.",
                "urn:ietf:params:oauth:token-type:",
                "nessie.", "authentication.", "transport.", "ssl.", "commit-meta.",
            ),
        ),
        CatalogKind(
            name="paimon",
            plugin="org.apache.paimon.spark.SparkCatalog",
            extension=PAIMON.extension,
            chosen_by="metastore",
            usual="filesystem",
            variants={
                "filesystem": Variant(needs=("warehouse",)),
                # What it is not told is in Spark's own `hive-site.xml`.
                "hive": Variant(forms={"uri": THRIFT}),
                "jdbc": Variant(needs=("uri", "warehouse"), forms={"uri": JDBC}),
                "rest": Variant(needs=("uri", "warehouse"), forms={"uri": HTTP}),
                "dlf": Variant(needs=("warehouse",)),
            },
            forms={"client-pool-size": WHOLE, **_switches("cache-enabled", "lock.enabled")},
            known=frozenset(
                {
                    "warehouse", "metastore", "uri", "catalog-key", "lock-key-max-length",
                    "default-database", "defaultdatabase", "lock.enabled", "lock.type",
                    "lock-check-max-sleep", "lock-acquire-timeout", "table.type", "case-sensitive",
                    "allow-upper-case",
                    "cache-enabled", "client-pool-size", "format-table.enabled", "sync-all-properties",
                    "location-in-properties", "hadoop-conf-dir", "resolving-file-io.enabled",
                    "file-io.allow-cache", "lineage-meta", "v1function.enabled", "token", "token.provider",
                    "data-token.enabled", "metastore.client.class",
                    "catalog.create-underlying-session-catalog",
                }
            ),
            prefixes=(
                "s3.", "fs.", "oss.", "hadoop.", "hive-", "hive.", "jdbc.", "cache.", "table-default.",
                "dlf.", "client-pool-cache.", "security.", "header.", "io-cache.",
            ),
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
            forms={
                "url": JDBC, "driver": CLASS,
                **dict.fromkeys(("fetchsize", "batchsize", "querytimeout"), WHOLE),
                **_switches(
                    "pushdownpredicate", "pushdownaggregate", "pushdownlimit", "pushdownoffset",
                    "pushdowntablesample", "truncate", "cascadetruncate", "refreshkrb5config",
                    "prefertimestampntz",
                ),
            },
            known=frozenset(
                {
                    "user", "password", "fetchsize", "batchsize", "querytimeout", "isolationlevel",
                    "pushdownpredicate", "pushdownaggregate", "pushdownlimit", "pushdownoffset",
                    "pushdowntablesample", "pushdownjoin", "numpartitions", "sessioninitstatement",
                    "truncate", "cascadetruncate", "createtableoptions", "keytab", "principal",
                    "refreshkrb5config", "connectionprovider",
                    "prefertimestampntz", "prefertimestampnanos", "ssl", "sslmode", "sslrootcert",
                    "sslcert", "sslkey",
                }
            ),
        ),
        CatalogKind(name="memory", on_spark=False, governed=False),
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
