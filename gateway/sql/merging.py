"""MERGE into a table of which the principal sees a part: what stands around its conditions.

INVARIANT (hidden is not there): ON holds for no hidden row, and what is done to rows that only the target has
is done to visible ones. Then MERGE does what it would do to a table without the hidden rows: it changes none,
it fails by none, and neither what it inserts nor how many rows it changes tells that there are any. A row of
the source whose key only hidden rows have is inserted, as INSERT would have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from gateway.algebra.usage import Unclear
from gateway.model.catalog import Table, quote
from gateway.model.reading import Reading, Span, Splice
from gateway.sql.checking import write_filter
from gateway.sql.required import Unsupported
from gateway.sql.restricting import PLACE, require_both, restrict_condition
from gateway.sql.tokens import step, tokens_of

MATCHED: Final = 0
NOT_MATCHED: Final = 1
BY_SOURCE: Final = 2
"""Rows of both sides, of the source alone, of the target alone: the order of Spark's lists of actions."""
_NOT_WRITTEN: Final = Unsupported("the clauses of MERGE could not be told apart; write it in a simpler form")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """A WHEN clause."""

    rows: int
    """`MATCHED`, `NOT_MATCHED` or `BY_SOURCE`."""
    and_: Token | None
    """The AND before its own condition, if it has one."""
    then: Token
    end: int
    """Where its action ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeText:
    """Where the parts of a MERGE are."""

    on: Token
    first_when: Token
    clauses: tuple[MergeClause, ...]

    @property
    def actions(self) -> tuple[MergeClause, ...]:
        """The clauses in the order of Spark's lists."""
        return tuple(sorted(self.clauses, key=lambda one: one.rows))


def qualify_filter(text: str, reading: Reading, table: Table, qualifier: str) -> str | Unsupported:
    """Return a row filter with its columns written as those of the target, where its source has columns too.

    `reading`: of the filter by itself.
    """
    found = write_filter(text, reading, table, lambda word: f"{qualifier}.{quote(word)}")
    if found is None:
        return Unsupported(
            f"the row filter of {table.name} reads other tables, or more than its columns, which MERGE cannot"
        )
    return found


def read_clauses(text: str) -> MergeText | Unsupported:
    """Return where the parts of a MERGE stand in its text; the proof says whether they do."""
    try:
        found = _Clauses(tokens_of(text)).read()
    except Unclear as why:
        return Unsupported(str(why))
    return found or _NOT_WRITTEN


class _Clauses:
    """The tokens of a MERGE outside of brackets and of CASE."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens: list[Token] = []
        depth = cases = 0
        for token in tokens:
            depth += step(token)
            cases += token.token_type is TokenType.CASE
            if not depth and not cases:
                self.tokens.append(token)
            cases -= cases > 0 and token.token_type is TokenType.END
        self.at = 0
        self.end = next(
            (one.start for one in self.tokens if one.token_type is TokenType.SEMICOLON), tokens[-1].end + 1
        )

    def _find(self, *words: str) -> Token | None:
        """Return the next token that is one of these words, and go behind it."""
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            if token.text.upper() in words and token.token_type is not TokenType.IDENTIFIER:
                return token
        return None

    def _take(self, word: str) -> bool:
        taken = self.at < len(self.tokens) and self.tokens[self.at].text.upper() == word
        self.at += taken
        return taken

    def read(self) -> MergeText | None:
        self._find("USING")
        on, when = self._find("ON"), self._find("WHEN")
        if on is None or when is None:
            return None
        first, clauses = when, []
        while when is not None:
            rows = NOT_MATCHED if self._take("NOT") else MATCHED
            if not self._take("MATCHED"):
                return None
            if self._take("BY"):
                rows = BY_SOURCE if self._take("SOURCE") else rows
                self.at += rows is not BY_SOURCE
            and_ = self.tokens[self.at - 1] if self._take("AND") else None
            then = self._find("THEN")
            if then is None:
                return None
            when = self._find("WHEN")
            end = self.end if when is None else when.start
            clauses.append(MergeClause(rows=rows, and_=and_, then=then, end=end))
        return MergeText(on=on, first_when=first, clauses=tuple(clauses))


def restrict_merge(
    merge: MergeText, rows: str, asked: Mapping[int, str], *, total: bool, bare: bool
) -> tuple[Splice, ...]:
    """Return what keeps a MERGE from rows of its target for which `rows` does not hold.

    `total`: its condition fails on no row, so that the two may be tried in any order: Spark joins by it.
    `asked`: conditions that actions, by their places, have beside their own.
    """
    place = f"`{PLACE}`"
    on = f"({rows}) AND ({place})" if total else restrict_condition(rows, place, bare=bare)
    found = [*_surround(on, 0, merge.on, merge.first_when)]
    for at, clause in enumerate(merge.actions, 1):
        own = "" if clause.and_ is None else place
        if at in asked:  # RULE (merge-checked-actions)
            own = require_both(own, asked[at])
        if clause.rows == BY_SOURCE:
            # RULE (merge-hidden-by-source)
            own = restrict_condition(rows, own, bare=bare) if own else f"({rows})"
        if own and own != place:
            found += _surround(own, at, clause.and_, clause.then)
    return tuple(found)


def _surround(query: str, at: int, before: Token | None, behind: Token) -> Iterator[Splice]:
    """Yield what puts a condition around the one between two tokens, or where there is none.

    Names and values in it are written by others.
    """
    parts, end = (PLACE, str(at)), Span(behind.start, behind.end + 1)
    if before is None:
        text = f"AND {query} {behind.text}"
        yield Splice(span=end, text=text, kind="condition", query=query, parts=parts)
        return
    head, _, tail = query.partition(f"`{PLACE}`")
    start, text = Span(before.start, before.end + 1), f"{before.text} {head}"
    yield Splice(span=start, text=text, kind="condition", query=query, parts=parts)
    # The line break keeps a comment at the end from swallowing the bracket.
    yield Splice(span=end, text=f"\n{tail} {behind.text}", kind="end")
