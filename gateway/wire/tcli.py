"""HiveServer2's structs and numbers, spelled as in its IDL (`TCLIService.thrift`, protocol V1 to V11).

Enums stay plain `int` in the structs: a peer may send a number that we do not know, and that is for the
reader of the field to refuse. Row data travels as `bytes`, because a string column may hold invalid UTF-8.
No `from __future__ import annotations` here: `Struct` reads the annotations while the class is built.
"""

import enum
from typing import Annotated

from gateway.wire.thrift import BYTE, I16, I32, I64, Struct


class TStatusCode(enum.IntEnum):
    SUCCESS = 0
    SUCCESS_WITH_INFO = 1
    STILL_EXECUTING = 2
    ERROR = 3
    INVALID_HANDLE = 4


class TOperationState(enum.IntEnum):
    INITIALIZED = 0
    RUNNING = 1
    FINISHED = 2
    CANCELED = 3
    CLOSED = 4
    ERROR = 5
    UKNOWN = 6
    PENDING = 7
    TIMEDOUT = 8


class TFetchOrientation(enum.IntEnum):
    NEXT = 0
    PRIOR = 1
    RELATIVE = 2
    ABSOLUTE = 3
    FIRST = 4
    LAST = 5


class TTypeId(enum.IntEnum):
    BOOLEAN = 0
    TINYINT = 1
    SMALLINT = 2
    INT = 3
    BIGINT = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    TIMESTAMP = 8
    BINARY = 9
    ARRAY = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    USER_DEFINED = 14
    DECIMAL = 15
    NULL = 16
    DATE = 17
    VARCHAR = 18
    CHAR = 19
    INTERVAL_YEAR_MONTH = 20
    INTERVAL_DAY_TIME = 21


class TProtocolVersion(enum.IntEnum):
    V1 = 0
    V2 = 1
    V3 = 2
    V4 = 3
    V5 = 4
    V6 = 5
    """The first version whose batches are columnar."""
    V7 = 6
    V8 = 7
    V9 = 8
    V10 = 9
    """Protocol version of a client that does not say one."""
    V11 = 10


class TStatus(Struct):
    statusCode: Annotated[int, 1, I32]
    infoMessages: Annotated[list[str] | None, 2] = None
    sqlState: Annotated[str | None, 3] = None
    errorCode: Annotated[int | None, 4, I32] = None
    errorMessage: Annotated[str | None, 5] = None


class THandleIdentifier(Struct):
    guid: Annotated[bytes, 1]
    secret: Annotated[bytes, 2]


class TSessionHandle(Struct):
    sessionId: Annotated[THandleIdentifier, 1]


class TOperationHandle(Struct):
    operationId: Annotated[THandleIdentifier, 1]
    operationType: Annotated[int, 2, I32]
    hasResultSet: Annotated[bool, 3]
    modifiedRowCount: Annotated[float | None, 4] = None


# -- types and schemas ---------------------------------------------------------------------------------------


class TTypeQualifierValue(Struct):
    i32Value: Annotated[int | None, 1, I32] = None
    stringValue: Annotated[str | None, 2] = None


class TTypeQualifiers(Struct):
    qualifiers: Annotated[dict[str, TTypeQualifierValue], 1]


class TPrimitiveTypeEntry(Struct):
    type: Annotated[int, 1, I32]
    typeQualifiers: Annotated[TTypeQualifiers | None, 2] = None


class TArrayTypeEntry(Struct):
    objectTypePtr: Annotated[int, 1, I32]


class TMapTypeEntry(Struct):
    keyTypePtr: Annotated[int, 1, I32]
    valueTypePtr: Annotated[int, 2, I32]


class TStructTypeEntry(Struct):
    nameToTypePtr: Annotated[dict[str, int], 1, I32]


class TUnionTypeEntry(Struct):
    nameToTypePtr: Annotated[dict[str, int], 1, I32]


class TUserDefinedTypeEntry(Struct):
    typeClassName: Annotated[str, 1]


class TTypeEntry(Struct):
    primitiveEntry: Annotated[TPrimitiveTypeEntry | None, 1] = None
    arrayEntry: Annotated[TArrayTypeEntry | None, 2] = None
    mapEntry: Annotated[TMapTypeEntry | None, 3] = None
    structEntry: Annotated[TStructTypeEntry | None, 4] = None
    unionEntry: Annotated[TUnionTypeEntry | None, 5] = None
    userDefinedTypeEntry: Annotated[TUserDefinedTypeEntry | None, 6] = None


class TTypeDesc(Struct):
    types: Annotated[list[TTypeEntry], 1]


class TColumnDesc(Struct):
    columnName: Annotated[str, 1]
    typeDesc: Annotated[TTypeDesc, 2]
    position: Annotated[int, 3, I32]
    comment: Annotated[str | None, 4] = None


class TTableSchema(Struct):
    columns: Annotated[list[TColumnDesc], 1]


# -- rows, up to V5 ------------------------------------------------------------------------------------------


class TBoolValue(Struct):
    value: Annotated[bool | None, 1] = None


class TByteValue(Struct):
    value: Annotated[int | None, 1, BYTE] = None


class TI16Value(Struct):
    value: Annotated[int | None, 1, I16] = None


class TI32Value(Struct):
    value: Annotated[int | None, 1, I32] = None


class TI64Value(Struct):
    value: Annotated[int | None, 1, I64] = None


class TDoubleValue(Struct):
    value: Annotated[float | None, 1] = None


class TStringValue(Struct):
    value: Annotated[bytes | None, 1] = None


class TColumnValue(Struct):
    boolVal: Annotated[TBoolValue | None, 1] = None
    byteVal: Annotated[TByteValue | None, 2] = None
    i16Val: Annotated[TI16Value | None, 3] = None
    i32Val: Annotated[TI32Value | None, 4] = None
    i64Val: Annotated[TI64Value | None, 5] = None
    doubleVal: Annotated[TDoubleValue | None, 6] = None
    stringVal: Annotated[TStringValue | None, 7] = None


class TRow(Struct):
    colVals: Annotated[list[TColumnValue], 1]


# -- columns, from V6 ----------------------------------------------------------------------------------------


class TBoolColumn(Struct):
    values: Annotated[list[bool], 1]
    nulls: Annotated[bytes, 2]


class TByteColumn(Struct):
    values: Annotated[list[int], 1, BYTE]
    nulls: Annotated[bytes, 2]


class TI16Column(Struct):
    values: Annotated[list[int], 1, I16]
    nulls: Annotated[bytes, 2]


class TI32Column(Struct):
    values: Annotated[list[int], 1, I32]
    nulls: Annotated[bytes, 2]


class TI64Column(Struct):
    values: Annotated[list[int], 1, I64]
    nulls: Annotated[bytes, 2]


class TDoubleColumn(Struct):
    values: Annotated[list[float], 1]
    nulls: Annotated[bytes, 2]


class TStringColumn(Struct):
    values: Annotated[list[bytes], 1]
    nulls: Annotated[bytes, 2]


class TBinaryColumn(Struct):
    values: Annotated[list[bytes], 1]
    nulls: Annotated[bytes, 2]


class TColumn(Struct):
    boolVal: Annotated[TBoolColumn | None, 1] = None
    byteVal: Annotated[TByteColumn | None, 2] = None
    i16Val: Annotated[TI16Column | None, 3] = None
    i32Val: Annotated[TI32Column | None, 4] = None
    i64Val: Annotated[TI64Column | None, 5] = None
    doubleVal: Annotated[TDoubleColumn | None, 6] = None
    stringVal: Annotated[TStringColumn | None, 7] = None
    binaryVal: Annotated[TBinaryColumn | None, 8] = None


class TRowSet(Struct):
    startRowOffset: Annotated[int, 1, I64]
    rows: Annotated[list[TRow], 2]
    columns: Annotated[list[TColumn] | None, 3] = None
    binaryColumns: Annotated[bytes | None, 4] = None
    columnCount: Annotated[int | None, 5, I32] = None
