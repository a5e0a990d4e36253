"""Masks and transformers as text; tests/e2e/test_masks_spark.py runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy.facts import Facts
from gateway.policy.masks import MASK_TYPES, mask_expression, standard_masks
from gateway.policy.transformers import KEEP, STANDARD, Masking, hive_masking, transformer_faults
from tests.effort import tries

RULES = Path(__file__).parents[2] / "rules"
NULL = "CASE WHEN FALSE THEN `c` END"

HIVE = {
    "MASK": "mask({col})",
    "MASK_SHOW_LAST_4": "mask_show_last_n({col}, 4, 'x', 'x', 'x', -1, '1')",
    "MASK_SHOW_FIRST_4": "mask_show_first_n({col}, 4, 'x', 'x', 'x', -1, '1')",
    "MASK_HASH": "mask_hash({col})",
    "MASK_DATE_SHOW_YEAR": "mask({col}, 'x', 'x', 'x', -1, '1', 1, 0, -1)",
}
TRINO = {
    "MASK": "cast(regexp_replace(regexp_replace({col},'([A-Z])', 'X'),'([0-9])','0') as {type})",
    "MASK_SHOW_LAST_4": "cast(regexp_replace({col}, '(.*)(.{4}$)', x -> x[2]) as {type})",
    "MASK_HASH": "cast(to_hex(sha256(to_utf8({col}))) as {type})",
    "MASK_DATE_SHOW_YEAR": "date_trunc('year', {col})",
}
TYPES = ("string", "varchar(9)", "char(3)", "tinyint", "bigint", "date", "decimal(3,1)", "array<int>", "?")


@pytest.mark.parametrize("mask_type", HIVE)
def test_the_transformers_of_hive_are_the_standard_masks(mask_type: str) -> None:
    assert hive_masking(HIVE[mask_type]) == STANDARD[mask_type]
    for data_type in TYPES:
        plain = mask_expression(mask_type, "c", data_type)
        assert mask_expression(mask_type, "c", data_type, transformer=HIVE[mask_type]) == plain
        # A standard name keeps its meaning whatever another engine's SQL says.
        assert mask_expression(mask_type, "c", data_type, transformer=TRINO.get(mask_type, "")) == plain
        assert mask_expression("NEW", "c", data_type, transformer=HIVE[mask_type]) == plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mask({col})", Masking("mask")),
        ("  MASK ( {col} ) ", Masking("mask")),
        ("mask({col}, 'A')", Masking("mask", upper="A")),
        ("mask({col}, 'AB', '*', '#', '.')", Masking("mask", 4, "A", "*", "#", ".")),
        ("mask({col}, -1, -1, 48)", Masking("mask", 4, None, None, "0")),
        ("mask({col}, 'x', 'x', 'x', -1, '7')", Masking("mask", 4, "x", "x", "x", None, 7)),
        ("mask({col}, 'x', 'x', 'x', -1, 11)", Masking("mask", 4, "x", "x", "x", None, 1)),
        ("mask({col},'x','x','x',-1,1,-1,5,1990)", Masking("mask", 4, "x", "x", "x", None, 1, KEEP, 5, 1990)),
        ("mask({col},'x','x','x',-1,1,32,12,0)", Masking("mask", 4, "x", "x", "x", None, 1, 1, 0, 0)),
        ("mask_show_last_n({col})", Masking("mask_show_last_n", 4)),
        ("mask_show_first_n({col}, '2')", Masking("mask_show_first_n", 2)),
        ("mask_first_n({col}, 8, 'x', 'y', 'z')", Masking("mask_first_n", 8, "x", "y", "z")),
        ("mask_last_n({col}, -3)", Masking("mask_last_n", 0)),
        ("mask_hash({col})", Masking("mask_hash")),
        ("cast(mask_hash({col}) as {type})", Masking("mask_hash")),
        ("CAST( mask_show_last_n({col}, 2) AS string )", Masking("mask_show_last_n", 2)),
        ("cast(mask({col}) as {colType})", Masking("mask")),
    ],
)
def test_transformers_that_are_read_as_hive_means_them(text: str, expected: Masking) -> None:
    assert hive_masking(text) == expected
    assert transformer_faults(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{col}",
        "NULL",
        "mask()",
        "mask(c)",
        "mask({col}",
        "mask({col},)",
        "mask({col} 'x')",
        "mask('x', {col})",
        "mask({col}, NULL)",
        "mask({col}, '')",
        "mask({col}, 'ж')",
        "mask({col}, '$')",
        "mask({col}, 7)",
        "mask({col}, 1.5)",
        "mask({col}, 'x', 'x', 'x', -1, 'one')",
        "mask({col}) || 'x'",
        "upper(mask({col}))",
        "mask_hash({col}, 256)",
        "mask_first_n({col}, 'x')",
        "mask_first_n({col}, 99999999)",
        "cast(mask({col}) as int)",
        "mask({col},'x','x','x',-1,1,31,1,0)",
        "mask({col},'x','x','x',-1,1,30,-1,0)",
        "mask({col},'x','x','x',-1,1,1,0,12345)",
        "mask({col},'x','x','x',-1,1,1,0,0,0)",
        "mask({col})" + ")" * 100,
    ],
)
def test_other_texts_are_no_hive_masking(text: str) -> None:
    assert hive_masking(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("substring({col}, 1, 2", None),
        ("substring({col}, 1, 2) -- x", "a transformer must not contain comments"),
        ("{column}", "unknown token `{column}`"),
        ("concat({col}, ${x})", "`$`"),
        ("concat('a', mask_hash({col}))", "`mask_hash` is not supported"),
        ("mask_last_n({col}, 'x')", "`mask_last_n` is not supported"),
        ("mask({col},'x','x','x',-1,1,31,1,0)", "`mask` is not supported"),
        ("'{col}'", "is inside quotes"),
        ("", None),
        ("NULL", None),
        ("concat(left({col}, 1), '***')", None),
    ],
)
def test_transformers_that_are_refused(text: str, expected: str | None) -> None:
    faults = transformer_faults(text)
    assert any(expected in fault for fault in faults) if expected else faults == []


def shown_always(expression: str, column: str = "c") -> str:
    """Return an expression as it is written for a column, so that it is as nullable as the column."""
    return f"CASE WHEN FALSE THEN `{column}` ELSE {expression} END"


def test_a_new_mask_type_works_through_its_transformer() -> None:
    made = mask_expression("INITIAL", "c", "string", transformer="concat(left({col}, 1), '***')")
    assert made == shown_always("TRY_CAST((concat(left(`c`, 1), '***')) AS STRING)")
    number = mask_expression("ROUND", "n", "int", transformer="CAST({col} / 10 AS {type})")
    assert number == shown_always("TRY_CAST((CAST(`n` / 10 AS INT)) AS INT)", "n")
    facts = Facts(user="ann", user_attributes={"dept": ("hr",)})
    bound = mask_expression("OWN", "c", "string", transformer="'${{USER.dept}}'", facts=facts)
    assert bound == shown_always("TRY_CAST(('hr') AS STRING)")
    assert mask_expression("OWN", "c", "string", transformer="'${{USER.dept}}'") == NULL
    assert mask_expression("NOTHING", "c", "string") == NULL
    assert mask_expression("NOTHING", "c", "string", transformer="  ") == NULL


def test_a_definition_may_give_a_standard_name_other_arguments() -> None:
    stars = mask_expression("MASK", "c", "string", transformer="mask({col}, '*', '*', '#')")
    assert stars == "CAST(system.builtin.mask(`c`, '*', '*', '#', NULL) AS STRING)"


@pytest.mark.parametrize("transformer", ["", "NULL", "{col}", "mask({col})"])
def test_what_no_transformer_changes(transformer: str) -> None:
    assert mask_expression("MASK_NONE", "c", "string", transformer=transformer) is None
    assert mask_expression("MASK_NULL", "c", "string", transformer=transformer) == NULL
    assert mask_expression("CUSTOM", "c", "string", transformer=transformer) == NULL
    custom = mask_expression("CUSTOM", "c", "string", transformer=transformer, custom="'x'")
    assert custom == shown_always("TRY_CAST(('x') AS STRING)")


def test_a_custom_mask_may_use_hive_s_functions() -> None:
    shown = mask_expression("CUSTOM", "c", "string", custom="mask_show_last_n({col}, 2)")
    assert shown == mask_expression("X", "c", "string", transformer="mask_show_last_n({col}, 2)")
    assert shown is not None
    assert "mask_show_last_n" not in shown


def test_a_custom_mask_depends_on_who_asks() -> None:
    facts = Facts(user="ann", user_attributes={"level": ("2",)})
    shown = mask_expression("CUSTOM", "c", "string", custom="left({col}, ${{USER.level}})", facts=facts)
    assert shown == shown_always("TRY_CAST((left(`c`, 2)) AS STRING)")
    assert mask_expression("CUSTOM", "c", "string", custom="left({col}, ${{USER.none}})", facts=facts) == NULL


def test_dates() -> None:
    def date(arguments: str, masked_date: str = "1900-01-01") -> str | None:
        text = f"mask({{col}},'x','x','x',-1,1,{arguments})"
        assert hive_masking(text) is not None
        return mask_expression("X", "c", "date", transformer=text, masked_date=masked_date)

    assert date("1,0,0") == "CAST(CASE WHEN `c` IS NOT NULL THEN DATE'1900-01-01' END AS DATE)"
    assert date("1,0,0", "1970-06-15") == "CAST(CASE WHEN `c` IS NOT NULL THEN DATE'1970-06-15' END AS DATE)"
    assert date("15,5,0") == "CAST(CASE WHEN `c` IS NOT NULL THEN DATE'1900-06-15' END AS DATE)"
    assert date("15,5,1990") == "CAST(CASE WHEN `c` IS NOT NULL THEN DATE'1990-06-15' END AS DATE)"
    assert date("-1,-1,-1") == "CAST(`c` AS DATE)"
    assert "trunc(`c`, 'YEAR')" in str(date("1,0,-1"))
    assert "make_date(system.builtin.year(`c`), 6, 15)" in str(date("15,5,-1"))
    assert "make_date(1990, system.builtin.month(`c`), 1)" in str(date("1,-1,1990"))


WORDS = ["mask", "_n", "mask_show_last_n", "(", ")", ",", "{col}", "'x'", "-1", "4", "cast", " as ", "{type}"]
ANYTHING = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(WORDS), max_size=12).map("".join))


@settings(max_examples=tries(400))
@given(
    st.sampled_from((*MASK_TYPES, "UNKNOWN", "mask")),
    st.text(max_size=20),
    st.one_of(st.sampled_from(TYPES), st.text(max_size=40)),
    ANYTHING,
    ANYTHING,
)
def test_a_mask_never_raises_and_never_shows_the_bare_column(
    mask_type: str, column: str, data_type: str, custom: str, transformer: str
) -> None:
    transformer_faults(transformer)
    expression = mask_expression(mask_type, column, data_type, custom=custom, transformer=transformer)
    assert (expression is None) == (mask_type == "MASK_NONE")
    if expression is not None:
        assert expression.startswith(("CAST(", "CASE WHEN ", "TRY_CAST("))


@given(
    st.sampled_from(["mask", "mask_first_n", "mask_last_n", "mask_show_first_n", "mask_show_last_n"]),
    st.integers(0, 30),
    st.lists(st.sampled_from(["'x'", "'*'", "-1", "42", "'#'"]), max_size=4),
    st.sampled_from(TYPES),
)
def test_a_masking_is_made_of_syntax_and_built_in_functions(
    function: str, n: int, characters: list[str], data_type: str
) -> None:
    count = [] if function == "mask" else [str(n)]
    text = f"{function}({', '.join(['{col}', *count, *characters])})"
    made = str(mask_expression("X", "c", data_type, transformer=text))
    words = {"CAST", "TRY_CAST", "SUBSTRING", "VARCHAR", "CHAR", "DECIMAL"}
    called = set(re.findall(r"(?<!builtin\.)\b([A-Za-z_]\w*) ?\(", re.sub(r"'[^']*'", "''", made)))
    assert called <= words, made


@given(
    st.recursive(
        st.sampled_from(["int", "string", "decimal(10,2)", "varchar(3)", "date", "interval day to second"]),
        lambda inner: st.one_of(
            inner.map(lambda t: f"array<{t}>"),
            st.tuples(inner, inner).map(lambda p: f"map<{p[0]},{p[1]}>"),
            st.lists(st.tuples(st.sampled_from(["a", "`a b`", "_1"]), inner), min_size=1, max_size=3).map(
                lambda fs: "struct<" + ",".join(f"{n}:{t}" for n, t in fs) + ">"
            ),
        ),
        max_leaves=6,
    )
)
def test_nested_types_are_spelled_as_they_came(data_type: str) -> None:
    expression = mask_expression("CUSTOM", "c", data_type, custom="NULL")
    written = data_type.upper() if "<" not in data_type else data_type
    assert expression == shown_always(f"TRY_CAST((NULL) AS {written})")


@pytest.mark.parametrize(
    "data_type",
    [
        "struct<a b:int>",
        "struct<a:int",
        "array<>",
        "map<int>",
        "struct<>",
        "int)",
        "array<int>>",
        "struct<a:int>) AS y, (SELECT 1",
        "array<interval>",
        "decimal(10,2) x",
        "int; drop",
        "",
    ],
)
def test_what_is_not_surely_a_type_is_not_spelled(data_type: str) -> None:
    assert mask_expression("CUSTOM", "c", data_type, custom="NULL") == NULL
    assert mask_expression("MASK", "c", data_type) == NULL
    assert mask_expression("X", "c", data_type, transformer="mask({col})") == NULL
    assert mask_expression("X", "c", data_type, transformer="{col}") == NULL


def test_a_date_may_show_its_year_and_month() -> None:
    """By functions that mean the same in every time zone and mode (tests/sql/test_meaning.py)."""
    shipped = yaml.safe_load((RULES / "service_defs" / "spark.yaml").read_text("utf-8"))
    rows = {row["name"]: row.get("transformer", "") for row in shipped["dataMaskDef"]["maskTypes"]}
    kind = "MASK_DATE_SHOW_MONTH"
    shown = mask_expression(kind, "c", "date", transformer=rows[kind])
    first = "CASE WHEN `c` >= DATE'-5877640-01-01' THEN system.builtin.trunc(`c`, 'MONTH') END"
    assert shown == f"CAST({first} AS DATE)"
    for data_type in ("string", "int", "timestamp", "binary"):
        alike = mask_expression("MASK_DATE_SHOW_YEAR", "c", data_type)
        assert mask_expression(kind, "c", data_type, transformer=rows[kind]) in (
            alike,
            (alike or "").replace("CAST(system", "TRY_CAST(system"),
        )


@pytest.mark.parametrize("mask_type", MASK_TYPES)
@pytest.mark.parametrize("data_type", ["string", "varchar(80)", "char(80)", "int", "date", "double"])
def test_bare_names_are_all_that_a_mask_has_otherwise(mask_type: str, data_type: str) -> None:
    """Also for a column that is called like the functions are."""
    for column in ("c", "system.builtin.c"):
        qualified = mask_expression(mask_type, column, data_type)
        bare = mask_expression(mask_type, column, data_type, bare=True)
        if qualified is None or bare is None:
            assert qualified is bare is None
            continue
        assert re.sub(r"system\.builtin\.(?=\w+\()", "", qualified) == bare
        assert "`system" in bare or "system" not in bare
        assert (qualified in standard_masks(column, data_type)) == (bare in standard_masks(column, data_type))
