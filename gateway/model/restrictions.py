"""What a catalog restricts of a table for one user: Iceberg REST's `read-restrictions`, as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

SPARK_TYPES: Final[Mapping[str, str]] = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double",
    "date": "date", "timestamp": "timestamp_ntz", "timestamptz": "timestamp",
    "string": "string", "uuid": "string", "binary": "binary",
}  # fmt: skip
"""Primitive types of Iceberg's → Spark's; those with a size are not among them."""
_ICEBERG_TYPES: Final = {spark: iceberg for iceberg, spark in SPARK_TYPES.items() if iceberg != "uuid"}


def name_iceberg_type(data_type: str) -> str:
    """Return what Iceberg calls a type of Spark's; empty for one that is not a single value."""
    written = " ".join(data_type.lower().split())
    if written.startswith("decimal("):
        return written.replace(" ", "")
    return _ICEBERG_TYPES.get(written, "")


@dataclass(frozen=True, slots=True)
class FilterColumn:
    """A column that a row filter may read."""

    id: int
    type: str
    """Iceberg's; empty for one that is not a single value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaField:
    """A field of a schema, an element of a list, or the key or value of a map."""

    id: int
    name: str
    type: FieldType
    required: bool


@dataclass(frozen=True, slots=True)
class StructType:
    fields: tuple[SchemaField, ...]


@dataclass(frozen=True, slots=True)
class ListType:
    element: SchemaField


@dataclass(frozen=True, slots=True)
class MapType:
    key: SchemaField
    value: SchemaField


FieldType = str | StructType | ListType | MapType
"""A type of the table format; a primitive one by its name, such as `decimal(9,2)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """One schema that a table has or had."""

    id: int
    fields: tuple[SchemaField, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return [one.name for one in self.fields]

    def find(self, ident: int) -> tuple[SchemaField, ...]:
        """Return the fields that lead to the one of an id, itself last; none where the schema lacks it."""
        return _find(self.fields, ident)


def list_inner_fields(kind: FieldType) -> Sequence[SchemaField]:
    """Return the fields directly within a type."""
    match kind:
        case StructType():
            return kind.fields
        case ListType():
            return (kind.element,)
        case MapType():
            return (kind.key, kind.value)
        case _:
            return ()


def walk_fields(fields: Sequence[SchemaField]) -> Iterator[SchemaField]:
    """Yield fields and all that are within them."""
    for one in fields:
        yield one
        yield from walk_fields(list_inner_fields(one.type))


def _find(fields: Sequence[SchemaField], ident: int) -> tuple[SchemaField, ...]:
    for one in fields:
        if one.id == ident:
            return (one,)
        below = _find(list_inner_fields(one.type), ident)
        if below:
            return (one, *below)
    return ()


@dataclass(frozen=True, slots=True)
class Fixed:
    """A predicate that is the same for every row."""

    value: bool


@dataclass(frozen=True, slots=True)
class Negated:
    child: Predicate


@dataclass(frozen=True, slots=True)
class JoinedPredicates:
    operator: Literal["AND", "OR"]
    left: Predicate
    right: Predicate


@dataclass(frozen=True, slots=True)
class ReferenceTest:
    """`is-null` or `is-nan` of a field; `not-null` and `not-nan` are negations of them."""

    test: Literal["is-null", "is-nan"]
    reference: int


@dataclass(frozen=True, slots=True)
class JsonLiteral:
    """A value of a field's type, as the format writes one in JSON."""

    value: str | int | float | bool
    type: str = ""
    """The type that it says by itself, which has to be the field's; empty: none."""


@dataclass(frozen=True, slots=True)
class LiteralComparison:
    """A field against a literal, with the field on the left."""

    operator: Literal["lt", "lt-eq", "gt", "gt-eq", "eq", "starts-with"]
    reference: int
    value: JsonLiteral


@dataclass(frozen=True, slots=True)
class LiteralMembership:
    """Whether a field is one of some literals."""

    reference: int
    values: tuple[JsonLiteral, ...]


Predicate = Fixed | Negated | JoinedPredicates | ReferenceTest | LiteralComparison | LiteralMembership


def list_references(predicate: Predicate) -> frozenset[int]:
    """Return the ids of the fields that a predicate reads."""
    match predicate:
        case Fixed():
            return frozenset()
        case Negated():
            return list_references(predicate.child)
        case JoinedPredicates():
            return list_references(predicate.left) | list_references(predicate.right)
        case _:
            return frozenset({predicate.reference})


ACTIONS: Final = frozenset(
    {
        "mask-alphanum",
        "show-first-4",
        "show-last-4",
        "replace-with-null",
        "mask-to-fixed-value",
        "truncate-to-year",
        "truncate-to-month",
        "sha-256-global",
        "sha-256-query-local",
    }
)
"""A closed list: another one is not understood."""
QUERY_LOCAL: Final = "sha-256-query-local"
SALT_MARK: Final = b"sluice-query-salt".hex().upper()
"""What every salt begins with in a text, so that texts which are shown can be told to be free of them."""
SALT_BYTES = 32
"""Random bytes of a salt; Iceberg asks for 16 at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnAction:
    """What is shown instead of a field's values."""

    field_id: int
    action: str
    """One of ACTIONS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRestrictions:
    """What a catalog has answered about one table for one user. Without any, all of the table may be read."""

    catalog: str
    fault: str = ""
    """Why the table may not be read at all: there is no answer, or it was not understood."""
    schemas: tuple[TableSchema, ...] = ()
    current_schema: int = 0
    predicate: Predicate | None = None
    columns: tuple[ColumnAction, ...] = ()
    by_names: bool = False
    """Whether they go by the names of columns of now, and not by ids, which are made up then."""
    salt: str = field(default="", repr=False, compare=False)
    """Of one statement, in hexadecimal: what `sha-256-query-local` puts before a value."""

    @property
    def restricts(self) -> bool:
        """Whether it says anything but that all may be read."""
        return bool(self.fault or self.columns or self.predicate is not None)

    @property
    def is_query_local(self) -> bool:
        """Whether what is shown has to be another in each statement."""
        return any(one.action == QUERY_LOCAL for one in self.columns)


def hide_salts(text: str) -> str:
    """Return a text without the salts in it, for whoever reads what Spark is sent."""
    if SALT_MARK not in text:
        return text
    begin, *rest = text.split(SALT_MARK)
    digits = 2 * SALT_BYTES
    return begin + "".join(f"***{one[digits:]}" for one in rest)  # RULE (salt-hidden)
