"""`spark-submit` runs a job from a wheel that was built of what is here. Some 30 s of CPU."""

from __future__ import annotations

import asyncio
import os
import sys
import zipfile
from pathlib import Path

import asyncpg
import pyspark
import pytest
import yaml

from gateway.reader.java_runtime import find_java
from tests.jobs.records import DAY, day_of_events, fill

ROOT = Path(__file__).resolve().parents[2]
TELLS = "with open({!r}, 'a') as told: told.write(__file__ + '\\n')\n"
"""What the wheel's module that workers need begins with."""


@pytest.mark.in_turn(12)
async def test_the_wheel_is_the_application(database: str, tmp_path: Path) -> None:
    await fill(database, day_of_events(count=12))
    places = tmp_path / "places"
    wheel = await built(tmp_path / "dist", TELLS.format(str(places)))
    config = tmp_path / "gateway.yaml"
    (tmp_path / "dsn").write_text(database)
    config.write_text(
        yaml.safe_dump({"ledger": {"dsn": {"file": "dsn"}}, "jobs": {"directory": str(tmp_path / "lake")}})
    )
    with zipfile.ZipFile(wheel) as opened:
        script = Path(opened.extract("gateway/cli/submitted.py", tmp_path / "script"))
    conf = ("--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.log.level=ERROR")
    submit = ("--master", "local[2]", *conf, "--py-files", str(wheel), str(script))
    told = await submitted(tmp_path, *submit, "archive", "--config", str(config))
    # The driver has files of it, and Python workers have it from Spark; neither is what is installed here.
    assert "20 written" in told, told
    imported = set(places.read_text().split())
    assert any("/wheel/gateway/" in place for place in imported), imported
    assert any(".zip/gateway/" in place or ".whl/gateway/" in place for place in imported), imported
    assert not any(str(ROOT) in place for place in imported), imported
    connection = await asyncpg.connect(database)
    try:
        day = await connection.fetchrow("SELECT day, events FROM sluice.archive_day")
        events = await connection.fetchval("SELECT count(*) FROM sluice.audit_event")
        assert (day["day"], day["events"]) == (DAY.date(), events)
        run = await connection.fetchrow("SELECT job, state, application FROM sluice.job_run")
        assert (run["job"], run["state"]) == ("archive", "done")
        assert run["application"].startswith("local-")
    finally:
        await connection.close()
    refused = await submitted(tmp_path, *submit, "archive", "--master", "local[1]", "--config", str(config))
    assert "`spark-submit` already determines where Spark runs" in refused


def wheels(directory: Path) -> list[Path]:
    return list(directory.glob("*.whl"))


async def built(directory: Path, tells: str) -> Path:
    """Build the wheel, and have the module that workers need say where it is."""
    words = ("-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory))
    process = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=ROOT)
    assert await process.wait() == 0
    (wheel,) = wheels(directory)
    marked = directory / f"marked_{wheel.name}"
    with zipfile.ZipFile(wheel) as of, zipfile.ZipFile(marked, "w") as to:
        for name in of.namelist():
            text = of.read(name)
            if name == "gateway/jobs/events.py":
                text = text.replace(b"\nimport time\n", b"\nimport time\n" + tells.encode(), 1)
                assert tells.encode() in text
            to.writestr(name, text)
    return marked


async def submitted(directory: Path, *words: str) -> str:
    """Run pyspark's own `spark-submit` where there is no checkout; return what it wrote."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *words,
        cwd=directory,
        env=environment
        | {
            "JAVA_HOME": str(find_java().resolve().parent.parent),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate()
    return told.decode("utf-8", "replace")
