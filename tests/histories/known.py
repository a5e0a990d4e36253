"""The histories of issue 9, written down: each fails when its mend is taken out (`mends.py`)."""

from __future__ import annotations

from pathlib import Path

WRITTEN = Path(__file__).parent / "written"


def written() -> dict[int, Path]:
    """Return item → its history."""
    return {int(file.name.split("-")[0]): file for file in sorted(WRITTEN.glob("*.jsonl"))}
