"""`sluice tags`, and what `sluice lineage` says of policies: laundering and impact."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.app import exit_codes
from gateway.app.tag_propagation import TagPropagation, connected
from gateway.cli import main
from gateway.lineage.store import store_lineage
from gateway.settings.loading import load_settings
from tests.lineage.statements import seen

PACK = """\
tags:
  - on: {catalog: spark_catalog, database: lab, table: raw, column: ssn}
    tags: [{tag: PII, attributes: {level: "3"}}]
policies:
  - name: analysts read
    on: {catalog: spark_catalog, database: lab, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: personal data is masked
    on: {tag: PII}
    mask: [{groups: [public], type: MASK_NULL}]
"""
STATEMENT = seen("raw.ssn -> copy.id: ssn IDENTITY")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sluice(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command; two tags are proposed."""
    (tmp_path / "dsn").write_text(database)
    (tmp_path / "pack.yaml").write_text(PACK)
    config = tmp_path / "gateway.yaml"
    config.write_text(
        "policies: {paths: [pack.yaml]}\nledger: {directory: ledger, dsn: {file: dsn}}\n"
        "users: {file: users.yaml}\n"
    )

    async def fill() -> None:
        from gateway.app.policy_diff import load_side

        async with connected(database) as connection:
            await store_lineage(
                connection, [STATEMENT, seen("copy.id -> top.four: right(id, 4) TRANSFORMATION", minute=1)]
            )
        policies = load_side(config, {}, None)
        await TagPropagation(load_settings(config).tag_propagation, database, lambda: policies).look()

    asyncio.run(fill())
    capsys.readouterr()

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main([arguments[0], "-c", str(config), *arguments[1:]])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_list_tells_where_tags_come_from(sluice: Run) -> None:
    code, out, _ = sluice("tags", "list")
    assert code == exit_codes.OK
    assert [line.split() for line in out.splitlines()] == [
        ["id", "column", "tag", "state", "from"],
        ["1", "spark_catalog.lab.copy.id", "PII", "proposed", "spark_catalog.lab.raw.ssn,", "1", "step"],
        [
            *("2", "spark_catalog.lab.top.four", "PII", "proposed", "spark_catalog.lab.raw.ssn,"),
            *("changed,", "2", "steps"),
        ],
    ]
    assert "and more" in sluice("tags", "list", "-n", "1")[1]
    assert sluice("tags", "list", "lab.copy")[1].count("PII") == 1
    assert sluice("tags", "list", "--gone")[1] == "nothing is proposed\n"
    (one,) = json.loads(sluice("tags", "list", "copy.id", "--json")[1])
    assert one["attributes"] == [{"level": "3"}]


def test_one_is_shown_with_its_statements_and_history(sluice: Run) -> None:
    assert sluice("tags", "accept", "1") == (
        exit_codes.OK,
        "accepted PII on spark_catalog.lab.copy.id\n",
        "",
    )
    _, out, _ = sluice("tags", "show", "1")
    assert "PII on spark_catalog.lab.copy.id  accepted\n" in out
    assert "  with level: 3\n" in out
    assert f"    → spark_catalog.lab.copy.id  [IDENTITY]  statement {STATEMENT.statement_id}\n" in out
    assert "  accepted 2" in out
    assert json.loads(sluice("tags", "show", "1", "--json")[1])["id"] == 1
    assert [one["id"] for one in json.loads(sluice("tags", "show", "1", "2", "--json")[1])] == [1, 2]
    assert json.loads(sluice("tags", "show", "1", "9", "--json")[1])["messages"] == [
        "proposal 9 does not exist"
    ]


def test_decisions_that_cannot_be_are_told(sluice: Run) -> None:
    assert sluice("tags", "reject", "1")[0] == exit_codes.OK
    code, _, err = sluice("tags", "accept", "1")
    assert code == exit_codes.FAULTS
    assert "proposal 1 (`PII` on `spark_catalog.lab.copy.id`) was rejected by" in err
    assert sluice("tags", "accept", "1", "--again")[0] == exit_codes.OK
    assert "not a proposal number" in sluice("tags", "accept", "copy.id")[2]
    assert "proposal 9 does not exist" in sluice("tags", "show", "9")[2]
    assert "by their ids, or pass `--all`" in sluice("tags", "accept")[2]
    assert "takes one column" in sluice("tags", "list", "a", "b")[2]
    assert sluice("tags", "accept", "--all", "--tag", "GEO")[1] == "0 accepted\n"
    assert sluice("tags", "reject", "--all")[1].endswith("rejected PII on spark_catalog.lab.top.four\n")


def test_laundering_is_gone_once_the_tag_is_accepted(sluice: Run) -> None:
    code, out, _ = sluice("lineage", "laundering")
    assert code == exit_codes.LAUNDERED
    assert out == (
        "spark_catalog.lab.raw.ssn\n"
        "├─ spark_catalog.lab.copy.id\n"
        f"│  → spark_catalog.lab.copy.id  [IDENTITY]  statement {STATEMENT.statement_id}\n"
        "│  (someone in analysts): there MASK_NULL (policy `personal data is masked`); here no mask"
        " (policy `analysts read`)\n"
        + out[out.index("└─") : out.index("2 weaker")]
        + "2 weaker copies of 1 protected columns with descendants, for 2 people\n"
    )
    assert sluice("lineage", "laundering", "copy.id")[0] == exit_codes.OK
    assert sluice("lineage", "laundering", "raw.ssn")[0] == exit_codes.LAUNDERED
    found = json.loads(sluice("lineage", "laundering", "--json")[1])
    assert found["complete"]
    assert found["found"][0]["weaker"][0]["protection"] == "masked"
    sluice("tags", "accept", "--all")
    code, out, _ = sluice("lineage", "laundering")
    assert (code, out.split(" of ")[0]) == (exit_codes.OK, "no weaker copy")
    code, _, err = sluice("lineage", "laundering", "nope.nope")
    assert (code, "nope.nope" in err) == (exit_codes.LAUNDERING_TROUBLE, True)
    assert sluice("lineage", "laundering", "a.b", "c.d")[0] == exit_codes.LAUNDERING_TROUBLE


def test_impact_names_policies_and_what_a_tag_would_bring(sluice: Run) -> None:
    code, out, _ = sluice("lineage", "copy.id", "--impact", "--tag", "PII")
    assert code == exit_codes.OK
    assert "views that read it\n  (none)\n" in out
    assert "policies that name it\n  id  access `analysts read`  " in out
    assert out.endswith(
        "  spark_catalog.lab.copy.id  mask `personal data is masked`\n"
        "  spark_catalog.lab.top.four  mask `personal data is masked`\n"
    )
    found = json.loads(sluice("lineage", "raw.ssn", "--impact", "--json")[1])
    assert [(one["policy"], one["type"], one["tag"]) for one in found["policies"]] == [
        ("analysts read", "access", ""),
        ("personal data is masked", "mask", "PII"),
    ]
    assert [one["carries"] for one in found["reached"]] == ["values", "values"]


def test_check_tells_faults_of_the_rules(
    sluice: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "flows.yaml"
    rules.write_text("flows: {IDENTITY: cary}\n")
    assert main(["check", "--no-site", "--no-parser", str(rules)]) == exit_codes.FAULTS
    out = capsys.readouterr().out
    assert (
        "flows.yaml:1: `IDENTITY` must be `carry`, `ask` or `drop`, not `cary` (did you mean `carry`?)" in out
    )
    config = tmp_path / "gateway.yaml"
    config.write_text(config.read_text() + "tag_propagation: {rules: flows.yaml}\n")
    assert main(["check", "--no-site", "--no-parser", "--no-backend", str(config)]) == exit_codes.FAULTS
    assert "not `cary`" in capsys.readouterr().out


def test_a_name_forges_no_line_of_what_is_shown(sluice: Run, database: str) -> None:
    forged = "id\n  accepted 2026-11-20T09:00 by root\x1b[2J"

    async def rename() -> None:
        async with connected(database) as connection:
            await connection.execute("UPDATE sluice.tag_proposal SET column_name = $1 WHERE id = 1", forged)

    asyncio.run(rename())
    _, out, _ = sluice("tags", "show", "1")
    told = "PII on spark_catalog.lab.copy.id   accepted 2026-11-20T09:00 by root [2J"
    assert out.splitlines()[0] == f"{told}  proposed"
    assert not [line for line in out.splitlines() if line.startswith("  accepted")]
    assert sluice("tags", "accept", "1")[1] == f"accepted {told}\n"


def test_the_officers_page_has_what_somebody_has_to_look_at(sluice: Run, database: str) -> None:
    async def fill() -> None:
        async with connected(database) as connection:
            await connection.execute(
                "INSERT INTO sluice.job_run (job, version, state, runner, ended_at)"
                " VALUES ('proof', 1, 'done', '', now()), ('rollups', 3, 'done', '', now());"
                "INSERT INTO sluice.proof_alarm (run, statement_id, user_name, fingerprint, tables, what)"
                " SELECT id, gen_random_uuid(), 'ann', 'select ?', '{lab.raw}', 'rows differ'"
                " FROM sluice.job_run WHERE job = 'proof';"
                # Every day two, and today forty; of bob as many as always; of cem a few.
                "INSERT INTO sluice.rollup_refusal (day, user_name, code, resource, action, policy, endpoint,"
                " tool, attempts, first_at, last_at) SELECT day, user_name, 'ACCESS_DENIED', 'lab/raw',"
                " 'select', '', 'thrift', '', CASE WHEN user_name = 'ann' AND day = current_date THEN 40"
                "   WHEN user_name = 'bob' THEN 30 ELSE 2 END, now(), now()"
                " FROM generate_series(current_date - 40, current_date, '1 day') AS d (day),"
                "  unnest(ARRAY['ann', 'bob', 'cem']) AS u (user_name)"
            )

    asyncio.run(fill())
    code, out, _ = sluice("report", "officer", "--no-spark", "--json")
    assert code == exit_codes.OK
    parts = {part["title"].partition(",")[0]: part for part in json.loads(out)}
    counts = {title.split()[0]: part["count"] for title, part in parts.items()}
    assert counts == {"copies": 2, "undecided": 2, "statements": 1, "days": 1, "past": 0, "policies": 0}
    (copy, *_) = parts["copies with weaker protection than their source"]["found"]
    assert (copy["column"], copy["copy"]) == ("spark_catalog.lab.raw.ssn", "spark_catalog.lab.copy.id")
    (peak,) = parts["days with far more refusals of a user than before"]["found"]
    assert (peak["user"], peak["attempts"], peak["usual"], peak["mostly"]) == (
        "ann",
        40,
        2.0,
        "ACCESS_DENIED",
    )
    (unsealed,) = parts["past days with unsealed events"]["missing"]
    assert "`ledger.seal_key` is not set" in unsealed
    assert "--no-spark" in parts["policies that name missing tables or columns"]["missing"][0]
    code, out, _ = sluice("report", "officer", "--since", "30d", "--limit", "1")
    assert code == exit_codes.OK
    assert "the embedded Spark is not running" in out
    assert "… and 1 more; --limit takes more" in out
    assert "sluice lineage laundering" in out
    code, _, err = sluice("report", "officer", "--until", "1d")
    assert (code, "not `--until`" in err) == (exit_codes.FAULTS, True)
    code, _, err = sluice("report", "slow", "--no-spark")
    assert (code, "takes no `--no-spark`" in err) == (exit_codes.FAULTS, True)
