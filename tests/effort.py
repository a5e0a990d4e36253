"""How hard property tests try: as CI does, a tenth of that in `make quick`, twenty times as hard by night."""

from __future__ import annotations

import os

VARIABLE = "SLUICE_TEST_EFFORT"
EFFORT = float(os.environ.get(VARIABLE, "1"))
"""A multiple of what CI tries."""


def tries(number: int) -> int:
    """Return how many examples to try where CI tries `number`."""
    return max(5, round(number * EFFORT))
