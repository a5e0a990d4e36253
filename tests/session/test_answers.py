"""Answers that list names lose the names that may not be known, and nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gateway.model.catalog import TableName
from gateway.model.resource import Resource
from gateway.model.statement import AnswerFilter, AnswerRule
from gateway.session.answers import UnknownShape, filter_rows, list_extended_tables
from gateway.session.descriptions import reduce_information

HIDDEN = {"spark_catalog.hr", "spark_catalog.sales.secret", "lake", "spark_catalog.sales.mixed.ssn"}


def visible(resource: Resource) -> bool:
    dotted = str(resource)
    return not any(dotted == hidden or dotted.startswith(hidden + ".") for hidden in HIDDEN)


def shown(filter_: AnswerFilter, rows: list[Any], **rule: Any) -> list[Any]:
    rule.setdefault("catalog", "spark_catalog")
    told = rule.pop("told", {})
    return [tuple(row) for row in filter_rows(AnswerRule(filter=filter_, **rule), rows, visible, told)]


def test_catalogs_and_databases() -> None:
    assert shown(AnswerFilter.CATALOGS, [("spark_catalog",), ("lake",)]) == [("spark_catalog",)]
    rows = [("default",), ("hr",), ("`hr`",), ("sales",)]
    assert shown(AnswerFilter.DATABASES, rows) == [("default",), ("sales",)]
    assert shown(AnswerFilter.DATABASES, [("x",)], catalog="lake") == []


def test_namespaces_within_others() -> None:
    rows = [("a.b",), ("a.`b.c`",), ("a",), ("b",), ("x.b",), ("a.b.c",), ("`a.b`",), ("a.hidden",)]
    HIDDEN.add("lake2.a.hidden")
    try:
        assert shown(AnswerFilter.DATABASES, rows, catalog="lake2", database="a") == [("a.b",)]
        assert shown(AnswerFilter.DATABASES, rows, catalog="lake2") == [("a",), ("b",)]
        tables = [("a.b", "t", False), ("`a.b`", "t", False), ("a.hidden", "t", False)]
        assert shown(AnswerFilter.TABLES, tables, catalog="lake2", database="a.b") == tables[:1]
    finally:
        HIDDEN.remove("lake2.a.hidden")


@pytest.mark.parametrize("filter_", [AnswerFilter.TABLES, AnswerFilter.VIEWS])
def test_tables_and_views_with_the_sessions_own_temporary_ones(filter_: AnswerFilter) -> None:
    rows = [
        ("sales", "orders", False),
        ("sales", "secret", False),
        ("sales", "`secret`", False),
        ("hr", "employee", False),
        ("", "mine", True),
        ("global_temp", "everybodys", True),
        ("global_temp", "hidden", True),
        ("other", "hidden", True),
        ("", "nowhere", False),
    ]
    HIDDEN.add("spark_catalog.global_temp.hidden")
    try:
        assert shown(filter_, rows) == [
            ("sales", "orders", False),
            ("", "mine", True),
            ("global_temp", "everybodys", True),
        ]
    finally:
        HIDDEN.remove("spark_catalog.global_temp.hidden")


def test_flags_may_come_as_text() -> None:
    assert shown(AnswerFilter.TABLES, [("", "v", "true"), ("hr", "t", "false")]) == [("", "v", "true")]


def test_functions_built_in_ones_always() -> None:
    rows = [("abs",), ("!=",), ("spark_catalog.hr.f",), ("spark_catalog.sales.f",), ("hr.f",), ("a.b.c.d",)]
    assert shown(AnswerFilter.FUNCTIONS, rows) == [
        *(("abs",), ("!=",), ("spark_catalog.sales.f",), ("a.b.c.d",)),
    ]
    assert not shown(AnswerFilter.FUNCTIONS, [("a.`b.c`.d",), ("lake.c.d.f",), ("a.``.c.d",), ("sales..f",)])


def test_columns_by_the_rules_list() -> None:
    rows = [("id",), ("Salary",), ("`name`",)]
    assert shown(AnswerFilter.COLUMNS, rows, columns=frozenset({"id", "name"})) == [("id",), ("`name`",)]
    assert len(shown(AnswerFilter.COLUMNS, rows, columns=None)) == 3


def test_settings_by_policy_in_both_forms() -> None:
    HIDDEN.add("spark.secret")
    try:
        assert shown(AnswerFilter.SETTINGS, [("spark.secret", "x"), ("spark.a", "1")]) == [("spark.a", "1")]
        wide = [("spark.secret", "x", "what", "1.0"), ("spark.a", "1", "what", "1.0")]
        assert [row[0] for row in shown(AnswerFilter.SETTINGS, wide)] == ["spark.a"]
    finally:
        HIDDEN.discard("spark.secret")


def test_the_token_of_spark_connect_is_no_setting() -> None:
    rows = [("spark.connect.authenticate.token", "x"), ("SPARK.connect.Authenticate.token ", "x"), ("a", "1")]
    assert shown(AnswerFilter.SETTINGS, rows) == [("a", "1")]


DESCRIBED = [
    ("id", "int", None),
    ("salary", "int", "how much"),
    ("day", "date", None),
    ("# Partition Information", "", ""),
    ("# col_name", "data_type", "comment"),
    ("day", "date", None),
    ("", "", ""),
    ("# Detailed Table Information", "", ""),
    ("Owner", "ann", ""),
    ("Type", "MANAGED", ""),
    ("Provider", "parquet", ""),
    ("Location", "file:/wh/t", ""),
    ("Statistics", "12 bytes", ""),
]
HARMLESS = ["", "# Detailed Table Information", "Owner", "Type", "Provider"]


def describe(**rule: Any) -> list[str]:
    table = TableName("spark_catalog", "sales", "t")
    return [row[0] for row in shown(AnswerFilter.DESCRIBE_TABLE, DESCRIBED, table=table, **rule)]


def test_describe_with_everything_visible_is_as_spark_says_it() -> None:
    assert describe(columns=frozenset({"id", "salary", "day"})) == [row[0] for row in DESCRIBED]


def test_describe_hides_columns_and_then_details_that_may_tell_of_them() -> None:
    assert describe(columns=frozenset({"id", "day"})) == [
        "id",
        "day",
        "# Partition Information",
        "# col_name",
        "day",
        *HARMLESS,
    ]
    assert describe(columns=frozenset()) == []


def test_details_are_those_below_the_last_heading() -> None:
    """A column may be called as the heading is, and one after it as what may be told."""
    rows = [
        ("id", "int", None),
        ("# Detailed Table Information", "int", None),
        ("Comment", "int", "hidden"),
        *DESCRIBED[6:],
    ]
    table = TableName("spark_catalog", "sales", "t")
    rule: dict[str, Any] = {"table": table, "columns": frozenset({"id"}), "details": False}
    told = [row[0] for row in shown(AnswerFilter.DESCRIBE_TABLE, rows, **rule)]
    assert told == ["id", *HARMLESS]


def test_what_follows_the_details_is_none_of_them() -> None:
    """Constraints and default values have sections of their own, and whoever names them may name them so."""
    table = TableName("spark_catalog", "sales", "t")
    rule: dict[str, Any] = {"table": table, "columns": frozenset({"id"}), "details": False}
    for rows in (
        [("", "", ""), ("# Constraints", "", ""), ("Comment", "CHECK (salary > 4711)", "")],
        [("# Column Default Values", "", ""), ("Owner", "int", "4711")],
        [("", "", ""), ("# Detailed Table Information", "int", "4711"), ("Type", "int", "4711")],
    ):
        told = shown(AnswerFilter.DESCRIBE_TABLE, [*DESCRIBED, *rows], **rule)
        assert [row[0] for row in told] == ["id", *HARMLESS]
        assert "4711" not in repr(told)


def test_describe_hides_a_partition_column_in_its_section_too() -> None:
    assert describe(columns=frozenset({"id", "salary"})) == ["id", "salary", *HARMLESS]


def test_describe_without_details() -> None:
    everything = frozenset({"id", "salary", "day"})
    assert "Location" not in describe(columns=everything, details=False)
    assert describe(columns=everything, details=False)[:3] == ["id", "salary", "day"]


def test_describe_of_one_column() -> None:
    rows = [("col_name", "salary"), ("data_type", "int"), ("comment", None), ("min", "1"), ("max", "9")]
    table = TableName("spark_catalog", "sales", "t")
    rule: dict[str, Any] = {"table": table, "columns": frozenset({"id"})}
    assert shown(AnswerFilter.DESCRIBE_TABLE, rows, **rule) == []
    rule["columns"] = frozenset({"salary"})
    assert len(shown(AnswerFilter.DESCRIBE_TABLE, rows, **rule)) == 5
    assert len(shown(AnswerFilter.DESCRIBE_TABLE, rows, details=False, **rule)) == 3


HEAD = "Catalog: spark_catalog\nOwner: ann\nType: VIEW\nProvider: parquet\nComment: what was sold\n"
INFORMATION = (
    f"{HEAD}View Text: SELECT *\nOwner: eve\nTable Properties: [a=b]\nStatistics: 4711 bytes\n"
    "Location: file:/x\nSchema: root\n |-- id: integer (nullable = true)\n"
    " |-- ssn: struct (nullable = true)\n |    |-- id: string (nullable = true)\n"
    " |-- id: x: string (nullable = true)\n |-- at: timestamp (nullable = true)\n\n"
)
ID, AT = " |-- id: integer (nullable = true)\n", " |-- at: timestamp (nullable = true)\n"


def test_extended_tables_keep_the_information_that_may_be_told() -> None:
    rows = [
        ("sales", "orders", False, INFORMATION),
        ("sales", "mixed", False, INFORMATION),
        ("sales", "other", False, INFORMATION),
        ("sales", "secret", False, INFORMATION),
        ("", "mine", True, INFORMATION),
    ]
    columns = frozenset({"id", "ssn", "id: x", "at"})

    def described(columns: frozenset[str], *, details: bool = True) -> AnswerRule:
        return AnswerRule(filter=AnswerFilter.DESCRIBE_TABLE, columns=columns, details=details)

    told = {
        TableName("spark_catalog", "sales", "orders"): described(columns),
        TableName("spark_catalog", "sales", "mixed"): described(frozenset({"id", "at"})),
        TableName("spark_catalog", "sales", "masked"): described(columns, details=False),
        TableName("spark_catalog", "sales", "none"): described(frozenset()),
        TableName("spark_catalog", "sales", "secret"): described(columns),
        TableName("spark_catalog", "sales", "mine"): described(columns),
    }
    rows[3:3] = [("sales", "masked", False, INFORMATION), ("sales", "none", False, INFORMATION)]
    whole_tree = INFORMATION.split("Schema: root\n")[1].rstrip("\n")
    rule = AnswerRule(filter=AnswerFilter.TABLE_EXTENDED, catalog="spark_catalog")
    listed = [name.table for name in list_extended_tables(rule, rows, visible)]
    assert listed == ["orders", "mixed", "other", "masked", "none"]
    assert shown(AnswerFilter.TABLE_EXTENDED, rows, told=told) == [
        ("sales", "orders", False, INFORMATION),
        ("sales", "mixed", False, f"{HEAD}Schema: root\n{ID}{AT}"),
        ("sales", "other", False, ""),
        ("sales", "masked", False, f"{HEAD}Schema: root\n{whole_tree}\n"),
        ("sales", "none", False, "Type: VIEW\n"),
        ("", "mine", True, f"{HEAD}Schema: root\n{whole_tree}\n"),
    ]
    assert {row[3] for row in shown(AnswerFilter.TABLE_EXTENDED, rows) if not row[2]} == {""}


def test_a_list_of_tables_as_json_is_that_of_what_may_be_seen() -> None:
    mine = {"name": "mine", "namespace": [], "isTemporary": True}
    orders = {"name": "orders", "namespace": ["sales"], "isTemporary": False}
    hidden = {**orders, "name": "secret"}
    typed = {**orders, "catalog": "spark_catalog", "type": "EXTERNAL"}

    def listed(*tables: object, **more: object) -> list[Any]:
        text = json.dumps({"tables": list(tables), **more}, separators=(",", ":"))
        return [row[0] for row in shown(AnswerFilter.TABLES_JSON, [(text,)])]

    assert listed(mine, orders, typed) == [
        json.dumps({"tables": [mine, orders, typed]}, separators=(",", ":"))
    ]
    assert [json.loads(one) for one in listed(mine, hidden, orders)] == [{"tables": [mine, orders]}]
    assert [json.loads(one) for one in listed({**hidden, "namespace": ["a.b"]})] == [{"tables": []}]
    for wrong in (
        {**orders, "owner": "x"},
        {**orders, "namespace": "sales"},
        {**orders, "isTemporary": 1},
        1,
    ):
        with pytest.raises(UnknownShape):
            listed(wrong)
    with pytest.raises(UnknownShape):
        listed(orders, more=[])


JSON = {
    "table_name": "t",
    "columns": [
        {
            "name": "id",
            "type": {"name": "int"},
            "nullable": True,
            "default": "4711",
            "metadata": {"a": "4711"},
        },
        {"name": "SSN", "type": {"name": "string"}, "nullable": True},
    ],
    "partition_columns": ["id", "SSN"],
    "owner": "ann",
    "type": "VIEW",
    "location": "file:/4711",
    "view_text": "SELECT 4711",
    "table_properties": {"a": "4711"},
    "statistics": {"num_rows": 4711},
    "something_new": "4711",
}


def test_a_description_as_json_keeps_what_is_harmless() -> None:
    rows = [(json.dumps(JSON),)]
    rule: dict[str, Any] = {"columns": frozenset({"id"}), "details": False}
    ((text,),) = shown(AnswerFilter.DESCRIBE_JSON, rows, **rule)
    told = json.loads(text)
    assert (told["type"], told["owner"], told["partition_columns"]) == ("VIEW", "ann", ["id"])
    assert told["columns"] == [{"name": "id", "type": {"name": "int"}, "nullable": True}]
    assert "4711" not in text
    assert shown(AnswerFilter.DESCRIBE_JSON, rows, columns=frozenset({"id", "ssn"})) == rows
    assert shown(AnswerFilter.DESCRIBE_JSON, rows, columns=frozenset(), details=False) == [("{}",)]
    for odd in ("[]", "nonsense", "{}"):
        with pytest.raises(UnknownShape):
            shown(AnswerFilter.DESCRIBE_JSON, [(odd,)], **rule)


def test_properties_keep_how_files_are_written() -> None:
    rows = [("delta.minReaderVersion", "3"), ("path", "file:/x"), ("owner", "ann"), ("new", "4711")]
    assert shown(AnswerFilter.PROPERTIES, rows, columns=frozenset({"id"}), details=False) == [
        rows[0],
        rows[2],
    ]
    assert shown(AnswerFilter.PROPERTIES, rows, columns=frozenset({"id"})) == rows
    assert shown(AnswerFilter.PROPERTIES, rows, columns=frozenset(), details=False) == []


def test_one_property_that_is_not_shown_is_none() -> None:
    table = TableName("spark_catalog", "sales", "t")
    absent = "Table spark_catalog.sales.t does not have property: k"
    for rows in ([("k", "4711")], [("k", absent)]):
        told = shown(
            AnswerFilter.PROPERTIES, rows, columns=frozenset({"id"}), details=False, key="k", table=table
        )
        assert [tuple(row) for row in told] == [("k", absent)]
        assert shown(AnswerFilter.PROPERTIES, rows, columns=frozenset({"id"}), key="k", table=table) == rows
        assert shown(AnswerFilter.PROPERTIES, rows, columns=frozenset(), details=False, key="k") == []


STATEMENT = r"""CREATE TABLE spark_catalog.sales.t (
  id INT NOT NULL COMMENT 'it\'s its number',
  `a b` STRUCT<x: INT COMMENT 'n', y: MAP<STRING, ARRAY<INT>>> DEFAULT (4711 < 4712),
  price DECIMAL(10,2) DEFAULT 4711 COMMENT 'of it',
  ssn STRING COLLATE UTF8_LCASE COMMENT '4711',
  constraint INT,
  notes STRING COMMENT '4711
  ssn STRING',
  day DATE,
  CONSTRAINT pk PRIMARY KEY (ssn))
USING org.example.source
OPTIONS (
  'path' = '4711')
PARTITIONED BY (ssn, day, bucket(4, ssn), days(day), bucket(16, `a b`.x), odd(day + ssn))
CLUSTERED BY (ssn)
INTO 4711 BUCKETS
COMMENT 'all of them'
DEFAULT COLLATION UTF8_LCASE
LOCATION 'file:/4711'
TBLPROPERTIES (
  'delta.minReaderVersion' = '3',
  'own' = '4711')
"""


def create_statement(text: str = STATEMENT, *, details: bool = False, columns: str = "id") -> str:
    rule: dict[str, Any] = {"columns": frozenset(columns.split(",")), "details": details}
    ((told,),) = shown(AnswerFilter.CREATE_STATEMENT, [(text,)], **rule)
    return str(told)


def test_the_statement_of_a_table_keeps_what_tells_no_value_bound_or_path() -> None:
    assert create_statement(details=True) == STATEMENT
    assert (
        create_statement(columns="id,a b,price,constraint,notes,day")
        == r"""CREATE TABLE spark_catalog.sales.t (
  id INT NOT NULL COMMENT 'it\'s its number',
  `a b` STRUCT<x: INT COMMENT 'n', y: MAP<STRING, ARRAY<INT>>>,
  price DECIMAL(10,2) COMMENT 'of it',
  constraint INT,
  notes STRING,
  day DATE)
USING org.example.source
PARTITIONED BY (day, days(day), bucket(16, `a b`.x))
COMMENT 'all of them'
DEFAULT COLLATION UTF8_LCASE
TBLPROPERTIES (
  'delta.minReaderVersion' = '3')
"""
    )
    assert "PARTITIONED" not in create_statement()


def test_a_comment_that_ends_in_a_backslash_shows_nothing_behind_it() -> None:
    """Spark escapes quotes and not backslashes: what begins with such a comment ends with the next one."""
    for hidden in ("ssn STRING COMMENT ''", "ssn STRING COMMENT ', id INT'", "ssn STRING"):
        text = STATEMENT.replace(r"it\'s its number'", "\\'")
        text = text.replace("ssn STRING COLLATE UTF8_LCASE COMMENT '4711'", hidden)
        try:
            told = create_statement(text)
        except UnknownShape:
            continue
        assert "ssn" not in told
        assert "4711" not in told


@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW sales.v (\n  id)\nAS SELECT 4711 AS id\n",
        "CREATE TABLE sales.t (\n  ssn INT)\n",
        "CREATE TABLE sales.t (\n  id INT",
        "CREATE TABLE sales.t (\n  id INT COMMENT 4711)\n",
        "CREATE TABLE sales.t (\n  id INT)\nTBLPROPERTIES ('type', 'owner')\n",
        "CREATE TABLE sales.t",
        "",
    ],
)
def test_the_statement_of_something_else_is_not_shown(text: str) -> None:
    with pytest.raises(UnknownShape):
        create_statement(text)


def test_what_dbt_reads_of_a_table_is_there() -> None:
    """dbt-spark looks for these words and lines; without them its own views count as tables."""
    information = reduce_information(INFORMATION, frozenset({"id", "at"}))
    assert "Type: VIEW" in information
    assert re.findall(r"^Owner: (.*)$", information, re.MULTILINE) == ["ann"]
    columns = re.findall(r"^ \|-- (.*): (.*) \(nullable = (.*)\b", information, re.MULTILINE)
    assert columns == [("id", "integer", "true"), ("at", "timestamp", "true")]
    for hidden in ("Location", "Statistics", "Properties", "SELECT", "eve", "ssn", "id: x"):
        assert hidden not in information


def test_what_dbt_reads_of_a_description_is_there() -> None:
    """Columns end where a name is empty or begins with `#`; what follows is looked up by its name. Where SHOW
    TABLE EXTENDED is not to be had, dbt writes the same lines from these rows."""
    table = TableName("spark_catalog", "sales", "t")
    rows = [*DESCRIBED[:8], ("Type", "VIEW", ""), *DESCRIBED[8:]]
    told = shown(AnswerFilter.DESCRIBE_TABLE, rows, table=table, columns=frozenset({"id"}), details=False)
    end = next(i for i, row in enumerate(told) if not row[0] or row[0].startswith("#"))
    assert told[:end] == [("id", "int", None)]
    more = {name: value for name, value, _ in told[end + 1 :]}
    assert more["Owner"] == "ann"
    lines = "".join(f"{name}: {value}\n" for name, value, _ in told if not name.startswith("#"))
    assert "Type: VIEW" in lines
    assert "Statistics" not in more


def test_what_pyhive_reads_of_a_description_is_there() -> None:
    """Superset's columns: rows with a name, up to the partitions, whose types begin with a word; and what
    follows the partitions' heading is an index."""
    table = TableName("spark_catalog", "sales", "t")
    for columns, expected in (({"id", "day"}, ["day"]), ({"id", "salary"}, [])):
        plain = DESCRIBED[:6]
        rule: dict[str, Any] = {"table": table, "columns": frozenset(columns), "details": False}
        told = [row for row in shown(AnswerFilter.DESCRIBE_TABLE, plain, **rule) if row[0]]
        told = [row for row in told if row[0] != "# col_name"]
        names = [row[0] for row in told]
        at = names.index("# Partition Information") if "# Partition Information" in names else len(names)
        assert set(names[:at]) == columns
        assert all(re.match(r"\w+", row[1]) for row in told[:at])
        assert names[at + 1 :] == expected


@pytest.mark.parametrize(
    ("filter_", "row"),
    [
        (AnswerFilter.CATALOGS, ("a", "b")),
        (AnswerFilter.DATABASES, ()),
        (AnswerFilter.TABLES, ("a", "b")),
        (AnswerFilter.TABLES, ("a", "b", 7)),
        (AnswerFilter.TABLES, ("a", 1, False)),
        (AnswerFilter.FUNCTIONS, ("a", "b")),
        (AnswerFilter.COLUMNS, ("a", "b")),
        (AnswerFilter.DESCRIBE_TABLE, ("{}",)),
        (AnswerFilter.DESCRIBE_TABLE, ("info", "value")),
        (AnswerFilter.TABLE_EXTENDED, ("a", "b", False)),
        (AnswerFilter.SETTINGS, (1,)),
    ],
)
def test_what_is_not_understood_is_not_shown(filter_: AnswerFilter, row: tuple[Any, ...]) -> None:
    with pytest.raises(UnknownShape):
        shown(filter_, [row])


@pytest.mark.parametrize("filter_", [AnswerFilter.DATABASES, AnswerFilter.TABLES])
def test_without_a_catalog_nothing_is_shown(filter_: AnswerFilter) -> None:
    with pytest.raises(UnknownShape):
        shown(filter_, [("a", "b", False)[: 1 if filter_ is AnswerFilter.DATABASES else 3]], catalog=None)


def test_every_filter_is_handled() -> None:
    for filter_ in AnswerFilter:
        assert shown(filter_, []) == []
