"""dbt-spark builds a small project, twice, through the gateway and straight at Spark. `make programs-test`.

It sends the same statements to both: what it sends follows from what it is told of the relations that are
there, so a view that is taken for a table would be dropped and made again. On Spark 4.1 with Delta (`make
night`) with a snapshot and a merge, which dbt has for such tables only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.frontends.login_mechanisms import IssuerLogins
from tests.e2e import one_pack
from tests.e2e.lake.worlds import OpenLake
from tests.e2e.programs.comparison import HERE, answers_of, level, require_alike
from tests.e2e.programs.conftest import FREE, GOVERNED, HERS, PACK, SHOP, TABLES, Programs
from tests.e2e.programs.turns import take_turns
from tests.e2e.running import RunningGateway, Spark
from tests.frontends.listening import listening
from tests.frontends.test_clients import answers
from tests.frontends.test_jwt_logins import Issuer, bad_tokens, token

pytestmark = [pytest.mark.programs, take_turns("dbt"), pytest.mark.timeout(3600)]
PYTHON = HERE / "dbt" / ".venv" / "bin" / "python"
COMMANDS = [["build"], ["build"], ["docs", "generate"]]
"""`build` is seed, run, snapshot and test, in the order of what needs what."""
BAD = ("error", "fail", "skipped")


@dataclass(frozen=True)
class Place:
    spark: Spark
    gateway: RunningGateway
    format: str


@pytest.fixture(
    scope="module", params=["parquet", pytest.param("delta", marks=[pytest.mark.lake, pytest.mark.night])]
)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "parquet":
        programs: Programs = request.getfixturevalue("programs")
        yield Place(programs.spark, programs.gateway, "parquet")
        return
    lakes: OpenLake = request.getfixturevalue("lakes")
    lake = lakes("4.1")
    lake.spark.query(*TABLES, user="loader")
    with lake.gateway("programs", PACK.read_text("utf-8"), {FREE: [], GOVERNED: []}) as gateway:
        yield Place(lake.spark, gateway, "delta")


def profile(host: str, port: int, user: str, password: str, schema: str) -> str:
    """Return what `docs/connect.md` says to write into profiles.yml."""
    output = {
        "type": "spark",
        "method": "thrift",
        "auth": "LDAP",
        "host": host,
        "port": port,
        "user": user,
        "password": password,
        "schema": schema,
        "threads": 1,
        "poll_interval": 1,
    }
    return json.dumps({"shop": {"target": "dev", "outputs": {"dev": output}}})


def build(place: Place, directory: Path, user: str, schema: str, *, direct: bool) -> list[dict[str, Any]]:
    """Let dbt build the project twice and generate its documents; return what came of each command."""
    to: Spark | RunningGateway = place.spark if direct else place.gateway
    shutil.copytree(HERE / "dbt" / "project", directory)
    password = "x" if direct else one_pack.PASSWORD
    (directory / "profiles.yml").write_text(profile(to.host, to.port, user, password, schema))
    answers = answers_of(
        [PYTHON, HERE / "dbt" / "client.py", json.dumps(COMMANDS)],
        cwd=directory,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(directory),
            "DBT_FORMAT": place.format,
            "DBT_SOURCE": SHOP,
            "DBT_USER": user,
            "DBT_PROFILES_DIR": str(directory),
            "DBT_PROJECT_DIR": str(directory),
        },
    )
    return [one | {"sent": by_node(one["sent"])} for one in level(answers, {schema: "{schema}"})]


def by_node(sent: list[list[str]]) -> dict[str, list[str]]:
    """Return the statements of each node in their order; nodes of one rank are built in any."""
    nodes = defaultdict(list)
    for node, text in sent:
        nodes[node].append(text)
    return dict(nodes)


def steps(commands: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        f"{number} {' '.join(command)}: {what}": answer
        for number, (command, done) in enumerate(zip(COMMANDS, commands, strict=True), 1)
        for what, answer in done.items()
    }


@contextlib.contextmanager
def emptied(spark: Spark, schema: str) -> Iterator[str]:
    """dbt makes the database itself."""
    drop = f"DROP DATABASE IF EXISTS {schema} CASCADE"
    spark.query(drop, user="loader")
    yield schema
    spark.query(drop, user="loader")


def test_it_sends_and_is_answered_the_same(place: Place, tmp_path: Path) -> None:
    with emptied(place.spark, "programs_dbt") as schema:
        through = build(place, tmp_path / "through", FREE, schema, direct=False)
        made = rows(place.spark, schema)
    with emptied(place.spark, "programs_dbt") as schema:
        direct = build(place, tmp_path / "direct", FREE, schema, direct=True)
        assert made == rows(place.spark, schema)
    assert failed(direct) == []
    require_alike("dbt", steps(through), steps(direct))


def test_under_masks_and_filters_nothing_is_dropped_wrongly(place: Place, tmp_path: Path) -> None:
    """Its user has a mask on a table that it builds, and a filter on another one."""
    with emptied(place.spark, HERS) as schema:
        hers = build(place, tmp_path / "hers", GOVERNED, schema, direct=False)
        assert failed(hers) == []
        made = rows(place.spark, schema)
        kinds = {
            name: re.search("^Type: (.*)$", text, re.M)[1]  # type: ignore[index]
            for _, name, _, text in place.spark.query(f"SHOW TABLE EXTENDED IN {schema} LIKE '*'")
        }
    with emptied(place.spark, "programs_dbt") as schema:
        direct = build(place, tmp_path / "direct", FREE, schema, direct=True)
    for ours, theirs in zip(hers, direct, strict=True):
        assert dropped(ours) == dropped(theirs)
        assert ours["nodes"].keys() == theirs["nodes"].keys()
    assert kinds["by_region"] == kinds["regions"] == "VIEW"
    assert set(kinds.values()) == {"VIEW", "MANAGED"}
    assert "@x.example" not in json.dumps(made)


def failed(commands: list[dict[str, Any]]) -> list[Any]:
    """Return what did not succeed, with what dbt says of it."""
    return [
        (number, done["exception"], {name: told for name, told in done["nodes"].items() if told[0] in BAD})
        for number, done in enumerate(commands)
        if not done["success"]
    ]


def dropped(done: dict[str, Any]) -> dict[str, list[str]]:
    found = {
        node: [text.partition("*/")[2].split() for text in texts if re.search(r"\bdrop\b", text, re.I)]
        for node, texts in done["sent"].items()
    }
    return {node: [" ".join(text) for text in texts] for node, texts in found.items() if texts}


def rows(spark: Spark, schema: str) -> dict[str, list[str]]:
    """Return what is in each relation, but for when a snapshot was taken."""
    names = [row[1] for row in spark.query(f"SHOW TABLES IN {schema}")]
    assert {"customers", "regions", "by_region", "appended", "overwritten", "countries"} <= set(names)
    return {
        name: sorted(map(repr, spark.query(f"SELECT * FROM {schema}.{name}")))
        for name in names
        if name != "members"
    }


async def test_dbt_logs_in_by_a_jwt_and_is_refused_at_once(tmp_path: Path) -> None:
    """In the place of a password; each by a `dbt debug` of the same process."""
    async with listening(mechanisms=[IssuerLogins(Issuer().logins())]) as gateway:
        answers(gateway)
        shown = [token(), *bad_tokens().values()]
        shutil.copytree(HERE / "dbt" / "project", tmp_path / "project")
        for number, one in enumerate(shown):
            (tmp_path / f"{number}").mkdir()
            written = profile("127.0.0.1", gateway.port, "Eva", one, "default")
            (tmp_path / f"{number}" / "profiles.yml").write_text(written)
        commands = [
            ["debug", "--connection", "--profiles-dir", f"{tmp_path}/{number}"]
            for number in range(len(shown))
        ]
        done = await asyncio.to_thread(
            answers_of,
            [PYTHON, HERE / "dbt" / "client.py", json.dumps(commands)],
            cwd=tmp_path / "project",
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "DBT_FORMAT": "parquet"},
        )
        assert [one["success"] for one in done] == [True, *[False] * len(bad_tokens())], done
        told = [one.body["reason"] for one in gateway.world.ledger.of("login")]
        assert told == ["", *bad_tokens()]
