"""`sluice policy`: explanations and differences from files, for people and for programs."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.app import exit_codes
from gateway.app.policy_diff import load_side
from gateway.cli import main
from gateway.cli.policy_output import ComparisonProgress
from gateway.frontends.users import set_user
from gateway.model.audit import AuditEvent
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.diff_reports import diff_recorded
from gateway.policy.diffing import Comparison
from gateway.policy.engine import engine_for
from tests.audit import ledgers, samples

ROOT = Path(__file__).resolve().parents[2]
RESOURCE_LEVELS = ("catalog", "database", "table", "column")
PACKS = str(ROOT / "rules" / "policies")

OLD = """\
people: {ann: {groups: [hr], attributes: {region: EMEA}}, bob: {groups: [sales]}}
policies:
  - name: read
    on: {catalog: spark_catalog, database: d, table: t, column: "*"}
    allow: [{groups: [hr, sales], access: [select]}]
  - name: rows
    on: {catalog: spark_catalog, database: d, table: t}
    filter: [{groups: [sales], where: "region = {USER.region}"}]
"""
NEW = OLD.replace("[hr, sales]", "[hr]").replace(
    "  - name: rows",
    """\
  - name: pay
    on: {catalog: spark_catalog, database: d, table: t, column: pay}
    mask: [{groups: [public], type: MASK_NULL}]
  - name: office
    on: {catalog: spark_catalog, database: d, table: t, column: "*"}
    conditions: {ip-range: ["10.*"]}
    allow: [{groups: [sales], access: [select]}]
  - name: rows""",
)


@pytest.fixture
def sides(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "old.yaml").write_text(OLD)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "pack.yaml").write_text(NEW)
    return str(tmp_path / "old.yaml"), str(tmp_path / "new")


def run(*arguments: str) -> int:
    return main(["policy", *arguments])


# -- explain -------------------------------------------------------------------------------------------------


def test_a_denial_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--policies", PACKS, "--as", "bob", "--groups", "analysts")
    code = run("explain", *asked, "select", "spark_catalog.hr.employee.salary")
    assert code == exit_codes.REFUSED
    out = capsys.readouterr().out
    assert out.startswith("denied for bob (analysts): select on column spark_catalog.hr.employee.salary")
    assert "`pay and identity stay with payroll`" in out
    assert "deny[0]" in out
    for name in ("hr works in its database", "own region only", "harmless session settings"):
        assert f"`{name}`" in out, "every policy has its line"


def test_limits_are_told_with_a_decision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = tmp_path / "limits.yaml"
    pack.write_text("limits: [{name: small, users: [bob], rows: 10}, {name: wide, users: [bob], rows: 20}]")
    asked = ("--policies", str(tmp_path), "--as", "bob", "select", "spark_catalog.hr.employee.email")
    assert run("explain", *asked) == exit_codes.REFUSED
    assert "  limits  10 rows a statement (small)\n" in capsys.readouterr().out
    assert run("explain", *asked, "--json") == exit_codes.REFUSED
    assert json.loads(capsys.readouterr().out)["limits"] == {"rows": {"most": 10, "limit": "small"}}


def test_an_explanation_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--policies", PACKS, "--as", "bob", "--groups", "analysts", "--json")
    assert run("explain", *asked, "SELECT", "spark_catalog.hr.employee.email") == exit_codes.OK
    told = json.loads(capsys.readouterr().out)
    assert told["decision"] == "allowed"
    assert told["access"] == "select"
    assert told["policy"]["name"] == "analysts read who works where"
    assert told["mask"]["type"] == "MASK"
    assert told["mask"]["policy"]["name"] == "contact data of employees"
    assert told["filter"] is None
    assert told["resource"]["column"] == "email"
    assert all(found["why"] for found in told["considered"])
    assert [f["policy"]["name"] for f in told["considered"] if f["settled"]] == [
        "analysts read who works where",
        "contact data of employees",
    ]


def test_the_settings_tell_policies_and_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text(f"policies: {{paths: [{PACKS}]}}\nusers: {{file: users.yaml}}\n")
    asked = ("-c", str(config), "--as", "bob")
    assert run("explain", *asked, "use", "spark_catalog.hr") == exit_codes.FAULTS
    assert "--groups" in capsys.readouterr().err
    assert run("explain", *asked, "--groups", "analysts", "use", "spark_catalog.hr") == exit_codes.OK


def test_a_name_that_begins_with_no_catalog_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A gateway asks for `hr.employee` below the session's catalog: of a catalog `hr` nothing is true.
    config = tmp_path / "gateway.yaml"
    config.write_text(
        f"policies: {{paths: [{PACKS}], catalogs: {{spark_catalog: spark, lake: spark}}}}\n"
        "users: {file: users.yaml}\n"
    )
    asked = ("-c", str(config), "--as", "bob", "--groups", "analysts")
    assert run("explain", *asked, "use", "hr.employee") == exit_codes.FAULTS
    told = capsys.readouterr().err
    assert "`hr` is not one of the catalogs (`spark_catalog`, `lake`)" in told
    assert "`spark_catalog.hr.employee`" in told
    assert run("explain", *asked, "use", "LAKE.hr") == exit_codes.REFUSED
    assert run("explain", *asked, "set", "setting:spark.sql.ansi.enabled") in (
        exit_codes.OK,
        exit_codes.REFUSED,
    )


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (("--groups", "sales", "--from", "10.1.1.1", "select", "spark_catalog.d.t.x"), True),
        (("--groups", "sales", "--from", "11.1.1.1", "select", "spark_catalog.d.t.x"), False),
        (("--groups", "hr", "_any", "spark_catalog.d"), True),
        (("--groups", "hr", "select", "spark_catalog.`d`.t.x"), True),
        (("--groups", "hr", "read", "url:s3://b/in"), False),
        (("--groups", "hr", "read", "s3://b/in"), False),
        (("--groups", "hr", "execute", "udf:spark_catalog.d.f"), False),
        (("--groups", "hr", "set", "setting:spark.sql.ansi.enabled"), False),
        (("--groups", "hr", "--service", "spark", "select", "spark_catalog.d.t.x"), True),
    ],
)
def test_circumstances_and_kinds_of_resources(
    sides: tuple[str, str],
    arguments: tuple[str, ...],
    allowed: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run("explain", "--policies", sides[1], "--as", "x", *arguments)
    assert code == (exit_codes.OK if allowed else exit_codes.REFUSED), capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("slect", "spark_catalog.d"), "no access type `slect` (did you mean `select`?)"),
        (
            ("select", "a.b.c.d.e"),
            "`a.b.c.d.e` has 5 parts; write `catalog.database.table.column`",
        ),
        (("select", "colum:a.b.c.d"), "unknown level `colum` (did you mean `column`?)"),
        (("select", "table:a.b"), "`a.b` has 2 parts; write `catalog.database.table`"),
        (("select", "a..b"), "`a..b` is not a name"),
        (("--service", "sprk", "select", "a"), "service `sprk` does not exist (did you mean `spark`?)"),
        (("--attribute", "region", "select", "a"), "`region` is not an attribute; write name=value"),
        (("--at", "noon", "select", "a"), "`noon` is not a time"),
    ],
)
def test_wrong_questions_are_sentences(
    sides: tuple[str, str],
    arguments: tuple[str, ...],
    expected: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("explain", "--policies", sides[0], "--as", "x", *arguments) == exit_codes.FAULTS
    assert expected in capsys.readouterr().err


def test_attributes_are_bound_and_tags_tried(
    sides: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--policies", sides[0], "--as", "x", "--groups", "sales", "--attribute", "region=APAC")
    assert run("explain", *asked, "--json", "select", "spark_catalog.d.t") == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["filter"]["expression"] == "region = 'APAC'"
    assert run("explain", *asked, "--tag", "PII", "--json", "select", "spark_catalog.d.t.x") == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["tags"] == [{"tag": "PII", "attributes": {}}]


def item(*groups: str) -> dict[str, Any]:
    return {"groups": list(groups), "accesses": [{"type": "select"}]}


def download(*groups: str) -> str:
    definition = {
        "name": "hive",
        "id": 3,
        "resources": [
            {"name": "database", "level": 10, "isValidLeaf": True},
            {"name": "table", "level": 20, "parent": "database", "isValidLeaf": True},
            {"name": "column", "level": 30, "parent": "table", "isValidLeaf": True},
        ],
        "accessTypes": [{"name": "select"}, {"name": "update"}],
    }
    policy = {
        "id": 7,
        "name": "p",
        "service": "dev_hive",
        "policyType": 0,
        "resources": {
            "database": {"values": ["d"]},
            "table": {"values": ["t"]},
            "column": {"values": ["*"]},
        },
        "policyItems": [item(*groups)],
    }
    return json.dumps(
        {"serviceName": "dev_hive", "policyVersion": 1, "serviceDef": definition, "policies": [policy]}
    )


# -- services without catalogs, as Ranger's hive ------------------------------------------------------------

HIVE_PACK = """\
service: hive
policies:
  - name: analysts read
    on: {database: hr, table: employee, column: [name, salary]}
    allow: [{groups: [analysts], access: [select, read]}]
  - name: pay is hidden
    on: {database: hr, table: employee, column: salary}
    mask: [{groups: [analysts], type: MASK_NULL}]
  - name: rows
    on: {database: hr, table: employee}
    filter: [{groups: [analysts], where: "region = 'EU'"}]
  - name: functions
    on: {database: hr, udf: f}
    allow: [{groups: [analysts], access: [select]}]
"""
HIVE_TABLES = """\
catalogs:
  lake: {hr: {employee: {columns: {name: string, salary: string, ssn: string, region: string}}}}
"""


@pytest.fixture
def lake(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "hive.yaml").write_text(HIVE_PACK)
    (tmp_path / "spark.yaml").write_text("policies: []\n")
    (tmp_path / "tables.yaml").write_text(HIVE_TABLES)
    (tmp_path / "gateway.yaml").write_text(
        "policies:\n  paths: [hive.yaml, spark.yaml]\n  catalogs: {spark_catalog: spark, lake: hive}\n"
    )
    return "-c", str(tmp_path / "gateway.yaml"), "--as", "bob", "--groups", "analysts"


@pytest.mark.parametrize(
    ("access", "resource", "allowed", "mask", "filtered"),
    [
        ("select", "lake.hr.employee.name", True, None, False),
        ("select", "LAKE.HR.employee.salary", True, "MASK_NULL", False),
        ("select", "`lake`.`hr`.employee.salary", True, "MASK_NULL", False),
        ("select", "column:lake.hr.employee.salary", True, "MASK_NULL", False),
        ("select", "lake.hr.employee.ssn", False, None, False),
        ("select", "lake.hr.employee", False, None, True),
        ("select", "table:lake.hr.employee", False, None, True),
        ("use", "lake.hr", True, None, False),
        ("_any", "lake.hr.employee", True, None, True),
        ("insert", "lake.hr.employee", False, None, True),
        ("execute", "udf:lake.hr.f", True, None, False),
        ("execute", "udf:lake.hr.g", False, None, False),
        ("select", "spark_catalog.hr.employee.name", False, None, False),
        ("use", "lake", True, None, False),
    ],
)
def test_a_catalog_of_a_service_without_catalogs_is_explained_as_it_is_governed(
    lake: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    access: str,
    resource: str,
    allowed: bool,
    mask: str | None,
    filtered: bool,
) -> None:
    code = run("explain", *lake, "--json", access, resource)
    told = json.loads(capsys.readouterr().out)
    assert (code == exit_codes.OK) is allowed, told
    assert (told["mask"] or {}).get("type") == mask
    assert (told["filter"] is not None) is filtered
    # The gateway asks its engine for the resource below its catalog, and names no service.
    plain = resource.partition(":")[2] or resource
    levels = ("catalog", "database", "udf") if resource.startswith("udf") else RESOURCE_LEVELS
    parts = [part.strip("`") for part in plain.split(".")]
    asked = AccessRequest(
        principal=Principal(user="bob", groups=frozenset({"analysts"})),
        resource=Resource(tuple(zip(levels, parts, strict=False))),
        access=access,
    )
    engine = engine_for(load_side(Path(lake[1]), {}, None))
    assert engine.decide(asked).allowed is allowed


@pytest.mark.parametrize("written", ["lake.hr.employee.salary", "hr.employee.salary"])
def test_a_service_that_is_named_is_asked_with_and_without_its_catalog(
    lake: tuple[str, ...], capsys: pytest.CaptureFixture[str], written: str
) -> None:
    assert run("explain", *lake, "--service", "hive", "--json", "select", written) == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["mask"]["type"] == "MASK_NULL"


def test_the_statement_and_the_resource_are_explained_alike(
    lake: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (*lake, "--json", "--tables", str(tmp_path / "tables.yaml"))
    code = main(["explain", *arguments, "SELECT salary FROM lake.hr.employee"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["verdict"]) == (exit_codes.OK, "cleared"), told
    kinds = {(one["kind"], one["policy"]) for one in told["obligations"]}
    assert kinds == {("mask", "pay is hidden"), ("filter", "rows")}
    assert run("explain", *lake, "--json", "select", "lake.hr.employee.salary") == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["mask"]["policy"]["name"] == "pay is hidden"


SEEN = """\
policies:
  - name: orders
    on: {catalog: spark_catalog, database: sales, table: orders, column: "*"}
    allow: [{groups: [analysts], access: [select]}]
"""
SEEN_TABLES = "catalogs: {spark_catalog: {sales: {orders: {columns: {id: int}}}, hr: {}}}\n"


@pytest.mark.in_turn(4)
@pytest.mark.parametrize(
    ("access", "resource", "statement", "allowed"),
    [
        ("use", "spark_catalog", "USE spark_catalog", True),
        ("use", "spark_catalog.sales", "USE sales", True),
        ("use", "spark_catalog.hr", "USE hr", False),
        ("show", "spark_catalog.sales.orders", "DESCRIBE TABLE sales.orders", True),
        ("show", "spark_catalog.sales", "DESCRIBE DATABASE EXTENDED sales", False),
        ("insert", "spark_catalog.sales.orders", "INSERT INTO sales.orders VALUES (1)", False),
    ],
)
def test_who_may_read_something_of_a_database_may_use_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    access: str,
    resource: str,
    statement: str,
    allowed: bool,
) -> None:
    (tmp_path / "pack.yaml").write_text(SEEN)
    (tmp_path / "tables.yaml").write_text(SEEN_TABLES)
    (tmp_path / "gateway.yaml").write_text("policies: {paths: [pack.yaml]}\n")
    asked = ("-c", str(tmp_path / "gateway.yaml"), "--as", "bob", "--groups", "analysts", "--json")
    code = exit_codes.OK if allowed else exit_codes.REFUSED
    assert run("explain", *asked, access, resource) == code
    told = json.loads(capsys.readouterr().out)
    assert (told["decision"] == "allowed", told["access"]) == (allowed, access)
    assert main(["explain", *asked, "--tables", str(tmp_path / "tables.yaml"), statement]) == code


def test_rangers_only_service_speaks_for_sparks_catalog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(download("g"))
    asked = ("explain", "--policies", str(tmp_path / "a.json"), "--as", "x", "--groups", "g", "--json")
    for name in ("spark_catalog.d.t.c", "d.t.c"):
        assert run(*asked, "select", name) == exit_codes.OK, capsys.readouterr().out
        assert json.loads(capsys.readouterr().out)["policy"]["name"] == "p"


def test_a_service_without_policies_is_said_to_be_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gateway.yaml").write_text(
        "policies:\n  catalogs: {spark_catalog: spark, lake: dev_hive}\n"
        "  ranger: [{service: dev_hive, urls: ['https://ranger:6182']}]\n"
    )
    asked = ("explain", "-c", str(tmp_path / "gateway.yaml"), "--as", "x", "--groups", "g")
    assert run(*asked, "select", "lake.hr.employee") == exit_codes.FAULTS
    assert "service `dev_hive` comes from a Ranger Admin" in capsys.readouterr().err


# -- diff ----------------------------------------------------------------------------------------------------


def test_what_changes_is_told_in_groups(sides: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", *sides, "--from", "192.168.0.1") == exit_codes.DIFF_CHANGES
    out = capsys.readouterr().out
    assert "lost\n  (someone in sales): select on\n" in out
    assert "    column spark_catalog.d.t.*\n" in out
    assert "before  allowed: a policy allows it, by `read` (#1)" in out
    assert "mask changed\n  (someone in hr): select on\n    column spark_catalog.d.t.pay" in out


def test_a_comparison_for_programs(sides: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--users", sides[0], "--resource", "spark_catalog.d.t.pay", "--from", "10.0.0.1", "--json")
    assert run("diff", *sides, *arguments) == exit_codes.DIFF_CHANGES
    told = json.loads(capsys.readouterr().out)
    assert (told["changed"], told["people"], told["resources"]) == (True, 2, 1)
    assert told["changes"] == [
        {
            "kind": "mask",
            "people": ["ann", "bob"],
            "access": ["select"],
            "resources": [{"level": "column", "name": "spark_catalog.d.t.pay"}],
            "count": 2,
            "before": {"says": "no mask", "policy": None},
            "after": {"says": "MASK_NULL", "policy": {"id": 2, "name": "pay", "version": 1}},
        }
    ]


def test_the_codes_are_those_of_diff(
    sides: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("diff", sides[0], sides[0]) == 0
    assert capsys.readouterr().out.startswith("no decision changes")
    assert run("diff", *sides) == 1
    (tmp_path / "broken.yaml").write_text(OLD.replace("select", "selct"))
    (tmp_path / "other.yaml").write_text(OLD.replace("catalog:", "catlog:"))
    capsys.readouterr()
    assert run("diff", str(tmp_path / "broken.yaml"), str(tmp_path / "other.yaml")) == 2
    err = capsys.readouterr().err
    assert "broken.yaml:5: unknown access type `selct`" in err
    assert "other.yaml:4: unknown level `catlog`" in err
    assert run("diff", "--json", str(tmp_path / "absent"), sides[0]) == 2
    assert "does not exist" in json.loads(capsys.readouterr().out)["messages"][0]


def test_people_and_resources_come_from_files(
    sides: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = tmp_path / "tables.txt"
    listed.write_text("# the tables\nspark_catalog.d.t\n\nurl:s3://b/in\n")
    users = tmp_path / "users.yaml"
    set_user(users, "bob", password="long enough", groups=["sales"])
    outside = ("--from", "192.168.0.1")
    code = run("diff", *sides, "--resources", str(listed), "--principals", str(users), "--json", *outside)
    told = json.loads(capsys.readouterr().out)
    assert code == exit_codes.DIFF_CHANGES, told
    assert (told["people"], told["resources"]) == (1, 2)
    monkeypatch.setattr("sys.stdin", io.StringIO("spark_catalog.d.t.pay\n"))
    assert run("diff", *sides, "--resources", "-", *outside) == exit_codes.DIFF_CHANGES
    listed.write_text("spark_catalog.d.t.x.y.z\n")
    assert run("diff", *sides, "--resources", str(listed)) == exit_codes.DIFF_TROUBLE
    assert "has 6 parts" in capsys.readouterr().err


def test_settings_are_a_side_too(
    sides: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text("policies: {paths: [new]}\n")
    assert run("diff", str(config), sides[1]) == exit_codes.OK
    assert run("diff", sides[0], str(config)) == exit_codes.DIFF_CHANGES


def test_rangers_json_is_a_side_too(
    sides: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(download("g"))
    (tmp_path / "b.json").write_text(download("g", "h"))
    with_catalog = ("--resource", "spark_catalog.d.t.c", "-c", str(tmp_path / "gateway.yaml"))
    (tmp_path / "gateway.yaml").write_text("policies: {catalogs: {spark_catalog: dev_hive}}\n")
    sides_given = (str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert run("diff", *sides_given, *with_catalog) == exit_codes.DIFF_CHANGES
    assert "gained" in capsys.readouterr().out
    assert run("diff", str(tmp_path / "a.json"), str(tmp_path / "b.json")) == exit_codes.DIFF_CHANGES
    out = capsys.readouterr().out
    assert "gained\n  (someone in h): select on\n    column d.t.*\n" in out
    assert "`p` (#7)" in out
    assert run("diff", str(tmp_path / "a.json"), str(tmp_path / "a.json")) == exit_codes.OK


def test_a_record_and_lists_exclude_each_other(
    sides: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text("{}\n")
    code = run("diff", *sides, "-c", str(config), "--since", "7d", "--resource", "a")
    assert code == exit_codes.DIFF_TROUBLE
    assert "take users and resources from the record" in capsys.readouterr().err


# -- recorded statements -------------------------------------------------------------------------------------


def decided(
    user: str, groups: list[str], decisions: list[dict[str, Any]], address: str = "", **more: str
) -> AuditEvent:
    body = {"groups": groups, "roles": [], "cliIP": address, "decisions": decisions, "verdict": "cleared"}
    body |= more
    return AuditEvent(
        event_id="e",
        kind="decided",
        time="2026-11-20T10:00:00.000000Z",
        statement_id="s",
        gateway="g",
        user=user,
        body=body,
    )


def test_recorded_statements_are_decided_again(sides: tuple[str, str]) -> None:
    old, new = (load_side(Path(side), {}, None) for side in sides)
    columns = {
        "resource": "spark_catalog/d/t",
        "resType": "@column",
        "action": "select",
        "result": 1,
        "columns": ["id", "pay"],
    }
    path = {"resource": "s3://b/in", "resType": "@url", "action": "read", "result": 0}
    odd = {"resource": "x/y", "resType": "@thing", "action": "read", "result": 0}
    events = [
        decided("ann", ["hr"], [columns, path, odd], "10.0.0.1:5000"),
        decided("ann", ["hr"], [columns], "10.0.0.1:5001"),
        decided("bob", ["sales"], [columns], "[2001:db8::1]:5000"),
        decided("bob", ["sales"], [columns], "10.0.0.2:5000"),
    ]
    people = {"bob": Principal(user="bob", attributes=(("region", "APAC"),))}
    report = diff_recorded(old, new, events, people=people)
    found = {
        (g.cause.kind, g.people): (sorted(name for _, name in g.resources), g.count) for g in report.groups
    }
    assert found == {
        ("lost", ("bob",)): (["spark_catalog.d.t.id", "spark_catalog.d.t.pay"], 2),
        ("mask", ("ann", "bob")): (["spark_catalog.d.t.pay"], 3),
    }
    assert report.notes == ("1 recorded accesses are of resources that neither side has",)


def test_recorded_plans_are_decided_again_by_what_they_asked_for(sides: tuple[str, str]) -> None:
    """A plan's text in the record is how PySpark would write it: it is shown, never read."""
    old, new = (load_side(Path(side), {}, None) for side in sides)
    decisions: list[dict[str, Any]] = [
        {
            "resource": "spark_catalog/d/t",
            "resType": "@column",
            "action": "select",
            "result": 1,
            "columns": ["id", "pay"],
        },
        {"resource": "system/session/twice", "resType": "@udf", "action": "execute", "result": 0},
        {"resource": "pyfiles/x.py", "resType": "@artifact", "action": "create", "result": 0},
    ]
    shown = 'spark.table("d.t").select("id", <python function twice, 4 bytes>("pay"))'
    events = [
        decided("bob", ["sales"], decisions, reqData="SELECT id, twice(pay) FROM d.t"),
        decided("bob", ["sales"], decisions, reqData=shown, plan="execute", plan_class="Project"),
    ]
    reports = [diff_recorded(old, new, [one]) for one in events]
    assert reports[0] == reports[1]
    assert reports[1].groups
    assert reports[1].asked > 0


def test_filters_of_recorded_statements_have_the_users_values(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(OLD)
    (tmp_path / "b.yaml").write_text(OLD.replace("region = ", "area = "))
    old, new = (load_side(tmp_path / name, {}, None) for name in ("a.yaml", "b.yaml"))
    columns = {
        "resource": "spark_catalog/d/t",
        "resType": "@column",
        "action": "select",
        "result": 1,
        "columns": ["id", "pay"],
    }
    people = {"bob": Principal(user="bob", attributes=(("region", "APAC"),))}
    report = diff_recorded(old, new, [decided("bob", ["sales"], [columns])], people=people)
    (group,) = report.groups
    assert group.cause.before.says == "rows where region = 'APAC'"
    assert group.cause.after.says == "rows where area = 'APAC'"
    assert group.resources == (("table", "spark_catalog.d.t"),)


def test_the_record_of_a_gateway_is_searched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the bytes that a gateway's ledger wrote, made from verdicts as the gateway makes them."""
    spool = tmp_path / "ledger"
    spool.mkdir()

    async def write() -> None:
        async with ledgers.running(spool, None) as ledger:
            for _ in range(3):
                await ledger.record(samples.cleared())

    asyncio.run(write())
    rule = "{catalog: spark_catalog, database: hr, table: employee, column: '*'}"
    read = f"policies: [{{name: r, on: {rule}, allow: [{{groups: [staff], access: [select]}}]}}]\n"
    masked = read.replace("]\n", f", {{name: m, on: {rule}, mask: [{{roles: [analyst], type: MASK}}]}}]\n")
    (tmp_path / "old.yaml").write_text(read)
    (tmp_path / "new.yaml").write_text(masked)
    config = tmp_path / "gateway.yaml"
    config.write_text("users: {file: none.yaml}\n")
    monkeypatch.setattr("gateway.cli.audit.find_record", lambda settings: (None, spool))
    asked = ("diff", str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml"), "-c", str(config))
    assert run(*asked, "--since", "1h", "--json") == exit_codes.DIFF_CHANGES
    told = json.loads(capsys.readouterr().out)
    (change,) = told["changes"]
    assert (change["kind"], change["people"], change["count"]) == ("mask", ["bob"], 6)
    assert [found["name"] for found in change["resources"]] == [
        "spark_catalog.hr.employee.name",
        "spark_catalog.hr.employee.ssn",
    ]
    assert run(*asked, "--since", "1h", "--limit", "2") == exit_codes.DIFF_CHANGES
    assert "only the newest 2 statements were looked at" in capsys.readouterr().out
    assert run(*asked, "--until", "1h") == exit_codes.OK


# -- progress ------------------------------------------------------------------------------------------------


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr("gateway.cli.policy_output.time.monotonic", lambda: next(now))
    screen, pipe = Screen(), io.StringIO()
    for stream in (screen, pipe):
        with ComparisonProgress(stream) as progress:
            progress(Comparison(asked=12_000))
    assert "compared 12,000, 0 differ" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")
    assert pipe.getvalue() == ""


@pytest.mark.parametrize("action", ["explain", "diff"])
def test_help_teaches(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(action, "--help")
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert "examples:" in out
    assert "exit codes" in out
    assert "--json" in out
