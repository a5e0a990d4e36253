"""A catalog from a YAML or JSON file: for tests, and for explaining a verdict without a Spark.

    catalogs:
      spark_catalog:
        hr:
          employee:
            columns: {id: int, name: string}
            owner: hr_admin
          names:
            columns: {name: string}
            view: {text: SELECT name FROM hr.employee}

A view may say the `catalog` and `database` that it was written in and the `output` columns of its text;
its own place and its own columns are meant otherwise. Its `definer` is the user whose access counts; without
one it counts as made elsewhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gateway.catalog.types import NotUnderstood, normalize_ddl
from gateway.errors import Faults
from gateway.model.catalog import CatalogSnapshot, Column, Table, TableKind, TableName, ViewBody
from gateway.model.changed_names import NOBODY, ChangedNames

_TABLE_KEYS = frozenset({"columns", "owner", "provider", "location", "view"})
_VIEW_KEYS = frozenset({"text", "catalog", "database", "output", "definer"})


class StaticCatalog:
    """Tables that never change. What is not among them does not exist."""

    def __init__(self, tables: Iterable[Table], *, catalogs: Iterable[str] = ("spark_catalog",)) -> None:
        self._tables = {table.name.fold(): table for table in tables}
        named = {name.catalog for name in self._tables}
        self._catalogs = frozenset(catalog.lower() for catalog in catalogs) | named
        self._missing: frozenset[TableName] = frozenset()
        self.changed_names = ChangedNames()
        self._snapshot = self._make_catalog()

    @classmethod
    def load(cls, path: Path) -> StaticCatalog:
        """Read a file. Raises Faults with everything that is wrong with it."""
        try:
            document = yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)  # noqa: S506  # a SafeLoader
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise Faults([f"{path}: {' '.join(str(error).split())}"]) from error
        reader = _Reader(str(path))
        tables = reader.tables(document)
        if reader.faults:
            raise Faults(reader.faults)
        return cls(tables, catalogs=document["catalogs"])

    @property
    def snapshot(self) -> CatalogSnapshot:
        return self._snapshot

    async def look_up(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        """Return a snapshot that knows all of `tables`; it knows everything that there is anyway."""
        asked = {name.fold() for name in tables} - self._tables.keys() - self._missing
        if asked:
            self._missing |= asked
            self._snapshot = self._make_catalog()
        return self._snapshot

    async def describe_anew(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        """Return what the file says: it does not change."""
        return await self.look_up(tables)

    def invalidate(
        self,
        tables: Sequence[TableName],
        databases: Sequence[tuple[str, str]],
        *,
        by: int = NOBODY,
        stays: bool = False,
    ) -> None:
        """Do nothing: no statement changes a file."""

    def forget_all(self) -> None:
        """Do nothing: it is a file."""

    async def databases(self, catalog: str) -> Sequence[str]:
        """Return the catalog's databases."""
        found = (t.name.database for n, t in self._tables.items() if n.catalog == catalog.lower())
        return tuple(dict.fromkeys(found))

    async def list_tables(self, catalog: str, database: str) -> Sequence[tuple[str, bool]]:
        """Return the database's tables and views, with whether each is a view; none when there is no such."""
        place = (catalog.lower(), database.lower())
        return tuple(
            (table.name.table, table.kind is TableKind.VIEW)
            for name, table in self._tables.items()
            if (name.catalog, name.database) == place
        )

    def _make_catalog(self) -> CatalogSnapshot:
        return CatalogSnapshot(
            version=1, catalogs=self._catalogs, tables=dict(self._tables), missing=self._missing
        )


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key stands once: of two tables with one name, which one is meant?"""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key that is not text", key_node.start_mark
                )
            key = self.construct_object(key_node, deep=True)  # type: ignore[no-untyped-call, unused-ignore]
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"duplicate key `{key}`", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Reader:
    """Reads the document and collects what is wrong with it."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.faults: list[str] = []

    def tables(self, document: Any) -> list[Table]:
        tables: list[Table] = []
        top = self._read_mapping(document, "the file", frozenset({"catalogs"}))
        for catalog, databases in self._read_mapping(top.get("catalogs"), "catalogs").items():
            for database, content in self._read_mapping(databases, catalog).items():
                for table, described in self._read_mapping(content, f"{catalog}.{database}").items():
                    tables.append(self._table(TableName(catalog, database, table), described))
        return tables

    def _table(self, name: TableName, described: Any) -> Table:
        at = str(name)
        fields = self._read_mapping(described, at, _TABLE_KEYS)
        columns = tuple(
            self._column(column, type_, at)
            for column, type_ in self._read_mapping(fields.get("columns"), f"{at}: columns").items()
        )
        view = self._view(name, fields["view"], columns) if "view" in fields else None
        return Table(
            name=name,
            kind=TableKind.TABLE if view is None else TableKind.VIEW,
            columns=columns,
            owner=self._optional(fields, "owner", at),
            provider=self._optional(fields, "provider", at),
            location=self._optional(fields, "location", at),
            view=view,
        )

    def _column(self, name: str, type_: Any, at: str) -> Column:
        try:
            return Column(name=name, type=normalize_ddl(str(type_)))
        except NotUnderstood:
            self._fault(at, f"the type `{type_}` of column `{name}` is not a Spark type")
            return Column(name=name, type="void")

    def _view(self, name: TableName, described: Any, columns: tuple[Column, ...]) -> ViewBody:
        at = f"{name}: view"
        fields = self._read_mapping(described, at, _VIEW_KEYS)
        output = fields.get("output", [column.name for column in columns])
        if not isinstance(output, list) or len(output) != len(columns):
            self._fault(at, "`output` must name one column for each column of the view")
            output = []
        text = self._optional(fields, "text", at)
        if text is None:
            self._fault(at, "`text` is missing")
        return ViewBody(
            text=text or "",
            catalog=self._optional(fields, "catalog", at) or name.catalog,
            database=self._optional(fields, "database", at) or name.database,
            output=tuple(str(column) for column in output),
            definer=self._optional(fields, "definer", at),
        )

    def _read_mapping(self, value: Any, at: str, keys: frozenset[str] | None = None) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self._fault(at, "a mapping is expected here")
            return {}
        for key in value:
            if not isinstance(key, str):
                self._fault(at, f"the name `{key}` must be text; put it in quotes")
            elif keys is not None and key not in keys:
                self._fault(at, f"unknown key `{key}`; the keys are {', '.join(sorted(keys))}")
        return {key: inner for key, inner in value.items() if isinstance(key, str)}

    def _optional(self, fields: Mapping[str, Any], key: str, at: str) -> str | None:
        value = fields.get(key)
        if value is not None and not isinstance(value, str):
            self._fault(at, f"`{key}` must be text")
            return None
        return value

    def _fault(self, at: str, what: str) -> None:
        self.faults.append(f"{self._file}: {at}: {what}")
