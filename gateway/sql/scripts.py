"""Scripts of several statements, cut at their semicolons. An advisor: Spark's parser reads each piece."""

from __future__ import annotations

from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

_SPARK = Spark()
_SCRIPTING = frozenset({"BEGIN", "DECLARE"})


def statements_of(script: str) -> list[str]:
    """Return the statements of a script, without their semicolons and without empty ones.

    A text that begins with BEGIN is SQL scripting, whose semicolons are its own: it stays whole, as does one
    that sqlglot has no tokens for.
    """
    try:
        tokens = _SPARK.tokenize(script)
    except Exception:  # noqa: BLE001 - whatever the tokenizer runs into; Spark's parser then says what is wrong
        return [script]
    if tokens and tokens[0].text.upper() in _SCRIPTING:
        return [script]
    pieces, at = [], 0
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            pieces.append(script[at : token.start])
            at = token.end + 1
    pieces.append(script[at:])
    return [piece.strip() for piece in pieces if _has_statement(piece)]


def _has_statement(piece: str) -> bool:
    return bool(piece.strip()) and bool(_SPARK.tokenize(piece))
