"""Random plans of Spark Connect: grown from relations that PySpark makes, and mutated field by field."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.attacks import world
from tests.attacks.grammar import Grammar

proto: Any = importlib.import_module("pyspark.sql.connect.proto")

NAMES = (
    *(f"{world.LIVE}.{shape.name}" for shape in world.SHAPES),
    *(shape.name for shape in world.SHAPES),
    "secret",
    "region",
    "id",
    "amount",
    world.HIDDEN_COLUMN,
    "_metadata",
    "_metadata.file_path",
    "*",
    "home.street",
    "open",
    "max",
    "reflect",
    "input_file_name",
    "",
    "`secret`",
    "masked.secret",
)
NUMBERS = (0, 1, 2, 3, -1, 7919, world.HIDDEN_ID, 2**31 - 1)
COLUMNS = ("id", "name", "secret", "region", "amount")
MAX_DEPTH = 4


class Plans:
    """Draws plans. The same seed draws the same ones."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.grammar = Grammar(chance)
        self._kinds: tuple[Callable[[int], Any], ...] = (
            self._read,
            self._read,
            self._project,
            self._project,
            self._filter,
            self._filter,
            self._join,
            self._set,
            self._sort,
            self._limit,
            self._aggregate,
            self._sql,
            self._alias,
            self._sample,
            self._deduplicate,
            self._with_columns,
            self._drop,
            self._rename,
            self._unpivot,
            self._statistics,
            self._references,
            self._hint,
            self._repartition,
            self._to_names,
            self._missing,
            self._lateral,
        )

    def plan(self) -> Any:
        """Return a plan with a relation for its root, mutated two times in three."""
        root = self.relation(0)
        made = proto.Plan(root=root)
        for _ in range(self.chance.choice((0, 1, 1, 2, 2, 3))):
            mutate(made, self.chance)
        return made

    def relation(self, depth: int) -> Any:
        if depth >= MAX_DEPTH:
            return self._read(depth)
        made = self.chance.choice(self._kinds)(depth)
        if self.chance.random() < 0.3:
            made.common.plan_id = self.chance.randint(0, 5)
        return made

    # ------------------------------------------------------------ relations

    def _read(self, depth: int) -> Any:
        made = proto.Relation()
        made.read.named_table.unparsed_identifier = self.grammar.draw("table", depth)
        return made

    def _project(self, depth: int) -> Any:
        made = proto.Relation()
        made.project.input.CopyFrom(self.relation(depth + 1))
        if self.chance.random() < 0.6:
            made.project.expressions.extend(attribute(name) for name in COLUMNS[: self.chance.randint(1, 4)])
        else:
            made.project.expressions.extend(self._expression() for _ in range(self.chance.randint(1, 3)))
        return made

    def _filter(self, depth: int) -> Any:
        made = proto.Relation()
        made.filter.input.CopyFrom(self.relation(depth + 1))
        if self.chance.random() < 0.5:
            made.filter.condition.expression_string.expression = self.grammar.draw("condition", 4)
        else:
            call = made.filter.condition.unresolved_function
            call.function_name = self.chance.choice(("isnotnull", "=", "!=", ">", "like"))
            call.arguments.add().CopyFrom(attribute(self.chance.choice(COLUMNS)))
            if call.function_name != "isnotnull":
                call.arguments.add().literal.string = self.chance.choice(("Q%", "EMEA", world.GUESS, "1"))
        return made

    def _join(self, depth: int) -> Any:
        made = proto.Relation()
        made.join.left.CopyFrom(self.relation(depth + 1))
        made.join.right.CopyFrom(self.relation(depth + 1))
        made.join.join_type = self.chance.randint(1, 7)
        if made.join.join_type != 7:
            made.join.using_columns.append(self.chance.choice(("id", "id", "region", "secret")))
        return made

    def _set(self, depth: int) -> Any:
        made = proto.Relation()
        made.set_op.left_input.CopyFrom(self.relation(depth + 1))
        made.set_op.right_input.CopyFrom(self.relation(depth + 1))
        made.set_op.set_op_type = self.chance.randint(1, 3)
        made.set_op.is_all = self.chance.random() < 0.5
        made.set_op.by_name = made.set_op.set_op_type == 2 and self.chance.random() < 0.3
        made.set_op.allow_missing_columns = made.set_op.by_name
        return made

    def _sort(self, depth: int) -> Any:
        made = proto.Relation()
        made.sort.input.CopyFrom(self.relation(depth + 1))
        made.sort.is_global = True
        order = made.sort.order.add()
        order.child.CopyFrom(attribute(self.chance.choice(COLUMNS)))
        order.direction, order.null_ordering = self.chance.randint(1, 2), self.chance.randint(1, 2)
        return made

    def _limit(self, depth: int) -> Any:
        made = proto.Relation()
        part = self.chance.choice((made.limit, made.offset, made.tail))
        part.input.CopyFrom(self.relation(depth + 1))
        setattr(part, "offset" if part is made.offset else "limit", self.chance.choice((0, 1, 3, 1000)))
        return made

    def _aggregate(self, depth: int) -> Any:
        made = proto.Relation()
        made.aggregate.input.CopyFrom(self.relation(depth + 1))
        made.aggregate.group_type = self.chance.choice((1, 1, 1, 2, 3))
        if self.chance.random() < 0.8:
            made.aggregate.grouping_expressions.add().CopyFrom(attribute(self.chance.choice(COLUMNS)))
        call = made.aggregate.aggregate_expressions.add().unresolved_function
        call.function_name = self.chance.choice(("max", "min", "count", "first", "collect_set"))
        call.arguments.add().CopyFrom(attribute(self.chance.choice(COLUMNS)))
        return made

    def _sql(self, depth: int) -> Any:
        made = proto.Relation()
        made.sql.query = self.grammar.draw("query", max(3, depth))
        return made

    def _alias(self, depth: int) -> Any:
        made = proto.Relation()
        made.subquery_alias.input.CopyFrom(self.relation(depth + 1))
        made.subquery_alias.alias = self.chance.choice(("a", "masked", "both", "open", "x.y", ""))
        return made

    def _sample(self, depth: int) -> Any:
        made = proto.Relation()
        made.sample.input.CopyFrom(self.relation(depth + 1))
        made.sample.lower_bound, made.sample.upper_bound, made.sample.seed = 0.0, 1.0, 1
        return made

    def _deduplicate(self, depth: int) -> Any:
        made = proto.Relation()
        made.deduplicate.input.CopyFrom(self.relation(depth + 1))
        if self.chance.random() < 0.5:
            made.deduplicate.all_columns_as_keys = True
        else:
            made.deduplicate.column_names.append(self.chance.choice(COLUMNS))
        return made

    def _with_columns(self, depth: int) -> Any:
        made = proto.Relation()
        made.with_columns.input.CopyFrom(self.relation(depth + 1))
        alias = made.with_columns.aliases.add()
        alias.name.append(self.chance.choice((*COLUMNS, "x")))
        alias.expr.CopyFrom(self._expression())
        return made

    def _drop(self, depth: int) -> Any:
        made = proto.Relation()
        made.drop.input.CopyFrom(self.relation(depth + 1))
        made.drop.column_names.append(self.chance.choice((*COLUMNS, world.HIDDEN_COLUMN)))
        return made

    def _rename(self, depth: int) -> Any:
        made = proto.Relation()
        made.with_columns_renamed.input.CopyFrom(self.relation(depth + 1))
        renamed = made.with_columns_renamed.renames.add()
        renamed.col_name, renamed.new_col_name = self.chance.choice(COLUMNS), self.chance.choice(COLUMNS)
        return made

    def _unpivot(self, depth: int) -> Any:
        made = proto.Relation()
        made.unpivot.input.CopyFrom(self.relation(depth + 1))
        made.unpivot.ids.add().CopyFrom(attribute("id"))
        made.unpivot.values.values.add().CopyFrom(attribute(self.chance.choice(("secret", "name"))))
        made.unpivot.variable_column_name, made.unpivot.value_column_name = "n", "secret"
        return made

    def _statistics(self, depth: int) -> Any:
        made = proto.Relation()
        part = self.chance.choice((made.summary, made.describe, made.crosstab, made.freq_items))
        part.input.CopyFrom(self.relation(depth + 1))
        if part is made.describe or part is made.freq_items:
            part.cols.append(self.chance.choice((*COLUMNS, "_metadata.file_path")))
        elif part is made.summary:
            part.statistics.extend(["count", "min", "max"])
        else:
            part.col1, part.col2 = self.chance.choice(COLUMNS), self.chance.choice(COLUMNS)
        return made

    def _references(self, depth: int) -> Any:
        made = proto.Relation()
        alias = self.chance.choice(("r", "open", "masked", "both"))
        made.with_relations.root.sql.query = f"SELECT * FROM {alias}"
        reference = made.with_relations.references.add()
        reference.subquery_alias.input.CopyFrom(self.relation(depth + 1))
        reference.subquery_alias.alias = alias
        return made

    def _hint(self, depth: int) -> Any:
        made = proto.Relation()
        made.hint.input.CopyFrom(self.relation(depth + 1))
        made.hint.name = self.chance.choice(("broadcast", "x"))
        return made

    def _repartition(self, depth: int) -> Any:
        made = proto.Relation()
        made.repartition_by_expression.input.CopyFrom(self.relation(depth + 1))
        made.repartition_by_expression.partition_exprs.add().CopyFrom(self._expression())
        made.repartition_by_expression.num_partitions = 2
        return made

    def _to_names(self, depth: int) -> Any:
        made = proto.Relation()
        made.to_df.input.CopyFrom(self.relation(depth + 1))
        made.to_df.column_names.extend(["id", "name", "secret", "amount"])
        return made

    def _missing(self, depth: int) -> Any:
        made = proto.Relation()
        part = self.chance.choice((made.fill_na, made.drop_na, made.replace))
        part.input.CopyFrom(self.relation(depth + 1))
        if part is made.fill_na:
            part.values.add().string = "x"
        elif part is made.replace:
            replaced = part.replacements.add()
            replaced.old_value.string, replaced.new_value.string = world.GUESS, "hit"
        return made

    def _lateral(self, depth: int) -> Any:
        made = proto.Relation()
        made.lateral_join.left.CopyFrom(self._read(depth))
        made.lateral_join.right.CopyFrom(self.relation(depth + 1))
        made.lateral_join.join_type = 1
        return made

    def _expression(self) -> Any:
        if self.chance.random() < 0.5:
            return attribute(self.chance.choice(NAMES[-16:]))
        made = proto.Expression()
        made.expression_string.expression = self.grammar.draw("expr", 5)
        return made


def attribute(name: str) -> Any:
    made = proto.Expression()
    made.unresolved_attribute.unparsed_identifier = name
    return made


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.type != descriptor.TYPE_MESSAGE:
            continue
        if descriptor.message_type.GetOptions().map_entry:
            continue
        for inner in value if descriptor.is_repeated else (value,):
            yield from _messages(inner)


def mutate(plan: Any, chance: random.Random) -> None:
    """Change one thing in a plan: drop, repeat or set a field, or exchange two messages of one type."""
    everything = list(_messages(plan))
    target = chance.choice(everything)
    kind = chance.choice(("drop", "repeat", "set", "set", "set", "exchange", "exchange", "graft"))
    fields = target.ListFields()
    if kind == "set":
        _set_scalar(chance.choice(everything), chance)
    elif kind == "drop" and fields:
        target.ClearField(chance.choice(fields)[0].name)
    elif kind == "repeat":
        lists = [value for descriptor, value in fields if descriptor.is_repeated and len(value)]
        if lists:
            chosen = chance.choice(lists)
            if not hasattr(chosen, "keys"):
                chosen.extend([chosen[0]])
    else:
        twins = [m for m in everything if m.DESCRIPTOR is target.DESCRIPTOR and m is not target]
        if twins:
            other = chance.choice(twins)
            mine, its = type(target)(), type(other)()
            mine.CopyFrom(target)
            its.CopyFrom(other)
            target.CopyFrom(its)
            # One of them may have been within the other; then there is nothing left to give it.
            if kind == "exchange" and its.FindInitializationErrors() == []:
                other.CopyFrom(mine)


def _set_scalar(message: Any, chance: random.Random) -> None:
    scalars = [d for d in message.DESCRIPTOR.fields if d.type != d.TYPE_MESSAGE and not d.is_repeated]
    if not scalars:
        return
    descriptor = chance.choice(scalars)
    if descriptor.type == descriptor.TYPE_STRING:
        value: Any = chance.choice(NAMES)
    elif descriptor.type == descriptor.TYPE_BOOL:
        value = chance.random() < 0.5
    elif descriptor.type == descriptor.TYPE_BYTES:
        value = b"x"
    elif descriptor.type == descriptor.TYPE_ENUM:
        value = chance.choice([v.number for v in descriptor.enum_type.values])
    elif descriptor.type in (descriptor.TYPE_DOUBLE, descriptor.TYPE_FLOAT):
        value = chance.choice((0.0, 1.0))
    else:
        value = chance.choice(NUMBERS)
        if descriptor.type in (descriptor.TYPE_UINT32, descriptor.TYPE_UINT64):
            value = abs(value)
    setattr(message, descriptor.name, value)
