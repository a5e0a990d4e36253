"""Texts as PostgreSQL takes them."""

from __future__ import annotations

NUL = "\u2400"
SURROGATE = "\ufffd"


def storable(text: str) -> str:
    """Return a text without NUL and lone surrogates, with a sign in the place of each."""
    text = text.replace("\0", NUL)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(SURROGATE if "\ud800" <= c <= "\udfff" else c for c in text)
    return text
