"""Figures in docs/sessions.md, docs/architecture and docs/threat-model.md are the limits of the program."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from gateway.catalog.live import LiveCatalog
from gateway.frontends.thrift_binary import ThriftLimits
from gateway.session.limits import SessionLimits

ROOT = Path(__file__).resolve().parents[2]
LIMITS, WIRE = SessionLimits(), ThriftLimits()
LOOKING_UP = {name: one.default for name, one in inspect.signature(LiveCatalog).parameters.items()}

FIGURES = [
    ("docs/sessions.md", "after five minutes it is refused instead", LIMITS.settle_timeout_s == 300),
    ("docs/sessions.md", "A read that runs for more than five seconds", LIMITS.overtake_s == 5),
    ("docs/sessions.md", "One look-up of a table has five minutes", LOOKING_UP["timeout_s"] == 300),
    ("docs/sessions.md", "for 5 minutes, the gateway for 10", LIMITS.detached_s == 600),
    ("docs/sessions.md", "A second after a client has gone", LIMITS.farewell_s == 1),
    ("docs/sessions.md", "at most 64 MiB a session", LIMITS.buffered_answer_bytes == 64 << 20),
    ("docs/sessions.md", "Over Thrift a request is at most 16 MiB", WIRE.max_frame_bytes == 16 << 20),
    ("docs/sessions.md", "64 calls may wait behind", WIRE.pipelined_calls == 64),
    ("docs/sessions.md", "frame that has begun 60 seconds", WIRE.frame_timeout_s == 60),
    ("docs/sessions.md", "nothing of its answer for 10 minutes", WIRE.write_timeout_s == 600),
    ("docs/threat-model.md", "remembered entry is 30 seconds old", LOOKING_UP["max_age_s"] == 30),
    ("docs/threat-model.md", "missing is remembered for one", LOOKING_UP["missing_age_s"] == 1),
    (
        "docs/threat-model.md",
        "another 15 seconds, or 60 where",
        (LIMITS.stopped_s, LIMITS.unsettled_s) == (15, 60),
    ),
    ("docs/architecture/serving.md", "ten seconds at most", LIMITS.verdict_age_s == 10),
    ("docs/architecture/serving.md", "so after five seconds a change goes ahead", LIMITS.overtake_s == 5),
]


@pytest.mark.parametrize(("page", "told", "holds"), FIGURES, ids=[told for _, told, _ in FIGURES])
def test_a_figure_that_is_told_is_the_programs(page: str, told: str, *, holds: bool) -> None:
    assert told in " ".join((ROOT / page).read_text("utf-8").split())
    assert holds
