"""The console's pages of the record, of lineage and of requests, put together."""

from __future__ import annotations

from gateway.app.console_tools import ConsoleTools
from gateway.app.gateway_parts import GatewayParts
from gateway.console.routes import ConsolePart


def list_parts(parts: GatewayParts, tools: ConsoleTools) -> list[ConsolePart]:
    """Return the pages with what they need."""
    return []
