"""Applies splices to a text, so that a rewritten statement can be held against what was said of it."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.model.reading import Splice


def apply_splices(text: str, splices: Sequence[Splice]) -> str | None:
    """Return `text` with each span replaced, or None when spans overlap, lie outside it, or are empty where
    something has to be replaced."""
    pieces: list[str] = []
    at = 0
    for splice in sorted(splices, key=lambda one: one.span.start):
        replaces = splice.span.start < splice.span.end or splice.kind == "title"
        if not (replaces and at <= splice.span.start <= splice.span.end <= len(text)):
            return None
        pieces += (text[at : splice.span.start], splice.text)
        at = splice.span.end
    return "".join((*pieces, text[at:]))
