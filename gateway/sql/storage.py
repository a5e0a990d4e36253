"""Where a table's data may lie and what its options may say: allow-lists, because an option can be a path.

A provider that is not listed could open any URL (jdbc), and an unlisted property can move a table's data
(`option.path`, Iceberg's `write.data.path`) or make the server read a file (`avro.schema.url`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.model.reading import FieldValue
from gateway.model.table_formats import FORMATS, SPARK_FORMATS
from gateway.sql.scope import CannotClassify

PROVIDERS = SPARK_FORMATS | frozenset(FORMATS) | {"hive", "hudi"}
STORED_AS = frozenset({"parquet", "orc", "avro", "textfile", "sequencefile", "rcfile"})
_LAYOUT = (
    "orc.bloom.filter.columns",
    "orc.bloom.filter.fpp",
    "orc.create.index",
    "orc.row.index.stride",
    "orc.stripe.size",
    "parquet.block.size",
    "parquet.bloom.filter.enabled",
    "parquet.page.size",
)
"""How ORC and Parquet lay out what is written."""
OPTIONS = frozenset(
    {
        "compression",
        "header",
        "sep",
        "delimiter",
        "quote",
        "escape",
        "encoding",
        "charset",
        "nullvalue",
        "emptyvalue",
        "dateformat",
        "timestampformat",
        "multiline",
        "linesep",
        "inferschema",
        "mergeschema",
        "mode",
        "parquet.compression",
        "orc.compress",
        *_LAYOUT,
    }
)
PROPERTIES = frozenset(
    {
        "parquet.compression",
        "orc.compress",
        *_LAYOUT,
        "commit.retry.num-retries",
        "format-version",
        "history.expire.max-snapshot-age-ms",
        "history.expire.min-snapshots-to-keep",
        "write.delete.mode",
        "write.distribution-mode",
        "write.format.default",
        "write.merge.mode",
        "write.metadata.previous-versions-max",
        "write.parquet.row-group-size-bytes",
        "write.target-file-size-bytes",
        "write.update.mode",
        "write.parquet.compression-codec",
        "delta.appendonly",
        "delta.autooptimize.autocompact",
        "delta.autooptimize.optimizewrite",
        "delta.checkpointinterval",
        "delta.columnmapping.mode",
        "delta.dataskippingnumindexedcols",
        "delta.dataskippingstatscolumns",
        "delta.deletedfileretentionduration",
        "delta.enablechangedatafeed",
        "delta.enabledeletionvectors",
        "delta.enablerowtracking",
        "delta.enabletypewidening",
        "delta.logretentionduration",
        "delta.minreaderversion",
        "delta.minwriterversion",
        "delta.targetfilesize",
        "file.format",
        "retention",
        "classification",
        "comment",
        "description",
        # Paimon's: keys, layout and lifetimes. Not those that name another branch, snapshot, place or class.
        "bucket",
        "bucket-key",
        "changelog-producer",
        "compaction.max.file-num",
        "compaction.min.file-num",
        "deletion-vectors.enabled",
        "file-index.bloom-filter.columns",
        "file.compression",
        "full-compaction.delta-commits",
        "ignore-delete",
        "merge-engine",
        "num-sorted-run.compaction-trigger",
        "partition.expiration-check-interval",
        "partition.expiration-time",
        "partition.timestamp-formatter",
        "partition.timestamp-pattern",
        "primary-key",
        "sequence.field",
        "snapshot.num-retained.max",
        "snapshot.num-retained.min",
        "snapshot.time-retained",
        "target-file-size",
        "write-only",
    }
)
NOTE_PREFIXES = ("meta.", "tag.", "user.")
"""Properties that no table format reads: people's notes."""


def check_provider(provider: FieldValue) -> None:
    if provider is not None and str(provider).lower() not in PROVIDERS:  # RULE (foreign-providers)
        raise CannotClassify(
            f"tables of provider `{provider}` can access other systems and are not supported"
        )


def check_options(options: Iterable[str]) -> None:
    for key in options:
        if key.lower() not in OPTIONS:  # RULE (unknown-options)
            raise CannotClassify(f"the option `{key}` is not supported")


def check_properties(properties: Iterable[str]) -> None:
    for key in properties:
        folded = key.lower()
        if folded not in PROPERTIES and not folded.startswith(NOTE_PREFIXES):  # RULE (unknown-properties)
            raise CannotClassify(
                f"the property `{key}` is not supported; use `meta.…` for properties of your own"
            )


def check_serde(serde: FieldValue) -> None:
    if serde is None:
        return
    if not isinstance(serde, Mapping):
        raise CannotClassify("the storage format could not be parsed")
    stored_as = serde.get("storedAs")
    if stored_as is not None and str(stored_as).lower() not in STORED_AS:
        raise CannotClassify(f"STORED AS {stored_as} is not supported")
    if serde.get("formatClasses") is not None or serde.get("serde") is not None:  # RULE (serde-is-code)
        raise CannotClassify("formats and SerDes named by a class run code and are not supported")


def keys(value: FieldValue, what: str) -> tuple[str, ...]:
    """Return the keys of an options or properties field: a mapping or a sequence of pairs."""
    if value is None:
        return ()
    if isinstance(value, Mapping):
        return tuple(value)
    if isinstance(value, tuple) and all(isinstance(pair, tuple) and pair for pair in value):
        return tuple(str(pair[0]) for pair in value if isinstance(pair, tuple))
    raise CannotClassify(f"the {what} could not be parsed")


def check_table_spec(spec: Mapping[str, FieldValue]) -> str | None:
    """Check a CREATE TABLE's storage and return its LOCATION, if it has one."""
    known = {
        "node",
        "properties",
        "provider",
        "optionExpression",
        "location",
        "comment",
        "collation",
        "serde",
    }
    unknown = set(spec) - known - {"external", "constraints"}
    if unknown:  # RULE (unknown-table-clauses)
        raise CannotClassify(f"the table has unsupported clauses: {', '.join(sorted(unknown))}")
    check_provider(spec.get("provider"))
    check_properties(keys(spec.get("properties"), "table properties"))
    check_serde(spec.get("serde"))
    check_options(keys(spec.get("optionExpression"), "table options"))  # RULE (create-table-options)
    location = spec.get("location")
    if location is not None and not isinstance(location, str):
        raise CannotClassify("the LOCATION is not a string literal")
    return location
