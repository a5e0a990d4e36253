"""What of histories needs no Spark: how they are made and cut down, and what the model says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.histories import generate, known, steps
from tests.histories.clients import Answer
from tests.histories.comparing import Failure
from tests.histories.mends import MENDS
from tests.histories.model import State
from tests.histories.shrink import shrunk
from tests.histories.steps import Step
from tests.histories.world import LATE, TABLES, secrets_in
from tests.removals.removing import Finder, changed


def shown(state: State, by: str, name: str) -> str:
    """Return the query that stands for a relation in what a session asks."""
    verdict, texts = state.candidates(by, f"SELECT * FROM {{{name}}}", 0.0, 2_000_000_000.0)
    assert not verdict.must_refuse, verdict.must_refuse
    return " ".join(next(texts).views.values())


def test_a_seed_is_a_history_and_a_history_is_its_lines(tmp_path: Path) -> None:
    for seed in range(20):
        made = generate.history(seed)
        assert made == generate.history(seed)
        steps.write(tmp_path / "one.jsonl", made, "a note\nof two lines")
        assert steps.read(tmp_path / "one.jsonl") == made


def test_every_written_history_can_be_read() -> None:
    assert set(known.written()) > set(MENDS)
    assert all(steps.read(file) for file in known.written().values())


def test_what_the_model_shows_is_what_policies_say() -> None:
    state = State("d")
    of_u1 = shown(state, "u1 thrift 0", "people")
    assert "Kpeople1nameK" in of_u1
    assert "Kpeople2nameK" not in of_u1, "it is not of EMEA"
    assert "ssnK" not in of_u1, "masked"
    assert "9700001" in of_u1
    assert "9700001" not in shown(state, "u2 thrift 0", "people"), "hidden from u2"
    assert "Kpeople2ssnK" in shown(state, "steward connect 0", "people")
    assert "kpeople2namek" not in state.entitled("u1 thrift 0", 0.0)
    assert "Kmapped4K" not in shown(state, "u1 thrift 0", "mapped")
    state.apply(Step(do="block", numbers=(1,)))
    assert "Kmapped1K" not in shown(state, "u1 thrift 0", "over_mapped")


def test_a_view_lends_what_its_definer_may_see_now() -> None:
    state = State("d")
    state.apply(Step(do="view", by="u1 thrift 0", name="u1_v", text="SELECT id, note AS c FROM {owned}"))
    assert "Kowned2K" in shown(state, "u2 thrift 0", "u1_v"), "the reader's own filter"
    state.apply(Step(do="policy", name="deny owned", to="denied u2"))
    lent = shown(state, "u2 thrift 0", "u1_v")
    assert "Kowned1K" not in lent, "not the reader's"
    assert "Kowned2K" not in lent, "not the definer's"
    state.apply(Step(do="policy", name="deny owned", to="denied u1"))
    for by in ("u1 thrift 0", "u2 connect 0"):
        verdict, _ = state.candidates(by, "SELECT * FROM {u1_v}", 0.0, 0.0)
        assert verdict.must_refuse


def test_secrets_are_told_from_names_of_directories() -> None:
    values = {value for table in (*TABLES.values(), LATE) for row in table.rows for value in row}
    hidden = {value for value in values if str(value).startswith(("K", "97")) and value != "K"}
    assert len(hidden) == 30
    assert secrets_in(values) == {str(value).lower() for value in hidden}
    assert secrets_in("no such path: `file:///tmp/sluice-test-k8k6mjxy/k/kdocs`") == set()


def test_a_history_is_cut_down_to_what_fails() -> None:
    history = [Step(do="set", text=str(number)) for number in range(40)]

    def run(tried: list[Step]) -> Failure | None:
        texts = [step.text for step in tried]
        if "3" in texts and "17" in texts and "30" in texts:
            return Failure(texts.index("30") + 1, tried[texts.index("30")], "wrong", str(Answer()))
        return None

    failure = run(history)
    assert failure is not None
    small, last = shrunk(history, failure, run)
    assert [step.text for step in small] == ["3", "17", "30"]
    assert last.number == 3


@pytest.mark.parametrize("item", MENDS)
def test_a_mend_stands_where_it_is_taken_out(item: int) -> None:
    found = [changed(removal) for removal in MENDS[item]]
    assert not [one for one in found if isinstance(one, str)]
    assert len({one.module for one in found if isinstance(one, Finder)}) == len(found)
