"""The Sparks behind a gateway, as rules speak of them."""

from __future__ import annotations

DEFAULT_BACKEND = "default"
"""Name of the Spark of a gateway that has one."""
