"""The fuzzer: statements and plans that nobody wrote, run through an endpoint and over the governed copy.

One seed, one order of tries. Where an answer differs from the one over the copy, the difference counts
unless the statement's outcome is chance: unordered limits, samples, first values, sizes of groups of ties.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.attacks import world
from tests.attacks.corpus import corpus, fill, values
from tests.attacks.grammar import Grammar
from tests.attacks.mutations import Mutator, tokens
from tests.attacks.plans import Plans
from tests.attacks.tallies import ConnectionLimiter, Finding, Tally
from tests.attacks.trials import ENDPOINTS, Doors, speaker, try_plan, try_script

QUERIES = Path(__file__).parents[1] / "tpcds" / "queries"
CHANCE = re.compile(
    r"\b(LIMIT|OFFSET|rand|randn|uuid|shuffle|first|first_value|any_value|last|last_value|max_by|min_by|mode|"
    r"row_number|ntile|lag|lead|TABLESAMPLE|collect_list|array_agg|listagg|string_agg|monotonically_increasing_id|"
    r"current_\w+|now|session_user|user|randstr|uniform|dropDuplicates|rank|sum|avg)\b",
    re.IGNORECASE,
)
"""What may have several right answers."""
_TPCDS_TABLES = (
    "store_sales store_returns catalog_sales catalog_returns web_sales web_returns inventory "
    "date_dim time_dim customer_address customer_demographics household_demographics customer item "
    "store warehouse ship_mode promotion reason income_band call_center catalog_page web_site web_page"
).split()
_TPCDS_COLUMN = re.compile(r"\b(?:[a-z]{1,3}_)[a-z_0-9]+\b", re.IGNORECASE)


def tpcds_over(text: str) -> str:
    """Return a TPC-DS query over the tables of `world`: of its own shape, with our names."""
    tables = [f"{world.LIVE}.{shape.name}" for shape in world.SHAPES if shape.table != "denied"]
    for i, table in enumerate(_TPCDS_TABLES):
        text = re.sub(rf"\b{table}\b", tables[i % len(tables)], text, flags=re.IGNORECASE)

    def column(found: re.Match[str]) -> str:
        name = found[0].lower()
        if name.startswith(world.LIVE):
            return found[0]
        if name.endswith(("_sk", "_id", "_number", "_seq")):
            return "id"
        if "date" in name:
            return "born"
        if any(
            word in name for word in ("price", "amt", "cost", "profit", "quantity", "sales", "year", "moy")
        ):
            return "amount"
        if any(word in name for word in ("state", "county", "category", "class")):
            return "region"
        return ("name", "secret")[len(name) % 2]

    return _TPCDS_COLUMN.sub(column, text)


def seeds(chance: random.Random) -> list[str]:
    """Return the statements that mutation begins with: the corpus on random shapes, and TPC-DS's shapes."""
    found: list[str] = []
    for attacks in corpus().values():
        for attack in attacks:
            if attack.form != "sql" or "{guess}" in attack.template or "{path}" in attack.template:
                continue
            shape = chance.choice(world.SHAPES)
            text = fill(attack.template, values(shape, f"s{attack.number}", "")).replace("⏎", "\n")
            found.append(text.rsplit(";;", 1)[-1].strip())
    texts = (file.read_text(encoding="utf-8") for file in sorted(QUERIES.glob("*.sql")))
    return found + [tpcds_over(text).strip().rstrip(";") for text in texts]


class Fuzzer:
    """Tries one thing after the other; remembers how each kind of try went."""

    def __init__(self, doors: Doors, seed: int) -> None:
        self.doors = doors
        self.chance = random.Random(seed)
        self.grammar = Grammar(self.chance)
        self.plans = Plans(self.chance)
        self.seeds = seeds(self.chance)
        self.mutator = Mutator(self.chance, self.seeds)
        self.tallies: dict[str, Tally] = {}
        self._tries: tuple[tuple[str, Callable[[ConnectionLimiter], Tally]], ...] = (
            ("grown", self._grown),
            ("grown", self._grown),
            ("mutated", self._mutated),
            ("mutated", self._mutated),
            ("mutated grown", self._mutated_grown),
            ("plans", self._plan),
            ("plans", self._plan),
        )

    def step(self) -> Sequence[Finding]:
        """Try one thing; return what was found."""
        kind, attempt = self.chance.choice(self._tries)
        tally = attempt(self.chance.choice(ENDPOINTS))
        self.tallies.setdefault(kind, Tally()).add(tally)
        return tally.findings

    def _grown(self, endpoint: ConnectionLimiter) -> Tally:
        return self._script(self.grammar.statement(), endpoint)

    def _mutated(self, endpoint: ConnectionLimiter) -> Tally:
        return self._script(self.mutator.mutated(self.chance.choice(self.seeds)), endpoint)

    def _mutated_grown(self, endpoint: ConnectionLimiter) -> Tally:
        return self._script(self.mutator.mutated(self.grammar.statement()), endpoint)

    def _script(self, text: str, endpoint: ConnectionLimiter) -> Tally:
        script = [statement.strip() for statement in text.split(";;") if statement.strip()]
        # A mutation may cut anywhere; whose statement it is may not change.
        script = [statement for statement in script if speaker(statement)[0] == world.ATTACKER]
        if not script:
            return Tally()
        return try_script(self.doors, script, endpoint, marks=self._marks(text))

    def _marks(self, text: str) -> frozenset[str]:
        return frozenset({"ill", "loose"} if CHANCE.search(text) else {"ill"})

    def _plan(self, _: ConnectionLimiter) -> Tally:
        try:
            plan = self.plans.plan()
            data = plan.SerializeToString()
        except ValueError:  # an enum or a string that cannot be written
            return Tally()
        loose = CHANCE.search(str(plan)) is not None
        marks = frozenset({"loose"} if loose else ())
        return try_plan(self.doors, data, marks=marks, way=self.chance.randrange(100))


def reduced(doors: Doors, finding: Finding, tries: int = 150) -> Finding:
    """Return the same finding with as few tokens as can be found."""
    best = finding
    statement = finding.script[-1]
    before = finding.script[:-1]
    parts = tokens(statement)
    size = max(1, len(parts) // 2)
    while size and tries > 0:
        start = 0
        while start < len(parts) and tries > 0:
            tries -= 1
            shorter = parts[:start] + parts[start + size :]
            text = "".join(shorter).strip()
            if not text:
                break
            tally = try_script(doors, [*before, text], finding.endpoint, marks=frozenset({"ill"}))
            same = [f for f in tally.findings if f.what == finding.what]
            if same:
                parts, best = shorter, same[0]
            else:
                start += size
        size //= 2
    return best


def steps(fuzzer: Fuzzer, *, seconds: float | None, count: int | None) -> Iterator[Sequence[Finding]]:
    began = time.monotonic()
    done = 0
    while (seconds is None or time.monotonic() - began < seconds) and (count is None or done < count):
        done += 1
        yield fuzzer.step()


def fuzz(
    doors: Doors, *, seed: int, seconds: float | None = None, count: int | None = None, loud: bool = True
) -> dict[str, Tally]:
    """Fuzz for a time or for a number of tries; return how each kind of try went."""
    fuzzer = Fuzzer(doors, seed)
    for findings in steps(fuzzer, seconds=seconds, count=count):
        for finding in findings:
            if loud:
                is_plan = finding.script[0].startswith("root {")
                print(finding if is_plan else reduced(doors, finding), flush=True)
    return fuzzer.tallies
