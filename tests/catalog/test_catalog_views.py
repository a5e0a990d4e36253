"""Views of catalogs that are not Spark's own: their text stands at the end of what others wrote."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.catalog.describe import Row, catalog_view_from_rows, is_catalog_view
from gateway.catalog.live import LiveCatalog
from gateway.catalog.types import NotUnderstood
from gateway.errors import BackendUnavailable
from gateway.model.catalog import TableKind, TableName, ViewBody
from gateway.model.definers import definer_property

VIEW = TableName("ice", "hr", "v")
TEXT = "SELECT id, n FROM t"
PROPERTIES = {"provider": "iceberg", "location": "/w/hr/v"}


def described(comment: str = "", output: str = "[id, n]", namespace: str = "ice.hr") -> list[Row]:
    return [
        ("i", "int", "it's"),
        ("my n", "string", ""),
        ("", "", ""),
        ("# Detailed View Information", "", ""),
        ("Comment", comment, ""),
        ("View Catalog and Namespace", namespace, ""),
        ("View Query Output Columns", output, ""),
        ("View Properties", "[…]", ""),
        ("Created By", "Spark 4.1.4", ""),
    ]


def shown(
    text: str = TEXT, comment: str = "", properties: dict[str, str] = PROPERTIES, name: str = "ice.hr.v"
) -> str:
    pairs = ",\n".join(f"  '{k}' = '{v}'" for k, v in sorted(properties.items()))
    return (
        f"CREATE VIEW {name} (\n  i COMMENT 'it\\'s',\n  `my n`)\n"
        + (f"COMMENT '{comment}'\n" if comment else "")
        + f"TBLPROPERTIES (\n{pairs})\nAS\n{text}\n"
    )


def body(rows: Sequence[Row], create: str, properties: dict[str, str] = PROPERTIES) -> ViewBody | None:
    assert is_catalog_view(rows)
    table = catalog_view_from_rows(rows, VIEW, list(properties.items()), [(create,)])
    assert table.kind is TableKind.VIEW
    assert [(c.name, c.type, c.comment) for c in table.columns] == [
        ("i", "int", "it's"),
        ("my n", "string", None),
    ]
    return table.view


def test_a_view_is_read() -> None:
    assert body(described(), shown()) == ViewBody(
        text=TEXT,
        catalog="ice",
        database="hr",
        output=("id", "n"),
        collation="",
        definer=None,
        by_position=True,
    )
    lines = "SELECT id\nAS\nn, 1\n"
    found = body(described("a comment"), shown(lines, "a comment", name="ICE.hr.V"))
    assert found is not None
    assert found.text == lines


def test_its_definer_is_bound_to_the_text() -> None:
    key, value = definer_property(TEXT, "stew")
    properties = {**PROPERTIES, key: value}
    found = body(described(), shown(properties=properties), properties)
    assert found is not None
    assert found.definer == "stew"
    found = body(described(), shown("SELECT 1 AS id, 2 AS n", properties=properties), properties)
    assert found is not None
    assert found.definer == ""


FORGED = "x')\nAS\nSELECT 1 AS id, 2 AS n\n"


@pytest.mark.parametrize(
    ("comment", "properties"), [(FORGED, PROPERTIES), ("", {**PROPERTIES, "a": FORGED}), ("", {FORGED: "a"})]
)
def test_a_comment_or_property_does_not_pass_for_the_text(comment: str, properties: dict[str, str]) -> None:
    written = shown(
        comment=comment.replace("'", "\\'"),
        properties={k.replace("'", "\\'"): v.replace("'", "\\'") for k, v in properties.items()},
    )
    found = body(described(comment), written, properties)
    assert found is not None
    assert found.text == TEXT


@pytest.mark.parametrize(
    ("rows", "create", "properties"),
    [
        (described(), shown(comment="more than was told"), PROPERTIES),
        (described("less"), shown(), PROPERTIES),
        (described(), shown(properties={**PROPERTIES, "b": "1"}), PROPERTIES),
        (described(), shown(), {**PROPERTIES, "b": "1"}),
        (described(), shown(name="ice.hr.w"), PROPERTIES),
        (described(), shown().removesuffix("\n"), PROPERTIES),
        (described(), "CREATE TABLE ice.hr.v (\n  i)", PROPERTIES),
        (described(output="[id, n, m]"), shown(), PROPERTIES),
        (described(namespace="ice.`hr.more`"), shown(), PROPERTIES),
    ],
)
def test_what_does_not_agree_is_read_by_nobody(
    rows: list[Row], create: str, properties: dict[str, str]
) -> None:
    assert body(rows, create, properties) is None


def test_a_column_with_the_title_for_a_name_makes_no_view() -> None:
    assert not is_catalog_view([("# Detailed View Information", "int", ""), ("", "", "")])
    with pytest.raises(NotUnderstood):
        catalog_view_from_rows([("", "", ""), ("# Detailed View Information", "", "")], VIEW, [], [])


async def test_a_view_that_changes_between_the_answers_is_not_judged() -> None:
    told = [described(), described("another")]

    async def query(sql: str) -> Sequence[Row]:
        if sql.startswith("DESCRIBE"):
            return told.pop(0)
        return list(PROPERTIES.items()) if "TBLPROPERTIES" in sql else [(shown(),)]

    class Refused(Exception):
        sqlstate = "0A000"

    async def refuse_json(sql: str) -> Sequence[Row]:
        if sql.endswith("AS JSON"):
            raise Refused
        return await query(sql)

    catalog = LiveCatalog(refuse_json, refusal=Refused)
    with pytest.raises(BackendUnavailable, match="replaced at the moment"):
        await catalog.look_up([VIEW])
    told[:] = [described(), described()]
    found = (await catalog.look_up([VIEW])).table(VIEW)
    assert found is not None
    assert found.view is not None
