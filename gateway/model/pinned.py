"""Spark settings that the gateway pins in every upstream session, and that no client may change.

They shape how Spark reads text or resolves names. If Spark's session differed from the reader, a proof
would say nothing about what runs. Values are the defaults of Spark 4.3, which the reader parses with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PINNED_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.variable.substitute": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.relationPrecedence": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.legacy.setopsPrecedence.enabled": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.runSQLOnFiles": "false",
}

NEVER_SETTABLE_PREFIXES: Final = (
    "spark.sql.catalog.",
    "spark.sql.defaultcatalog",
    "spark.sql.extensions",
    "spark.sql.legacy.",
    "spark.sql.optimizer.excludedrules",
    "spark.sql.parser.",
    "spark.sql.path.",
    "spark.sql.redaction.",
    "spark.sql.thriftserver.",
    "spark.sql.variable.",
    "spark.hadoop.",
    "hive.server2.proxy.user",
)
"""Lower case. A policy that grants one of these is overruled."""

_PINNED_FOLDED: Final = frozenset(key.lower() for key in PINNED_SETTINGS)


def may_be_set(key: str) -> bool:
    """Whether a policy may let clients set the key at all."""
    folded = key.strip().lower()
    return folded not in _PINNED_FOLDED and not folded.startswith(NEVER_SETTABLE_PREFIXES)
