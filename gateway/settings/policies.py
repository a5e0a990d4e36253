"""What of the settings of policies stands by itself."""

from __future__ import annotations

from typing import Literal

from gateway.settings.section import Section


class UnmatchedSettings(Section):
    """What policies do whose names nothing has."""

    unmatched_columns: Literal["open", "closed"] = "open"
    """What becomes of a table of which a mask, a denial or a tag names a column that it does not have: as if
    that had not been said (`open`), or nobody reads it until the column is there or the policy names another
    (`closed`). Where a pattern says which tables are meant, it closes none."""
