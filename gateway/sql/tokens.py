"""The tokens of a text as sqlglot has them, within bounds, and what is found by counting brackets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from gateway.algebra.usage import Unclear

MAX_DEPTH = 60
"""Open brackets. Compiled sqlglot knows no recursion limit: 10,000 nested queries end the process."""
MAX_TYPE_DEPTH = 6
"""Open brackets behind the name of a type. sqlglot first tries `DATE(…)` as a type and then as a call, so
each level doubles the time: 20 levels of DATE( take 15 s."""
MAX_ANGLE_DEPTH = 30
"""Open `<` of types: 9,000 nested ARRAY< take minutes."""

SPARK: Final = Spark()
_TYPE_TOKENS = frozenset(SPARK.parser_class.TYPE_TOKENS)
_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")
_ANGLES = frozenset({">", ">>", ">>>"})


def tokens_of(piece: str) -> list[Token]:
    """Return sqlglot's tokens; raise Unclear when it has none or they nest too deeply."""
    try:
        tokens = SPARK.tokenize(piece)
    except Exception as error:  # noqa: BLE001 - whatever the tokenizer runs into
        raise Unclear(f"sqlglot cannot read the statement ({type(error).__name__})") from None
    check_parser_limits(tokens)
    return list(tokens)


def check_parser_limits(tokens: Sequence[Token]) -> None:
    """Raise Unclear before sqlglot's parser recurses too deeply or backtracks too often."""
    brackets: list[bool] = []
    types = angles = 0
    after_type = False
    for token in tokens:
        text = token.text
        if text in _OPENING:
            brackets.append(after_type)
            types += after_type
            if len(brackets) > MAX_DEPTH or types > MAX_TYPE_DEPTH:
                raise Unclear("the statement is nested too deep for column analysis")
        elif text in _CLOSING:
            if brackets:
                types -= brackets.pop()
        elif text == "<" and after_type:
            angles += 1
            if angles > MAX_ANGLE_DEPTH:
                raise Unclear("a type is nested too deep for column analysis")
        elif text in _ANGLES:
            angles = max(0, angles - len(text))
        after_type = token.token_type in _TYPE_TOKENS


def comma_items(piece: str) -> list[str]:
    """Split a list at the commas outside of brackets."""
    items, depth, at = [], 0, 0
    for token in tokens_of(piece):
        depth += step(token)
        if depth == 0 and token.token_type is TokenType.COMMA:
            items.append(piece[at : token.start])
            at = token.end + 1
    return [*items, piece[at:]]


def split_at(piece: str, kind: TokenType) -> tuple[str, str | None]:
    """Return what stands before and behind the first token of a kind outside of brackets."""
    depth = 0
    for token in tokens_of(piece):
        depth += step(token)
        if depth == 0 and token.token_type is kind:
            return piece[: token.start], piece[token.end + 1 :]
    return piece, None


def step(token: Token) -> int:
    """Return by how much a token changes the depth of brackets."""
    if token.start != token.end:
        return 0
    return (token.text in _OPENING) - (token.text in _CLOSING)
