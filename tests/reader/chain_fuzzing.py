"""`python -m tests.reader.chain_fuzzing`: texts that a chain of parsers may read otherwise than Spark's own.

    python -m tests.reader.chain_fuzzing --seconds N --seed S [--minor 4.1]
        [--formats delta,iceberg] [--show N]

Statements are put together from what parsers are known to differ in: raw strings, comments, quotes, words
that an extension looks for. What the reader lets pass must be, plan by plan, what a Spark without
extensions makes of it, or a statement of an extension; so must each text that Spark keeps of it and parses
again. Says every finding as it comes, with `--show` also texts that were refused, and fails when there was a
finding.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator

from gateway.model.reading import NotParsed, NotRead, Reading
from gateway.model.spark_minors import find_supported_minor
from gateway.reader.pool import ReaderPool
from tests.reader.asking import chained
from tests.reader.chains import chained_reader

STATEMENTS = (
    "SELECT a, ssn FROM people",
    "SELECT 'x' AS c, ssn FROM db.people WHERE a = 'y'",
    "SELECT a FROM people CLUSTER BY a",
    "SELECT a AS `b`, 'c' AS `d` FROM people p JOIN other o ON p.a = o.a",
    "WITH q AS (SELECT * FROM people) SELECT * FROM q",
    "INSERT INTO other SELECT a, ssn FROM people",
    "CREATE TEMPORARY VIEW v AS SELECT a, ssn FROM people",
    "CREATE OR REPLACE TEMPORARY VIEW v COMMENT 'x' AS SELECT 'y', ssn FROM people",
    "CREATE VIEW db.v COMMENT 'x' AS SELECT a FROM people",
    "CACHE TABLE c OPTIONS ('a' = 'x') AS SELECT 'y', ssn FROM people",
    "CREATE TABLE t (a INT, b STRING COMMENT 'x') USING delta CLUSTER BY (a)",
    "CREATE TABLE t USING delta CLUSTER BY (a) COMMENT 'x' AS SELECT 'y' AS a, ssn FROM people",
    "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE t DROP BRANCH b",
    "ALTER TABLE t ADD PARTITION FIELD bucket(4, a)",
    "ALTER TABLE t WRITE ORDERED BY a",
    "DESCRIBE HISTORY people",
    "DESCRIBE TABLE people",
    "OPTIMIZE t WHERE a = 'x' ZORDER BY (b)",
    "MERGE INTO t USING people s ON t.a = s.a WHEN MATCHED THEN UPDATE SET t.b = 'x'",
    "EXPLAIN SELECT 'x', ssn FROM people",
    "CALL cat.system.expire_snapshots('t', 'x')",
    "COMMENT ON TABLE t IS 'x'",
)
PIECES = (
    "r'\\'", "R'\\'", 'r"\\"', "r'\\\\'", "'\\''", "''", "'", '"', '`', '``', "'--'", "'/*'", "'*/'",
    "'CLUSTER /*'", '*/ BY (x) ', 'CLUSTER BY (a)', 'cluster /* c */ by (a)', 'CLUSTER -- c\n BY (a)',
    "'CLUSTER BY (a)'", '`CLUSTER BY (a)`', '/* CLUSTER BY (a) */', '/*', '*/', '/* /* */ */', '/*/',
    '/**/', '/*+ BROADCAST(p) */', '/*+ x */', '--', '-- \\\n', "--'", "--'`", '-- CLUSTER BY (a)\n', '\n',
    '\r', '\t', ';', ';;', 'drop branch', "'drop branch'", '/* drop branch */', "'add partition field'",
    'write ordered by', '`drop branch`', 'HISTORY', 'history', 'DETAIL', '\u3000', '\xa0', '\u017f',
    '\u0130', '\u2028', '\u200b', '\U0001f600', '\\u0027', ' AS ', "AS `*/ BY (x) '", '{', '}', '$', '@',
    '1e400', "U&'\\0027'", "X'27'", "DATE'2020-01-01'", '$$', 'PARTITIONED BY (a)', ' SELECT ',
    ' FROM people ', ' , ssn ', 'SHALLOW CLONE people', 'NO SCAN', 'VERSION AS OF 1',
)  # fmt: skip


HEADS = (
    "", "", "", "/* /* */ */ ", "EXPLAIN ", "INSERT INTO other ", "CREATE TEMPORARY VIEW v AS ",
    "CREATE TEMPORARY VIEW v COMMENT r'\\' AS ", "CREATE VIEW db.v TBLPROPERTIES ('a' = r'\\') AS ",
    "CACHE TABLE c AS ", "CACHE TABLE c OPTIONS ('a' = r'\\') AS ", "WITH q AS (SELECT r'\\' AS a) ",
    "CREATE TABLE t USING delta CLUSTER BY (a) AS ", "CREATE TABLE t USING delta COMMENT r'\\' AS ",
)  # fmt: skip
VALUES = (r"r'\'", r"R'\'", r'r"\"', r"r'a\'", "'a'", "1", '"b"', "''", r"r'\\'", "a")
HIDDEN = (
    " CLUSTER BY (x) ", "CLUSTER /*", "*/ BY (x) ", " CLUSTER BY (x), ", "CLUSTER", " BY (x) ",
    "drop branch", "--", " CLUSTER /* */ BY (x) ", "/*", "*/", "a", " cluster by (x) ",
    " CLUSTER BY (a.b) , ssn ", "\\'", " CLUSTER BY () ",
)  # fmt: skip
TAILS = (
    "",
    "",
    " --'",
    " --'`",
    ' -- "',
    " /* ' */",
    " CLUSTER BY (a)",
    " CLUSTER BY a",
    "; --'",
    " WHERE a = '",
)


def woven(chance: random.Random) -> str:
    """Return a query whose strings, names and comments hide what Delta's parser rewrites, after values that
    it takes for the beginning of a longer one."""
    items = []
    for _ in range(chance.randint(2, 5)):
        value, hidden = chance.choice(VALUES), chance.choice(HIDDEN)
        items.append(
            chance.choice(
                (
                    value,
                    f"'{hidden}'",
                    f'"{hidden}"',
                    f"{value} AS `{hidden}`",
                    f"'{hidden}' AS `{chance.choice(HIDDEN)}' AS c",
                    f"{value} /* {hidden} */",
                    f"{value} /* /* */ {hidden} */",
                    f"{value} -- {hidden}\n",
                )
            )
        )
    items.append("ssn")
    return f"{chance.choice(HEADS)}SELECT {', '.join(items)} FROM people{chance.choice(TAILS)}"


def texts(seed: int) -> Iterator[str]:
    """Yield statements, one seed one order, without end."""
    chance = random.Random(seed)
    while True:
        if chance.random() < 0.7:
            yield woven(chance)
            continue
        text = chance.choice(STATEMENTS)
        for _ in range(chance.randint(1, 5)):
            piece, kind = chance.choice(PIECES), chance.random()
            blanks = [i for i, char in enumerate(text) if char in " ,()'`"] or [0]
            at = chance.choice(blanks) if kind < 0.8 else chance.randint(0, len(text))
            if kind < 0.3 and "'" in text[at:]:
                end = text.index("'", at) + 1
                text = text[:at] + piece + text[end:]
            else:
                text = text[:at] + chance.choice(("", " ")) + piece + chance.choice(("", " ")) + text[at:]
        yield text


async def judged(text: str, chain: ReaderPool, plain: ReaderPool) -> tuple[str, str]:
    """Return what became of a text, and what is wrong with that; nothing when nothing is."""
    answer = await chain.read(text)
    if isinstance(answer, NotParsed):
        return "not parsed", ""
    if isinstance(answer, NotRead):
        return answer.code, "" if answer.code in (
            "TWO_READINGS",
            "PARSER_FAILED",
            "UNSAFE_TEXT",
        ) else answer.message
    if answer.brought:
        return "of an extension", ""
    for one in (text, *copies(answer)):
        through, own = await chained(chain, one), await chained(plain, one)
        if through != own and not (not through and answer.root in VIEWS):
            return "passed", f"{one!r} is {through!r} to the chain and {own!r} to Spark's own"
    return "passed", ""


REFUSALS = frozenset({"TWO_READINGS", "PARSER_FAILED", "UNSAFE_TEXT"})
VIEWS = frozenset({"CreateView", "DropView", "ShowViews", "ExplainCommand"})
"""Statements that Iceberg's parser looks for a catalog for, which is not here."""


def copies(reading: Reading) -> list[str]:
    """Return the texts within a statement that Spark keeps, to parse them again."""
    kept = [command.fields.get("originalText") for command in reading.commands]
    return [text for text in kept if isinstance(text, str)]


async def fuzz(arguments: argparse.Namespace) -> int:
    minor = find_supported_minor(arguments.minor)
    formats = arguments.formats.split(",")
    tally, findings = Counter[str](), 0
    refused: list[str] = []
    async with chained_reader(minor, formats) as chain, chained_reader(minor, ()) as plain:
        tries, end = texts(arguments.seed), time.monotonic() + arguments.seconds
        while time.monotonic() < end:
            batch = [next(tries) for _ in range(16)]
            for text, (what, wrong) in zip(
                batch, await asyncio.gather(*(judged(one, chain, plain) for one in batch)), strict=True
            ):
                tally[what] += 1
                if what in ("TWO_READINGS", "PARSER_FAILED"):
                    refused.append(text)
                if wrong:
                    findings += 1
                    print(f"finding: {text!r}: {wrong}", flush=True)
    for text in sorted(set(refused), key=len)[: arguments.show]:
        print(f"refused: {text!r}")
    print(f"{tally.total()} texts in {arguments.seconds} s: {dict(tally)}; {findings} findings")
    return 1 if findings else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reader.chain_fuzzing")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minor", default="4.1")
    parser.add_argument("--formats", default="delta,iceberg")
    parser.add_argument("--show", type=int, default=0)
    return asyncio.run(fuzz(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
