"""What a user may see of a table, told by the policies alone: which columns, which rows, which masks.

Nothing of judging is used: not the parser, the guards or the texts of masks that go into statements.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.jobs.proof.masking import Mask, mask_of
from gateway.model.catalog import Table
from gateway.model.context import AccessContext
from gateway.model.policy import FilterItem, MaskItem, PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import DEFAULT_SERVICE, engine_for
from gateway.policy.sqltext import bind
from gateway.policy.transformers import FIXED, STANDARD, hive_masking


class NotTold(Exception):
    """A mask or filter that nothing here can make; the text says which, for counting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How the copy of a table is made for a user."""

    columns: tuple[str, ...]
    """Those that the user may select, in the table's order."""
    rows: str | None
    """The condition of its rows, over its own values; None: all."""
    masks: tuple[tuple[str, Mask], ...]
    """What stands in place of a column's values."""
    customs: tuple[tuple[str, str], ...]
    """The same as Spark SQL over the real values: masks that are texts of a policy."""
    digest: str
    """Equal for equal recipes of one table."""

    @property
    def hides(self) -> bool:
        return self.rows is not None or bool(self.masks or self.customs)


def recipe(policies: PolicySet, principal: Principal, table: Table, context: AccessContext) -> Recipe:
    """Return how the copy is made. Raises NotTold."""
    engine = engine_for(policies)
    name = table.name
    resource = Resource.table(name.catalog, name.database, name.table)
    resource = Resource(resource.elements, table.owner)
    columns, masks, customs, told = [], [], [], []

    def asked(what: Resource) -> AccessRequest:
        return AccessRequest(principal=principal, resource=what, access="select", context=context)

    for column in table.columns:
        of_column = resource.child("column", column.name)
        if not engine.decide(asked(of_column)).allowed:
            continue
        columns.append(column.name)
        found = engine.mask_answer(asked(of_column))
        if found is None or not isinstance(found.item, MaskItem) or found.item.mask_type == "MASK_NONE":
            continue
        kind, text = found.item.mask_type, found.item.value_expression
        if not found.certain:
            kind = "MASK_NULL"  # what cannot be told is never shown
        told.append((column.name, kind, text))
        if kind == "CUSTOM":
            names = {"col": _quoted(column.name), "colType": column.type, "type": column.type}
            bound = bind(text or "", found.facts, names)
            customs.append((column.name, f"TRY_CAST(({bound or 'NULL'}) AS {column.type})"))
            continue
        mask = mask_of(kind, column.type)
        if mask is None or _own_transformer(policies, name.catalog, kind):
            raise NotTold("it reads a mask of a type, or of a type of column, that is not made here")
        masks.append((column.name, mask))
    rows = _rows(policies, asked(resource))
    return Recipe(
        columns=tuple(columns),
        rows=rows,
        masks=tuple(masks),
        customs=tuple(customs),
        digest=repr((columns, rows, told)),
    )


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
    return "false" if bound is None else bound


def _own_transformer(policies: PolicySet, catalog: str, mask_type: str) -> bool:
    service = policies.services.get(policies.catalog_services.get(catalog, DEFAULT_SERVICE))
    texts = (
        ()
        if service is None
        else (o.transformer for o in service.definition.mask_types if o.name == mask_type)
    )
    return mask_type not in FIXED and any(
        text and hive_masking(text) != STANDARD[mask_type] for text in texts
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
