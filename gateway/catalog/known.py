"""Facts about tables with their age, and the version under which they may be relied on.

INVARIANT (a version never contradicts itself): two snapshots of one version may differ in how much they know,
never in what they know. So a verdict that was kept under a version holds while a snapshot of it knows what
the verdict rests on: learning about one more table leaves it warm, and so does looking again at one that has
become old, unless it has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.model.catalog import CatalogSnapshot, Table, TableName, namespaces_of
from gateway.model.files import SESSION_CATALOG, FileSource
from gateway.model.metalakes import NONE_LISTED, ListedCatalogs


class _Fact(NamedTuple):
    table: Table | None
    """None: there is no such table."""
    fresh_until: float


class KnownTables:
    """What is known, by folded name; times are seconds of one monotonic clock, given by the caller.

    A fact that is no longer fresh is not shown any more, but remembered: the next look-up tells whether
    anything has changed.
    """

    def __init__(
        self,
        catalogs: Iterable[str],
        *,
        max_age_s: float,
        missing_age_s: float,
        max_names: int,
        sources: Sequence[FileSource] = (),
    ) -> None:
        self._sources = {source.name.lower(): source for source in sources}
        self._databases = frozenset(source.database.lower() for source in sources)
        self._own_catalogs = frozenset(catalog.lower() for catalog in catalogs)
        self._listed = NONE_LISTED
        self._max_age_s = max_age_s
        self._missing_age_s = missing_age_s
        self._max_names = max_names
        self._facts: dict[TableName, _Fact] = {}
        self._version = 1
        self._snapshot: CatalogSnapshot | None = None
        self._snapshot_until = 0.0

    def relist(self, listed: ListedCatalogs) -> frozenset[str]:
        """Take the catalogs that come and go as they are now; return those of which all is forgotten.

        The version rises: verdicts that were kept may rest on catalogs that are others now.
        """
        before, self._listed = self._listed, listed
        gone = frozenset(
            name for name, number in before.revisions.items() if listed.revisions.get(name) != number
        )
        self._facts = {name: fact for name, fact in self._facts.items() if name.catalog not in gone}
        self._version += 1
        self._snapshot = None
        return gone

    def is_fresh(self, name: TableName, now: float) -> bool:
        fact = self._facts.get(name.fold())
        return fact is not None and now < fact.fresh_until

    def outdate(self, names: Iterable[TableName], now: float) -> None:
        """Have tables looked up again before what is known of them counts."""
        for name in names:
            fact = self._facts.get(name.fold())
            if fact is not None:
                self._facts[name.fold()] = fact._replace(fresh_until=now)
        self._snapshot = None

    def is_of_files(self, name: TableName) -> bool:
        """Whether a table's database has nothing but tables of files."""
        folded = name.fold()
        return folded.catalog == SESSION_CATALOG and folded.database in self._databases

    def learn(self, name: TableName, table: Table | None, now: float) -> None:
        """Keep what a look-up has found; the version rises when it contradicts what was known."""
        folded = name.fold()
        known = self._facts.pop(folded, None)
        if known is not None and known.table != table:
            self._version += 1
        # Files that are no table yet become one when a user comes who may: each has to be looked up.
        missing_age_s = 0.0 if self.is_of_files(name) else self._missing_age_s
        age = missing_age_s if table is None else self._max_age_s
        self._facts[folded] = _Fact(table, now + age)
        if len(self._facts) > self._max_names:
            # A fact that is forgotten for good may change unnoticed: nothing kept under this version holds.
            del self._facts[next(iter(self._facts))]
            self._version += 1
        self._snapshot = None

    def forget(self, names: Iterable[TableName], databases: Iterable[tuple[str, str]]) -> None:
        """Drop what a statement has changed; the version rises when anything was known of it."""
        changed = {name.current.fold() for name in names}  # RULE (changed-functions-forgotten)
        gone = {name for name in self._facts if name.current in changed}
        dropped = {(catalog.lower(), database.lower()) for catalog, database in databases}
        gone |= {
            name
            for name in self._facts
            if any((name.catalog, above) in dropped for above in namespaces_of(name.database))
        }
        for name in gone:
            del self._facts[name]
        if gone:
            self._version += 1
            self._snapshot = None

    def forget_all(self) -> None:
        """Drop everything; the version rises."""
        self._facts.clear()
        self._version += 1
        self._snapshot = None

    def snapshot(self, now: float, needed: Iterable[TableName] = ()) -> CatalogSnapshot:
        """Return what is fresh, and the facts on `needed` whatever their age: they were just looked up."""
        folded = {name.fold() for name in needed}
        old = [n for n in folded if n in self._facts and now >= self._facts[n].fresh_until]
        if old or self._snapshot is None or now >= self._snapshot_until:
            shown = {n: f for n, f in self._facts.items() if now < f.fresh_until or n in folded}
            snapshot = CatalogSnapshot(
                version=self._version,
                catalogs=self._own_catalogs | self._listed.revisions.keys(),
                tables={n: f.table for n, f in shown.items() if f.table is not None},
                missing=frozenset(n for n, f in shown.items() if f.table is None),
                sources=self._sources,
                file_databases=self._databases,
                listed=self._listed,
            )
            if old:
                return snapshot
            self._snapshot = snapshot
            self._snapshot_until = min((f.fresh_until for f in shown.values()), default=float("inf"))
        return self._snapshot
