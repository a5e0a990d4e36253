"""What names of columns mean in each relation, as Spark's analyzer has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import pytest

from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    Aliases,
    Cast,
    ChangedColumns,
    ColumnAliases,
    ConditionClause,
    DroppedColumns,
    Expression,
    Filter,
    Generate,
    InlineTable,
    Join,
    JoinKind,
    Lambda,
    Literal,
    NamedCall,
    NamedColumn,
    NamedScan,
    OneRow,
    OpaqueExpression,
    OpaqueRelation,
    Operator,
    Pass,
    Passing,
    Projection,
    QueryKind,
    RelationNode,
    RenamedColumns,
    SetKind,
    SetOperation,
    Star,
    Subquery,
    SubqueryAlias,
    TableFunction,
    With,
    WithColumns,
)
from gateway.algebra.resolve import MAX_STEPS, RELATIONS, Resolver, TooMuch
from gateway.algebra.scope import (
    AmbiguousName,
    FoundField,
    FoundName,
    NameAnswer,
    NameScope,
    OpenName,
    RelationColumn,
    RelationColumns,
    UnknownName,
    of_groups,
    scope_of,
)
from gateway.algebra.usage import DECISIONS
from gateway.algebra.walking import queries_in
from gateway.model.reading import Span

TABLES = {"a": "id x", "b": "id y", "c": "x id y", "s": "id s"}
SPANS = {name: Span(at, at + 1) for at, name in enumerate(TABLES)}
CTE = Span(100, 101)
ON = Operator("EqualTo", (NamedColumn(("a", "id")), NamedColumn(("b", "id"))))


@dataclass
class Sources:
    """Each column's value: the stored columns that it is made of, as they are written."""

    tables: Mapping[Span, Sequence[str]]

    def scan(self, scan: NamedScan) -> Iterable[tuple[str, str]] | None:
        known = self.tables.get(scan.span) if scan.span is not None else None
        return None if known is None else [(name, f"{scan.parts[-1]}.{name}") for name in known]

    def column(self, column: NamedColumn, answer: NameAnswer[str], scope: NameScope[str]) -> str:
        match answer:
            case FoundName():
                around = "^" * answer.depth
                return (
                    around + answer.attribute.value + ("?" if answer.open or answer.attribute.guessed else "")
                )
            case AmbiguousName():
                return "ambiguous"
            case FoundField():
                return answer.attributes[0].value + "."
            case UnknownName():
                return "unknown"
            case OpenName():
                return f"open {answer.otherwise[0].value}" if answer.otherwise else "open"

    def compute(self, expression: Expression, operands: Sequence[str]) -> str:
        return operands[0] if isinstance(expression, Alias) else f"({' '.join(operands)})"

    def query(self, query: Subquery, scope: NameScope[str]) -> str:
        return str(self.resolver.relation(query.relation, scope).columns[0].value)

    def expand(
        self, star: Star, shown: Sequence[RelationColumn[str]], scope: NameScope[str]
    ) -> Sequence[RelationColumn[str]]:
        return shown

    def star(self, star: Star, shown: Sequence[RelationColumn[str]], scope: NameScope[str]) -> str:
        return f"*{' '.join([one.value for one in shown])}*"

    def variable(self) -> str:
        return "variable"

    def item(self, item: Expression, value: str) -> str:
        return value

    def merge(self, values: Sequence[str]) -> str:
        return "|".join(values)

    def decide(
        self, relation: RelationNode, inputs: Sequence[RelationColumns[str]], scope: NameScope[str]
    ) -> Sequence[RelationColumns[str]]:
        return inputs

    def __post_init__(self) -> None:
        self.resolver = Resolver(
            self, frozenset({CTE}), many=lambda call: call.parts == ("many",), recursion=True
        )


def sources() -> Sources:
    return Sources({SPANS[name]: columns.split() for name, columns in TABLES.items()})


def named(*parts: str) -> NamedColumn:
    return NamedColumn(parts)


def table(name: str) -> NamedScan:
    return NamedScan((name,), span=SPANS.get(name))


def columns(relation: RelationNode) -> RelationColumns[str]:
    return sources().resolver.relation(relation, NameScope())


def listed(relation: RelationNode) -> list[tuple[str, str]]:
    """What a star shows."""
    return [(one.name, one.value) for one in columns(relation).columns if one.bare]


def means(relation: RelationNode, name: str) -> str:
    """What a name is above a relation."""
    found = sources()
    above = found.resolver.relation(relation, NameScope())
    scope = scope_of(above)
    return found.column(NamedColumn(tuple(name.split("."))), scope.resolve(name.split(".")), scope)


def join(kind: JoinKind, *using: str, natural: bool = False) -> Join:
    return Join(table("a"), table("b"), kind, () if using or natural else (ON,), using, natural)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (JoinKind.INNER, "a.id"),
        (JoinKind.LEFT_OUTER, "a.id"),
        (JoinKind.RIGHT_OUTER, "b.id"),
        (JoinKind.FULL_OUTER, "a.id|b.id"),
    ],
)
@pytest.mark.parametrize("natural", [False, True])
def test_using_makes_one_column_of_two(kind: JoinKind, value: str, natural: bool) -> None:
    joined = join(kind, natural=True) if natural else join(kind, "ID")
    assert listed(joined) == [("id", value), ("x", "a.x"), ("y", "b.y")]
    assert means(joined, "a.id") == "a.id"
    assert means(joined, "b.id") == "b.id"
    # Behind an alias nothing but what a star shows is left.
    aliased = SubqueryAlias(joined, "J")
    assert means(aliased, "j.id") == value
    assert means(aliased, "b.id") == "unknown"


@pytest.mark.parametrize("kind", [JoinKind.LEFT_SEMI, JoinKind.LEFT_ANTI])
def test_a_semi_join_shows_the_left_side(kind: JoinKind) -> None:
    assert listed(join(kind)) == listed(join(kind, "id")) == [("id", "a.id"), ("x", "a.x")]
    assert means(join(kind), "y") == "unknown"


@pytest.mark.parametrize("kind", [JoinKind.LEFT_SEMI, JoinKind.INNER])
def test_the_keys_of_a_join_come_first(kind: JoinKind) -> None:
    joined = Join(table("c"), table("b"), kind, (), ("ID",))
    assert [name for name, _ in listed(joined)][:3] == ["id", "x", "y"]
    shown = listed(Projection(joined, (Star(("c",)),)))
    assert [value for _, value in shown] == ["c.id", "c.x", "c.y"]


def test_natural_takes_the_names_in_the_left_order() -> None:
    joined = Join(table("c"), table("b"), JoinKind.FULL_OUTER, natural=True)
    assert listed(joined) == [("id", "c.id|b.id"), ("y", "c.y|b.y"), ("x", "c.x")]
    # With no name in common, it is a cross join.
    one = Projection(table("a"), (named("x"),))
    assert listed(Join(one, table("b"), JoinKind.INNER, natural=True)) == [
        ("x", "a.x"),
        ("id", "b.id"),
        ("y", "b.y"),
    ]
    # Which names there are is not known.
    joined = Join(table("a"), table("z"), JoinKind.INNER, natural=True)
    assert means(joined, "x") == "open"


def test_a_name_of_both_sides_is_ambiguous() -> None:
    joined = join(JoinKind.INNER)
    assert means(joined, "id") == "ambiguous"
    assert means(joined, "y") == "b.y"
    assert means(joined, "q") == "unknown"


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT_SEMI])
def test_using_takes_the_first_of_several_columns(kind: JoinKind) -> None:
    again = Join(join(JoinKind.INNER), table("c"), kind, (), ("id",))
    assert listed(again)[0] == ("id", "a.id")
    # The other one keeps its name.
    assert means(again, "id") == "ambiguous"
    assert means(again, "b.id") == "b.id"
    assert means(again, "y") == ("ambiguous" if kind is JoinKind.INNER else "b.y")


def test_what_is_not_known_may_have_any_name() -> None:
    joined = Join(table("a"), table("z"), JoinKind.CROSS)
    assert means(joined, "x") == "a.x?"
    assert means(joined, "q") == "open"
    assert means(OpaqueRelation((table("a"),), ()), "x") == "open"
    assert means(Projection(table("z"), (Star(),)), "q") == "open"
    assert means(Projection(table("z"), (named("q"),)), "q") == "open"


def test_lateral_names_come_behind_columns_and_before_queries_around() -> None:
    items = (
        Alias("n", named("id")),
        Alias("id", named("x")),
        Alias("m", named("N")),
        Alias("k", named("id")),
    )
    made = Projection(table("a"), items)
    assert listed(made) == [("n", "a.id"), ("id", "a.x"), ("m", "a.id"), ("k", "a.id")]
    # An item further to the right is none.
    early = Projection(table("a"), (Alias("m", named("n")), Alias("n", named("id"))))
    assert listed(early) == [("m", "unknown"), ("n", "a.id")]
    # Two of one name: which is meant, Spark does not say.
    both = Projection(table("a"), (Alias("n", named("id")), Alias("n", named("x")), named("n")))
    assert listed(both)[-1] == ("n", "ambiguous")
    # `y` is the list's own before it is that of `b` around; `q` of neither.
    inner = Projection(table("a"), (Alias("y", named("x")), Alias("w", named("y"))))
    wanted = Projection(inner, (named("w"),))
    query = Projection(table("b"), (Alias("v", Subquery(QueryKind.SCALAR, wanted)),))
    assert listed(query) == [("v", "a.x")]


def test_a_name_that_a_subquery_lacks_is_of_the_query_around() -> None:
    inner = Projection(
        table("a"),
        (Alias("v", NamedCall(("f",), (named("x"), named("y"), named("q")))),),
    )
    query = Projection(table("b"), (Alias("v", Subquery(QueryKind.SCALAR, inner)),))
    assert listed(query) == [("v", "(a.x ^b.y unknown)")]
    # What is read within may have it.
    inner = Projection(table("z"), (Alias("v", named("y")),))
    query = Projection(table("b"), (Alias("v", Subquery(QueryKind.EXISTS, inner)),))
    assert listed(query) == [("v", "open b.y")]


def test_generators_add_their_columns() -> None:
    view = Generate(table("a"), NamedCall(("explode",), (named("x"),)), ("E",), "t")
    assert listed(view) == [("id", "a.id"), ("x", "a.x"), ("e", "(a.x)")]
    assert means(view, "t.e") == "(a.x)"
    assert means(view, "t.x") == "unknown"
    assert means(Generate(view, NamedCall(("explode",), (named("e"),)), ("f",), "u"), "f") == "((a.x))"
    # Of a name that both have, neither is meant.
    assert means(Generate(table("a"), NamedCall(("explode",), ()), ("x",), "t"), "x") == "ambiguous"
    # Spark names them by what is generated.
    assert means(Generate(table("a"), NamedCall(("explode",), ()), (), "t"), "x") == "a.x?"
    assert means(Generate(table("a"), NamedCall(("explode",), ()), (), "t"), "col") == "open"


@pytest.mark.parametrize("kind", SetKind)
def test_set_operations_by_place(kind: SetKind) -> None:
    made = SetOperation(kind, (table("a"), table("b")))
    both = [("id", "a.id|b.id"), ("x", "a.x|b.y")]
    assert listed(made) == (both if kind is SetKind.UNION else [("id", "a.id"), ("x", "a.x")])
    assert means(made, "a.id") == "unknown"
    # Of another width, Spark refuses it.
    assert means(SetOperation(kind, (table("a"), table("c"))), "q") == "open"
    assert means(SetOperation(kind, (table("a"), table("z"))), "q") == "open"


def test_set_operations_by_name() -> None:
    turned = Projection(table("c"), (named("y"), named("id")))
    made = SetOperation(SetKind.UNION, (table("b"), turned), by_name=True)
    assert listed(made) == [("id", "b.id|c.id"), ("y", "b.y|c.y")]
    sides = (table("a"), table("b"))
    assert means(SetOperation(SetKind.UNION, sides, by_name=True), "q") == "open"
    missing = SetOperation(SetKind.UNION, sides, by_name=True, missing=True)
    assert listed(missing) == [("id", "a.id|b.id"), ("x", "a.x"), ("y", "b.y")]
    assert means(missing, "q") == "unknown"


def test_common_table_expressions() -> None:
    reference = NamedScan(("K",), span=CTE)
    made = With(reference, (("k", SubqueryAlias(join(JoinKind.LEFT_OUTER, "id"), "k")),))
    assert means(made, "k.id") == "a.id"
    assert means(made, "b.id") == "unknown"
    # One that reads itself, and one of another WITH of the same name.
    assert means(With(reference, (("k", reference),)), "id") == "open"
    within = With(Projection(reference, (Star(),)), (("k", table("b")),))
    assert listed(With(within, (("k", table("a")),))) == [("id", "b.id"), ("y", "b.y")]
    # Its own name is that of the one around, unless it may read itself.
    for recursive, meant in ((False, "a.x"), (True, "open")):
        hiding = With(reference, (("k", Projection(reference, (named("x"),))),), recursive)
        assert means(With(hiding, (("k", table("a")),)), "x") == meant


def test_names_for_columns_by_their_places() -> None:
    made = SubqueryAlias(ColumnAliases(table("a"), ("N", "m")), "t")
    assert listed(made) == [("n", "a.id"), ("m", "a.x")]
    assert means(made, "t.m") == "a.x"
    assert means(made, "x") == "unknown"
    assert means(ColumnAliases(table("a"), ("n",)), "n") == "open"
    assert means(ColumnAliases(table("z"), ("n",)), "n") == "open"
    # Where columns are left out, places say nothing.
    resolver = Resolver(sources(), frozenset(), only=frozenset({"x"}))
    assert resolver.relation(ColumnAliases(table("a"), ("n",)), NameScope()).open


def test_names_that_spark_gives() -> None:
    cast = Cast(named("a", "id"), "int", tried=True)
    made = Projection(table("a"), (cast, Literal("string", "X"), Literal("void")))
    assert [(one.name, one.guessed) for one in columns(made).columns] == [
        ("id", True),
        ("x", True),
        ("null", True),
    ]
    assert means(made, "id") == "(a.id)?"
    assert means(made, "q") == "open"
    assert [one.name for one in columns(Projection(table("a"), (NamedCall(("f",), ()),))).columns] == [""]


def test_what_a_star_shows() -> None:
    joined = join(JoinKind.LEFT_OUTER, "id")
    assert listed(Projection(joined, (Star(("b",)), Star()))) == [
        ("id", "b.id"),
        ("y", "b.y"),
        ("id", "a.id"),
        ("x", "a.x"),
        ("y", "b.y"),
    ]
    # The fields of a column.
    assert columns(Projection(table("s"), (Star(("s", "s")),))).open
    assert means(Projection(table("a"), (Star(),)), "a.id") == "a.id"
    assert means(SubqueryAlias(Projection(table("a"), (Star(),)), "t"), "a.id") == "unknown"
    assert listed(Projection(table("a"), (Star(excluded=(("id",),)),))) == [("x", "a.x")]
    both = Projection(join(JoinKind.INNER), (Star(excluded=(("b", "id"), ("x",))),))
    assert listed(both) == [("id", "a.id"), ("y", "b.y")]
    within = Projection(table("a"), (Alias("n", NamedCall(("struct",), (Star(("a",)),))),))
    assert listed(within) == [("n", "(*a.id a.x*)")]


def test_fields_of_columns() -> None:
    assert means(table("s"), "s.f") == "s.s."
    assert means(table("s"), "s.s") == "s.s"
    assert means(table("s"), "s.s.f.g") == "s.s."
    # What a longer qualifier means comes first, and a column of the query before one of another around it.
    joined = Join(SubqueryAlias(table("a"), "s"), table("s"), JoinKind.CROSS)
    assert means(joined, "s.x") == "a.x"
    assert means(joined, "s.s") == "s.s"
    around = SubqueryAlias(Projection(table("a"), (Alias("f", named("x")),)), "s")
    query = Projection(
        around, (Alias("v", Subquery(QueryKind.SCALAR, Projection(table("s"), (named("s", "f"),)))),)
    )
    assert listed(query) == [("v", "s.s.")]


def test_a_qualifier_of_a_relation_of_unknown_columns() -> None:
    joined = Join(table("s"), SubqueryAlias(table("z"), "t"), JoinKind.CROSS)
    assert means(joined, "t.q") == "open"
    assert means(joined, "s.q") == "s.s."


def test_variables_of_lambda_functions() -> None:
    made = Lambda(("X", "v"), NamedCall(("f",), (named("x"), named("v", "g"), named("id"))))
    assert listed(Projection(table("a"), (Alias("n", made),))) == [("n", "((variable variable. a.id))")]


def test_a_lateral_join_sees_what_is_before_it() -> None:
    right = SubqueryAlias(Projection(table("b"), (Alias("n", named("x")),)), "t")
    assert means(Join(table("a"), right, JoinKind.CROSS, lateral=True), "t.n") == "^a.x"
    assert means(Join(table("a"), right, JoinKind.CROSS), "t.n") == "unknown"


def test_an_expression_that_reads_itself() -> None:
    reference = NamedScan(("K",), span=CTE)
    added = Projection(reference, (Alias("q", named("m")), Alias("r", NamedCall(("f",), ()))))
    body = ColumnAliases(SetOperation(SetKind.UNION, (table("a"), added)), ("n", "m"))
    made = With(reference, (("k", SubqueryAlias(body, "k")),), recursive=True)
    assert listed(made)[0][0] == "n"
    assert "a.x" in listed(made)[0][1], "what the second round adds"
    assert not columns(made).open


def test_how_many_columns_there_are() -> None:
    assert columns(Projection(table("a"), (NamedCall(("many",), ()),))).uncounted
    assert not columns(Projection(table("a"), (NamedCall(("f",), ()),))).uncounted
    assert columns(Projection(table("z"), (Star(),))).uncounted
    assert not columns(Projection(table("z"), (named("q"),))).uncounted
    aliases = Projection(table("a"), (Aliases(("N", "m"), NamedCall(("many",), ())), named("m")))
    assert listed(aliases) == [("n", "(())"), ("m", "(())"), ("m", "(())")]
    assert not columns(aliases).uncounted
    values = SubqueryAlias(InlineTable(("Col1",)), "t")
    assert means(values, "t.col1") == "variable"
    assert columns(TableFunction(("f",))).uncounted


def test_operations_that_change_some_columns() -> None:
    source = table("a")
    made = WithColumns(source, (Alias("X", named("id")), Alias("n", named("x"))))
    assert listed(made) == [("id", "a.id"), ("x", "a.id"), ("n", "a.x")]
    assert listed(RenamedColumns(source, (("ID", "n"), ("n", "m"), ("none", "y")))) == [
        ("m", "a.id"),
        ("x", "a.x"),
    ]
    assert listed(DroppedColumns(source, ("X", "none"))) == [("id", "a.id")]
    assert listed(DroppedColumns(source, (), (named("a", "id"),))) == [("x", "a.x")]
    both = Join(source, table("b"), JoinKind.CROSS)
    assert listed(DroppedColumns(both, (), (named("b", "id"),))) == [
        ("id", "a.id"),
        ("x", "a.x"),
        ("y", "b.y"),
    ]
    assert listed(ChangedColumns(source, (named("id"),))) == [("id", "(a.id)"), ("x", "a.x")]


def test_stars_of_a_relation_by_its_id() -> None:
    source, other = table("a"), table("b")
    items = (Star(plan_id=2), Star(plan_id=1, pattern="i."))
    found = Projection(Join(source, other, JoinKind.CROSS), items)
    domain = sources()
    domain.resolver.by_plan = {1: [source], 2: [other]}
    made = domain.resolver.relation(found, NameScope())
    assert [one.value for one in made.columns] == ["b.id", "b.y", "a.id"]
    assert not made.open
    # Whoever knows no ids knows no names.
    assert columns(found).open


def test_conditions_of_groups() -> None:
    shown = Aggregate(table("a"), (named("id"),), (Alias("x", named("id")), NamedCall(("count",), ())))
    made = columns(Filter(shown, ConditionClause.HAVING, (named("x"),)))
    above = of_groups(made, columns(table("a")))
    found = [scope_of(above).resolve((name,)) for name in ("x", "id")]
    assert [one.attribute.value for one in found if isinstance(one, FoundName)] == ["a.id", "a.id"]
    assert above.open


def test_a_query_that_is_too_large_is_given_up() -> None:
    wide = {SPANS["a"]: [f"c{number}" for number in range(1000)]}
    made: RelationNode = table("a")
    for _ in range(MAX_STEPS // 1000):
        made = Pass(made, Passing.DISTINCT)
    with pytest.raises(TooMuch):
        Sources(wide).resolver.relation(made, NameScope())


def test_queries_within_expressions() -> None:
    query = Subquery(QueryKind.IN, table("a"), (Subquery(QueryKind.SCALAR, table("b")),))
    assert list(queries_in(Alias("n", query))) == [table("a"), table("b")]
    assert list(queries_in(OpaqueExpression((), (OneRow(),)))) == [OneRow()]


def test_every_relation_has_columns_and_a_decision() -> None:
    every = set(get_args(RelationNode))
    assert every - RELATIONS.keys() == {NamedScan, With}, "these are looked up, and not made of inputs"
    assert RELATIONS.keys() <= every
    assert DECISIONS.keys() == every - {With}
