"""A statement on its way: what was asked, in which session, and the verdict on it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Final, Literal

from gateway.model.catalog import Table, TableName
from gateway.model.decision import Decision, Obligation, distinct_decisions
from gateway.model.handles import SparkHandle
from gateway.model.principal import Principal

EndpointName = Literal["thrift", "connect"]
"""Where clients send statements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """What of the session decides the meaning of names."""

    catalog: str = "spark_catalog"
    namespace: tuple[str, ...] = ("default",)
    temp_views: frozenset[str] = frozenset()
    """Temporary views that exist in Spark's session for certain, lower case."""
    varying_views: frozenset[str] = frozenset()
    """Those of them whose rows change with time or with tables that policies read, or are not the same for
    everybody: Spark's cache may not keep them."""
    handles: frozenset[SparkHandle] = frozenset()
    """Things of Spark's session that plans refer to by id and that this session made."""
    variables: frozenset[str] = frozenset()
    """Session variables that may exist in Spark's session, lower case: names that mean a value where nothing
    else has them."""
    string_variables: frozenset[str] = frozenset()
    """Those that were declared with the type STRING: what is given to one is its value, as it stands."""
    known_values: frozenset[tuple[str, str]] = frozenset()
    """Those variables that were given a string as it stood in a statement, and which."""
    settings: frozenset[str] = frozenset()
    """Settings that the session may have otherwise than Spark itself does and that could change what an
    expression means (`model/meaning_settings.py`), in Spark's spelling."""
    endpoint: EndpointName = "thrift"
    """Through Spark Connect, `current_user()` would answer the user that Spark runs as, so it is bound."""
    catalogs: frozenset[tuple[str, int]] = frozenset()
    """Catalogs that come and go while the gateway runs, as Spark's session was told of them: lower-case name
    and revision. Spark keeps a catalog as it was first used in a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a Spark Connect client asks to run or to analyse, as the client wrote it."""

    kind: Literal["execute", "analyze"]
    message: bytes
    """`execute`: a serialized `spark.connect.Plan`. `analyze`: a serialized `AnalyzePlanRequest` in which
    nothing but its `analyze` case is set."""


@dataclass(frozen=True, slots=True)
class NumberedQuery:
    """A query of a Spark Connect client, and the ids that it gave to relations of it."""

    plan: PlanRequest
    """With zero in the place of each id."""
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Where a stream's progress and state are kept, for as long as nothing of what it rests on changes."""

    chosen: str
    """The location that the user wrote; it is never read or written."""
    directory: str
    """URL of a directory for all checkpoints of this principal and location."""
    name: str
    """The checkpoint's own name within: a digest of what the stream reads and of what policies say of it."""

    @property
    def url(self) -> str:
        """Where Spark keeps it."""
        return f"{self.directory}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What is to be recorded of a view before its text is changed: a property (`model/definers.py`)."""

    view: TableName
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL text or a plan, with the principal who sent it and the session that it arrived in."""

    text: str
    """For a plan empty; a verdict's statement has its rendering here, as PySpark would print it."""
    principal: Principal
    context: SessionContext
    plan: PlanRequest | None = None
    refreshes: TableName | None = None
    """Set for a statement of the gateway's own: Spark's session shall look again at a table that policies
    read. Nobody needs a privilege for that, and no client can ask for it."""
    checkpoint: Checkpoint | None = None
    """Set for a question of the gateway's own: which checkpoints are there under a user's location?"""
    records: Definition | None = None
    """Set for a statement of the gateway's own: Spark shall keep who defines the view with its next text."""
    resets: str | None = None
    """Set for a statement of the gateway's own: the key of a setting that the session was given and that gets
    Spark's own value again."""
    marks_variables: bool = False
    """Set for a statement of the gateway's own: Spark's session shall say that it has variables, to a gateway
    that was started anew."""


@dataclass(frozen=True, slots=True)
class UseNamespace:
    """The session's current catalog and database change when the statement succeeds; None: unchanged."""

    catalog: str | None
    namespace: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class CreateTempView:
    name: str
    of: Literal["text", "frame", "stream"] = "text"
    """What Spark keeps: of a text the text, whose names it looks up whenever the view is read; of a DataFrame
    the plan and everything that it reads, so that names mean in it for ever what they meant when it was made;
    of a stream, which the same plan starts, the rows."""


@dataclass(frozen=True, slots=True)
class DropTempView:
    name: str


Meaning = Literal["changes", "where_missing", "stays"]


@dataclass(frozen=True, slots=True)
class ChangeSetting:
    """A setting gets another value when the statement succeeds."""

    key: str
    value: str | None
    """None: what Spark itself has."""


@dataclass(frozen=True, slots=True)
class ResetSettings:
    """Before the statement is forwarded, every setting that the session was given is reset, one by one."""


@dataclass(frozen=True, slots=True)
class DropFunction:
    """A temporary function of the session may be gone as soon as the statement is forwarded."""

    name: str


@dataclass(frozen=True, slots=True)
class DeclareVariables:
    """Session variables may exist as soon as the statement is forwarded; names in lower case."""

    names: frozenset[str]
    text: str | None = None
    """The string that they have when it succeeds, where that is known."""
    of_strings: bool = False
    """Whether they are known to have the type STRING."""


@dataclass(frozen=True, slots=True)
class SetVariables:
    """Session variables have values that came of the statement; names in lower case."""

    names: frozenset[str]
    text: str | None = None
    """As DeclareVariables has it, of a variable of type STRING."""


@dataclass(frozen=True, slots=True)
class DropVariable:
    """A session variable is gone when the statement succeeds; its name in lower case."""

    name: str


@dataclass(frozen=True, slots=True)
class CatalogChanged:
    """Tables or databases that the statement creates, alters or drops: the catalog must look again."""

    tables: tuple[TableName, ...] = ()
    databases: tuple[tuple[str, str], ...] = ()
    meaning: Meaning = "changes"
    """Whether the names, and those of the databases' tables, mean something else afterwards: `where_missing`
    when they are only made where there is nothing, `stays` when rows, partitions, statistics or comments
    change."""


@dataclass(frozen=True, slots=True)
class RegisterCode:
    """The session has code of the user's by a name when the statement succeeds."""

    handle: SparkHandle
    reads: bool = False
    """Whether it reads tables: then it ends when it would read them otherwise."""


@dataclass(frozen=True, slots=True)
class MakeFunction:
    """Spark's session knows a function of a database as the statement makes it, when that succeeds. Another
    session that has called it goes on calling what it was."""

    function: TableName


@dataclass(frozen=True, slots=True)
class PersistFrame:
    """Spark's cache has the rows of a DataFrame when the statement succeeds, and finds them by its plan."""


DatasetAction = Literal["promote", "refresh", "forget"]


@dataclass(frozen=True, slots=True)
class TendDataset:
    """Before the statement is forwarded, the gateway looks at a dataset's files again, or forgets them.

    With `promote` files have become a table while its name was looked up."""

    action: DatasetAction
    table: TableName


SessionEffect = (
    UseNamespace
    | CreateTempView
    | DropTempView
    | ChangeSetting
    | ResetSettings
    | CatalogChanged
    | RegisterCode
    | PersistFrame
    | DropFunction
    | MakeFunction
    | TendDataset
    | DeclareVariables
    | SetVariables
    | DropVariable
)


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
    DESCRIBE_JSON = "describe_json"
    PROPERTIES = "properties"
    CREATE_STATEMENT = "create_statement"
    SETTINGS = "settings"
    TABLE_EXTENDED = "table_extended"
    TABLES_JSON = "tables_json"
    # Spark Connect's catalog calls: rows as its Catalog API has them.
    CONNECT_CATALOGS = "connect_catalogs"
    CONNECT_DATABASES = "connect_databases"
    CONNECT_TABLES = "connect_tables"
    CONNECT_FUNCTIONS = "connect_functions"
    CONNECT_COLUMNS = "connect_columns"


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
    key: str | None = None
    """For SHOW TBLPROPERTIES: the one property that is asked for."""


RELAY = AnswerRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRecord:
    """One relation of the statement for the audit record: what it is and what was done to it."""

    table: TableName
    access: str
    columns: tuple[str, ...] | None
    """Columns used, or None when column analysis could not tell."""
    obligations: tuple[Obligation, ...] = ()
    definer: str = ""
    """Of what a view reads: whose access it was read by, when that was not the reader's own."""
    conditions: frozenset[str] | None = None
    """Columns that the statement's own conditions compare, lower case; None where column analysis could not
    tell, and of what a view reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenText:
    """A SQL text as the user wrote it and as Spark has it: Spark tells places of errors in its own."""

    original: str
    forwarded: str
    changes: tuple[tuple[int, int, int], ...]
    """What was replaced: (start, end) in the original and the length of what stands there now, in
    characters, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What judging found out about a statement, a text in it, or the text of a view that it reads."""

    decisions: tuple[Decision, ...] = ()
    scans: tuple[ScanRecord, ...] = ()
    names: frozenset[TableName] = frozenset()
    """Every table and view (folded) that it was judged by: what it reads, what views and policies within
    read, what its commands are on. Spark must find the same under these names."""
    answer: AnswerRule = RELAY
    readers_agree: bool | None = None
    """Whether Spark's parser and column analysis saw the same relations; None when the latter was silent."""
    provisional: bool = False
    """Whether it rests on a table that did not exist: the next time, that must be looked up again."""
    context_dependencies: frozenset[str] = frozenset()
    """Fields of the AccessContext that it depends on: in another context it may not be used again."""
    substitutions: tuple[tuple[str, str], ...] = ()
    """(what we wrote, what the user wrote) pairs, to put Spark's messages back into the user's words."""
    temp_views_read: frozenset[str] = frozenset()
    """Temporary views that it reads, lower case."""
    uncacheable_reason: str = ""
    """Why Spark's cache may not keep its rows, in words: they change with time, or are another's for another
    user. Empty: the same for everybody, at any time."""
    policy_tables: frozenset[TableName] = frozenset()
    """Tables that its masks and filters read: Spark's session has to have looked at them in `period`."""
    hides_columns: bool = False
    """Whether a table that it reads has columns that the principal may not select: they are not there for it,
    and an error that a column is not found has to say so."""
    hides_target: bool = False
    """Whether a table that it writes to, or one that a view's text reads, has such columns: Spark's errors
    must not tell their names."""
    shows_errors: bool = False
    """Whether Spark's own words on it tell no more than the user may know: nothing in it is guarded, and no
    view in it has anything to hide. Then its errors are whole, with the plans that they print."""
    missing: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    """Tables that it reads and that are not there: the parts of their full names, and those that were
    written."""
    rewritten: tuple[RewrittenText, ...] = ()
    """The texts in it in which something was replaced."""
    names_until_end: bool = False
    """Whether Spark looks up its names for as long as it runs, as it does those of a script."""
    definers: frozenset[Principal] = frozenset()
    """The definers of views whose access it rests on, as they were when it was judged."""
    definition: Definition | None = None
    """What has to be recorded before it is forwarded: it changes the text of a view."""

    def list_fields(self) -> dict[str, Any]:
        """Return the fields of Findings by name, to make a value of a class that has them and more."""
        return dict(zip(_FINDINGS, _values_of(self), strict=True))

    def merge(self, inside: Iterable[Findings]) -> Findings:
        """Return what was found with what was found of the texts and views inside.

        What only the whole can say stays its own: the answer, what may be shown of errors, the definition.
        """
        every = (self, *inside)
        found = self.list_fields()
        found["decisions"] = distinct_decisions(decision for one in every for decision in one.decisions)
        if len(every) > 1:
            found["scans"] = tuple(scan for one in every for scan in one.scans)
            # RULE (rests-on-views)
            found["names"] = frozenset[TableName]().union(*(one.names for one in every))
            found["provisional"] = any(one.provisional for one in every)
            found["context_dependencies"] = frozenset[str]().union(
                *(one.context_dependencies for one in every)
            )
            found["policy_tables"] = frozenset[TableName]().union(*(one.policy_tables for one in every))
            found["definers"] = frozenset[Principal]().union(*(one.definers for one in every))
        found["substitutions"] = tuple(dict.fromkeys(pair for one in every for pair in one.substitutions))
        return Findings(**found)

    def with_substitutions_of(self, texts: Iterable[Findings]) -> Findings:
        """Return the same with what was written into further texts, which stand for some that were judged."""
        more = [pair for one in texts for pair in one.substitutions]
        return (
            replace(self, substitutions=tuple(dict.fromkeys((*self.substitutions, *more)))) if more else self
        )


_FINDINGS: Final = tuple([one.name for one in fields(Findings)])
_values_of: Final = attrgetter(*_FINDINGS)


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Cleared(Findings):
    """A verdict that lets a statement pass. Only `pipeline.judge` makes one; a backend takes nothing else."""

    statement: Statement
    forwarded: str
    """The text that was proved and that Spark receives."""
    plan_class: str
    snapshot_version: str
    catalog_version: int = 0
    """The version of the catalog alone."""
    tables: tuple[Table, ...] = ()
    """Those of `names` that there are, as the catalog had them when it was judged, by name."""
    functions: tuple[Table, ...] = ()
    """The same of functions of databases."""
    read_only: bool = False
    """Whether all that it does is answer: then what came of it can still be withheld."""
    effects: tuple[SessionEffect, ...] = ()
    period: int = 0
    """The period, of the context, in which it was judged."""
    forwarded_plan: bytes = b""
    """For a plan: the message that was proved and that Spark receives, of the kind of the original."""
    plan_texts: tuple[str, ...] = ()
    """For a plan: the SQL texts and expressions within it, as the client wrote them."""
    original_relation: bytes = b""
    """For a SqlCommand: the serialized `Relation` that the client sent. Spark answers a query with the
    relation that it was given; this one is put in its place."""
    code: tuple[str, ...] = ()
    """For a plan: code of the user's that it carries and policies allow: `execute system.session.f`."""
    checkpoint: Checkpoint | None = None
    """For a plan that starts a stream with a checkpoint: where that is. Before it is handed over, no other
    may be found in its directory, unless this one is too."""
    handles: frozenset[SparkHandle] = frozenset()
    """For a plan: what of Spark's session it names by an id."""
    is_lazy_checkpoint: bool = False
    """For a plan: whether it makes a checkpoint whose rows are computed when others read it."""
    references_plan_ids: bool = True
    """For a plan: whether something in it is asked for by the id of a relation; if not, other ids mean the
    same."""

    @property
    def renewable(self) -> bool:
        """For a plan: whether the same with other ids of its relations may be forwarded as it was judged; not
        where it changes something of the session."""
        return not (self.references_plan_ids or self.effects)  # RULE (renewal-by-id, renewal-with-effects)

    @property
    def judged_functions(self) -> tuple[Table, ...]:
        """Those of its functions whose bodies were judged."""
        return tuple(one for one in self.functions if one.view is not None and one.view.definer is not None)

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
    handles: frozenset[SparkHandle] = frozenset()
    """Of a plan that could be read: as Cleared has them."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Of a message in Spark's words."""
    exceptions: tuple[str, ...] = ()
    """Of an error that Spark's parser raised: its Java class, and those above it."""
    condition: str = ""
    """Of a message in Spark's words: its error class, which an old one does not begin with."""
    limit: str = ""
    """Name of the limit that refuses it."""
    retry_s: float | None = None
    """After how many seconds the same may be tried again, where that is soon."""

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
    promotes: bool = True
    """Whether files that one of them stands for become a table, where there is none."""
    asked: bool = False
    """Whether that is what the statement is for."""
    anew: bool = False
    """Whether it is known already how they look, and has to be known of this moment."""
    urls: tuple[str, ...] = ()
    """Places of files, of which it has to be known whose tables they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Where a statement came from, for the audit record."""

    protocol: str
    """Of the endpoint: `thrift`, `connect`, …"""
    address: str = ""
    application: str = ""
    real_user: str = ""
    """Who is logged in, where he acts as another user."""
    real_id: str = ""
    """What tells him from others of the name."""
    token: str = ""
    """Id of the token that was shown; it ends what is open with itself."""
    backend: str = ""
    """Name, tag or minor version of the Spark that the client asks for; empty: whichever rules say."""
    extra: Mapping[str, str] = field(default_factory=dict)
