"""Whether those who wrote masks and filters may select what these read, now.

Somebody who may write policies on some resources alone would read any other by a mask of his own. What he
wrote counts for no more than he may select himself, whole, at the moment at which it is used: when he may not
any more, the table that it is for is closed until he may, or somebody who may writes it again. A function in
SQL reads what its body does, whoever calls it, so that bodies are looked into (`pipeline/functions.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.model.catalog import FUNCTION, CatalogSnapshot, Table, TableName, ViewBody, quote_parts
from gateway.model.principal import Principal, principal_of
from gateway.model.reading import Reading, RelationRole
from gateway.model.statement import NeedsCatalog, SessionContext
from gateway.pipeline.functions import MAX_BODIES, read_body
from gateway.pipeline.judging import Judging, RewrittenStatement
from gateway.pipeline.metrics import metrics_of
from gateway.pipeline.seeing import ColumnAccess, TextScope
from gateway.reader.port import ReaderPort
from gateway.sql.policy_text import list_author_statements, list_called_functions
from gateway.sql.required import Unsupported

_IN_A_CATALOG: Final = 3
"""Parts of a name that begins with its catalog."""


@dataclass(frozen=True, slots=True)
class Authors:
    """On whose access the masks and filters of what is read rest."""

    principals: frozenset[Principal] = frozenset()
    names: frozenset[TableName] = frozenset()
    """The functions whose bodies that rests on, and the tables that these may read."""


async def authors_of(seen: ColumnAccess, judging: Judging) -> Authors | Unsupported | NeedsCatalog:
    """Return those on whose access the masks and filters of what is read rest.

    Unsupported: one of them may not select all that a text of his reads.
    """
    principals: set[Principal] = set()
    names: set[TableName] = set()
    if judging.as_author:
        return Authors()  # what has a mask or filter for him he does not see whole, whoever wrote it
    for name, one in seen.tables.items():
        for _, view in one.eyes if one is not None else ():
            rows = () if view.row_filter is None else (view.row_filter,)
            for text, user in {(each.expression, each.author) for each in (*view.masks.values(), *rows)}:
                if not user:
                    continue
                author = await _author(text, user, judging)
                if isinstance(author, NeedsCatalog):
                    return author
                if author is None:
                    return Unsupported(
                        f"a policy for {name} is closed, because its author lacks select on something that "
                        "it reads; it opens once the author has select on all of it, or once somebody who "
                        "has saves the policy"
                    )
                principals |= author.principals
                names |= author.names
    return Authors(frozenset(principals), frozenset(names))


async def _author(text: str, told: str, judging: Judging) -> Authors | NeedsCatalog | None:
    """Return the author of a text; None when he may not select what it reads, or is somebody else by now.

    INVARIANT (a name is nobody): who was removed and added again is not who wrote what the first one did.
    """
    author = principal_of(told, judging.snapshot.principals.get)  # RULE (author-by-name)
    asked = await require_of_author(text, judging.reader, judging.snapshot.catalog)
    if author is None or asked is None:
        return None  # RULE (author-nobody)
    if isinstance(asked, NeedsCatalog):
        return asked
    own = replace(judging, principal=author, as_author=True, bodies={}, narrowed=[])
    context = SessionContext(catalogs=judging.session_catalogs)
    for statement in asked.statements:
        outcome = await judging.govern(statement, context, own, TextScope())
        if isinstance(outcome, NeedsCatalog):
            return outcome
        # INVARIANT (nothing beyond one's own): a view counts with all that it reads.
        if (  # RULE (author-may-select)
            not isinstance(outcome, RewrittenStatement) or not outcome.shows_errors
        ):
            return None
    return Authors(frozenset({author}), asked.names)  # RULE (author-rests-on-functions)


@dataclass(slots=True)
class Asked:
    """Statements of which whoever writes a text must be allowed to see the whole answers."""

    statements: tuple[str, ...] = ()
    names: frozenset[TableName] = frozenset()
    """What was looked up to say so."""


@dataclass(slots=True)
class _Bodies:
    """The bodies of functions, and the texts of views for the functions in them, on the way."""

    catalog: CatalogSnapshot
    pending: list[Table] = field(default_factory=list)
    names: dict[TableName, None] = field(default_factory=dict)
    unknown: dict[TableName, None] = field(default_factory=dict)

    def find(
        self, parts: Sequence[str], version: str = "", within: ViewBody | None = None
    ) -> list[Table] | None:
        """Return what a name may mean, and have it read; None where that is anything, or nothing.

        INVARIANT (a name is judged as it will be resolved): Spark finds one in the body of a function from
        where that was made, and does not tell where that was. So a name of two parts means a table of any
        catalog, and one of one part could be anywhere. Of a view it is known.
        """
        names = []
        catalogs = sorted(self.catalog.catalogs) if within is None or not within.catalog else [within.catalog]
        if len(parts) >= _IN_A_CATALOG and all("." not in part for part in parts):
            names = [TableName.of(parts)]
        elif len(parts) == _IN_A_CATALOG - 1 and parts[0].lower() not in self.catalog.catalogs:
            names = [TableName.of((catalog, *parts)) for catalog in catalogs]
        elif len(parts) == 1 and within is not None and within.catalog:
            names = [TableName(within.catalog, within.database, parts[0])]
        found: list[Table] = []
        for name in (replace(one, version=version).fold() for one in names):
            self.names[name] = None
            if not self.catalog.knows(name):
                self.unknown[name] = None
            elif (table := self.catalog.table(name)) is not None:
                found.append(table)
        self.pending += found
        return found if found or self.unknown else None

    def call(self, reading: Reading, within: ViewBody | None = None) -> list[str] | None:
        """Return what is asked for the functions that a text calls."""
        asked: list[str] = []
        for parts in list_called_functions(reading):
            found = self.find(parts, FUNCTION, within)
            if found is None:
                return None
            asked += [f"SELECT {quote_parts(function.name.parts)}()" for function in found]
        return asked

    def read(self, reading: Reading, within: ViewBody | None = None) -> list[str] | None:
        """Return what is asked for the tables that a text reads."""
        asked: list[str] = []
        for relation in reading.relations:
            if relation.role is RelationRole.SCAN:
                found = self.find(relation.parts, within=within)
                if found is None:
                    return None
                asked += [f"TABLE {quote_parts(table.name.parts)}" for table in found]
        return asked

    def body(self, reading: Reading, of: Table) -> list[str] | None:
        """Return what is asked for the body of a function; for the text of a view nothing: whoever selects it
        whole is asked for all that it reads, but for what functions in it do. What a metric view reads is
        asked for wherever it may be: within a function it is found in the session that calls that."""
        if of.name.version != FUNCTION and metrics_of(of) is None:  # RULE (function-metric-view)
            # RULE (author-functions-in-views)
            known = self.call(reading, of.view), self.read(reading, of.view)
            return None if None in known else []
        called, read = self.call(reading), self.read(reading)
        if called is None or read is None or list_author_statements(reading) is None:
            return None
        return [*called, *read]


async def require_of_author(
    text: str, reader: ReaderPort, catalog: CatalogSnapshot
) -> Asked | NeedsCatalog | None:
    """Return what is asked of whoever writes the text of a mask or a filter, with the bodies of functions.
    None: what it needs cannot be told."""
    reading = await reader.read_expression(text)
    statements = list_author_statements(reading) if isinstance(reading, Reading) else None
    if statements is None or not isinstance(reading, Reading):
        return None
    bodies, seen, asked = _Bodies(catalog), set[TableName](), dict.fromkeys(statements)
    if bodies.call(reading) is None or bodies.read(reading) is None:  # RULE (author-functions)
        return None
    while bodies.pending:
        one = bodies.pending.pop()
        if one.name in seen or one.view is None:
            continue  # code is what `execute` decides on
        seen.add(one.name)
        body = await read_body(one, reader)
        named = bodies.body(body, one) if body is not None and len(seen) <= MAX_BODIES else None
        if named is None:
            return None
        asked |= dict.fromkeys(named)
    if bodies.unknown:
        return NeedsCatalog(tuple(bodies.unknown), promotes=False)
    return Asked(tuple(asked), frozenset(bodies.names))
