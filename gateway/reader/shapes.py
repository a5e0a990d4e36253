"""What of a recorded text the lexer is asked about, so that no literal of it stands in its shape.

Of a plan, the record has a rendering in Python, where a string may hold what closes one in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

from gateway.model.reading import NotRead

FingerprintOf = Callable[[str], Awaitable[str | NotRead]]
"""Takes the literals out of a text, by Spark's own lexer."""
_STRING = r'r?"""(?:(?!""").)*(?:"""|\Z)|"(?:[^"\\]|\\.)*(?:"|\\?\Z)|' + r"'(?:[^'\\]|\\.)*(?:'|\\?\Z)"
"""A string of a rendering, or what is there of one where the rendering was cut."""
_STRINGS = re.compile(_STRING, re.DOTALL)
_ONE_SQL_TEXT = re.compile(rf"spark\.sql\((?:{_STRING})\)", re.DOTALL)


def lex_statement(statement: str, *, is_rendering: bool, texts: Sequence[str] = ()) -> str:
    """Return the text that stands for a statement: of a plan that is nothing but an SQL text that, of other
    plans their rendering with empty strings."""
    if not is_rendering:
        return statement
    if len(texts) == 1 and _ONE_SQL_TEXT.fullmatch(statement):
        return texts[0]
    return _STRINGS.sub("''", statement)
