"""What engines that read Iceberg by themselves get of each mask and filter: an exact restriction, one that
shows less, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.model.decision import NO_POLICY, ColumnMask
from gateway.model.policy import FilterItem, MaskItem, PolicySet
from gateway.model.reading import Reading
from gateway.policy.facts import Facts
from gateway.policy.masks import mask_expression
from gateway.policy.sqltext import bind
from gateway.reader.port import ReaderPort
from gateway.rest.predicates import ANY_TYPE, FilterColumn, NotServable, write_filter
from gateway.rest.restricting import Exactness, ServedMask, map_mask

_KINDS = {
    "string": "string",
    "int": "int",
    "bigint": "long",
    "date": "date",
    "timestamp": "timestamptz",
    "decimal(9,2)": "decimal(9,2)",
    "double": "double",
    "boolean": "boolean",
}
"""Types of Spark's → Iceberg's: those that masks tell apart, and some of the others."""
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


async def describe_served(policies: PolicySet, reader: ReaderPort) -> list[str]:
    """Return a line for each mask and filter of policies, with its place: `exact`, `stricter` or
    `impossible`. A filter is looked at without the types of its table's columns."""
    found = []
    for policy in policies.policies():
        place = f"{policy.place}: " if policy.place is not None else ""
        told = [_describe_mask(mask) for mask in policy.masks]
        told += [await _describe_filter(one, reader) for one in policy.filters]
        found += [f"{place}policy `{policy.name}`: {one}" for one in told]
    return found


def _describe_mask(item: MaskItem) -> str:
    if item.mask_type == "MASK_NONE":
        return "exact: MASK_NONE needs no restriction"
    by_result: dict[ServedMask, list[str]] = {}
    for data_type, kind in _KINDS.items():
        mask = ColumnMask(
            column="c",
            mask_type=item.mask_type,
            expression=_spell(item, data_type),
            policy=NO_POLICY,
            predicate=item.predicate,
        )
        by_result.setdefault(map_mask(mask, data_type, kind, required=False), []).append(kind)
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
    return "every type" if len(kinds) == len(_KINDS) else ", ".join(kinds)


async def _describe_filter(item: FilterItem, reader: ReaderPort) -> str:
    text = bind(item.filter_expression, Facts(user=_SOMEBODY), {})
    if text is None:
        return "exact or impossible: the filter is known when it is known whom it is for"
    if not text.strip():
        return "exact: the filter is empty"
    reading = await reader.read_expression(text)
    if not isinstance(reading, Reading):
        return "impossible: the filter cannot be parsed"
    try:
        write_filter(reading, _AnyColumn(), _SOMEBODY)
    except NotServable as why:
        return f"impossible: {why}"
    return "exact: the filter, for columns of the types that its constants have"
