"""GetInfo: what ODBC and JDBC drivers ask a server about itself, by ODBC's own numbers and value types.

Spark answers four of these and drops the connection on every other, so none of them is passed on. The
numbers are ODBC's SQLGetInfo types, as far as HiveServer2's IDL and drivers for Hive know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.errors import InvalidRequest

_Form = Literal["string", "smallint", "bitmask", "flag"]


@dataclass(frozen=True, slots=True)
class InfoValue:
    """A value with the member of TGetInfoValue that carries it."""

    form: _Form
    value: str | int


KEYWORDS = (
    "ANTI,ARCHIVE,BUCKET,BUCKETS,CACHE,CLEAR,CLUSTER,CLUSTERED,CODEGEN,COLLECTION,COMPACT,COMPACTIONS,"
    "CONCATENATE,COST,DATA,DATABASE,DATABASES,DBPROPERTIES,DEFINED,DELIMITED,DFS,DIRECTORIES,DIRECTORY,"
    "DISTRIBUTE,ESCAPED,EXCHANGE,EXPORT,EXTENDED,FIELDS,FILEFORMAT,FORMATTED,FUNCTIONS,IF,ILIKE,IMPORT,INDEX,"
    "INDEXES,INPATH,INPUTFORMAT,ITEMS,KEYS,LAZY,LIMIT,LINES,LIST,LOAD,LOCATION,LOCK,LOCKS,LOGICAL,MACRO,MAP,"
    "MINUS,MSCK,NAMESPACE,NAMESPACES,NULLS,OPTIONS,OUTPUTFORMAT,OVERWRITE,PARTITIONED,PARTITIONS,PERCENT,"
    "PIVOT,PURGE,QUALIFY,RECORDREADER,RECORDWRITER,RECOVER,REDUCE,REFRESH,RENAME,REPAIR,REPLACE,RESET,RLIKE,"
    "SEMI,SERDE,SERDEPROPERTIES,SHOW,SKEWED,SORT,SORTED,STATISTICS,STORED,STRATIFY,STRUCT,TABLES,TBLPROPERTIES,"
    "TERMINATED,TOUCH,TRANSFORM,TRUNCATE,UNARCHIVE,UNCACHE,UNLOCK,UNPIVOT,UNSET,USE,VIEWS"
)
"""Words of Spark SQL that SQL-92 does not have."""

_NAME = 128
"""Longest name in the Hive metastore."""


def _text(value: str) -> InfoValue:
    return InfoValue("string", value)


def _small(value: int) -> InfoValue:
    return InfoValue("smallint", value)


def _mask(value: int) -> InfoValue:
    return InfoValue("bitmask", value)


def _flag(value: int) -> InfoValue:
    return InfoValue("flag", value)


_FIXED: dict[int, InfoValue] = {
    0: _small(0),  # MAX_DRIVER_CONNECTIONS: no fixed limit
    1: _small(0),  # MAX_CONCURRENT_ACTIVITIES: no fixed limit
    2: _text(""),  # DATA_SOURCE_NAME: the driver's own
    8: _mask(0x1 | 0x2),  # FETCH_DIRECTION: next, first
    10: _text("03.80"),  # ODBC_VER
    13: _text("Spark SQL"),  # SERVER_NAME, as Spark says it
    14: _text("\\"),  # SEARCH_PATTERN_ESCAPE
    17: _text("Spark SQL"),  # DBMS_NAME
    19: _text("N"),  # ACCESSIBLE_TABLES: listed is what one has any access to, not select
    20: _text("N"),  # ACCESSIBLE_PROCEDURES
    21: _text("N"),  # PROCEDURES
    22: _small(0),  # CONCAT_NULL_BEHAVIOR: null
    23: _small(2),  # CURSOR_COMMIT_BEHAVIOR: preserved, there are no transactions
    24: _small(2),  # CURSOR_ROLLBACK_BEHAVIOR
    25: _text("N"),  # DATA_SOURCE_READ_ONLY
    26: _mask(0),  # DEFAULT_TXN_ISOLATION: no transactions
    27: _text("Y"),  # EXPRESSIONS_IN_ORDERBY
    28: _small(2),  # IDENTIFIER_CASE: not significant, the metastore stores lower case
    29: _text("`"),  # IDENTIFIER_QUOTE_CHAR
    30: _small(_NAME),  # MAX_COLUMN_NAME_LEN
    31: _small(0),  # MAX_CURSOR_NAME_LEN: no named cursors
    32: _small(_NAME),  # MAX_SCHEMA_NAME_LEN
    33: _small(0),  # MAX_PROCEDURE_NAME_LEN
    34: _small(_NAME),  # MAX_CATALOG_NAME_LEN
    35: _small(_NAME),  # MAX_TABLE_NAME_LEN
    36: _text("N"),  # MULT_RESULT_SETS
    37: _text("N"),  # MULTIPLE_ACTIVE_TXN
    38: _text("Y"),  # OUTER_JOINS
    39: _text("database"),  # SCHEMA_TERM
    40: _text("procedure"),  # PROCEDURE_TERM
    41: _text("."),  # CATALOG_NAME_SEPARATOR
    42: _text("catalog"),  # CATALOG_TERM
    43: _mask(0x1),  # SCROLL_CONCURRENCY: read only
    44: _mask(0x1),  # SCROLL_OPTIONS: forward only
    45: _text("table"),  # TABLE_TERM
    46: _small(0),  # TXN_CAPABLE: none
    48: _mask(0),  # CONVERT_FUNCTIONS: drivers write CAST
    49: _mask(0),  # NUMERIC_FUNCTIONS: drivers have their own lists
    50: _mask(0),  # STRING_FUNCTIONS
    51: _mask(0),  # SYSTEM_FUNCTIONS
    52: _mask(0),  # TIMEDATE_FUNCTIONS
    53: _mask(0),  # CONVERT_BIGINT
    54: _mask(0),  # CONVERT_BINARY
    55: _mask(0),  # CONVERT_BIT
    56: _mask(0),  # CONVERT_CHAR
    57: _mask(0),  # CONVERT_DATE
    58: _mask(0),  # CONVERT_DECIMAL
    72: _mask(0),  # TXN_ISOLATION_OPTION
    73: _text("N"),  # INTEGRITY
    74: _small(2),  # CORRELATION_NAME: any
    75: _small(1),  # NON_NULLABLE_COLUMNS
    81: _mask(0x1 | 0x2 | 0x8),  # GETDATA_EXTENSIONS: any column, any order, bound
    85: _small(1),  # NULL_COLLATION: low, Spark sorts nulls first
    86: _mask(0x1 | 0x2),  # ALTER_TABLE: add and drop column
    87: _text("Y"),  # COLUMN_ALIAS
    88: _small(2),  # GROUP_BY: contains the select list
    89: _text(KEYWORDS),  # KEYWORDS
    90: _text("N"),  # ORDER_BY_COLUMNS_IN_SELECT
    91: _mask(0x1 | 0x2 | 0x4 | 0x8 | 0x10),  # SCHEMA_USAGE: everywhere
    92: _mask(0x1 | 0x2 | 0x4 | 0x8 | 0x10),  # CATALOG_USAGE: everywhere
    93: _small(4),  # QUOTED_IDENTIFIER_CASE: mixed
    94: _text(""),  # SPECIAL_CHARACTERS: quoted names only
    95: _mask(0x1 | 0x2 | 0x4 | 0x8 | 0x10),  # SUBQUERIES: all
    96: _mask(0x1 | 0x2),  # UNION: union, union all
    97: _small(0),  # MAX_COLUMNS_IN_GROUP_BY
    98: _small(0),  # MAX_COLUMNS_IN_INDEX
    99: _small(0),  # MAX_COLUMNS_IN_ORDER_BY
    100: _small(0),  # MAX_COLUMNS_IN_SELECT
    101: _small(0),  # MAX_COLUMNS_IN_TABLE
    102: _flag(0),  # MAX_INDEX_SIZE
    103: _text("N"),  # MAX_ROW_SIZE_INCLUDES_LONG
    104: _flag(0),  # MAX_ROW_SIZE
    106: _small(0),  # MAX_TABLES_IN_SELECT
    107: _small(0),  # MAX_USER_NAME_LEN
    111: _text("N"),  # NEED_LONG_DATA_LEN
    113: _text("N"),  # LIKE_ESCAPE_CLAUSE is written without braces
    114: _small(1),  # CATALOG_LOCATION: at the start
    115: _mask(0x7F),  # OJ_CAPABILITIES: every outer join
    10000: _text("1995"),  # XOPEN_CLI_YEAR
    10001: _flag(1),  # CURSOR_SENSITIVITY: insensitive
    10002: _text("N"),  # DESCRIBE_PARAMETER: no parameters on the server
    10003: _text("Y"),  # CATALOG_NAME
    10004: _text(""),  # COLLATION_SEQ: binary order of UTF-8
    10005: _small(_NAME),  # MAX_IDENTIFIER_LEN
}

_DBMS_VER, _USER_NAME, _MAX_STATEMENT_LEN, _ALL_KEYWORDS = 18, 47, 105, 10006
"""The last is Hive's own (`CLI_ODBC_KEYWORDS`), for JDBC's `getSQLKeywords` since Hive 3."""


def server_info(
    info_type: int,
    *,
    spark_version: str,
    keywords: Sequence[str],
    user: str,
    max_statement_chars: int,
) -> InfoValue:
    """Return the value for a TGetInfoType. Raises InvalidRequest for a number that nobody defined."""
    if info_type == _ALL_KEYWORDS:
        return _text(",".join(keywords))
    if info_type == _DBMS_VER:
        return _text(spark_version)
    if info_type == _USER_NAME:
        return _text(user)
    if info_type == _MAX_STATEMENT_LEN:
        return _flag(max_statement_chars)
    value = _FIXED.get(info_type)
    if value is None:
        raise InvalidRequest(f"unknown HiveServer2 information type {info_type}")
    return value
