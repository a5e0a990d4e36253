"""How many sessions there are by user: one object for all Sparks of a gateway."""

from __future__ import annotations

from collections import Counter


class SessionCounts:
    """Sessions of each endpoint by user, on whichever Spark; those that are being opened too."""

    def __init__(self) -> None:
        self._by_endpoint: dict[str, Counter[str]] = {}

    def of(self, endpoint: str) -> Counter[str]:
        """Return the sessions of an endpoint by user, to be counted in."""
        return self._by_endpoint.setdefault(endpoint, Counter())
