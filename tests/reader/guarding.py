"""A splicer for tests: guards every scan of a reading with one query each, as each form demands."""

from __future__ import annotations

from gateway.model.reading import Reading, Relation, RelationForm, RelationRole, Splice

GUARD_NAME = ("gov", "db", "g")
GUARD_QUERY = "SELECT * FROM gov.db.g"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def guard(text: str, relation: Relation, query: str = GUARD_QUERY) -> Splice:
    """Return the splice that puts `query` in place of one scan."""
    assert relation.whole is not None, f"{relation.parts} is not written as a scan"
    alias = ""
    if relation.suffix is not None:
        query = f"{query} {relation.suffix.of(text)}"
    match relation.form:
        case RelationForm.BARE:
            alias = relation.parts[-1]
            written = f"({query}) AS {quoted(alias)}"
            if relation.sample is not None:
                written = f"({written})"
        case RelationForm.ALIASED if relation.sample is not None and relation.alias is not None:
            written = f"(({query}) AS {relation.alias.of(text)}) {relation.sample.of(text)}"
        case RelationForm.ALIASED:
            written = f"({query})"
        case _:
            written = query
    return Splice(span=relation.whole, text=written, kind="guard", query=query, alias=alias)


def guard_all(text: str, reading: Reading) -> list[Splice]:
    return [guard(text, one) for one in reading.relations if one.role is RelationRole.SCAN]


def pin(relation: Relation, *parts: str) -> Splice:
    assert relation.span is not None
    return Splice(span=relation.span, text=".".join(map(quoted, parts)), kind="pin", parts=parts)
