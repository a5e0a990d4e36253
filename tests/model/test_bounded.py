"""What is kept of so many entries: those that were written last."""

from __future__ import annotations

from gateway.model.bounded import BoundedDict


def test_what_was_written_last_is_kept() -> None:
    kept: BoundedDict[str, int] = BoundedDict(2)
    kept["a"], kept["b"] = 1, 2
    kept["a"] = 3
    kept["c"] = 4
    assert kept == {"a": 3, "c": 4}
    kept.move_to_end("a")
    kept["d"] = 5
    assert list(kept.items()) == [("a", 3), ("d", 5)]
