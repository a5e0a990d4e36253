"""`sluice check --tables` warns of policies on what does not exist, and of texts that fit no table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.app import exit_codes
from gateway.cli import main

TABLES = """\
catalogs:
  spark_catalog:
    hr:
      employee: {columns: {id: int, name: string, region: string, salary: "decimal(10,2)"}}
      office: {columns: {id: int, city: string}}
    sales:
      orders: {columns: {id: bigint, amount: "decimal(12,2)"}}
"""
PACK = """\
policies:
  - name: read
    on: {catalog: spark_catalog, database: [hr, slaes], table: [employee, offices], column: "*"}
    allow: [{groups: [g], access: [select]}]
  - name: gone
    on: {catalog: other, database: x, table: "*", column: "*"}
    allow: [{groups: [g], access: [select]}]
  - name: masks
    on: {catalog: spark_catalog, database: hr, table: "*", column: [salary, slary, city]}
    mask: [{groups: [public], type: MASK_NULL}]
  - name: custom
    on: {catalog: spark_catalog, database: hr, table: employee, column: name}
    mask: [{groups: [public], type: CUSTOM, show: "concat({col}, regon)"}]
  - name: rows
    on: {catalog: spark_catalog, database: "*", table: "*"}
    filter:
      - {groups: [a], where: "id = 1"}
      - {groups: [b], where: "region = {USER.region} and `city` = 'x'"}
      - {groups: [c], where: "id in (select id from spark_catalog.hr.office o where o.city = {USER})"}
      - {groups: [d], where: ""}
  - name: fits
    on: {catalog: spark_catalog, database: hr, table: {except: [nothing]}, column: "s*"}
    allow: [{groups: [g], access: [select]}]
  - name: everywhere
    on: {catalog: spark_catalog, database: "home_{USER}", table: "*", column: "*"}
    allow: [{users: ["{USER}"], access: [select]}]
"""


def warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> list[str]:
    (tmp_path / "p.yaml").write_text(PACK)
    (tmp_path / "tables").mkdir(exist_ok=True)
    (tmp_path / "tables" / "t.yaml").write_text(TABLES)
    arguments = [str(tmp_path / "p.yaml"), "--tables", str(tmp_path / "tables" / "t.yaml"), "--json", *more]
    assert main(["check", *arguments]) == exit_codes.OK, "a warning is no fault"
    found: list[str] = json.loads(capsys.readouterr().out)["warnings"]
    return [warning.removeprefix(f"{tmp_path}/p.yaml:") for warning in found]


NAMES = [
    "2: policy `read`: there is no database `slaes` in spark_catalog (did you mean `sales`?)",
    "2: policy `read`: there is no table `offices` in spark_catalog.hr (did you mean `office`?)",
    "5: policy `gone`: there is no catalog `other`",
    "8: policy `masks`: there is no column `slary` in spark_catalog.hr.employee, spark_catalog.hr.office"
    " (did you mean `salary`?)",
    "21: policy `fits`: there is no table `nothing` in spark_catalog.hr",
]


def test_names_that_nothing_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert warnings(tmp_path, capsys, "--no-parser") == NAMES


def test_texts_that_no_table_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With Spark's own parser, which says what columns a text names."""
    found = warnings(tmp_path, capsys)
    assert [warning for warning in found if warning not in NAMES] == [
        "13: policy `custom`: this mask does not match the columns of spark_catalog.hr.employee: there is no "
        "column `regon` (did you mean `region`?)",
        "18: policy `rows`: this filter does not match the columns of spark_catalog.hr.employee, "
        "spark_catalog.hr.office, spark_catalog.sales.orders: there is no column `city` or `region`",
    ]


def test_masks_that_mean_nothing_for_their_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(
        "policies:\n"
        "  - name: digests\n"
        "    on: {catalog: spark_catalog, database: hr, table: employee, column: [id, name, salary]}\n"
        "    mask: [{groups: [public], type: MASK_HASH}]\n"
        "tags:\n"
        "  - on: {catalog: spark_catalog, database: hr, table: employee, column: nmae}\n"
        "    tags: [PII]\n"
        "  - on: {catalog: spark_catalog, database: hr, table: employee, column: name}\n"
        "    tags: [PII]\n"
    )
    (tmp_path / "t.yaml").write_text(TABLES)
    main(["check", str(tmp_path / "p.yaml"), "--tables", str(tmp_path / "t.yaml"), "--json"])
    found = json.loads(capsys.readouterr().out)["warnings"]
    employee = "spark_catalog.hr.employee"
    assert [one.removeprefix(f"{tmp_path}/p.yaml:") for one in found] == [
        f"6: tags `PII`: there is no column `nmae` in {employee} (did you mean `name`?)",
        (
            f"4: policy `digests`: mask type `MASK_HASH` is not defined for {employee}.id of type int: "
            "it shows NULL"
        ),
        (
            f"4: policy `digests`: mask type `MASK_HASH` is not defined for {employee}.salary of type "
            "decimal(10,2): it shows NULL"
        ),
    ]


def test_hashes_of_collated_columns_lose_equality(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text(
        "policies:\n"
        "  - name: digests\n"
        "    on: {catalog: spark_catalog, database: hr, table: employee, column: [name, id]}\n"
        "    mask: [{groups: [public], type: MASK_HASH}]\n"
    )
    for type_, warned in (("string collate UTF8_LCASE", True), ("string collate UTF8_BINARY", False)):
        (tmp_path / "t.yaml").write_text(
            "catalogs:\n  spark_catalog:\n    hr:\n      employee:\n"
            f"        columns: {{id: string, name: {type_}}}\n"
        )
        main(["check", str(tmp_path / "p.yaml"), "--tables", str(tmp_path / "t.yaml"), "--json"])
        found = json.loads(capsys.readouterr().out)["warnings"]
        told = [
            one
            for one in found
            if f"employee.name of type {type_}: strings that are equal under its collation" in one
        ]
        assert bool(told) == warned
        assert len(found) == len(told)


def test_texts_of_policies_on_tags_are_held_against_what_carries_the_tags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(
        "tags:\n"
        "  - {on: {catalog: spark_catalog, database: hr, table: employee, column: name}, tags: [PII]}\n"
        "  - {on: {catalog: spark_catalog, database: hr, table: [employee, office]}, tags: [STAFF]}\n"
        "  - {on: {catalog: spark_catalog, database: sales}, tags: [SALES]}\n"
        "policies:\n"
        "  - name: custom\n"
        "    on: {tag: PII}\n"
        '    mask: [{groups: [public], type: CUSTOM, show: "concat({col}, regon)"}]\n'
        "  - name: rows\n"
        "    on: {tag: STAFF}\n"
        "    filter: [{groups: [public], where: \"region = 'x'\"}]\n"
        "  - name: below\n"
        "    on: {tag: SALES}\n"
        '    filter: [{groups: [public], where: "amunt > 1"}]\n'
        "  - name: columns\n"
        "    on: {tag: PII}\n"
        "    filter: [{groups: [public], where: \"regon = 'no table carries it'\"}]\n"
        "  - name: other\n"
        "    on: {tag: [NONE]}\n"
        '    mask: [{groups: [public], type: CUSTOM, show: "nothing"}]\n'
    )
    (tmp_path / "t.yaml").write_text(TABLES)
    main(["check", str(tmp_path / "p.yaml"), "--tables", str(tmp_path / "t.yaml"), "--json"])
    found = json.loads(capsys.readouterr().out)["warnings"]
    assert [one.removeprefix(f"{tmp_path}/p.yaml:") for one in found if "policy" in one] == [
        "8: policy `custom`: this mask does not match the columns of spark_catalog.hr.employee: there is no "
        "column `regon` (did you mean `region`?)",
        "11: policy `rows`: this filter does not match the columns of spark_catalog.hr.office: there is no "
        "column `region`",
        "14: policy `below`: this filter does not match the columns of spark_catalog.sales.orders: there is "
        "no column `amunt` (did you mean `amount`?)",
    ]


def test_a_file_of_tables_with_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text("policies: []\n")
    code = main(["check", str(tmp_path / "p.yaml"), "--tables", str(tmp_path / "absent.yaml"), "--no-parser"])
    assert code == exit_codes.FAULTS
    assert "absent.yaml" in capsys.readouterr().err
