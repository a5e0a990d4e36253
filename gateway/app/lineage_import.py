"""Makes ready to import lineage: the parts of `lineage/importing.py` as the settings have them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.app.explaining import catalog_without_sessions, make_reader
from gateway.app.metalakes import load_cached_metalakes
from gateway.app.openlineage import make_writer
from gateway.lineage.gathering import Gatherer
from gateway.lineage.importing import Importer, MadeTables
from gateway.lineage.openlineage.file import FileSink
from gateway.lineage.workers import LineageWorkers
from gateway.settings.models import Settings


@asynccontextmanager
async def importing(
    settings: Settings,
    connection: Any,
    *,
    tables: Path | None,
    processes: int,
    deadline_s: float,
    events: Path | None = None,
) -> AsyncIterator[Importer]:
    """Make ready to import, with the tables of a running Spark or of a file.

    `events`: a file that gets the statements as OpenLineage events. Raises Faults for a broken file,
    BackendUnavailable when Spark or the parser is not there.
    """
    async with (
        await make_reader(settings) as reader,
        LineageWorkers(processes, deadline_s=deadline_s) as workers,
        AsyncExitStack() as stack,
    ):
        metalakes, _ = await load_cached_metalakes(settings)
        catalog = await stack.enter_async_context(
            catalog_without_sessions(settings, reader, tables, metalakes)
        )
        made = MadeTables(catalog)
        sink = None
        if events is not None:
            writer = make_writer(
                settings.lineage.openlineage,
                tables=lambda name: catalog.snapshot.table(name),
                spark_version=reader.spark_version,
            )
            sink = await stack.enter_async_context(FileSink(events, writer))
        catalogs = frozenset(name.lower() for name in settings.policies.catalogs)
        catalogs |= catalog.snapshot.catalogs | metalakes.list_catalogs().revisions.keys()
        gatherer = Gatherer(reader=reader, look_up=made.look_up, catalogs=catalogs)
        yield Importer(gatherer, workers, made, connection, sink)
