"""Names as Spark resolves them: what a written name means in a session.

Rules are those of Spark's CatalogManager: a one-part name is a temporary view first, then a table of the
current namespace; the first part of a longer name is a catalog when a catalog of that name is configured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gateway.model.catalog import (
    CHANGES,
    GLOBAL_TEMP,
    FileNames,
    TableName,
    join_namespace,
    levels,
    quote,
    quote_parts,
)
from gateway.model.files import SESSION_CATALOG
from gateway.model.metalakes import NONE_LISTED, ListedCatalogs
from gateway.model.statement import SessionContext
from gateway.model.system_tables import NameForm, explain
from gateway.model.table_formats import ICEBERG, METADATA_TABLES, PAIMON
from gateway.sql.paths import FILE_FORMATS, FilesByPath
from gateway.sql.required import Unsupported

MAX_LEVELS = 16
"""No catalog needs deeper namespaces, and each level is asked of policies by itself."""

_GOVERNED_NAME = re.compile(r"[\w-]+(?: [\w-]+)*")
"""Letters, digits, `_`, `-` and single blanks inside. A path (`/x`, `s3:…`) would be read as files, `t$files`
is a table format's view past masks, and metastores trim blanks: the name judged would not be the one used."""
_UNGOVERNED = "has a name with characters of paths or system tables, or with unusual blanks"


@dataclass(frozen=True, slots=True)
class TempViewName:
    """A temporary view of this session; its text was judged when it was created."""

    name: str


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """What a format tells of a table beside its rows, as a table of its own: `t.files`, `` `t$files` ``."""

    table: TableName
    provider: str
    """The format whose way of naming it is; the table has to be of it."""
    part: str
    """Lower case."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the full name."""
        *above, table = self.table.parts
        if self.provider == PAIMON.name:
            return *above, f"{table}${self.part}"
        return *above, table, self.part


_BRANCH = re.compile(r"branch_\w+", re.ASCII)
"""Iceberg's way to name a branch where a table is written to."""
_BELOW_TABLES = METADATA_TABLES[ICEBERG.name]
_VERSIONS = re.compile(r"(?:branch|tag|snapshot_id|at_timestamp)_.*|changes|rewrite", re.IGNORECASE)
"""Iceberg's ways to name rows of a table at another time, below it, and what it tells of changes."""
_REFERENCE = re.compile(r"(?:branch|tag)_(?![0-9]+\Z)([\w-]{1,256})", re.ASCII)
"""A branch or tag. One of digits alone `VERSION AS OF` would take for the number of a snapshot."""
_SNAPSHOT = re.compile(r"snapshot_id_([0-9]{1,19})", re.ASCII)
_TIME = re.compile(r"at_timestamp_([0-9]{1,19})", re.ASCII)
"""In milliseconds since 1970."""
_NO_LEVELS = frozenset({GLOBAL_TEMP})
"""What no level of a namespace is called: Spark has views of every session there."""


@dataclass(frozen=True, slots=True)
class Ungovernable:
    """The name cannot be judged; `why` continues a sentence that begins with the name."""

    why: str
    sqlstate: str = ""
    """Set where Spark says the same: `why` then stands by itself, and begins with Spark's condition."""

    def refusal(self, written: str) -> Unsupported:
        """Return why a statement that has the name cannot pass."""
        if self.sqlstate:
            return Unsupported(self.why, self.sqlstate)
        return Unsupported(f"`{written}` {self.why}")


@dataclass(frozen=True, slots=True)
class Names:
    """The session's view of names: its context and the catalogs that are configured (lower case)."""

    context: SessionContext
    catalogs: frozenset[str]
    sources: Mapping[str, FileNames] = field(default_factory=dict)
    """As `CatalogSnapshot` has them: first parts that mean files, and are no catalogs."""
    listed: ListedCatalogs = NONE_LISTED
    """As `CatalogSnapshot` has them: catalogs that come and go."""
    global_views: bool = False
    """Whether a text may read global temporary views: a client's own, and the text of such a view."""

    def explain_unusable_catalog(self, catalog: str) -> Ungovernable | None:
        """Say why nothing in a catalog can be named in this session now, None when it can.

        INVARIANT (names are judged as Spark will resolve them): Spark's session knows what it was told when
        it was opened, and keeps a catalog as it was when it was first used. One that was told otherwise, or
        not at all, is another catalog than the one that was judged, or a database of another one.
        """
        folded = catalog.lower()
        told = next((number for name, number in self.context.catalogs if name == folded), None)
        if folded in self.listed.refused:
            return Ungovernable(f"is in the catalog {quote(catalog)}, {self.listed.refused[folded]}")
        if self.listed.revisions.get(folded) == told:
            return None
        if told is None:
            return Ungovernable(
                f"is in the catalog {quote(catalog)}, which was added after this session began; open a new "
                "session"
            )
        return Ungovernable(
            f"is in the catalog {quote(catalog)}, which has changed since this session began; open a new "
            "session"
        )

    def _in_capitals(self, catalog: str) -> Ungovernable | None:
        """Spark knows its own catalog by any case; of another, a name in capitals is to it that of a database
        of the current catalog."""
        folded = catalog.lower()
        if catalog == folded or folded == SESSION_CATALOG:
            return None
        return Ungovernable(
            f"is in the catalog {quote(folded)}, whose name Spark knows in lower case only; write "
            f"{quote(folded)}"
        )

    def is_catalog(self, name: str) -> bool:
        """Whether there is a catalog of that name that this session can use."""
        refused = self.explain_unusable_catalog(name) or self._in_capitals(name)
        return name.lower() in self.catalogs and refused is None

    def table(self, parts: tuple[str, ...]) -> TableName | TempViewName | Ungovernable:
        """Say what a relation name means. A temporary view shadows tables for one-part names only."""
        if len(parts) == 1:  # RULE (temp-view-one-part)
            if parts[0].lower() in self.context.temp_views:  # RULE (temp-view-any-case)
                return TempViewName(parts[0])
            return self._in_current(parts[0])
        if self.global_views and len(parts) == 2 and parts[0].lower() == GLOBAL_TEMP:
            return name_global_view(parts[1])
        return self._qualify(parts)

    def _qualify(self, parts: tuple[str, ...]) -> TableName | Ungovernable:
        # RULE (reserved-catalogs)
        if parts[0].lower() == "system" or (len(parts) == 2 and parts[0].lower() == "session"):
            return Ungovernable("is in a reserved namespace")
        if self._means_files(parts):
            try:
                return _of_files(self.sources[parts[0].lower()].table(parts[1:]))
            except ValueError as why:
                return Ungovernable(str(why))
        catalog, rest = self._split_catalog(parts)
        refused = self.explain_unusable_catalog(catalog)
        if refused is not None:
            return refused
        if len(rest) > 2 and catalog.lower() == SESSION_CATALOG:  # RULE (spark-catalog-flat)
            return _explain_nested(rest)
        if len(rest) < 2:
            return Ungovernable(
                f"refers to the catalog {quote(catalog)} without a database; for a database of that name, "
                "write its catalog before it"
            )
        return _build_table_name(catalog, rest)

    def _means_files(self, parts: tuple[str, ...]) -> bool:
        """Whether the first part is that of a source of files; a catalog of its name comes first."""
        return parts[0].lower() in self.sources and not self._begins_with_catalog(parts)

    def metadata_table(self, parts: tuple[str, ...]) -> MetadataTable | None:
        """Say which table's metadata a name means, when the catalog has the table and nothing else there."""
        *above, last = parts
        table, sign, part = last.partition("$")
        if sign and part.lower() in METADATA_TABLES[PAIMON.name]:
            if not above and last.lower() in self.context.temp_views:
                return None
            named = self.new_table((*above, table))
            if isinstance(named, Ungovernable) or named.catalog.lower() == SESSION_CATALOG:
                return None
            return MetadataTable(named, PAIMON.name, part.lower())
        if last.lower() not in _BELOW_TABLES:
            return None
        name = self._above(parts)
        return MetadataTable(name, "iceberg", last.lower()) if name is not None else None

    def files(self, parts: tuple[str, ...]) -> FilesByPath | None:
        """Say which files a name means, ``parquet.`/p` ``, when it can be that of no table: names with a
        slash are none that Spark's own catalog takes."""
        if len(parts) != 2 or parts[0].lower() not in FILE_FORMATS or "/" not in parts[1]:
            return None
        # RULE (path-of-other-catalog)
        if self.context.catalog.lower() != SESSION_CATALOG or self._begins_with_catalog(parts):
            return None
        return None if self._means_files(parts) else FilesByPath(parts[0].lower(), parts[1])

    def branch(self, parts: tuple[str, ...]) -> tuple[TableName, str] | None:
        """Say which table and which branch of it a name means that is written to, `t.branch_b`, when the
        catalog has the table and nothing else there."""
        if not _BRANCH.fullmatch(parts[-1]):
            return None
        name = self._above(parts)
        return (name, parts[-1]) if name is not None else None

    def version(self, parts: tuple[str, ...]) -> TableName | None:
        """Say which version of which table a name means that is read, `t.branch_b`, or its changes,
        `t.changes`, when the catalog has the table and nothing else there. A version is named by the clause
        of SQL that means the same, so that one name stands for it, however it is written."""
        last = parts[-1]
        if last == "changes":
            version = CHANGES
        elif reference := _REFERENCE.fullmatch(last):
            version = f"VERSION AS OF '{reference[1]}'"
        elif snapshot := _SNAPSHOT.fullmatch(last):
            version = f"VERSION AS OF {snapshot[1]}"
        elif time := _TIME.fullmatch(last):
            version = f"TIMESTAMP AS OF timestamp_millis({time[1]})"
        else:
            return None
        name = self._above(parts)
        return replace(name, version=version) if name is not None else None

    def _above(self, parts: tuple[str, ...]) -> TableName | None:
        """Return the table below which something is named, when the catalog has it."""
        catalog, rest = self._split_catalog(parts)
        if len(rest) < 3 or catalog.lower() == SESSION_CATALOG:
            return None
        if self.explain_unusable_catalog(catalog) is not None or self._means_files(parts):
            return None
        name = _build_table_name(catalog, rest[:-1])
        return name if isinstance(name, TableName) else None

    def new_table(self, parts: tuple[str, ...]) -> TableName | Ungovernable:
        """Say what a name means where temporary views do not count: targets of CREATE, INSERT, …"""
        return self._in_current(parts[0]) if len(parts) == 1 else self._qualify(parts)

    def namespace(self, parts: tuple[str, ...]) -> tuple[str, str | None] | Ungovernable:
        """Say which catalog and database a namespace means, as `TableName` has them; no database for a
        catalog by itself."""
        if parts and parts[0].lower() in (GLOBAL_TEMP, "system", "session"):
            return Ungovernable("is a reserved namespace")
        catalog, rest = self._split_catalog(parts)
        return self._in_capitals(catalog) or self.namespace_in(catalog, rest)  # RULE (capital-catalog)

    def namespace_in(self, catalog: str, rest: tuple[str, ...]) -> tuple[str, str | None] | Ungovernable:
        """Say the same of the levels of a namespace of a catalog."""
        refused = self.explain_unusable_catalog(catalog)
        if refused is not None:
            return refused
        if len(rest) > 1 and catalog.lower() == SESSION_CATALOG:
            return _explain_nested(rest)
        if len(rest) > MAX_LEVELS:
            return Ungovernable(f"has more than {MAX_LEVELS} levels")
        # RULE (path-as-database, namespace-no-levels)
        if any(level.lower() in _NO_LEVELS or not _GOVERNED_NAME.fullmatch(level) for level in rest):
            return Ungovernable("is not a supported database name")
        return catalog, (join_namespace(rest) if rest else None)

    def current_database(self) -> tuple[str, str] | Ungovernable:
        """Return the session's current catalog and database."""
        catalog, current = self.context.catalog, self.context.namespace
        if not current or any("." in level for level in current):
            return Ungovernable("the current namespace is not a database")
        if len(current) > 1 and catalog.lower() == SESSION_CATALOG:
            return _explain_nested(current)
        refused = self.explain_unusable_catalog(catalog)
        if refused is not None:
            return refused
        return catalog, join_namespace(current)

    def _in_current(self, name: str) -> TableName | Ungovernable:
        current = self.current_database()
        if isinstance(current, Ungovernable):
            return current
        return _build_table_name(current[0], (*levels(current[1]), name))

    def _split_catalog(self, parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        if self._begins_with_catalog(parts):
            return parts[0], parts[1:]
        return self.context.catalog, parts

    def _begins_with_catalog(self, parts: tuple[str, ...]) -> bool:
        if not parts:
            return False
        first = parts[0].lower()
        if first in self.catalogs or first in self.listed.refused:
            return True
        # One that is not there any more Spark's session has still.
        return any(name == first for name, _ in self.context.catalogs)


def name_global_view(view: str) -> TableName | Ungovernable:
    """Return what a global temporary view is judged as: a view of Spark's own catalog."""
    if not _GOVERNED_NAME.fullmatch(view):
        return Ungovernable(_explain_part(view))
    return TableName(SESSION_CATALOG, GLOBAL_TEMP, view)


def no_catalog(name: str) -> Unsupported:
    """Return the refusal of a catalog that is not configured, in Spark's words for one that is not there."""
    return Unsupported(
        f"[CATALOG_NOT_FOUND] The catalog {quote(name)} not found: it is not configured. SQLSTATE: 42P08",
        "42P08",
    )


def _explain_nested(parts: tuple[str, ...]) -> Ungovernable:
    """Say what Spark says of a name that begins with no catalog and has too many parts for a database."""
    return Ungovernable(
        f"[REQUIRES_SINGLE_PART_NAMESPACE] {SESSION_CATALOG} requires a single-part namespace, but got "
        f"identifier {quote_parts(parts)}. SQLSTATE: 42K05",
        "42K05",
    )


def namespace_above(name: TableName) -> TableName | None:
    """Return the table that would have the name of the nested namespace that a table lies in, None when it
    lies in none. Formats read names below a table as versions, branches and metadata of it."""
    *above, last = levels(name.database)
    return TableName(name.catalog, join_namespace(above), last) if above else None


def _build_table_name(catalog: str, parts: tuple[str, ...]) -> TableName | Ungovernable:
    """Return the name of a table by its levels and its own.

    INVARIANT (one name): no part has a dot, so that no two names are joined to the same.
    """
    *namespace, table = parts
    if any(level.lower() in _NO_LEVELS for level in namespace):  # RULE (global-temp-names)
        return Ungovernable("is a global temporary view, which all sessions share")
    for part in (catalog, *parts):
        if not _GOVERNED_NAME.fullmatch(part):  # RULE (path-as-table)
            return Ungovernable(_explain_part(part))
    if len(namespace) > MAX_LEVELS:
        return Ungovernable(f"is in a namespace of more than {MAX_LEVELS} levels")
    # RULE (version-as-nested-table)
    if len(namespace) > 1 and (_VERSIONS.fullmatch(table) or table.lower() in _BELOW_TABLES):
        # Even where no table has the namespace's name: a temporary view keeps the name until one has.
        return Ungovernable(explain(NameForm.BELOW, table) or f"is named as an Iceberg table's {table}")
    name = TableName(catalog, join_namespace(namespace), table)
    # Spark's own catalog knows a name in any case. Another may have a table for each, and which one is looked
    # up, judged and forwarded has to be the same.
    return name if catalog.lower() == SESSION_CATALOG else name.fold()  # RULE (fold-foreign-table-names)


def _explain_part(part: str) -> str:
    """Say why a part of a name is none that is governed, by what a table format would read in it."""
    for sign, naming in (("$", NameForm.AFTER), ("@", NameForm.SUFFIX)):
        _, found, rest = part.partition(sign)
        if found and (known := explain(naming, rest)):
            return known
    return _UNGOVERNED


def _of_files(name: TableName) -> TableName | Ungovernable:
    return _build_table_name(name.catalog, (name.database, name.table))
