"""What a program was answered through the gateway and straight at Spark, and where these may differ.

A program of somebody else's prints a JSON object: step by step, what it was answered. Both answers to a step
are equal, but for those in `differences.yaml`, each of which has its reason; and what is there does differ.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.speed import patience

HERE = Path(__file__).parent
LIST = HERE / "differences.yaml"

_OF_A_RUN = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # ids of sessions and operations
    r"|#\d+L?"  # of expressions in plans
    r"|plan_id=\d+"
    r"|0x[0-9a-f]{6,}"  # addresses that Go prints
)
_STACK = re.compile(
    r"(?:\\n\\tat [^\\]+)+(?:\\n\\t\.\.\. \d+ more)?|:\d+:-?\d+(?: [\w.$]+:[^\s\"\]]+)*"
    r"|, '[\w.$]+:[\w.$<>]+:[\w.$]*:-?\d+'"  # as Python prints a list of them
)
"""What Java prints of its stack, with and without classes; the gateway leaves most of it out."""


@dataclass(frozen=True)
class Difference:
    """A step that the gateway answers otherwise than Spark on purpose."""

    program: str
    step: str
    through: str
    """What stands in the gateway's answer."""
    direct: str
    """What stands in Spark's."""
    reason: str


def differences(file: Path = LIST) -> list[Difference]:
    """Return the list. Raises TypeError where an entry has other keys."""
    return [Difference(**entry) for entry in yaml.safe_load(file.read_text("utf-8"))]


def level(answer: Any, names: Mapping[str, str] | None = None) -> Any:
    """Return an answer without what differs from run to run; `names`: of this run → common to all."""
    text = _STACK.sub("", json.dumps(answer, sort_keys=True, ensure_ascii=False))
    text = _OF_A_RUN.sub("#", text)
    for name, common in (names or {}).items():
        text = re.sub(rf"\b{re.escape(name)}\b", common, text)
    return json.loads(text)


def require_alike(
    program: str,
    through: Mapping[str, Any],
    direct: Mapping[str, Any],
    known: Sequence[Difference] | None = None,
) -> None:
    """Require that steps are answered alike, but for what is listed; tells all that are not."""
    listed = {one.step: one for one in (differences() if known is None else known) if one.program == program}
    wrong = []
    if through.keys() != direct.keys():
        wrong.append(f"other steps: {sorted(through.keys() ^ direct.keys())}")
    for step in through.keys() & direct.keys():
        ours, theirs = through[step], direct[step]
        one = listed.get(step)
        if one is None:
            if ours != theirs:
                wrong.append(f"{step}\n  through the gateway: {_short(ours)}\n  direct: {_short(theirs)}")
        elif ours == theirs:
            wrong.append(f"{step}: listed as different, and both gave {_short(ours)}")
        elif one.through not in _short(ours, None) or one.direct not in _short(theirs, None):
            wrong.append(
                f"{step}: differs otherwise than listed\n  through the gateway: {_short(ours)}\n"
                f"  direct: {_short(theirs)}"
            )
    assert not wrong, "\n".join(sorted(wrong))


def _short(answer: Any, most: int | None = 3000) -> str:
    return json.dumps(answer, ensure_ascii=False, sort_keys=True)[:most]


def answers_of(
    command: Sequence[str | Path],
    *,
    asked: Any = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Any:
    """Run a program, given `asked` as JSON, and return what it prints last, as JSON; fails where it fails."""
    done = subprocess.run(
        list(map(str, command)),
        input=None if asked is None else json.dumps(asked),
        capture_output=True,
        text=True,
        env=None if env is None else dict(env),
        cwd=cwd,
        timeout=patience(1200),
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return json.loads(done.stdout.strip().splitlines()[-1])
