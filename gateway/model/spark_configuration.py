"""What a Spark says of how it reads texts, and why that is not how the parser reads them.

A proof holds for a Spark with the parser's minor version, parsers and settings. All of that belongs to a
process of Spark's and not to its address: who begins anew there can be another. So each new connection is
asked, before it is given the first text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gateway.model.reading_settings import READING_QUESTION, READING_SETTINGS
from gateway.model.table_formats import LISTED_EXTENSIONS

EXTENSIONS = "spark.sql.extensions"
CATALOG_PREFIX = "spark.sql.catalog."
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"

PROBE_TEXT = "SLUICE WHICH PARSER IS THIS"
"""No statement of any grammar. The stack of the error says which classes it went through: a parser that hands
texts on to Spark's is on it, however it came to be there."""

PARSER_CLASSES = frozenset(
    {
        "org.apache.spark.sql.catalyst.parser.AbstractParser",
        "org.apache.spark.sql.catalyst.parser.AbstractSqlParser",
        "org.apache.spark.sql.catalyst.parser.ParseException",
        "org.apache.spark.sql.catalyst.parser.ParserInterface",
        "org.apache.spark.sql.catalyst.trees.CurrentOrigin$",
        "org.apache.spark.sql.execution.SparkSqlParser",
    }
)
"""What a text goes through in a Spark without extensions. Iceberg's parser lives in Spark's packages."""
PARSER = "org.apache.spark.sql.execution.SparkSqlParser"
CALLERS = frozenset(
    {
        "org.apache.spark.sql.SparkSession",  # before 4.0
        "org.apache.spark.sql.classic.SparkSession",
        "org.apache.spark.sql.connect.planner.SparkConnectPlanner",
    }
)
"""What asks a session's parser: SQL, and a plan's text. The stack below them does not matter."""

SHOWN = 5
"""Values that a fault names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConfiguration:
    """What one process of Spark said on one connection."""

    version: str
    settings: Mapping[str, str]
    """Those that are set in the session, by Spark's start or by us; defaults are not among them."""
    parsers: Sequence[str]
    """What `PROBE_TEXT` went through, the innermost first; see `parsers_on`."""

    @property
    def catalogs(self) -> Mapping[str, str]:
        """Pluggable catalogs: name → class."""
        plugged = {
            key.removeprefix(CATALOG_PREFIX): value
            for key, value in self.settings.items()
            if key.startswith(CATALOG_PREFIX)
        }
        return {name: value for name, value in sorted(plugged.items()) if "." not in name}


def process_of(settings: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what names a process of Spark's among all that there ever were; None when it cannot be told."""
    app, started = settings.get("spark.app.id", ""), settings.get("spark.app.startTime", "")
    return (app, started) if app and started else None


StackFrame = tuple[str, int]
"""A class on a stack, and the line of its source; 0 where that is not told."""


def parsers_on(stack: Iterable[StackFrame]) -> tuple[str, ...]:
    """Return what parsed, of a stack, innermost first; nothing when it is not one of a parser's.

    See `parsers_in` for its form.
    """
    frames: list[StackFrame] = []
    for frame in stack:
        if frame[0] in CALLERS:
            return parsers_in(frames)
        frames.append(frame)
    return ()


def parsers_in(frames: Iterable[StackFrame]) -> tuple[str, ...]:
    """Return each class once; one that is not Spark's own as `class:line`, for each line.

    The lines tell builds of an extension apart, whose classes have the same names. Those of Spark's classes
    differ between patches of a minor version, and are left out.
    """
    return tuple(dict.fromkeys(name if name in PARSER_CLASSES else f"{name}:{line}" for name, line in frames))


def extensions_of(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the classes of `spark.sql.extensions`, in Spark's order."""
    named = (name.strip() for name in settings.get(EXTENSIONS, "").split(","))
    return tuple(name for name in named if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserConfiguration:
    """What the gateway's parser is, which proofs are made with."""

    version: str = ""
    """Of its Spark; empty: it is not compared."""
    extensions: Sequence[str] = ()
    """Classes of `spark.sql.extensions` that it runs, in their order."""
    parsers: Sequence[str] = ()
    """What a text goes through there, the innermost first; see `parsers_in`."""


READING_VERSION, READING_PARSERS = f"{READING_QUESTION}version", f"{READING_QUESTION}parsers"


def write_reading(reader: ParserConfiguration) -> dict[str, str]:
    """Return what a gateway before this one is told of how its texts are read, beside settings: every Spark
    here has been found to read them as the reader does."""
    return {READING_VERSION: reader.version, READING_PARSERS: "\n".join(reader.parsers)}


NOT_COMPARED = ParserConfiguration()
"""Of a parser that is not there: whatever a Spark without extensions reads, is taken."""


def differences(
    found: SparkConfiguration, *, reader: ParserConfiguration, catalogs: Collection[str] = ()
) -> tuple[str, ...]:
    """Say why texts may mean something else to this Spark than to the reader; nothing when they do not.

    `catalogs` are those that names may begin with. Values of settings that are not pinned are not told: there
    may be passwords among them.
    """
    # INVARIANT (one reading): what is empty here is the only Spark that statements are given to.
    faults: list[str] = []
    if reader.version and found.version.split(".")[:2] != reader.version.split(".")[:2]:
        faults.append(
            f"Spark has version {found.version or 'unknown'}, but the parser {reader.version}: parsing by "
            "another minor version proves nothing; restart the gateway with the matching parser (without "
            "`reader.spark_home` and `reader.spark_version` it uses the version of the backend)"
        )
    faults += _extension_faults(found, reader)
    if found.settings.get(CHECKPOINTS):
        faults.append(
            f"`{CHECKPOINTS}` is set: streams would store checkpoints there under names that users choose, "
            "so one user could continue another's stream; start Spark without it"
        )
    for key, pinned in READING_SETTINGS.items():
        value = found.settings.get(key)
        if value != pinned:
            has = f"is `{value}`" if value is not None else "is unknown"
            faults.append(f"Spark's `{key}` {has}, but the parser has `{pinned}`")
    faults += [_unknown(name, found.catalogs) for name in sorted(catalogs) if name not in found.catalogs]
    return tuple(faults)


def _unknown(catalog: str, known: Mapping[str, str]) -> str:
    """Say what a name that begins with a catalog would be to a Spark that has none of that very name."""
    other = next((name for name in known if name.lower() == catalog), "")
    has = f"Spark has `{other}` and distinguishes capitals" if other else "Spark does not have it"
    return (
        f"the settings name the catalog `{catalog}`, and {has}: Spark would resolve a name that begins "
        "with it as a database of the current catalog, under other policies; set "
        f"`{CATALOG_PREFIX}{catalog}` in Spark, or remove the catalog from the settings"
    )


def _extension_faults(found: SparkConfiguration, reader: ParserConfiguration) -> list[str]:
    """What is in the setting has to be in the parser, and a text has to go through the same classes."""
    faults: list[str] = []
    named = extensions_of(found.settings)
    unlisted = [name for name in named if name not in LISTED_EXTENSIONS]
    if unlisted:
        faults.append(
            f"`{EXTENSIONS}` has {_some(unlisted)}, which the parser cannot run, so Spark could parse "
            "statements differently from the parser; start Spark without it"
        )
    elif named != tuple(reader.extensions):
        faults.append(
            f"`{EXTENSIONS}` has {_some(named) or 'none'}, but the parser "
            f"{_some(reader.extensions) or 'none'}, in this order, so Spark could parse statements "
            "differently from the parser; restart the gateway (without `reader.extensions` it uses those "
            "of Spark)"
        )
    placed = [name for name in found.parsers if name not in PARSER_CLASSES]
    own_placed = [name for name in reader.parsers if name not in PARSER_CLASSES]
    chain, own = _classes(placed), _classes(own_placed)
    strange = [name for name in chain if name not in own]
    if strange:
        faults.append(
            f"Spark parses with {_some(strange)}, which the parser does not have; a jar or the program "
            f"that started Spark added an extension that is not in `{EXTENSIONS}`"
        )
    elif PARSER not in found.parsers:
        faults.append("Spark does not report its parser classes")
    elif chain != own:
        faults.append(
            f"Spark parses with {_some(chain) or 'its own parser alone'}, but the gateway with "
            f"{_some(own)}, innermost first"
        )
    elif others := _other_builds(placed, own_placed):
        faults.append(
            f"Spark runs another build of {_some(others)} than the parser: parsing by another build proves "
            "nothing; set `reader.extension_jars` to the same jars that Spark runs"
        )
    return faults


def _other_builds(found: Sequence[str], own: Sequence[str]) -> list[str]:
    """Return the classes none of whose lines is the same; Spark may come in by another method."""
    known = {name.partition(":")[0] for name in set(found) & set(own)}
    return [name for name in _classes(found) if name not in known]


def _classes(placed: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name.partition(":")[0] for name in placed))


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:SHOWN])
    return shown + (", …" if len(names) > SHOWN else "")
