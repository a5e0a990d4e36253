"""Questions to all gateways of a database: their sessions, their users, and an end to sessions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gateway.app.sparks import Sparks
from gateway.database.gateway_requests import Answers, ask_gateways
from gateway.errors import BackendUnavailable, LedgerUnavailable, LimitExceeded
from gateway.frontends.user_file import UserFile
from gateway.frontends.users import User, fingerprint
from gateway.session.identifiers import tag_of
from gateway.session.open_sessions import OpenSessions

_Json = dict[str, Any]
ENDED = "an operator ended the session"
STOPPED = "an operator canceled the statement"
NOT_ASKED = "the gateway that the session was opened through does not answer; try again later"
MAX_QUESTIONS = 16
"""Questions about handles that wait for other gateways at once."""
MAX_QUESTIONS_OF_USER = 4
"""Those of one user; more are refused."""


class GatewayRequests:
    """Answers for one gateway."""

    def __init__(self, sessions: OpenSessions, users: UserFile, sparks: Sparks | None = None) -> None:
        self._sessions = sessions
        self._users = users
        self._sparks = sparks
        self.tell_health: Callable[[], Awaitable[_Json]] | None = None
        """Says how this gateway is doing, once it has started."""

    async def answer(self, asked: Mapping[str, Any]) -> _Json:
        """Return what is asked for; a request that another version makes is an error in words."""
        match asked:
            case {"ask": "sessions"}:
                return {"sessions": [_as_json(asdict(one)) for one in self._sessions.list_sessions()]}
            case {"ask": "health"}:
                return {"health": await self.tell_health() if self.tell_health is not None else None}
            case {"ask": "statements"}:
                return {"statements": [asdict(one) for one in self._sessions.list_statements()]}
            case {"ask": "stop_statement", "statement": str(statement)}:
                return {"stopped": await self._sessions.stop_statement(statement, STOPPED)}
            case {"ask": "end_session", "user": str(user), "session": str(session), "by": str(by)}:
                return {"ended": await self._sessions.end_one(user, session, ENDED, by=by)}
            case {"ask": "end_sessions", "user": str(user), "by": str(by)}:
                return {"ended": await self._sessions.end([user], ENDED, by=by)}
            case {"ask": "backends"}:
                return {"backends": self._sparks.list_states() if self._sparks is not None else []}
            case {"ask": "drain", "backend": str(name), "on": bool(on), "by": str(by)}:
                found = self._sparks.drain(name, on=on, by=by) if self._sparks is not None else []
                return {"drained": found}
            case {"ask": "users", "name": str(name)}:
                await self._users.refresh()
                return {"user": fingerprint(self._users.users.get(name)), "faults": list(self._users.faults)}
            case {"ask": "handle", **about}:
                return {"about": await self._sessions.answer_other(about)}
            case _:
                return {"error": "this version of the gateway does not support the request"}


def _as_json(shown: _Json) -> _Json:
    return shown | {"opened_at": shown["opened_at"].isoformat(timespec="seconds")}


class HandleOwners:
    """Asks the gateways that made handles."""

    def __init__(self, dsn: str, others: Callable[[], Collection[str]]) -> None:
        """`others` tells the gateways that live."""
        self._dsn = dsn
        self._others = others
        self._places = asyncio.Semaphore(MAX_QUESTIONS)
        self._of_users = Counter[str]()

    async def ask(self, tag: bytes, about: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Ask the gateway with the tag; None: no such gateway runs. Raises BackendUnavailable where it does
        not answer."""
        owner = next((name for name in self._others() if tag_of(name) == tag), None)
        if owner is None:
            return None
        user = str(about["user"])
        if self._of_users[user] >= MAX_QUESTIONS_OF_USER:
            raise LimitExceeded("too many calls about sessions of another gateway at once; try again later")
        self._of_users[user] += 1
        try:
            async with self._places:
                answers = await ask_gateways(self._dsn, {"ask": "handle", **about}, only=owner)
        except LedgerUnavailable:
            raise BackendUnavailable(NOT_ASKED) from None
        finally:
            self._of_users[user] -= 1
            self._of_users += Counter()  # without those that ask nothing
        answer = answers.by_gateway.get(owner)
        if answer is not None and "about" in answer:
            found: Mapping[str, Any] = answer["about"]
            return found
        if answer is None and not answers.silent:
            return None  # it has just gone
        raise BackendUnavailable(NOT_ASKED)


# -- asking, for commands and for REST -----------------------------------------------------------------------


async def list_sessions(dsn: str) -> tuple[list[_Json], Sequence[str]]:
    """Return all open sessions of all gateways, and what is to be said of gateways that did not tell theirs.

    Raises LedgerUnavailable, and BackendUnavailable where no gateway runs.
    """
    answers = await _ask(dsn, {"ask": "sessions"})
    found = [
        {"gateway": gateway, **one}
        for gateway, answer in sorted(answers.by_gateway.items())
        for one in answer.get("sessions", ())
    ]
    return found, _troubles(answers)


async def end_sessions(dsn: str, user: str, by: str) -> tuple[int, Sequence[str]]:
    """End all sessions of a user in all gateways; return how many, and what went wrong. Raises as above."""
    answers = await _ask(dsn, {"ask": "end_sessions", "user": user, "by": by})
    return sum(answer.get("ended", 0) for answer in answers.by_gateway.values()), _troubles(answers)


async def ask_health(dsn: str) -> tuple[Mapping[str, _Json], Sequence[str]]:
    """Return what each gateway says of itself, and what went wrong. Raises as above."""
    answers = await _ask(dsn, {"ask": "health"})
    found = {name: told for name, one in answers.by_gateway.items() if (told := one.get("health"))}
    return found, _troubles(answers)


async def list_statements(dsn: str) -> tuple[list[_Json], Sequence[str]]:
    """Return what waits and runs in all gateways, and what went wrong. Raises as above."""
    answers = await _ask(dsn, {"ask": "statements"})
    found = [
        {"gateway": gateway, **one}
        for gateway, answer in sorted(answers.by_gateway.items())
        for one in answer.get("statements", ())
    ]
    return found, _troubles(answers)


async def stop_statement(dsn: str, statement: str) -> tuple[int, Sequence[str]]:
    """Have a statement stopped, whichever gateway has it; return how many there were, and what went wrong.
    Raises as above."""
    answers = await _ask(dsn, {"ask": "stop_statement", "statement": statement})
    return sum(answer.get("stopped", 0) for answer in answers.by_gateway.values()), _troubles(answers)


async def end_session(dsn: str, user: str, session: str, by: str) -> tuple[int, Sequence[str]]:
    """End one session of a user, whichever gateway has it. Raises as above."""
    answers = await _ask(dsn, {"ask": "end_session", "user": user, "session": session, "by": by})
    return sum(answer.get("ended", 0) for answer in answers.by_gateway.values()), _troubles(answers)


async def list_backends(dsn: str) -> tuple[list[_Json], Sequence[str]]:
    """Return the Sparks of all gateways, as each sees them, and what went wrong. Raises as above."""
    answers = await _ask(dsn, {"ask": "backends"})
    found = [
        {"gateway": gateway, **one}
        for gateway, answer in sorted(answers.by_gateway.items())
        for one in answer.get("backends", ())
    ]
    return found, _troubles(answers)


async def drain_backend(dsn: str, name: str, *, on: bool, by: str) -> tuple[list[str], Sequence[str]]:
    """Have a Spark get no new sessions from any gateway, or get them again; return which gateways did it, and
    what went wrong. Raises as above."""
    answers = await _ask(dsn, {"ask": "drain", "backend": name, "on": on, "by": by})
    done = [gateway for gateway, answer in sorted(answers.by_gateway.items()) if answer.get("drained")]
    unknown = [
        f"{gateway}: has no backend `{name}`"
        for gateway, answer in sorted(answers.by_gateway.items())
        if "error" not in answer and not answer.get("drained")
    ]
    return done, [*_troubles(answers), *unknown]


async def ask_for_user(dsn: str, name: str, user: User | None) -> tuple[list[str], list[str]]:
    """Have all gateways look at their user files; return those that have `user` under its name, None: have
    nobody, and a sentence for each that has not. Raises LedgerUnavailable."""
    answers = await ask_gateways(dsn, {"ask": "users", "name": name})
    wanted = fingerprint(user)
    taken, failed = [], _troubles(answers)
    for gateway, answer in sorted(answers.by_gateway.items()):
        if answer.get("user") == wanted:
            taken.append(gateway)
        elif "error" not in answer:
            why = "; ".join(answer["faults"]) or "it uses another user file"
            failed.append(f"{gateway}: {why}")
    return taken, failed


async def _ask(dsn: str, body: _Json) -> Answers:
    answers = await ask_gateways(dsn, body)
    if not answers.by_gateway and not answers.silent:
        raise BackendUnavailable("no running gateway uses this audit database")
    return answers


def _troubles(answers: Answers) -> list[str]:
    """Return a sentence for each gateway that did not do what it was asked."""
    failed = [f"{gateway}: {one['error']}" for gateway, one in answers.by_gateway.items() if "error" in one]
    return sorted(failed) + [f"{gateway}: did not answer in time" for gateway in sorted(answers.silent)]
