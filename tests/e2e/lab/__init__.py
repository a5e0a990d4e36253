"""A database with canaries, and a gateway whose packs are the lab's, TPC's and the generated queries'."""

from __future__ import annotations

import json
import re
from pathlib import Path

from gateway.frontends.users import read_users, set_user
from tests.e2e.running import Spark
from tests.property import world
from tests.tpcds import governed as tpcds
from tests.tpch.governed import GOVERNED, POLICIES, UNGOVERNED

CANARY = "CANARY"
HERE = Path(__file__).parent
PASSWORD = "correct horse battery"
TESTER = "tess"
"""Who may do everything that anybody can be allowed to do."""
PEOPLE = {"mallory": frozenset[str](), TESTER: frozenset[str]()} | {
    principal.user: principal.groups for principal in (UNGOVERNED, GOVERNED, tpcds.GOVERNED, world.PRINCIPAL)
}

TABLES = (
    "CREATE DATABASE lab",
    "CREATE TABLE lab.ok USING parquet AS SELECT 1 AS a, 'open' AS b",
    f"CREATE TABLE lab.secret USING parquet AS SELECT '{CANARY}-ssn' AS ssn, 1 AS a",
    "CREATE TABLE lab.masked USING parquet AS SELECT * FROM VALUES "
    f"(1, 'Ann', 'EMEA', '{CANARY}-1', 'x', '{CANARY}-salary'), "
    f"(2, '{CANARY}-name', 'AMER', '{CANARY}-2', 'y', '{CANARY}-salary') "
    "AS t(id, name, region, ssn, note, salary)",
    f"CREATE TABLE lab.vault USING parquet AS SELECT 1 AS id, '{CANARY}-pin' AS {CANARY.lower()}_pin",
    f"CREATE TABLE lab.ledger USING parquet AS SELECT 1 AS id, '{CANARY}-due' AS {CANARY.lower()}_due",
    f"CREATE VIEW lab.{CANARY.lower()}_view AS SELECT ssn FROM lab.secret",
)


def write_settings(directory: Path, spark: Spark) -> Path:
    """Write settings, users and packs of the lab's gateway."""
    directory.mkdir()
    directory.chmod(0o711)
    for user, groups in PEOPLE.items():
        set_user(directory / "users.yaml", user, password=PASSWORD, groups=sorted(groups))
    (directory / "shop.yaml").write_text(world.PACK)
    ids = {name: user.principal.id for name, user in read_users(directory / "users.yaml").items()}
    pack = (HERE / "lab.yaml").read_text()
    pack = re.sub(
        r"^( +)author: (\w+)$", lambda m: f'{m[0]}\n{m[1]}author_id: "{ids[m[2]]}"', pack, flags=re.M
    )
    (directory / "lab.yaml").write_text(pack)
    settings = {
        "listeners": {"thrift": {"port": 0}, "connect": {"port": 0}, "admin": {"port": 0}},
        "backend": spark.backend_settings(directory),
        "policies": {"paths": ["lab.yaml", str(POLICIES), str(tpcds.POLICIES), "shop.yaml"]},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "logging": {"format": "json"},
    }
    file = directory / "gateway.yaml"
    file.write_text(json.dumps(settings))
    return file
