"""What a classification says for a tag, beside the decision on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


async def absorb_drift(connection: Any, proposals: Sequence[int]) -> None:
    """Have new classes of the same tag, which a later look at the column has told as drift, be what these
    proposals were decided on."""
    await connection.execute(
        "WITH found AS (DELETE FROM sluice.classification_drift d USING sluice.tag_proposal p"
        "  WHERE p.id = ANY($1::bigint[]) AND d.kind = 'new_class'"
        "  AND (d.catalog, d.database, d.table_name, d.column_name, d.tag)"
        "   = (p.catalog, p.database, p.table_name, p.column_name, p.tag)"
        "  RETURNING p.id, p.evidence AS known, d.rule, d.evidence),"
        " new AS (SELECT id, jsonb_agg(one) AS more FROM found, jsonb_array_elements(evidence) one"
        "  WHERE NOT known @> jsonb_build_array(jsonb_build_object('rule', rule)) GROUP BY id)"
        " UPDATE sluice.tag_proposal p SET evidence = evidence || more FROM new WHERE p.id = new.id",
        proposals,
    )
