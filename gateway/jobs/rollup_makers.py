"""Finds the statements that made the temporary views and cached relations which other statements read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from gateway.jobs.events import land
from gateway.jobs.rollup_frames import LEVELS

_READS_SOME = r'"(temp_views|relations)": \{"'
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Makers:
    """The statements that made the tables read: noted batch by batch, then copied from the database."""

    def __init__(self) -> None:
        self._wanted: set[str] = set()
        self._found: set[str] = set()
        self.levels = 0
        """How often one made what another was made of."""

    def note(self, batch: Any) -> None:
        """Note what a batch of landed events was made by."""
        from pyarrow import compute

        self._found.update(one for one in batch.column("statement_id").to_pylist() if one in self._wanted)
        bodies = batch.column("body")
        for body in bodies.filter(compute.match_substring_regex(bodies, _READS_SOME)).to_pylist():
            self._wanted.update(_find_maker(body))

    @property
    def are_missing(self) -> bool:
        """Whether the database does not have all of them."""
        return bool(self._wanted - self._found)

    async def land(self, connection: Any, select: str, names: Sequence[str], directory: Path) -> int:
        """Copy them, and those of what they read, in the transaction; return how many there were."""
        asked: set[str] = set()
        rows = 0
        while self.levels < LEVELS and (new := self._wanted - asked):
            self.levels += 1
            asked |= new
            rows += await land(
                connection,
                f"SELECT {select} FROM sluice.audit_event WHERE kind = 'decided'"
                " AND statement_id = ANY ($1::uuid[])",
                (sorted(new),),
                directory,
                file=f"{self.levels}.parquet",
                names=names,
                each=self.note,
            )
        return rows


def _find_maker(body: str) -> Iterator[str]:
    lineage = orjson.loads(body).get("lineage") or {}
    for key in ("temp_views", "relations"):
        made = lineage.get(key)
        if isinstance(made, dict):
            yield from (one for one in made.values() if isinstance(one, str) and _ID.fullmatch(one))
