"""The tables and metadata tables that a text reads, as its names resolve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gateway.model.catalog import TableName
from gateway.model.reading import Reading, Relation, RelationRole
from gateway.sql.evaluate import ScannedRelation
from gateway.sql.names import MetadataTable, Names, TempViewName, Ungovernable
from gateway.sql.required import Privilege, Required, Unsupported
from gateway.sql.scope import table_resource
from gateway.sql.versions import version_of


def scans_of(reading: Reading, names: Names, text: str) -> tuple[ScannedRelation, ...] | Unsupported:
    """Return the catalog tables that are read, and which version; temporary views of the session were judged
    when created."""
    scans: list[ScannedRelation] = []
    for relation in reading.relations:
        if relation.role is not RelationRole.SCAN:
            continue
        written = ".".join(relation.parts)
        if relation.span is None or relation.whole is None:
            return Unsupported(f"`{written}` is not a literal name in the statement")
        if relation.options:  # RULE (relation-options)
            return Unsupported(f"options on `{written}` could redirect to other data and are not supported")
        if names.metadata_table(relation.parts) is not None or names.files(relation.parts) is not None:
            continue
        if (below := names.version(relation.parts)) is not None:
            if relation.suffix is not None:  # RULE (version-of-version)
                return Unsupported(f"`{written}` names a version; it takes no other one")
            scans.append((relation, below))
            continue
        match names.table(relation.parts):
            case Ungovernable() as resolved:
                return resolved.refusal(written)
            case TempViewName():
                continue
            case TableName() as name:
                version = version_of(relation.suffix.of(text), names) if relation.suffix else ""
                scans.append((relation, replace(name, version=version)))
    return tuple(scans)


def metadata_of(reading: Reading, names: Names) -> tuple[tuple[Relation, MetadataTable], ...]:
    """Return the metadata tables that are read."""
    found = []
    for relation in reading.relations:
        meant = names.metadata_table(relation.parts) if relation.role is RelationRole.SCAN else None
        if meant is not None:
            found.append((relation, meant))
    return tuple(found)


def metadata_privileges(tables: Iterable[MetadataTable]) -> Required:
    """Return what reading metadata wants: it has values of all rows and columns in it."""
    names = tuple(dict.fromkeys(one.table for one in tables))
    return Required(
        privileges=tuple(Privilege(table_resource(name), "metadata") for name in names),
        read=names,
        past=names,
    )
