"""What Hive's metastore is told and answers with, as its Thrift interface (hive_metastore.thrift) names it.

Only fields that are read or told are declared; Thrift's codec skips the others.
"""

from typing import Annotated

from gateway.wire.thrift import Struct


class FieldSchema(Struct):
    name: Annotated[str | None, 1] = None
    type: Annotated[str | None, 2] = None
    comment: Annotated[str | None, 3] = None


class StorageDescriptor(Struct):
    cols: Annotated[list[FieldSchema] | None, 1] = None
    location: Annotated[str | None, 2] = None


class Database(Struct):
    name: Annotated[str | None, 1] = None
    description: Annotated[str | None, 2] = None
    locationUri: Annotated[str | None, 3] = None
    parameters: Annotated[dict[str, str] | None, 4] = None
    ownerName: Annotated[str | None, 6] = None


class HiveTable(Struct):
    tableName: Annotated[str | None, 1] = None
    dbName: Annotated[str | None, 2] = None
    owner: Annotated[str | None, 3] = None
    sd: Annotated[StorageDescriptor | None, 7] = None
    partitionKeys: Annotated[list[FieldSchema] | None, 8] = None
    parameters: Annotated[dict[str, str] | None, 9] = None
    viewOriginalText: Annotated[str | None, 10] = None
    tableType: Annotated[str | None, 12] = None


class MetastoreFailure(Struct):
    """Any exception of the metastore: its first field is the message."""

    message: Annotated[str | None, 1] = None


class NoArguments(Struct):
    pass


class NameArguments(Struct):
    name: Annotated[str, 1]


class TablesArguments(Struct):
    db_name: Annotated[str, 1]
    pattern: Annotated[str, 2]
    tableType: Annotated[str, 3]


class FunctionsArguments(Struct):
    dbName: Annotated[str, 1]
    pattern: Annotated[str, 2]


class FunctionArguments(Struct):
    dbName: Annotated[str, 1]
    funcName: Annotated[str, 2]


class HiveFunction(Struct):
    functionName: Annotated[str | None, 1] = None
    className: Annotated[str | None, 3] = None
    ownerName: Annotated[str | None, 4] = None


class FunctionResult(Struct):
    success: Annotated[HiveFunction | None, 0] = None
    failed: Annotated[MetastoreFailure | None, 1] = None
    missing: Annotated[MetastoreFailure | None, 2] = None


class TableRequest(Struct):
    dbName: Annotated[str, 1]
    tblName: Annotated[str, 2]


class TableArguments(Struct):
    req: Annotated[TableRequest, 1]


class TableAnswer(Struct):
    table: Annotated[HiveTable | None, 1] = None


class NamesResult(Struct):
    success: Annotated[list[str] | None, 0] = None
    failed: Annotated[MetastoreFailure | None, 1] = None
    missing: Annotated[MetastoreFailure | None, 2] = None
    unknown: Annotated[MetastoreFailure | None, 3] = None


class DatabaseResult(Struct):
    success: Annotated[Database | None, 0] = None
    missing: Annotated[MetastoreFailure | None, 1] = None
    failed: Annotated[MetastoreFailure | None, 2] = None


class TableResult(Struct):
    success: Annotated[TableAnswer | None, 0] = None
    failed: Annotated[MetastoreFailure | None, 1] = None
    missing: Annotated[MetastoreFailure | None, 2] = None


class DatabaseArguments(Struct):
    database: Annotated[Database, 1]


class DropDatabaseArguments(Struct):
    name: Annotated[str, 1]
    deleteData: Annotated[bool, 2]
    cascade: Annotated[bool, 3]


class Done(Struct):
    """The answer of a call that changes something: nothing, or one of its exceptions by its place."""

    first: Annotated[MetastoreFailure | None, 1] = None
    second: Annotated[MetastoreFailure | None, 2] = None
    third: Annotated[MetastoreFailure | None, 3] = None
    fourth: Annotated[MetastoreFailure | None, 4] = None

    @property
    def failure(self) -> MetastoreFailure | None:
        """Whichever exception it was."""
        return self.first or self.second or self.third or self.fourth
