"""What `sluice jobs run` says where its directory takes no more, and which runs are of a part. No Spark, no
PostgreSQL."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.app import exit_codes
from gateway.cli import main
from gateway.errors import JobBusy
from gateway.jobs.job import Job


def test_a_disk_that_is_full_is_told_with_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run_job(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file")  # as pyarrow does, without the file

    monkeypatch.setattr("gateway.cli.jobs.run_job", run_job)
    config = tmp_path / "gateway.yaml"
    (tmp_path / "dsn").write_text("postgresql://nobody@127.0.0.1:1/nothing")
    settings = {"ledger": {"directory": "ledger", "dsn": {"file": "dsn"}}, "jobs": {"directory": "lake"}}
    config.write_text(json.dumps(settings))
    assert main(["jobs", "run", "archive", "-c", str(config)]) == exit_codes.FAULTS
    assert f"`jobs.directory`: {tmp_path / 'lake'}: No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "module", "whole"),
    [
        (("jobs", "run", "verify"), "jobs", True),
        (("jobs", "run", "verify", "--from", "1d"), "jobs", False),
        (("jobs", "run", "replay"), "jobs", True),
        (("audit", "verify", "--on", "spark"), "audit_proof", True),
        (("audit", "verify", "--on", "spark", "--to", "1d"), "audit_proof", False),
        (("policy", "diff", "old.json", "new.json", "--replay"), "replay", False),
    ],
)
def test_a_run_of_a_period_or_other_policies_is_none_of_the_schedule(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    module: str,
    whole: bool,
) -> None:
    begun = list[Job]()

    async def run_job(job: Job, **_: Any) -> None:
        begun.append(job)
        raise JobBusy("somebody else runs it")

    monkeypatch.setattr(f"gateway.cli.{module}.run_job", run_job)
    config = tmp_path / "gateway.yaml"
    (tmp_path / "dsn").write_text("postgresql://nobody@127.0.0.1:1/nothing")
    settings = {"ledger": {"directory": "ledger", "dsn": {"file": "dsn"}}, "jobs": {"directory": "lake"}}
    config.write_text(json.dumps(settings))
    main([*words, "-c", str(config)])
    assert [job.whole for job in begun] == [whole]
