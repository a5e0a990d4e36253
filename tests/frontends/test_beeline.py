"""Beeline, from the jars of pyspark, against the frontend over a fake Spark: Hive's own JDBC driver."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from gateway.reader.java_runtime import find_java, find_spark_home
from tests.frontends.listening import Gateway, listening
from tests.frontends.test_clients import answers
from tests.speed import patience

SCRIPT = """\
SELECT id, name FROM t;
SHOW DATABASES;
SELECT secret FROM t;
SELECT broken;
!tables
!columns employee
!primarykeys employee
!typeinfo
"""


async def beeline(gateway: Gateway, *more: str, password: str = "secret") -> str:
    """Run beeline to its end and return everything it prints."""
    process = await asyncio.create_subprocess_exec(
        str(find_java()),
        "-Xmx192m",
        "-cp",
        f"{find_spark_home()}/jars/*",
        "org.apache.hive.beeline.BeeLine",
        *("-u", f"jdbc:hive2://127.0.0.1:{gateway.port}/default", "-n", "bob", "-p", password),
        *("--force=true", "--outputformat=tsv2", *more),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(patience()):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out.decode()


async def test_beeline_reads_rows_errors_and_metadata(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(SCRIPT)
    async with listening() as gateway:
        answers(gateway)
        gateway.world.backend.fail["SELECT broken"] = ("[X_Y] it: is broken. SQLSTATE: 22012", "22012")
        gateway.world.catalog.add("spark_catalog.hr.employee", ("id", "int"), ("salary", "decimal(10,2)"))
        gateway.world.catalog.add("spark_catalog.hidden.x", ("id", "int"))
        out = await beeline(gateway, "-f", str(script))
    assert "Connected to: Spark SQL (version 4.3.0)" in out
    assert "1\tone\n2\tNULL" in out
    assert re.search(r"namespace\ndefault\n", out)
    assert "[SLUICE_ACCESS_DENIED]" in out
    assert "(state=42501,code=0)" in out
    assert "Error: [X_Y] it: is broken. SQLSTATE: 22012 (state=22012,code=0)" in out
    assert "spark_catalog\thr\temployee\tTABLE" in out
    assert "spark_catalog\thr\temployee\tsalary\t3\tDECIMAL(10,2)" in out
    assert "INTERVAL_DAY_TIME" in out
    assert "hidden" not in out
    assert set(gateway.world.ledger.outcomes()) == {"finished", "failed"}


async def test_beeline_is_told_that_the_password_is_wrong() -> None:
    async with listening() as gateway:
        out = await beeline(gateway, "-e", "SELECT 1", password="wrong")
        assert "Error validating the login: invalid user name or password" in out
        assert gateway.world.backend.sessions == []
