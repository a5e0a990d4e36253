"""Texts with macros and tokens: values enter SQL as literals and nothing else, whatever they hold."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model.context import AccessContext
from gateway.model.tags import Tag
from gateway.policy.facts import Facts
from gateway.policy.macros import compile_template
from gateway.policy.script import Untranslatable
from gateway.policy.sqltext import bind, context_dependencies_of, faults_of, sample, write_string_literal
from tests.effort import tries

FACTS = Facts(
    user="ann",
    groups=frozenset({"g1", "g'2"}),
    user_attributes={
        "dept": ("hr",),
        "many": ("a", "b"),
        "level": ("5",),
        "code": ("007",),
        "ids": ("1,2,-3",),
        "odd": ("o'x",),
        "minus": ("-5",),
        "empty": ("",),
        "cost-centre": ("cc1",),
        "a.b": ("dotted",),
    },
    resource={"table": "t"},
    tag=Tag(type="PII", attributes={"level": "3"}),
)
ODD = "CAST(X'6F2778' AS STRING)"
IDS = "CAST(X'312C322C2D33' AS STRING)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dept = '${{USER.dept}}'", "dept = 'hr'"),
        ('dept = "${{USER.dept}}"', "dept = 'hr'"),
        ("dept = '${{ USER.dept }}-${{USER._name}}'", "dept = 'hr-ann'"),
        ("dept = '${{USER.odd}}'", f"dept = {ODD}"),
        ("dept = ${{USER.dept}}", "dept = 'hr'"),
        ("dept = ${{USER['dept']}}", "dept = 'hr'"),
        ("dept = {USER.odd} and u = {USER}", f"dept = {ODD} and u = 'ann'"),
        ("c = ${{USER.cost-centre}} and d = {USER.cost-centre}", "c = 'cc1' and d = 'cc1'"),
        ("c = ${{USER.a.b}}", "c = 'dotted'"),
        ("n = ${{USER.dept.length}}", "n = 2"),
        # numbers
        ("level <= ${{USER.level}}", "level <= 5"),
        ("level <= ${{TAG.level}}", "level <= 3"),
        ("level <= ${{Number(USER.level) + 1}}", "level <= 6"),
        ("level <= '${{USER.level}}'", "level <= '5'"),
        ("level <= {USER.level}", "level <= '5'"),
        ("code = ${{USER.code}}", "code = '007'"),
        ("a -${{USER.minus}}", "a -(-5)"),
        ("a -${{Number(USER.minus)}}", "a -(-5)"),
        # lists
        ("r in (${{GET_USER_ATTR_Q('many')}})", "r in ('a','b')"),
        ("r IN ( 'x', ${{GET_USER_ATTR_Q('many')}} )", "r IN ( 'x', 'a','b' )"),
        ("r in (${{GET_USER_ATTR('many')}})", "r in ('a','b')"),
        ("r in (${{USER.many}})", "r in ('a','b')"),
        ("r in ({USER.many})", "r in ('a','b')"),
        ("r in (${{GET_USER_ATTR('ids')}})", "r in (1,2,(-3))"),
        ("r in (${{[[USER.ids]]}})", "r in ('1','2','-3')"),
        ("r in ({USER.ids})", f"r in ({IDS})"),
        ("f(array(${{GET_UG_NAMES_Q()}}), r)", "f(array(CAST(X'672732' AS STRING),'g1'), r)"),
        ("r rlike '${{GET_USER_ATTR('many', null, '|')}}'", "r rlike CAST(X'617C62' AS STRING)"),
        ("r = '${{GET_USER_ATTR('many')}}'", "r = CAST(X'612C62' AS STRING)"),
        ("r in (${{GET_USER_ATTR_Q('none')}})", "r in (NULL)"),
        ("r not in (${{GET_USER_ATTR_Q('none')}})", "r not in (NULL)"),
        ("r in (${{GET_USER_ATTR_Q('none', 'x')}})", "r in ('x')"),
        ("r in (${{GET_TAG_NAMES_Q()}}, 'y')", "r in (NULL, 'y')"),
        # booleans
        ("${{IS_IN_GROUP('g1')}} or a = 1", "TRUE or a = 1"),
        ("${{IS_IN_GROUP('x')}} or a = 1", "FALSE or a = 1"),
        ("a = ${{USER.dept == 'hr' ? 'yes' : 'no'}}", "a = 'yes'"),
        # no answer
        ("a = '${{USER.none}}'", None),
        ("a = ${{USER.none}}", None),
        ("a = {USER.none}", None),
        ("a in ({USER.none})", None),
        ("a = '${{GET_USER_ATTR('none')}}'", None),
        ("a = ${{GET_USER_ATTR('none')}}", None),
        ("a = ${{USER.many}}", None),
        ("a = {USER.many}", None),
        ("a = '${{USER.many}}'", None),
        ("a = ${{GET_USER_ATTR_Q('many')}}", None),
        ("a in (upper(${{GET_USER_ATTR_Q('many')}}))", None),
        ("a in (1 + ${{GET_USER_ATTR_Q('many')}})", None),
        ("a = ${{USER}}", None),
        ("a = ${{USER.none.more}}", None),
        ("a = ${{REQ.accessTime}}", None),
    ],
)
def test_binding(text: str, expected: str | None) -> None:
    assert faults_of(text, "filter") == []
    assert bind(text, FACTS) == expected


def test_what_holds_no_token_stays_as_it_is() -> None:
    for text in ("", "a = 'it''s' and b = '\\'{x}--;' and `c d` = \"x\""):
        assert faults_of(text, "filter") == []
        assert bind(text, FACTS) == text


PIECES = ["a", "'", '"', "`", "${{", "}}", "USER.a", "{USER}", "{col}", "(", ")", ",", "in", " ", "\\"]


def test_an_empty_text_is_a_value_and_no_value_is_none() -> None:
    assert bind("a = '${{USER.empty}}'", FACTS) == "a = ''"
    assert bind("a = ${{USER.empty}}", FACTS) == "a = ''"
    assert bind("a = {USER.empty}", FACTS) == "a = ''"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = ${{foo}}", "in `${{…}}`: script: `foo` is not a name that scripts know"),
        ("a = '${{eval(1)}}'", "is not a name that scripts know"),
        ("a = ${{}}", "a script is empty"),
        ("a = ${{USER.a", "must not contain `${`"),
        ("a = ${{USER.a\n}}", "must not contain `${`"),
        ("a = ${USER.a}", "must not contain `$`"),
        ("a = '${USER.a}'", "must not contain `${`"),
        ("a = '${{'${x}'}}'", "must not contain `${`"),
        ("`${{USER.a}}` = 1", "inside a quoted name"),
        ("a = 'x\\n${{USER.a}}'", "must not contain a backslash"),
        ("a = '{USER}${{USER.a}}'", "token `{USER}` is inside quotes"),
        ("a = 'it''${{USER.a}}'", "would concatenate the two"),
        ("a = '${{USER.a}}' 'x'", "would concatenate the two"),
        ("a = ${{USER.a}}'x'", "would concatenate the two"),
        ("a = r'${{USER.a}}'", "adjacent to a name"),
        ("a = ${{USER.a}}x", "adjacent to a name"),
        ("a = t.${{USER.a}}", "adjacent to a name"),
        ("a = X'${{USER.a}}'", "adjacent to a name"),
    ],
)
def test_what_is_refused(text: str, expected: str) -> None:
    assert any(expected in fault for fault in faults_of(text, "filter")), faults_of(text, "filter")


def test_masks_know_the_column_and_its_type() -> None:
    text = "concat({col}, '${{USER.dept}}', CAST({USER} AS {type}), '{x')"
    assert faults_of(text, "mask") == []
    names = {"col": "`c`", "type": "STRING"}
    assert bind(text, FACTS, names) == "concat(`c`, 'hr', CAST('ann' AS STRING), '{x')"
    assert bind(text, FACTS) is None
    assert "is allowed in a custom mask only" in faults_of("{col} = 1", "filter")[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = '${{USER.dept}}' and b in (${{GET_UG_NAMES_Q()}})", "a = 'x' and b in ('x')"),
        ("concat({col}, {USER}, '{')", "concat(`c`, 'x', '{')"),
        ("CAST({col} AS {colType})", "CAST(`c` AS STRING)"),
    ],
)
def test_samples_for_a_parser(text: str, expected: str) -> None:
    assert sample(text) == expected


def test_what_of_the_context_a_text_reads() -> None:
    assert context_dependencies_of("a = '${{REQ.action}}' and b = ${{HAS_TAG('x')}}") == {"action", "tags"}
    assert context_dependencies_of("a = {USER} and b = '${{USER.dept}}'") == set()
    assert context_dependencies_of("a = ${{nonsense}}") == set()
    facts = Facts(user="ann", context=AccessContext(action="QUERY"))
    assert bind("a = '${{REQ.action}}'", facts) == "a = 'QUERY'"


def test_texts_that_cost_much_to_read_are_read_all_the_same() -> None:
    for text in ("'" + "\\'" * 8000, "${{" * 5000, "'${{" * 4000, "{USER}'" * 2000, "?(" * 8000, "`" * 16001):
        assert faults_of(text, "filter")
        bind(text, FACTS)
        sample(text)


# Laws.


def literals(sql: str) -> list[str]:
    """A tiny lexer for what binding may write: the values of a comma-separated list of literals.

    Raises ValueError for anything else, so that a value which changes the structure cannot pass.
    """
    values, rest = [], sql
    while True:
        found = re.match(
            r"'([A-Za-z0-9_.@+ -]*)'|CAST\(X'((?:[0-9A-F]{2})*)' AS STRING\)|(\(?-?[0-9.]+\)?)", rest
        )
        if found is None:
            raise ValueError(sql)
        plain, digits, number = found.groups()
        values.append(
            bytes.fromhex(digits).decode()
            if digits is not None
            else plain
            if number is None
            else number.strip("()")
        )
        rest = rest[found.end() :]
        if not rest:
            return values
        if not rest.startswith(","):
            raise ValueError(sql)
        rest = rest[1:]


PLACES = [
    ("a = ", "{USER.x}", ""),
    ("a = ", "${{USER.x}}", " and b"),
    ("a = ", "'${{USER.x}}'", " or c = '--'"),
    ("a = ", '"${{USER.x}}"', ""),
    ("a in (", "${{GET_USER_ATTR_Q('x')}}", ")"),
    ("a in (1, ", "${{GET_USER_ATTR('x')}}", ", 'y')"),
    ("f(", "'${{USER.x + ''}}'", ")"),
]


@settings(max_examples=tries(400))
@given(st.sampled_from(PLACES), st.text(max_size=30))
def test_a_value_of_any_kind_is_one_literal_in_its_place(place: tuple[str, str, str], value: str) -> None:
    before, token, after = place
    assert faults_of(before + token + after, "filter") == []
    bound = bind(before + token + after, Facts(user="u", user_attributes={"x": (value,)}))
    if bound is None:
        assert any(0xD800 <= ord(c) < 0xE000 for c in value)
        return
    assert bound.startswith(before)
    assert bound.endswith(after)
    inside = bound[len(before) : len(bound) - len(after)]
    found = literals(inside)
    assert found == [value] or ",".join(found) == value


@given(st.lists(st.text(max_size=10), min_size=2, max_size=5))
def test_several_values_are_as_many_literals(values: list[str]) -> None:
    bound = bind("a in (${{GET_USER_ATTR_Q('x')}})", Facts(user="u", user_attributes={"x": tuple(values)}))
    if bound is not None:
        assert literals(bound[len("a in (") : -1]) == values


@given(st.text(max_size=10), st.text(max_size=10), st.text(max_size=10))
def test_a_literal_with_macros_is_one_literal_of_the_whole_text(fixed: str, one: str, two: str) -> None:
    text = f"'{fixed}${{{{USER.x}}}}-${{{{USER.y}}}}'"
    if faults_of(text, "filter"):
        return
    bound = bind(text, Facts(user="u", user_attributes={"x": (one,), "y": (two,)}))
    if bound is not None:
        assert literals(bound) == [f"{fixed}{one}-{two}"]


@given(st.text())
def test_a_bound_value_is_one_literal(value: str) -> None:
    literal = write_string_literal(value)
    if literal is None:
        assert any(0xD800 <= ord(c) < 0xE000 for c in value)
    elif literal.startswith("CAST(X'"):
        assert bytes.fromhex(literal[7:].split("'")[0]).decode() == value
    else:
        assert literal == f"'{value}'"
        assert not set(value) & set("'\\\"\n`$")


@settings(max_examples=tries(300))
@given(
    st.one_of(
        st.text(alphabet="ab '\"`{}$USER.col-*/;\\rR,=?\n", max_size=40),
        st.lists(st.sampled_from(PIECES), max_size=16).map("".join),
    ),
    st.text(max_size=8),
)
def test_any_policy_text_is_refused_or_bound(text: str, user: str) -> None:
    facts = Facts(user=user, user_attributes={"a": (user,)})
    bind(text, facts)
    sample(text)
    context_dependencies_of(text)
    if not faults_of(text, "filter"):
        bound = bind(text, facts)
        assert bound is None or "{USER" not in bound
        assert bound is None or "${" not in bound


# Templates of resource values.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("db_${{USER.dept}}", "db_hr"),
        ("${{USER.dept}}_${{USER._name}}*", "hr_ann*"),
        ("x_${{USER.none}}_y", "x__y"),
        ("${{USER.odd}}", "o'x"),
        ("${{USER.cost-centre}}", "cc1"),
        ("${{USER.none-at-all}}", ""),
        ("${{GET_USER_ATTR('many')}}", "a,b"),
        ("${{USER.none.more}}", None),
        ("${{USER.many}}", None),
        ("${{USER}}", None),
        ("{USER}", "{USER}"),
        ("$x", "$x"),
    ],
)
def test_resource_values(text: str, expected: str | None) -> None:
    template = compile_template(text)
    assert template.render(FACTS) == expected


def test_resource_values_that_are_refused() -> None:
    for text in ("db_${{foo}}", "db_${{USER.a", "db_${{USER.a\n}}", "${{}}", "${{" + "x" * 20_000 + "}}"):
        with pytest.raises(Untranslatable):
            compile_template(text)


def test_what_of_the_context_a_resource_value_reads() -> None:
    assert compile_template("a${{REQ.action}}b${{USER.x}}").context_dependencies == {"action"}
    assert compile_template("plain").context_dependencies == set()
