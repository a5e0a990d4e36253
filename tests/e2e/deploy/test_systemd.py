"""The systemd unit, as systemd itself reads it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.test_deploy import UNIT

pytestmark = pytest.mark.deploy


def test_systemd_understands_the_unit_and_calls_it_hardened(tmp_path: Path) -> None:
    file = tmp_path / "sluice.service"
    # Neither the environment nor its user is on this machine.
    text = UNIT.replace("/opt/sluice/bin/sluice", sys.executable)
    file.write_text(re.sub(r"^(User|Group)=sluice$", r"\1=daemon", text, flags=re.MULTILINE))
    for words in (("verify",), ("security", "--offline=true", "--threshold=25", "--no-pager")):
        done = subprocess.run(
            ["systemd-analyze", *words, str(file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert str(file) not in done.stderr, done.stderr
