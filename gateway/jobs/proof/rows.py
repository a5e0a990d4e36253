"""What a statement shows, in a form that can be compared: multisets of rows, whose floats may be close."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

TOLERANCE = 1e-9
"""Relative error allowed of a float: sums of floats depend on the order of rows."""
REMNANT = 1e-6
"""Absolute error allowed where floats cancel out: in another order their sum may be zero."""
_Floats = tuple[float, ...]


class ShownRow(NamedTuple):
    rest: str
    """All but its floats; the same for the same values."""
    floats: _Floats


@dataclass(frozen=True, slots=True)
class Rows:
    """Result of a statement: column names and rows."""

    names: tuple[str, ...]
    rows: tuple[ShownRow, ...]

    @classmethod
    def of(cls, names: Iterable[str], values: Iterable[Sequence[Any]]) -> Rows:
        """Return rows of values as Spark gives them."""
        return cls(tuple(names), tuple(_row(tuple(one)) for one in values))

    def count_missing(self, other: Rows, remnant: float = 0.0) -> int:
        """Return how many rows the other has not; floats may also be others by a `remnant`."""
        ours, theirs = _by_rest(self.rows), _by_rest(other.rows)
        return sum(_lone(found, theirs[rest], remnant) for rest, found in ours.items())

    def is_like(self, other: Rows, remnant: float = 0.0) -> bool:
        """Whether both are the same multiset of rows, under the same names."""
        return (
            self.names == other.names
            and len(self.rows) == len(other.rows)
            and not self.count_missing(other, remnant)
        )


def within_python(frame: Any) -> Any:
    """Return a frame with dates and times as text, for collecting: Spark has years that Python has not."""
    from pyspark.sql import functions as f

    kinds = [(one.dataType, _as_text(one.dataType)) for one in frame.schema.fields]
    if all(own == other for own, other in kinds):
        return frame
    numbered = frame.toDF(*(str(at) for at in range(len(kinds))))
    return numbered.select(*(f.col(str(at)).cast(kind) for at, (_, kind) in enumerate(kinds)))


def _as_text(kind: Any) -> Any:
    from pyspark.sql import types as t

    if isinstance(kind, t.DateType | t.TimestampType | t.TimestampNTZType):
        return t.StringType()
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(_as_text(kind.elementType), kind.containsNull)
    if isinstance(kind, t.MapType):
        return t.MapType(_as_text(kind.keyType), _as_text(kind.valueType), kind.valueContainsNull)
    if isinstance(kind, t.StructType):
        return t.StructType(
            [t.StructField(one.name, _as_text(one.dataType), one.nullable) for one in kind.fields]
        )
    return kind


def _row(values: tuple[Any, ...]) -> ShownRow:
    floats: list[float] = []
    return ShownRow(repr(_rest(values, floats)), tuple(floats))


def _rest(value: Any, floats: list[float]) -> Any:
    """Return a value without its floats, which are added to `floats` in the order in which they stand."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return [..., repr(value)]
        floats.append(value)
        return ...
    if isinstance(value, dict):
        entries = sorted(((_row((key,)), one) for key, one in value.items()), key=itemgetter(0))
        found = []
        for key, one in entries:
            floats.extend(key.floats)
            found.append((key.rest, _rest(one, floats)))
        return found
    if isinstance(value, tuple | list):
        return [_rest(one, floats) for one in value]
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def _by_rest(rows: Iterable[ShownRow]) -> defaultdict[str, Counter[_Floats]]:
    found: defaultdict[str, Counter[_Floats]] = defaultdict(Counter)
    for rest, floats in rows:
        found[rest][floats] += 1
    return found


def _lone(ours: Counter[_Floats], theirs: Counter[_Floats], remnant: float) -> int:
    """Return how many of ours find none of theirs that is close, where each is taken once."""
    ours, theirs = ours - theirs, theirs - ours
    if not ours or not theirs:
        return ours.total()
    # Those to look at lie together in the order of the column with most values.
    at = max(range(len(next(iter(ours)))), key=lambda column: len({floats[column] for floats in theirs}))
    others = sorted(theirs, key=itemgetter(at))
    places = [floats[at] for floats in others]
    lone = 0
    for floats in sorted(ours, key=itemgetter(at)):
        wanted, margin = ours[floats], 2 * TOLERANCE * abs(floats[at]) + remnant
        place = bisect_left(places, floats[at] - margin)
        while wanted and place < len(others) and places[place] <= floats[at] + margin:
            other = others[place]
            if theirs[other] and _are_close(floats, other, remnant):
                paired = min(wanted, theirs[other])
                wanted -= paired
                theirs[other] -= paired
            place += 1
        lone += wanted
    return lone


def _are_close(one: _Floats, other: _Floats, remnant: float) -> bool:
    pairs = zip(one, other, strict=True)
    return all(math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=remnant) for a, b in pairs)
