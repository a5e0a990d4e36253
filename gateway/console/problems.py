"""Errors as RFC 9457 has them: over REST as `application/problem+json`, on pages in words."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from gateway.admin.requests import LOGIN, json_answer, status_of
from gateway.console.routes import ConsoleConflict, NotAllowed
from gateway.errors import BackendUnavailable, Faults, LedgerUnavailable, PoliciesStale

STORE = "the database of the gateways"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What went wrong, for people."""

    status: int
    detail: str
    faults: tuple[str, ...] = ()
    retry_after_s: int = 0

    @property
    def title(self) -> str:
        return HTTPStatus(self.status).phrase


class TooMany(Exception):
    """Somebody asks more often than is answered."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("too many requests; try again later")
        self.retry_after_s = retry_after_s


class WrongHost(Exception):
    """The name in `Host` is none of ours: a page elsewhere may have had its own name lead here."""


def problem_of(error: Exception) -> Problem:
    """Return what may be said of an error; what nobody expected is logged."""
    match error:
        case NotAllowed():
            return Problem(status=403, detail=str(error))
        case ConsoleConflict():
            return Problem(status=409, detail=str(error))
        case WrongHost():
            return Problem(status=421, detail=str(error))
        case TooMany():
            return Problem(status=429, detail=str(error), retry_after_s=error.retry_after_s)
        case Faults():
            return Problem(status=400, detail="; ".join(error.faults), faults=tuple(error.faults))
        case BackendUnavailable() | LedgerUnavailable() | PoliciesStale():
            return Problem(status=503, detail=error.message)
        case _:
            status, detail = status_of(error, "console", STORE)
            return Problem(status=status, detail=detail)


def answer_problem(problem: Problem) -> web.Response:
    """Return a problem over REST."""
    body = {"type": "about:blank", "title": problem.title, "status": problem.status, "detail": problem.detail}
    answer = json_answer(body | ({"errors": problem.faults} if problem.faults else {}), problem.status)
    answer.content_type = "application/problem+json"
    if problem.status == 401:
        answer.headers.update(LOGIN)
    if problem.retry_after_s:
        answer.headers["Retry-After"] = str(problem.retry_after_s)
    return answer
