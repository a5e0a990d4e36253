"""Metrics of all workers of a gateway on one page: each worker's samples, labelled with its number.

Whichever worker is asked reads its siblings' over sockets in the directory that they share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

from prometheus_client import CollectorRegistry, generate_latest

from gateway.app.handed_connections import WorkerPlace

ANSWER_S = 2.0
"""Seconds that a sibling gets; a page without one is better than none."""
MAX_BYTES = 16 * 1024 * 1024
UP = "sluice_worker_up"
_PREFIX = "metrics-"


async def share_metrics(place: WorkerPlace, registry: CollectorRegistry) -> asyncio.Server:
    """Have a worker's metrics read by its siblings."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            writer.write(generate_latest(registry))
            writer.close()
            await writer.wait_closed()

    path = place.directory / f"{_PREFIX}{place.number}"
    path.unlink(missing_ok=True)
    return await asyncio.start_unix_server(answer, str(path))


async def merge_metrics(place: WorkerPlace) -> bytes:
    """Return the metrics of all workers."""
    names = sorted(path.name.removeprefix(_PREFIX) for path in place.directory.glob(f"{_PREFIX}*"))
    texts = dict(zip(names, await asyncio.gather(*(_read(place, name) for name in names)), strict=True))
    found = [(name, text) for name, text in texts.items() if text is not None]
    up = "".join(f'{UP}{{worker="{name}"}} {int(text is not None)}\n' for name, text in texts.items())
    head = f"# HELP {UP} Whether a worker of this gateway answers.\n# TYPE {UP} gauge\n{up}"
    return (head + merge_texts(found)).encode()


async def _read(place: WorkerPlace, name: str) -> str | None:
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_unix_connection(str(place.directory / f"{_PREFIX}{name}"))
            try:
                parts = []
                while part := await reader.read(1 << 16):
                    parts.append(part)
                    if len(parts) > MAX_BYTES >> 16:
                        return None
                return b"".join(parts).decode()
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, TimeoutError, UnicodeDecodeError):
        return None


def merge_texts(texts: Iterable[tuple[str, str]]) -> str:
    """Put pages of several workers together: a family's samples stand below its one HELP and TYPE."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for worker, text in texts:
        family = ""
        seen: set[str] = set()
        for line in text.splitlines():
            if line.startswith("#"):
                family = line.split(" ", 3)[2]
                if family not in heads or family in seen:
                    heads.setdefault(family, []).append(line)
                    seen.add(family)
            elif line:
                samples.setdefault(family, []).append(label_sample(line, worker))
    return "".join(f"{line}\n" for line in chain.from_iterable(_list_lines(heads, samples)))


def _list_lines(heads: dict[str, list[str]], samples: dict[str, list[str]]) -> Iterator[list[str]]:
    for family in dict.fromkeys((*heads, *samples)):
        yield heads.get(family, [])
        yield samples.get(family, [])


def label_sample(line: str, worker: str) -> str:
    """Add the label of a worker to a sample."""
    name, brace, rest = line.partition("{")
    if brace and " " not in name:
        return f'{name}{{worker="{worker}",{rest}'
    name, _, value = line.partition(" ")
    return f'{name}{{worker="{worker}"}} {value}'
