"""Superset looks at a database and draws charts, through the gateway and straight at Spark. `make night`.

Not by day: its package and what it needs take 1 GB.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import one_pack
from tests.e2e.programs.comparison import HERE, answers_of, level, require_alike
from tests.e2e.programs.conftest import FREE, GOVERNED, SHOP, Programs

pytestmark = [pytest.mark.programs, pytest.mark.night, pytest.mark.timeout(3600)]
PYTHON = HERE / "superset" / ".venv" / "bin" / "python"


def run(host: str, port: int, user: str, password: str, directory: Path) -> Any:
    directory.mkdir()
    uri = f"hive://{user}:{password.replace(' ', '%20')}@{host}:{port}/default?auth=LDAP"
    command: list[str | Path] = [PYTHON, HERE / "superset" / "client.py", uri, SHOP, directory]
    return level(answers_of(command, env={"PATH": "/usr/bin:/bin", "HOME": str(directory)}))


def test_it_is_answered_as_by_spark(programs: Programs, tmp_path: Path) -> None:
    gateway, spark = programs.gateway, programs.spark
    through = run(gateway.host, gateway.port, FREE, one_pack.PASSWORD, tmp_path / "through")
    direct = run(spark.host, spark.port, FREE, "x", tmp_path / "direct")
    require_alike("superset", through, direct)


def test_its_user_gets_masked_rows_and_charts_of_them(programs: Programs, tmp_path: Path) -> None:
    gateway = programs.gateway
    got = run(gateway.host, gateway.port, GOVERNED, one_pack.PASSWORD, tmp_path / "hers")
    assert [row[2] for row in got["rows"]] == ["xxx@x.xxxxxxx", "xx@x.xxxxxxx", "None", "xxxx@x.xxxxxxx"]
    assert "@x.example" not in json.dumps(got)
    assert got["chart"]["error"] is None
    assert not any("APAC" in row for row in got["chart"]["rows"])
    assert [one[0] for one in got["columns"]] == ["id", "name", "email", "region", "joined", "spent"]
