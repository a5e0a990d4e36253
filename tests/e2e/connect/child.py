"""Runs scenarios against one address and writes what came of each; a process of the client under test.

`python -m tests.e2e.connect.child REMOTE DATABASE SCRATCH DIRECTORY OUT [NAME…]`: OUT gets a line of JSON for
each scenario. With the environment of one client and nothing but the repository on its path.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import warnings
from pathlib import Path

import pyspark

from tests.e2e.connect import (
    scenarios_catalog,
    scenarios_code,
    scenarios_columns,
    scenarios_commands,
    scenarios_errors,
    scenarios_frames,
    scenarios_joins,
    scenarios_references,
    scenarios_session,
    scenarios_sql,
    scenarios_streams,
    scenarios_types,
    scenarios_writes,
)
from tests.e2e.connect.framework import SCENARIOS, outcome_of, place_of

GROUPS = (
    scenarios_catalog,
    scenarios_code,
    scenarios_columns,
    scenarios_commands,
    scenarios_errors,
    scenarios_frames,
    scenarios_joins,
    scenarios_references,
    scenarios_session,
    scenarios_sql,
    scenarios_streams,
    scenarios_types,
    scenarios_writes,
)
"""Importing them registers their scenarios."""
OLDEST = (4, 2)
"""The client that scenarios say nothing of the ones before: what these lack fails straight at Spark, too."""


def version() -> tuple[int, int]:
    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


def main(remote: str, db: str, scratch: str, directory: str, out: str, *names: str) -> None:
    warnings.simplefilter("ignore")
    # PySpark tells the server of a checkpoint that is no longer needed from `__del__`: when the collector
    # gets to it within another call, the client waits for itself. So collect between calls, and only there;
    # what lives on, pandas and its likes above all, is not looked at again: 0.07 s for each scenario.
    gc.disable()
    chosen = [SCENARIOS[name] for name in names] or list(SCENARIOS.values())
    with Path(out).open("w", encoding="utf-8") as lines:
        for item in chosen:
            if item.since > max(version(), OLDEST):
                continue
            started = time.monotonic()
            try:
                with place_of(remote, db, scratch, Path(directory)) as place:
                    outcome = outcome_of(item, place)
                    gc.collect()
                    gc.freeze()
            except Exception as error:  # noqa: BLE001 - a session that cannot be had is this scenario's result
                outcome = {"result": {"no session": type(error).__name__}, "message": str(error)[:4000]}
            outcome["seconds"] = round(time.monotonic() - started, 3)
            lines.write(json.dumps({"name": item.name, **outcome}) + "\n")
            lines.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
