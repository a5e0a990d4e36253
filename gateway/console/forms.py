"""What the forms of pages send."""

from __future__ import annotations

from urllib.parse import parse_qs

from aiohttp import web

from gateway.admin.requests import BadRequest, body_of

MAX_BODY = 1_048_576
"""Bytes of a request."""
MAX_FIELDS = 2_000


async def form_of(request: web.Request) -> dict[str, list[str]]:
    """Return the fields of a page's form. Raises BadRequest, BodyTooLarge."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise BadRequest("the body must be that of a form")
    try:
        text = (await body_of(request, MAX_BODY)).decode()
        return parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise BadRequest("the form cannot be read") from None
