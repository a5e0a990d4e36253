#!/usr/bin/env bash
# mypyc 2.4.1 (mypy 2.4.1): a program that mypy passes as strict may import as Python and fail once it is compiled.
#
# * `frozenset | dict.keys()` is a frozenset to mypy and a set when it runs: the view's own `__ror__` answers. Python never
#   notices. Compiled code checks what it stores and raises TypeError, at import for a constant.
# * A dataclass that is Generic compiles and fails at import, with and without slots: "attribute '__dict__' of 'type' objects
#   is not writable".
# * A frozen dataclass with slots compiles, but its `__init__` is still that of `dataclasses`: reading a field is fast, making
#   one is not.
#
# Who types annotations for a checker alone and means to compile later should know. Needs Python 3.11 and a C compiler.
# Fails when this changes.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q "mypy==2.4.1" "setuptools==80.9.0"
cd "$place"
mkdir keys generic frozen
cat >keys/keys.py <<'PY'
ALLOWED = frozenset({"a"})
REFUSED = {"b": 1}
KNOWN: frozenset[str] = ALLOWED | REFUSED.keys()
PY
cat >generic/generic.py <<'PY'
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")


@dataclass
class Box(Generic[V]):
    value: V


BOX = Box(1)
PY
cat >frozen/frozen.py <<'PY'
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int


class Plain:
    def __init__(self, x: int, y: int) -> None:
        self.x = x
        self.y = y


def make_points() -> float:
    began = time.perf_counter()
    for n in range(200_000):
        Point(n, n)
    return time.perf_counter() - began


def make_plain() -> float:
    began = time.perf_counter()
    for n in range(200_000):
        Plain(n, n)
    return time.perf_counter() - began
PY
compile() { (cd "$1" && "$place/venv/bin/mypyc" "$1.py" >log 2>&1); }
run() { (cd "$1" && "$place/venv/bin/python" -c "$2" 2>&1 || true) | tail -1; }

for one in keys generic frozen; do "$place/venv/bin/mypy" --strict "$one/$one.py" >/dev/null; done
before=$(run keys "import keys; print(type(keys.KNOWN).__name__)")
generic_before=$(run generic "import generic; print(generic.BOX.value)")
compile keys && compile generic && compile frozen
after=$(run keys "import keys")
generic_after=$(run generic "import generic")
ratio=$(run frozen "import frozen; print(round(min(frozen.make_points() for _ in range(5)) / min(frozen.make_plain() for _ in range(5)), 1))")
echo "frozenset | keys(): Python has a $before; compiled: $after"
echo "generic dataclass: Python has $generic_before; compiled: $generic_after"
echo "making a frozen dataclass with slots takes $ratio times as long as making a plain class, both compiled"
[ "$before" = set ]
[[ "$after" == *"frozenset object expected; got set"* ]]
[ "$generic_before" = 1 ]
[[ "$generic_after" == *"attribute '__dict__' of 'type' objects is not writable"* ]]
python3 -c "import sys; sys.exit(not $ratio > 4)"
