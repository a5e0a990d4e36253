"""Files that are named by their path where a table has them: they are that table's rows.

A mask, a filter and a hidden column go by the table's name. So its files are read by whoever may select all
of it and has nothing hidden or masked, and written by whoever may insert and delete besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gateway.model.catalog import TableName
from gateway.model.statement import NeedsCatalog
from gateway.pipeline.judging import (
    Judging,
    Refusal,
    access_denied,
    not_governable,
)
from gateway.sql.evaluate import Denied, Evaluation
from gateway.sql.paths import read_urls
from gateway.sql.required import Privilege, Unsupported
from gateway.sql.scope import clip, table_resource

MAX_TABLES: Final = 100
"""Tables whose files one path may hold."""


def authorize_places(
    privileges: Iterable[Privilege], evaluation: Evaluation, judging: Judging
) -> Refusal | NeedsCatalog | None:
    """Ask the policies of the tables whose files are named by a path; None where there is nothing to say
    against it."""
    catalog = judging.snapshot.catalog
    urls = read_urls(privileges)
    if not urls or catalog.places is None:
        return None
    unknown = tuple(dict.fromkeys(url for url, _ in urls if url not in catalog.places))
    if unknown:
        return NeedsCatalog((), promotes=False, urls=unknown)
    for url, access in urls:
        tables = catalog.places[url]
        if isinstance(tables, str):  # RULE (unknown-place)
            return not_governable(Unsupported(f"the path `{clip(url)}` is not supported: {tables}"))
        if len(tables) > MAX_TABLES:
            why = f"the path `{clip(url)}` has the files of {len(tables)} tables in it"
            return not_governable(Unsupported(why))
        if missing := judging.list_unknown(tables):
            return NeedsCatalog(missing, promotes=False)
        if (denied := _deny_files(url, access, tables, evaluation)) is not None:  # RULE (path-of-a-table)
            return access_denied(denied, evaluation)
    return None


def _deny_files(url: str, access: str, tables: Sequence[TableName], evaluation: Evaluation) -> Denied | None:
    """Say which of the tables keeps the principal off its files."""
    for name in tables:
        table = evaluation.catalog.table(name)
        if table is None:
            continue
        # RULE (path-write-privileges)
        wanted = ("insert", "delete") if access != "read" else ()
        asked = [Privilege(table_resource(name), each) for each in wanted]
        if evaluation.shows_all([name]) and all(map(evaluation.holds, asked)):
            evaluation.decisions.extend(evaluation.table_view(table).allowed.values())
            continue
        told = f"table {name}" if evaluation.knows_of(table_resource(name)) else "a table"
        needed = " and ".join((*wanted, "select"))
        return Denied(
            f"the path `{clip(url)}` has files of {told}: user {evaluation.principal.user} needs {needed} on "
            "all of it, without row filters and masks; use the table by its name"
        )
    return None
