"""Policies that match nothing: counted by the tables that Spark has described, for `/metrics` and `/readyz`.

Nothing is asked for it: tables are described as statements name them. So what no table has been found for may
just not have been asked for yet; what a table lacks that a policy writes out is certain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.model.catalog import Table, TableName
from gateway.model.policy import PolicySet
from gateway.policy.unmatched import NamedResources, ResourceNames, names_in

log = structlog.get_logger(__name__)

MAX_TABLES = 50_000
"""Tables that are kept to hold policies against; more than that are not counted."""
MAX_PATTERNS = 1_000
"""Resources with patterns for tables, of one service, that each table is held against."""
MAX_NAMED = 5
"""Policies that `/readyz` names."""
PACE_S = 1.0
"""Seconds between rounds at least: a round checks what came since the last."""

_Key = tuple[str, str, int]


class UnmatchedPolicies(Collector):
    """Holds what policies name against tables as they are described."""

    def __init__(self, policies: Callable[[], PolicySet]) -> None:
        self._policies = policies
        self._tables: dict[TableName, Table] = {}
        self._came: dict[TableName, Table | None] = {}
        self._changed = asyncio.Event()
        self._names: ResourceNames | None = None
        self._lacking: dict[TableName, dict[_Key, tuple[NamedResources, str]]] = {}
        """Table → what policies name that write it out, and it lacks: one column of each policy."""
        self._waiting: dict[int, NamedResources] = {}
        """Resources that no table was found for, by identity."""
        self._unmatched: Mapping[_Key, tuple[NamedResources, str, TableName]] = {}
        self._nothing: frozenset[_Key] = frozenset()

    def learn(self, name: TableName, table: Table | None) -> None:
        """Take note of a table as Spark described it; None: there is none of that name."""
        if name.version or self._tables.get(name) == table:
            return
        self._came[name] = table
        self._changed.set()

    def policies_changed(self) -> None:
        """Look again, since other policies are in force."""
        self._changed.set()

    async def run(self) -> None:
        """Look at what changes, until cancelled."""
        while True:
            await self._changed.wait()
            await self.look()
            await asyncio.sleep(PACE_S)

    async def look(self) -> None:
        """Hold the policies in force against all tables that are known."""
        self._changed.clear()
        came, self._came = self._came, {}
        policies = self._policies()
        await asyncio.to_thread(self._look, policies, came)

    def _look(self, policies: PolicySet, came: Mapping[TableName, Table | None]) -> None:
        names = names_in(policies)
        for name, table in came.items():
            self._tables.pop(name, None)
            if table is not None and len(self._tables) < MAX_TABLES:
                self._tables[name] = table
        fresh: Mapping[TableName, Table | None] = came
        if names is not self._names:
            self._names, self._lacking = names, {}
            self._waiting = {id(one): one for _, service in names.services.values() for one in service.all()}
            fresh = dict(self._tables)
        for name, table in fresh.items():
            self._lacking.pop(name, None)
            if table is not None:
                self._hold(names, name, table)
        before = self._unmatched
        self._unmatched = {
            key: (*found, table) for table, lacks in self._lacking.items() for key, found in lacks.items()
        }
        self._nothing = frozenset(one.key for one in self._waiting.values())
        for key in self._unmatched.keys() - before.keys():
            one, column, lacking = self._unmatched[key]
            told = str(one.place) if one.place is not None else ""
            log.warning("policy_unmatched", policy=one.owner, column=column, table=str(lacking), place=told)

    def _hold(self, names: ResourceNames, name: TableName, table: Table) -> None:
        found = names.of(name)
        if found is None:
            return
        service, written = found
        columns = service.fold_columns(table.columns)
        lacks: dict[_Key, tuple[NamedResources, str]] = {}
        for one in written:
            lacking = [value.text for value in one.find_missing(columns)]
            if lacking:
                lacks.setdefault(one.key, (one, lacking[0]))
            self._note_found(one, lacking)
        if lacks:
            self._lacking[name] = lacks
        for one in service.patterns[:MAX_PATTERNS]:
            if id(one) in self._waiting and one.speaks_of(name):
                self._note_found(one, [value.text for value in one.find_missing(columns)])

    def _note_found(self, one: NamedResources, lacking: Sequence[str]) -> None:
        """Take note that a table of a policy was found; with none of its columns it is as good as none."""
        if not one.columns or len(lacking) < len(one.columns):
            self._waiting.pop(id(one), None)

    def collect(self) -> Iterator[Metric]:
        """Yield how many policies match nothing."""
        found = GaugeMetricFamily(
            "sluice_policies_unmatched",
            "Policies and tags that match nothing, by reason: column, a table lacks a column that they "
            "name; nothing, no known table matches",
            labels=["what"],
        )
        found.add_metric(["column"], len(self._unmatched))
        found.add_metric(["nothing"], len(self._nothing - self._unmatched.keys()))
        yield found

    async def report_trouble(self) -> str | None:
        """Say which policies name columns that their tables do not have; None: none does."""
        owners = [one.owner for one, _, _ in self._unmatched.values()]
        if not owners:
            return None
        more = f" and {len(owners) - MAX_NAMED} more" if len(owners) > MAX_NAMED else ""
        return f"{', '.join(owners[:MAX_NAMED])}{more}: named columns do not exist; see the log"
