"""One table of all that the console answers: its REST API, its pages and forms, their document in OpenAPI and
the tests of their security are made of it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import Enum, auto
from typing import Any, Literal, get_type_hints

import orjson

from gateway.admin.requests import BadRequest
from gateway.database.texts import storable
from gateway.errors import Faults
from gateway.model.principal import Principal

DEFAULT_CHARS = 1_000
"""Characters of a parameter, where nothing else is said of it."""
MAX_CURSOR_CHARS = 2_000
_NAME = re.compile(r"[a-z][a-z0-9_]{2,60}")
_IN_PATH = re.compile(r"\{(\w+)\}")


class Who(Enum):
    """Who may use a route; each may what those before it may."""

    LOGGED_IN = 1
    AUDITOR = 2
    ADMINISTRATOR = 3


class Recorded(Enum):
    """How the use of a route gets into the audit record, before it is answered."""

    EACH = auto()
    """Each use: it shows something of the record, or changes something."""
    ONCE = auto()
    """Once in a while for each person: what refreshes itself."""
    NEVER = auto()
    """It shows nothing of the record; `unrecorded_because` says what it shows."""


class NotAllowed(Exception):
    """The viewer has not the role for it."""


class ConsoleConflict(Exception):
    """What is to be changed has changed meanwhile, or is in a state in which it cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who looks, as of now."""

    principal: Principal
    is_administrator: bool = False
    is_auditor: bool = False
    """Sees the record of everybody; administrators do."""
    reads_texts: bool = False
    """Sees texts of statements with their literals."""
    address: str = ""

    @property
    def user(self) -> str:
        return self.principal.user

    def has_roles_of(self, other: Viewer) -> bool:
        """Whether this is the same person, with the same roles."""
        return replace(other, principal=self.principal, address=self.address) == self and (
            self.principal.identity == other.principal.identity
        )

    def may(self, who: Who) -> bool:
        """Whether a route for such people is for them."""
        match who:
            case Who.LOGGED_IN:
                return True
            case Who.AUDITOR:
                return self.is_auditor or self.is_administrator
            case Who.ADMINISTRATOR:
                return self.is_administrator


def parameter(about: str, default: Any = MISSING, *, most: int = 0) -> Any:
    """Return a field of a parameters class. `most`: characters of a text, the largest of numbers, texts of a
    list; by default as many as `DEFAULT_CHARS`."""
    metadata = {"about": about, "most": most or DEFAULT_CHARS}
    if default is MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoParameters:
    """Nothing is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleRoute:
    """One thing that may be asked or changed, over REST at its path below `/api/v1`."""

    name: str
    """Unique; the operation's name in OpenAPI, and the `action` in the record."""
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    """Names in braces are parameters."""
    about: str
    parameters: type[Any]
    """A frozen dataclass of `parameter`s: those that are not in the path come from the query of GET and
    DELETE, else from the body."""
    result: type[Any]
    who: Who
    handle: Callable[[Viewer, Any], Awaitable[Any]]
    recorded: Recorded
    unrecorded_because: str = ""
    own: str = ""
    """Of a route for everybody: how it is limited to what is the viewer's own."""
    formats: Mapping[str, Callable[[Any], bytes]] = field(default_factory=dict)
    """Other forms of the answer, by `?format=`: content type → what writes it."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """A value of each parameter that has to be given, for tests and readers of the API's document."""

    @classmethod
    def get(
        cls,
        path: str,
        handle: Callable[[Viewer, Any], Awaitable[Any]],
        about: str,
        *,
        who: Who = Who.AUDITOR,
        recorded: Recorded = Recorded.EACH,
        unrecorded_because: str = "",
        **more: Any,
    ) -> ConsoleRoute:
        """Return a route by GET of what a method answers: its parameters and result are those that the method
        is annotated with, its name the method's unless it is given."""
        if unrecorded_because:
            recorded = Recorded.NEVER
        more |= {"recorded": recorded, "unrecorded_because": unrecorded_because}
        return cls._of("GET", path, handle, about, who, more)

    @classmethod
    def post(
        cls,
        path: str,
        handle: Callable[[Viewer, Any], Awaitable[Any]],
        about: str,
        *,
        who: Who = Who.ADMINISTRATOR,
        **more: Any,
    ) -> ConsoleRoute:
        """Return a route by POST of what a method does, recorded each time it is used."""
        return cls._of("POST", path, handle, about, who, {"recorded": Recorded.EACH, **more})

    @classmethod
    def _of(
        cls,
        method: Literal["GET", "POST"],
        path: str,
        handle: Callable[[Viewer, Any], Awaitable[Any]],
        about: str,
        who: Who,
        more: dict[str, Any],
    ) -> ConsoleRoute:
        hints = get_type_hints(handle)
        if more.get("own"):
            who = Who.LOGGED_IN
        more.setdefault("name", handle.__name__)
        return cls(
            method=method,
            path=path,
            about=about,
            parameters=hints["asked"],
            result=hints["return"],
            who=who,
            handle=handle,
            **more,
        )

    @property
    def changes(self) -> bool:
        return self.method != "GET"

    @property
    def names_in_path(self) -> tuple[str, ...]:
        return tuple(_IN_PATH.findall(self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolePage:
    """A page at its path below `/console`, of what a route answers."""

    route: ConsoleRoute
    path: str
    template: str
    title: str
    menu: str = ""
    """Its entry of the menu; empty for none."""
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleForm:
    """Where a page's form goes below `/console`; it does what a route does, and leads to a page."""

    route: ConsoleRoute
    path: str
    then: Callable[[Any, Any], str]
    """Parameters and result → path of the page below `/console`, with its query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleStream:
    """Server-sent events at a path below `/api/v1`: each says that a page is to be asked for again."""

    name: str
    path: str
    about: str
    who: Who
    listen: Callable[[Viewer], AsyncIterator[str]]
    recorded: Recorded = Recorded.ONCE
    own: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleDownload:
    """A file by GET at a path below `/api/v1`, of which no more than a piece is in memory; its use is
    recorded before the first byte."""

    name: str
    path: str
    about: str
    parameters: type[Any]
    who: Who
    content_type: str
    file_name: Callable[[Any], str]
    handle: Callable[[Viewer, Any], AsyncIterator[bytes]]
    recorded: Recorded = Recorded.EACH
    own: str = ""
    examples: Mapping[str, str] = field(default_factory=dict)

    @property
    def names_in_path(self) -> tuple[str, ...]:
        return tuple(_IN_PATH.findall(self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolePart:
    """What one module of pages adds."""

    routes: Sequence[ConsoleRoute]
    pages: Sequence[ConsolePage] = ()
    forms: Sequence[ConsoleForm] = ()
    streams: Sequence[ConsoleStream] = ()
    downloads: Sequence[ConsoleDownload] = ()


Recordable = ConsoleRoute | ConsoleDownload | ConsoleStream
"""What is used by somebody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedParameters:
    """Parameters of lists; inherit them."""

    limit: int = parameter("How many at most.", 50, most=200)
    after: str = parameter("`next` of the page before.", "", most=MAX_CURSOR_CHARS)


def encode_cursor(*values: str | int) -> str:
    """Return a place in a list as a text."""
    return base64.urlsafe_b64encode(orjson.dumps(values)).decode().rstrip("=")


def decode_cursor(text: str, *types: type) -> tuple[Any, ...]:
    """Return the values of a place. Raises BadRequest for what nobody was given here."""
    try:
        found = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise BadRequest("`after` is not a place in this list") from None
    if (
        not isinstance(found, list)
        or [type(one) for one in found] != list(types)
        or not all(_is_askable(one) for one in found)
    ):
        raise BadRequest("`after` is not a place in this list")
    return tuple(found)


def _is_askable(value: str | int) -> bool:
    """Whether PostgreSQL can be asked for a value."""
    return storable(value) == value if isinstance(value, str) else -(2**63) <= value < 2**63


def check_parts(parts: Sequence[ConsolePart]) -> None:
    """Raise Faults for a table in which something is missing that its security rests on."""
    routes = [route for part in parts for route in part.routes]
    used: list[Recordable] = [*routes]
    for part in parts:
        used += [*part.streams, *part.downloads]
    faults = [fault for one in used for fault in _faults_of(one)]
    names = [one.name for one in used]
    faults += [f"`{name}` is there twice" for name in sorted({one for one in names if names.count(one) > 1})]
    places = [f"{getattr(one, 'method', 'GET')} {_IN_PATH.sub('{}', one.path)}" for one in used]
    faults += [f"`{place}` is there twice" for place in sorted({p for p in places if places.count(p) > 1})]
    known = {id(route) for route in routes}
    for part in parts:
        for page in part.pages:
            if page.route.changes or id(page.route) not in known:
                faults.append(f"the page `{page.path}` must be of a route by GET that is in the table")
            if not set(_IN_PATH.findall(page.path)) <= {one.name for one in fields(page.route.parameters)}:
                faults.append(f"the page `{page.path}` names a parameter that its route has not")
        for form in part.forms:
            if form.route.method != "POST" or id(form.route) not in known:
                faults.append(f"the form `{form.path}` must be of a route by POST that is in the table")
    if faults:
        raise Faults(faults)


def _faults_of(one: Recordable) -> list[str]:
    found = []
    if not _NAME.fullmatch(one.name):
        found.append(f"the route `{one.name}` has no proper name")
    if one.who is Who.LOGGED_IN and not one.own:
        found.append(f"`{one.name}` is for everybody and does not say what is `own`")
    if isinstance(one, ConsoleStream):
        return found
    if not is_dataclass(one.parameters):
        return [*found, f"`{one.name}`: its parameters must be a dataclass"]
    named = {one.name for one in fields(one.parameters)}
    if not set(one.names_in_path) <= named:
        found.append(f"`{one.name}`: its path names a parameter that it has not")
    if any("about" not in each.metadata for each in fields(one.parameters)):
        found.append(f"`{one.name}`: each parameter is made by `parameter`")
    if "format" in named:
        found.append(f"`{one.name}`: `format` is the form of the answer")
    if isinstance(one, ConsoleDownload):
        return found
    if not is_dataclass(one.result):
        found.append(f"`{one.name}`: its result must be a dataclass")
    if one.recorded is Recorded.NEVER and not one.unrecorded_because:
        found.append(f"`{one.name}` is not recorded and does not say why")
    if one.changes and one.recorded is not Recorded.EACH:
        found.append(f"`{one.name}` changes something: each use is recorded")
    return found
