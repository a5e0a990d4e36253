"""What the class files in Spark's jars say: names, ancestors and references, read without a JVM.

The format is that of the Java Virtual Machine Specification, chapter 4.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_UTF8, _CLASS = 1, 7
_SIZES = {
    **dict.fromkeys((7, 8, 16, 19, 20), 3),
    15: 4,
    **dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 5),
    **dict.fromkeys((5, 6), 9),
}
"""Bytes of a constant by its tag, which is the first of them."""
_LARGE = (5, 6)
"""Constants that count for two: long and double."""
_ABSTRACT = 0x0400


@dataclass(frozen=True, slots=True)
class ClassFile:
    abstract: bool
    parents: tuple[str, ...]
    """Its superclass and its interfaces."""
    references: frozenset[str]
    """Every class that it names."""


class ClassFiles:
    """The classes of Spark's own jars. Names are those of class files: `org/apache/spark/sql/Row`."""

    def __init__(self, spark_home: Path) -> None:
        self._jars = {}
        for jar in sorted((spark_home / "jars").glob("spark-*.jar")):
            opened = zipfile.ZipFile(jar)
            names = (name for name in opened.namelist() if name.endswith(".class"))
            self._jars.update({name.removesuffix(".class"): opened for name in names})
        self._read: dict[str, ClassFile] = {}

    @property
    def names(self) -> Iterable[str]:
        return self._jars.keys()

    def parents(self, name: str) -> tuple[str, ...]:
        found = self.of(name)
        return () if found is None else found.parents

    def of(self, name: str) -> ClassFile | None:
        """Return what is known of a class; None for one of another library."""
        if name not in self._jars:
            return None
        if name not in self._read:
            self._read[name] = _parse(self._jars[name].read(f"{name}.class"))
        return self._read[name]

    def texts(self, name: str) -> Iterable[str]:
        """Return a class's constants that are texts, and whatever else is kept as one."""
        return _constants(self._jars[name].read(f"{name}.class"))[0].values()

    def is_a(self, name: str, ancestor: str) -> bool:
        """Whether objects of a class are also of another one."""
        if name == ancestor:
            return True
        found = self.of(name)
        return found is not None and any(self.is_a(parent, ancestor) for parent in found.parents)

    def referred_to(self, names: Iterable[str]) -> frozenset[str]:
        """Return the classes of Spark that these refer to."""
        found = [of for name in names if (of := self.of(name)) is not None]
        return frozenset(r for of in found for r in of.references if r in self._jars)

    def concrete(self, names: Iterable[str], ancestor: str) -> frozenset[str]:
        """Return those of the classes that have objects, which are also of `ancestor`."""
        return frozenset(
            name
            for name in names
            if (found := self.of(name)) is not None and not found.abstract and self.is_a(name, ancestor)
        )


def simple_name(name: str) -> str:
    """Return the name of a class as the reader tells it (`ScalaValues.simpleName`)."""
    simple = name.rpartition("/")[2]
    made_in, anonymous, number = simple.rpartition("$$anon$")
    if anonymous and "$" not in number:
        return simple_name(made_in) + "$anon"
    return simple.rstrip("$").rpartition("$")[2]


def _constants(data: bytes) -> tuple[dict[int, str], dict[int, int], int]:
    """Return the texts, the classes by the number of their names, and where the constants end."""
    (count,) = struct.unpack_from(">H", data, 8)
    texts: dict[int, str] = {}
    classes: dict[int, int] = {}
    at, number = 10, 1
    while number < count:
        tag = data[at]
        if tag == _UTF8:
            (length,) = struct.unpack_from(">H", data, at + 1)
            texts[number] = data[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        else:
            if tag == _CLASS:
                (classes[number],) = struct.unpack_from(">H", data, at + 1)
            at += _SIZES[tag]
        number += 2 if tag in _LARGE else 1
    return texts, classes, at


def _parse(data: bytes) -> ClassFile:
    texts, classes, at = _constants(data)
    flags, _, parent, interfaces = struct.unpack_from(">HHHH", data, at)
    parents = (parent, *struct.unpack_from(f">{interfaces}H", data, at + 8))
    return ClassFile(
        abstract=bool(flags & _ABSTRACT),
        parents=tuple(texts[classes[p]] for p in parents if p),
        references=frozenset(texts[of] for of in classes.values()),
    )
