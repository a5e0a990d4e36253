"""Whose tables the files at a path are, where other Sparks may have tables there too."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.errors import BackendUnavailable
from gateway.model.catalog import TableName
from gateway.session.ports import TablePlaces

ELSEWHERE = "it has files of a table of another Spark"


class PlacesElsewhere:
    """Asks the other metastores: their tables have policies that this Spark knows nothing of."""

    def __init__(
        self, others: Callable[[], Iterable[TablePlaces]], missing: Callable[[], Iterable[str]]
    ) -> None:
        """`others`: one Spark of each other metastore; `missing`: Sparks that are expected and not there."""
        self._others = others
        self._missing = missing

    async def explain(self, url: str) -> str | None:
        """Return why nobody may use a path for files of another metastore's tables. Raises
        BackendUnavailable."""
        for places in self._others():  # RULE (path-of-another-metastore)
            elsewhere = await places.tables_at(url)
            if elsewhere:
                return elsewhere if isinstance(elsewhere, str) else ELSEWHERE
        if any(True for _ in self._missing()):  # RULE (path-of-missing-spark)
            raise BackendUnavailable("a Spark that may have tables at the path does not answer")
        return None


class PlacesOfSparks:
    """Places on one Spark, which those of others are no part of."""

    def __init__(self, own: TablePlaces, elsewhere: PlacesElsewhere) -> None:
        self._own = own
        self._elsewhere = elsewhere

    async def tables_at(self, url: str) -> tuple[TableName, ...] | str:
        """Return the tables of this Spark that have files there, or why nobody may use the path here. Raises
        BackendUnavailable."""
        found = await self._own.tables_at(url)
        return found if isinstance(found, str) else await self._elsewhere.explain(url) or found
