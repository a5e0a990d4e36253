"""What users may see of a table, told by the policies alone: which columns, which rows, which masks.

Nothing of judging is used: not the parser, the guards or the texts of masks that go into statements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.jobs.proof.masking import Mask, mask_of
from gateway.model.catalog import Column, Table, quote
from gateway.model.context import AccessContext
from gateway.model.policy import FilterItem, MaskItem, PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import engine_for
from gateway.policy.resource_names import service_of_catalog
from gateway.policy.sqltext import bind, write_string_literal
from gateway.policy.transformers import FIXED, STANDARD, hive_masking

_ASKS_WHO = re.compile(r"\b(?:current_user|session_user|user)\s*\(\s*\)", re.IGNORECASE)
_WHO = re.compile(r"\b(?:current_user|session_user)\b", re.IGNORECASE)


class Unprovable(Exception):
    """A mask or filter that nothing here can make; the text says which, for counting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How the copy of a table is made for those who read it."""

    columns: tuple[str, ...]
    """Columns that may be selected, in the table's order."""
    rows: str | None
    """The condition of its rows, over its own values; None: all."""
    masks: tuple[tuple[str, Mask], ...]
    """Masked values by column."""
    customs: tuple[tuple[str, str], ...]
    """The same as Spark SQL over the real values: masks that are texts of a policy."""
    hides: bool
    """Whether the copy shows anything else than the table."""
    digest: str
    """Equal for equal recipes of one table."""


def selectable(
    policies: PolicySet, principal: Principal, table: Table, context: AccessContext
) -> tuple[str, ...]:
    """Return the columns that somebody may select, in the table's order."""
    engine, asked = engine_for(policies), _build_asker(principal, table, context)
    return tuple(one.name for one in table.columns if engine.decide(asked(one.name)).allowed)


def recipe(
    policies: PolicySet,
    eyes: Sequence[Principal],
    accessors: Sequence[Principal],
    table: Table,
    context: AccessContext,
) -> Recipe:
    """Return how the copy is made: of the columns that all `accessors` may select, the rows that pass the
    filters of all `eyes`, under the masks of each; what several mask in different ways is NULL. Raises
    Unprovable."""
    shown = [set(selectable(policies, one, table, context)) for one in accessors]
    columns = tuple(one.name for one in table.columns if all(one.name in some for some in shown))
    masks, customs, told = [], [], []
    for column in table.columns:
        if column.name not in columns:
            continue
        of_eyes = [_find_mask(policies, one, table, column, context) for one in eyes]
        different = dict.fromkeys(one for one in of_eyes if one is not None)
        if not different:
            continue
        kind, text = next(iter(different)) if len(different) == 1 else ("MASK_NULL", "")
        told.append((column.name, kind, text))
        if kind == "CUSTOM":
            customs.append((column.name, f"TRY_CAST(({text}) AS {column.type})"))
            continue
        mask = mask_of(kind, column.type)
        if mask is None or _own_transformer(policies, table.name.catalog, kind):
            raise Unprovable("it reads a mask of a type, or of a column type, that a proof does not support")
        masks.append((column.name, mask))
    of_eyes_rows = [_rows(policies, _build_asker(one, table, context)(None)) for one in eyes]
    filters = list(dict.fromkeys(one for one in of_eyes_rows if one is not None))
    rows = filters[0] if len(filters) == 1 else " AND ".join(f"({one})" for one in filters) or None
    return Recipe(
        columns=columns,
        rows=rows,
        masks=tuple(masks),
        customs=tuple(customs),
        hides=rows is not None or bool(masks or customs) or len(columns) < len(table.columns),
        digest=repr((columns, rows, told)),
    )


def _build_asker(
    principal: Principal, table: Table, context: AccessContext
) -> Callable[[str | None], AccessRequest]:
    """Return what makes the question for select on the table, or on one of its columns."""
    name = table.name
    resource = Resource(Resource.table(name.catalog, name.database, name.table).elements, table.owner)

    def ask(column: str | None) -> AccessRequest:
        what = resource if column is None else resource.child("column", column)
        return AccessRequest(principal=principal, resource=what, access="select", context=context)

    return ask


def _find_mask(
    policies: PolicySet, principal: Principal, table: Table, column: Column, context: AccessContext
) -> tuple[str, str] | None:
    """Return the type of somebody's mask on a column, with its expression where it has its own."""
    found = engine_for(policies).mask_answer(_build_asker(principal, table, context)(column.name))
    if found is None or not isinstance(found.item, MaskItem) or found.item.mask_type == "MASK_NONE":
        return None
    if not found.certain:
        return "MASK_NULL", ""  # what cannot be told is never shown
    if found.item.mask_type != "CUSTOM" and not found.item.transformer:
        return found.item.mask_type, ""
    names = {"col": quote(column.name), "colType": column.type, "type": column.type}
    bound = bind(found.item.text, found.facts, names)
    return "CUSTOM", "NULL" if bound is None else _by_name(bound, principal)


def _rows(policies: PolicySet, request: AccessRequest) -> str | None:
    found = engine_for(policies).filter_answer(request)
    if found is None or not isinstance(found.item, FilterItem):
        return None
    if not found.certain:
        return "false"
    text = found.item.filter_expression
    if not text.strip():
        return None
    bound = bind(text, found.facts, {})
    return "false" if bound is None else _by_name(bound, request.principal)


def _by_name(text: str, principal: Principal) -> str:
    """Return a text of a policy that names whom it holds for, where it asks for the user: this Spark runs as
    somebody else. Raises Unprovable."""
    literal = write_string_literal(principal.user)
    if _WHO.search(_ASKS_WHO.sub("", text)) or (literal is None and _ASKS_WHO.search(text)):
        raise Unprovable("it reads a policy that depends on the user in a way that a proof cannot evaluate")
    return _ASKS_WHO.sub(lambda _: str(literal), text)


def _own_transformer(policies: PolicySet, catalog: str, mask_type: str) -> bool:
    service = policies.services.get(service_of_catalog(catalog, policies))
    texts = (
        ()
        if service is None
        else (o.transformer for o in service.definition.mask_types if o.name == mask_type)
    )
    return mask_type not in FIXED and any(
        text and hive_masking(text) != STANDARD[mask_type] for text in texts
    )
