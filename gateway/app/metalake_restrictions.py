"""What the policies of a Gravitino server hide of a table, as its catalog's restrictions: by the columns that
the table has, and by the user's name and groups as he has logged in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gateway.app.catalogs import SparkCatalogs
from gateway.app.restrictions import CatalogRestrictions, ask_catalogs
from gateway.catalog.gravitino_policies import (
    PolicyNotConvertible,
    PolicySubject,
    read_column_mask,
    read_row_filter,
)
from gateway.model.catalog import Table, TableName
from gateway.model.metalakes import MetalakeRestriction
from gateway.model.restrictions import (
    ColumnAction,
    FilterColumn,
    Fixed,
    Predicate,
    SchemaField,
    TableRestrictions,
    TableSchema,
    name_iceberg_type,
)
from gateway.session.restricted_catalog import RestrictionReader
from gateway.settings.models import Settings
from gateway.sources.metalakes import Metalakes


class MetalakeRestrictions:
    """See RestrictionSource. Nobody is asked: what counts is what the metalake's last poll brought."""

    def __init__(self, metalakes: Metalakes) -> None:
        self._metalakes = metalakes

    @property
    def catalogs(self) -> frozenset[str]:
        return frozenset(self._metalakes.list_restrictions())

    async def ask(
        self, reader: RestrictionReader, name: TableName, table: Table | None = None, *, anew: bool = False
    ) -> TableRestrictions:
        policies = self._metalakes.list_restrictions().get(name.catalog.lower(), ())
        return find_restrictions(policies, reader, name, table)


def find_restrictions(
    policies: Iterable[MetalakeRestriction], reader: RestrictionReader, name: TableName, table: Table | None
) -> TableRestrictions:
    """Return what policies hide of a table from somebody. `table`: as it is now; None where that is not
    known."""
    parts = (name.catalog, name.database, name.table)
    concerned = [one for one in policies if one.covers(parts) or one.list_columns(parts)]
    if not concerned:
        return TableRestrictions(catalog=name.catalog)
    try:
        if table is None:
            raise PolicyNotConvertible("they go by names of columns, and a version of it may have others")
        return _bind(concerned, reader, parts, table)
    except PolicyNotConvertible as why:
        names = ", ".join(f"`{one.name}`" for one in concerned[:3])
        return TableRestrictions(
            catalog=name.catalog, fault=f"policies of its metalake ({names}) are not enforced on it: {why}"
        )


def _bind(
    policies: Sequence[MetalakeRestriction], reader: RestrictionReader, parts: Sequence[str], table: Table
) -> TableRestrictions:
    fields = tuple(
        SchemaField(id=at, name=one.name, type=name_iceberg_type(one.type), required=False)
        for at, one in enumerate(table.columns, 1)
    )
    columns = {one.name: FilterColumn(one.id, str(one.type)) for one in fields}
    subject = PolicySubject(reader.user, reader.groups, columns)
    filters: dict[Predicate, None] = {}
    actions: dict[int, dict[str, None]] = {}
    for one in policies:
        if one.hides == "rows":
            filters[read_row_filter(one.expression).bind(subject)] = None
            continue
        action = read_column_mask(one.expression).bind(reader.user, reader.groups)
        for ident in _list_masked(one, parts, columns):
            actions.setdefault(ident, {})[action] = None
    filters.pop(Fixed(value=True), None)
    # RULE (metalake-conflict)
    if len(filters) > 1 or any(len(one) > 1 for one in actions.values()):
        raise PolicyNotConvertible("they contradict each other, which Gravitino refuses as well")
    return TableRestrictions(
        catalog=table.name.catalog,
        schemas=(TableSchema(id=0, fields=fields),),
        predicate=next(iter(filters), None),
        columns=tuple(
            ColumnAction(field_id=ident, action=action) for ident, (action,) in sorted(actions.items())
        ),
        by_names=True,
    )


def _list_masked(
    policy: MetalakeRestriction, parts: Sequence[str], columns: Mapping[str, FilterColumn]
) -> Collection[int]:
    if policy.covers(parts):
        return [one.id for one in columns.values()]
    by_lower = {name.lower(): one.id for name, one in columns.items()}
    named = [one.lower() for one in policy.list_columns(parts)]
    if len(by_lower) < len(columns) or not set(named) <= by_lower.keys():
        raise PolicyNotConvertible("a mask of a column that the table does not have")
    return [by_lower[one] for one in named]


class JoinedRestrictions:
    """See RestrictionSource: of catalogs that are asked, and of metalakes."""

    def __init__(self, asked: CatalogRestrictions, metalakes: Metalakes) -> None:
        self.asked = asked
        self._lakes = MetalakeRestrictions(metalakes)

    @property
    def catalogs(self) -> frozenset[str]:
        return self.asked.catalogs | self._lakes.catalogs

    async def ask(
        self, reader: RestrictionReader, name: TableName, table: Table | None = None, *, anew: bool = False
    ) -> TableRestrictions:
        here = await self._lakes.ask(reader, name, table)
        if name.catalog not in self.asked.catalogs:
            return here
        there = await self.asked.ask(reader, name, table, anew=anew)
        if not (here.restricts and there.restricts):
            return here if here.restricts else there
        fault = here.fault or there.fault or "both the catalog and its metalake restrict it"
        return TableRestrictions(catalog=name.catalog, fault=fault)  # RULE (metalake-and-catalog)

    async def aclose(self) -> None:
        """Stop asking, and close every connection."""
        await self.asked.aclose()


def make_restrictions(
    settings: Settings, catalogs: SparkCatalogs, metalakes: Metalakes | None = None
) -> CatalogRestrictions | JoinedRestrictions:
    """Return what asks the REST catalogs of the settings, and looks at the policies of metalakes."""
    asked = ask_catalogs(settings, catalogs)
    return asked if metalakes is None else JoinedRestrictions(asked, metalakes)
