"""An applied recommendation lets nobody do more, and takes nothing back that somebody wrote meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.app.policy_diff import settings_side
from gateway.app.recommending import edit_pack
from gateway.errors import Faults
from gateway.jobs.recommending.advising import Adviser, Period
from gateway.policy.differences import digest_of
from gateway.policy.packs import load_packs
from gateway.settings import Settings
from gateway.settings.loading import parse_settings
from tests.policy.ranger.data import shipped

PACK = """\
service: spark
policies:
  # Salaries are for nobody else.
  - name: salaries
    on: {catalog: spark_catalog, database: hr, table: salaries, column: "*"}
    deny_all_else: true
    allow: [{groups: [hr], access: [select]}]
  - name: analysts
    on: {catalog: spark_catalog, database: hr, table: employee, column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: all of it
    on: {catalog: spark_catalog, database: hr, table: "*", column: "*"}
    allow: [{groups: [staff], access: [select]}]
"""
NO_MORE_HR: dict[str, Any] = {
    "do": "remove_item",
    "policy": "salaries",
    "list": "allow",
    "item": {"groups": ["hr"], "access": ["select"]},
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "pack.yaml").write_text(PACK)
    (tmp_path / "users.yaml").write_text("users: {}\n")
    return settings_of(tmp_path)


def settings_of(directory: Path, more: str = "") -> Settings:
    text = "policies: {paths: [pack.yaml]}\nusers: {file: users.yaml}\nledger: {directory: ledger}\n"
    return parse_settings(text + more, "gateway.yaml", directory)


def noted(edit: dict[str, Any], pack: str = PACK) -> dict[str, Any]:
    """Return an edit that says how its policy is in a pack."""
    (was,) = (
        digest_of(policy)
        for policy in load_packs({"pack.yaml": pack}, shipped()).policies()
        if policy.name == edit["policy"]
    )
    return {**edit, "was": was}


def test_what_denies_all_others_stays_when_its_last_grant_goes(settings: Settings, tmp_path: Path) -> None:
    made = edit_pack(settings, tmp_path / "pack.yaml", [noted(NO_MORE_HR)], ())
    assert "deny_all_else: true" in made.text
    assert "[hr]" not in made.text


def narrowed(*tables: str) -> list[dict[str, Any]]:
    on = {"catalog": "spark_catalog", "database": "hr", "table": list(tables), "column": "*"}
    return [noted({"do": "narrow", "policy": "analysts", "on": [on]})]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (
            "{groups: [hr], access: [select]}",
            "{groups: [hr], access: [select]}, {users: [eve], access: [select]}",
        ),
        ("table: salaries", "table: [salaries, bonus]"),
        ("    deny_all_else: true", "    description: Until the audit.\n    deny_all_else: true"),
        (
            "    deny_all_else: true",
            "    validity: [{until: '2099-12-31T00:00:00'}]\n    deny_all_else: true",
        ),
    ],
)
def test_what_was_added_since_does_not_go(settings: Settings, tmp_path: Path, was: str, becomes: str) -> None:
    pack = tmp_path / "pack.yaml"
    edits = [noted(NO_MORE_HR), noted({"do": "remove_policy", "policy": "salaries"})]
    pack.write_text(PACK.replace(was, becomes))
    for edit in edits:
        with pytest.raises(Faults, match="`salaries` has changed since"):
            edit_pack(settings, pack, [edit], ())
    # Another number, and another policy before it, change nothing of it.
    before = "policies:\n  - name: first\n    on: {catalog: c}\n    allow: [{users: [eve], access: [use]}]\n"
    pack.write_text(PACK.replace("policies:\n", before))
    assert edit_pack(settings, pack, edits[:1], ()).diff


def test_what_an_older_version_recommended_is_looked_at_again(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(Faults, match="`sluice jobs run recommend` again"):
        edit_pack(settings, tmp_path / "pack.yaml", [NO_MORE_HR], ())


def test_what_was_narrowed_meanwhile_is_not_made_wider(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(Faults, match=r"may select more of .*, but not now"):
        edit_pack(settings, tmp_path / "pack.yaml", narrowed("employee", "bonus"), ())
    assert edit_pack(settings, tmp_path / "pack.yaml", narrowed("employee"), ()).diff


def by_use(*users: str) -> list[dict[str, Any]]:
    on = {"catalog": "spark_catalog", "database": "hr", "table": "employee", "column": "name"}
    policy = {"name": "what r read", "on": on, "allow": [{"roles": ["r"], "access": ["select"]}]}
    return [
        {"do": "add_role", "name": "r", "role": {"users": list(users)}},
        {"do": "add_policy", "policy": policy},
    ]


def test_a_role_is_for_those_who_may_read_it_now(settings: Settings, tmp_path: Path) -> None:
    users = "people:\n" + "".join(
        f"  {name}: {{groups: [{group}]}}\n" for name, group in (("ann", "analysts"), ("bob", "left"))
    )
    (tmp_path / "users.yaml").write_text(users)
    assert edit_pack(settings, tmp_path / "pack.yaml", by_use("ann"), ()).diff
    with pytest.raises(Faults, match=r"bob may select more of .*, but not now"):
        edit_pack(settings, tmp_path / "pack.yaml", by_use("ann", "bob"), ())
    with pytest.raises(Faults, match=r"`users.file` has no user `eve`"):
        edit_pack(settings, tmp_path / "pack.yaml", by_use("ann", "eve"), ())


def advised(settings: Settings) -> Adviser:
    """Return who recommends by the policies as they are written now."""
    policies = settings_side(settings, {}, None)
    period = Period(days=90, since=datetime(2026, 8, 27, tzinfo=UTC), complete=True)
    return Adviser(policies=policies, period=period, needs={}, old=lambda _: True)


SOMEBODY_WROTE = """\
  - name: let in
    on: {catalog: spark_catalog, database: hr, table: TABLE, column: "*"}
    allow: [{groups: [analysts], access: [select]}]
"""


@pytest.mark.parametrize(
    "written",
    [
        SOMEBODY_WROTE,
        SOMEBODY_WROTE.replace('"*"', "name"),
        # What holds now and then, or shows less, goes as well.
        SOMEBODY_WROTE + "    conditions: {time-of-day: 8am-6pm}\n",
        SOMEBODY_WROTE.partition("    allow")[0] + "    mask: [{groups: [analysts], type: MASK_NULL}]\n",
    ],
)
def test_a_grant_that_came_since_is_not_taken_away(settings: Settings, tmp_path: Path, written: str) -> None:
    pack = tmp_path / "pack.yaml"
    closed = advised(settings).build_closing_policy("spark_catalog.other.new", {})
    far = advised(settings).advise_against_outlier("bob", ["analysts"], ["spark_catalog.hr.employee"], {})
    assert closed is not None
    assert far is not None
    for one in (closed, far):
        assert edit_pack(settings, pack, one.edits, one.cases).diff
    for one, table in ((closed, "other, table: new"), (far, "hr, table: employee")):
        pack.write_text(PACK + written.replace("hr, table: TABLE", table))
        with pytest.raises(Faults, match="`let in` denies something and is new or has changed since"):
            edit_pack(settings, pack, one.edits, one.cases)
    # What speaks of other tables, or no longer of these, takes nothing back.
    less = PACK.partition("  - name: analysts")[0] + "  - name: all" + PACK.partition("  - name: all")[2]
    pack.write_text(less + SOMEBODY_WROTE.replace("TABLE", "other"))
    for one in (closed, far):
        assert edit_pack(settings, pack, one.edits, ()).diff
    older = [{"do": "add_policy", "policy": closed.edits[0]["policy"]}]
    with pytest.raises(Faults, match="`sluice jobs run recommend` again"):
        edit_pack(settings, pack, older, ())


def test_what_is_granted_of_columns_that_nobody_has_seen_is_not_closed(
    settings: Settings, tmp_path: Path
) -> None:
    assert advised(settings).build_closing_policy("spark_catalog.other.new", {}) is not None
    anywhere = SOMEBODY_WROTE.replace("hr, table: TABLE", 'other, table: "*"')
    (tmp_path / "pack.yaml").write_text(PACK + anywhere.replace('column: "*"', "column: name"))
    assert advised(settings).build_closing_policy("spark_catalog.other.new", {}) is None


def test_what_stood_behind_another_policy_stays_when_that_one_went(
    settings: Settings, tmp_path: Path
) -> None:
    pack = tmp_path / "pack.yaml"
    twice = PACK + PACK.partition("policies:\n")[2].replace("name: ", "name: other ")
    pack.write_text(twice)
    edits = [noted({"do": "remove_policy", "policy": "analysts"}, twice)]
    assert edit_pack(settings, pack, edits, ()).diff
    pack.write_text(PACK)
    for people in ("", "  ann: {groups: [analysts]}\n", "  eve: {groups: [others]}\n"):
        (tmp_path / "users.yaml").write_text(f"people:\n{people}" if people else "users: {}\n")
        with pytest.raises(Faults, match=r"may select less of .*employee"):
            edit_pack(settings, pack, edits, ())


FILES = """\
files:
  lake: {root: "s3a://bucket/lake", administrators: [stewards]}
"""
WIDE = """\
policies:
  - name: all
    on: {catalog: spark_catalog, database: lake, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: hers
    on: {catalog: spark_catalog, database: lake, table: opened, column: "*"}
    allow: [{users: [ann], access: [select]}]
"""


@pytest.mark.parametrize("people", ["", "  sam: {groups: [analysts, stewards]}\n"])
def test_no_table_of_files_is_opened_or_closed_again(tmp_path: Path, people: str) -> None:
    pack = tmp_path / "pack.yaml"
    pack.write_text(WIDE)
    (tmp_path / "users.yaml").write_text(f"people:\n{people}" if people else "users: {}\n")
    settings = settings_of(tmp_path, FILES)

    def on(*tables: str) -> dict[str, Any]:
        return {"catalog": "spark_catalog", "database": "lake", "table": list(tables), "column": "*"}

    narrow = noted({"do": "narrow", "policy": "all", "on": [on("orders", "opened")]}, WIDE)
    role = [
        {"do": "add_role", "name": "r", "role": {"users": ["sam"]}},
        {
            "do": "add_policy",
            "policy": {"name": "r", "on": on("orders"), "allow": [{"roles": ["r"], "access": ["select"]}]},
        },
    ]
    remove = noted({"do": "remove_policy", "policy": "hers"}, WIDE)
    for edits in ([narrow], role, [remove]):
        with pytest.raises(Faults, match=r"`(orders|opened)` is a table of `files`"):
            edit_pack(settings, pack, edits, ())
    narrow = noted({"do": "narrow", "policy": "all", "on": [on("opened")]}, WIDE)
    assert edit_pack(settings, pack, [narrow], ()).diff


def test_an_edit_that_came_between_is_not_lost(settings: Settings, tmp_path: Path) -> None:
    pack = tmp_path / "pack.yaml"
    made = edit_pack(settings, pack, [noted(NO_MORE_HR)], ())
    pack.write_text(PACK + "# Wait for the auditors.\n")
    with pytest.raises(Faults, match="was changed in the meantime"):
        made.write()
    assert pack.read_text().endswith("# Wait for the auditors.\n")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_pack_stays_where_it_is_and_as_it_is_written(settings: Settings, tmp_path: Path) -> None:
    pack, elsewhere = tmp_path / "pack.yaml", tmp_path / "packs"
    elsewhere.mkdir()
    (elsewhere / "hr.yaml").write_bytes(PACK.replace("\n", "\r\n").encode())
    (elsewhere / "hr.yaml").chmod(0o640)
    pack.unlink()
    pack.symlink_to(elsewhere / "hr.yaml")
    made = edit_pack(settings, pack, [noted(NO_MORE_HR)], ())
    made.write()
    assert pack.is_symlink()
    written = (elsewhere / "hr.yaml").read_bytes()
    assert written.replace(b"\r\n", b"\n").decode() == made.text
    assert written.count(b"\n") == written.count(b"\r\n")
    assert pack.stat().st_mode & 0o777 == 0o640
