"""Requests for access and break-glass: kept in PostgreSQL, granted as policies of the store.

Every step is one transaction of the request's row, its history, and, of a grant, its policies. All writers of
policies take turns, so of two who grant at once the second finds it granted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import structlog

from gateway.admin.ranger.access import Access
from gateway.admin.ranger.calls import parse_object
from gateway.admin.ranger.definitions import MASK, ROW_FILTER, ServiceType
from gateway.admin.ranger.kinds import GATEWAY, Body, ObjectKind
from gateway.admin.ranger.policy_changes import create_policy, delete_policy, remove, service_of
from gateway.admin.ranger.shapes import POLICY
from gateway.admin.ranger.signature import policy_signature
from gateway.admin.ranger.store import Store
from gateway.admin.ranger.transactions import ReadTransaction, WriteTransaction
from gateway.admin.ranger.zone_shapes import zones_of
from gateway.admin.requests import NotFound
from gateway.errors import BackendUnavailable, Faults
from gateway.model.principal import Principal
from gateway.policy.access_requests import (
    MAX_OPEN,
    RequestedAccess,
    RequestKind,
    build_grant,
    check_asked,
    find_obstacle,
    gives_only,
    is_same_person,
    who_decides,
)

_log = structlog.get_logger(__name__)

MAX_LOOKED_AT = 100
"""Open requests that one page looks at to find those that somebody may decide on."""
_MANY_SECONDS = 60
"""Grants on one table with one end that can be made in one second."""


class NotGrantable(Exception):
    """The request is in a state in which this cannot be done; the text says which."""


class NotForYou(Exception):
    """Whoever asks may see the request, and not do this with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTaken:
    """One entry of a request's history."""

    time: datetime
    who: str
    step: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """A request as it is kept."""

    id: int
    state: str
    """`open`, `granted`, `refused`, `withdrawn`, `elsewhere` (granted where policies are made) or `ended`."""
    expired: bool
    """Whether its time is over: an open one cannot be granted, a granted one holds no longer."""
    asked: RequestedAccess
    asked_at: datetime
    asker: str
    asker_identity: str
    event: str
    """Audit id of the refusal that it came from; empty for none."""
    decided_at: datetime | None
    decided_by: str
    decision_reason: str
    expires: datetime | None
    service: str
    policies: tuple[str, ...]
    """Guids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOfGrants:
    """Where policies on a catalog are made."""

    service: str
    """Service of the store; empty where grants have to be made elsewhere."""
    where: str
    """In words, for who has to make it."""


GrantRole = Literal["delegate", "owner"]
PlaceOf = Callable[[str], PlaceOfGrants]
"""Catalog → where its policies are made."""
OwnsPlainly = Callable[[Principal, RequestedAccess], Awaitable[bool]]
"""Whether somebody owns the table and has all that is asked for himself, with nothing masked or filtered.
Raises BackendUnavailable."""
LookUpTables = Callable[[Sequence[RequestedAccess]], Awaitable[None]]
"""Has what is known of tables looked up at once, where it is not known yet."""
FindAsker = Callable[[str], Awaitable[Principal | None]]
"""User name → who has it now; a directory may be asked."""
ConnectRequests = Callable[[], AbstractAsyncContextManager[Any]]
Noted = Callable[[str, str], None]
"""(step, kind) → counted."""


class AccessRequests:
    """Asks, grants, refuses and ends. Who may grant is for the engine, by the policies that delegate."""

    def __init__(
        self,
        connect: ConnectRequests,
        *,
        store: Store | None,
        access: Access,
        place_of: PlaceOf,
        find_person: FindAsker,
        owns: OwnsPlainly,
        look_up: LookUpTables,
        noted: Noted = lambda step, kind: None,
    ) -> None:
        """`store`: None where this gateway has no policies that are made over REST."""
        self._connect = connect
        self._store = store
        self._access = access
        self.place_of = place_of
        self._find_person = find_person
        self._owns = owns
        self._look_up = look_up
        self._noted = noted

    # -- asking ----------------------------------------------------------------------------------------------

    async def ask(self, principal: Principal, asked: RequestedAccess, event: str = "") -> StoredRequest:
        """Keep a request. Raises Faults with all that is wrong with it."""
        faults = check_asked(asked, datetime.now(UTC))
        if faults:
            raise Faults(faults)
        async with self._connect() as connection, connection.transaction():
            # One person's requests one after the other: two at once do not get past the limit.
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", principal.identity)
            open_ = await connection.fetchval(
                "SELECT count(*) FROM sluice.access_request WHERE asker_identity = $1 AND asker = $2"
                " AND state = 'open' AND until > clock_timestamp()",
                principal.identity,
                principal.user,
            )
            if open_ >= MAX_OPEN:
                raise Faults([f"you have {MAX_OPEN} open requests; withdraw some"])
            row = await connection.fetchrow(
                "INSERT INTO sluice.access_request (kind, asker, asker_identity, catalog, database,"
                " table_name, columns, accesses, until, reason, purpose, event)"
                f" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING {_COLUMNS}",
                asked.kind.value,
                principal.user,
                principal.identity,
                asked.catalog,
                asked.database,
                asked.table,
                list(asked.columns),
                list(asked.accesses),
                asked.until,
                asked.reason.strip(),
                asked.purpose,
                event,
            )
            await self._step(connection, row["id"], principal.user, "asked", asked.reason)
        found = _request(row)
        self._notify("asked", found, principal.user)
        return found

    # -- looking ---------------------------------------------------------------------------------------------

    async def list_own(self, principal: Principal, *, before: int, limit: int) -> list[StoredRequest]:
        """Return somebody's own requests, newest first, behind an id."""
        where = "asker = $2 AND asker_identity = $3"
        return await self._list(where, before, limit, principal.user, principal.identity)

    async def list_to_decide(
        self, principal: Principal, *, before: int, limit: int
    ) -> tuple[list[StoredRequest], int]:
        """Return open requests of others that somebody may grant or refuse, newest first, behind an id, and
        the id behind which there may be more; 0 where there are none."""
        where = "state = 'open' AND until > clock_timestamp() AND asker_identity <> $2"
        some = await self._list(where, before, MAX_LOOKED_AT, principal.identity)
        found: list[StoredRequest] = []
        if not self._access.is_administrator(principal):
            await self._look_up([one.asked for one in some])
        async with self._instant() as instant:
            for one in some:
                if await self._may_decide(instant, principal, one):
                    found.append(one)
                if len(found) == limit and one is not some[-1]:
                    return found, one.id
        return found, some[-1].id if len(some) == MAX_LOOKED_AT else 0

    async def list_granted(self, *, kind: RequestKind, before: int, limit: int) -> list[StoredRequest]:
        """Return the grants of a kind that hold now, newest first, behind an id; for administrators and the
        overview."""
        where = "state = 'granted' AND expires > clock_timestamp() AND kind = $2"
        return await self._list(where, before, limit, kind.value)

    async def list_purpose(self, purpose: str, *, before: int, limit: int) -> list[StoredRequest]:
        """Return the grants for a purpose that hold now, newest first, behind an id; for administrators."""
        where = "state = 'granted' AND expires > clock_timestamp() AND purpose = $2 AND purpose <> ''"
        return await self._list(where, before, limit, purpose)

    async def find(self, principal: Principal, id_: int) -> StoredRequest:
        """Return a request to its asker, and to whoever may decide on it or did. Raises NotFound."""
        async with self._connect() as connection:
            row = await connection.fetchrow(
                f"SELECT {_COLUMNS} FROM sluice.access_request WHERE id = $1", id_
            )
        found = None if row is None else _request(row)
        # Whoever has nothing to do with it is not told that it is there.
        if found is None or not (_is_asker(principal, found) or await self.may_decide(principal, found)):
            raise NotFound("there is no such request, or it is not for you")
        return found

    async def history(self, request: StoredRequest) -> list[StepTaken]:
        """Return what happened to a request, oldest first."""
        async with self._connect() as connection:
            rows = await connection.fetch(
                "SELECT time, who, step, reason FROM sluice.access_request_step WHERE request = $1"
                " ORDER BY id LIMIT 1000",
                request.id,
            )
        return [StepTaken(**dict(row)) for row in rows]

    async def list_purposes(self) -> list[tuple[str, int]]:
        """Return the purposes of grants that hold now, with the number of grants; 200 at most."""
        async with self._connect() as connection:
            rows = await connection.fetch(
                "SELECT purpose, count(*) AS grants FROM sluice.access_request WHERE state = 'granted'"
                " AND expires > clock_timestamp() AND purpose <> ''"
                " GROUP BY purpose ORDER BY purpose LIMIT 200"
            )
        return [(row["purpose"], row["grants"]) for row in rows]

    async def may_decide(self, principal: Principal, request: StoredRequest) -> bool:
        """Whether somebody may grant or refuse a request, which its asker never may."""
        async with self._instant() as instant:
            return await self._may_decide(instant, principal, request)

    async def _may_decide(
        self, instant: ReadTransaction | None, principal: Principal, request: StoredRequest
    ) -> bool:
        decided = who_decides(
            request.asked.kind,
            is_asker=is_same_person(principal, request.asker, request.asker_identity),
            is_administrator=self._access.is_administrator(principal),
        )
        if decided is not None:
            return decided
        return await self._role_of(instant, principal, request) is not None

    async def _role_of(
        self, instant: ReadTransaction | None, principal: Principal, request: StoredRequest
    ) -> GrantRole | None:
        """Return as what somebody who is no administrator may grant a request; None when he may not."""
        place = self.place_of(request.asked.catalog)
        if instant is not None and place.service:
            key = (AccessRequests, "service", place.service)
            if key not in instant.remembered:
                instant.remembered[key] = await instant.find_named(ObjectKind.SERVICE, place.service)
            service = instant.remembered[key]
            if service is not None:
                try:
                    (policy, *_) = await self._policies(instant, service, request, principal.user)
                except NotGrantable:
                    return None
                if await self._access.may_change(instant, principal, service, policy):
                    return "delegate"
        try:
            return "owner" if await self._owns(principal, request.asked) else None
        except BackendUnavailable:
            return None

    @asynccontextmanager
    async def _instant(self) -> AsyncIterator[ReadTransaction | None]:
        """Have one instant of the store, where there is one."""
        if self._store is None:
            yield None
            return
        async with self._store.reading() as reading:
            yield reading

    # -- deciding --------------------------------------------------------------------------------------------

    async def grant(
        self, principal: Principal, id_: int, *, expires: datetime | None, reason: str
    ) -> StoredRequest:
        """Grant a request until a time, at most until it asks for. Raises NotFound, NotForYou, NotGrantable,
        Faults, and RangerError where the store refuses the policies."""
        found = await self.find(principal, id_)
        place = self.place_of(found.asked.catalog)
        if self._store is None or not place.service:
            raise NotGrantable(f"policies on this catalog are not made here: {place.where}")
        elevated = False
        if not await self.may_decide(principal, found):
            raise NotForYou("another person has to decide on this request")
        if found.asked.kind is RequestKind.BREAK_GLASS and not reason.strip():
            raise Faults(["give a reason"])
        if not self._access.is_administrator(principal):
            async with self._instant() as instant:
                elevated = await self._role_of(instant, principal, found) == "owner"
        asker = await self._find_person(found.asker)
        access = replace(self._access, texts={}, unread={})
        if elevated:
            # The owner may give what he has. Everything in the policies was made here and nothing by him.
            rights = replace(access.rights, administrators=access.rights.administrators | {principal.user})
            access = replace(access, rights=rights)
        async with self._store.writing(principal.user) as writing:
            request, now = await self._lock(writing, id_)
            end = request.asked.until if expires is None else expires
            obstacle = find_obstacle(
                request.asked,
                state=request.state,
                now=now,
                expires=end,
                asker=request.asker,
                asker_is_there=asker is not None and asker.identity == request.asker_identity,
            )
            if obstacle:
                raise NotGrantable(obstacle)
            service = await writing.find_named(ObjectKind.SERVICE, place.service)
            if service is None:
                raise NotGrantable(f"there is no service `{place.service}` in the store of policies")
            await self._clear_expired(writing)
            policies = await self._policies(
                writing, service, request, principal.user, begins=now, expires=end
            )
            made = [await create_policy(writing, access, principal, policy) for policy in policies]
            row = await writing.connection.fetchrow(
                "UPDATE sluice.access_request SET state = 'granted', decided_at = clock_timestamp(),"
                " decided_by = $2, decision_reason = $3, expires = $4, service = $5, policies = $6"
                f" WHERE id = $1 RETURNING {_COLUMNS}",
                id_,
                principal.user,
                reason.strip(),
                end,
                place.service,
                [policy["guid"] for policy in made],
            )
            await self._step(writing.connection, id_, principal.user, "granted", reason)
        granted = _request(row)
        self._notify("granted", granted, principal.user)
        return granted

    async def refuse(self, principal: Principal, id_: int, reason: str) -> StoredRequest:
        """Refuse a request. Raises NotFound, NotForYou, NotGrantable, Faults without a reason."""
        return await self._decide(principal, id_, "refused", reason)

    async def grant_elsewhere(self, principal: Principal, id_: int, reason: str) -> StoredRequest:
        """Note that a request was granted where its policies are made: in packs, or in another Ranger Admin.
        Nothing comes into force by it."""
        return await self._decide(principal, id_, "elsewhere", reason)

    async def _decide(self, principal: Principal, id_: int, state: str, reason: str) -> StoredRequest:
        if not reason.strip():
            raise Faults(["give a reason"])
        found = await self.find(principal, id_)
        if not await self.may_decide(principal, found):
            raise NotForYou("another person has to decide on this request")
        if state == "elsewhere" and self.place_of(found.asked.catalog).service:
            raise NotGrantable("policies on this catalog are made here: grant it")
        return await self._close(principal, id_, state, reason)

    async def withdraw(self, principal: Principal, id_: int) -> StoredRequest:
        """Take back a request of one's own that is open. Raises NotFound, NotForYou, NotGrantable."""
        found = await self.find(principal, id_)
        if not _is_asker(principal, found):
            raise NotForYou("only who asked may withdraw a request")
        return await self._close(principal, id_, "withdrawn", "")

    async def _close(self, principal: Principal, id_: int, state: str, reason: str) -> StoredRequest:
        async with self._connect() as connection, connection.transaction():
            row = await connection.fetchrow(
                f"UPDATE sluice.access_request SET state = $2, decided_at = clock_timestamp(),"
                f" decided_by = $3, decision_reason = $4 WHERE id = $1 AND state = 'open'"
                f" RETURNING {_COLUMNS}",
                id_,
                state,
                principal.user,
                reason.strip(),
            )
            if row is None:
                raise NotGrantable("the request is not open any more")
            await self._step(connection, id_, principal.user, state, reason)
        closed = _request(row)
        self._notify(state, closed, principal.user)
        return closed

    async def end(self, principal: Principal, id_: int, reason: str) -> StoredRequest:
        """End a grant before its time: by who has it, who may grant it, or an administrator. Raises NotFound,
        NotForYou, NotGrantable."""
        found = await self.find(principal, id_)
        if self._store is None:
            raise NotGrantable("this gateway has no policies that are made over REST")
        own = _is_asker(principal, found)
        if not own and not await self.may_decide(principal, found):
            raise NotForYou("you may not end this")
        async with self._store.writing(principal.user) as writing:
            request, _ = await self._lock(writing, id_)
            if request.state != "granted":
                raise NotGrantable(f"nothing is granted: the request is {request.state}")
            await self._remove(writing, request, principal)
            row = await writing.connection.fetchrow(
                f"UPDATE sluice.access_request SET state = 'ended', expires = clock_timestamp()"
                f" WHERE id = $1 RETURNING {_COLUMNS}",
                id_,
            )
            await self._step(writing.connection, id_, principal.user, "ended", reason)
        ended = _request(row)
        self._notify("ended", ended, principal.user)
        return ended

    async def _remove(
        self, writing: WriteTransaction, request: StoredRequest, principal: Principal | None
    ) -> None:
        """Take away what a request was granted; None: its time is over."""
        access = replace(self._access, texts={}, unread={})
        for guid in request.policies:
            policy = await writing.by_guid(ObjectKind.POLICY, guid)
            if policy is None:
                continue
            if policy["version"] == 1 and gives_only(policy, request.asker):  # RULE (end-takes-no-denial)
                # As it was made: it gives something to one person, and whoever may end that needs no right.
                await remove(writing, await service_of(writing, policy["service"]), policy)
            elif principal is not None:
                # Somebody has changed it since: it may deny or hide by now.
                await delete_policy(writing, access, principal, policy)

    async def _clear_expired(self, writing: WriteTransaction) -> None:
        """Remove the policies of some grants whose time was over yesterday: they do nothing any more."""
        rows = await writing.connection.fetch(
            f"SELECT {_COLUMNS} FROM sluice.access_request WHERE state = 'granted'"
            " AND expires < clock_timestamp() - interval '1 day' ORDER BY id LIMIT 20"
        )
        for request in map(_request, rows):
            await self._remove(writing, request, None)
            await writing.connection.execute(
                "UPDATE sluice.access_request SET state = 'ended' WHERE id = $1", request.id
            )
            await self._step(writing.connection, request.id, GATEWAY, "expired", "")

    # -- inside ----------------------------------------------------------------------------------------------

    async def _policies(
        self,
        reading: ReadTransaction,
        service: Body,
        request: StoredRequest,
        granted_by: str,
        *,
        begins: datetime | None = None,
        expires: datetime | None = None,
    ) -> list[Body]:
        """Return the policies of a grant, with names, zone and times that are free."""
        asked = request.asked
        definition, zones = await self._surroundings(reading, service)
        levels = tuple(definition.levels())
        if not {"database", "table", "column"} <= set(levels):
            raise NotGrantable(f"policies of `{service['name']}` are not on tables")
        start = datetime.now(UTC) if begins is None else begins
        for seconds in range(_MANY_SECONDS):
            made = build_grant(
                request.id,
                request.asker,
                asked,
                service=service,
                levels=levels,
                maskable="column" in definition.levels(MASK),
                filterable="table" in definition.levels(ROW_FILTER),
                begins=start - timedelta(seconds=seconds),
                expires=asked.until if expires is None else expires,
                granted_by=granted_by,
            )
            resource = {name: one["values"][0] for name, one in made[0]["resources"].items()}
            touched = zones_of(service["name"], resource, zones, definition)
            if len(touched) > 1:
                raise NotGrantable("several security zones have this table")
            zone = touched[0] if touched else ""
            policies = [parse_object(POLICY, {**one, "zoneName": zone}) for one in made]
            # Two policies on the same resources and times would be one.
            if begins is None or not [
                one
                for one in policies
                if await reading.list_by_signature(service["name"], policy_signature(one))
            ]:
                return policies
        raise NotGrantable("too many grants on this table at once; try again")

    async def _surroundings(self, reading: ReadTransaction, service: Body) -> tuple[ServiceType, list[Body]]:
        """Return the definition of a service, and all zones, read once for each instant."""
        key = (AccessRequests, service["name"])
        if key not in reading.remembered:
            body = await reading.find_named(ObjectKind.SERVICE_DEF, service["type"])
            zones = await reading.all(ObjectKind.ZONE)
            reading.remembered[key] = ServiceType(body or {}), zones
        found: tuple[ServiceType, list[Body]] = reading.remembered[key]
        return found

    async def _lock(self, writing: WriteTransaction, id_: int) -> tuple[StoredRequest, datetime]:
        """Return a request that nobody else changes before this transaction ends, and the time."""
        row = await writing.connection.fetchrow(
            f"SELECT {_COLUMNS}, clock_timestamp() AS now FROM sluice.access_request"
            " WHERE id = $1 FOR UPDATE",
            id_,
        )
        if row is None:
            raise NotFound("there is no such request, or it is not for you")
        return _request(row), row["now"]

    async def _list(self, where: str, before: int, limit: int, *arguments: object) -> list[StoredRequest]:
        async with self._connect() as connection:
            rows = await connection.fetch(
                f"SELECT {_COLUMNS} FROM sluice.access_request WHERE id < $1 AND {where}"
                f" ORDER BY id DESC LIMIT {int(limit)}",
                before,
                *arguments,
            )
        return [_request(row) for row in rows]

    async def _step(self, connection: Any, id_: int, who: str, step: str, reason: str) -> None:
        await connection.execute(
            "INSERT INTO sluice.access_request_step (request, who, step, reason) VALUES ($1, $2, $3, $4)",
            id_,
            who,
            step,
            reason.strip(),
        )

    def _notify(self, step: str, request: StoredRequest, who: str) -> None:
        """Tell operators by a line of the log and a metric; of break-glass as a warning."""
        tell = _log.warning if request.asked.kind is RequestKind.BREAK_GLASS else _log.info
        tell(
            f"access_request_{step}",
            request=request.id,
            kind=request.asked.kind.value,
            asker=request.asker,
            by=who,
            table=request.asked.name,
            purpose=request.asked.purpose,
            until=(request.expires or request.asked.until).isoformat(),
        )
        self._noted(step, request.asked.kind.value)


def _is_asker(principal: Principal, request: StoredRequest) -> bool:
    """Whether somebody asked for this; a name and an identity of his both count."""
    return principal.user == request.asker or principal.identity == request.asker_identity


_COLUMNS = (
    "id, kind, state, asked_at, asker, asker_identity, catalog, database, table_name, columns, accesses,"
    " until, reason, purpose, event, decided_at, decided_by, decision_reason, expires, service,"
    " policies, coalesce(expires, until) <= clock_timestamp() AS expired"
)


def _request(row: Any) -> StoredRequest:
    return StoredRequest(
        id=row["id"],
        state=row["state"],
        expired=row["expired"],
        asked=RequestedAccess(
            kind=RequestKind(row["kind"]),
            catalog=row["catalog"],
            database=row["database"],
            table=row["table_name"],
            columns=tuple(row["columns"]),
            accesses=tuple(row["accesses"]),
            until=row["until"],
            reason=row["reason"],
            purpose=row["purpose"],
        ),
        asked_at=row["asked_at"],
        asker=row["asker"],
        asker_identity=row["asker_identity"],
        event=row["event"],
        decided_at=row["decided_at"],
        decided_by=row["decided_by"],
        decision_reason=row["decision_reason"],
        expires=row["expires"],
        service=row["service"],
        policies=tuple(row["policies"]),
    )
