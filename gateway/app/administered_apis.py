"""REST APIs for administrators alone, put together from settings, users and the database."""

from __future__ import annotations

from functools import partial

from gateway.admin.open_sessions import SessionsApi
from gateway.admin.tag_proposals import TagsApi
from gateway.app.gateway_requests import end_sessions, list_sessions
from gateway.app.rest_logins import administrators_of, log_in_rest
from gateway.app.tag_propagation import connected
from gateway.frontends.authentication import Authenticator
from gateway.settings.listeners import SessionApiSettings, TagApiSettings


def make_sessions_api(settings: SessionApiSettings, dsn: str, authenticator: Authenticator) -> SessionsApi:
    """Return the API of open sessions in all gateways."""
    return SessionsApi(
        partial(list_sessions, dsn),
        partial(end_sessions, dsn),
        partial(log_in_rest, authenticator, "sessions-rest"),
        administrators_of(settings),
    )


def make_tags_api(settings: TagApiSettings, dsn: str, authenticator: Authenticator) -> TagsApi:
    """Return the API of proposals of tags."""
    return TagsApi(
        partial(connected, dsn), partial(log_in_rest, authenticator, "tags-rest"), administrators_of(settings)
    )
