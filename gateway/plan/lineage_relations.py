"""What each kind of relation of a plan makes of its one input: other columns, or conditions on rows.

A relation is a Frame: its columns, with what each is made of, and its rows. Columns that are only passed on
share one value; operations that pass all of them on share the columns, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gateway.algebra.lineage_values import (
    CHOOSING,
    NO_DEPENDENCIES,
    TRANSFORMED,
    RelationRows,
    RowCondition,
    Value,
    add_conjunct,
    decide_by,
    merge_values,
)
from gateway.algebra.usage import Parts, Unclear
from gateway.model.lineage import Clause
from gateway.plan.lineage_expressions import PlanFragment, PlanLineageExpressions
from gateway.plan.lineage_sources import names_in
from gateway.plan.lineage_structs import parts_of
from gateway.plan.rendering import render
from gateway.sql.lineage_scope import (
    Attribute,
    Environment,
    Frame,
    Open,
)
from gateway.wire.connect import Message, pb

Outer = Environment | None

_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double", "byte", "short", "integer",
                      "long"})  # fmt: skip
_FILLS = {"string": frozenset({"string"}), "boolean": frozenset({"boolean"})}


class OneInput(PlanLineageExpressions):
    """The relations with one input: a method each, from a message and its input."""

    # ---------------------------------------------------------------- rows

    def same(self, message: Message, frame: Frame, outer: Outer) -> Frame:
        """Pass on rows as they are, some of them, or as text for people."""
        return frame

    def filter(self, message: pb.Filter, frame: Frame, outer: Outer) -> Frame:
        rows = RelationRows(parents=[frame.rows])
        self.decide(rows, Clause.WHERE, message.condition, _build_pulling_place(frame, outer))
        return frame.derive(rows=rows)

    def sort(self, message: pb.Sort, frame: Frame, outer: Outer) -> Frame:
        rows = RelationRows(parents=[frame.rows])
        value = self.order(message.order, _build_pulling_place(frame, outer))
        decide_by(rows, Clause.SORT, Several(message.order), value)
        return frame.derive(rows=rows)

    def deduplicate(self, message: pb.Deduplicate, frame: Frame, outer: Outer) -> Frame:
        rows = RelationRows(parents=[frame.rows])
        names = message.column_names[:]
        if names and not message.all_columns_as_keys:
            compared = merge_values(self.resolve_name(name, frame).value for name in names)
            decide_by(rows, Clause.GROUP_BY, f"DISTINCT {', '.join(names)}", compared)
        else:
            decide_by(rows, Clause.GROUP_BY, "DISTINCT", merge_values(a.value for a in frame.shown))
        return frame.derive(rows=rows)

    def drop_na(self, message: pb.NADrop, frame: Frame, outer: Outer) -> Frame:
        rows = RelationRows(parents=[frame.rows])
        chosen = self._choose_columns(message.cols, frame)
        words = [f"{a.name or '?'} IS NOT NULL" for a in chosen]
        if message.HasField("min_non_nulls"):
            words = [f"at least {message.min_non_nulls} of {', '.join(words)}"]
            values = [merge_values(a.value for a in chosen)]
        else:
            values = [a.value for a in chosen]
        condition = RowCondition(Clause.WHERE, " AND ".join(words))
        for written, value in zip(words, values, strict=True):
            add_conjunct(condition, rows, written, value)
        rows.conditions.append(condition)
        return frame.derive(rows=rows)

    def sample_by(self, message: pb.StatSampleBy, frame: Frame, outer: Outer) -> Frame:
        rows = RelationRows(parents=[frame.rows])
        condition = RowCondition(Clause.WHERE, PlanFragment(message.col))
        value = self.value(message.col, Environment(frame, outer))
        add_conjunct(condition, rows, condition.written, value)
        rows.conditions.append(condition)
        return frame.derive(rows=rows)

    # ---------------------------------------------------------------- columns

    def projection(self, message: pb.Project, frame: Frame, outer: Outer) -> Frame:
        made = self.project(message.expressions, Environment(frame, outer))
        return frame.derive(made.attributes, made.opens)

    def with_columns(self, message: pb.WithColumns, frame: Frame, outer: Outer) -> Frame:
        place = Environment(frame, outer)
        added: dict[str, Attribute] = {}
        for alias in message.aliases[:]:
            made = dict(self._build_added(alias, place))
            added |= made
            # Spark makes one projection of them: a later value may use the name of an earlier one.
            place = replace(place, outputs={**made, **place.outputs})
        return self._replace_columns(frame, added)

    def _build_added(self, alias: pb.Expression.Alias, place: Environment) -> Iterable[tuple[str, Attribute]]:
        made = self.item(alias.expr, place, aliased=True)
        names = [name.lower() for name in alias.name[:]]
        values = [a.value for a in made.attributes]
        if len(values) != len(names) or made.opens:
            values = [merge_values(values)] * len(names)
        return [(name, Attribute(name, value)) for name, value in zip(names, values, strict=True)]

    def _replace_columns(self, frame: Frame, added: dict[str, Attribute]) -> Frame:
        """Return a relation with columns in the place of those of their names, the others at its end."""
        self.spend(len(frame.attributes) + len(added))
        shown = frame.shown
        columns = [added.get(a.name or "", a) for a in shown]
        there = {a.name for a in shown}
        columns += [attribute for name, attribute in added.items() if name not in there]
        return frame.derive(columns)

    def fill_na(self, message: pb.NAFill, frame: Frame, outer: Outer) -> Frame:
        values = message.values[:]
        chosen = self._choose_columns(message.cols, frame)
        if not values:
            raise Unclear("a fill value is missing")
        changed: dict[int, Attribute] = {}
        for i, attribute in enumerate(chosen):
            literal = values[i] if len(values) == len(message.cols) and i < len(values) else values[0]
            if message.cols or _fills(literal, attribute.value.type):
                written = f"coalesce({attribute.name}, {render(literal)})"
                changed[id(attribute)] = Attribute(
                    attribute.name, attribute.value.as_operand(TRANSFORMED, (written,))
                )
        return frame.derive([changed.get(id(a), a) for a in frame.shown])

    def replace(self, message: pb.NAReplace, frame: Frame, outer: Outer) -> Frame:
        changed: dict[int, Attribute] = {}
        for attribute in self._choose_columns(message.cols, frame):
            value = attribute.value
            both = merge_values((value.as_operand(TRANSFORMED), value.as_operand(CHOOSING)))
            written = (f"replace({attribute.name})",)
            changed[id(attribute)] = Attribute(attribute.name, Value(both.dependencies, both.rows, written))
        return frame.derive([changed.get(id(a), a) for a in frame.shown])

    def with_columns_renamed(self, message: pb.WithColumnsRenamed, frame: Frame, outer: Outer) -> Frame:
        renames = [(one.col_name.lower(), one.new_col_name.lower()) for one in message.renames[:]]
        renames += [(old.lower(), new.lower()) for old, new in sorted(message.rename_columns_map.items())]
        columns = frame.shown
        for old, new in renames:
            self.spend(len(columns))
            columns = [Attribute(new, a.value) if a.name == old else a for a in columns]
            known = any(a.name == new for a in columns)
            columns += [] if known else [Attribute(new, self.open_column(o, old)) for o in frame.opens[:1]]
        return frame.derive(columns)

    def to_df(self, message: pb.ToDF, frame: Frame, outer: Outer) -> Frame:
        names = [name.lower() for name in message.column_names[:]]
        return Frame(frame.relation().apply_alias("", names)) if names else frame

    def to_schema(self, message: pb.ToSchema, frame: Frame, outer: Outer) -> Frame:
        """`df.to(schema)`: the columns of these names, cast."""
        attributes = []
        for name in [item.name.lower() for item in message.schema.struct.fields]:
            found = frame.find((name,))[0]
            if not found and not frame.opens:
                attributes.append(Attribute(name, Value(NO_DEPENDENCIES)))  # one that may be NULL is added
                continue
            value = self.resolve_name(name, frame).value
            attributes.append(Attribute(name, value.as_operand(TRANSFORMED, (name,))))
        return frame.derive(attributes, [])

    def drop(self, message: pb.Drop, frame: Frame, outer: Outer) -> Frame:
        """A name that is not there is no fault."""
        self.spend(len(frame.attributes))
        names = {name.lower() for name in message.column_names[:]}
        columns = [a for a in frame.attributes if a.hidden or a.name not in names]
        for expression in message.columns[:]:
            if expression.WhichOneof("expr_type") != "unresolved_attribute":
                raise Unclear("an expression is dropped")
            attribute = expression.unresolved_attribute
            parts = parts_of(attribute.unparsed_identifier)
            if attribute.HasField("plan_id"):
                gone = self.column(attribute, Environment(frame, outer)).value
                columns = [a for a in columns if a.value is not gone]
            else:
                columns = [a for a in columns if a.hidden or not _is_named(a, parts)]
        return frame.derive(columns)

    def subquery_alias(self, message: pb.SubqueryAlias, frame: Frame, outer: Outer) -> Frame:
        qualifier = (*[part.lower() for part in message.qualifier[:]], message.alias.lower())
        self.spend(len(frame.attributes))
        columns = [Attribute(a.name, a.value, qualifier) for a in frame.shown]
        return frame.derive(columns, [replace(o, qualifier=qualifier) for o in frame.opens])

    # ---------------------------------------------------------------- code over rows

    def map_partitions(self, message: pb.MapPartitions, frame: Frame, outer: Outer) -> Frame:
        return code_over((frame,), message.func)

    def parse(self, message: pb.Parse, frame: Frame, outer: Outer) -> Frame:
        whole = _whole((frame,))
        names = [item.name.lower() for item in message.schema.struct.fields]
        return of_whole(names, whole, frame.rows)

    def transpose(self, message: pb.Transpose, frame: Frame, outer: Outer) -> Frame:
        """Columns become rows: what the new ones are called stands in the rows."""
        index = (
            self.operands(message.index_columns, Environment(frame, outer)) if message.index_columns else None
        )
        whole = merge_values((_whole((frame,)), index)) if index is not None else _whole((frame,))
        made = of_whole([], whole, frame.rows)
        return made.derive([Attribute("key", Value(NO_DEPENDENCIES)), *made.attributes])

    # ---------------------------------------------------------------- what they share

    def _choose_columns(self, names: Sequence[str], frame: Frame) -> list[Attribute]:
        """Return the columns of names, or all of them without any."""
        return [self.resolve_name(name, frame) for name in names[:]] if names else frame.shown


class Several:
    """Several parts of a plan, one after the other."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = list(messages)

    def __str__(self) -> str:
        return ", ".join(str(PlanFragment(message)) for message in self.messages)


def _build_pulling_place(frame: Frame, outer: Outer) -> Environment:
    """Return where a filter or an order stands: Spark pulls a column up that the relation has left out."""
    return Environment(frame, outer, pulls_up=True)


def _is_named(attribute: Attribute, parts: Parts) -> bool:
    qualifier = parts[:-1]
    return attribute.name == parts[-1] and (
        not qualifier or attribute.qualifier[-len(qualifier) :] == qualifier
    )


def _fills(literal: pb.Expression.Literal, type_: str) -> bool:
    """Whether a value fills NULLs of a column: one of another type leaves it as it is."""
    if not type_:
        return True
    base = type_.split("(")[0].lower()
    case = literal.WhichOneof("literal_type") or ""
    return base in _FILLS[case] if case in _FILLS else base in _NUMBERS or base == "decimal"


def _whole(frames: Iterable[Frame]) -> Value:
    """Return all columns as one value."""
    return merge_values((a.value for frame in frames for a in frame.shown), TRANSFORMED)


def of_whole(names: Sequence[str], value: Value, rows: RelationRows) -> Frame:
    """Return a relation whose columns are each made of a value; without names they are not known."""
    attributes = [Attribute(name, value) for name in names] or [Attribute("*", value)]
    return Frame().derive(attributes, [] if names else [Open((), None, value)], rows)


def code_over(
    frames: Sequence[Frame], func: pb.CommonInlineUserDefinedFunction, schema: Sequence[str] = ()
) -> Frame:
    """Return what the user's code makes of rows: anything of anything."""
    names = list(schema) or names_of_type(func.python_udf.output_type)
    value = replace(_whole(frames), written=(f"{func.function_name or 'function'}(…)",))
    return of_whole(names, value, RelationRows(parents=[frame.rows for frame in frames]))


def names_of_type(message: pb.DataType) -> list[str]:
    """Return the names of a struct's fields, none where they are not known."""
    if message.WhichOneof("kind") == "struct":
        return [item.name.lower() for item in message.struct.fields]
    return names_in(message.unparsed.data_type_string) if message.HasField("unparsed") else []
