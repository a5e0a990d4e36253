"""A client of the admin listener's REST APIs: it shows a user name and a password with each request."""

from __future__ import annotations

import base64
from typing import Any

import aiohttp

PASSWORDS = {"bob": "secret", "alice": "wonder"}


class Api:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def __call__(
        self, method: str, path: str = "", body: Any = None, *, user: str = "bob", **headers: str
    ) -> tuple[int, Any]:
        token = base64.b64encode(f"{user}:{PASSWORDS.get(user, '')}".encode()).decode()
        async with self._session.request(
            method, self._url + path, json=body, headers={"Authorization": f"Basic {token}", **headers}
        ) as answer:
            return answer.status, await answer.json()
