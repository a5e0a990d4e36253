"""Large JSON is read and written bit by bit, and means what one call of a JSON library makes of it."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy.json_writing import pieces
from gateway.sources import big_json
from gateway.sources.big_json import NotJson, parse
from tests.effort import tries

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(max_size=8)
    | st.sampled_from('{[]}",\\'),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(("policies", "id", "a", '"policies":[{', "")), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=tries(300), deadline=None)
@given(
    data=st.dictionaries(st.sampled_from(("policies", "serviceResources", "x", "")), VALUES, max_size=4),
    entries=st.lists(
        st.dictionaries(st.sampled_from(("id", "policies", "n")), VALUES, max_size=3), max_size=8
    ),
    indent=st.sampled_from((None, 2)),
    slice_bytes=st.integers(0, 60),
)
def test_any_object_is_read_as_by_one_call(
    data: dict[str, Any], entries: list[Any], indent: int | None, slice_bytes: int
) -> None:
    data = {**data, "tagPolicies": {"policies": entries}, "policies": entries}
    content = json.dumps(data, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(big_json, "SLICE_BYTES", slice_bytes)
        assert parse(content) == data
    assert orjson.loads(b"".join(pieces(data))) == data


@settings(max_examples=tries(200), deadline=None)
@given(cut=st.integers(0, 2000), slice_bytes=st.integers(0, 200))
def test_half_an_object_is_never_taken_for_a_whole_one(cut: int, slice_bytes: int) -> None:
    entries = [{"id": n, "name": f'"}},{{"id":{n}', "items": [{"id": 1}, {"id": 2}]} for n in range(40)]
    content = orjson.dumps({"serviceName": "s", "policies": entries, "z": {"policies": entries[:3]}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(big_json, "SLICE_BYTES", slice_bytes)
        with pytest.raises(NotJson):
            parse(content[: len(content) * cut // 2001])


@pytest.mark.parametrize(
    ("content", "line"),
    [(b'{\n"a": 1,\n"b": }', 3), (b"[]", 1), (b"", 1), (b'\n\n{"policies": [{"a": 1}', 3), (b'"x"', 1)],
    ids=repr,
)
def test_what_is_no_object_is_told_with_its_line(content: bytes, line: int) -> None:
    with pytest.raises(NotJson) as caught:
        parse(content)
    assert caught.value.line == line


def test_no_single_part_is_large() -> None:
    """Each part is written in one call that holds the interpreter's lock."""
    policies = [{"id": n, "name": "x" * 100} for n in range(10_000)]
    parts = list(pieces({"policies": policies, "securityZones": {"z": {"policies": policies}}}))
    assert max(map(len, parts)) < 20_000


@pytest.mark.parametrize(
    "more",
    [
        b'"p\\u006flicies": [{"id": 1}]',
        b'"p\\u006flicies": [{"": 0}]',
        b'"p\\u006flicies": [{"": -1}]',
        b'"p\\u006flicies": [{"": [1]}]',
        b'"x": ' + b"[" * 1000 + b"]" * 1000,
    ],
)
def test_what_only_a_hostile_server_writes_is_refused(more: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(big_json, "SLICE_BYTES", 10)
        with pytest.raises(NotJson):
            parse(b'{"policyDeltas": [{"id": 3}], ' + more + b', "serviceResources": [{"id": 2}]}')
