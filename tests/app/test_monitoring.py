"""Alerts and dashboards name what the gateway counts, by labels that it has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

from gateway.app.jobs_metrics import JobStates
from gateway.app.lineage_following import LineageCollector
from gateway.app.openlineage import OpenLineageCollector
from gateway.app.state_metrics import backend_gauges, dataset_gauges, metalake_gauges, source_gauges
from gateway.app.unmatched import UnmatchedPolicies
from gateway.cli.arguments import make_parser
from gateway.lineage.following import FollowerMetrics
from gateway.model.sparks import Routing
from gateway.policy.parts import combine
from gateway.session.metrics import Metrics
from gateway.session.routing.fleet import Fleet

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
ALERTS = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"][0]["rules"]
BOARDS = {path.name: json.loads(path.read_text()) for path in MONITORING.glob("*.json")}
SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
    "info": ("_info",),
}
SCRAPED = {"instance", "job"}
"""Labels that Prometheus adds to whatever it scrapes."""


def counted() -> dict[str, set[str]]:
    """Return every series that a gateway may show, with its labels."""
    found: dict[str, set[str]] = {}

    def add(name: str, kind: str | None, labels: Iterable[str]) -> None:
        for suffix in SUFFIXES[kind or ""]:
            found[name + suffix] = {*labels, *SCRAPED} | ({"le"} if suffix == "_bucket" else set())

    for one in vars(Metrics()).values():
        if isinstance(one, MetricWrapperBase):
            add(one._name, one._type, one._labelnames)
    for family in families():
        add(family.name, family.type, family._labelnames)  # type: ignore[attr-defined]
    return found


def families() -> Iterator[Metric]:
    """Yield what is asked for whenever the page is printed, of a gateway that has all of it."""
    yield from source_gauges(())
    yield from metalake_gauges(())
    yield from backend_gauges(Fleet(Routing()))
    yield from dataset_gauges(cast(Any, SimpleNamespace(findings={}, walks=())))
    yield from UnmatchedPolicies(lambda: combine((), 1, {})).collect()
    yield from JobStates({}, different=0).collect()
    yield from LineageCollector(FollowerMetrics()).collect()
    sent = SimpleNamespace(sent=0, refused=0, failures=0)
    spool = SimpleNamespace(dropped=0, backlog_bytes=0, oldest_s=0)
    yield from OpenLineageCollector(cast(Any, SimpleNamespace(progress=sent, spool=spool))).collect()


def questions() -> list[tuple[str, str]]:
    """Return every question of Prometheus, with where it stands."""
    asked = [(rule["alert"], rule["expr"]) for rule in ALERTS]
    asked += [
        (f"{name}: {panel['title']}", target["expr"])
        for name, board in BOARDS.items()
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]
    return asked


def test_every_series_and_label_that_is_asked_for_is_there() -> None:
    series = counted()
    gone = []
    for where, question in questions():
        named = re.findall(r"\b(sluice_\w+)(?:\{([^}]*)\})?", question)
        labels: set[str] = set()
        for name, matchers in named:
            labels |= series.get(name, set())
            if name not in series:
                gone.append(f"{where}: {name}")
            elif not set(re.findall(r"(\w+)\s*[=!]~?", matchers)) <= series[name]:
                gone.append(f"{where}: {name}{{{matchers}}}")
        by = {one.strip() for many in re.findall(r"by \(([^)]*)\)", question) for one in many.split(",")}
        gone += [f"{where}: by {one}" for one in by - labels]
        assert named, where
    assert gone == []


def test_every_alert_is_tried_with_series_that_are_there() -> None:
    series = counted()
    fires, tried = set(), yaml.safe_load((MONITORING / "alerts.test.yaml").read_text())["tests"]
    for one in tried:
        for given in one["input_series"]:
            name, _, labels = given["series"].partition("{")
            assert set(re.findall(r"(\w+)=", labels)) <= series[name], given
            # A label that is left out would be another alert than operators see.
            assert series[name] - SCRAPED <= set(re.findall(r"(\w+)=", labels)), given
        fires |= {asked["alertname"] for asked in one["alert_rule_test"] if "exp_alerts" in asked}
    assert fires == {rule["alert"] for rule in ALERTS}


def test_every_legend_names_a_label_that_is_left() -> None:
    series = counted()
    for board in BOARDS.values():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                by = re.findall(r"by \(([^)]*)\)", target["expr"])
                names = re.findall(r"\b(sluice_\w+)", target["expr"])
                left = {one.strip() for one in by[-1].split(",")} if by else series[names[0]]
                assert wanted <= left, panel["title"]


def test_every_code_of_an_alert_is_one_that_clients_get() -> None:
    page = (ROOT / "docs" / "connect.md").read_text("utf-8")
    codes = {
        code
        for _, question in questions()
        for value in re.findall(r'code=~?"([^"]+)"', question)
        for code in value.split("|")
    }
    assert "BACKEND_MISMATCH" in codes
    assert [code for code in codes if f"`{code}`" not in page] == []


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    names = [rule["alert"] for rule in ALERTS]
    assert len(names) == len(set(names))
    commands = make_parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        for words in re.findall(r"`sluice ([^`]+)`", rule["annotations"]["description"]):
            assert words.split()[0] in cast(dict[str, object], commands)


def test_every_alert_has_a_row_in_the_documents() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
    assert re.findall(r"^\| `(Sluice\w+)`", page, re.MULTILINE) == [rule["alert"] for rule in ALERTS]


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_a_dashboard_is_one_that_grafana_takes(name: str) -> None:
    board = BOARDS[name]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["targets"]
    assert {one["name"] for one in board["templating"]["list"]} == {"datasource", "instance"}
