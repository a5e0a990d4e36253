"""Piped queries in a text, cut into their operators: sqlglot would give those other scopes than Spark.

A name stands for each in what is left of the text. By Spark's grammar an operator ends where the next begins,
at the bracket that closes the query, or at what has the whole query before it: UNION and its like, ORDER BY
and its like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from gateway.algebra.usage import Unclear
from gateway.sql.tokens import step, tokens_of

PIPE: Final = "|>"
SET_OPERATORS: Final = frozenset({TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT})
_ORGANIZING: Final = frozenset(
    {TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY}
)
"""What orders all that stands before it."""
_LIMITS: Final = frozenset({TokenType.LIMIT, TokenType.OFFSET})
ORDERS: Final = _ORGANIZING | _LIMITS
"""What orders or bounds all that stands before it."""
PIPED: Final = "SELECT * FROM piped"
"""What an operator is put behind, to be parsed as the part of a query that it is."""
_COUNTS: Final = frozenset(
    {TokenType.NUMBER, TokenType.ALL, TokenType.L_PAREN, TokenType.PLACEHOLDER, TokenType.COLON}
)
"""What a number of rows begins with."""
_BEFORE_VALUE: Final = frozenset({TokenType.COMMA, TokenType.DOT, TokenType.SELECT, TokenType.WHERE})
_BEFORE_QUERY: Final = SET_OPERATORS | {
    TokenType.L_PAREN,
    TokenType.R_PAREN,
    TokenType.ALL,
    TokenType.DISTINCT,
    TokenType.ALIAS,
}
_NAMES: Final = frozenset({TokenType.VAR, TokenType.IDENTIFIER})


@dataclass(slots=True)
class _Level:
    """What stands between one pair of brackets."""

    operators: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    def cut(self, rest: str) -> None:
        self.operators.append("".join([*self.parts, rest]).strip())
        self.parts = []


@dataclass(slots=True)
class Pipes:
    """The piped queries of a text."""

    prefix: str
    """What their names begin with; no other name of the text does."""
    operators: dict[str, list[str]] = field(default_factory=dict)
    """What stands for a piped query, and its operators; the first is the query that it begins with."""

    def cut(self, piece: str, tokens: Sequence[Token] | None = None) -> str:
        """Let a name stand for every piped query of a piece, those within others first."""
        levels: list[_Level] = [_Level()]
        at = 0
        for token in tokens_of(piece) if tokens is None else tokens:
            level, depth = levels[-1], step(token)
            if token.token_type is TokenType.PIPE_GT:
                level.cut(piece[at : token.start])
                at = token.end + 1
            elif depth > 0:
                level.parts.append(piece[at : token.end + 1])
                at = token.end + 1
                levels.append(_Level())
            elif depth < 0 and len(levels) > 1:
                level.parts.append(piece[at : token.start])
                at = token.start
                levels.pop()
                levels[-1].parts.append(self._find_name(level))
        levels[-1].parts.append(piece[at:])
        if len(levels) != 1:
            raise Unclear("parentheses that sqlglot parses differently")
        return self._find_name(levels[0])

    def _find_name(self, level: _Level) -> str:
        last = "".join(level.parts)
        if not level.operators:
            return last
        name = f"{self.prefix}_p{len(self.operators)}_"
        self.operators[name] = [*level.operators, last.strip().rstrip(";")]
        return f"SELECT * FROM {name}"


def find_unused_prefix(text: str) -> str:
    """Return what no name in a text begins with."""
    prefix, folded = "r", text.lower()
    while prefix + "_" in folded:
        prefix += "r"
    return prefix


@dataclass(frozen=True, slots=True)
class PipeOperator:
    """What an operator begins with, and what stands behind that."""

    kind: TokenType
    word: str
    """In capitals."""
    rest: str

    @classmethod
    def of(cls, text: str) -> PipeOperator:
        """Raise Unclear where there is none."""
        tokens = tokens_of(text)
        if not tokens:
            raise Unclear("a pipe without an operator")
        return cls(tokens[0].token_type, tokens[0].text.upper(), text[tokens[0].end + 1 :])


def parts_of_operator(text: str) -> list[str]:
    """Return an operator, and what stands behind it and has all that is before it: UNION, ORDER BY and the
    like. They follow an operator as operators of their own would; what orders a SELECT stays with it, for
    it sees more than what is shown."""
    found, depth, at = [], 0, 0
    tokens = tokens_of(text)
    seen: set[TokenType] = set()
    for i, token in enumerate(tokens):
        depth += step(token)
        kind, before = token.token_type, tokens[i - 1].token_type if i else None
        if depth or (kind in _LIMITS and i and not _is_limit(tokens, i)):
            continue
        unites = kind in SET_OPERATORS and before is not TokenType.STAR  # * EXCEPT (…)
        organizes = kind in ORDERS
        selects = not at and tokens[0].token_type is TokenType.SELECT
        again = kind in seen or (kind in _ORGANIZING and not seen.isdisjoint(_LIMITS))
        if i and (unites or (organizes and (again or not (seen or selects)))):  # RULE (pipe-union-input)
            found.append(text[at : token.start])
            at = token.start
            seen.clear()
        if organizes:
            seen.add(kind)
    return [*found, text[at:]]


def _is_limit(tokens: Sequence[Token], i: int) -> bool:
    """Whether LIMIT or OFFSET is not the name of a column."""
    before, after = tokens[i - 1].token_type, tokens[i + 1].token_type if i + 1 < len(tokens) else None
    return before not in _BEFORE_VALUE and after in _COUNTS


def with_tables_selected(text: str, tokens: Sequence[Token]) -> str:
    """Return a text with `SELECT * FROM t` for `TABLE t`, which is the same and which sqlglot lacks."""
    found: list[str] = []
    at = 0
    for i, token in enumerate(tokens):
        after = tokens[i + 1].token_type if i + 1 < len(tokens) else None
        if token.token_type is TokenType.TABLE and starts_without_list(tokens, i) and after in _NAMES:
            found += (text[at : token.start], "SELECT * FROM")
            at = token.end + 1
    return "".join([*found, text[at:]]) if found else text


def starts_without_list(tokens: Sequence[Token], i: int) -> bool:
    """Whether a query starts at a token that has no select list: `FROM t`, `TABLE t`, VALUES."""
    if tokens[i].token_type not in (TokenType.FROM, TokenType.TABLE, TokenType.VALUES):
        return False
    before = tokens[i - 1].token_type if i else None
    inserts = tokens[0].token_type is TokenType.INSERT
    return before is None or before in _BEFORE_QUERY or (inserts and before in _NAMES)
