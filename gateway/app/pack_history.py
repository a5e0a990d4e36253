"""Keeps the texts of packs that come into force, for pages that show policies as they were."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from gateway.app.rule_files import RuleFiles
from gateway.database.asking import TROUBLE
from gateway.database.migrate import LazyPool
from gateway.database.pack_versions import save_pack_version

log = structlog.get_logger(__name__)


async def keep_pack_history(
    pool: LazyPool, gateway: str, texts: Callable[[], RuleFiles | None], every_s: float
) -> None:
    """Look at what is in force until cancelled, and keep each new state of it."""
    kept: RuleFiles | None = None
    told = False
    while True:
        files = texts()
        if files is not None and files is not kept:
            try:
                digest = await asyncio.to_thread(_digest_of, files)
                async with pool.acquire() as connection:
                    await save_pack_version(connection, gateway, digest, files.packs)
                kept, told = files, False
            except TROUBLE as error:
                # Tried again: it is needed by nobody but readers of the past.
                if not told:
                    log.warning("pack_history_not_kept", error=str(error) or type(error).__name__)
                told = True
        await asyncio.sleep(every_s)


def _digest_of(files: RuleFiles) -> str:
    return files.digest
