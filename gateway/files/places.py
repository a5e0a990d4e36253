"""Where rows lie already: what is promoted may share no directory with a table, a database or the gateway.

A table's files have one name, and policies go by names. Were a part of them a table of its own, or a
directory that they lie in, they could be read past the masks and filters of the first name.

A place has many spellings, and only its file system knows which are the same. What could be the same counts
as the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)")
_LOCAL = re.compile(r"(?i:file:)?(?://[^/]*)?(?P<path>/.*)", re.DOTALL)
_SAME = {
    "s3a": "s3",
    "s3n": "s3",
    "abfss": "azure",
    "abfs": "azure",
    "wasbs": "azure",
    "wasb": "azure",
    "webhdfs": "hdfs",
    "swebhdfs": "hdfs",
    "viewfs": "hdfs",
}
"""Scheme → another one by which the same files can be had."""
_BUCKETS = frozenset({"s3", "gs", "azure", "oss", "cosn", "obs"})
"""Schemes whose authority is a bucket. Other servers can have several names."""
_EXACT = frozenset({"s3", "gs", "hdfs", "oss", "cosn", "obs"})
"""Schemes whose paths differ by upper and lower case; others may not tell them apart."""
_MAX_LINKS = 40
"""Links in a path, as Linux has it."""
_MOUNTS = Path("/proc/self/mounts")


@dataclass(frozen=True, slots=True)
class Place:
    """A directory or a file: its scheme, bucket or server, and path, in the spelling that is compared.

    Without a scheme it is on Spark's default file system, which could be any.
    """

    scheme: str
    authority: str
    path: tuple[str, ...]


def parse_place(url: str) -> Place:
    """Return the place that a URL means, its percent-encoding as it stands: `s3a://B/x//y/` is `s3`, `b`,
    `x/y`. Raises ValueError for a relative path: nobody here knows where it begins."""
    found = _SCHEME.match(url)
    scheme, rest = (found[0].lower(), url[found.end() + 1 :]) if found else ("", url)
    scheme = _SAME.get(scheme, scheme)
    authority = ""
    if rest.startswith("//"):
        authority, _, rest = rest[2:].partition("/")
    elif not rest.startswith("/"):
        raise ValueError(f"`{url}` is not an absolute path")
    path: list[str] = []
    for part in rest.split("/"):
        if part == "..":
            del path[-1:]
        elif part not in ("", "."):
            path.append(part if scheme in _EXACT else _fold(part))
    return Place(scheme, _authority(scheme, authority), tuple(path))


def places(url: str) -> frozenset[Place]:
    """Return what a URL could mean: as it stands and without its percent-encoding; of a local one, also the
    place that links lead to. Raises ValueError as `parse_place`, and where links mean something else to each
    process. It looks at local directories."""
    found = set[Place]()
    for one in dict.fromkeys((url, unquote(url))):
        found.add(parse_place(one))
        local = _LOCAL.fullmatch(one)
        if local is not None and "\0" not in one:
            found.add(parse_place(f"file:{_follow_links(local['path'])}"))
    return frozenset(found)


def _follow_links(path: str) -> str:
    """Return where a local path leads. Raises ValueError where nobody here knows where it leads Spark:
    `/proc/self/cwd` is another directory to each process, and so is what `/dev/fd` leads to."""
    pending, at, links = path.split("/")[::-1], Path("/"), 0
    while pending:
        name = pending.pop()
        at = at.parent if name == ".." else at / name
        if str(at) in _list_process_mounts():  # RULE (path-of-a-process)
            raise ValueError(f"`{path}` leads into {at}, where links mean something else to each process")
        try:
            target = str(at.readlink())
        except OSError:
            continue
        links += 1
        if links > _MAX_LINKS:
            raise ValueError(f"`{path}` has too many links in it")
        at = Path("/") if target.startswith("/") else at.parent
        pending += target.split("/")[::-1]
    return str(at)


@cache
def _list_process_mounts() -> frozenset[str]:
    """Return where the system tells of its processes."""
    try:
        lines = [line.split() for line in _MOUNTS.read_text().splitlines()]
    except OSError:
        lines = []
    return frozenset({"/proc", *(line[1] for line in lines if len(line) > 2 and line[2] == "proc")})


def overlap(one: Place, other: Place) -> bool:
    """Say whether both could be the same, or one could lie in the other."""
    if one.scheme and other.scheme:
        if one.scheme != other.scheme:
            return False
        if one.scheme in _BUCKETS and one.authority != other.authority:
            return False
        return _begins(one.path, other.path)
    # Which of them are told apart by case is not known either.
    return _begins(tuple(map(_fold, one.path)), tuple(map(_fold, other.path)))


def _begins(one: Sequence[str], other: Sequence[str]) -> bool:
    return all(part == others for part, others in zip(one, other, strict=False))


def overlaps(ones: Iterable[Place], others: Iterable[Place]) -> bool:
    """Say whether one of the first and one of the others overlap."""
    listed = tuple(others)
    return any(overlap(one, other) for one in ones for other in listed)


def _authority(scheme: str, authority: str) -> str:
    """Return a bucket as it is compared: of Azure the container and the account, whatever its endpoint."""
    authority = authority.lower()
    if scheme != "azure":
        return authority.rpartition("@")[2]
    container, _, host = authority.rpartition("@")
    return f"{container}@{host.partition('.')[0]}"


def _fold(part: str) -> str:
    return unicodedata.normalize("NFKC", part).casefold()
