"""Why the other side cannot be reached, for operators."""

from __future__ import annotations

import os

from gateway.errors import one_line


def reason_of(error: OSError) -> str:
    """Return a system's reason in its own words: asyncio says which call failed, and not why."""
    known = error.errno is not None and error.errno > 0 and type(error).__module__ == "builtins"
    return one_line(os.strerror(error.errno) if known and error.errno else error.strerror or str(error))
