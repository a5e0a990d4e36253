"""Ranger's mask transformers, such as `mask_show_last_n({col}, 4, 'x', 'x', 'x', -1, '1')`, read as data."""

from __future__ import annotations


def transformer_faults(text: str) -> list[str]:
    """Return what is wrong with a transformer; empty when it is understood."""
    return []
