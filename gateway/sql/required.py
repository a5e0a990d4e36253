"""What a statement requires: the result of classifying its commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gateway.model.catalog import Table, TableName
from gateway.model.reading import Relation, Span
from gateway.model.resource import Resource
from gateway.model.statement import RELAY, AnswerRule, SessionEffect
from gateway.model.table_formats import FORMATS

REMOVING = ("drop", "delete")
"""Access types by which rows go, and columns with them."""
MAINTAIN = "maintain"
"""Access type of who compacts a table's files and lets go of its old versions, without reading it."""
ALL_TABLES = "*"
"""In the place of a table's name: all of a database."""


@dataclass(frozen=True, slots=True)
class Privilege:
    """One privilege that the principal must hold."""

    resource: Resource
    access: str
    visible_is_enough: bool = False
    """Any access to the resource or to something below it will do (USE, SHOW)."""
    and_below: bool = False
    """No policy may deny it on anything below the resource either (DROP … CASCADE)."""
    tells_only: bool = False
    """Of a url: no file there is read or written."""

    @property
    def table(self) -> TableName | None:
        """The table that it is on; None for all of a database, and for what is no table."""
        elements = self.resource.elements
        if self.resource.kind != "table" or elements[-1][1] == ALL_TABLES:
            return None
        return TableName(*(value for _, value in elements))


@dataclass(frozen=True, slots=True)
class Pin:
    """A name that is written to or described, and what it was judged as."""

    relation: Relation
    table: TableName
    below: str = ""
    """What is named below the table: a branch of it."""


@dataclass(frozen=True, slots=True)
class NamespacePin:
    """A database as it is written, and the full name it was judged as."""

    span: Span
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Columns that a command names, of a table that it does not read: what is hidden cannot be named."""

    table: TableName
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A table that rows are added to; its columns need not be known to who adds them."""

    table: TableName
    by_name: bool = False
    """Columns are found by the names that the rows have, not by position."""
    creates: bool = False
    """The table is made when it is not there."""
    streams: bool = False
    """A stream adds them."""

    def hides_rows(self, table: Table) -> bool:
        """Whether nobody sees any more what was in a table: Spark keeps a list of the files that a stream has
        written, `_spark_metadata`, and then reads these alone. Table formats have a list of their own."""
        return self.streams and str(table.provider).lower() not in FORMATS  # RULE (stream-into-files)


@dataclass(frozen=True, slots=True)
class FunctionBody:
    """A text that Spark keeps of a function, and has to be read before."""

    text: str
    kind: Literal["expression", "query", "parameters", "returned"]
    """`parameters`, what it takes, and `returned`, what it gives: as the columns of a CREATE TABLE."""
    reads: bool = False
    """Whether a table, a view or a function of a database is in it, or it asks who the user is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """Everything that the commands of a statement want; scans are judged apart."""

    privileges: tuple[Privilege, ...] = ()
    pins: tuple[Pin, ...] = ()
    namespaces: tuple[NamespacePin, ...] = ()
    raw: tuple[TableName, ...] = ()
    """Tables that the command changes past masks and filters: the principal must have none."""
    read: tuple[TableName, ...] = ()
    """Tables of which the command itself reads or tells rows, values or columns: it needs select on all."""
    restricts: bool = False
    """Of `read`: where a part of the table's rows is hidden, the others may be changed."""
    structure: bool = False
    """Of `read`: of a table of files, and of a view, columns alone are told, and no rows or values."""
    instead: str = ""
    """What tells as much of such a table as may be told, in words for the client."""
    past: tuple[TableName, ...] = ()
    """Those of `read` of which it may tell columns that they had and have no more."""
    shown: tuple[TableName, ...] = ()
    """As `read`, but they need not be there: targets that a plan prints, a table that is made."""
    outlined: tuple[TableName, ...] = ()
    """Those of `shown` of which the plan tells columns, and nothing of rows or policies."""
    named: tuple[Named, ...] = ()
    written: tuple[Written, ...] = ()
    maintained: tuple[TableName, ...] = ()
    """Tables whose files the command tends: it moves rows to other files or lets go of old versions, names no
    column, and tells counts and sizes alone. Who has `maintain` on them needs nothing else."""
    conditions: tuple[str, ...] = ()
    """Texts that Spark will parse as an expression on columns of a table that `raw` has."""
    properties: tuple[tuple[TableName, str], ...] = ()
    """Properties on no list that a table gets or loses: its format says whether it reads them."""
    options: tuple[tuple[TableName, str], ...] = ()
    """Options on no list, of the files of a table: its format says whether it reads them."""
    bodies: tuple[FunctionBody, ...] = ()
    """Texts of a function that is made."""
    renamed: tuple[tuple[TableName, TableName], ...] = ()
    """Tables that get another name, with that name: nobody may do more with the table under it."""
    described: TableName | None = None
    """A table whose columns the answer lists: only selectable ones are shown."""
    effects: tuple[SessionEffect, ...] = ()
    answer: AnswerRule = RELAY
    cached: TableName | None = None
    """A table or persistent view whose rows Spark is to cache under its name."""
    explains: bool = False
    """The answer prints the plan, so nothing in it may carry an obligation."""
    sketches: bool = False
    """With `explains`: tables with masks and filters are explained without these. What is printed has no
    statistics, which count hidden rows."""
    shares: bool = False
    """The definition outlives the session and serves others (persistent views): it is stored with who defines
    it, and without masks and filters, which each reader gets by himself."""
    metrics: str = ""
    """The definition of a metric view that is made, in YAML: what is stored, and what it reads, is in it."""

    @property
    def removed(self) -> tuple[tuple[TableName, str], ...]:
        """Tables of which rows go, and columns with them, each with the access by which they do."""
        return tuple(
            (table, one.access)
            for one in self.privileges
            if one.access in REMOVING and (table := one.table) is not None
        )


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A statement that Sluice does not let pass, whoever asks; `why` is for the client."""

    why: str
    sqlstate: str = ""
    """Set where Spark says the same: `why` then begins with its condition, and a client raises what it would
    raise without Sluice."""
    name: str | None = None
    """A name that cannot be read, where Spark's parser has the words for what is wrong with it."""
    at: int | None = None
    """Where in the text it is, in characters, of what Spark says with the place."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Of the message in Spark's words."""
    plan: str = ""
    """What Spark prints behind the place."""


NO_COMMANDS = Required(structure=True)
"""What a query wants besides its scans."""


def join(parts: Iterable[Required]) -> Required:
    """Put the wants of several commands of one statement together."""
    all_parts = tuple(parts)
    if not all_parts:
        return NO_COMMANDS
    if len(all_parts) == 1 and not all_parts[0].explains:
        return all_parts[0]
    answers = [part.answer for part in all_parts if part.answer is not RELAY]
    described = [part.described for part in all_parts if part.described is not None]
    cached = [part.cached for part in all_parts if part.cached is not None]
    explains = any(part.explains for part in all_parts)
    wanting = [part for part in all_parts if part.privileges or part.raw or part.read]
    sketches = any(part.sketches for part in all_parts)
    return Required(
        privileges=tuple(privilege for part in all_parts for privilege in part.privileges),
        pins=tuple(pin for part in all_parts for pin in part.pins),
        namespaces=tuple(pin for part in all_parts for pin in part.namespaces),
        raw=tuple(name for part in all_parts for name in part.raw),  # RULE (raw-of-all-commands)
        read=tuple(name for part in all_parts for name in part.read),
        instead="; ".join(part.instead for part in all_parts if part.instead),
        past=tuple(name for part in all_parts for name in part.past),
        shown=(
            *(name for part in all_parts for name in part.shown),
            # RULE (explain-write-target)
            *(pin.table for part in all_parts for pin in part.pins if explains),
        ),
        # RULE (explain-description)
        outlined=tuple(pin.table for part in all_parts if part.described and sketches for pin in part.pins),
        maintained=wanting[0].maintained if len(wanting) == 1 and not explains else (),
        named=tuple(named for part in all_parts for named in part.named),
        written=tuple(written for part in all_parts for written in part.written),
        conditions=tuple(text for part in all_parts for text in part.conditions),
        properties=tuple(one for part in all_parts for one in part.properties),
        options=tuple(one for part in all_parts for one in part.options),
        bodies=tuple(body for part in all_parts for body in part.bodies),
        renamed=tuple(names for part in all_parts for names in part.renamed),
        described=described[0] if described else None,
        # EXPLAIN runs nothing, so nothing of the session or the catalog changes.
        effects=() if explains else tuple(e for part in all_parts for e in part.effects),
        answer=answers[0] if answers and not explains else RELAY,
        cached=cached[0] if cached else None,
        explains=explains,
        restricts=any(part.restricts for part in all_parts),
        structure=not explains and all(part.structure for part in all_parts if part.read or part.raw),
        sketches=sketches,
        shares=any(part.shares for part in all_parts),
        metrics="".join(part.metrics for part in all_parts),
    )
