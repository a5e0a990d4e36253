"""How a table is partitioned, as the catalogs' interface writes it: `day`, `days(at)`, `bucket(16, id)`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TRANSFORM = re.compile(r"([A-Za-z_]+)\((?:(\d{1,9}), ?)?([^()]+)\)")


@dataclass(frozen=True, slots=True)
class Partitioning:
    """One expression by whose values a table is parted."""

    column: str
    transform: str = "identity"
    """In the singular: `year`, `month`, `day`, `hour`, `bucket`, `truncate`; Spark's plurals are read too."""
    width: int | None = None

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        width = "" if self.width is None else f"{self.width}, "
        return f"{self.transform}({width}{self.column})"


def parse_partitioning(text: str) -> Partitioning:
    """Read an expression; whether there is such a transform is for the catalog to say."""
    found = _TRANSFORM.fullmatch(text)
    if found is None:
        return Partitioning(text)
    transform, width, column = found.groups()
    singular = transform.lower()
    if singular in ("years", "months", "days", "hours"):
        singular = singular[:-1]
    return Partitioning(column, singular, int(width) if width else None)
