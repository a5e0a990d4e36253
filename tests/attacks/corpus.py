"""The corpus: attacks by class, as templates that every shape of protection fills in.

A file of `corpus/*.sql` is a class. Its first lines, which begin with `#`, say what is tried. A line that
begins with `==` names a group of attacks, with its marks in brackets; every other line is one attack.
`corpus/connect_plans.txtpb` holds plans of Spark Connect: what follows a `==` line is one plan, in protobuf's
text format. `corpus/thrift_calls.yaml` holds metadata calls of HiveServer2.

`;;` ends a statement within an attack: its statements run in one session, one after the other. `⏎` is the
end of a line within a statement. A statement that begins with `@olga` is run by her, in a session of hers.

| mark | means |
|---|---|
| refused | Sluice refuses the last statement; nothing else may happen |
| loose | the answer over the governed copy may be another one: chance, time, names, plans |
| ill | need not be SQL |

| placeholder | stands for |
|---|---|
| `{table}`, `{t}` | the table or view, with its database and without |
| `{secret}` | the column that the attacker is after |
| `{guess}` | a raw value of it |
| `{hidden_id}` | the `id` of a row that filters hide |
| `{region}` | the `region` of those rows |
| `{open}`, `{denied}` | a table that everybody may read, and one that the attacker may not |
| `{db}`, `{own}` | the database; a name that nobody has yet, where the attacker may write |
| `{path}` | where the table's files are |
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from tests.attacks import world
from tests.attacks.canaries import STEM

DIRECTORY = Path(__file__).with_name("corpus")
MARKS = frozenset({"refused", "loose", "ill"})
_PLACEHOLDER = re.compile(r"\{(table|t|secret|guess|hidden_id|region|open|denied|db|own|path)\}")
_WRITTEN = re.compile(rf"[\w-]*{STEM}[\w-]*|9133[789]\d{{4}}|[12][89]71-03-1\d", re.IGNORECASE)


@dataclass(frozen=True)
class Attack:
    """Statements of one session, and what must come of them."""

    of: str
    """Its class."""
    group: str
    number: int
    """Its place in its class."""
    template: str
    marks: frozenset[str]
    form: Literal["sql", "plan", "call"] = "sql"

    @property
    def id(self) -> str:
        return f"{self.of}/{self.group}: {self.template}"

    @property
    def shapeless(self) -> bool:
        """Whether it is the same for every shape."""
        return self.form == "call" or not re.search(r"\{(table|t|secret|path)\}", self.template)

    def script(self, shape: world.Shape, own: str, warehouse: str) -> list[str]:
        """Return its statements against a shape; `own` is a table name that is free."""
        filled = fill(self.template, values(shape, own, warehouse))
        return [statement.strip().replace("⏎", "\n") for statement in filled.split(";;")]


def values(shape: world.Shape, own: str, warehouse: str) -> dict[str, str]:
    return {
        "table": f"{world.LIVE}.{shape.name}",
        "t": shape.name,
        "secret": shape.secret,
        "guess": world.GUESS,
        "hidden_id": str(world.HIDDEN_ID),
        "region": world.HIDDEN_REGION,
        "open": f"{world.LIVE}.open",
        "denied": f"{world.LIVE}.denied",
        "db": world.LIVE,
        "own": f"{world.MINE}.{own}",
        "path": f"{warehouse}/{world.LIVE}.db/{shape.table}",
    }


def fill(template: str, by_name: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda place: by_name[place[1]], template)


def written_in(text: str) -> list[str]:
    """Return what of the canaries a text holds itself: that may come back to who wrote it."""
    found = set(_WRITTEN.findall(text))
    return sorted(found | {name.strip("-_") for name in found}, key=len, reverse=True)


def read(file: Path) -> list[Attack]:
    """Read one class. Raises ValueError with the line that is no attack."""
    attacks: list[Attack] = []
    group, marks = "", frozenset[str]()
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip() or line.startswith("# "):
            continue
        if line.startswith("== "):
            name, _, rest = line.removeprefix("== ").partition("[")
            group, marks = name.strip(), frozenset(rest.rstrip("] ").split(", ")) - {""}
            if marks - MARKS:
                raise ValueError(f"{file.name}:{number}: unknown mark in {line!r}")
            continue
        if not group:
            raise ValueError(f"{file.name}:{number}: an attack before any group")
        attacks.append(Attack(file.stem, group, len(attacks), line, marks))
    return attacks


def read_plans(file: Path) -> list[Attack]:
    attacks: list[Attack] = []
    for block in re.split(r"^== ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        head, _, template = block.partition("\n")
        name, _, marks = head.partition("[")
        found = frozenset(marks.rstrip("] ").split(", ")) - {""}
        attacks.append(Attack(file.stem, name.strip(), len(attacks), template.strip(), found, "plan"))
    return attacks


def read_calls(file: Path) -> list[Attack]:
    loaded: list[dict[str, object]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [
        Attack(file.stem, str(call["call"]), number, json.dumps(call), frozenset({"loose"}), "call")
        for number, call in enumerate(loaded)
    ]


def corpus() -> dict[str, list[Attack]]:
    """Return every attack by class."""
    found = {file.stem: read(file) for file in sorted(DIRECTORY.glob("*.sql"))}
    found["connect_plans"] = read_plans(DIRECTORY / "connect_plans.txtpb")
    found["thrift_calls"] = read_calls(DIRECTORY / "thrift_calls.yaml")
    return found
