"""What one Spark has that another has not, and where each of it goes.

`make spark-diff OLD=4.2 NEW=4.3` (`python -m tests.spark_diff OLD NEW [--json] [--all]`). OLD and NEW are
minors, whose jars `sluice spark-jars` has fetched or pyspark has, or directories with `jars/`. Everything is
read from the jars: class files, `.proto` files, lists of error conditions; functions are told by the parser.

Each line is new (`+`) or gone (`-`); a new one that a table of ours has already is marked `✓`, one that has
to be put somewhere `!`. docs/upgrading-spark.md says how to go on from there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gateway.model.meaning_settings import Influence, influence
from gateway.model.reading_settings import find_pinned_value
from gateway.model.spark_minors import minor_of
from gateway.plan.classify import TABLE
from gateway.reader.java_runtime import find_java, find_spark_of
from gateway.reader.parsers import Parsers
from gateway.reader.process import ParserProcess
from gateway.reader.replies import Hello
from gateway.session.conditions import conditions as known_conditions
from gateway.settings.models import ReaderSettings
from gateway.sql.classify import (
    COMMANDS,
    FORMAT_COMMANDS,
    NAME_NODES,
    REFUSED_COMMANDS,
    REFUSED_FORMAT_COMMANDS,
)
from gateway.sql.expressions import (
    COMMAND_EXPRESSIONS,
    PARAMETERS,
    QUERY_EXPRESSIONS,
    REFUSED_EXPRESSIONS,
)
from gateway.sql.functions import (
    ALLOWED_FUNCTIONS,
    ALLOWED_TABLE_FUNCTIONS,
    INTERNAL_FUNCTIONS,
    REFUSED_FUNCTIONS,
    REFUSED_TABLE_FUNCTIONS,
)
from gateway.sql.nodes import QUERY_NODES, REFUSED_NODES
from tests.sql.class_files import ClassFiles, simple_name

BUILDERS = ("org/apache/spark/sql/catalyst/parser/", "org/apache/spark/sql/execution/SparkSql")
GRAMMAR = "org/apache/spark/sql/catalyst/parser/SqlBaseParser$"
PLAN = "org/apache/spark/sql/catalyst/plans/logical/LogicalPlan"
EXPRESSION = "org/apache/spark/sql/catalyst/expressions/Expression"
CONFIGURATIONS = re.compile(r"org/apache/spark/sql/(internal/\w*SQLConf\$?|connect/config/Connect\$?)")
_KEY = re.compile(r"spark\.sql\.[\w.]+\w")
_CONDITIONS = ("error/error-conditions.json", "error/error-classes.json")
START_S = 120.0

Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class Spark:
    """The jars of a Spark."""

    home: Path
    hello: Hello

    @property
    def classes(self) -> ClassFiles:
        return _classes(self.home)

    def made_by_builders(self, ancestor: str) -> Names:
        """Return the classes below `ancestor` that the builders of plans refer to."""
        builders = [name for name in self.classes.names if name.startswith(BUILDERS)]
        return frozenset(
            simple_name(name) for name in self.classes.concrete(self.classes.referred_to(builders), ancestor)
        )

    def packed(self, jar: str, matching: Callable[[str], bool]) -> Mapping[str, bytes]:
        """Return files in a jar; none without the jar."""
        found: dict[str, bytes] = {}
        for path in (self.home / "jars").glob(f"{jar}_*.jar"):
            with zipfile.ZipFile(path) as opened:
                found |= {name: opened.read(name) for name in opened.namelist() if matching(name)}
        return found


@cache
def _classes(home: Path) -> ClassFiles:
    return ClassFiles(home)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Something that comes and goes with a Spark."""

    name: str
    where: str
    """Where what is new goes."""
    has: Callable[[Spark], Collection[str]]
    placed: Callable[[str], bool] | None = None
    """Whether a table of ours has it; None where that cannot be told by its name."""


def alternatives(spark: Spark) -> Names:
    found = (name.removeprefix(GRAMMAR) for name in spark.classes.names if name.startswith(GRAMMAR))
    return frozenset(name.removesuffix("Context") for name in found if name.endswith("Context"))


def proto_lines(spark: Spark) -> Names:
    """Return `Message.field` of all messages of Spark Connect, and `Service.Call()` of its calls."""
    files = spark.packed("spark-connect", lambda name: name.endswith(".proto") and "spark/connect" in name)
    return frozenset(line for text in files.values() for line in fields_of(text.decode()))


def fields_of(text: str) -> list[str]:
    """Return `Message.field` for the fields, and `Service.Call()` for the calls, of a `.proto` file."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    opened: list[str] = []
    found: list[str] = []
    for statement in re.findall(r"[^;{}]*[;{}]", text):
        words = statement[:-1].split()
        outer = [name for name in opened if name]
        if call := re.match(r"\s*rpc\s+(\w+)", statement):
            found.append(".".join([*outer, f"{call[1]}()"]))
        if statement.endswith("{"):
            opened.append(words[1] if words[:1] in (["message"], ["service"]) else "")
        elif statement.endswith("}"):
            opened.pop()
        elif (field := re.search(r"(\w+)\s*=\s*\d+\s*(?:\[[^\]]*\])?\s*$", statement[:-1])) and len(
            words
        ) > 3:
            found.append(".".join([*outer, field[1]]))
    return found


def _is_known_field(name: str) -> bool:
    message, _, field = name.rpartition(".")
    return field in TABLE.get(message, ())


def settings(spark: Spark) -> Names:
    classes = spark.classes
    found = (classes.texts(name) for name in classes.names if CONFIGURATIONS.fullmatch(name))
    return frozenset(text for texts in found for text in texts if _KEY.fullmatch(text))


def conditions(spark: Spark) -> Names:
    files = spark.packed("spark-common-utils", lambda name: name in _CONDITIONS)
    # Before 4.0 the other file has them; since then it has the first digits of SQLSTATEs.
    listed = json.loads(next((files[name] for name in _CONDITIONS if name in files), b"{}"))
    subs = (f"{name}.{sub}" for name, told in listed.items() for sub in told.get("subClass", ()))
    return frozenset((*listed, *subs))


KINDS = (
    Kind(
        name="alternatives of the grammar",
        where="tests/cases/totality.yaml: a statement of each, governed or refused; its nodes are below",
        has=alternatives,
    ),
    Kind(
        name="plan nodes that the parser makes",
        where="gateway/sql/nodes.py (parts of queries), gateway/sql/classify.py (commands)",
        has=lambda spark: spark.made_by_builders(PLAN),
        placed=lambda name: any(
            name in table
            for table in (
                *(QUERY_NODES, REFUSED_NODES, COMMANDS, REFUSED_COMMANDS, NAME_NODES),
                *(FORMAT_COMMANDS, REFUSED_FORMAT_COMMANDS),
            )
        ),
    ),
    Kind(
        name="expressions that the parser makes",
        where="gateway/sql/expressions.py",
        has=lambda spark: spark.made_by_builders(EXPRESSION),
        placed=lambda name: any(
            name in table
            for table in (QUERY_EXPRESSIONS, COMMAND_EXPRESSIONS, PARAMETERS, REFUSED_EXPRESSIONS)
        ),
    ),
    Kind(
        name="functions",
        where="gateway/sql/functions.py, with SINCE; gateway/sql/total_values.py if it cannot fail",
        has=lambda spark: spark.hello.functions,
        placed=lambda name: name in ALLOWED_FUNCTIONS or name in REFUSED_FUNCTIONS,
    ),
    Kind(
        name="table functions",
        where="gateway/sql/functions.py",
        has=lambda spark: spark.hello.table_functions,
        placed=lambda name: name in ALLOWED_TABLE_FUNCTIONS or name in REFUSED_TABLE_FUNCTIONS,
    ),
    Kind(
        name="functions that Spark Connect alone finds",
        where="gateway/sql/functions.py: INTERNAL_FUNCTIONS",
        has=lambda spark: spark.hello.internal_functions,
        placed=lambda name: name in INTERNAL_FUNCTIONS,
    ),
    Kind(
        name="keywords",
        where="nowhere: the parser tells them, and clients ask for them",
        has=lambda spark: spark.hello.keywords,
    ),
    Kind(
        name="messages, fields and calls of Spark Connect",
        where="gateway/plan/classify_*.py, with gateway/plan/classify_since.py; calls: gateway/frontends",
        has=proto_lines,
        placed=_is_known_field,
    ),
    Kind(
        name="settings of sessions",
        where="gateway/model/reading_settings.py (how texts are read), gateway/model/meaning_settings.py",
        has=settings,
        placed=lambda key: find_pinned_value(key) is not None or influence(key) is not Influence.ANYTHING,
    ),
    Kind(
        name="error conditions",
        where="gateway/session/error_conditions.json, gateway/session/error_parameters.json",
        has=conditions,
        placed=lambda name: name in known_conditions(),
    ),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """What came and went of one kind."""

    kind: Kind
    new: tuple[str, ...]
    gone: tuple[str, ...]


def differences(old: Spark, new: Spark) -> list[Difference]:
    """Return what came and went, by kind."""
    found = []
    for kind in KINDS:
        before, after = frozenset(kind.has(old)), frozenset(kind.has(new))
        found.append(Difference(kind, tuple(sorted(after - before)), tuple(sorted(before - after))))
    return found


async def spark_in(home: Path) -> Spark:
    """Return what the jars of a Spark say. Its parser is started, and ended."""
    process = await ParserProcess.launch(
        find_java(), Parsers(spark_home=home), heap="512m", threads=1, start_timeout_s=START_S
    )
    try:
        return Spark(home, process.hello)
    finally:
        await process.kill()


def home_of(named: str) -> Path:
    """Return the directory of a Spark: a path, or a minor. Raises JavaNotFound, UnsupportedSpark."""
    if (Path(named) / "jars").is_dir():
        return Path(named)
    return find_spark_of(minor_of(named), ReaderSettings().spark_jars.expanduser())


def told(found: list[Difference], *, everything: bool) -> str:
    """Return the differences as text; without `everything`, not what is placed already."""
    lines = []
    for one in found:
        placed = one.kind.placed
        rows = [
            f"  + {'' if placed is None else '✓ ' if placed(name) else '! '}{name}"
            for name in one.new
            if everything or placed is None or not placed(name)
        ]
        rows += [f"  - {name}" for name in one.gone]
        lines.append(f"{one.kind.name}: {len(one.new)} new, {len(one.gone)} gone → {one.kind.where}")
        lines += rows
    return "\n".join(lines)


async def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="tests.spark_diff", description=__doc__)
    parser.add_argument("old", metavar="OLD", help="minor, or directory with `jars/`")
    parser.add_argument("new", metavar="NEW")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--all", action="store_true", help="also what a table of ours has already")
    given = parser.parse_args(arguments)
    old, new = [await spark_in(home_of(named)) for named in (given.old, given.new)]
    found = differences(old, new)
    if given.json:
        made = {d.kind.name: {"where": d.kind.where, "new": d.new, "gone": d.gone} for d in found}
        print(json.dumps(made, indent=2))
    else:
        print(told(found, everything=given.all))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
