"""What names mean where catalogs, databases and tables may have the same ones, and where namespaces nest."""

from __future__ import annotations

import pytest

from gateway.model.catalog import TableName
from gateway.model.statement import SessionContext
from gateway.sql.names import Names, Ungovernable

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
        (("spark_catalog", "default"), ("LAKE", "shop", "t"), ("LAKE", "shop", "t")),
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
        assert "no database in it" in found.why


def test_use_of_a_name_that_is_both_is_the_catalog() -> None:
    assert names().namespace(("lake",)) == ("lake", None)
    assert names().namespace(("lake", "shop")) == ("lake", "shop")
    assert names("lake").namespace(("sales",)) == ("lake", "sales")
    assert names("lake").namespace(("spark_catalog", "lake")) == ("spark_catalog", "lake")


@pytest.mark.parametrize(
    ("current", "parts"),
    [
        (("spark_catalog", "default"), ("lake", "a", "b", "t")),
        (("spark_catalog", "default"), ("lake", "a", "b", "c", "t")),
        (("lake", "sales"), ("a", "b", "t")),
        (("lake", "sales"), ("lake", "lake", "lake", "t")),
    ],
)
def test_what_lies_in_a_nested_namespace_is_refused_with_the_reason(
    current: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    for found in (
        names(*current).table(parts),
        names(*current).new_table(parts),
        names(*current).namespace(parts[:-1]),
    ):
        assert isinstance(found, Ungovernable)
        assert "a nested namespace: policies speak of catalog.database.table" in found.why


def test_in_spark_s_own_catalog_a_nested_name_is_refused_as_by_spark() -> None:
    found = names().table(("a", "b", "t"))
    assert isinstance(found, Ungovernable)
    assert found.sqlstate == "42K05"


def test_a_session_within_a_nested_namespace_has_no_names_of_one_part() -> None:
    assert isinstance(names("lake", "a", "b").table(("t",)), Ungovernable)
    assert isinstance(names("lake", "a", "b").current_database(), Ungovernable)
