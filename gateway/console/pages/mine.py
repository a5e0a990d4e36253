"""A person's own: what policies grant, sessions, tokens, statements, and how to connect each tool, filled
in."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from gateway.admin.requests import NotFound
from gateway.console.login_sessions import SessionStore
from gateway.console.pages.live import Live, LiveChange, LiveParameters, LiveSession, LiveStatement
from gateway.console.routes import (
    ConsoleForm,
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    NoParameters,
    Recorded,
    Viewer,
    parameter,
)
from gateway.model.bounded import BoundedDict
from gateway.model.policy import Policy, PolicyItem, PolicySet, PolicyType, ResourceSet
from gateway.model.principal import Principal

MAX_GRANTS = 300
MAX_REMEMBERED = 1_000
"""People whose grants are remembered."""
MAX_VALUES = 5
"""Values of one resource of a policy that are written out."""
MAX_STATEMENTS = 20
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")
EVERYBODY = "public"
"""Ranger's group of all."""
LOOKED_BACK = timedelta(days=7)
_STATEMENTS = """
SELECT event_id, time, verdict, code, statement, plan_class FROM sluice.audit_event
WHERE user_name = $1 AND time > $3 AND kind = 'decided' AND statement IS NOT NULL
ORDER BY time DESC LIMIT $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Something that a policy allows."""

    resource: str
    accesses: str
    by: str
    """Because of what: himself, a group, a role."""
    until: str
    """Its end, where it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnToken:
    """A token, without its secret."""

    id: str
    label: str
    expires: str
    endpoints: tuple[str, ...]
    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLogin:
    """A browser in which the viewer is logged in to the console."""

    address: str
    opened_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnStatement:
    """One of the viewer's last statements."""

    id: str
    time: datetime
    verdict: str
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HowTo:
    """How a tool connects, with everything filled in but the password."""

    tool: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mine:
    """All of it."""

    groups: tuple[str, ...]
    roles: tuple[str, ...]
    attributes: tuple[str, ...]
    grants: tuple[Grant, ...]
    more_grants: int
    sessions: tuple[LiveSession, ...]
    running: tuple[LiveStatement, ...]
    logins: tuple[OwnLogin, ...]
    tokens: tuple[OwnToken, ...]
    statements: tuple[OwnStatement, ...]
    how_to: tuple[HowTo, ...]
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSessionParameters:
    session: str = parameter("Id of the session.", most=200)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnStatementParameters:
    statement: str = parameter("Id of the statement.", most=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Where clients connect; 0 for what is not there."""

    host: str
    thrift: int = 0
    thrift_tls: bool = False
    thrift_http: int = 0
    thrift_http_tls: bool = False
    http_path: str = "cliservice"
    connect: int = 0
    connect_tls: bool = False
    iceberg_rest: int = 0
    iceberg_rest_tls: bool = False
    iceberg_catalogs: tuple[str, ...] = ()


class MinePage:
    """Answers what is a viewer's own, and nothing of others."""

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Any]],
        store: SessionStore,
        *,
        live: Callable[[Viewer, LiveParameters], Awaitable[Live]],
        stop: Callable[[str], Awaitable[tuple[int, Sequence[str]]]],
        end: Callable[[str, str, str], Awaitable[tuple[int, Sequence[str]]]],
        tokens: Callable[[str], Sequence[OwnToken]],
        policies: Callable[[], PolicySet],
        endpoints: Endpoints,
    ) -> None:
        self._connect = connect
        self._store = store
        self._live = live
        self._stop = stop
        self._end = end
        self._tokens = tokens
        self._policies = policies
        self._endpoints = endpoints
        self._listing = asyncio.Lock()
        self._listed_of: PolicySet | None = None
        self._listed: BoundedDict[Principal, tuple[tuple[Grant, ...], int]] = BoundedDict(MAX_REMEMBERED)

    async def show(self, viewer: Viewer, asked: NoParameters) -> Mine:
        """Return it. Raises LedgerUnavailable, BackendUnavailable."""
        live = await self._live(viewer, LiveParameters(user=viewer.user))
        async with self._connect() as connection:
            rows = await connection.fetch(
                # With the time as a value PostgreSQL plans for these days alone.
                _STATEMENTS,
                viewer.user,
                MAX_STATEMENTS,
                datetime.now(UTC) - LOOKED_BACK,
            )
        principal = viewer.principal
        grants, count = await self._load_grants(principal)
        return Mine(
            groups=tuple(sorted(principal.groups)),
            roles=tuple(sorted(principal.roles)),
            attributes=tuple(f"{name} = {value}" for name, value in principal.attributes),
            grants=grants,
            more_grants=count - len(grants),
            sessions=live.sessions,
            running=live.statements,
            logins=tuple(
                OwnLogin(address=one.address, opened_at=one.opened_at, seen_at=one.seen_at)
                for one in await self._store.list_of(viewer.user)
            ),
            tokens=tuple(self._tokens(viewer.user)),
            statements=tuple(_statement(row) for row in rows),
            how_to=tuple(explain_connecting(self._endpoints, viewer.user)),
            messages=live.messages,
        )

    async def _load_grants(self, principal: Principal) -> tuple[tuple[Grant, ...], int]:
        """Return the first of somebody's grants, and how many there are. All policies are looked through, so
        in a thread, and once for each person while they stay as they are."""
        policies = self._policies()
        if policies is not self._listed_of:
            self._listed_of, self._listed = policies, BoundedDict(MAX_REMEMBERED)
        if (known := self._listed.get(principal)) is not None:
            return known
        async with self._listing:
            found = await asyncio.to_thread(_take_grants, policies, principal)
        if policies is self._listed_of:
            self._listed[principal] = found
        return found

    async def end_session(self, viewer: Viewer, asked: OwnSessionParameters) -> LiveChange:
        """End a session of the viewer's own. Raises NotFound for any other."""
        done, messages = await self._end(viewer.user, asked.session, viewer.user)
        if not done and not messages:
            raise NotFound("no such session of yours is open")
        return LiveChange(done=done, messages=tuple(messages))

    async def cancel(self, viewer: Viewer, asked: OwnStatementParameters) -> LiveChange:
        """Cancel a statement of the viewer's own. Raises NotFound for any other."""
        live = await self._live(viewer, LiveParameters(user=viewer.user))
        if asked.statement not in {one.id for one in live.statements}:  # RULE (console-own-statement)
            raise NotFound("no such statement of yours runs")
        done, messages = await self._stop(asked.statement)
        return LiveChange(done=done, messages=tuple(messages))

    async def end_logins(self, viewer: Viewer, asked: NoParameters) -> LiveChange:
        """End all console sessions of the viewer, this one too."""
        return LiveChange(done=await self._store.close_others(viewer.user, b""), messages=())


def _take_grants(policies: PolicySet, principal: Principal) -> tuple[tuple[Grant, ...], int]:
    found = list_grants(policies.policies(), principal)
    first = tuple(islice(found, MAX_GRANTS))
    return first, len(first) + sum(1 for _ in found)


def list_grants(policies: Iterable[Policy], principal: Principal) -> Iterator[Grant]:
    """Yield what policies in force grant somebody by name, group or role. What others deny, conditions and
    tags are not weighed, nor are masks told: the names of what somebody may not know of could stand there."""
    for policy in policies:
        if not policy.enabled or policy.broken or policy.type is not PolicyType.ACCESS:
            continue
        until = _end_of(policy)
        for item in policy.allow:
            if item.accesses and (by := _reason(item, principal)):
                accesses = ", ".join(sorted(item.accesses))
                for resources in (policy.resources, *policy.additional_resources):
                    yield Grant(resource=write_resources(resources), accesses=accesses, by=by, until=until)


def _reason(item: PolicyItem, principal: Principal) -> str:
    if principal.user in item.users or "{USER}" in item.users:
        return "you"
    if groups := sorted(item.groups & principal.groups):
        return f"group {groups[0]}"
    if roles := sorted(item.roles & principal.roles):
        return f"role {roles[0]}"
    return "everybody" if EVERYBODY in item.groups else ""


def write_resources(resources: ResourceSet) -> str:
    """Return a policy's resources in one line."""
    return ", ".join(
        f"{name} {'not ' if one.excludes else ''}{_some_of(one.values)}" for name, one in resources.items()
    )


def _some_of(values: Sequence[str]) -> str:
    if len(values) > MAX_VALUES:
        return f"{values[0]} or one of {len(values) - 1} others"
    return " or ".join(values)


def _end_of(policy: Policy) -> str:
    ends = [str(end) for one in policy.schedules if (end := getattr(one, "end", None)) is not None]
    return max(ends, default="")


def _statement(row: Any) -> OwnStatement:
    return OwnStatement(
        id=str(row["event_id"]),
        time=row["time"],
        verdict=row["verdict"] or "",
        code=row["code"] or "",
        text=row["statement"][:500],
    )


def explain_connecting(at: Endpoints, user: str) -> Iterable[HowTo]:
    """Yield how each tool connects; the password is asked for, or comes from the environment."""
    # What goes into a shell or a program is a plain name, or none.
    name = user if _PLAIN_NAME.fullmatch(user) else "USER"
    if at.thrift:
        url = f"jdbc:hive2://{at.host}:{at.thrift}/default" + (";ssl=true" if at.thrift_tls else "")
        yield HowTo(tool="JDBC: DBeaver, DataGrip, Tableau", text=f"{url}\nuser {name}, and your password")
        yield HowTo(tool="beeline", text=f"beeline -u '{url}' -n {name} -p \"$SLUICE_PASSWORD\"")
        yield HowTo(
            tool="Python: PyHive",
            text="import os\nfrom pyhive import hive\n"
            f'hive.connect(host="{at.host}", port={at.thrift}, username="{name}", auth="LDAP",\n'
            '             password=os.environ["SLUICE_PASSWORD"])',
        )
        yield HowTo(
            tool="dbt (profiles.yml)",
            text="type: spark\nmethod: thrift\n"
            f"host: {at.host}\nport: {at.thrift}\nauth: LDAP\nuser: {name}\n"
            "password: \"{{ env_var('SLUICE_PASSWORD') }}\"\nschema: default",
        )
        yield HowTo(
            tool="Superset",
            text=f"hive://{name}:PASSWORD@{at.host}:{at.thrift}/default?auth=LDAP",
        )
    if at.thrift_http:
        secure = ";ssl=true" if at.thrift_http_tls else ""
        yield HowTo(
            tool="JDBC over HTTP",
            text=f"jdbc:hive2://{at.host}:{at.thrift_http}/default;transportMode=http;httpPath={at.http_path}{secure}",
        )
    if at.connect:
        secure = ";use_ssl=true" if at.connect_tls else ""
        yield HowTo(
            tool="PySpark, notebooks",
            text="import os\nfrom pyspark.sql import SparkSession\n"
            'token = os.environ["SLUICE_TOKEN"]  # `sluice users token`, or your provider\'s\n'
            f'spark = SparkSession.builder.remote(f"sc://{at.host}:{at.connect}/;token={{token}}{secure}").getOrCreate()',
        )
    if at.iceberg_rest:
        url = f"http{'s' if at.iceberg_rest_tls else ''}://{at.host}:{at.iceberg_rest}"
        yield HowTo(
            tool="PyIceberg: tables without row filters and masks",
            text="import os\nfrom pyiceberg.catalog import load_catalog\n"
            f'load_catalog("{at.iceberg_catalogs[0]}", type="rest", uri="{url}",\n'
            f'             warehouse="{at.iceberg_catalogs[0]}", token=os.environ["SLUICE_TOKEN"])',
        )


def build_mine_part(service: MinePage) -> ConsolePart:
    """Return the routes, the page and its forms."""
    shown = ConsoleRoute.get(
        "/mine",
        service.show,
        "What policies grant the viewer, his sessions, tokens and statements, and how to connect.",
        name="show_mine",
        own="Everything is asked for by the viewer's own name.",
        recorded=Recorded.ONCE,
    )
    end = ConsoleRoute.post(
        "/mine/sessions/{session}/end",
        service.end_session,
        "Ends one of the viewer's own sessions.",
        name="end_own_session",
        own="A session is found by the viewer's name and its id together.",
        examples={"session": "01920000-0000-7000-8000-000000000000"},
    )
    cancel = ConsoleRoute.post(
        "/mine/statements/{statement}/cancel",
        service.cancel,
        "Cancels one of the viewer's own statements.",
        name="cancel_own_statement",
        own="The statement must be among the viewer's own that run.",
        examples={"statement": "01920000-0000-7000-8000-000000000000"},
    )
    logins = ConsoleRoute.post(
        "/mine/logins/end",
        service.end_logins,
        "Logs the viewer out of the console everywhere.",
        name="end_own_logins",
        own="Sessions of the viewer's name alone.",
    )
    return ConsolePart(
        routes=(shown, end, cancel, logins),
        pages=(
            ConsolePage(
                route=shown, path="/mine", template="mine.html", title="What is mine", menu="Mine", place=9
            ),
        ),
        forms=(
            ConsoleForm(route=end, path="/mine/end", then=lambda asked, it: "/mine"),
            ConsoleForm(route=cancel, path="/mine/cancel", then=lambda asked, it: "/mine"),
            ConsoleForm(route=logins, path="/mine/logins", then=lambda asked, it: "/login"),
        ),
    )
