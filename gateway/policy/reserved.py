"""The one place that no policy opens: where the gateway keeps the checkpoints of streams.

A checkpoint names files that Spark reads without asking who may, and holds rows in its state. So nobody reads
or writes there by a path, whatever policies say of paths. A path has many spellings, and what it leads to is
for Spark's file systems to know: what could lead there counts as leading there. Links are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*(?=:)")
_ENCODED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_PATTERN = re.compile(r"[*?\[\]{}\\]")
_SAME: dict[str, str] = {
    "s3a": "s3",
    "s3n": "s3",
    "abfss": "abfs",
    "wasbs": "wasb",
    "webhdfs": "hdfs",
    "swebhdfs": "hdfs",
    "viewfs": "hdfs",
}
"""Scheme → another one by which the same files can be had."""
_BUCKETS = frozenset({"s3", "gs", "abfs", "wasb", "oss", "cosn", "obs"})
"""Schemes whose URLs name a bucket, and not a server that can have other names."""
MAX_DECODINGS = 5
"""How often a URL may be percent-encoded over and over."""


class _Path(NamedTuple):
    scheme: str
    authority: str
    segments: tuple[str, ...]
    absolute: bool
    pattern: bool
    """Whether the next segment is a pattern, and could be any."""


@dataclass(frozen=True, slots=True)
class ReservedPlace:
    """A directory, by its URL, and everything below it."""

    url: str

    def may_be_reached_by(self, url: str) -> bool:
        """Whether the URL could lead to this place, to something in it, or to a directory that it is in.

        What is at or below this place's path counts wherever it is, since a server has more names than one;
        what is above it counts on the same file system.
        """
        own = _path(self.url)
        readings = tuple(_readings(url))
        return not readings or any(_leads(path, own) for reading in readings for path in _paths(reading))


def parse_reserved_place(url: str) -> ReservedPlace:
    """Return the place. Raises ValueError when the URL is not plainly that of one directory, or is that of a
    whole file system."""
    path = _path(url)
    strange = path.pattern or not url.isprintable() or any(sign in url for sign in ("%", "#", ".."))
    if strange or not path.scheme or not path.absolute or not path.segments:
        raise ValueError(
            f"`{url}` must be the URL of a directory below the root of its file system, without wildcards "
            "and escapes, such as `s3://bucket/sluice-checkpoints`"
        )
    return ReservedPlace(url)


def _leads(path: _Path, own: _Path) -> bool:
    # Nobody here knows the directory that a relative path begins in.
    begins = range(1) if path.absolute else range(len(own.segments))
    for begin in begins:
        rest = own.segments[begin:]
        shared = min(len(rest), len(path.segments))
        if path.segments[:shared] != rest[:shared]:
            continue
        if len(path.segments) >= len(rest) or path.pattern or _same_files(path, own):
            return True
    return False


def _same_files(one: _Path, other: _Path) -> bool:
    if one.scheme and other.scheme and one.scheme != other.scheme:
        return False
    if not one.authority or not other.authority or other.scheme not in _BUCKETS:
        return True
    return one.authority == other.authority


def _readings(url: str) -> Iterator[str]:
    """Yield what the URL says, as it stands and without its percent-encoding, which not everything takes off;
    nothing when there is no end to it."""
    found = [url]
    while (decoded := _decode(found[-1])) != found[-1]:
        found.append(decoded)
        if len(found) > MAX_DECODINGS:
            return
    for reading in found:
        yield reading
        if "#" in reading:
            yield reading.partition("#")[0]


def _decode(url: str) -> str:
    return _ENCODED.sub(lambda run: bytes.fromhex(run[0].replace("%", "")).decode(errors="replace"), url)


def _paths(url: str) -> Iterator[_Path]:
    """Yield how the URL can be read: what stands after `//` is a server, or where it is not, a directory."""
    path = _path(url)
    yield path
    if path.authority:
        segments = (path.authority, *path.segments)
        yield path._replace(authority="", segments=segments)


def _path(url: str) -> _Path:
    rest = url.strip().casefold()
    scheme = ""
    while (found := _SCHEME.match(rest)) is not None:
        scheme = scheme or found[0]
        rest = rest[found.end() + 1 :]
    authority = ""
    if rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
    absolute = rest.startswith("/") or bool(authority)
    segments: list[str] = []
    pattern = False
    for segment in rest.split("/"):
        if _PATTERN.search(segment):
            pattern = True
            break
        bare = segment.strip()
        if bare == "..":
            del segments[-1:]
        elif bare not in ("", "."):
            segments.append(bare)
    return _Path(_SAME.get(scheme, scheme), authority, tuple(segments), absolute, pattern)
