"""What engines that read Iceberg by themselves get of each mask and filter: an exact restriction, one that
shows less, or none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping

from gateway.model.decision import NO_POLICY, ColumnMask
from gateway.model.policy import FilterItem, MaskItem, PolicySet
from gateway.model.reading import Reading
from gateway.model.restrictions import FilterColumn, name_iceberg_type
from gateway.pipeline.table_checks import Tree, checks_of
from gateway.policy.facts import Facts
from gateway.policy.masks import mask_expression
from gateway.policy.sqltext import bind
from gateway.reader.port import ReaderPort
from gateway.rest.predicates import ANY_TYPE, NotServable, write_filter
from gateway.rest.restricting import Exactness, ServedMask, map_mask

_DESCRIBED_TYPES = ("string", "int", "bigint", "date", "timestamp", "decimal(9,2)", "double", "boolean")
"""Types of Spark's: those that masks tell apart, and some of the others."""
_SOMEBODY = "somebody"
_ORDER = (Exactness.EXACT, Exactness.STRICTER, Exactness.IMPOSSIBLE)


class _AnyColumn(Mapping[str, FilterColumn]):
    """Columns of any name, of a type that is not known."""

    def __getitem__(self, name: str) -> FilterColumn:
        return FilterColumn(1, ANY_TYPE)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __contains__(self, name: object) -> bool:
        return False


async def describe_served(policies: PolicySet, reader: ReaderPort, tree: Tree | None = None) -> list[str]:
    """Return a line for each mask and filter of policies, with its place: `exact`, `stricter` or
    `impossible`. With the tables of `tree`, one for each column, or table, of these that it is on, by its
    type; without them a filter is looked at without the types of its table's columns."""
    if tree is not None:
        return [line async for line in _describe_on_tables(policies, reader, tree)]
    found = []
    for policy in policies.policies():
        place = f"{policy.place}: " if policy.place is not None else ""
        told = [_describe_mask(mask) for mask in policy.masks]
        told += [await _describe_filter(one, reader) for one in policy.filters]
        found += [f"{place}policy `{policy.name}`: {one}" for one in told]
    return found


async def _describe_on_tables(policies: PolicySet, reader: ReaderPort, tree: Tree) -> AsyncIterator[str]:
    for check in checks_of(policies, tree):
        for item in check.items:
            place = item.place or check.place
            begin = f"{place}: {check.who}" if place is not None else check.who
            for table, columns in check.list_tables():
                if isinstance(item, FilterItem):
                    known = {
                        one.name.lower(): FilterColumn(at, name_iceberg_type(one.type))
                        for at, one in enumerate(table.columns, 1)
                    }
                    yield f"{begin}: {table.name}: {await _describe_filter(item, reader, known)}"
                    continue
                types = {one.name.lower(): one.type for one in table.columns}
                for column in dict.fromkeys(one for one in columns if one in types):
                    yield f"{begin}: {table.name}.{column}: {_describe_column(item, types[column])}"


def _describe_column(item: MaskItem, data_type: str) -> str:
    if item.mask_type == "MASK_NONE":
        return "exact: MASK_NONE needs no restriction"
    found = _map(item, data_type)
    return f"{found.exactness.value}: {item.mask_type} of {data_type} is {_name(found)}"


def _map(item: MaskItem, data_type: str) -> ServedMask:
    mask = ColumnMask(
        column="c",
        mask_type=item.mask_type,
        expression=_spell(item, data_type),
        policy=NO_POLICY,
        predicate=item.predicate,
    )
    return map_mask(mask, data_type, name_iceberg_type(data_type), required=False)


def _describe_mask(item: MaskItem) -> str:
    if item.mask_type == "MASK_NONE":
        return "exact: MASK_NONE needs no restriction"
    by_result: dict[ServedMask, list[str]] = {}
    for data_type in _DESCRIBED_TYPES:
        by_result.setdefault(_map(item, data_type), []).append(name_iceberg_type(data_type))
    worst = max((one.exactness for one in by_result), key=_ORDER.index)
    told = "; ".join(f"{_name(one)} for {_list_kinds(kinds)}" for one, kinds in by_result.items())
    return f"{worst.value}: {item.mask_type} is {told}"


def _spell(item: MaskItem, data_type: str) -> str:
    text = item.text or None
    found = mask_expression(
        item.mask_type, "c", data_type, custom=text, transformer=item.transformer, facts=Facts(user=_SOMEBODY)
    )
    return found or ""


def _name(one: ServedMask) -> str:
    if one.exactness is Exactness.IMPOSSIBLE:
        return f"nothing ({one.why})"
    return f"`{one.action}`" + (f" ({one.exactness.value}: {one.why})" if one.why else "")


def _list_kinds(kinds: list[str]) -> str:
    return "every type" if len(kinds) == len(_DESCRIBED_TYPES) else ", ".join(kinds)


async def _describe_filter(
    item: FilterItem, reader: ReaderPort, columns: Mapping[str, FilterColumn] | None = None
) -> str:
    text = bind(item.filter_expression, Facts(user=_SOMEBODY), {})
    if text is None:
        return "exact or impossible: the filter is known when it is known whom it is for"
    if not text.strip():
        return "exact: the filter is empty"
    reading = await reader.read_expression(text)
    if not isinstance(reading, Reading):
        return "impossible: the filter cannot be parsed"
    try:
        write_filter(reading, _AnyColumn() if columns is None else columns, _SOMEBODY)
    except NotServable as why:
        return f"impossible: {why}"
    if columns is not None:
        return "exact: the filter"
    return "exact: the filter, for columns of the types that its constants have"
