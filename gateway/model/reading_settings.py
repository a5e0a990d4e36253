"""Spark settings under which a text means what the reader says it means.

The reader has these values, every session of Spark is opened with them, and nobody may set them through any
endpoint. Keys and defaults are those that Spark 4.3's parser classes refer to (its own defaults but for the
first two); a Spark that does not know one of them takes it as a setting without effect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PARSER_SETTINGS: Mapping[str, str] = {
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.relationPrecedence": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.join.asofJoin.enabled": "false",
    "spark.sql.legacy.bangEqualsNot": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED",
    "spark.sql.legacy.duplicateBetweenInput": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.identifierClause": "false",
    "spark.sql.legacy.interval.enabled": "false",
    "spark.sql.legacy.keepPartitionSpecAsStringLiteral": "false",
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "false",
    "spark.sql.legacy.parseNullPartitionSpecAsStringLiteral": "false",
    # Without the end of input in the grammar, whatever follows the first statement would be ignored.
    "spark.sql.legacy.parseQueryWithoutEof": "false",
    "spark.sql.legacy.parser.havingWithoutGroupByAsWhere": "false",
    "spark.sql.legacy.setopsPrecedence.enabled": "false",
    "spark.sql.operatorPipeSyntaxEnabled": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.parser.singleCharacterPipeOperator.enabled": "true",
    "spark.sql.timeTravel.atSyntax.enabled": "true",
}
"""They change how text is split into words, or what plan the words become."""

SESSION_SETTINGS: Mapping[str, str] = {
    # `${x}` would be replaced before parsing: the text that Spark runs would not be the text that was proved.
    "spark.sql.variable.substitute": "false",
    # Spark takes a name of two parts for files where it finds no table. What is judged as a table is sent
    # with three, and what is judged as files has a format and a full path.
    "spark.sql.runSQLOnFiles": "true",
    # A name of two parts would mean a temporary view; we take it for a table.
    "spark.sql.legacy.allowTempViewCreationWithMultipleNameparts": "false",
    # In the text of a view a name would mean a variable of whoever reads it.
    "spark.sql.legacy.allowSessionVariableInPersistedView": "false",
    # SET PATH would change what a name of one part means.
    "spark.sql.path.enabled": "false",
    # Masks are cast to `timestamp` where the column is one with the session's time zone.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
"""They change what the plan's names and types stand for."""

READING_SETTINGS: Mapping[str, str] = {**PARSER_SETTINGS, **SESSION_SETTINGS}
"""INVARIANT (one reading): Spark's session reads a text as the reader did. The proof rests on it."""

LEGACY = "spark.sql.legacy."
GATEWAY_PREFIX = "spark.sluice.gateway."
READING_QUESTION = "spark.sluice.reading."
"""Prefix of the settings that a gateway before this one asks for: those of its session, and below this
prefix what Spark's texts go through, as this gateway has found them."""
"""Lower case. Before the id of a gateway that has opened the session: no other may, who would not hear of
what names and settings become in it. It means nothing to Spark."""

VARIABLES_MARK = "spark.sluice.variables"
"""Set in a session of Spark Connect that has had variables: a gateway that is started anew does not know
their names, and no client may take it away. It means nothing to Spark."""

NEVER_SETTABLE_PREFIXES = (
    GATEWAY_PREFIX,
    VARIABLES_MARK,
    "spark.app.",  # names the process of Spark's, by which it is known how that one reads
    "spark.sql.catalog.",
    "spark.sql.defaultcatalog",
    "spark.sql.extensions",
    "spark.sql.functionresolution.",
    LEGACY,
    "spark.sql.optimizer.excludedrules",
    "spark.sql.parser.",
    "spark.sql.path.",
    "spark.sql.redaction.",
    "spark.sql.streaming.checkpoint",  # where checkpoints are, and classes that read them
    "spark.sql.variable.",
    "spark.connect.authenticate.",
    "spark.connect.grpc.",
    "spark.hadoop.",
    "spark.redaction.",
    "hive.server2.proxy.user",
)
"""Lower case. New names, other data or switched-off rules behind the gateway's back: a policy that grants
one of these is overruled."""

SETTABLE_LEGACY: Mapping[str, str] = {
    "how dates and times are read, written and compared": """
        avro.datetimeRebaseModeInRead avro.datetimeRebaseModeInWrite compareDateTimestampInTimestamp
        csv.enableDateTimeParsingFallback fromDayTimeString.enabled json.enableDateTimeParsingFallback
        parquet.datetimeRebaseModeInRead parquet.datetimeRebaseModeInWrite parquet.int96RebaseModeInRead
        parquet.int96RebaseModeInWrite parquet.nanosAsLong timeParserPolicy
        typeCoercion.datetimeToString.enabled
    """,
    "what functions and casts give": """
        allowHashOnMapType allowNegativeScaleOfDecimal allowNullComparisonResultInArraySort
        allowParameterlessCount allowStarWithSingleTableIdentifierInCount allowZeroIndexInFormatString
        castComplexTypesToString.enabled
        charVarcharAsString codingErrorAction createEmptyCollectionUsingStringType
        decimal.retainFractionDigitsOnTruncate disableMapKeyNormalization
        followThreeValuedLogicInArrayExists groupingIdWithAppendedUserGroupBy
        histogramNumericPropagateInputType integerGroupingId javaCharsets json.allowEmptyString.enabled
        literal.pickMinimumPrecision lpadRpadAlwaysReturnString negativeIndexInArrayInsert
        noCharPaddingInPredicate nullInEmptyListBehavior nullValueWrittenAsQuotedEmptyStringCsv
        percentileDiscCalculation raiseErrorWithoutErrorClass sizeOfNull statisticalAggregate
        truncateForEmptyRegexSplit
    """,
    "what subqueries in expressions give": """
        scalarSubqueryAllowGroupByNonEqualityCorrelatedPredicate scalarSubqueryCountBugBehavior
    """,
    "whether views cast columns whose types have changed": "viewSchemaBindingMode viewSchemaCompensation",
    "the format of tables that are made without one": "createHiveTableByDefault",
    "how Python functions get their rows": """
        execution.pandas.groupedMap.assignColumnsByName execution.pythonUDF.pandas.conversion.enabled
        execution.pythonUDTF.pandas.conversion.enabled
    """,
    "types of columns in other databases": """
        db2.booleanMapping.enabled db2.numericMapping.enabled jdbc.timeMapping.enabled
        mssqlserver.datetimeoffsetMapping.enabled mssqlserver.numericMapping.enabled
        mysql.bitArrayMapping.enabled mysql.timestampNTZMapping.enabled oracle.timestampMapping.enabled
        postgres.datetimeMapping.enabled
    """,
}
"""What a setting below `spark.sql.legacy.` changes that a policy may let clients set → those, without the
prefix. All others there are refused: they change what names, statements or answers are. These change values,
and so no policy's text counts in a session that has one (`model/meaning_settings.py`)."""

_SETTABLE_LEGACY = frozenset(
    f"{LEGACY}{key}".lower() for keys in SETTABLE_LEGACY.values() for key in keys.split()
)

CLIENT_ONLY_PREFIX = "pandas_on_spark."
"""Lower case. Options of pandas on Spark: the client keeps them in its session, and Spark ignores them."""

CLIENT_READS = frozenset(
    {
        "spark.connect.session.plancompression.defaultalgorithm",
        "spark.connect.session.plancompression.threshold",
        "spark.python.sql.dataframedebugging.enabled",
        "spark.sql.ansi.enabled",
        "spark.sql.connect.serverstacktrace.enabled",
        "spark.sql.experimental.optimizer.pytranspilers",
        "spark.sql.experimental.optimizer.transpilepyudfs",
        "spark.sql.session.timezone",
        "spark.sql.stacktracesindataframecontext",
        "spark.sql.timestamptype",
    }
)
"""Lower case. Settings that pyspark itself asks Spark Connect for (4.2 and 4.3), with those below."""
CLIENT_READS_PREFIXES = (
    "spark.sql.execution.arrow.",
    "spark.sql.execution.pandas.",
    "spark.sql.execution.pyspark.",
    "spark.sql.execution.pythonudf.",
    "spark.sql.execution.pythonudtf.",
    "spark.sql.pyspark.",
    "spark.sql.repl.eagereval.",
    "spark.sql.session.localrelation",
)
"""Lower case. How results are converted, shown and uploaded: nothing in them is worth hiding."""

_PINNED = frozenset(key.lower() for key in READING_SETTINGS)
_SECRET = re.compile(
    r"secret|passw|passphrase|token|credential|authorization$|cookie$|connection[\W_]*string|keystore"
    r"|(?:access|account|api|private|shared|storage|master|(?:en|de)cryption|sse)[\W_]*key"
    r"|(?:^|[\W_])(?:pwd|pass|sas|pat|jwt|sig)(?:[\W_]|$)|(?:^|\.)redaction(?:\.|$)"
)
"""Lower case keys whose values Spark itself hides (`spark.redaction.regex`), and those that stores, catalogs
and drivers have for theirs: `fs.azure.account.key.…`, `fs.azure.sas.…`, `header.authorization`."""

_OF_CATALOG = re.compile(r"spark\.sql\.catalog\.[^.]+\.")


def may_be_set(key: str) -> bool:
    """Whether a policy may let clients set the key at all."""
    folded = key.strip().lower()
    if folded in _SETTABLE_LEGACY:  # RULE (legacy-settings-listed)
        return True
    return folded not in _PINNED and not folded.startswith(NEVER_SETTABLE_PREFIXES)


def list_overridden_settings(now: Mapping[str, str], own: Mapping[str, str]) -> frozenset[str]:
    """Return the settings that a session was given: those that it has otherwise than Spark itself does, but
    for those that are none of its client's."""
    return frozenset(k for k in now.keys() | own.keys() if now.get(k) != own.get(k) and may_be_set(k))


def find_pinned_value(key: str) -> str | None:
    """Return the value that the key is pinned to, in Spark's spelling of the key; None for other keys."""
    return READING_SETTINGS.get(key)


def is_client_only(key: str) -> bool:
    """Whether the key is an option that only the client reads, and everybody may set."""
    return key.lower().startswith(CLIENT_ONLY_PREFIX)


def is_read_by_clients(key: str) -> bool:
    """Whether everybody may read the key, because pyspark asks for it by itself."""
    folded = key.strip().lower()
    return (
        folded in CLIENT_READS or folded.startswith(CLIENT_READS_PREFIXES) or is_client_only(folded)
    ) and not may_hold_secret(key)


def is_servers_own(key: str) -> bool:
    """Whether the key is of gateway and Spark alone, as the secret that they share: nobody is told that it is
    set."""
    folded = key.strip().lower()
    own = (GATEWAY_PREFIX, VARIABLES_MARK)
    return "spark.connect.authenticate" in folded or folded.startswith(own)


def may_hold_secret(key: str) -> bool:
    """Whether the value is one that no client is shown, whatever policies say: passwords, tokens, keys."""
    return _SECRET.search(key.strip().lower()) is not None or is_of_catalog(key)


def is_of_catalog(key: str) -> bool:
    """Whether the key is a property of a pluggable catalog: an address, a login, what its maker thought of.
    The catalog's class, `spark.sql.catalog.NAME`, is none."""
    return _OF_CATALOG.match(key.strip().lower()) is not None
