"""Where a table's data may lie and what its options may say: allow-lists, because an option can be a path.

A provider that is not listed could open any URL (jdbc), and an unlisted property can move a table's data
(`option.path`, Iceberg's `write.data.path`) or make the server read a file (`avro.schema.url`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gateway.model.reading import FieldValue
from gateway.model.table_formats import DELTA, FORMATS, SPARK_FORMATS
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
    "parquet.bloom.filter.expected.ndv",
    "parquet.bloom.filter.max.bytes",
    "parquet.dictionary.page.size",
    "parquet.enable.dictionary",
    "parquet.page.size",
)
"""How ORC and Parquet lay out what is written."""
TEXT_OPTIONS = frozenset(
    """
    allowbackslashescapinganycharacter allowcomments allownonnumericnumbers allownumericleadingzeros
    allowsinglequotes allowunquotedcontrolchars allowunquotedfieldnames chartoescapequoteescaping
    columnnameofcorruptrecord comment dropfieldifallnull enabledatetimeparsingfallback enforceschema
    escapequotes ignoreleadingwhitespace ignoretrailingwhitespace locale maxcharspercolumn maxcolumns nanvalue
    negativeinf positiveinf preferdate primitivesasstring quoteall samplingratio timestampntzformat timezone
    unescapedquotehandling wholetext
    """.split()
)
"""How text is read as CSV or JSON."""
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
        *TEXT_OPTIONS,
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
_LISTED_NOTES = frozenset({"classification", "comment", "description"})


OF_SPARK = "view"
"""In the place of a format: a view, or a database, of Spark's own catalog."""
_WITH_NOTES = SPARK_FORMATS | {DELTA.name, OF_SPARK}
_NOTE = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*", re.ASCII)
_FAMILIES = frozenset(
    """
    avro csv delta dfs fs hadoop hbase hive hoodie iceberg io javax json jdbc kafka mapred mapreduce option
    options orc paimon parquet path read serialization spark sluice storage text unity view write
    """.split()
)
"""First parts of properties that formats, catalogs and stores read."""
_WORDS = frozenset(
    """
    bucketing_version catalog class collation columns database external io-impl is_managed_location location
    metadata_location owner path paths previous_metadata_location provider schema serde storage_handler table
    table_type temporary transactional transactional_properties ucTableId url view warehouse
    """.lower().split()
)
"""Properties of one word that they read."""


_PLAIN_FORMATS = frozenset({"orc", "parquet"})
"""Formats of files with few options, all of which are known."""
_PLAIN_OPTION = re.compile(r"[a-z][a-z_]*", re.ASCII)
_READ_OPTIONS = frozenset(
    """
    basepath compression datetimerebasemode globpathfilter ignorecorruptfiles ignoremissingfiles
    int_rebase_mode latestfirst locale maxrecordsperfile mergeschema modifiedafter modifiedbefore
    partitionoverwritemode partitioncolumns path pathglobfilter paths queryname recursivefilelookup
    samplingratio schema timezone
    """.split()
)
_MEANING = ("codec", "class", "dir", "file", "jar", "location", "mode", "path", "schema", "serde", "ur")
"""What stands in names of options that say where or how something is read."""


def check_provider(provider: FieldValue) -> None:
    if provider is not None and str(provider).lower() not in PROVIDERS:  # RULE (foreign-providers)
        raise CannotClassify(
            f"tables of provider `{provider}` can access other systems and are not supported"
        )


def check_options(options: Iterable[str], provider: FieldValue = None) -> None:
    """Refuse options that a table of this format could read; without one, those that any could."""
    for key in list_unlisted_options(options):
        if not is_unread_option(key, provider):  # RULE (unknown-options)
            raise CannotClassify(refuse_option(key))


def list_unlisted_options(options: Iterable[str]) -> tuple[str, ...]:
    """Return the options that are on no list, so that the table's format counts."""
    # `…#column` is the option for one column.
    return tuple(key for key in options if key.lower().partition("#")[0] not in OPTIONS)


def is_unread_option(key: str, provider: FieldValue) -> bool:
    """Whether a table of a format reads no option of this name, so that it is somebody's own: a plain word
    that is none of the format's. Hadoop, which gets all options too, has dots in its names."""
    word = key.lower()
    known = isinstance(provider, str) and provider.lower() in _PLAIN_FORMATS
    # RULE (unread-options)
    return (
        known
        and _PLAIN_OPTION.fullmatch(word) is not None
        and word not in _READ_OPTIONS
        and not any(part in word for part in _MEANING)
    )


def drop_harmless_options(options: Mapping[str, str], provider: str | None) -> dict[str, str]:
    """Return the options of a table that is made, without those that its format does not read and those that
    say no more than of which format it is, as ibis has it of every table."""
    return {
        key: value
        for key, value in options.items()
        # RULE (format-as-option)
        if not (key.lower() == "format" and value.lower() in PROVIDERS)
        and not is_unread_option(key, provider)
    }


def refuse_option(key: str) -> str:
    return f"the option `{key}` is not supported"


def check_properties(properties: Iterable[str], provider: FieldValue = None) -> None:
    """Refuse properties that a table of this format could read; without one, those that any could."""
    for key in list_unlisted_properties(properties):
        if not is_note(key, provider):  # RULE (unknown-properties)
            raise CannotClassify(refuse_property(key))


def list_unlisted_properties(properties: Iterable[str]) -> tuple[str, ...]:
    """Return the properties that are on no list, so that the table's format counts."""
    folded = ((key, key.lower()) for key in properties)
    return tuple(k for k, low in folded if low not in PROPERTIES and not low.startswith(NOTE_PREFIXES))


def are_of_formats(keys: Iterable[str]) -> bool:
    """Whether one of the properties says how a table is written or kept. Others, which are on no list, are
    notes, or refused."""
    return any(key.lower() in PROPERTIES - _LISTED_NOTES for key in keys)


def is_note(key: str, provider: FieldValue) -> bool:
    """Whether a table of a format reads no property of this name, so that it is somebody's own.

    Spark's formats of files read options, and properties only of their own families; Delta reads those that
    begin with `delta.`. Of other formats nobody here knows what they read.
    """
    family, _, rest = key.lower().partition(".")
    known = isinstance(provider, str) and provider.lower() in _WITH_NOTES
    # RULE (property-families)
    return known and _NOTE.fullmatch(key) is not None and family not in (_FAMILIES if rest else _WORDS)


def refuse_property(key: str) -> str:
    return f"the property `{key}` is not supported; use `meta.…` for properties of your own"


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
    check_properties(keys(spec.get("properties"), "table properties"), spec.get("provider"))
    check_serde(spec.get("serde"))
    # RULE (create-table-options)
    check_options(keys(spec.get("optionExpression"), "table options"), spec.get("provider"))
    location = spec.get("location")
    if location is not None and not isinstance(location, str):
        raise CannotClassify("the LOCATION is not a string literal")
    return location
