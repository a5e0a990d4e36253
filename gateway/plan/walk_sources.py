"""Options, formats and paths in plans: allow-lists, because each can reach other data or code."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gateway.plan.walk_state import refuse
from gateway.sql.paths import FILE_FORMATS, explain_path
from gateway.sql.scope import clip
from gateway.sql.storage import OPTIONS, PROVIDERS

GENERATORS = frozenset({"rate", "rate-micro-batch"})
"""Streaming sources that read nothing."""
SINKS = frozenset({"console", "noop"})
"""Streaming sinks that keep nothing."""

TABLE_OPTIONS = frozenset(
    """
    maxfilespertrigger maxbytespertrigger latestfirst maxfileage ignorechanges ignoredeletes skipchangecommits
    """.split()
)
"""How fast a stream reads a table. Any other option of a table could make Spark read other files (`path`), or
the same ones otherwise (`sep`), so that what a mask covers comes out as another column."""
_GENERATOR_OPTIONS = frozenset(
    "rowspersecond rampuptime numpartitions rowsperbatch starttimestamp advancemillisperbatch".split()
)
TEXT_OPTIONS = OPTIONS
"""How text is read as CSV or JSON."""
_READ_OPTIONS = TEXT_OPTIONS | frozenset(
    """
    ignorecorruptfiles ignoremissingfiles modifiedafter modifiedbefore pathglobfilter recursivefilelookup
    """.split()
)
_WRITE_OPTIONS = TEXT_OPTIONS | frozenset({"maxrecordsperfile", "partitionoverwritemode"})
_SINK_OPTIONS = _WRITE_OPTIONS | frozenset({"truncate", "numrows"})

_REGISTRABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""No class of Java's, which Spark would load by its full name."""
_OF_SPARK = (
    FILE_FORMATS
    | GENERATORS
    | SINKS
    | PROVIDERS
    | frozenset("binaryfile image jdbc kafka kinesis libsvm memory pulsar socket statestore xml".split())
)


def table_options(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the options of a table that is read, sorted."""
    _check(options, TABLE_OPTIONS, "table")  # RULE (table-options)
    return tuple(sorted(options.items()))


def text_options(options: Mapping[str, str]) -> None:
    """Check the options of `Parse`, which reads text that a relation has."""
    _check(options, TEXT_OPTIONS, "parser")


def read_paths(
    file_format: str, options: Mapping[str, str], paths: tuple[str, ...], *, streaming: bool
) -> tuple[str, ...]:
    """Return the paths that a data source reads."""
    folded = file_format.lower()
    if streaming and folded in GENERATORS and not paths:
        _check(options, _GENERATOR_OPTIONS, folded)
        return ()
    _check_format(file_format, FILE_FORMATS)  # RULE (source-formats)
    allowed = _READ_OPTIONS | TABLE_OPTIONS if streaming else _READ_OPTIONS
    rest, found = _split_paths(options, {"path"})
    _check(rest, allowed, folded)  # RULE (file-options)
    return tuple(plain_path(path) for path in (*paths, *found))  # RULE (paths-in-options)


def is_registrable(file_format: str) -> bool:
    """Whether a data source of the user's own can have the name: it means none of Spark's, in any case."""
    # RULE (source-names-of-spark)
    return bool(_REGISTRABLE.fullmatch(file_format)) and file_format.lower() not in _OF_SPARK


def list_written_paths(
    file_format: str | None, options: Mapping[str, str], path: str | None, *, streaming: bool
) -> tuple[str, ...]:
    """Return the paths that a write of rows names; a sink's checkpoint is one of them."""
    rest, found = _split_paths(options, {"path"})
    paths = (*found, path) if path is not None else found
    checkpoints: tuple[str, ...] = ()
    if streaming:
        rest, checkpoints = _split_paths(rest, {"checkpointlocation"})
    if file_format is not None:
        # Without a path it is a table's format; with one, that of files, or the path could be a table's name.
        _check_format(file_format, FILE_FORMATS if paths else PROVIDERS | SINKS)  # RULE (sink-formats)
    # RULE (sink-options)
    _check(rest, _SINK_OPTIONS if streaming else _WRITE_OPTIONS, file_format or "table")
    return tuple(plain_path(each) for each in (*paths, *checkpoints))  # RULE (stream-checkpoint-paths)


def plain_path(path: str) -> str:
    """Return a path that means one place, whoever reads it."""
    why = explain_path(path, clip(path))
    if why is not None:
        raise refuse(why)
    return path


def _split_paths(options: Mapping[str, str], named: set[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the options that are no paths, and the paths."""
    rest = {key: value for key, value in options.items() if key.lower() not in named}
    return rest, tuple(options[key] for key in sorted(options) if key.lower() in named)


def _check_format(file_format: str, allowed: frozenset[str]) -> None:
    if file_format.lower() not in allowed:
        raise refuse(explain_unknown_format(file_format))


def explain_unknown_format(file_format: str) -> str:
    return (
        f"the data source `{clip(file_format)}` can access other systems, or tables without their names; "
        "use tables, or files of the formats " + ", ".join(sorted(FILE_FORMATS))
    )


def _check(options: Mapping[str, str], allowed: frozenset[str], what: str) -> None:
    for key in options:
        if key.lower() not in allowed:
            raise refuse(
                f"the option `{clip(key)}` ({clip(what)}) is not supported: options can redirect to other "
                "data"
            )
