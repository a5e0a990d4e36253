"""The procedures that may be called: the rows that ship."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from gateway.app.rule_files import find_shipped_rules, read_texts
from gateway.model.procedures import Procedures
from gateway.policy.procedures import load_procedures
from gateway.policy.service_defs import load_service_defs

SERVICE = "spark"
"""Its access types are those that rows name."""


@functools.cache
def load_shipped_procedures() -> Procedures:
    """Return the rows of `rules/procedures`. Raises Faults with file and line."""
    return procedures(sorted((find_shipped_rules() / "procedures").glob("*.yaml")))


def procedures(files: Iterable[Path]) -> Procedures:
    """Return the rows of files. Raises Faults with file and line."""
    definitions = load_service_defs(read_texts([find_shipped_rules() / "service_defs" / f"{SERVICE}.yaml"]))
    accesses = frozenset(access.name for access in definitions[SERVICE].access_types)
    return load_procedures(read_texts(files), accesses)
