"""What of OpenSession's configuration counts: an allow-list, because every key of it is the client's word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.errors import InvalidRequest

MAX_SETTINGS = 100
MAX_VALUE_CHARS = 4096

_HIVECONF = "set:hiveconf:"
_KEY = re.compile(r"[A-Za-z][\w.-]{0,250}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a client asks of its new session."""

    database: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of Spark, to be judged as SET statements."""
    hostile: tuple[str, ...] = ()
    """Keys with which the client tries to be somebody else: refuse and record."""


def read_configuration(configuration: Mapping[str, str], user: str) -> Opening:
    """Pick out what counts.

    `use:database` and `set:hiveconf:spark.*` count. Keys of Hive, Hadoop and of drivers (beeline's fetch
    size, say) are accepted and mean nothing; so are `set:hivevar:` and bare keys, which Spark ignores too or
    which would be substituted into statements. Raises InvalidRequest for a setting that cannot be one.
    """
    database: str | None = None
    settings: dict[str, str] = {}
    hostile: list[str] = []
    for key, value in configuration.items():
        if "proxy.user" in key.lower():
            # The bare key is the one that Spark honours without asking anybody.
            if value != user:
                hostile.append(key)
        elif key == "use:database":
            database = _database(value)
        elif key.startswith(_HIVECONF):
            name = key.removeprefix(_HIVECONF)
            if name.lower().startswith("spark."):
                settings[_setting(name)] = _value(name, value)
    if len(settings) > MAX_SETTINGS:
        raise InvalidRequest(f"more than {MAX_SETTINGS} settings for one session")
    return Opening(database=database, settings=settings, hostile=tuple(hostile))


def _database(value: str) -> str | None:
    if len(value) > 255 or "\0" in value:
        raise InvalidRequest("the database name is longer than 255 characters or has a NUL in it")
    return value or None


def _setting(name: str) -> str:
    if not _KEY.fullmatch(name):
        raise InvalidRequest(f"`{name[:100]}` cannot be the name of a setting")
    return name


def _value(name: str, value: str) -> str:
    if len(value) > MAX_VALUE_CHARS or "\0" in value:
        raise InvalidRequest(f"the value of `{name}` is longer than {MAX_VALUE_CHARS} or has a NUL in it")
    return value
