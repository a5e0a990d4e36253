"""What of the settings of policies stands by itself."""

from __future__ import annotations

from typing import Literal

from gateway.settings.section import Section


class UnmatchedSettings(Section):
    """What policies do whose names nothing has."""

    unmatched_columns: Literal["open", "closed"] = "open"
    """What happens to a table if a mask, a denial or a tag names a column that it lacks: nothing (`open`), or
    nobody reads it until the column exists or the policy names another (`closed`). With a pattern for tables,
    none is closed."""
