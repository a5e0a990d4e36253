"""A statement on its way: what was asked, in which session, and the verdict on it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.model.catalog import TableName
from gateway.model.decision import Decision, Obligation
from gateway.model.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """What of the session decides the meaning of names."""

    catalog: str = "spark_catalog"
    namespace: tuple[str, ...] = ("default",)
    temp_views: frozenset[str] = frozenset()
    """Temporary views that exist in Spark's session for certain, lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL text with the principal who sent it and the session that it arrived in."""

    text: str
    principal: Principal
    context: SessionContext


@dataclass(frozen=True, slots=True)
class UseNamespace:
    """The session's current catalog and database change when the statement succeeds; None: unchanged."""

    catalog: str | None
    namespace: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class CreateTempView:
    name: str


@dataclass(frozen=True, slots=True)
class DropTempView:
    name: str


@dataclass(frozen=True, slots=True)
class CatalogChanged:
    """Tables or databases that the statement creates, alters or drops: the catalog must look again."""

    tables: tuple[TableName, ...] = ()
    databases: tuple[tuple[str, str], ...] = ()


SessionEffect = UseNamespace | CreateTempView | DropTempView | CatalogChanged


class AnswerFilter(enum.Enum):
    """How the rows of an answer that lists names are filtered; RELAY passes them undecoded."""

    RELAY = "relay"
    CATALOGS = "catalogs"
    DATABASES = "databases"
    TABLES = "tables"
    VIEWS = "views"
    COLUMNS = "columns"
    FUNCTIONS = "functions"
    DESCRIBE_TABLE = "describe_table"
    SETTINGS = "settings"
    TABLE_EXTENDED = "table_extended"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRule:
    """What the session does with the rows before the client sees them."""

    filter: AnswerFilter = AnswerFilter.RELAY
    catalog: str | None = None
    database: str | None = None
    table: TableName | None = None
    columns: frozenset[str] | None = None
    """For DESCRIBE and SHOW COLUMNS: names (lower case) that may be shown."""
    details: bool = True
    """For DESCRIBE: whether location, statistics and view text may be shown."""


RELAY = AnswerRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRecord:
    """One relation of the statement for the audit record: what it is and what was done to it."""

    table: TableName
    access: str
    columns: tuple[str, ...] | None
    """Columns used, or None when the analyst could not tell."""
    obligations: tuple[Obligation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """A verdict that lets a statement pass. Only `pipeline.judge` makes one; a backend takes nothing else."""

    statement: Statement
    forwarded: str
    """The text that was proved and that Spark receives."""
    plan_class: str
    decisions: tuple[Decision, ...]
    scans: tuple[ScanRecord, ...]
    snapshot_version: str
    effects: tuple[SessionEffect, ...] = ()
    answer: AnswerRule = RELAY
    readers_agree: bool | None = None
    """Whether Spark's parser and the analyst saw the same relations; None when the analyst was silent."""
    provisional: bool = False
    """Whether it rests on a table that did not exist: the next time, that must be looked up again."""
    facets: frozenset[str] = frozenset()
    """Fields of the AccessContext that it depends on: in another context it may not be used again."""
    written_by_us: tuple[tuple[str, str], ...] = ()
    """(what we wrote, what the user wrote) pairs, to put Spark's messages back into the user's words."""

    @property
    def obligations(self) -> tuple[Obligation, ...]:
        """Every row filter and mask that the forwarded text carries."""
        return tuple(o for scan in self.scans for o in scan.obligations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A verdict that stops a statement; `message` is for the person who sent it."""

    statement: Statement
    code: str
    """`ACCESS_DENIED`, `NOT_GOVERNABLE`, `PARSE`, … without the SLUICE_ prefix."""
    sqlstate: str
    message: str
    plan_class: str = ""
    decisions: tuple[Decision, ...] = ()
    snapshot_version: str = ""

    @property
    def text(self) -> str:
        """The message as a client sees it; the code SPARK marks Spark's own words."""
        if self.code == "SPARK":
            return self.message
        return f"[SLUICE_{self.code}] {self.message}"


Verdict = Cleared | Refused


@dataclass(frozen=True, slots=True)
class NeedsCatalog:
    """Judging cannot go on before these names have been looked up; the caller looks and asks again."""

    tables: tuple[TableName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Where a statement came from, for the audit record."""

    address: str = ""
    protocol: str = "thrift"
    application: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)
