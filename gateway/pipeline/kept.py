"""What Spark keeps of a text and answers from later: temporary views, and rows in its cache.

INVARIANT (now): Spark's cache answers whoever asks for the same plan, so it keeps nothing that depends on who
asks, on when, or on what policies read. `sql/varying.py` says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.model.catalog import TableName
from gateway.model.handles import mark_reading_function
from gateway.model.reading import Reading, RelationRole
from gateway.pipeline.judging import RewrittenStatement
from gateway.sql.names import Names, TempViewName
from gateway.sql.required import Required, Unsupported
from gateway.sql.varying import find_varying, find_varying_view, not_cached

MAX_VIEW_CHARS: Final = 2_000_000
"""Of the texts of views that are written into one text or plan: what the parser takes of one that is
rewritten. Each is written as often as it is read, and so are those in it."""


def keeps(reading: Reading) -> bool:
    """Whether Spark keeps the text as a view, to read it again later."""
    return any(command.node in ("CreateViewCommand", "CacheTableAsSelect") for command in reading.commands)


def default_collation(reading: Reading) -> bool:
    """Whether a view or table that is made of a query has a collation of its own: within the query Spark
    gives it to every literal and every cast to a string, to those of masks and filters too."""
    for command in reading.commands:
        spec = command.fields.get("tableSpec")
        if command.fields.get("collation") or (isinstance(spec, Mapping) and spec.get("collation")):
            return True
    return False


def build_collation_refusal(what: str) -> Unsupported:
    return Unsupported(
        f"{what} has a DEFAULT COLLATION, under which row filters and masks would compare strings "
        "differently; use COLLATE on single expressions instead"
    )


def write_nested_text(body: RewrittenStatement | None, *, personal: bool = True) -> str | None:
    """Return the text that a view is written out as: its sources carry obligations, it has barriers,
    conditions or lists of columns that the view itself has not, or, with `personal`, it asks who the user
    is."""
    if body is None:
        return None
    # RULE (listed-view-written-out, view-texts-guarded, personal-view-written-out)
    return body.text if body.walled or body.listed or (personal and body.personal) else None


def refuse_long_views(chars: int, name: TableName) -> Unsupported | None:
    """Refuse to write a view's text where such texts have that many characters with it."""
    if chars <= MAX_VIEW_CHARS:  # RULE (view-texts-chars)
        return None
    return Unsupported(
        f"the texts of the views that it reads, with the policies on their tables, would have more than "
        f"{MAX_VIEW_CHARS:,} characters; the last of them is {name}: read each view once, in a WITH, or save "
        "what one of them gives as a table"
    )


def find_varying_text(
    text: str,
    reading: Reading,
    names: Names,
    policies: str,
    bodies: Mapping[TableName, RewrittenStatement],
    *,
    unbound: bool,
) -> str:
    """Return why the rows of a text are not the same for everybody and at any time, in words, or nothing.

    `policies`: why those of its tables' policies are not; `unbound`: it asks Spark who the user is.
    """
    if unbound:
        return "it depends on current_user()"
    called = {one.parts[-1].lower() for one in reading.functions}
    # RULE (reading-function-cached-text)
    if reads := sorted(name for name in called if mark_reading_function(name) in names.context.handles):
        return f"it calls the temporary function `{reads[0]}`, which reads tables"
    found = find_varying(text, reading)
    for relation in reading.relations:
        if found is None and relation.role is RelationRole.SCAN:
            name = names.table(relation.parts)
            found = find_varying_view(name, names) if isinstance(name, TempViewName) else None
    return found or policies or find_varying_bodies(bodies.values())


def find_varying_bodies(bodies: Iterable[RewrittenStatement]) -> str:
    """Return why rows of the views or texts within a statement change, or nothing."""
    return next((body.uncacheable_reason for body in bodies if body.uncacheable_reason), "")


def refuse_caching(
    reading: Reading, required: Required, changing: str, bodies: Mapping[TableName, RewrittenStatement]
) -> Unsupported | None:
    """Refuse to have Spark cache rows that another user, or another time, must not be shown."""
    if required.cached is not None:
        return refuse_caching_view(required.cached, bodies)
    # RULE (varying-not-cached)
    if changing and any(command.node == "CacheTableAsSelect" for command in reading.commands):
        return not_cached(changing)
    return None


def refuse_caching_view(
    name: TableName, bodies: Mapping[TableName, RewrittenStatement]
) -> Unsupported | None:
    """Refuse to cache a persistent view by its name: Spark takes its text as it is written."""
    body = bodies.get(name.fold())
    if body is None:
        return None
    if body.personal:
        return not_cached(f"the view {name} depends on current_user()")
    return not_cached(f"in the view {name}, {body.uncacheable_reason}") if body.uncacheable_reason else None
