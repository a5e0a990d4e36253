"""Runs the steps of a client program and prints its answers; in the Python of each `client.py`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

Steps = Mapping[str, Callable[[], Any]]

_STACK = re.compile(r"\n\s*JVM stacktrace:.*", re.S)


def answer(work: Callable[[], Any]) -> Any:
    """Return what a step gave; an error is an answer like another."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - any error is compared
        told = {"raised": type(error).__name__, "message": _STACK.sub("", str(error)).rstrip()}
        if callable(state := getattr(error, "getSqlState", None)):
            told["state"] = state()
        if callable(condition := getattr(error, "getCondition", None)):
            told["condition"] = condition()
        return told


def tell(steps: Steps, times: int = 1) -> None:
    """Run all steps, so many times in a row, and print a JSON object of their answers."""
    answers = {
        f"{turn} {name}" if times > 1 else name: answer(work)
        for turn in range(1, times + 1)
        for name, work in steps.items()
    }
    sys.stdout.write("\n" + json.dumps(answers, default=str) + "\n")
