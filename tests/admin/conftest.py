"""Ranger's API on a real PostgreSQL, and Ranger's own client in a thread: it blocks."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
import orjson
import pytest
import pytest_asyncio
from apache_ranger.client.ranger_client import RangerClient
from prometheus_client import CollectorRegistry

from gateway.admin.listener import AdminServer
from gateway.admin.ranger.access import Access, AdminRights, PolicyText, TextQuestion
from gateway.admin.ranger.api import RangerApi
from gateway.admin.ranger.servicedefs import ship
from gateway.admin.ranger.store import Store
from gateway.admin.ranger.transactions import WriteTransaction
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.model.credentials import Credentials, Password
from gateway.model.principal import Principal
from gateway.policy.documents import parse_document
from tests.conftest import new_database

T = TypeVar("T")
DEFINITIONS = Path(__file__).resolve().parents[2] / "rules" / "service_defs"
PASSWORD = "right"
GROUPS = {"dave": frozenset({"stewards"}), "gwen": frozenset({"governors"})}
IDS: dict[str, str] = {}
"""Ids of users, who have none unless a test gives them one."""
RIGHTS = AdminRights(
    administrators=frozenset({"admin"}),
    administrator_groups=frozenset({"governors"}),
    plugins=frozenset({"plugin"}),
)


async def authenticate(shown: Credentials, _address: str) -> Principal | None:
    if not isinstance(shown, Password) or shown.password != PASSWORD:
        return None
    groups = GROUPS.get(shown.user, frozenset())
    return Principal(user=shown.user, groups=groups, id=IDS.get(shown.user, ""))


async def shipped(writing: WriteTransaction) -> None:
    files = sorted(DEFINITIONS.glob("*.yaml"))
    await ship(writing, [parse_document(file.read_text(), str(file)).data for file in files])


def shipped_names() -> set[str]:
    """Return the names of the definitions that `shipped` puts in."""
    names = {
        str(parse_document(file.read_text(), str(file)).data["name"]) for file in DEFINITIONS.glob("*.yaml")
    }
    assert {"hive", "spark", "tag"} <= names
    return names


class Served:
    """A running API: raw requests, and Ranger's client."""

    def __init__(self, url: str, store: Store, session: aiohttp.ClientSession, access: Access) -> None:
        self.url = url
        self.access = access
        self.store = store
        self._session = session

    def client(self, user: str = "admin") -> RangerClient:
        return RangerClient(self.url, (user, PASSWORD))

    async def drive(self, work: Callable[[RangerClient], T], user: str = "admin") -> T:
        """Let work use Ranger's client, in a thread."""

        def run() -> T:
            client = self.client(user)
            with client.session:
                return work(client)

        return await asyncio.to_thread(run)

    async def headers(self, method: str, path: str, body: dict[str, Any]) -> Mapping[str, str]:
        """Return the headers of an answer to an administrator."""
        token = base64.b64encode(f"admin:{PASSWORD}".encode()).decode()
        headers = {"Authorization": f"Basic {token}"}
        url = f"{self.url}/service{path}"
        async with self._session.request(method, url, data=orjson.dumps(body), headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return dict(answer.headers)

    async def ask(
        self, method: str, path: str, body: Any = None, *, user: str = "admin", **more: Any
    ) -> tuple[int, Any]:
        """Return status and body of a request below /service; JSON is decoded."""
        token = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
        headers = {"Authorization": f"Basic {token}", **more.pop("headers", {})}
        as_it_is = body is None or not isinstance(body, dict | list)
        data = body if as_it_is else orjson.dumps(body)
        async with self._session.request(
            method, f"{self.url}/service{path}", data=data, headers=headers, **more
        ) as response:
            text = await response.read()
            return response.status, orjson.loads(text) if text else None

    async def send(
        self, method: str, path: str, data: Any, headers: dict[str, str] | None = None, *, user: str = "admin"
    ) -> tuple[int, Any]:
        """As `ask`, with a body as it is: a form, or bytes."""
        token = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
        async with self._session.request(
            method,
            f"{self.url}/service{path}",
            data=data,
            headers={"Authorization": f"Basic {token}", **(headers or {})},
        ) as response:
            text = await response.read()
            return response.status, orjson.loads(text) if text else None


async def read_text(question: TextQuestion, author: Principal) -> PolicyText:
    """As Spark's parser would: texts with the word `broken` are none, and what is behind `FROM` is read.
    Everybody may select what is open."""
    text = question.text
    fault = f"this {question.kind} is not a Spark SQL expression" if "broken" in text else None
    found = re.search(r"FROM ([\w.]+)", text)
    unchecked = f"`{text}` was not held against tables" if "unknown" in text else ""
    return PolicyText(fault, f"reads `{found[1]}`" if found else "", unchecked, "lab.open" in text)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def prepared(embedded_postgres: str) -> AsyncIterator[str]:
    """The name of a database with the tables and definitions that the API begins with, to be copied."""
    async with new_database(embedded_postgres) as dsn:
        store = Store(dsn, prepare=shipped)
        async with store.reading():
            pass
        await store.close()
        yield urlsplit(dsn).path.removeprefix("/")


@pytest.fixture
async def database(prepared: str, embedded_postgres: str) -> AsyncIterator[str]:
    """The DSN of such a copy."""
    async with new_database(embedded_postgres, prepared) as dsn:
        yield dsn


@contextlib.asynccontextmanager
async def serving(database: str) -> AsyncIterator[Served]:
    """Serve Ranger's API on a database."""
    store = Store(database, prepare=shipped)
    access = Access(RIGHTS, read_text=read_text)
    api = RangerApi(store, access, authenticate)
    listener = AdminServer({}, CollectorRegistry(), mounted={"/service": api.app})
    port = await listener.start(ConnectionLimiter("admin"), "127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        yield Served(f"http://127.0.0.1:{port}", store, session, access)
    await listener.close()
    await store.close()


@pytest.fixture
async def served(database: str) -> AsyncIterator[Served]:
    """Ranger's API with an empty database of its own."""
    async with serving(database) as found:
        yield found
    await asyncio.get_running_loop().shutdown_default_executor()
