"""Every way into the console, of its own table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any
from unittest.mock import AsyncMock, MagicMock
from urllib.parse import urlencode

from gateway.app import console as made
from gateway.app.console_tools import ConsoleTools
from gateway.console.routes import ConsolePart, ConsoleStream, Recordable
from gateway.console.texts import ShownTexts
from gateway.settings.models import Settings


def all_parts() -> Sequence[ConsolePart]:
    """Return the console's own table, over a gateway that answers nothing."""
    gateway = MagicMock()
    gateway.settings = Settings()
    tools = ConsoleTools(
        pool=_empty_database(), texts=ShownTexts(AsyncMock()), recorder=MagicMock(), public_url=""
    )
    return made.list_parts(gateway, tools)


def _empty_database() -> MagicMock:
    """Return connections to a database in which nothing is."""
    connection = MagicMock()
    connection.fetch = AsyncMock(return_value=[])
    connection.fetchrow = connection.fetchval = AsyncMock(return_value=None)
    connection.execute = AsyncMock(return_value="")
    pool = MagicMock()
    pool.acquire.return_value.__aenter__.return_value = connection
    return pool


@dataclass(frozen=True)
class Door:
    """One way in: a method and a path, and the rule of what is behind it."""

    method: str
    path: str
    used: Recordable
    in_path: frozenset[str]
    is_page: bool = False
    is_form: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def changes(self) -> bool:
        return self.method != "GET"

    def given(self, csrf: str) -> dict[str, Any]:
        """Return what a request has to send with it, so that nothing but its rule stops it."""
        if self.is_form:
            return {"data": {**self._body(), "csrf": csrf}}
        if self.method in ("POST", "PUT"):
            return {"json": self._body(), "headers": {"X-CSRF-Token": csrf}}
        return {"headers": {"X-CSRF-Token": csrf}} if self.method == "DELETE" else {}

    def _body(self) -> dict[str, str]:
        examples = getattr(self.used, "examples", {})
        return {name: examples[name] for name in required(self.used) if name not in self.in_path}


def required(used: Recordable) -> list[str]:
    """Return the parameters that have to be given."""
    if isinstance(used, ConsoleStream):
        return []
    return [
        one.name
        for one in fields(used.parameters)
        if one.default is MISSING and one.default_factory is MISSING
    ]


def _door(method: str, prefix: str, path: str, used: Recordable, **kind: bool) -> Door:
    examples = getattr(used, "examples", {})
    named = frozenset(re.findall(r"\{(\w+)\}", path))
    filled = re.sub(r"\{(\w+)\}", lambda one: examples[one[1]], path)
    asked = [name for name in required(used) if name not in named and method in ("GET", "DELETE")]
    query = "?" + urlencode({name: examples[name] for name in asked}) if asked else ""
    return Door(method, prefix + filled + query, used, named, **kind)


def doors(parts: Sequence[ConsolePart]) -> list[Door]:
    """Return every way in."""
    found = []
    for part in parts:
        found += [_door(one.method, "/api/v1", one.path, one) for one in part.routes]
        found += [_door("GET", "/api/v1", one.path, one) for one in part.streams]
        found += [_door("GET", "/api/v1", one.path, one) for one in part.downloads]
        found += [_door("GET", "/console", one.path, one.route, is_page=True) for one in part.pages]
        found += [
            _door("POST", "/console", one.path, one.route, is_page=True, is_form=True) for one in part.forms
        ]
    return found


PARTS = all_parts()
DOORS = doors(PARTS)
