"""A history is a list of small steps, one JSON object a line: it can be kept, read, cut down and run again.

Texts name relations as `{people}`; who runs them fills in the database. A step whose ground is missing,
because an earlier one was cut out or refused, does nothing.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happens; `DOCUMENTED` says what each field means for each `do`."""

    do: str
    by: str = ""
    """The session, as `u1 thrift 0`; empty for the operator, who works past the gateway."""
    name: str = ""
    to: str = ""
    text: str = ""
    numbers: tuple[int, ...] = ()
    both: tuple[Step, ...] = ()
    """Two steps that happen at the same time."""

    @property
    def user(self) -> str:
        return self.by.split(" ")[0]

    @property
    def endpoint(self) -> str:
        return self.by.split(" ")[1] if self.by else ""

    def __str__(self) -> str:
        return json.dumps(to_json(self), ensure_ascii=False)


DOCUMENTED = {
    # Of a session.
    "read": "`text` is a query; what it answers is compared",
    "describe": "DESCRIBE of the relation `name`",
    "show": "SHOW TABLES; only secrets are looked for",
    "use": "USE the database: from then on names are written without it",
    "set": "SET `text`",
    "temp_view": "CREATE OR REPLACE TEMPORARY VIEW `name` AS `text`; `to` is written before AS",
    "drop_temp": "DROP VIEW of the temporary view `name`",
    "cache": "CACHE TABLE of the relation `name`",
    "cache_as": "CACHE TABLE `name` AS `text`",
    "uncache": "UNCACHE TABLE IF EXISTS of the relation `name`",
    "refresh": "REFRESH TABLE of the relation `name`",
    "view": "CREATE OR REPLACE VIEW `name` AS `text`",
    "alter_view": "ALTER VIEW `name` AS `text`",
    "drop_view": "DROP VIEW `name`",
    "table": "CREATE TABLE `name` AS `text`",
    "insert": "INSERT INTO `name` `text`",
    "rename": "ALTER TABLE `name` RENAME TO `to`",
    "drop": "DROP TABLE `name`",
    "frame": "keep a DataFrame `name` of `text`; `to` is `cache` when Spark shall cache it",
    "collect": "collect the DataFrame `name`",
    "filtered": "the rows of the relation `name` for which `text` holds, as a DataFrame in bare words",
    "unwatched": "as `view`, over Thrift and asynchronously: nobody asks the gateway for its end",
    "open": "run `text` and take one row of its result, `name`",
    "fetch": "take the rest of the result `name`: it is of the moment at which it was opened",
    "stream": "a stream from table `name` to table `to` with the checkpoint `text`; with `numbers` it fails",
    "memory": "a stream from table `name` to the sink `memory`, whose view has the name `to`",
    "clone": "Spark makes a copy of the session, which is the session `to` from then on",
    "refused": "`text` must be refused, or fail",
    "same": "`text` with {c} must fail alike for the columns `name` and `to`",
    "end": "end the session; the next step of that name begins another",
    "block": "INSERT `numbers` into the table that a filter reads; the operator may do that as well",
    # Of the operator.
    "unblock": "write the table that a filter reads anew, without `numbers`",
    "policy": "the policy `name` becomes `to`: `none`, or a variant and whom it is for",
    "groups": "the groups of user `name` become `to`; a session keeps those that it began with",
    "data": "a row more in the table `name`",
    "expiring": "a row more in `timed`, until `numbers` seconds from now",
    "wait": "until every row of `timed` that was to expire has expired",
    "late": "make the table `name`, which was missing until now",
    "restart": "the gateway is started anew: sessions of HiveServer2 end, clients of Connect come back",
    "intact": "the table `name` must hold what it held",
    # Of both.
    "pair": "the two steps of `both` at the same time",
}


def to_json(step: Step) -> dict[str, Any]:
    """Return a step without what is empty."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(step):
        value = getattr(step, field.name)
        if value and field.name == "both":
            found[field.name] = [to_json(one) for one in value]
        elif value:
            found[field.name] = list(value) if isinstance(value, tuple) else value
    return found


def from_json(found: dict[str, Any]) -> Step:
    given = dict(found)
    given["numbers"] = tuple(given.get("numbers", ()))
    given["both"] = tuple(from_json(one) for one in given.get("both", ()))
    step = Step(**given)
    assert step.do in DOCUMENTED, step.do
    return step


def write(path: Path, history: Iterable[Step], note: str = "") -> None:
    """Write a history; lines that begin with `#` are for people."""
    notes = [f"# {line}" for line in note.splitlines()]
    path.write_text("\n".join([*notes, *map(str, history)]) + "\n", encoding="utf-8")


def read(path: Path) -> list[Step]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [from_json(json.loads(line)) for line in lines if line.strip() and not line.startswith("#")]
