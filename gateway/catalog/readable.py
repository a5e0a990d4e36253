"""What a catalog can be asked, and told, whichever system keeps it.

Names of databases may be nested: then they are written with dots between their levels. Types are DDL as Spark
SQL writes it; one that Spark has no word for is told in the words of its own system.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from gateway.errors import SluiceError
from gateway.model.catalog import Column, TableKind


class CatalogUnavailable(SluiceError):
    """The system that keeps a catalog gives no answer, or none of its protocol. No secret stands in it."""

    code = "CATALOG_UNAVAILABLE"
    sqlstate = "08001"


class NoSuchDatabase(SluiceError):
    """There is no database of that name."""

    code = "SCHEMA_NOT_FOUND"
    sqlstate = "42704"


class NoSuchTable(SluiceError):
    """There is no table or view of that name."""

    code = "TABLE_OR_VIEW_NOT_FOUND"
    sqlstate = "42P01"


class NoSuchFunction(SluiceError):
    """There is no function of that name."""

    code = "ROUTINE_NOT_FOUND"
    sqlstate = "42883"


class DatabaseAlreadyExists(SluiceError):
    """There is a database of that name."""

    code = "SCHEMA_ALREADY_EXISTS"
    sqlstate = "42P06"


class DatabaseNotEmpty(SluiceError):
    """A database that is to be dropped has tables, views or databases below it."""

    code = "SCHEMA_NOT_EMPTY"
    sqlstate = "2BP01"


class NotSupported(SluiceError):
    """Catalogs of this kind have no such thing, or cannot be told it safely."""

    code = "CATALOG_NOT_SUPPORTED"
    sqlstate = "0A000"


class CatalogRefused(SluiceError):
    """The system that keeps a catalog answers, and will not do what it was told; with its own words."""

    code = "CATALOG_REFUSED"
    sqlstate = "38000"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseEntry:
    name: str
    comment: str | None = None
    owner: str | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """A table or view of a catalog."""

    database: str
    name: str
    kind: TableKind = TableKind.TABLE
    columns: tuple[Column, ...] = ()
    partitioning: tuple[str, ...] = ()
    """Expressions that its partitions are made by, such as `day` or `bucket(16, id)`."""
    owner: str | None = None
    comment: str | None = None
    provider: str | None = None
    location: str | None = None
    text: str | None = None
    """A view's text."""
    properties: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = None
    """Rows, where the catalog knows without counting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionEntry:
    """A function of a catalog, as far as its system tells."""

    database: str
    name: str
    class_name: str | None = None
    """The class that it is run by."""
    owner: str | None = None
    text: str | None = None
    """What its system says of it."""


class ReadableCatalog(Protocol):
    """What every catalog answers. Raises CatalogUnavailable besides what is said."""

    async def __aenter__(self) -> Self:
        """Open it: log in, and see that it answers."""
        ...

    async def __aexit__(self, *_: object) -> None: ...

    async def databases(self) -> Sequence[str]:
        """Return the names of all databases, sorted."""
        ...

    async def database(self, name: str) -> DatabaseEntry:
        """Return a database. Raises NoSuchDatabase."""
        ...

    async def tables(self, database: str) -> Sequence[str]:
        """Return the names of its tables, sorted; views are not among them. Raises NoSuchDatabase."""
        ...

    async def views(self, database: str) -> Sequence[str]:
        """Return the names of its views, sorted. Raises NoSuchDatabase."""
        ...

    async def table(self, database: str, name: str) -> TableEntry:
        """Return a table or view. Raises NoSuchTable."""
        ...

    async def functions(self, database: str) -> Sequence[str]:
        """Return the names of its functions, sorted. Raises NoSuchDatabase."""
        ...

    async def function(self, database: str, name: str) -> FunctionEntry:
        """Return a function. Raises NoSuchFunction, NoSuchDatabase."""
        ...


class WritableCatalog(ReadableCatalog, Protocol):
    """A catalog in which databases are made and dropped; tables are made by statements, which are judged.

    Besides what is said, both raise CatalogUnavailable, after which nobody knows whether it was done;
    CatalogRefused; and NotSupported where a catalog of this kind has no such thing.
    """

    async def create_database(self, name: str) -> None:
        """Make a database; whose it is may be the system's to say. Raises DatabaseAlreadyExists."""
        ...

    async def drop_database(self, name: str) -> None:
        """Drop an empty database. Raises NoSuchDatabase, DatabaseNotEmpty."""
        ...


class WithoutFunctions(ABC):
    """What a catalog answers that keeps no functions."""

    @abstractmethod
    async def database(self, name: str) -> DatabaseEntry:
        """Raise NoSuchDatabase where there is none."""

    async def functions(self, database: str) -> Sequence[str]:
        await self.database(database)
        return ()

    async def function(self, database: str, name: str) -> FunctionEntry:
        await self.database(database)
        raise NoSuchFunction(f"function `{database}.{name}` does not exist")
