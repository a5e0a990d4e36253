"""What the forms of pages send, and what becomes of it where they could not be taken."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from gateway.admin.requests import BadRequest, FromAnotherSite, body_of
from gateway.console.problems import WrongHost
from gateway.console.rendering import is_local

MAX_BODY = 1_048_576
"""Bytes of a request."""
MAX_FIELDS = 2_000
MAX_REFUSED_S = 5.0
"""Seconds for the body of a form that is refused already."""
_SENT: ContextVar[tuple[web.Request | None, Mapping[str, Sequence[str]]]] = ContextVar(
    "_SENT", default=(None, {})
)
"""The form that was read last, and of which request."""
_NOT_TYPED = frozenset(
    {
        "csrf",
        "next",
        "password",
        "kind",
        "event",
        "draft",
        "target",
        "session",
        "statement",
        "decision",
        "proposals",
    }
)
"""Fields that the page has filled in itself, and what is shown to nobody."""


class FormTooOld(FromAnotherSite):
    """The form is one of our pages', and of another session than the one that sends it."""


async def form_of(request: web.Request) -> Mapping[str, Sequence[str]]:
    """Return the fields of a page's form, however often it is asked for. Raises BadRequest, BodyTooLarge."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise BadRequest("the body must be that of a form")
    asked, found = _SENT.get()
    if asked is not request:
        try:
            text = (await body_of(request, MAX_BODY)).decode()
            found = parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
        except ValueError:
            raise BadRequest("the form cannot be read") from None
        _SENT.set((request, found))
    return found


async def list_filled_in(request: web.Request, error: Exception) -> list[tuple[str, str]]:
    """Return what somebody has typed into a form that was not taken, so that he need not write it again: the
    page with the form is not kept by his browser. Nothing where the request was none of our pages', or where
    the form does not come in time."""
    elsewhere = isinstance(error, FromAnotherSite | WrongHost) and not isinstance(error, FormTooOld)
    if request.method != "POST" or elsewhere:  # RULE (console-form-of-others)
        return []
    try:
        async with asyncio.timeout(MAX_REFUSED_S):
            given = await form_of(request)
    except Exception:  # noqa: BLE001 - of a body that cannot be read there is nothing to show
        return []
    return [
        (name, value) for name, values in given.items() if name not in _NOT_TYPED for value in values if value
    ]


def page_before(request: web.Request) -> str:
    """Return the page of ours that somebody came from; empty where it is not known."""
    try:
        came = urlsplit(request.headers.get("Referer", ""))
    except ValueError:
        return ""
    address = f"{came.path}?{came.query}" if came.query else came.path
    return address if came.netloc == request.host and is_local(address) else ""
