"""Relations of a text that are files, named by their path."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.model.reading import Reading, Relation, RelationRole
from gateway.sql.names import Names
from gateway.sql.paths import FilesByPath, explain_relative_path, on_path
from gateway.sql.required import Required, Unsupported
from gateway.sql.scope import clip


def files_of(reading: Reading, names: Names) -> tuple[tuple[Relation, FilesByPath], ...] | Unsupported:
    """Return the files that are read by their path."""
    found = []
    for relation in reading.relations:
        files = names.files(relation.parts) if relation.role is RelationRole.SCAN else None
        if files is None:
            continue
        why = explain_relative_path(files.path, clip(files.path))
        if why is None and relation.suffix is not None:  # RULE (path-versions)
            why = f"files that are read by their path (`{clip(files.path)}`) take no version and no options"
        if why is not None:
            return Unsupported(why)
        found.append((relation, files))
    return tuple(found)


def files_privileges(files: Iterable[tuple[Relation, FilesByPath]]) -> Required:
    """Return what reading files by their path wants."""
    # RULE (read-path-privilege)
    return Required(privileges=tuple(one for _, files in files for one in on_path(files.path, "read")))
