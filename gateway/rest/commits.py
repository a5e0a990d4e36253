"""What a commit counts as, statement by statement: each of its updates is known, or the commit is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.model.catalog import TableName
from gateway.rest.described import find_schema
from gateway.rest.requests import (
    bad_request,
    forbidden,
    require_list,
    require_members,
    require_text,
    require_texts,
)
from gateway.rest.schemas import read_columns, read_schema, write_changes
from gateway.rest.statements import literal, name_of, write_create, write_overwrite, write_properties

MAX_UPDATES: Final = 1_000
OWNER: Final = "owner"
STAGED: Final = "sluice.staged"
"""Property of a staged table: a handle for the location that its catalog has chosen."""
_NOTED: Final = frozenset({"created-at"})
"""Properties that Iceberg's own server gives each table that it creates. They lead nowhere."""
_UPDATES: Final[Mapping[str, tuple[str, ...]]] = {
    "assign-uuid": ("uuid",),
    "upgrade-format-version": ("format-version",),
    "add-schema": ("schema", "last-column-id"),
    "set-current-schema": ("schema-id",),
    "add-spec": ("spec",),
    "set-default-spec": ("spec-id",),
    "add-sort-order": ("sort-order",),
    "set-default-sort-order": ("sort-order-id",),
    "add-snapshot": ("snapshot",),
    "set-snapshot-ref": (
        "ref-name", "type", "snapshot-id", "max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep",
    ),
    "remove-snapshots": ("snapshot-ids",),
    "remove-snapshot-ref": ("ref-name",),
    "set-location": ("location",),
    "set-properties": ("updates",),
    "remove-properties": ("removals",),
    "set-statistics": ("snapshot-id", "statistics"),
    "remove-statistics": ("snapshot-id",),
    "set-partition-statistics": ("partition-statistics",),
    "remove-partition-statistics": ("snapshot-id",),
    "remove-partition-specs": ("spec-ids",),
    "remove-schemas": ("schema-ids",),
    "enable-row-lineage": (),
}  # fmt: skip
"""Updates of tables → what they have beside `action`."""
_UNUSED_SCHEMA: Final = "a schema is added here to be the current one, by the next update"
"""A schema that is not judged would say of ids of the past whose they were."""
_OF_FILES: Final = frozenset({"add-snapshot", "set-statistics", "set-partition-statistics"})
"""Updates that name files which their author wrote."""
_OF_ROWS: Final = frozenset({"add-snapshot", "set-snapshot-ref", "remove-snapshots", "remove-snapshot-ref"})
REQUIREMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "assert-create": (),
    "assert-table-uuid": ("uuid",),
    "assert-view-uuid": ("uuid",),
    "assert-ref-snapshot-id": ("ref", "snapshot-id"),
    "assert-last-assigned-field-id": ("last-assigned-field-id",),
    "assert-current-schema-id": ("current-schema-id",),
    "assert-last-assigned-partition-id": ("last-assigned-partition-id",),
    "assert-default-spec-id": ("default-spec-id",),
    "assert-default-sort-order-id": ("default-sort-order-id",),
}
_SPEC: Final = ("spec-id", "fields")
_SPEC_FIELD: Final = ("source-id", "source-ids", "field-id", "name", "transform")
_ORDER: Final = ("order-id", "fields")
_ORDER_FIELD: Final = ("source-id", "source-ids", "transform", "direction", "null-order")
_SNAPSHOT: Final = (
    "snapshot-id", "parent-snapshot-id", "sequence-number", "timestamp-ms", "manifest-list", "summary",
    "schema-id", "first-row-id", "added-rows", "key-id",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitParts:
    """A commit's requirements and updates, of which every member is known."""

    requirements: list[Any]
    updates: list[Any]

    @property
    def creates(self) -> bool:
        """Whether it is of a table that is not there yet."""
        return any(one["type"] == "assert-create" for one in self.requirements)


def read_commit(told: Mapping[str, Any]) -> CommitParts:
    """Return the parts of a commit's body."""
    requirements = require_list(told.get("requirements", []), "`requirements`")
    for one in requirements:
        kind = one.get("type") if isinstance(one, dict) else None
        if not isinstance(kind, str) or kind not in REQUIREMENTS:
            raise bad_request("a requirement that is not known")
        require_members(one, f"`{kind}`", ("type", *REQUIREMENTS[kind]), ("type",))
    updates = require_list(told["updates"], "`updates`")
    if len(updates) > MAX_UPDATES:
        raise bad_request(f"more than {MAX_UPDATES} updates")
    for one in updates:
        action = one.get("action") if isinstance(one, dict) else None
        if not isinstance(action, str) or action not in _UPDATES:  # RULE (rest-unknown-update)
            raise bad_request("an update that is not known")
        needed = _UPDATES[action][:1] if action != "remove-partition-statistics" else ()
        require_members(one, f"`{action}`", ("action", *_UPDATES[action]), needed)
        _check_inner(action, one)
    return CommitParts(requirements=requirements, updates=updates)


def _check_inner(action: str, one: Mapping[str, Any]) -> None:
    match action:
        case "add-schema":
            read_schema(one["schema"])
        case "add-spec":
            check_spec(one["spec"])
        case "add-sort-order":
            check_order(one["sort-order"])
        case "add-snapshot":
            require_members(one["snapshot"], "a snapshot", _SNAPSHOT, ("snapshot-id", "manifest-list"))


def check_spec(told: Any) -> None:
    """Require that every member of a partition spec is known."""
    for one in require_list(require_members(told, "a spec", _SPEC, ("fields",))["fields"], "`fields`"):
        require_members(one, "a partition field", _SPEC_FIELD)


def check_order(told: Any) -> None:
    """Require that every member of a sort order is known."""
    for one in require_list(require_members(told, "an order", _ORDER, ("fields",))["fields"], "`fields`"):
        require_members(one, "a sort field", _ORDER_FIELD)


@dataclass(eq=False)
class _Writing:
    """Statements that a commit counts as, while they are collected."""

    table: TableName
    metadata: Mapping[str, Any]
    found: list[str] = field(default_factory=list)
    added: Mapping[str, Any] | None = None
    """The schema that was added last."""
    current: list[Mapping[str, Any]] = field(default_factory=list)
    changes_schema: bool = False

    @property
    def altered(self) -> str:
        return f"ALTER TABLE {name_of(self.table)}"

    def note(self, action: str) -> None:
        """Have an update count as one of the table's own notes: it takes the right to alter it."""
        self.found.append(f"{self.altered} SET TBLPROPERTIES {write_properties({'meta.commit': action})}")

    def add(self, one: Mapping[str, Any]) -> None:
        action = one["action"]
        if action in _OF_ROWS:
            self.found.append(write_overwrite(self.table))
            return
        match action:
            case "add-schema":
                if self.added is not None:
                    raise forbidden(_UNUSED_SCHEMA)
                self.added = one["schema"]
            case "set-current-schema":
                self._set_schema(one["schema-id"])
            case "set-location":
                place = literal(require_text(one["location"], "a location"))
                self.found.append(f"{self.altered} SET LOCATION {place}")
            case "set-properties":
                self._set_properties(require_texts(one["updates"], "`updates`"))
            case "remove-properties":
                self._remove_properties(require_list(one["removals"], "`removals`"))
            case "upgrade-format-version":
                told = {"format-version": str(one["format-version"])}
                self.found.append(f"{self.altered} SET TBLPROPERTIES {write_properties(told)}")
            case "assign-uuid":
                raise forbidden("a table that is there keeps its uuid")
            case _:
                self.note(action)

    def _set_schema(self, ident: Any) -> None:
        self.changes_schema = True
        if ident == -1:
            if self.added is None:
                raise bad_request("no schema was added that could be the current one")
            wanted, self.added = self.added, None
        else:
            known = [one for one in self.metadata["schemas"] if one.get("schema-id", 0) == ident]
            if not known or self.added is not None:
                raise bad_request(
                    "the current schema is one of the table's own, or -1 for the one just added"
                )
            wanted = known[0]
        changes = write_changes(self.table, self.metadata, self.current, wanted)
        self.found += changes or [f"{self.altered} SET TBLPROPERTIES ('meta.commit' = 'set-current-schema')"]
        self.current = list(wanted["fields"])

    def _set_properties(self, told: Mapping[str, str]) -> None:
        # Policies may speak of owners: nobody makes himself the owner of what is there.
        owner = (self.metadata.get("properties") or {}).get(OWNER)
        if OWNER in told and told[OWNER] != owner:  # RULE (rest-owner-changed)
            raise forbidden("a table's owner cannot be changed here")
        others = {key: one for key, one in told.items() if key != OWNER}
        if others:
            self.found.append(f"{self.altered} SET TBLPROPERTIES {write_properties(others)}")

    def _remove_properties(self, told: Sequence[Any]) -> None:
        keys = [literal(require_text(one, "a property")) for one in told]
        if literal(OWNER) in keys:
            raise forbidden("a table's owner cannot be changed here")
        if keys:
            self.found.append(f"{self.altered} UNSET TBLPROPERTIES ({', '.join(keys)})")


def write_commit(
    table: TableName, metadata: Mapping[str, Any], commit: CommitParts
) -> tuple[list[str], list[Any]]:
    """Return the statements that a commit on a table counts as, and its requirements with those by which the
    catalog refuses it if the table is not the one that was judged."""
    current = find_schema(metadata, metadata.get("current-schema-id", 0))
    writing = _Writing(table, metadata, current=list(current))
    for one in commit.updates:
        writing.add(one)
    if writing.added is not None:  # RULE (rest-unused-schema)
        raise forbidden(_UNUSED_SCHEMA)
    if not writing.found:
        writing.note("nothing")
    # RULE (rest-commit-bound)
    bound: list[Any] = [{"type": "assert-table-uuid", "uuid": metadata.get("table-uuid")}]
    if writing.changes_schema:
        bound += [
            {"type": "assert-current-schema-id", "current-schema-id": metadata.get("current-schema-id", 0)},
            {
                "type": "assert-last-assigned-field-id",
                "last-assigned-field-id": metadata.get("last-column-id"),
            },
        ]
    others = [one for one in bound if one not in commit.requirements]
    return list(dict.fromkeys(writing.found)), [*commit.requirements, *others]


def write_created(table: TableName, commit: CommitParts, user: str, places: Sequence[str]) -> list[str]:
    """Return the statements that a commit counts as which creates its table. `places`: locations that the
    catalog itself has chosen for it."""
    schema: Mapping[str, Any] | None = None
    properties: dict[str, str] = {}
    location = ""
    for one in commit.updates:
        match one["action"]:
            case "add-schema":
                schema = one["schema"]
            case "set-location":
                location = require_text(one["location"], "a location")
            case "set-properties":
                properties |= require_texts(one["updates"], "`updates`")
            case "upgrade-format-version":
                properties["format-version"] = str(one["format-version"])
    if schema is None:
        raise bad_request("a table is created with a schema")
    if properties.pop(OWNER, user) != user:
        raise forbidden("a table is owned by who creates it")
    if location in places:  # RULE (rest-chosen-place)
        location = ""
    others = {key: one for key, one in properties.items() if key not in _NOTED}
    return [write_create(table, read_columns(schema["fields"]), location, others)]


def take_staged(commit: CommitParts) -> str:
    """Return the handle that a staged table was given, and take it out of the commit: no table has it."""
    found = ""
    for one in commit.updates:
        if one["action"] == "set-properties":
            found = require_texts(one["updates"], "`updates`").pop(STAGED, found)
    return found


def names_files(commit: CommitParts) -> bool:
    """Whether a commit names files that its author wrote, which nobody here reads."""
    return any(one["action"] in _OF_FILES for one in commit.updates)
