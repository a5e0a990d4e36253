"""Readers of sqlglot's syntax nodes that the walk shares; each raises Unclear at what it does not know."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlglot import ErrorLevel, exp
from sqlglot.tokenizer_core import Token

from gateway.algebra.usage import LITERAL_FUNCTIONS, Parts, Unclear
from gateway.sql.tokens import SPARK

NOT_UNDERSTOOD = "column analysis does not understand "

# What the walk reads of each kind of node. A node that says anything else silences column analysis, so
# a newer sqlglot cannot put columns where nobody looks.
ORDERING = ("sort", "order", "cluster", "distribute")
SELECT_PARTS = frozenset(
    {"with_", "expressions", "hint", "distinct", "from_", "joins", "laterals", "where", "group", "having",
     "qualify", "windows", "limit", "offset", *ORDERING}
)  # fmt: skip
SET_OPERATION_PARTS = frozenset({"with_", "this", "expression", "distinct", "limit", "offset", *ORDERING})
SUBQUERY_PARTS = frozenset(
    {"this", "alias", "with_", "sample", "pivots", "joins", "laterals", "limit", "offset", *ORDERING}
)
TABLE_PARTS = frozenset(
    {"this", "db", "catalog", "alias", "sample", "pivots", "joins", "laterals", "version", "when"}
)
JOIN_PARTS = frozenset({"this", "on", "using", "method", "side", "kind", "hint"})
VALUES_PARTS = frozenset({"expressions", "alias", "sample", "joins", "laterals"})
LATERAL_PARTS = frozenset({"this", "alias", "view", "outer", "ordinality"})
PIVOT_PARTS = frozenset(
    {"expressions", "fields", "alias", "unpivot", "columns", "include_nulls", "default_on_null",
     "value_columns_first", "identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming"}
)  # fmt: skip
LEAVES = (exp.Identifier, exp.Literal, exp.DataType, exp.Var, exp.Null, exp.Boolean, exp.Hint)


def parse_statement(text: str, tokens: Sequence[Token]) -> exp.Expr:
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


def query_of(root: exp.Expr) -> exp.Expr:
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


def reject_unread_parts(node: exp.Expr, known: frozenset[str]) -> None:
    """Raise Unclear when a node says something that the walk does not read."""
    for name, value in node.args.items():
        if value and name not in known:
            raise Unclear(f"{NOT_UNDERSTOOD}`{name.rstrip('_')}` of {type(node).__name__}")


def fold_identifier(node: exp.Expr) -> str:
    if not isinstance(node, exp.Identifier):
        raise Unclear(f"a name is a {type(node).__name__}")
    return str(node.this).lower()


def names_of(nodes: Iterable[exp.Expr] | None) -> list[str]:
    return [fold_identifier(node) for node in nodes or ()]


def star_of(node: exp.Expr) -> exp.Star | None:
    """Return the star of `*` or `t.*`."""
    if isinstance(node, exp.Column):
        node = node.this
    return node if isinstance(node, exp.Star) else None


def qualifier_of(node: exp.Expr) -> Parts:
    return tuple(fold_identifier(part) for part in node.parts[:-1]) if isinstance(node, exp.Column) else ()


def parts_of(node: exp.Expr) -> Parts | None:
    """Return the name parts of a column reference with its struct fields, or None for anything else."""
    fields: list[str] = []
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        fields.append(fold_identifier(node.expression))
        node = node.this
    if not isinstance(node, exp.Column):
        return None
    return (*(fold_identifier(part) for part in node.parts), *reversed(fields))


def is_star_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Select) and [type(e) for e in node.expressions] == [exp.Star]


def without_list(node: exp.Expr) -> exp.Expr:
    """Return the query of `EXISTS (SELECT * …)` without its star: EXISTS looks at rows only."""
    bare = exp.Select(**{k: v for k, v in node.args.items() if k != "expressions"})
    bare.set("expressions", [])
    return bare


def bare_in(columns: Iterable[Parts]) -> frozenset[str]:
    """Return the functions that a text names without brackets, of what Spark's parser takes for columns."""
    return frozenset(parts[0] for parts in columns if len(parts) == 1) & LITERAL_FUNCTIONS


def bare_name(node: exp.Expr, bare: Collection[str]) -> str | None:
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
