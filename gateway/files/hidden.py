"""Which files count, by their names alone: what Spark does not hide, and a source's pattern matches."""

from __future__ import annotations

import re
from collections.abc import Callable


def is_hidden(name: str) -> bool:
    """Say whether Spark hides a file or directory by its name."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Return what says whether a name matches a glob as Hadoop has them; every one does an empty one."""
    if not pattern:
        return lambda _: True
    written = {"*": ".*", "?": ".", "{": "(?:", "}": ")", ",": "|", "[": "[", "]": "]", "^": "^", "-": "-"}
    try:
        made = re.compile("".join(written.get(sign, re.escape(sign)) for sign in pattern))
    except re.error:
        return lambda _: True  # what Hadoop makes of it is told when a table is made
    return lambda name: made.fullmatch(name) is not None
