"""What sqlglot reads in a statement, to be held against what Spark's parser reads.

Which columns a statement uses is found out from Spark's own tree (`gateway.algebra.usage`). sqlglot has a say
in it, but not the last one: a relation, a column or a star that it sees and that the tree does not have makes
the statement count as using every column. What a name means is looked up in one place, so names are what is
compared here: which there are, and which of them stand by themselves in a select list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from sqlglot import ErrorLevel, exp
from sqlglot.parser import logger as sqlglot_logger
from sqlglot.tokenizer_core import Token, TokenType

from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    Generate,
    Join,
    NamedColumn,
    Projection,
    RelationNode,
    Star,
    With,
)
from gateway.algebra.usage import LITERAL_FUNCTIONS, Parts, Unclear
from gateway.algebra.walking import nodes_of
from gateway.sql.pipes import (
    PIPE,
    PIPED,
    PipeOperator,
    Pipes,
    find_unused_prefix,
    parts_of_operator,
    starts_without_list,
    with_tables_selected,
)
from gateway.sql.tokens import SPARK, comma_items, split_at, tokens_of

_PIPED: Final = "piped"
MAX_LENGTH: Final = 65_536
"""Characters; above this sqlglot is not asked. A generated TPC-DS query has at most 10,000."""

# What it says ("contains unsupported syntax") is answered by silence; the log is not for statement text.
sqlglot_logger.disabled = True


@dataclass(frozen=True, slots=True)
class NamesRead:
    """The names of a statement, lower case, as one reader sees them."""

    relations: frozenset[Parts] = frozenset()
    columns: frozenset[Parts] = frozenset()
    computed: frozenset[Parts] = frozenset()
    """Those that stand elsewhere than by themselves in a select list."""
    stars: frozenset[Parts] = frozenset()
    """Their qualifiers."""

    def explain_missing(self, tree: NamesRead) -> str:
        """Return what is here that Spark's tree does not have, in words; empty if nothing is."""
        columns = (self.columns - tree.columns) | (self.computed - tree.computed)
        # What Spark's grammar has for a function is none of its columns.
        missing = {one for one in columns if one[1:] or one[0] not in LITERAL_FUNCTIONS}
        missing |= {(*parts, "*") for parts in self.stars - tree.stars} | (self.relations - tree.relations)
        return ", ".join(f"`{'.'.join(parts)}`" for parts in sorted(missing))


@dataclass(slots=True)
class _NamesFound:
    """Names that are being gathered."""

    relations: set[Parts] = field(default_factory=set)
    ctes: set[Parts] = field(default_factory=set)
    columns: set[Parts] = field(default_factory=set)
    computed: set[Parts] = field(default_factory=set)
    stars: set[Parts] = field(default_factory=set)

    def column(self, parts: Parts, *, plain: bool) -> None:
        self.columns.add(parts)
        if not plain:
            self.computed.add(parts)

    def freeze(self) -> NamesRead:
        return NamesRead(
            frozenset(self.relations - self.ctes),
            frozenset(self.columns),
            frozenset(self.computed),
            frozenset(self.stars),
        )


# Spark's tree.


def names_in_tree(tree: RelationNode, scans: Iterable[Parts]) -> NamesRead:
    """Return the names of a statement as Spark's parser has them; `scans` are the relations that it reads."""
    names = _NamesFound(relations=set(scans))
    plain: set[int] = set()
    for node in nodes_of(tree):
        match node:
            case Projection(items=items) | Aggregate(items=items):
                listed = [*items, *[one for item in items if isinstance(item, Star) for one in item.replaced]]
                plain |= {id(one.operand if isinstance(one, Alias) else one) for one in listed}
            case Join(using=using):
                for name in using:
                    names.column((name.lower(),), plain=False)
            case Generate(names=made):
                names.columns |= {(name.lower(),) for name in made}
            case NamedColumn(parts=parts):
                names.column(_fold(parts), plain=id(node) in plain)
            case Star(qualifier=qualifier):
                names.stars.add(_fold(qualifier))
            case With(definitions=definitions):
                names.ctes |= {(name.lower(),) for name, _ in definitions}
    return names.freeze()


def _fold(parts: Iterable[str]) -> Parts:
    return tuple([part.lower() for part in parts])


# sqlglot's tree.


def names_in_text(text: str, bare: frozenset[str]) -> NamesRead:
    """Return the names of a statement as sqlglot has them; raise Unclear where it cannot read it.

    `bare` are the functions that it may name without brackets, which sqlglot tells from columns.
    """
    if len(text) > MAX_LENGTH:
        raise Unclear(f"the statement has more than {MAX_LENGTH} characters")
    tokens = tokens_of(text)
    written = with_tables_selected(text, tokens)  # RULE (table-statement-all-columns)
    names = _SqlglotNames(bare)
    if PIPE in text:
        pipes = Pipes(find_unused_prefix(text))
        cut = pipes.cut(written)
        names.stands_in = frozenset({*pipes.operators, _PIPED})
        names.tree(_query_of(_parse(cut)))
        for operators in pipes.operators.values():
            names.add_pipe(operators)
    else:
        names.tree(_query_of(_parse_statement(written, tokens if written is text else tokens_of(written))))
    if PIPE in text or any(map(partial(starts_without_list, tokens), range(len(tokens)))):
        names.found.stars.discard(())  # what stands for `FROM t` and `TABLE t` has one
    return names.found.freeze()


@dataclass(slots=True)
class _SqlglotNames:
    """Gathers names from sqlglot's trees."""

    bare: frozenset[str]
    found: _NamesFound = field(default_factory=_NamesFound)
    stands_in: frozenset[str] = frozenset()
    """Names of what stands for piped queries, and for what an operator is applied to."""

    def add_pipe(self, operators: Sequence[str]) -> None:
        """Gather the names of a piped query."""
        self.tree(_query_of(_parse(operators[0])))
        for text in operators[1:]:
            for part in parts_of_operator(text):
                self._operator(PipeOperator.of(part), part)

    def _operator(self, operator: PipeOperator, text: str) -> None:
        match operator.word:
            case "SELECT":
                self.tree(_parse(text))
            case "EXTEND":
                self.tree(_parse(f"SELECT {operator.rest}"))
            case "SET":
                for item in comma_items(operator.rest):
                    _, value = split_at(item, TokenType.EQ)
                    if value is None:
                        raise Unclear("a SET without a value")
                    self.tree(_parse(f"SELECT {value}"))
            case "DROP" | "AS":
                return
            case "AGGREGATE":
                made, keys = split_at(operator.rest, TokenType.GROUP_BY)
                if made.strip():
                    self.tree(_parse(f"SELECT {made}"))
                for key in comma_items(keys) if keys is not None else ():
                    self.tree(_parse(f"SELECT {key}"), keys=True)
            case _:
                self.tree(_parse(f"{PIPED} {text}"))

    def tree(self, root: exp.Expr, *, keys: bool = False) -> None:
        """Gather the names of a tree; `keys`: what stands in its select list groups."""
        plain: set[int] = set()
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, exp.Hint | exp.DataType | exp.TableAlias):
                continue
            if isinstance(node, exp.Command):
                raise Unclear("sqlglot does not read a part of the statement")
            if isinstance(node, exp.CTE):
                self.found.ctes.add((_fold_identifier(node.args["alias"].this),))
            elif isinstance(node, exp.Select) and not keys:
                plain |= {id(_bare_item(item)) for item in node.expressions}
            if (star := _star_of(node)) is not None:
                self.found.stars.add(_qualifier_of(node))
                waiting += [one for one in star.iter_expressions() if not isinstance(one, exp.Column)]
            elif (parts := _parts_of(node)) is not None:
                self.found.column(parts, plain=id(node) in plain)
            elif (name := _bare_name(node, self.bare)) is not None:  # RULE (niladic-name-column)
                self.found.column((name,), plain=True)  # it may be a call, which is no reference to Spark
            elif isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
                continue  # count(*) counts rows
            else:
                if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
                    self._table(node)
                waiting += node.iter_expressions()

    def _table(self, table: exp.Table) -> None:
        parts = tuple([_fold_identifier(part) for part in table.parts])
        if not (len(parts) == 1 and parts[0] in self.stands_in):
            self.found.relations.add(parts)


def _bare_item(item: exp.Expr) -> exp.Expr:
    """Return what an item of a select list is, without its alias and brackets."""
    while isinstance(item, exp.Alias | exp.Paren):
        item = item.this
    return item


def _parse(text: str) -> exp.Expr:
    return _parse_statement(text, tokens_of(text))


def _parse_statement(text: str, tokens: Sequence[Token]) -> exp.Expr:
    """Return the tree of one statement without pipes; raise Unclear when sqlglot has none."""
    try:
        trees = SPARK.parser(error_level=ErrorLevel.IMMEDIATE).parse(list(tokens), text)
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 - on odd input sqlglot raises whatever its parsers run into
        raise Unclear(f"sqlglot cannot parse the statement ({type(error).__name__})") from None
    found = [tree for tree in trees if tree is not None]
    if len(found) != 1:
        raise Unclear(f"sqlglot reads {len(found)} statements")
    return found[0]


def _query_of(root: exp.Expr) -> exp.Expr:
    """Return the query that a statement is, or that an INSERT, CREATE … AS or CACHE … AS has."""
    match root:
        case exp.Query() | exp.Values():
            return root
        case exp.Insert(expression=exp.Query() | exp.Values()) | exp.Cache(expression=exp.Query()):
            return _with_outer_ctes(root)
        case exp.Create(kind="TABLE" | "VIEW", expression=exp.Query()):
            return _with_outer_ctes(root)
    raise Unclear(f"column analysis does not support {root.key.upper()} statements")


def _with_outer_ctes(root: exp.Expr) -> exp.Expr:
    """Return the query of a command; `WITH … INSERT … SELECT` has its WITH on the command."""
    query: exp.Expr = root.args["expression"]
    outer = root.args.get("with_")
    if isinstance(outer, exp.With):
        if isinstance(query.args.get("with_"), exp.With):
            raise Unclear("a WITH before and after INSERT")
        query.set("with_", outer)
    return query


def _fold_identifier(node: exp.Expr) -> str:
    if not isinstance(node, exp.Identifier):
        raise Unclear(f"a name is a {type(node).__name__}")
    return str(node.this).lower()


def _star_of(node: exp.Expr) -> exp.Star | None:
    """Return the star of `*` or `t.*`."""
    if isinstance(node, exp.Column):
        node = node.this
    return node if isinstance(node, exp.Star) else None


def _qualifier_of(node: exp.Expr) -> Parts:
    return tuple(_fold_identifier(part) for part in node.parts[:-1]) if isinstance(node, exp.Column) else ()


def _parts_of(node: exp.Expr) -> Parts | None:
    """Return the name parts of a column reference with its struct fields, or None for anything else."""
    fields: list[str] = []
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        fields.append(_fold_identifier(node.expression))
        node = node.this
    if not isinstance(node, exp.Column):
        return None
    return (*(_fold_identifier(part) for part in node.parts), *reversed(fields))


def _bare_name(node: exp.Expr, bare: Collection[str]) -> str | None:
    """Return the name that sqlglot takes for a function without brackets, one of `bare`.

    To Spark it is a column of that name first, wherever there is one, and the function where there is none.
    """
    name = _BARE.get(node.key, node.key) if bare and not node.args else ""
    return name if name in bare else None  # RULE (named-column-before-generated)


_BARE = {
    "currentuser": "current_user",
    "sessionuser": "session_user",
    "currentdate": "current_date",
    "currenttimestamp": "current_timestamp",
    "currenttime": "current_time",
    "currentdatabase": "current_database",
    "currentcatalog": "current_catalog",
    "currentschema": "current_schema",
    "currentrole": "current_role",
    "currenttimezone": "current_timezone",
    "localtime": "localtime",
    "localtimestamp": "localtimestamp",
}
