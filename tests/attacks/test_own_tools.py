"""What the attacks rely on: canaries are found however they are written, and a seed says what is tried."""

from __future__ import annotations

import base64
import hashlib
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.attacks import canaries, floors, world
from tests.attacks.clients import Kind, is_query
from tests.attacks.corpus import MARKS, corpus, fill, values, written_in
from tests.attacks.grammar import GRAMMAR, Grammar
from tests.attacks.mutations import Mutator, tokens
from tests.attacks.plans import Plans
from tests.attacks.tallies import Tally
from tests.attacks.trials import whole_matrix

SECRET = world.GUESS
UUID = "7919a7f3-7919-4925-9133-913370001234"


@pytest.mark.parametrize(
    "leak",
    [
        SECRET.encode(),
        SECRET.lower().encode(),
        SECRET[::-1].encode(),
        SECRET.encode().hex().encode(),
        SECRET.encode().hex().upper().encode(),
        SECRET.lower().encode().hex().encode(),
        SECRET.encode("utf-16"),
        SECRET[2:8].encode(),
        base64.b64encode(SECRET.encode()),
        base64.b64encode(b"." + SECRET.encode()),
        base64.b64encode(b".." + SECRET.encode()),
        hashlib.sha256(SECRET.encode()).hexdigest().encode(),
        world.HIDDEN_COLUMN.encode(),
    ],
)
def test_a_canary_is_found_in_bytes(leak: bytes) -> None:
    assert canaries.found([b"some bytes " + leak + b" and more"], [])


@pytest.mark.parametrize(
    "shown",
    [
        f"({canaries.HIDDEN_ROWS},)",
        f"count: {canaries.HIDDEN_ROWS + canaries.VISIBLE_ROWS} rows",
        f"({world.HIDDEN_ID},)",
        f"#{canaries.HIDDEN_ROWS}",
        "(913370003,)",
        "('1971-03-12',)",
        "(datetime.date(1871, 3, 11),)",
        repr([ord(c) for c in SECRET]),
    ],
)
def test_a_canary_is_found_among_values(shown: str) -> None:
    assert canaries.found([], [shown])


@pytest.mark.parametrize(
    "harmless", ["(6,)", "1971-01-01", UUID, "17919.5", "QZX", "[Ann Bell]", "Project [id#7919]"]
)
def test_what_anybody_may_see_is_no_canary(harmless: str) -> None:
    assert canaries.found([harmless.encode()], [harmless]) is None


def test_what_the_attacker_wrote_may_come_back() -> None:
    text = f"SELECT '{world.GUESS}', {world.HIDDEN_COLUMN}"
    assert canaries.found([text.encode()], [text])
    assert canaries.found([text.encode()], [text], written=written_in(text)) is None
    assert canaries.found([f"{SECRET[:-1]}2".encode()], [], written=written_in(text))


def test_every_rule_of_the_grammar_is_there() -> None:
    named = {
        name for rule in GRAMMAR.values() for _, text in rule for name in re.findall(r"<([a-z_]+)>", text)
    }
    assert named - {"own"} <= set(GRAMMAR)
    assert set(GRAMMAR) - named == {"statement"}


def test_a_seed_says_what_is_tried() -> None:
    def drawn(seed: int) -> list[str]:
        chance = random.Random(seed)
        texts = [Grammar(chance).statement() for _ in range(50)]
        mutator = Mutator(chance, texts)
        return [*texts, *map(mutator.mutated, texts), *(str(Plans(chance).plan()) for _ in range(30))]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert all("<" not in text.replace("<>", "") or "|" in text or "< " in text for text in drawn(1)[:50])


@pytest.mark.parametrize(
    "text", ["SELECT a.b, 'x''y' -- z\n FROM `t`", "FROM t |> SELECT 1::int /* x */", "'open"]
)
def test_tokens_are_the_text(text: str) -> None:
    assert "".join(tokens(text)) == text


def test_the_copy_is_named_everywhere() -> None:
    assert world.over_the_copy("SELECT * FROM atk_live.t, ATK_LIVE.t, atk_mine.t") == (
        "SELECT * FROM atk_copy.t, atk_copy.t, atk_hers.t"
    )
    assert len({len(name) for name in (world.LIVE, world.COPY, world.MINE, world.HERS)}) == 1


def test_the_corpus_is_read_whole() -> None:
    """At least 400 attacks, none twice, and no placeholder that nothing fills in."""
    attacks = [attack for those in corpus().values() for attack in those]
    templates = [attack.template for attack in attacks]
    assert len(templates) == len(set(templates)) >= 400
    assert len(corpus()) >= 20
    assert all(attack.marks <= MARKS for attack in attacks)
    filled = [fill(re.sub(r"\$\{\w+\}", "", t), values(world.SHAPES[0], "x", "")) for t in templates]
    assert not [text for text in filled if re.search(r"\{[a-z_]+\}", text)]


def test_queries_are_told_from_commands() -> None:
    assert all(
        map(is_query, ("SELECT 1", " ( table t)", "/* x */ WITH a AS (SELECT 1) TABLE a", "-- x\nFROM t"))
    )
    assert not any(map(is_query, ("SET x", "DESCRIBE t", "CREATE TABLE t AS SELECT 1", "")))


def _went(answered: int, refused: int, shape: str = "masked") -> Tally:
    kinds: Counter[Kind] = Counter({"answered": answered, "refused": refused})
    return Tally(kinds, shapes={shape: kinds})


@pytest.mark.parametrize(("answered", "refused"), [(0, 6), (0, 200), (30, 170), (0, 20_000)])
def test_a_run_in_which_too_much_is_refused_fails(answered: int, refused: int) -> None:
    assert floors.too_few({"reads": _went(answered, refused)}, {"reads": {"shown": 0.7}})


@pytest.mark.parametrize(
    ("answered", "refused", "right"), [(1, 1, 0.7), (4, 2, 0.7), (140, 60, 0.7), (0, 200, 0.0), (0, 1, 0.7)]
)
def test_a_run_that_is_as_it_should_be_passes(answered: int, refused: int, right: float) -> None:
    assert not floors.too_few({"reads": _went(answered, refused)}, {"reads": {"shown": right}})


def test_what_is_refused_of_every_class_is_seen_in_all_of_them() -> None:
    """A share of few: no class by itself is enough to say."""
    tallies = {f"c{n}": _went(0, 2) for n in range(10)}
    known = {name: {"shown": 0.7} for name in tallies}
    assert [line.split(":")[0] for line in floors.too_few(tallies, known)] == ["all classes"]


def test_every_class_has_its_floors_and_a_corpus_of_refusals_fails() -> None:
    known = floors.floors()
    assert set(known) == set(corpus())
    refused: dict[str, Tally] = {}
    for name, attacks in corpus().items():
        shapes = {shape.name for _, shape, _ in whole_matrix(attacks)}
        assert set(known[name]) == {floors.DAY, floors.SHOWN} | ({floors.DENIED} & shapes), name
        none: Counter[Kind] = Counter({"refused": len(attacks)})
        refused[name] = Tally(shapes=dict.fromkeys(shapes, none))
    assert floors.too_few(refused)


def test_floors_are_written_beside_those_that_are_there(tmp_path: Path) -> None:
    file = tmp_path / "floors.yaml"
    floors.write({"reads": _went(7, 3)}, whole=False, file=file)
    floors.write({"reads": _went(8, 8, "denied"), "writes": _went(0, 2)}, whole=True, file=file)
    assert floors.floors(file) == {"reads": {"day": 0.6, "denied": 0.38}, "writes": {"shown": 0.0}}


def test_a_fuzzer_of_which_everything_is_refused_fails() -> None:
    assert floors.too_few_fuzzed({"grown": _went(0, 20), "plans": _went(9, 9)})
    assert not floors.too_few_fuzzed({"grown": _went(5, 15), "plans": _went(0, 2)})
