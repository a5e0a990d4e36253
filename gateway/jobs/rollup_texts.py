"""Takes the literals out of statements' texts, each text once, a few in memory at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from typing import Any

AT_ONCE = 200
LONGEST = 4_000
"""Characters of a fingerprint that are kept: what differs only behind them counts as one."""


async def write_fingerprints(
    texts: Any, directory: Path, fingerprint: Callable[[str], Awaitable[str | None]]
) -> int:
    """Write a Parquet file with the fingerprint of each text; return how many there are.

    `texts` has two columns, a digest and the text. A text that the parser does not look at has none.
    """
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema([("text_digest", pyarrow.string()), ("fingerprint", pyarrow.string())])
    rows, count = texts.toLocalIterator(), 0
    with parquet.ParquetWriter(directory / "fingerprints.parquet", schema) as writer:
        while True:
            batch = await asyncio.to_thread(lambda: list(islice(rows, AT_ONCE)))
            if not batch:
                return count
            found = await asyncio.gather(*(fingerprint(text) for _, text in batch))
            columns = {
                "text_digest": [digest for digest, _ in batch],
                "fingerprint": [None if one is None else one[:LONGEST] for one in found],
            }
            writer.write_table(pyarrow.table(columns, schema=schema))
            count += len(batch)
