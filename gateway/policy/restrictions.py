"""What a catalog restricts of a table, as row filters and masks beside those of policies.

The values are Iceberg's: bytes and code points for its nine actions, UTC for times with a zone, and
two-valued logic in filters. INVARIANT (total): as for masks, no expression can raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gateway.model.catalog import Table, quote
from gateway.model.decision import ColumnMask, PolicyRef, RowFilter
from gateway.model.restrictions import (
    QUERY_LOCAL,
    SALT_MARK,
    ColumnAction,
    ListType,
    MapType,
    SchemaField,
    StructType,
    TableRestrictions,
    TableSchema,
    list_inner_fields,
    list_references,
    walk_fields,
)
from gateway.policy.column_types import column_type
from gateway.policy.masks import QUALIFIER
from gateway.policy.restricted_rows import Unenforceable, spell_type, write_predicate
from gateway.policy.views import TableView, all_filters, both_masks

_TEXT = ("string",)
_HASHED = ("string", "int", "long", "binary")
_TIMES = ("date", "timestamp", "timestamptz")
_TYPES: Mapping[str, tuple[str, ...]] = {
    "mask-alphanum": _TEXT,
    "show-first-4": _TEXT,
    "show-last-4": _TEXT,
    "truncate-to-year": _TIMES,
    "truncate-to-month": _TIMES,
    "sha-256-global": _HASHED,
    QUERY_LOCAL: _HASHED,
}
"""The types that an action is made for; the other two have rules of their own."""
_DAY_US = 86_400_000_000
_LEAST = {"YEAR": "-290307-01-01", "MONTH": "-290308-12-31"}
"""The first day whose year, or month, begins after the first instant that a timestamp can have."""
_LEAST_DATE = {"YEAR": "-5877640-01-01", "MONTH": "-5877641-07-01"}
_FIXED = {
    "boolean": "FALSE",
    "int": "0",
    "long": "0",
    "float": "0",
    "double": "0",
    "string": "'XXXXXXXX'",
    "date": "DATE'1970-01-01'",
    "timestamp": "TIMESTAMP_NTZ'1970-01-01 00:00:00'",
    "timestamptz": "TIMESTAMP_LTZ'1970-01-01 00:00:00+00:00'",
    "uuid": "'00000000-0000-0000-0000-000000000000'",
    "binary": "X''",
}


def restrict_view(view: TableView, table: Table, *, bare: bool = False) -> TableView:
    """Return what is left of a view of a table by what its catalog restricts.

    Rows pass the filters of both; a column that both mask otherwise is NULL. Nothing is left of a table whose
    restrictions cannot be enforced. `bare`: built-in functions are called by bare names.
    """
    told = table.restrictions
    if told is None or not told.restricts:
        return view
    try:
        if told.fault:
            raise Unenforceable(told.fault)
        schema = _find_schema(told, table)
        masks = _write_masks(told, schema, table, bare=bare)
        rows = _write_filter(told, schema, table, bare=bare)
    except Unenforceable as why:  # RULE (restriction-closes)
        closed = f"catalog `{told.catalog}` restricts table {table.name}, and it is refused: {why}"
        return replace(view, hidden=frozenset(one.name for one in table.columns), closed=closed)
    found = dict(view.masks)
    for name, mask in masks.items():
        own = found.get(name)
        # RULE (restriction-mask)
        found[name] = mask if own is None else _name_both(both_masks(own, mask), own.policy, mask.policy)
    filters = [one for one in (view.row_filter, rows) if one is not None]
    both = all_filters(filters)  # RULE (restriction-filter)
    if both is not None and view.row_filter is not None and rows is not None:
        both = replace(both, policy=_join_names(view.row_filter.policy, rows.policy))
    # Read by the columns that were judged: names are not what restrictions go by.
    return replace(view, masks=found, row_filter=both, uniform=lambda: False)


def _name_both(mask: ColumnMask, own: PolicyRef, other: PolicyRef) -> ColumnMask:
    return replace(mask, policy=_join_names(own, other))


def _join_names(own: PolicyRef, other: PolicyRef) -> PolicyRef:
    """Return the reference of what two have made: the record names both."""
    return replace(own, name=f"{own.name} and {other.name}")


def name_origin(catalog: str) -> PolicyRef:
    """Return what the record has in the place of a policy for what a catalog restricts."""
    return PolicyRef(name=f"catalog {catalog}")


def _find_schema(told: TableRestrictions, table: Table) -> TableSchema:
    """Return the schema that is read, whose ids the restrictions name.

    A version is known by its columns' names. Where several schemas have these, all that matters must be the
    same in each.
    """
    names = [column.name for column in table.columns]
    if not table.name.version:
        for one in told.schemas:
            if one.id == told.current_schema and one.names == names:  # RULE (restriction-current-schema)
                return one
        raise Unenforceable("its columns have changed since they were read; run the statement again")
    if told.by_names:  # RULE (restriction-by-names)
        raise Unenforceable("its restrictions go by the names that columns have now, not in a version")
    found = [one for one in told.schemas if one.names == names]
    if not found:
        raise Unenforceable("it is not known which schema this version has")
    ids = {one.field_id for one in told.columns}
    if told.predicate is not None:
        ids |= list_references(told.predicate)
    # RULE (restriction-version)
    if any(one.find(ident) != found[0].find(ident) for one in found for ident in ids):
        raise Unenforceable("it is not known which schema this version has")
    return found[0]


def _column_name(table: Table, name: str) -> str:
    """Return the name that a column has within the guard: that of now, for a version."""
    return next((one.now for one in table.renamed if one.then == name), name)


# Masks.


def _write_masks(
    told: TableRestrictions, schema: TableSchema, table: Table, *, bare: bool
) -> dict[str, ColumnMask]:
    actions = {one.field_id: one for one in told.columns if schema.find(one.field_id)}
    for ident in actions:
        *above, own = schema.find(ident)
        for outer in above:
            if outer.id in actions:  # RULE (restriction-nested-twice)
                raise Unenforceable(f"both field {outer.id} and field {ident} within it are masked")
            keys = walk_fields((outer.type.key,)) if isinstance(outer.type, MapType) else ()
            if any(key.id == ident for key in keys):  # RULE (restriction-map-key)
                raise Unenforceable(f"the key of a map is masked (field {own.id})")
    writer = MaskWriter(actions, told.salt, "" if bare else QUALIFIER)
    masks: dict[str, ColumnMask] = {}
    for column, one in zip(table.columns, schema.fields, strict=True):
        concerned = [actions[inner.id] for inner in walk_fields((one,)) if inner.id in actions]
        if not concerned:
            continue
        shown = column_type(column.type)
        _require_type(one, column.type)
        if shown.sql is None:
            raise Unenforceable(f"the type of column `{one.name}` cannot be written")
        within = quote(_column_name(table, column.name))
        text = writer.write(within, one)
        # As for custom masks: the branch that is never taken keeps the column as nullable as it is.
        expression = f"CASE WHEN FALSE THEN {within} ELSE CAST({text} AS {shown.sql}) END"
        masks[column.name] = ColumnMask(
            column=column.name,
            mask_type=" ".join(dict.fromkeys(each.action for each in concerned)),
            expression=expression,
            policy=name_origin(told.catalog),
        )
    return masks


def _require_type(one: SchemaField, data_type: str) -> None:
    """Require that Spark has a column of the type that restrictions are written for."""
    told = " ".join(data_type.lower().split())
    match one.type:
        case StructType():
            fits = told.startswith("struct<")
        case ListType():
            fits = told.startswith("array<")
        case MapType():
            fits = told.startswith("map<")
        case name:
            fits = told.replace(" ", "") == spell_type(name)
    if not fits:  # RULE (restriction-spark-type)
        raise Unenforceable(f"Spark has column `{one.name}` as {told}, which is not its type")


class MaskWriter:
    """Writes what a field shows. `actions`: by ids of fields."""

    def __init__(self, actions: Mapping[int, ColumnAction], salt: str, qualifier: str) -> None:
        self._actions = actions
        self._salt = salt
        self._b = qualifier
        self._variables = 0

    def write(self, c: str, one: SchemaField) -> str:
        """Return the field's masked value; `c` is its own."""
        action = self._actions.get(one.id)
        if action is not None:
            return self._mask(c, one, action.action)
        if not any(inner.id in self._actions for inner in walk_fields(list_inner_fields(one.type))):
            return c
        b = self._b
        match one.type:
            case StructType():
                made = self._write_struct(
                    (inner, self.write(f"{c}.{quote(inner.name)}", inner)) for inner in one.type.fields
                )
                return f"CASE WHEN {c} IS NOT NULL THEN {made} END"
            case ListType():
                x = self._name_variable()
                return f"{b}transform({c}, {x} -> {self.write(x, one.type.element)})"
            case MapType():
                k, v = self._name_variable(), self._name_variable()
                return f"{b}transform_values({c}, ({k}, {v}) -> {self.write(v, one.type.value)})"
        raise Unenforceable(f"a field within {one.type}")

    def _name_variable(self) -> str:
        self._variables += 1
        return f"sluice_x{self._variables}"

    def _write_struct(self, fields: Iterable[tuple[SchemaField, str]]) -> str:
        found = []
        for one, text in fields:
            if "'" in one.name or "\\" in one.name:
                raise Unenforceable(f"a field within column `{one.name}` has a name that cannot be written")
            found.append(f"'{one.name}', {text}")
        return f"{self._b}named_struct({', '.join(found)})"

    def _mask(self, c: str, one: SchemaField, action: str) -> str:
        if action == "replace-with-null":
            if one.required:  # RULE (restriction-required-null)
                raise Unenforceable(f"`{action}` of the required field `{one.name}`")
            return f"CASE WHEN FALSE THEN {c} END"
        if action == "mask-to-fixed-value":
            return self._write_fixed(one)
        kind = one.type if isinstance(one.type, str) else ""
        if kind not in _TYPES[action]:  # RULE (restriction-type)
            raise Unenforceable(f"`{action}` is not made for the type of field `{one.name}`")
        match action:
            case "mask-alphanum":
                return self._cross_out(c)
            case "show-first-4":
                return f"SUBSTRING({c} FROM 1 FOR 4) || {self._cross_out(f'SUBSTRING({c} FROM 5)')}"
            case "show-last-4":
                length = f"{self._b}length({c})"
                hidden = self._cross_out(f"SUBSTRING({c} FROM 1 FOR {length} - 4)")
                return f"CASE WHEN {length} <= 4 THEN {c} ELSE {hidden} || SUBSTRING({c} FROM -4) END"
            case "truncate-to-year" | "truncate-to-month":
                return self._truncate(c, kind, action.rpartition("-")[2].upper())
            case "sha-256-global":
                return self._hash(c, kind, "")
        # RULE (restriction-salt)
        if not self._salt.startswith(SALT_MARK) or len(self._salt) < len(SALT_MARK) + 32:
            raise Unenforceable(f"`{action}` outside of a statement that is run")
        return self._hash(c, kind, self._salt)

    def _cross_out(self, c: str) -> str:
        # Digits last: `n` is no digit, but it is a sign that becomes `x`.
        b = self._b
        return f"{b}regexp_replace({b}regexp_replace({c}, '[^0-9(),.@-]', 'x'), '[0-9]', 'n')"

    def _write_fixed(self, one: SchemaField) -> str:
        b = self._b
        match one.type:
            case StructType():
                return self._write_struct((inner, self._write_fixed(inner)) for inner in one.type.fields)
            case ListType():
                return f"CAST({b}array() AS ARRAY<{_spell(one.type.element)}>)"
            case MapType():
                return f"CAST({b}map() AS MAP<{_spell(one.type.key)},{_spell(one.type.value)}>)"
            case str(kind) if kind.startswith("fixed["):
                return f"X'{'00' * int(kind[6:-1])}'"
            case str(kind) if kind.startswith("decimal("):
                return f"CAST(0 AS {kind})"
            case str(kind) if kind in _FIXED:
                return f"CAST({_FIXED[kind]} AS {spell_type(kind)})"
        raise Unenforceable(f"no fixed value is known for the type of field `{one.name}`")

    def _truncate(self, c: str, kind: str, unit: str) -> str:
        b = self._b
        if kind == "date":
            return f"CASE WHEN {c} >= DATE'{_LEAST_DATE[unit]}' THEN {b}trunc({c}, '{unit}') END"
        if kind == "timestamp":
            # By its date: `date_trunc` would go through the session's zone.
            cut = f"CAST({b}trunc(CAST({c} AS DATE), '{unit}') AS TIMESTAMP_NTZ)"
            return f"CASE WHEN {c} >= TIMESTAMP_NTZ'{_LEAST[unit]} 00:00:00' THEN {cut} END"
        # In UTC, whatever the session's zone: the days since 1970, as a date, and back.
        us = f"{b}unix_micros({c})"
        day = f"{b}date_from_unix_date(CAST(({us} - {b}pmod({us}, {_DAY_US})) DIV {_DAY_US} AS INT))"
        cut = f"{b}timestamp_micros({b}unix_date({b}trunc({day}, '{unit}')) * {_DAY_US})"
        return f"CASE WHEN {c} >= TIMESTAMP_LTZ'{_LEAST[unit]} 00:00:00+00:00' THEN {cut} END"

    def _hash(self, c: str, kind: str, salt: str) -> str:
        """Write SHA-256 of a value's bytes, with the salt before them.

        A whole number is its bytes, the lowest first, and shows as many of the digest's, the lowest first.
        """
        b = self._b
        width = {"int": 8, "long": 16}.get(kind, 0)
        if width == 0:
            content = f"CAST({c} AS BINARY)"
            if salt:
                content = f"{b}unhex('{salt}' || {b}hex({content}))"
            digest = f"{b}sha2({content}, 256)"
            return digest if kind == "string" else f"{b}unhex({digest})"
        bits = f"{b}hex({c})" if kind == "long" else f"{b}hex(CAST({c} AS BIGINT) & 4294967295)"
        value = self._swap(f"{b}lpad({bits}, {width}, '0')")
        content = f"{b}unhex('{salt}' || {value})" if salt else f"{b}unhex({value})"
        shown = self._swap(f"SUBSTRING({b}sha2({content}, 256) FROM 1 FOR {width})")
        number = f"CAST({b}conv({shown}, 16, -10) AS BIGINT)"
        # 32 bits with a sign: up and down again.
        return number if kind == "long" else f"{b}shiftright({b}shiftleft({number}, 32), 32)"

    def _swap(self, digits: str) -> str:
        """Write the bytes of hexadecimal digits in the other order."""
        return f"{self._b}regexp_replace({self._b}reverse({digits}), '(.)(.)', '$2$1')"


def _spell(one: SchemaField) -> str:
    match one.type:
        case StructType():
            inner = ",".join(f"{quote(each.name)}:{_spell(each)}" for each in one.type.fields)
            return f"STRUCT<{inner}>"
        case ListType():
            return f"ARRAY<{_spell(one.type.element)}>"
        case MapType():
            return f"MAP<{_spell(one.type.key)},{_spell(one.type.value)}>"
        case kind:
            return spell_type(kind)


def _write_filter(
    told: TableRestrictions, schema: TableSchema, table: Table, *, bare: bool
) -> RowFilter | None:
    if told.predicate is None:
        return None
    for ident in list_references(told.predicate):
        path = schema.find(ident)
        if path:
            column = next(c for c in table.columns if c.name == path[0].name)
            _require_type(path[0], column.type)
    text = write_predicate(
        told.predicate, schema, lambda name: _column_name(table, name), "" if bare else QUALIFIER
    )
    return RowFilter(expression=text, policy=name_origin(told.catalog))
