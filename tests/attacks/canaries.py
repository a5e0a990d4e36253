"""What nobody may see, in every encoding that costs little to look for."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator

STEM = "QZXJWKVBM"
"""In every secret text; six letters of it in a row are a leak."""
WINDOW = 6
HIDDEN_ROWS = 7919
"""Rows that a filter hides: a count that stands out."""
VISIBLE_ROWS = 6

_UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def _windows() -> Iterator[str]:
    yield from (STEM[i : i + WINDOW] for i in range(len(STEM) - WINDOW + 1))


def _texts() -> Iterator[bytes]:
    """Yield what is looked for in answers that were made lower case."""
    for window in _windows():
        text = window.lower().encode()
        yield from (text, text[::-1])
        yield from (window.encode().hex().encode(), window[::-1].encode().hex().encode(), text.hex().encode())
    for code in ("sha1", "md5", "sha256"):
        # Of whole values: digests that no mask of this world shows.
        yield from (hashlib.new(code, value.encode()).hexdigest()[:16].encode() for value in _values())


def _values() -> Iterator[str]:
    yield from (f"{STEM}-s-{i}" for i in range(1, VISIBLE_ROWS + 1))
    yield f"{STEM}-AMER"


def _base64() -> Iterator[bytes]:
    """Yield what every encoding of a text that holds the stem shows of it, at each of the three offsets."""
    for text in (STEM, STEM.lower(), STEM[::-1]):
        for offset in range(3):
            whole = base64.b64encode(b"x" * offset + text.encode() + b"x" * 3)
            first, last = -(-offset * 8 // 6), (offset + len(text)) * 8 // 6
            yield whole[first:last][:10]


def _numbers() -> Iterator[str]:
    yield r"9133[789]\d{4}"
    yield rf"(?:{HIDDEN_ROWS}|{HIDDEN_ROWS + VISIBLE_ROWS})"
    yield from (str(zlib.crc32(value.encode())) for value in _values())


def _codes(text: str) -> str:
    """A pattern of the characters as numbers, one after the other."""
    return r"\D{1,12}".join(str(ord(c)) for c in text)


_LOWER = re.compile(b"|".join(map(re.escape, sorted(set(_texts())))))
_CASED = re.compile(b"|".join(map(re.escape, sorted(set(_base64())))))
_SHOWN = re.compile(
    # `id#7919` is none: Spark numbers its expressions, and comes to any number once.
    "|".join(rf"(?<![\w.])(?<![\w)]#){number}(?!\w)" for number in _numbers())
    + r"|[12][89]71-03-1\d|datetime\.date\([12][89]71, 3, 1\d|"
    + "|".join(_codes(text[:5]) for text in (STEM, STEM.lower(), STEM[::-1]))
)


def found(raw: Iterable[bytes], shown: Iterable[str], *, written: Iterable[str] = ()) -> str | None:
    """Return what is around a canary in an answer, or None.

    `raw` is what came over the wire, `shown` the texts and values in it; `written` is what the attacker
    wrote himself, which may come back to him.
    """
    raw_bytes = b"\n".join(raw)
    # As UTF-16 the letters stand between zeros.
    for data in (raw_bytes, raw_bytes.replace(b"\0", b"")):
        lowered = _UUID.sub(b"", data.lower())
        for text in written:
            lowered = lowered.replace(text.lower().encode(), b"")
        if leak := _LOWER.search(lowered):
            return _around(lowered, leak)
    if leak := _CASED.search(raw_bytes):
        return _around(raw_bytes, leak)
    text_shown = _UUID.sub(b"", "\n".join(shown).encode()).decode()
    for text in written:
        text_shown = text_shown.replace(text, "")
    if number := _SHOWN.search(text_shown):
        return text_shown[max(0, number.start() - 80) : number.end() + 80]
    return None


def _around(data: bytes, leak: re.Match[bytes]) -> str:
    return data[max(0, leak.start() - 80) : leak.end() + 80].decode(errors="replace")
