"""Reads of tables that SQL has words for: versions, times, branches, changes, and metadata tables by name.

Formats have options for them (`versionAsOf`, `snapshot-id`, …). Such a read is written as the SQL text of the
same meaning, before it is judged, so that there is one way to judge, guard and prove it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gateway.model.catalog import quote_parts
from gateway.model.system_tables import NameForm, is_system_table
from gateway.model.table_formats import LOADED_BY_NAME, METADATA_TABLES
from gateway.plan.identifiers import table_parts
from gateway.plan.walk_sources import table_options
from gateway.plan.walk_state import refuse
from gateway.policy.sqltext import write_string_literal
from gateway.sql.required import Unsupported
from gateway.sql.scope import clip
from gateway.wire.connect import pb

_VERSIONS = frozenset({"versionasof", "snapshot-id", "branch", "tag"})
_TIMES = frozenset({"timestampasof", "as-of-timestamp"})
_FEEDS = frozenset({"readchangefeed", "readchangedata"})
_BOUNDS = ("starting", "ending")
_OF_FEEDS = _FEEDS | {f"{bound}{kind}" for bound in _BOUNDS for kind in ("version", "timestamp")}
_KNOWN = _VERSIONS | _TIMES | _OF_FEEDS
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"[\w:. +/-]{1,256}", re.ASCII)
"""A text that is a literal between quotes: names, dates and times."""
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_METADATA = frozenset().union(*METADATA_TABLES.values())


def text_of(read: pb.Read) -> str | None:
    """Return the SQL text that a read is written as, or None for one that is read as it stands.

    A stream of a table that a format is asked for by its name becomes one of the table, in place. Raises
    CannotClassify for options of which SQL has no words.
    """
    named = _read_name(read)
    if named is None:
        return None
    name, given = named
    parts = parts_of_table(name)
    options = {key.lower(): value for key, value in given.items()}
    travels = not _KNOWN.isdisjoint(options)
    if read.is_streaming:
        if travels:
            raise refuse(f"a stream of `{clip(name)}` cannot start at a version, a time or a branch")
        if read.WhichOneof("read_type") == "data_source":
            options = dict(given)
            read.named_table.unparsed_identifier = name
            read.named_table.options.update(options)
        return None
    if not travels and not _is_system_table(parts) and read.WhichOneof("read_type") == "named_table":
        return None
    if len(options) < len(given):
        raise refuse(f"an option of `{clip(name)}` is given more than once in different spellings")
    table_options({key: value for key, value in given.items() if key.lower() not in _KNOWN})
    if len(options.keys() - _KNOWN):
        raise refuse(
            f"options of a stream on `{clip(name)}` cannot be combined with a version, time or branch"
        )
    if not _OF_FEEDS.isdisjoint(options):
        return f"SELECT * FROM {_changes(parts, options)}"
    return f"SELECT * FROM {quote_parts(parts)}{_as_of(options)}"


def parts_of_table(text: str) -> tuple[str, ...]:
    """Return the parts of a table's name. Raises CannotClassify."""
    parts = table_parts(text)
    if parts is None:
        why = (
            f"the table name `{clip(text)}` cannot be parsed; put name parts with characters other than "
            "letters, digits and `_` in backticks, and write time travel as SQL"
        )
        raise refuse(Unsupported(why, name=text))
    return parts


def _read_name(read: pb.Read) -> tuple[str, Mapping[str, str]] | None:
    """Return the name and the options of a table that is read, or None for files."""
    if read.WhichOneof("read_type") == "named_table":
        return read.named_table.unparsed_identifier, read.named_table.options
    source = read.data_source
    if source.format.lower() not in LOADED_BY_NAME:
        return None
    rest = {key: value for key, value in source.options.items() if key.lower() != "path"}
    names = [*source.paths, *(value for key, value in source.options.items() if key.lower() == "path")]
    if len(names) != 1 or "/" in names[0]:
        return None
    if source.schema:
        raise refuse(f"a {source.format} table has its own columns and does not take a `schema`")
    return names[0], rest


def _is_system_table(parts: tuple[str, ...]) -> bool:
    """Whether the last part could name a table's metadata, a version of it or its changes; the SQL text says
    what it means."""
    last = parts[-1].lower()
    if len(parts) > 2 and is_system_table(NameForm.BELOW, last):
        return True
    return "$" in last and last.rpartition("$")[2] in _METADATA


def _as_of(options: Mapping[str, str]) -> str:
    if not options:
        return ""
    if len(options) > 1:
        raise refuse(f"the options {', '.join(sorted(options))} name more than one version")
    ((key, value),) = options.items()
    if key == "timestampasof":
        return f" TIMESTAMP AS OF {_literal(key, value)}"
    if key == "as-of-timestamp":
        return f" TIMESTAMP AS OF timestamp_millis({_integer(key, value)})"
    if key == "snapshot-id":
        return f" VERSION AS OF {_integer(key, value)}"
    if key != "versionasof" and _INTEGER.fullmatch(value.strip()):
        raise refuse(f"Spark would read the {key} `{clip(value)}` as a snapshot id")
    return f" VERSION AS OF {_literal(key, value)}"


def _changes(parts: tuple[str, ...], options: Mapping[str, str]) -> str:
    """Return the call of Delta's that reads the change feed."""
    asked = {options[key].strip().lower() for key in _FEEDS & options.keys()}
    if asked != {"true"} or not _OF_FEEDS.issuperset(options):
        raise refuse("set `readChangeFeed` = true without a version of the table")
    if not all(map(_WORD.fullmatch, parts)):
        raise refuse(f"a change feed needs a plain table name; `{clip('.'.join(parts))}` is not one")
    arguments = [_literal("table", ".".join(parts))]
    for bound in _BOUNDS:
        version, time = options.get(f"{bound}version"), options.get(f"{bound}timestamp")
        if version is not None and time is not None:
            raise refuse(f"use either `{bound}Version` or `{bound}Timestamp`")
        if version is not None:
            arguments.append(_integer(f"{bound}Version", version))
        elif time is not None:
            arguments.append(_literal(f"{bound}Timestamp", time))
        elif bound == "starting":
            raise refuse("a change feed needs `startingVersion` or `startingTimestamp`")
    return f"table_changes({', '.join(arguments)})"


def _integer(key: str, value: str) -> str:
    number = value.strip()
    if not _INTEGER.fullmatch(number):
        raise refuse(f"the option `{key}` must be an integer, not `{clip(value)}`")
    return number


def _literal(key: str, value: str) -> str:
    word = f"'{value}'" if _PLAIN.fullmatch(value) else write_string_literal(value)
    if word is None or not word.startswith("'"):
        raise refuse(f"the value of the option `{key}` cannot be written in SQL")
    return word
