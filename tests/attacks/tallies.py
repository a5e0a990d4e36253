"""What came of attacks: how they went, and what must not be."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from tests.attacks.clients import Kind

ConnectionLimiter = Literal["thrift", "connect"]


@dataclass(frozen=True)
class Finding:
    """Something that must not be."""

    what: str
    script: tuple[str, ...]
    endpoint: ConnectionLimiter
    detail: str

    def __str__(self) -> str:
        lines = "\n    ;; ".join(self.script)
        return f"{self.what} ({self.endpoint}):\n       {lines}\n    -> {self.detail[:1500]}"


@dataclass
class Tally:
    """How statements went, so that a gateway that refuses everything is seen."""

    kinds: Counter[Kind] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    shapes: dict[str, Counter[Kind]] = field(default_factory=dict)
    """Shape → how the attacks of the corpus on it went."""

    @property
    def answered(self) -> float:
        """The share of attacks that were answered."""
        return self.kinds["answered"] / max(1, self.kinds.total())

    def add(self, other: Tally) -> None:
        self.kinds.update(other.kinds)
        self.findings += other.findings
        for shape, kinds in other.shapes.items():
            self.shapes.setdefault(shape, Counter()).update(kinds)
