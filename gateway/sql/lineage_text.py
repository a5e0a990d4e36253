"""The text of a statement as the lineage walk parses it: queries cut out, relations put by number.

Where relations stand and which command writes where is Spark's reading. Each relation that Spark sees becomes
a name that stands for it, so sqlglot can neither take it for a keyword nor for something else; what it does
not find again is noticed. Pipes are cut into their operators, for sqlglot would give them other scopes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

from gateway.algebra.usage import Unclear
from gateway.model.reading import Reading, Relation, RelationForm, RelationRole, UnnamedColumn
from gateway.sql.pipes import PIPE, Pipes, find_unused_prefix
from gateway.sql.tokens import SPARK, check_parser_limits, step, tokens_of

MAX_LENGTH = 1_000_000
"""Characters. Lineage is made off the path of statements, in a process with a deadline."""

_COMPUTED_NAMES = frozenset({"PlanWithUnresolvedIdentifier", "ExpressionWithUnresolvedIdentifier"})
"""IDENTIFIER(…) around something else than a literal."""

_DATABRICKS = Databricks()
_KEYWORDS = frozenset(Spark.Tokenizer.KEYWORDS)
_QUOTES = frozenset("'\"`")
_QUERY_STARTS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"})


@dataclass(slots=True)
class Text:
    """A statement's text with names for its relations."""

    source: str
    relations: dict[str, Relation] = field(default_factory=dict)
    """By the name that stands for them."""
    columns: dict[str, UnnamedColumn] = field(default_factory=dict)
    """What Spark calls columns without an alias, by the alias that stands for it."""
    _edits: list[tuple[int, int, str]] = field(default_factory=list)
    _pipes: Pipes = field(default_factory=lambda: Pipes("r"))

    @classmethod
    def of(cls, source: str, reading: Reading, columns: Sequence[UnnamedColumn] = ()) -> Text:
        """Raise Unclear when a relation is not written literally, or the text is too long."""
        if len(source) > MAX_LENGTH:
            raise Unclear(f"the statement has more than {MAX_LENGTH} characters")
        if not _COMPUTED_NAMES.isdisjoint(reading.nodes | reading.expressions):
            raise Unclear("a name is not literal")
        text = cls(source, _pipes=Pipes(find_unused_prefix(source)))
        folded = source.lower()
        for relation in reading.relations:
            if relation.role is not RelationRole.CTE:
                text._stand_for(relation)
        for column in columns:
            alias = f"{text._pipes.prefix}_n{len(text.columns)}_"
            text.columns[alias] = column
            text._edits.append((column.span.end, column.span.end, f" AS {alias} "))
        if "recursion" in folded:
            text._erase_recursion_levels()
        text._quote_aliases(reading.subquery_aliases)
        text._edits.sort()
        return text

    def _quote_aliases(self, aliases: frozenset[str]) -> None:
        """Quote aliases of relations that are keywords to sqlglot and none to Spark: `UPDATE t set SET …`."""
        words = {alias.upper() for alias in aliases} & _KEYWORDS
        if not words:  # RULE (lineage-keyword-alias)
            return
        ends = {(r.suffix or r.span).end for r in self.relations.values() if r.span is not None}
        tokens = tokens_of(self.source)
        for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
            if token.text.upper() not in words or self.source[token.start] in _QUOTES:
                continue
            starts = "" if before is None else before.text.upper()
            behind = self.source[: before.start if starts == "AS" and before is not None else token.start]
            if len(behind.rstrip()) in ends or (after is not None and after.token_type is TokenType.DOT):
                self._edits.append((token.start, token.end + 1, f"`{token.text}`"))

    def _erase_recursion_levels(self) -> None:
        """Leave out `MAX RECURSION LEVEL n` of recursive queries, which sqlglot does not know."""
        tokens = tokens_of(self.source)
        for i in range(len(tokens) - 3):
            if [token.text.upper() for token in tokens[i : i + 3]] == ["MAX", "RECURSION", "LEVEL"]:
                self._edits.append((tokens[i].start, tokens[i + 3].end + 1, " "))

    def _stand_for(self, relation: Relation) -> None:
        if relation.span is None:
            if relation.holder == "CacheTableAsSelect":
                return
            raise Unclear(f"the relation `{'.'.join(relation.parts)}` is not a literal name")
        name = f"{self._pipes.prefix}_{len(self.relations)}_"
        self.relations[name] = relation
        span = relation.span
        if relation.form is RelationForm.TABLE_KEYWORD and relation.whole is not None:
            self._edits.append((relation.whole.start, relation.whole.end, f"SELECT * FROM {name}"))
            return
        self._edits.append((span.start, span.end, f" {name} "))
        if relation.suffix is not None:
            self._edits.append((relation.suffix.start, relation.suffix.end, " "))

    @property
    def pipes(self) -> Mapping[str, Sequence[str]]:
        """What stands for a piped query, and its operators; the first is the query that it begins with."""
        return self._pipes.operators

    def erase_words(self, *words: str) -> None:
        """Leave a run of keywords out, where it is first written."""
        tokens = tokens_of(self.source)
        for i in range(len(tokens) - len(words) + 1):
            run = tokens[i : i + len(words)]
            if all(token.text.upper() == word for token, word in zip(run, words, strict=True)):
                self._edits.append((run[0].start, run[-1].end + 1, " "))
                self._edits.sort()
                return

    def piece(self, start: int = 0, end: int | None = None) -> str:
        """Return a part of the text with what stands for its relations."""
        end = len(self.source) if end is None else end
        found: list[str] = []
        at = start
        for first, last, written in self._edits:
            if first >= at and last <= end:
                found += (self.source[at:first], written)
                at = last
        return "".join([*found, self.source[at:end]])

    def user_words(self, written: str) -> str:
        """Put the user's names back into a text that was made of this one."""
        if self._pipes.prefix + "_" not in written:
            return written
        for name, relation in self.relations.items():
            if name in written:
                shown = relation.span.of(self.source) if relation.span is not None else relation.parts[-1]
                written = written.replace(name, shown)
        for name in self.columns:
            if name in written:
                written = written.replace(f" AS {name}", "")
        for name, operators in self.pipes.items():
            if name in written:
                written = written.replace(
                    f"SELECT * FROM {name}", self.user_words(f" {PIPE} ".join(operators))
                )
        return written

    # ---------------------------------------------------------------- parsing

    def parse(self, piece: str) -> exp.Expr:
        """Return the tree of a piece; raise Unclear when sqlglot has none or it goes too deep."""
        return parse(self._pipes.cut(piece) if PIPE in piece else piece)


def parse(piece: str) -> exp.Expr:
    """Return the one tree of a text without pipes."""
    tokens = tokens_of(piece)
    trees: Sequence[exp.Expr | None]
    try:
        trees = SPARK.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, piece)
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 - on odd input sqlglot raises whatever its parsers run into
        trees = _parse_wider(piece, error)
    found = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
    if len(found) != 1:
        raise Unclear(f"sqlglot reads {len(found)} statements")
    return found[0]


def _parse_wider(piece: str, first: Exception) -> Sequence[exp.Expr | None]:
    """Try the dialect that has Spark's `variant:path` too."""
    try:
        tokens = _DATABRICKS.tokenize(piece)
        check_parser_limits(tokens)
        return _DATABRICKS.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, piece)
    except (RecursionError, Unclear):
        raise
    except Exception:  # noqa: BLE001 - as above
        raise Unclear(f"sqlglot cannot parse the statement ({type(first).__name__})") from None


def query_start(text: str, after: int) -> int:
    """Return where the query of `CREATE … AS query` begins, behind the name that ends at `after`.

    What stands between are clauses in brackets, words and strings; AS need not be written.
    """
    depth = 0
    for token in tokens_of(text):
        if token.start < after:
            continue
        word = token.text.upper()
        if depth == 0 and word in _QUERY_STARTS and text[token.start] not in "'\"`":
            return token.start
        change = step(token)
        if depth == 0 and change > 0 and _begins_query(text[token.end + 1 :]):
            return token.start
        depth += change
    raise Unclear("the query of the command was not found")


def _begins_query(rest: str) -> bool:
    words = rest.lstrip(" \t\r\n(").split(None, 1)
    return bool(words) and words[0].upper() in _QUERY_STARTS
