"""The tour over table formats: what it shows, and that nothing is left of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gateway.demo.lake import LAKES, TRAVELLERS
from tests.speed import patience


@pytest.mark.night
def test_the_tour_shows_every_stop_and_leaves_nothing_running(open_directory: Path) -> None:
    place = open_directory / "lake-demo"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "gateway", "lake-demo", "--exit-after-tour"),
            *("--port", "0", "--heap", "900m", "--directory", str(place)),
        ],
        capture_output=True,
        text=True,
        timeout=patience(600),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    shown = done.stdout
    for lake in LAKES:
        for stop in lake.stops:
            assert stop.title in shown
    assert "Error running query" not in shown
    refused = 2 * 2 + 2 * 2 + len(TRAVELLERS)  # MERGE and metadata on each for two people, raw rows for all
    assert shown.count(": refused, ") == refused
    hidden = "a row filter, column mask or hidden column of table"
    assert shown.count(hidden) == 4
    analysts = shown.replace("\n dave", "\0").split("\0")
    assert all("192.0.2." not in part.split("\n bob")[-1] for part in analysts[:-1])
    assert all("ann@shop.example" not in part.split("\n bob")[-1] for part in analysts[:-1])
    left = [
        p.pid for p in psutil.process_iter(["cmdline"]) if str(place) in " ".join(p.info["cmdline"] or ())
    ]
    assert not left
