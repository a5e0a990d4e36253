"""What names mean where catalogs, databases and tables may have the same ones, and where namespaces nest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.catalog import TableName
from gateway.model.statement import SessionContext
from gateway.sql.names import MAX_LEVELS, MetadataTable, Names, Ungovernable, namespace_above

CATALOGS = frozenset({"spark_catalog", "lake", "shop"})


def names(catalog: str = "spark_catalog", *namespace: str) -> Names:
    """In a session whose current catalog has databases `lake` and `shop` as well, as every one may."""
    return Names(SessionContext(catalog=catalog, namespace=namespace or ("default",)), CATALOGS)


@pytest.mark.parametrize(
    ("current", "parts", "meant"),
    [
        # Three parts stand as they are, two are in the current catalog, one in the current database.
        (("lake", "sales"), ("shop", "public", "t"), ("shop", "public", "t")),
        (("lake", "sales"), ("other", "t"), ("lake", "other", "t")),
        (("lake", "sales"), ("t",), ("lake", "sales", "t")),
        # What is the name of a catalog and of a database begins with the catalog, in any case.
        (("spark_catalog", "default"), ("LAKE", "shop", "t"), ("lake", "shop", "t")),
        (("lake", "sales"), ("SPARK_CATALOG", "shop", "t"), ("SPARK_CATALOG", "shop", "t")),
        (("lake", "lake"), ("t",), ("lake", "lake", "t")),
        (("lake", "sales"), ("lake", "lake", "t"), ("lake", "lake", "t")),
        (("lake", "sales"), ("spark_catalog", "lake", "lake"), ("spark_catalog", "lake", "lake")),
    ],
)
def test_a_name_means_what_spark_takes_it_for(
    current: tuple[str, ...], parts: tuple[str, ...], meant: tuple[str, str, str]
) -> None:
    assert names(*current).table(parts) == TableName(*meant)
    assert names(*current).new_table(parts) == TableName(*meant)


def test_two_parts_of_which_the_first_is_a_catalog_are_no_table_of_its_namesake() -> None:
    for catalog in ("spark_catalog", "lake"):
        found = names(catalog).table(("shop", "t"))
        assert isinstance(found, Ungovernable)
        assert "without a database" in found.why


def test_a_catalog_in_capitals_is_none_to_spark_but_its_own() -> None:
    """Which would look for a database of the current catalog, and make it the current one."""
    for meant in (names().namespace(("LAKE",)), names("lake").namespace(("LAKE", "shop"))):
        assert isinstance(meant, Ungovernable)
        assert "is in the catalog `lake`, whose name Spark knows in lower case only" in meant.why
    assert not names().is_catalog("LAKE")
    assert names("lake").namespace(("Spark_Catalog", "shop")) == ("Spark_Catalog", "shop")


def test_a_table_of_another_catalog_is_named_as_it_is_looked_up() -> None:
    """It may have a table of the name in every case: what is judged of one is forwarded for that one."""
    for parts in (("LAKE", "Other", "A", "T"), ("Other", "A", "T")):
        for meant in (names("lake").table(parts), names("lake").new_table(parts)):
            assert meant == TableName("lake", "other.a", "t")
    assert names("lake", "Other", "A").new_table(("T",)) == TableName("lake", "other.a", "t")
    assert names().new_table(("Other", "T")) == TableName("spark_catalog", "Other", "T")


def test_use_of_a_name_that_is_both_is_the_catalog() -> None:
    assert names().namespace(("lake",)) == ("lake", None)
    assert names().namespace(("lake", "shop")) == ("lake", "shop")
    assert names("lake").namespace(("sales",)) == ("lake", "sales")
    assert names("lake").namespace(("spark_catalog", "lake")) == ("spark_catalog", "lake")


@pytest.mark.parametrize(
    ("current", "parts", "meant"),
    [
        (("spark_catalog", "default"), ("lake", "a", "b", "t"), ("lake", "a.b", "t")),
        (("spark_catalog", "default"), ("lake", "a", "b", "c", "t"), ("lake", "a.b.c", "t")),
        (("lake", "sales"), ("a", "b", "t"), ("lake", "a.b", "t")),
        (("lake", "sales"), ("lake", "lake", "lake", "t"), ("lake", "lake.lake", "t")),
        # A name of several parts begins at the catalog, wherever the session is.
        (("lake", "a", "b"), ("b", "t"), ("lake", "b", "t")),
        (("lake", "a", "b"), ("t",), ("lake", "a.b", "t")),
    ],
)
def test_a_nested_namespace_is_one_database(
    current: tuple[str, ...], parts: tuple[str, ...], meant: tuple[str, str, str]
) -> None:
    found = names(*current).table(parts)
    assert found == names(*current).new_table(parts) == TableName(*meant)
    assert isinstance(found, TableName)
    assert found.parts[-len(parts) :] == parts
    if len(parts) > 2:
        assert names(*current).namespace(parts[:-1]) == meant[:2]


def test_a_session_is_in_a_nested_namespace() -> None:
    assert names("lake", "a", "b").current_database() == ("lake", "a.b")
    assert isinstance(names("lake", "a.b").current_database(), Ungovernable)
    assert isinstance(names("lake", "a.b").table(("t",)), Ungovernable)


@pytest.mark.parametrize(
    "level",
    [
        "a.b",
        "",
        " a",
        "a ",
        "a\tb",
        "a/b",
        "a`b",
        "a$b",
        "global_temp",
        "GLOBAL_TEMP",
        "a\u200bb",
        "%2e",
        "a:b",
    ],
)
def test_a_level_that_is_no_name_is_refused_wherever_it_stands(level: str) -> None:
    for namespace in ((level,), (level, "x"), ("x", level), ("x", level, "y")):
        assert isinstance(names().table(("lake", *namespace, "t")), Ungovernable)
        assert isinstance(names().new_table(("lake", *namespace, "t")), Ungovernable)
        assert isinstance(names().namespace(("lake", *namespace)), Ungovernable)
        assert names().metadata_table(("lake", *namespace, "t", "files")) is None
        assert names().branch(("lake", *namespace, "t", "branch_b")) is None


def test_names_of_too_many_levels_are_refused() -> None:
    deep = ("x",) * (MAX_LEVELS + 1)
    assert isinstance(names().table(("lake", *deep[1:], "t")), TableName)
    assert isinstance(names().table(("lake", *deep, "t")), Ungovernable)
    assert isinstance(names().namespace(("lake", *deep)), Ungovernable)


def test_in_spark_s_own_catalog_a_nested_name_is_refused_as_by_spark() -> None:
    for found in (
        names().table(("a", "b", "t")),
        names().table(("spark_catalog", "a", "b", "t")),
        names().namespace(("a", "b")),
        names().namespace(("spark_catalog", "a", "b")),
        names("spark_catalog", "a", "b").table(("t",)),
    ):
        assert isinstance(found, Ungovernable)
        assert found.sqlstate == "42K05"
        assert "REQUIRES_SINGLE_PART_NAMESPACE" in found.why


def test_metadata_and_branches_of_nested_tables() -> None:
    metadata = names("lake").metadata_table(("a", "b", "t", "Files"))
    assert metadata == MetadataTable(TableName("lake", "a.b", "t"), "iceberg", "files")
    assert metadata.parts == ("lake", "a", "b", "t", "files")
    assert names().branch(("lake", "a", "b", "t", "branch_b")) == (TableName("lake", "a.b", "t"), "branch_b")
    paimon = names().metadata_table(("lake", "a", "b", "t$files"))
    assert paimon is not None
    assert paimon.parts == ("lake", "a", "b", "t$files")


def test_the_table_of_a_nested_namespace_s_name() -> None:
    assert namespace_above(TableName("lake", "a.b", "t")) == TableName("lake", "a", "b")
    assert namespace_above(TableName("lake", "a.b.c", "t")) == TableName("lake", "a.b", "c")
    assert namespace_above(TableName("lake", "a", "t")) is None


LEVELS = st.text(alphabet="aB_-. `$/é", min_size=0, max_size=4)


@given(st.lists(LEVELS, min_size=1, max_size=5), st.lists(LEVELS, min_size=1, max_size=5))
def test_no_two_names_become_the_same_but_for_case(one: list[str], other: list[str]) -> None:
    """What is governed is what Spark is sent, and no other name is."""
    found = names("lake", "a").new_table(("lake", *one))
    again = names("lake", "a").new_table(("lake", *other))
    small, others = [level.lower() for level in one], [level.lower() for level in other]
    if isinstance(found, TableName):
        assert found.parts == ("lake", *small)
        assert (found == again) is (small == others)
        assert TableName.of(found.parts) == found


@given(
    st.lists(st.sampled_from(["lake", "shop", "a", "b"]), min_size=1, max_size=3),
    st.lists(st.sampled_from(["lake", "shop", "a", "b", "t"]), min_size=1, max_size=4),
)
def test_a_name_in_full_means_the_same_in_every_session(current: list[str], parts: list[str]) -> None:
    found = names("lake", *current).table(tuple(parts))
    if isinstance(found, TableName):
        assert found.parts[-len(parts) :] == tuple(parts)
        assert names().table(found.parts) == found
        assert names("shop", "a", "b").table(found.parts) == found
