"""Runs jobs on a pyspark that there is Iceberg for: started with it on its path, told what to run as JSON.

A line of JSON on standard input is one thing to do; the answer is a line on standard output. Told to die at a
line of progress, it does so there.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from gateway.app.jobs import spark_options
from gateway.jobs.running import run_job
from gateway.settings import load_settings


def main() -> None:
    """Do what each line says."""
    from gateway.app.jobs import jobs

    settings = load_settings(Path(sys.argv[1]))
    known = jobs(settings)
    for line in sys.stdin:
        told = json.loads(line)
        answer = _ask(settings, told["sql"]) if "sql" in told else _run(settings, known[told["job"]], told)
        sys.stdout.write(json.dumps(answer, default=str) + "\n")
        sys.stdout.flush()


def _options(settings: Any, name: str) -> Any:
    from dataclasses import replace

    options = spark_options(settings, name, master="local[1]", remote=None)
    return replace(options, stop=False, shuffle_partitions=1)


def _run(settings: Any, job: Any, told: dict[str, Any]) -> dict[str, Any]:
    lines: list[str] = []

    def progress(line: str) -> None:
        lines.append(line)
        if told.get("die_at") and told["die_at"] in line:
            os.kill(os.getpid(), signal.SIGKILL)

    now = datetime.fromisoformat(told["now"])
    dsn = settings.ledger.dsn.reveal()
    try:
        run = asyncio.run(
            run_job(
                job,
                dsn=dsn,
                lake=settings.jobs.directory,
                spark=_options(settings, job.name),
                progress=progress,
                clock=lambda: now,
            )
        )
    except Exception as error:  # noqa: BLE001  # told to the test
        return {"error": f"{type(error).__name__}: {error}", "lines": lines}
    return {"rows_in": run.outcome.rows_in, "rows_out": run.outcome.rows_out, "lines": lines}


def _ask(settings: Any, text: str) -> list[dict[str, Any]]:
    from gateway.jobs.spark import open_session

    return [row.asDict(recursive=True) for row in open_session(_options(settings, "ask")).sql(text).collect()]


if __name__ == "__main__":
    main()
