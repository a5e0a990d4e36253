"""What digests remember changes none of them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.chain import (
    SHORT,
    _plain,
    canonical,
    digest,
    digest_of,
    digest_of_lines,
    line,
    lines_of_body,
)

ALIKE = (
    1,
    True,
    1.0,
    "1",
    0,
    False,
    0.0,
    -0.0,
    None,
    "null",
    "",
    [1],
    [True],
    [1.0],
    ["1"],
    {"a": 1},
    {"a": True},
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=SHORT + 5)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def _plainly(values: dict[str, Any]) -> bytes:
    """Return the digest of an event as docs/audit.md says it."""
    named = {
        # The lines of two values are those of no single one.
        "body." + (digest_of(key) if "\n" in key else key): value
        for key, value in values["body"].items()
    }
    named |= {name: value for name, value in values.items() if name != "body" and value is not None}
    lines = "".join(
        f"{name} {hashlib.sha256(canonical(named[name])).hexdigest()}\n" for name in sorted(named)
    )
    return hashlib.sha256(b"sluice event 1\n" + lines.encode()).digest()


@pytest.mark.parametrize("value", ALIKE + ALIKE[::-1], ids=repr)
def test_values_that_are_equal_in_python_have_digests_of_their_own(value: Any) -> None:
    assert line("rows", value) == f"rows {digest_of(value)}\n"
    assert line("rows", value) == f"rows {hashlib.sha256(canonical(value)).hexdigest()}\n"


@given(st.dictionaries(TEXTS, JSON, max_size=5))
def test_a_body_has_the_digest_that_it_had(body: dict[str, Any]) -> None:
    read = orjson.loads(orjson.dumps(body))
    values = {"user_name": "bob", "message": None, "groups": ["a", "b"], "rows": 1, "body": read}
    assert digest(values) == digest(values) == _plainly(values)
    assert digest_of_lines(lines_of_body(read)) == digest({"body": read})


@given(
    st.integers()
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.uuids()
    | st.binary(max_size=40)
    | st.datetimes(timezones=st.timezones())
    | st.booleans()
    | TEXTS
)
def test_a_value_is_written_as_json_has_it(value: Any) -> None:
    """Chains of years ago are made again by it."""
    written = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode(
        _plain(value)
    )
    assert canonical(value) == written.encode("utf-8", "surrogatepass")
