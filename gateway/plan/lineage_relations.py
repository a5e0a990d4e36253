"""What relations of a plan are that no node of the algebra says: by the message, their columns or conditions.

A function each, from the domain, the message, the relation that it was lowered to, and its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, cast

from gateway.algebra.lineage import LineageDomain
from gateway.algebra.lineage_expressions import (
    LineageColumn,
    LineageColumns,
    LineageScope,
    rows_of,
    stand_for_others,
)
from gateway.algebra.lineage_relations import KeyPair, choose, join_condition, with_rows
from gateway.algebra.lineage_values import (
    AGGREGATED,
    CHOOSING,
    NO_SOURCES,
    TRANSFORMED,
    ConditionPart,
    RelationRows,
    RowCondition,
    Value,
    add_conjunct,
    decide_by,
    group_by,
    merge_values,
)
from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    Expression,
    Join,
    OpaqueRelation,
    Pass,
    RelationNode,
)
from gateway.algebra.scope import RelationColumn, RelationColumns, scope_of
from gateway.algebra.usage import Unclear
from gateway.algebra.walking import parts_of
from gateway.model.lineage import Clause
from gateway.plan.lineage_names import literal_name
from gateway.plan.lineage_names import parts_of as read_parts
from gateway.plan.lineage_sources import names_in
from gateway.plan.rendering import render
from gateway.wire.connect import Message, pb

_NO_COLUMNS: LineageColumns = RelationColumns()
_NUMBERS = frozenset("tinyint smallint int bigint float double byte short integer long decimal".split())
_STATISTICS = _NUMBERS | {"string", "char", "varchar"}
"""Types of the columns that `describe` and `summary` take without being told which."""
_FILLS = {"string": frozenset({"string"}), "boolean": frozenset({"boolean"})}
_Inputs = Sequence[LineageColumns]


class MessageDomain(LineageDomain):
    """What relations ask of the domain beside what those of SQL do."""

    read_files: Callable[[pb.Read.DataSource], LineageColumns]
    read_kept: Callable[[str], LineageColumns]
    """Returns what a plan made whose rows Spark keeps under an id."""

    def find_by_string(self, name: str, below: LineageColumns) -> Value:
        """Return the column that a string refers to."""
        parts, here = read_parts(name), scope_of(below)
        return self._value_of(parts, here.resolve(parts), here)

    def rows_above(self, relation: RelationNode, *inputs: LineageColumns) -> RelationRows:
        """Return new rows of a relation, above those of its inputs."""
        return self.new_rows(relation, [rows_of(one) for one in inputs])


class RelationPlace(NamedTuple):
    """A relation of a plan, and where it stands."""

    domain: MessageDomain
    relation: RelationNode
    inputs: Sequence[LineageColumns]
    scope: LineageScope
    found: LineageColumns = _NO_COLUMNS
    """The columns that its node says."""


# Conditions on rows.


def _deduplicate(at: RelationPlace, message: pb.Deduplicate) -> None:
    rows = at.domain.rows_above(at.relation, *at.inputs)
    names = () if message.all_columns_as_keys else message.column_names[:]
    compared = merge_values(one.value for one in _choose(at, names))
    decide_by(rows, Clause.GROUP_BY, f"DISTINCT {', '.join(names)}".strip(), compared)


def _drop_na(at: RelationPlace, message: pb.NADrop) -> None:
    rows = at.domain.rows_above(at.relation, *at.inputs)
    chosen = _choose(at, message.cols)
    words = [f"{one.name or '?'} IS NOT NULL" for one in chosen]
    values = [one.value for one in chosen]
    if message.HasField("min_non_nulls"):
        words = [f"at least {message.min_non_nulls} of {', '.join(words)}"]
        values = [merge_values(values)]
    condition = RowCondition(Clause.WHERE, " AND ".join(words))
    for written, value in zip(words, values, strict=True):
        add_conjunct(condition, rows, written, value)
    rows.conditions.append(condition)


def _sample_by(at: RelationPlace, message: pb.StatSampleBy) -> None:
    rows = at.domain.rows_above(at.relation, *at.inputs)
    condition = RowCondition(Clause.WHERE, at.domain.words(*at.relation.expressions))
    value = _sum(at.domain, at.relation.expressions, at.inputs[0], at.scope)
    add_conjunct(condition, rows, condition.written, value)
    rows.conditions.append(condition)


def _match_rows(at: RelationPlace, message: pb.AsOfJoin | pb.NearestByJoin | pb.Zip) -> None:
    rows = at.domain.rows_above(at.relation, *at.inputs)
    join = at.relation
    if not isinstance(join, Join) or isinstance(message, pb.Zip):
        return
    (rule,) = join.conditions
    here = at.scope.over(at.inputs[0].beside(at.inputs[1]))
    values = [at.domain.resolver.value(one, here) for one in rule.operands]
    if isinstance(message, pb.NearestByJoin):
        decide_by(rows, Clause.JOIN, at.domain.words(*rule.operands), merge_values(values))
        return
    given = message.HasField("join_expr")
    nearest = values[1:] if given else values
    for side, below in zip((join.left, join.right), at.inputs, strict=True):
        if isinstance(side, Pass):
            nearest.append(_sum(at.domain, side.expressions, below, at.scope))
    words = f"AS OF {render(message.left_as_of)}, {render(message.right_as_of)}"
    decide_by(rows, Clause.JOIN, words, merge_values(nearest))
    if join.using:
        pairs = []
        for name in join.using:
            left, right = [_find(at.domain, name, side).value for side in at.inputs]
            pairs.append(KeyPair(name, left, right))
        rows.conditions.append(join_condition(pairs, of_left=False, of_right=False, natural=False))
    if given:
        at.domain.lay_condition(rows, Clause.JOIN, rule.operands[:1], here)


# Columns.


def _fill_na(at: RelationPlace, message: pb.NAFill) -> LineageColumns:
    values, names = message.values[:], message.cols[:]
    if not values:
        raise Unclear("a fill value is missing")
    changed: dict[int, Value] = {}
    for i, one in enumerate(_choose(at, names)):
        literal = values[i] if len(values) == len(names) and i < len(values) else values[0]
        if names or _fills(literal, one.value.type):
            written = f"coalesce({one.name}, {render(literal)})"
            changed[id(one)] = one.value.as_operand(TRANSFORMED, (written,))
    return _change(at.inputs[0], changed)


def _replace(at: RelationPlace, message: pb.NAReplace) -> LineageColumns:
    changed: dict[int, Value] = {}
    for one in _choose(at, message.cols):
        both = merge_values((one.value.as_operand(TRANSFORMED), one.value.as_operand(CHOOSING)))
        changed[id(one)] = replace(both, written=(f"replace({one.name})",))
    return _change(at.inputs[0], changed)


def _rename(at: RelationPlace, message: pb.WithColumnsRenamed) -> LineageColumns | None:
    """Return columns with those of relations whose columns are not known."""
    unlisted = [one for one in at.inputs[0].columns if one.value.unlisted]
    if not unlisted:
        return None
    names = [(one.col_name.lower(), one.new_col_name.lower()) for one in message.renames[:]]
    names += [(old.lower(), new.lower()) for old, new in sorted(message.rename_columns_map.items())]
    columns = [*at.found.columns]
    for old, new in names:
        if not any(one.name == new for one in columns):
            columns.append(RelationColumn(new, unlisted[0].value.unlisted[0](old)))
    return with_rows(RelationColumns(tuple(columns)), rows_of(at.inputs[0]))


def _name_parts(at: RelationPlace, message: pb.SubqueryAlias) -> LineageColumns | None:
    if not message.qualifier:
        return None
    parts = tuple([part.lower() for part in (*message.qualifier, message.alias)])
    return at.inputs[0].with_name(frozenset(parts[start:] for start in range(len(parts))))


def _join_structs(at: RelationPlace, message: pb.Join) -> LineageColumns | None:
    """Return each side as one struct, as `joinWith` does."""
    if not isinstance(at.relation, OpaqueRelation) or not isinstance(at.relation.inputs[0], Join):
        return None
    sides = [at.domain.relation(one, at.scope) for one in at.relation.inputs[0].inputs]
    columns = [
        RelationColumn(name, replace(_whole((side,)), written=(name,)))
        for name, side in zip(("_1", "_2"), sides, strict=True)
    ]
    return with_rows(RelationColumns(tuple(columns)), rows_of(at.inputs[0]))


def _unpivot(at: RelationPlace, message: pb.Unpivot) -> LineageColumns:
    """Keep the ids; the columns that are named, or all the others, become rows."""
    (below,), count = at.inputs, len(message.ids)
    ids = at.domain.resolver.list_columns(at.relation.expressions[:count], below, at.scope)
    if message.HasField("values"):
        named = at.domain.resolver.list_columns(at.relation.expressions[count:], below, at.scope).columns
    else:
        kept = {id(one.value) for one in ids.columns}
        named = tuple([one for one in _list_shown(below) if id(one.value) not in kept])
    value = merge_values(one.value for one in named)
    made = (
        RelationColumn(message.variable_column_name.lower(), NO_SOURCES),
        RelationColumn(message.value_column_name.lower(), value),
    )
    return with_rows(RelationColumns((*ids.columns, *made)), rows_of(below))


def _pivot(at: RelationPlace, message: pb.Aggregate) -> LineageColumns | None:
    """Group by the keys, and compute each aggregate for each value of the pivot's column."""
    if not message.HasField("pivot") or not isinstance(at.relation, Aggregate):
        return None
    (below,), here = at.inputs, at.scope.over(at.inputs[0])
    *_, chosen_by = at.relation.keys
    *_, made = at.relation.items
    count = len(at.relation.items) - 1
    grouping = RowCondition(Clause.GROUP_BY, at.domain.words(*at.relation.keys[:-1], keyword="GROUP BY"))
    at.domain.groups = RelationRows(groups=grouping)
    values = [at.domain.item(one, at.domain.resolver.value(one, here)) for one in made.operands]
    at.domain.groups = None
    chosen = at.domain.resolver.value(chosen_by, here)
    named = [
        one.name.lower() if isinstance(one, Alias) else at.domain.name_item(one, here)
        for one in made.operands
    ]
    aggregates = [(name, choose(value, chosen)) for name, value in zip(named, values, strict=True)]
    keys = at.found.columns[:count]
    rows = at.domain.rows_above(at.relation, below)
    group_by(rows, grouping, merge_values([*[one.value for one in keys], chosen]))
    names = [literal_name(literal) for literal in message.pivot.values[:]]
    if not names or None in names or not aggregates:
        whole = merge_values(value for _, value in aggregates)
        return with_rows(RelationColumns((*keys, stand_for_others(whole))), rows)
    columns = [
        RelationColumn((name or "") if len(aggregates) == 1 else f"{name}_{of}" if of else "", value)
        for name in names
        for of, value in aggregates
    ]
    return with_rows(RelationColumns((*keys, *columns)), rows)


def _describe(at: RelationPlace, message: pb.StatDescribe | pb.StatSummary) -> LineageColumns:
    names = message.cols[:] if isinstance(message, pb.StatDescribe) else ()
    chosen = _choose(at, names)
    if not names:
        chosen = [one for one in chosen if _has_statistics(one.value.type)]
    columns = [_aggregate(one, one.name, f"describe({one.name})") for one in chosen]
    return _of_columns([RelationColumn("summary", NO_SOURCES), *columns], at.inputs)


def _freq_items(at: RelationPlace, message: pb.StatFreqItems) -> LineageColumns:
    chosen = _choose(at, message.cols)
    return _of_columns(
        [_aggregate(one, f"{one.name}_freqitems", f"freqItems({one.name})") for one in chosen], at.inputs
    )


def _statistic(at: RelationPlace, message: pb.StatCov | pb.StatCorr) -> LineageColumns:
    name = "cov" if isinstance(message, pb.StatCov) else "corr"
    chosen = _choose(at, (message.col1, message.col2))
    both = merge_values((one.value for one in chosen), AGGREGATED)
    written = f"{name}({message.col1}, {message.col2})"
    return _of_columns([RelationColumn(name, replace(both, written=(written,)))], at.inputs)


def _quantile(at: RelationPlace, message: pb.StatApproxQuantile) -> LineageColumns:
    chosen = _choose(at, message.cols)
    written = f"approx_percentile({', '.join(message.cols[:])})"
    value = replace(merge_values((one.value for one in chosen), AGGREGATED), written=(written,))
    return _of_columns([RelationColumn("approx_quantile", value)], at.inputs)


def _crosstab(at: RelationPlace, message: pb.StatCrosstab) -> LineageColumns:
    first, second = [one.value for one in _choose(at, (message.col1, message.col2))]
    rows = at.domain.rows_above(at.relation, *at.inputs)
    grouping = RowCondition(Clause.GROUP_BY, f"{message.col1}, {message.col2}")
    group_by(rows, grouping, merge_values((first, second)))
    counts = replace(second.as_operand(CHOOSING, ("count(1)",)), rows=(RelationRows(groups=grouping),))
    name = f"{message.col1}_{message.col2}".lower()
    return with_rows(RelationColumns((RelationColumn(name, first), stand_for_others(counts))), rows)


# What is read.


def _read(at: RelationPlace, message: pb.Read) -> LineageColumns | None:
    if message.WhichOneof("read_type") != "data_source":
        return None
    return _of_stored(at.domain.read_files(message.data_source))


def _read_kept(at: RelationPlace, message: pb.CachedRemoteRelation) -> LineageColumns:
    return _of_stored(at.domain.read_kept(message.relation_id))


def _of_stored(stored: LineageColumns) -> LineageColumns:
    columns = stored.columns or (stand_for_others(NO_SOURCES),)
    return with_rows(RelationColumns(columns), rows_of(stored))


# The user's code.


def _code(at: RelationPlace, message: pb.MapPartitions) -> LineageColumns:
    return _run_code(at.domain, message.func, at.relation, at.inputs)


def _parse(at: RelationPlace, message: pb.Parse) -> LineageColumns:
    names = [item.name.lower() for item in message.schema.struct.fields]
    return _of_whole(names, _whole(at.inputs), rows_of(at.inputs[0]))


def _transpose(at: RelationPlace, message: pb.Transpose) -> LineageColumns:
    """Columns become rows: what the new ones are called stands in the rows."""
    index = _sum(at.domain, at.relation.expressions, at.inputs[0], at.scope)
    whole = merge_values((_whole(at.inputs), index))
    return _of_columns([RelationColumn("key", NO_SOURCES), stand_for_others(whole)], at.inputs)


def _group_map(at: RelationPlace, message: pb.GroupMap) -> LineageColumns:
    info = message.transform_with_state_info
    names = [item.name.lower() for item in info.output_schema.struct.fields]
    made = _run_code(at.domain, message.func, at.relation, at.inputs, names)
    by = _list_observed(at.relation.inputs[0])[: len(message.grouping_expressions)]
    values = [_sum(at.domain, by, at.inputs[0], at.scope)]
    if len(at.inputs) > 1:
        values.append(_sum(at.domain, _list_observed(at.relation.inputs[1]), at.inputs[1], at.scope))
    return _over_groups(at.domain, made, by, merge_values(values))


def _stateful(at: RelationPlace, message: pb.ApplyInPandasWithState) -> LineageColumns:
    made = _run_code(at.domain, message.func, at.relation, at.inputs, names_in(message.output_schema))
    by = at.relation.expressions
    return _over_groups(at.domain, made, by, _sum(at.domain, by, at.inputs[0], at.scope))


def _two_groups(at: RelationPlace, message: pb.CoGroupMap) -> LineageColumns:
    counts = (len(message.input_grouping_expressions), len(message.other_grouping_expressions))
    compared = merge_values(
        _sum(at.domain, _list_observed(side)[:count], below, at.scope)
        for side, count, below in zip(at.relation.inputs, counts, at.inputs, strict=True)
    )
    made = _run_code(at.domain, message.func, at.relation, at.inputs)
    rows = RelationRows(parents=[rows_of(made)])
    part = ConditionPart("cogroup", compared.dependencies, by_row=False)
    decide_by(rows, Clause.JOIN, "cogroup", compared, [part])
    return with_rows(made, rows)


def _table_code(at: RelationPlace, message: pb.CommonInlineUserDefinedTableFunction) -> LineageColumns:
    value = at.domain.sum_up(
        [(at.domain.resolver.value(one, at.scope), TRANSFORMED) for one in at.relation.expressions]
    )
    names = names_of_type(message.python_udtf.return_type)
    return _of_whole(names, value, RelationRows(parents=list(value.rows)))


# What they share.


def _list_shown(columns: LineageColumns) -> list[LineageColumn]:
    return [one for one in columns.columns if one.bare]


def _whole(inputs: _Inputs) -> Value:
    """Return all columns as one value."""
    return merge_values((one.value for side in inputs for one in _list_shown(side)), TRANSFORMED)


def _find(domain: MessageDomain, name: str, below: LineageColumns) -> LineageColumn:
    """Return the column that a string means outside of expressions: a name as it is, or a reference."""
    found = below.find_columns((name,))
    if len(found) == 1 and not found[0].value.unlisted:
        return found[0]
    return RelationColumn(name.lower(), domain.find_by_string(name, below))


def _choose(at: RelationPlace, names: Sequence[str]) -> list[LineageColumn]:
    """Return the columns of names, or all of them without any."""
    at.domain.seen |= {id(part) for one in at.relation.expressions for part in parts_of(one)}
    return [_find(at.domain, name, at.inputs[0]) for name in names[:]] if names else _list_shown(at.inputs[0])


def _sum(
    domain: MessageDomain, expressions: Sequence[Expression], below: LineageColumns, scope: LineageScope
) -> Value:
    here = scope.over(below)
    return domain.sum_up([(domain.resolver.value(one, here), TRANSFORMED) for one in expressions])


def _change(below: LineageColumns, changed: Mapping[int, Value]) -> LineageColumns:
    columns = [one._replace(value=changed.get(id(one), one.value)) for one in _list_shown(below)]
    return with_rows(RelationColumns(tuple(columns)), rows_of(below))


def _aggregate(column: LineageColumn, name: str, written: str) -> LineageColumn:
    return RelationColumn(name, column.value.as_operand(AGGREGATED, (written,)))


def _of_columns(columns: Iterable[LineageColumn], inputs: _Inputs) -> LineageColumns:
    return with_rows(RelationColumns(tuple(columns)), rows_of(inputs[0]))


def _of_whole(names: Sequence[str], value: Value, rows: RelationRows) -> LineageColumns:
    """Return a relation whose columns are each made of a value; without names they are not known."""
    columns = [RelationColumn(name, value) for name in names] or [stand_for_others(value)]
    return with_rows(RelationColumns(tuple(columns)), rows)


def _run_code(
    domain: MessageDomain,
    func: pb.CommonInlineUserDefinedFunction,
    relation: RelationNode,
    inputs: _Inputs,
    schema: Sequence[str] = (),
) -> LineageColumns:
    """Return what the user's code makes of rows: anything of anything."""
    names = list(schema) or names_of_type(func.python_udf.output_type)
    value = replace(_whole(inputs), written=(f"{func.function_name or 'function'}(…)",))
    return _of_whole(names, value, domain.rows_above(relation, *inputs))


def _over_groups(
    domain: MessageDomain, made: LineageColumns, by: Sequence[Expression], value: Value
) -> LineageColumns:
    if not by:
        return made
    rows = RelationRows(parents=[rows_of(made)])
    decide_by(rows, Clause.GROUP_BY, domain.words(*by), value)
    return with_rows(made, rows)


def _list_observed(relation: RelationNode) -> Sequence[Expression]:
    return relation.expressions if isinstance(relation, Pass) else ()


def _has_statistics(type_: str) -> bool:
    return not type_ or type_.split("(")[0].strip().lower() in _STATISTICS


def _fills(literal: pb.Expression.Literal, type_: str) -> bool:
    """Whether a value fills NULLs of a column: one of another type leaves it as it is."""
    if not type_:
        return True
    case = literal.WhichOneof("literal_type") or ""
    return type_.split("(")[0].lower() in _FILLS.get(case, _NUMBERS)


def names_of_type(message: pb.DataType) -> list[str]:
    """Return the names of a struct's fields, none where they are not known."""
    if message.WhichOneof("kind") == "struct":
        return [item.name.lower() for item in message.struct.fields]
    return names_in(message.unparsed.data_type_string) if message.HasField("unparsed") else []


_Decide = Callable[[RelationPlace, Message], None]
_Complete = Callable[[RelationPlace, Message], LineageColumns | None]
# Called with a message of their class only.
DECIDING: Final = cast(
    "Mapping[type, _Decide]",
    {
        pb.AsOfJoin: _match_rows,
        pb.Deduplicate: _deduplicate,
        pb.NADrop: _drop_na,
        pb.NearestByJoin: _match_rows,
        pb.StatSampleBy: _sample_by,
        pb.Zip: _match_rows,
    },
)
"""What decides on the rows of a relation, where its node does not say it."""
COMPLETING: Final = cast(
    "Mapping[type, _Complete]",
    {
        pb.Aggregate: _pivot,
        pb.ApplyInPandasWithState: _stateful,
        pb.CachedRemoteRelation: _read_kept,
        pb.CoGroupMap: _two_groups,
        pb.CommonInlineUserDefinedTableFunction: _table_code,
        pb.GroupMap: _group_map,
        pb.Join: _join_structs,
        pb.MapPartitions: _code,
        pb.NAFill: _fill_na,
        pb.NAReplace: _replace,
        pb.Parse: _parse,
        pb.Read: _read,
        pb.StatApproxQuantile: _quantile,
        pb.StatCorr: _statistic,
        pb.StatCov: _statistic,
        pb.StatCrosstab: _crosstab,
        pb.StatDescribe: _describe,
        pb.StatFreqItems: _freq_items,
        pb.StatSummary: _describe,
        pb.SubqueryAlias: _name_parts,
        pb.Transpose: _transpose,
        pb.Unpivot: _unpivot,
        pb.WithColumnsRenamed: _rename,
    },
)
"""The columns of a relation, where its node does not say them; None: it does."""
