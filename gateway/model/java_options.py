"""How a JVM of ours is started that must answer soon."""

from __future__ import annotations

from dataclasses import dataclass

UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
"""Bytes of the units of a size as Java writes it."""
QUICK_START = (
    "-XX:TieredStopAtLevel=1",
    # With one compiler Java keeps 48 MB for code. Spark fills them within minutes; then code is dropped and
    # compiled again, a quarter of the CPU time of 20 minutes, and where there is no room for the code between
    # two methods the JVM throws a VirtualMachineError, at which Spark ends.
    "-XX:ReservedCodeCacheSize=240m",
)
"""Only the first of Java's compilers, with room for its code."""


@dataclass(frozen=True, slots=True)
class SparkClasses:
    """Java's archive of the classes that a Spark loads, and what its class path begins with then.

    Java takes an archive only where the class path begins as when it was made: as Spark's launcher writes it,
    with `jar` for SPARK_CONF_DIR.
    """

    jar: str
    """Path of a jar with Hadoop's default settings without their descriptions."""
    option: str
    """The option by which a JVM uses the archive, or writes it."""


def heap_bytes(heap: str) -> int:
    """Return what a size as Java writes it comes to, such as `512m`."""
    return int(heap[:-1]) * UNITS[heap[-1].lower()]
