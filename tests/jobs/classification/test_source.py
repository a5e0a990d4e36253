"""What a table is, by what Spark says of it. No Spark."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from gateway.jobs.classification.source import (
    GatewaySource,
    Limits,
    TableParts,
    Unreadable,
    whole_numbers,
)

TABLE = TableParts("spark_catalog", "lab", "t")
BEFORE = (("id", "int", None), ("# Detailed Table Information", "string", None), ("# ", "string", None))
COLUMNS = (*BEFORE, ("Type", "string", None), ("# col_name", "string", None), ("ssn", "STRING", "VIEW"))
BEHIND = (
    *(("# Partition Information", "", ""), ("# col_name", "data_type", "comment"), ("id", "int", None)),
    *(("", "", ""), ("# Detailed Table Information", "", ""), ("Type", "MANAGED", ""), ("Owner", "bob", "")),
)


class Told(GatewaySource):
    def __init__(self, *rows: tuple[Any, ...]) -> None:
        super().__init__(None)
        self._told = rows

    def _rows(self, text: str) -> Any:
        return list(self._told)


def test_a_column_that_is_named_like_a_heading_hides_none_behind_it() -> None:
    found = Told(*COLUMNS, *BEHIND).describe(TABLE)
    assert [(one.name, one.type) for one in found.columns] == [
        (name, kind.lower()) for name, kind, _ in COLUMNS
    ]
    assert (found.partitioned_by, found.is_view) == (("id",), False)
    assert Told(*BEFORE, *BEHIND[4:5], ("Type", "VIEW", "")).describe(TABLE).is_view


class Shown(GatewaySource):
    """A database of whose view nobody but its definer may see the text."""

    def _rows(self, text: str) -> Any:
        if text.startswith("SHOW DATABASES"):
            return [("lab",)]
        if text.startswith("SHOW"):
            names = ("Seen",) if "VIEWS" in text else ("Seen", "t")
            return [("lab", name, False) for name in names] + [("", "temporary", True)]
        return [("id", "int", None)]


def test_a_view_is_one_though_its_text_may_not_be_seen() -> None:
    source = Shown(None)
    found = source.tables("Spark_Catalog")
    assert [(each.table, source.describe(each).is_view) for each in found] == [("seen", True), ("t", False)]


class Nested(GatewaySource):
    """A catalog with namespaces in namespaces, one that does not know of such, and Spark's own."""

    BELOW: ClassVar = {
        "DATABASES IN `lake`": ["a", "plain", "`with-dash`", "`odd.one`"],
        "NAMESPACES IN `lake`.`a`": ["a.b", "a.`c.d`"],
        "NAMESPACES IN `lake`.`a`.`b`": ["a.b.c"],
        "NAMESPACES IN `lake`.`a`.`b`.`c`": [],
        "DATABASES IN `flat`": ["d"],
        "DATABASES IN `spark_catalog`": ["hr"],
    }
    TABLES: ClassVar = {
        "`lake`.`a`": ["t"],
        "`lake`.`a`.`b`.`c`": ["Deep"],
        "`lake`.`with-dash`": ["t"],
        "`flat`.`d`": ["t"],
        "`spark_catalog`.`hr`": ["t"],
    }

    def __init__(self) -> None:
        super().__init__(None)
        self.texts: list[str] = []

    def _rows(self, text: str) -> Any:
        self.texts.append(text)
        what = text.removeprefix("SHOW ")
        if what in self.BELOW:
            return [(name,) for name in self.BELOW[what]]
        if text.startswith("SHOW TABLES IN "):
            return [("", name, False) for name in self.TABLES.get(text.removeprefix("SHOW TABLES IN "), ())]
        raise Unreadable("NO_SUCH_THING")


def test_tables_of_namespaces_in_namespaces_are_found_and_named_by_every_level() -> None:
    source = Nested()
    found = source.tables("lake")
    assert [each.name for each in found] == ["lake.a.t", "lake.a.b.c.deep", "lake.with-dash.t"]
    assert found[1] == ("lake", "a.b.c", "deep")
    assert found[1].quoted == "`lake`.`a`.`b`.`c`.`deep`"
    assert not any("odd.one" in text or "c.d" in text for text in source.texts)


def test_a_level_more_is_asked_of_where_there_may_be_one() -> None:
    source = Nested()
    for catalog in ("flat", "spark_catalog"):
        assert [each.catalog for each in source.tables(catalog)] == [catalog]
    assert [text for text in source.texts if "NAMESPACES" in text] == ["SHOW NAMESPACES IN `flat`.`d`"]


def test_a_catalog_without_end_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.jobs.classification.source.MAX_NAMESPACES", 3)
    with pytest.raises(Unreadable, match=r"^more than 3 databases$"):
        Nested().tables("lake")


class Read(GatewaySource):
    """A table of which one row is read, with nothing in it but nulls."""

    def _take(self, text: str, arguments: Any, until: int, read: Any) -> None:
        read.rows += 1


def test_of_a_type_with_maps_it_is_known() -> None:
    source = Read(None)
    described = Told(("m", "map<string,int>", None), ("s", "struct<a:int>", None)).describe(TABLE)
    sample = source.sample(TABLE, described, (), Limits())
    assert {name: (one.maps, one.fields) for name, one in sample.columns.items()} == {
        "m": (True, ()),
        "s": (False, ("a",)),
    }


class Asked:
    """A session that gives the rows of a table, or raises what is among them."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = columns
        self.texts: list[str] = []

    def sql(self, text: str, args: Any = None) -> Any:
        self.texts.append(text)
        self._rows = zip(
            *(values for name, values in self.columns.items() if f"`{name}`" in text), strict=True
        )
        return self

    def toLocalIterator(self) -> Any:  # noqa: N802 - pyspark's name
        for row in self._rows:
            for value in row:
                if isinstance(value, Exception):
                    raise value
            yield row

    def collect(self) -> Any:
        return list(self.toLocalIterator())


LATIN_1 = UnicodeDecodeError("utf-8", b"M\xfcller", 1, 2, "invalid start byte")
YEARS = OverflowError("date value out of range: 52000-01-01")


@pytest.mark.parametrize("fault", [LATIN_1, YEARS, ValueError("year 52000 is out of range")])
def test_a_value_that_python_does_not_have_is_its_columns_trouble(fault: Exception) -> None:
    asked = Asked({"a": ["1"], "b": [fault], "c": ["3"]})
    source = GatewaySource(asked)
    described = Told(*((name, "string", None) for name in "abc")).describe(TABLE)
    sample = source.sample(TABLE, described, (), Limits())
    assert {name: set(one.values) for name, one in sample.columns.items()} == {"a": {"1"}, "c": {"3"}}
    assert (sample.unreadable, sample.reason) == (["b"], type(fault).__name__)
    only = Told(("b", "string", None)).describe(TABLE)
    with pytest.raises(Unreadable, match=rf"^{type(fault).__name__}$") as raised:
        source.sample(TABLE, only, (), Limits())
    assert raised.value.__cause__ is None


def test_partitions_of_which_python_does_not_have_one_are_no_strata() -> None:
    dated = Told(("day", "date", None), ("# Partition Information", "", ""), ("day", "date", None))
    described = dated.describe(TABLE)
    assert described.partitioned_by == ("day",)
    assert GatewaySource(Asked({"day": [YEARS]})).partitions(TABLE, described) == []


class Spelt(GatewaySource):
    """A catalog that tells capitals from small letters."""

    def __init__(self) -> None:
        super().__init__(None)
        self.texts: list[str] = []

    def _rows(self, text: str) -> Any:
        match text:
            case "SHOW DATABASES IN `Ora`":
                return [("HR",)]
            case "SHOW TABLES IN `Ora`.`HR`":
                return [("HR", "People", False)]
            case _ if "`Ora`.`HR`.`People`" in text:
                self.texts.append(text)
                return [("Id", "int", None), ("# Partition Information", "", ""), ("Id", "int", None)]
        raise Unreadable("NO_SUCH_THING")

    def _take(self, text: str, arguments: Any, until: int, read: Any) -> None:
        self._rows(text)


def test_a_table_is_asked_for_as_it_is_spelt_and_kept_in_small_letters() -> None:
    source = Spelt()
    (table,) = source.tables("Ora")
    assert table == TableParts("ora", "hr", "people")
    described = source.describe(table)
    source.partitions(table, described)
    source.sample(table, described, [(1,)], Limits())
    source.sample(table, described, (), Limits())
    assert [text.split()[0] for text in source.texts] == ["DESCRIBE", "SELECT", "SELECT", "SELECT"]
    assert all("`Id`" in text for text in source.texts[1:])
    with pytest.raises(Unreadable):
        source.describe(table._replace(table="gone"))


def test_a_table_that_was_left_for_its_bytes_is_not_a_whole_one() -> None:
    described = Told(("a", "string", None)).describe(TABLE)
    for limits, drawn in ((Limits(), [False]), (Limits(bytes=2_000), [False, True])):
        asked = Asked({"a": ["x" * 500] * 10})
        sample = GatewaySource(asked).sample(TABLE, described, (), limits)
        assert ["TABLESAMPLE" in text for text in asked.texts] == drawn
        assert sample.bytes == min(limits.bytes, 5_000)


def test_fractions_that_are_all_whole_and_long_are_integers() -> None:
    values = {
        "decimal": (["4917123456.0000000000", "12.0000000000"], ["4917123456", "12"]),
        "double": (["4.917123456E12", "1.0E7", "NaN"], ["4917123456000", "10000000", "NaN"]),
        "longest": ([f"{'9' * 38}.0", f"-{'9' * 37}.0"], ["9" * 38, f"-{'9' * 37}"]),
        "degrees": (["52.000000", "-13.000000"], []),
        "prices": (["1500.0", "20.0", "100000.0"], []),
        "partly": (["4.917123456E12", "4917123456.5"], []),
        "endless": (["4.917123456E12", "Infinity"], []),
        "beyond": (["1.7976931348623157E308", "1.0E999999"], []),
        "masked": (["4.917123456E12", "***"], []),
        "nothing": (["NaN"], []),
        "empty": ([], []),
    }
    for given, expected in values.values():
        assert whole_numbers(given) == expected
    asked = Asked({name: given for name, (given, _) in values.items() if len(given) == 2})
    described = Told(*((name, "decimal(38,10)", None) for name in asked.columns)).describe(TABLE)
    sample = GatewaySource(asked).sample(TABLE, described, (), Limits())
    assert {name for name, one in sample.columns.items() if one.kind == "integer"} == {"decimal", "longest"}
    assert sample.columns["decimal"].values == values["decimal"][1]
    assert sample.columns["degrees"].values == values["degrees"][0]
