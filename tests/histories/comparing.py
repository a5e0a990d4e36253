"""What is wrong with an answer: two of them compared, and how a difference is told."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.histories.clients import Answer
from tests.histories.steps import Step


@dataclass(frozen=True, slots=True)
class Failure:
    """What a history found: the step, who received what, and what the model says."""

    number: int
    step: Step
    what: str
    got: str = ""
    expected: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"step {self.number}: {self.step}", f"  {self.what}", f"  got:      {self.got}"]
        lines += [f"  expected: {one}" for one in self.expected]
        return "\n".join(lines)


_SUGGESTED = re.compile(r"\[(`[^\]]*`)\]|'proposal': '([^']*)'")
_NUMBERS = re.compile(r"[0-9a-f-]{36}|[0-9a-f]{32}|(?<=#)\d+|(?<=line )\d+|(?<=pos )\d+")


def without(error: str, column: str) -> str:
    """Return an error without the name that was asked for, to which suggestions are ordered by likeness."""
    error = _SUGGESTED.sub(lambda m: str(sorted((m[1] or m[2]).split(", "))), error)
    return _NUMBERS.sub("0", error).replace(column, "{c}")


def matches(answer: Answer, expected: Answer, step: Step) -> bool:
    if (answer.names, answer.types) != (expected.names, expected.types):
        return False
    if "ORDER BY id" in step.text:
        return answer.rows == expected.rows
    return answer.sorted().rows == expected.sorted().rows


def among(answer: Answer, expected: Iterable[Answer], step: Step) -> bool:
    return any(not one.error and matches(answer, one, step) for one in expected)


def wrong(number: int, step: Step, answer: Answer, expected: Iterable[Answer]) -> Failure:
    return Failure(
        number, step, "another answer than over a governed copy", str(answer), tuple(map(str, expected))
    )
