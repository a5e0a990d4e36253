"""Alerts and dashboards by Prometheus' own parser; tests/app/test_monitoring.py has the rest."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.deploy.conftest import ROOT

pytestmark = pytest.mark.deploy
MONITORING = ROOT / "deploy" / "monitoring"


def run(promtool: str, *words: str, cwd: Path) -> str:
    done = subprocess.run([promtool, *words], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_alerts_are_rules(promtool: str) -> None:
    assert "rules found" in run(promtool, "check", "rules", "alerts.yaml", cwd=MONITORING)


def test_the_alerts_fire_when_they_should(promtool: str) -> None:
    assert "SUCCESS" in run(promtool, "test", "rules", "alerts.test.yaml", cwd=MONITORING)


def test_every_question_of_a_dashboard_is_one(promtool: str, tmp_path: Path) -> None:
    rules = [
        {"record": "asked", "expr": target["expr"].replace("$instance", ".*")}
        for board in MONITORING.glob("*.json")
        for panel in json.loads(board.read_text())["panels"]
        for target in panel.get("targets", ())
    ]
    assert len(rules) > 30
    named = [{**rule, "labels": {"n": str(number)}} for number, rule in enumerate(rules)]
    (tmp_path / "r.yaml").write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": named}]}))
    run(promtool, "check", "rules", "r.yaml", cwd=tmp_path)
