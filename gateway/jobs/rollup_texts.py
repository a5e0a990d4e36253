"""Takes the literals out of statements' texts, each text once, a few in memory at a time."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path
from typing import Any

from gateway.errors import BackendUnavailable
from gateway.model.reading import NotRead
from gateway.reader.shapes import FingerprintOf, lex_statement

AT_ONCE = 200
LONGEST = 4_000
"""Characters of a fingerprint that are kept: what differs only behind them counts as one."""
PAUSES_S = (1.0, 5.0, 25.0)
"""Seconds before a parser that did not answer is asked again: it may just start, or be busy."""
_EASY = "SELECT 1"
_NO_ANSWER = frozenset({"UNAVAILABLE", "TIMEOUT"})


async def write_fingerprints(texts: Any, directory: Path, fingerprint: FingerprintOf) -> int:
    """Write a Parquet file with the fingerprint of each text; return how many there are.

    `texts` is that of `rollup_frames.texts_of`. A text that the parser does not look at has none. Raises
    BackendUnavailable where the parser does not answer.
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
            found = await asyncio.gather(*(_find_asked_text(_lex(row), fingerprint) for row in batch))
            columns = {
                "text_digest": [row["text_digest"] for row in batch],
                "fingerprint": [None if one is None else one[:LONGEST] for one in found],
            }
            writer.write_table(pyarrow.table(columns, schema=schema))
            count += len(batch)


def _lex(row: Any) -> str:
    return lex_statement(row["statement"], is_rendering=row["is_plan"], texts=row["texts"] or ())


async def _find_asked_text(text: str, fingerprint: FingerprintOf) -> str | None:
    found = await fingerprint(text)
    for pause_s in PAUSES_S:
        if isinstance(found, str) or found.code not in _NO_ANSWER:
            break
        await asyncio.sleep(pause_s)
        found = await fingerprint(text)
    if isinstance(found, str):
        return found
    # Where it answers otherwise, it is this text that it does not get through.
    if found.code in _NO_ANSWER and isinstance(await fingerprint(_EASY), NotRead):
        raise BackendUnavailable(f"the shapes of statements cannot be computed: {found.message}")
    return None
