"""Large JSON is written bit by bit, and is what one call of a JSON library makes of it."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.json_writing import Texts, pieces

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=20,
)


@given(data=st.dictionaries(st.text(max_size=2), VALUES, max_size=4), entries=st.lists(VALUES, max_size=8))
def test_the_pieces_are_the_document(data: dict[str, Any], entries: list[Any]) -> None:
    texts = Texts(orjson.dumps(entry).decode() for entry in entries)
    written = b"".join(pieces({**data, "policies": texts}))
    assert orjson.loads(written) == {**data, "policies": entries}


def test_no_single_part_is_large() -> None:
    """Each part is written in one call that holds the interpreter's lock."""
    policies = [{"id": n, "name": "x" * 100} for n in range(10_000)]
    parts = list(pieces({"policies": policies, "securityZones": {"z": {"policies": policies}}}))
    assert max(map(len, parts)) < 20_000
