"""Catalogs of Iceberg and Paimon keep what a table is, in each session: ours is told to look again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.catalog.live import LiveCatalog
from gateway.model.catalog import TableName
from gateway.session.ports import BackendError

TABLE = TableName("lake", "shop", "t")


class Session:
    """Spark's session, which knows an old table until it is told to look again."""

    def __init__(self, provider: str, *, gone: bool = False) -> None:
        self._provider = provider
        self._columns = [] if gone else ["old"]

    async def query(self, sql: str) -> Sequence[Sequence[Any]]:
        if sql.endswith("AS JSON"):
            raise BackendError("[NOT_SUPPORTED]", "0A000")
        if sql.startswith("REFRESH TABLE"):
            self._columns = ["new"]
            return []
        if sql.startswith("DESCRIBE NAMESPACE"):
            raise BackendError("[SCHEMA_NOT_FOUND]", "42704")
        if not self._columns:
            raise BackendError("Failed to open input stream for file: /lake/t/v1.metadata.json", None)
        columns = [(name, "int", None) for name in self._columns]
        name = "shop.t" if self._provider == "paimon" else "lake.shop.t"
        details = [("Name", name, ""), ("Type", "MANAGED", ""), ("Provider", self._provider, "")]
        return [*columns, ("", "", ""), ("# Detailed Table Information", "", ""), *details]


async def columns_of(provider: str, *, gone: bool = False) -> list[str]:
    catalog = LiveCatalog(Session(provider, gone=gone).query, refusal=BackendError, catalogs=("lake",))
    table = (await catalog.look_up([TABLE])).table(TABLE)
    assert table is not None
    return [column.name for column in table.columns]


async def test_what_a_session_kept_of_a_table_is_not_believed() -> None:
    assert await columns_of("paimon") == ["new"]
    assert await columns_of("iceberg") == ["new"]
    assert await columns_of("other") == ["old"]


async def test_a_table_whose_old_files_are_gone_is_looked_up_once_more() -> None:
    """One that was dropped and made again elsewhere; a session that is asked keeps what it knows."""
    assert await columns_of("iceberg", gone=True) == ["new"]
