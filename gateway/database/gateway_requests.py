"""Asks every running gateway of a database something, and answers what is asked.

A request is a row that PostgreSQL tells of; so is an answer. Only roles that may write these tables ask,
which a notification alone would not ensure.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import structlog

from gateway.database import asking
from gateway.database.connections import open_connection
from gateway.database.migrate import migrate

_log = structlog.get_logger(__name__)

ASKED = "sluice_gateway_request"
ANSWERED = "sluice_gateway_answer"
LISTENER = "sluice-requests "
"""Before the gateway's name, what PostgreSQL knows the connection by that waits for requests."""
ANSWER_S = 15.0
"""Seconds that a gateway gets to answer."""
LOOK_S = 1.0
"""Seconds between signs of life, and between two tries to connect."""
MAX_ANSWERS = 32
"""Requests that a gateway works on at once; others wait."""
MAX_AGE = "1 hour"
"""After this a request that nobody removed goes."""

_Json = dict[str, Any]
AnswerRequest = Callable[[Mapping[str, Any]], Awaitable[_Json]]
"""A request's body → what this gateway answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What came back."""

    by_gateway: Mapping[str, _Json]
    silent: frozenset[str]
    """Gateways that wait for requests and did not answer in time."""


async def ask_gateways(
    dsn: str, body: _Json, *, only: str | None = None, within_s: float | None = None
) -> Answers:
    """Ask all gateways that run, or `only` one, and wait for what each answers, `within_s` seconds at most or
    `ANSWER_S`.

    Raises LedgerUnavailable.
    """
    request = uuid.uuid4()
    async with asking.connected(dsn, "sluice-asking") as connection:
        if only is None:
            await migrate(connection)
        came = asyncio.Event()
        await connection.add_listener(ANSWERED, lambda *_: came.set())
        names = await connection.fetch(
            "SELECT DISTINCT substr(application_name, $2) AS gateway FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE $1",
            f"{LISTENER}%",
            len(LISTENER) + 1,
        )
        waited_for = {row["gateway"] for row in names if only is None or row["gateway"] == only}
        async with connection.transaction():
            await connection.execute(
                "DELETE FROM sluice.gateway_request WHERE asked_at < now() - $1::text::interval", MAX_AGE
            )
            await connection.execute(
                "INSERT INTO sluice.gateway_request (id, body, for_gateway) VALUES ($1, $2, $3)",
                *(request, _text(body), only),
            )
            await connection.execute("SELECT pg_notify($1, $2)", ASKED, str(request))
        found: dict[str, _Json] = {}
        try:
            async with asyncio.timeout(ANSWER_S if within_s is None else within_s):
                while not waited_for <= found.keys():
                    came.clear()
                    found = await _answers(connection, request)
                    if not waited_for <= found.keys():
                        await came.wait()
        except TimeoutError:
            found = await _answers(connection, request)
        await connection.execute("DELETE FROM sluice.gateway_request WHERE id = $1", request)
    return Answers(by_gateway=found, silent=frozenset(waited_for - found.keys()))


async def _answers(connection: Any, request: uuid.UUID) -> dict[str, _Json]:
    rows = await connection.fetch(
        "SELECT gateway, body FROM sluice.gateway_answer WHERE request = $1", request
    )
    return {row["gateway"]: orjson.loads(row["body"]) for row in rows}


class Answering:
    """Answers, for one gateway, what is asked of all."""

    def __init__(self, dsn: str, gateway: str, answer: AnswerRequest) -> None:
        self._dsn = dsn
        self._gateway = gateway
        self._answer = answer
        self._asked = asyncio.Event()
        self._answers = dict[uuid.UUID, asyncio.Task[None]]()
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Go on until cancelled; a PostgreSQL that is away is tried again and again."""
        is_told = False
        while True:
            try:
                connection = await open_connection(self._dsn, LISTENER + self._gateway, command_s=ANSWER_S)
                try:
                    await connection.add_listener(ASKED, lambda *_: self._asked.set())
                    is_told = False
                    await self._serve(connection)
                finally:
                    await self._stop()
                    connection.terminate()
            except asking.TROUBLE as error:
                if not is_told:
                    _log.warning("requests_not_heard", error=str(error))
                is_told = True
            await asyncio.sleep(LOOK_S)

    async def _serve(self, connection: Any) -> None:
        while True:
            self._asked.clear()
            # Also what was asked while nobody listened, as long as its asker waits.
            async with self._writing:
                rows = await connection.fetch(
                    "SELECT id, body FROM sluice.gateway_request r"
                    " WHERE asked_at > now() - make_interval(secs => $2)"
                    " AND (for_gateway IS NULL OR for_gateway = $1) AND NOT EXISTS"
                    " (SELECT FROM sluice.gateway_answer WHERE request = r.id AND gateway = $1)"
                    " ORDER BY asked_at",
                    self._gateway,
                    ANSWER_S,
                )
            for row in rows:
                if row["id"] not in self._answers and len(self._answers) < MAX_ANSWERS:
                    work = self._answer_one(connection, row["id"], orjson.loads(row["body"]))
                    self._answers[row["id"]] = asyncio.create_task(work)
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._asked.wait()
            except TimeoutError:
                pass

    async def _answer_one(self, connection: Any, request: uuid.UUID, body: Mapping[str, Any]) -> None:
        try:
            answer = await self._answer(body)
        except Exception:  # noqa: BLE001 - a request's root: a fault of ours ends this request alone
            _log.exception("request_failed", asked=body.get("ask"))
            answer = {"error": "the request failed in this gateway; its log has the details"}
        try:
            # Whoever asked may have gone, and the request with it.
            async with self._writing:
                await connection.execute(
                    "INSERT INTO sluice.gateway_answer (request, gateway, body)"
                    " SELECT id, $2, $3 FROM sluice.gateway_request WHERE id = $1 ON CONFLICT DO NOTHING",
                    request,
                    self._gateway,
                    _text(answer),
                )
                await connection.execute("SELECT pg_notify($1, '')", ANSWERED)
        except asking.TROUBLE as error:
            _log.info("request_not_answered", error=str(error))
        finally:
            del self._answers[request]
            self._asked.set()

    async def _stop(self) -> None:
        tasks = list(self._answers.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._answers.clear()


def _text(body: _Json) -> str:
    return orjson.dumps(body).decode()
