"""HiveServer2's requests and replies, one pair per remote call, and the table of the calls by name.

No `from __future__ import annotations` here: `Struct` reads the annotations while the class is built.
"""

from typing import Annotated

from gateway.wire.tcli import (
    TOperationHandle,
    TProtocolVersion,
    TRowSet,
    TSessionHandle,
    TStatus,
    TTableSchema,
)
from gateway.wire.thrift import I16, I32, I64, Struct

# -- the four shapes that most of them have ------------------------------------------------------------------


class SessionRequest(Struct):
    sessionHandle: Annotated[TSessionHandle, 1]


class OperationRequest(Struct):
    operationHandle: Annotated[TOperationHandle, 1]


class Reply(Struct):
    status: Annotated[TStatus, 1]


class OperationReply(Reply):
    operationHandle: Annotated[TOperationHandle | None, 2] = None


# -- sessions ------------------------------------------------------------------------------------------------


class TOpenSessionReq(Struct):
    client_protocol: Annotated[int, 1, I32] = TProtocolVersion.V10.value
    username: Annotated[str | None, 2] = None
    password: Annotated[str | None, 3] = None
    configuration: Annotated[dict[str, str] | None, 4] = None


class TOpenSessionResp(Reply):
    serverProtocolVersion: Annotated[int, 2, I32] = TProtocolVersion.V10.value
    sessionHandle: Annotated[TSessionHandle | None, 3] = None
    configuration: Annotated[dict[str, str] | None, 4] = None


class TCloseSessionReq(SessionRequest):
    pass


class TCloseSessionResp(Reply):
    pass


class TGetInfoValue(Struct):
    stringValue: Annotated[str | None, 1] = None
    smallIntValue: Annotated[int | None, 2, I16] = None
    integerBitmask: Annotated[int | None, 3, I32] = None
    integerFlag: Annotated[int | None, 4, I32] = None
    binaryValue: Annotated[int | None, 5, I32] = None
    lenValue: Annotated[int | None, 6, I64] = None


class TGetInfoReq(SessionRequest):
    infoType: Annotated[int, 2, I32]


class TGetInfoResp(Reply):
    """`infoValue` is required even in an error: a Java client drops a reply without it."""

    infoValue: Annotated[TGetInfoValue, 2]


class TSetClientInfoReq(SessionRequest):
    configuration: Annotated[dict[str, str] | None, 2] = None


class TSetClientInfoResp(Reply):
    pass


class TGetDelegationTokenReq(SessionRequest):
    owner: Annotated[str, 2]
    renewer: Annotated[str, 3]


class TGetDelegationTokenResp(Reply):
    delegationToken: Annotated[str | None, 2] = None


class TCancelDelegationTokenReq(SessionRequest):
    delegationToken: Annotated[str, 2]


class TCancelDelegationTokenResp(Reply):
    pass


class TRenewDelegationTokenReq(SessionRequest):
    delegationToken: Annotated[str, 2]


class TRenewDelegationTokenResp(Reply):
    pass


# -- statements and their operations -------------------------------------------------------------------------


class TExecuteStatementReq(SessionRequest):
    statement: Annotated[str, 2]
    confOverlay: Annotated[dict[str, str] | None, 3] = None
    runAsync: Annotated[bool | None, 4] = None
    queryTimeout: Annotated[int | None, 5, I64] = None


class TExecuteStatementResp(OperationReply):
    pass


class TProgressUpdateResp(Struct):
    headerNames: Annotated[list[str], 1]
    rows: Annotated[list[list[str]], 2]
    progressedPercentage: Annotated[float, 3]
    status: Annotated[int, 4, I32]
    footerSummary: Annotated[str, 5]
    startTime: Annotated[int, 6, I64]


class TGetQueryIdReq(OperationRequest):
    pass


class TGetQueryIdResp(Struct):
    """The one reply without a status: an error is an exception of Thrift's."""

    queryId: Annotated[str, 1]


class TGetOperationStatusReq(OperationRequest):
    getProgressUpdate: Annotated[bool | None, 2] = None


class TGetOperationStatusResp(Reply):
    operationState: Annotated[int | None, 2, I32] = None
    sqlState: Annotated[str | None, 3] = None
    errorCode: Annotated[int | None, 4, I32] = None
    errorMessage: Annotated[str | None, 5] = None
    taskStatus: Annotated[str | None, 6] = None
    operationStarted: Annotated[int | None, 7, I64] = None
    operationCompleted: Annotated[int | None, 8, I64] = None
    hasResultSet: Annotated[bool | None, 9] = None
    progressUpdateResponse: Annotated[TProgressUpdateResp | None, 10] = None


class TCancelOperationReq(OperationRequest):
    pass


class TCancelOperationResp(Reply):
    pass


class TCloseOperationReq(OperationRequest):
    pass


class TCloseOperationResp(Reply):
    pass


class TGetResultSetMetadataReq(OperationRequest):
    pass


class TGetResultSetMetadataResp(Reply):
    schema: Annotated[TTableSchema | None, 2] = None


class TFetchResultsReq(OperationRequest):
    maxRows: Annotated[int, 3, I64]
    orientation: Annotated[int, 2, I32] = 0
    fetchType: Annotated[int | None, 4, I16] = None


class TFetchResultsResp(Reply):
    hasMoreRows: Annotated[bool | None, 2] = None
    results: Annotated[TRowSet | None, 3] = None


# -- metadata ------------------------------------------------------------------------------------------------


class TGetTypeInfoReq(SessionRequest):
    pass


class TGetTypeInfoResp(OperationReply):
    pass


class TGetCatalogsReq(SessionRequest):
    pass


class TGetCatalogsResp(OperationReply):
    pass


class TGetSchemasReq(SessionRequest):
    catalogName: Annotated[str | None, 2] = None
    schemaName: Annotated[str | None, 3] = None


class TGetSchemasResp(OperationReply):
    pass


class TGetTablesReq(SessionRequest):
    catalogName: Annotated[str | None, 2] = None
    schemaName: Annotated[str | None, 3] = None
    tableName: Annotated[str | None, 4] = None
    tableTypes: Annotated[list[str] | None, 5] = None


class TGetTablesResp(OperationReply):
    pass


class TGetTableTypesReq(SessionRequest):
    pass


class TGetTableTypesResp(OperationReply):
    pass


class TGetColumnsReq(SessionRequest):
    catalogName: Annotated[str | None, 2] = None
    schemaName: Annotated[str | None, 3] = None
    tableName: Annotated[str | None, 4] = None
    columnName: Annotated[str | None, 5] = None


class TGetColumnsResp(OperationReply):
    pass


class TGetFunctionsReq(SessionRequest):
    functionName: Annotated[str, 4]
    catalogName: Annotated[str | None, 2] = None
    schemaName: Annotated[str | None, 3] = None


class TGetFunctionsResp(OperationReply):
    pass


class TGetPrimaryKeysReq(SessionRequest):
    catalogName: Annotated[str | None, 2] = None
    schemaName: Annotated[str | None, 3] = None
    tableName: Annotated[str | None, 4] = None


class TGetPrimaryKeysResp(OperationReply):
    pass


class TGetCrossReferenceReq(SessionRequest):
    parentCatalogName: Annotated[str | None, 2] = None
    parentSchemaName: Annotated[str | None, 3] = None
    parentTableName: Annotated[str | None, 4] = None
    foreignCatalogName: Annotated[str | None, 5] = None
    foreignSchemaName: Annotated[str | None, 6] = None
    foreignTableName: Annotated[str | None, 7] = None


class TGetCrossReferenceResp(OperationReply):
    pass


METHODS: dict[str, tuple[type[Struct], type[Struct]]] = {
    "OpenSession": (TOpenSessionReq, TOpenSessionResp),
    "CloseSession": (TCloseSessionReq, TCloseSessionResp),
    "GetInfo": (TGetInfoReq, TGetInfoResp),
    "ExecuteStatement": (TExecuteStatementReq, TExecuteStatementResp),
    "GetTypeInfo": (TGetTypeInfoReq, TGetTypeInfoResp),
    "GetCatalogs": (TGetCatalogsReq, TGetCatalogsResp),
    "GetSchemas": (TGetSchemasReq, TGetSchemasResp),
    "GetTables": (TGetTablesReq, TGetTablesResp),
    "GetTableTypes": (TGetTableTypesReq, TGetTableTypesResp),
    "GetColumns": (TGetColumnsReq, TGetColumnsResp),
    "GetFunctions": (TGetFunctionsReq, TGetFunctionsResp),
    "GetPrimaryKeys": (TGetPrimaryKeysReq, TGetPrimaryKeysResp),
    "GetCrossReference": (TGetCrossReferenceReq, TGetCrossReferenceResp),
    "GetOperationStatus": (TGetOperationStatusReq, TGetOperationStatusResp),
    "CancelOperation": (TCancelOperationReq, TCancelOperationResp),
    "CloseOperation": (TCloseOperationReq, TCloseOperationResp),
    "GetResultSetMetadata": (TGetResultSetMetadataReq, TGetResultSetMetadataResp),
    "FetchResults": (TFetchResultsReq, TFetchResultsResp),
    "GetDelegationToken": (TGetDelegationTokenReq, TGetDelegationTokenResp),
    "CancelDelegationToken": (TCancelDelegationTokenReq, TCancelDelegationTokenResp),
    "RenewDelegationToken": (TRenewDelegationTokenReq, TRenewDelegationTokenResp),
    "SetClientInfo": (TSetClientInfoReq, TSetClientInfoResp),
    "GetQueryId": (TGetQueryIdReq, TGetQueryIdResp),
}
"""Every call of the service that is answered: name → request and reply."""

REFUSED = {
    "DownloadData": "rows are fetched with FetchResults",
    "UploadData": "rows are written with INSERT",
}
"""Calls of Hive 4 that neither Spark nor the gateway has, with what there is instead. A name that is
in neither table is an unknown method."""
