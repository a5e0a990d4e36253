"""Holds Spark to reading texts as the parser does: whoever opens a session of Spark asks here first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import structlog

from gateway.errors import BackendMismatch, BackendUnavailable, RpcError
from gateway.model.spark_configuration import (
    ParserConfiguration,
    SparkConfiguration,
    differences,
    process_of,
)
from gateway.session.ports import BackendError

_log = structlog.get_logger(__name__)


class ProbedSession(Protocol):
    """A session of Spark that tells of the process behind it."""

    async def version(self) -> str: ...

    async def settings(self) -> Mapping[str, str]: ...

    async def parsers(self, settings: Mapping[str, str]) -> tuple[str, ...]: ...


class OneReading:
    """What one endpoint of Spark is held to.

    Settings are asked for on every connection. Version and parsers cannot change while a process lives, so
    they are asked for once of each.
    """

    def __init__(
        self, endpoint: str, reader: ParserConfiguration, catalogs: frozenset[str] = frozenset()
    ) -> None:
        """`catalogs` are those that names may begin with: Spark has to have them all."""
        self._endpoint = endpoint
        self._reader = reader
        self._catalogs = catalogs
        self.holds = False
        """Whether the session that was asked last reads as we do."""
        self._known: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}
        """Process → version and parsers, of those that read as we do."""

    async def require(self, session: ProbedSession) -> SparkConfiguration:
        """Return what Spark says of itself.

        Raises BackendMismatch when it may read texts otherwise than the parser, BackendUnavailable when it
        cannot be asked.
        """
        self.holds = False
        try:
            settings = await session.settings()
            process = process_of(settings)
            known = self._known.get(process) if process is not None else None
            version, parsers = known or (await session.version(), await session.parsers(settings))
        except (BackendError, RpcError) as error:
            raise BackendUnavailable("Spark does not report its configuration") from error
        found = SparkConfiguration(version=version, settings=settings, parsers=parsers)
        faults = differences(found, reader=self._reader, catalogs=self._catalogs)
        if faults:
            _log.error("spark_reads_otherwise", endpoint=self._endpoint, reasons=faults)
            raise BackendMismatch(faults)
        if known is None:
            _log.info("spark_attested", endpoint=self._endpoint, version=version, catalogs=found.catalogs)
        if process is not None:
            self._known.pop(process, None)
            self._known[process] = (version, parsers)
            while len(self._known) > MAX_KNOWN:
                del self._known[next(iter(self._known))]
        self.holds = True
        return found


MAX_KNOWN = 16
"""Processes of Spark's that are remembered: those behind one address, and a few that are gone."""
