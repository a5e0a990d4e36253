"""What has changed in a long list is found by identity, wherever it stands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.list_deltas import unlike


class Thing:
    """Something with an identity and nothing else."""


THINGS = [Thing() for _ in range(3000)]
Cut = tuple[int, int, int]
CUTS = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 90), st.integers(0, 90)), max_size=5)


@given(CUTS, st.booleans())
def test_what_went_and_what_came(cuts: list[Cut], turned: bool) -> None:
    """Each cut takes some out at a place and puts others in."""
    old, others = THINGS[:2000], iter(THINGS[2000:])
    new = list(old)
    for at, out, into in cuts:
        new[at : at + out] = [next(others) for _ in range(into)]
    if turned:
        new = new[1000:] + new[:1000]
    gone, came = unlike(old, new)
    assert {id(old[i]) for i in gone.values()} == set(gone) == set(map(id, old)) - set(map(id, new))
    assert {id(new[i]) for i in came.values()} == set(came) == set(map(id, new)) - set(map(id, old))


def test_nothing_and_everything() -> None:
    assert unlike([], []) == ({}, {})
    assert unlike(THINGS, THINGS) == ({}, {})
    gone, came = unlike([], THINGS)
    assert (gone, list(came.values())) == ({}, list(range(3000)))
    gone, came = unlike(THINGS, [])
    assert (list(gone.values()), came) == (list(range(3000)), {})
