"""How a JVM of ours is started that must answer soon."""

from __future__ import annotations

QUICK_START = (
    "-XX:TieredStopAtLevel=1",
    # With one compiler Java keeps 48 MB for code. Spark fills them within minutes; then code is dropped and
    # compiled again, a quarter of the CPU time of 20 minutes, and where there is no room for the code between
    # two methods the JVM throws a VirtualMachineError, at which Spark ends.
    "-XX:ReservedCodeCacheSize=240m",
)
"""Only the first of Java's compilers, with room for its code."""
