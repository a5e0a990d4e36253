"""What can be read of the store at one instant, and changed within one transaction.

A change leaves its history and the versions that it bumps in its own transaction.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from gateway.admin.ranger.kinds import (
    GATEWAY,
    NEVER,
    Body,
    ChangedObject,
    Conflict,
    ObjectChange,
    ObjectKind,
    Past,
    Version,
    What,
)

_MANY = 500
"""Rows beyond which decoding goes to a thread, so that it does not hold up statements."""
_PORTION = 2000
_KEPT = ("id", "guid", "createdBy", "createTime")
"""Fields that an update leaves unchanged."""


class ReadTransaction:
    """One instant of the store. Bodies that are returned are the caller's own."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.remembered: dict[object, Any] = {}
        """What others found out at this instant, for as long as it lasts."""

    @property
    def committed(self) -> bool:
        """Whether all that is read has come to stay."""
        return True

    async def get(self, kind: ObjectKind, id_: int) -> Body | None:
        return _one(await self._rows("kind = $1 AND id = $2", kind, id_))

    async def find_named(
        self, kind: ObjectKind, name: str, *, service: str = "", zone: str = ""
    ) -> Body | None:
        """Return the object of that name; service and zone are for policies."""
        where = "kind = $1 AND name = $2 AND service = $3 AND zone = $4"
        return _one(await self._rows(where, kind, name, service, zone))

    async def by_guid(self, kind: ObjectKind, guid: str, *, service: str = "", zone: str = "") -> Body | None:
        """Return the object with the guid; of policies, an empty service or zone means any."""
        where = "kind = $1 AND guid = $2 AND $3 IN ('', service) AND $4 IN ('', zone)"
        return _one(await self._rows(where, kind, guid, service, zone))

    async def all(
        self, kind: ObjectKind, *, service: str | None = None, zone: str | None = None
    ) -> list[Body]:
        """Return all objects of a kind, lowest id first; of policies those of a service or zone."""
        where = "kind = $1 AND ($2::text IS NULL OR service = $2) AND ($3::text IS NULL OR zone = $3)"
        return await self._rows(where, kind, service, zone)

    async def policies(
        self, *, service: str | None = None, name: str | None = None
    ) -> AsyncIterator[list[Body]]:
        """Yield policies in portions, lowest id first: all at once could be half a gigabyte."""
        cursor = await self._connection.cursor(
            "SELECT body FROM sluice.ranger_object WHERE kind = 'policy'"
            " AND ($1::text IS NULL OR service = $1) AND ($2::text IS NULL OR name = $2) ORDER BY id",
            service,
            name,
        )
        while rows := await cursor.fetch(_PORTION):
            yield await asyncio.to_thread(_decode, rows)

    async def page_of_policies(self, start: int, size: int, *, service: str | None) -> tuple[list[Body], int]:
        """Return some policies, lowest id first, and how many there are."""
        where = "kind = 'policy' AND ($1::text IS NULL OR service = $1)"
        total = await self._connection.fetchval(
            f"SELECT count(*) FROM sluice.ranger_object WHERE {where}", service
        )
        rows = await self._connection.fetch(
            f"SELECT body FROM sluice.ranger_object WHERE {where} ORDER BY id OFFSET $2 LIMIT $3",
            service,
            start,
            size,
        )
        return _decode(rows), int(total)

    async def policy_texts(self, service: str) -> dict[str, list[str]]:
        """Return zone → JSON texts of the service's enabled policies, lowest id first."""
        rows = await self._connection.fetch(
            "SELECT zone, body FROM sluice.ranger_object WHERE kind = 'policy' AND service = $1"
            " AND body->'isEnabled' IS DISTINCT FROM 'false'::jsonb ORDER BY id",
            service,
        )
        found: dict[str, list[str]] = {}
        for row in rows:
            found.setdefault(row["zone"], []).append(row["body"])
        return found

    async def list_delegating_policies(self, service: str, zone: str) -> list[Body]:
        """Return the policies of a zone of a service that may delegate administration."""
        where = "kind = 'policy' AND service = $1 AND zone = $2 AND body::text LIKE $3"
        return await self._rows(where, service, zone, '%"delegateAdmin": true%')

    async def list_obligation_policies(
        self, services: list[str], type_: int, *, zone: str | None = None
    ) -> list[Body]:
        """Return the enabled policies of a type, of masks or of filters, of services; None: of all zones."""
        where = (
            "kind = 'policy' AND service = ANY($1) AND body->>'policyType' = $2"
            " AND ($3::text IS NULL OR zone = $3)"
            " AND body->'isEnabled' IS DISTINCT FROM 'false'::jsonb"
        )
        return await self._rows(where, services, str(type_), zone)

    async def list_by_signature(self, service: str, signature: str) -> list[Body]:
        """Return the enabled policies of a service that have this signature."""
        where = "kind = 'policy' AND service = $1 AND signature = $2"
        return await self._rows(where, service, signature)

    async def list_linked_services(self, tag_service: str) -> list[str]:
        """Return the names of the services whose tag service this is."""
        rows = await self._connection.fetch(
            "SELECT name FROM sluice.ranger_object WHERE kind = 'service' AND body->>'tagService' = $1"
            " ORDER BY id",
            tag_service,
        )
        return [row["name"] for row in rows]

    async def version(self, service: str, what: What) -> Version:
        """Return the version that plugins of a service ask with."""
        row = await self._connection.fetchrow(
            "SELECT version, updated_ms FROM sluice.ranger_version WHERE service = $1 AND what = $2",
            service,
            what,
        )
        return NEVER if row is None else Version(row["version"], row["updated_ms"])

    async def versions(self) -> dict[tuple[str, What], Version]:
        """Return all versions, by service and what they are of."""
        rows = await self._connection.fetch(
            "SELECT service, what, version, updated_ms FROM sluice.ranger_version"
        )
        return {(r["service"], What(r["what"])): Version(r["version"], r["updated_ms"]) for r in rows}

    async def changes(self, service: str, after: int) -> list[ObjectChange]:
        """Return what was changed after a version of a service's policies, oldest first."""
        rows = await self._connection.fetch(
            "SELECT version, change, body FROM sluice.ranger_change WHERE service = $1 AND version > $2"
            " ORDER BY sequence",
            service,
            after,
        )
        return [ObjectChange(row["version"], row["change"], _body(row["body"])) for row in rows]

    async def history(self, kind: ObjectKind, object_id: int) -> list[Past]:
        """Return what happened to one object, oldest first."""
        rows = await self._connection.fetch(
            "SELECT time, who, action, kind, object_id, name, service, version, before, after"
            " FROM sluice.ranger_history WHERE kind = $1 AND object_id = $2 ORDER BY sequence",
            kind,
            object_id,
        )
        bodies = [{"before": _body(row["before"]), "after": _body(row["after"])} for row in rows]
        return [Past(**{**dict(row), **both}) for row, both in zip(rows, bodies, strict=True)]

    async def _rows(self, where: str, *arguments: Any) -> list[Body]:
        query = f"SELECT body FROM sluice.ranger_object WHERE {where} ORDER BY id"
        rows = await self._connection.fetch(query, *arguments)
        if len(rows) > _MANY:
            return await asyncio.to_thread(_decode, rows)
        return _decode(rows)


class WriteTransaction(ReadTransaction):
    """One change under way: it is seen by nobody until it ends well, and leaves nothing when it does not."""

    def __init__(self, connection: Any, who: str, now_ms: int) -> None:
        super().__init__(connection)
        self.who = who
        self.now_ms = now_ms
        self._bumped: dict[tuple[str, What], int] = {}
        self._changed = False

    @property
    def committed(self) -> bool:
        return not self._changed

    @property
    def connection(self) -> Any:
        """What else changes with this, or not at all, is changed by this connection."""
        return self._connection

    async def create(
        self, kind: ObjectKind, body: Body, *, name: str | None = None, signature: str | None = None
    ) -> Body:
        """Store a new object and return it with its id, guid, version 1, times and creator.

        An id in the body counts only when nothing has it yet and `who` is the gateway itself.
        """
        id_ = await self._next_id(kind, body.get("id") if self.who == GATEWAY else None)
        made = {
            **body,
            "id": id_,
            "guid": body.get("guid") or str(uuid.uuid4()),
            "isEnabled": body.get("isEnabled", True),
            "version": 1,
            "createdBy": self.who,
            "updatedBy": self.who,
            "createTime": self.now_ms,
            "updateTime": self.now_ms,
        }
        await self._connection.execute(
            "INSERT INTO sluice.ranger_object (kind, id, guid, name, service, zone, signature, version, body)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8)",
            kind,
            id_,
            made["guid"],
            *_keys(kind, made, name),
            signature,
            as_text(made),
        )
        await self._remember("create", kind, made, name, before=None, after=made)
        return made

    async def update(
        self,
        kind: ObjectKind,
        stored: Body,
        body: Body,
        *,
        name: str | None = None,
        signature: str | None = None,
        check_version: bool = True,
        author: str | None = None,
    ) -> Body:
        """Put `body` in the place of `stored` (as this transaction read it) and return it.

        Id, guid and creation stay, the version goes up by one. Raises Conflict when the body carries a
        version older than the stored one: its author has not seen the last change. `author`: whose it stays.
        """
        given = body.get("version")
        if check_version and isinstance(given, int) and 0 < given < stored["version"]:
            raise Conflict(stored["version"], given)
        made = {
            **body,
            **{field: stored[field] for field in _KEPT},
            "isEnabled": body.get("isEnabled", True),
            "version": stored["version"] + 1,
            "updatedBy": self.who if author is None else author,
            "updateTime": self.now_ms,
        }
        await self._connection.execute(
            "UPDATE sluice.ranger_object SET name = $3, service = $4, zone = $5, signature = $6,"
            " version = $7, body = $8 WHERE kind = $1 AND id = $2",
            kind,
            stored["id"],
            *_keys(kind, made, name),
            signature,
            made["version"],
            as_text(made),
        )
        await self._remember("update", kind, made, name, before=stored, after=made)
        return made

    async def delete(self, kind: ObjectKind, stored: Body, *, name: str | None = None) -> None:
        """Remove an object; its history stays."""
        await self._connection.execute(
            "DELETE FROM sluice.ranger_object WHERE kind = $1 AND id = $2", kind, stored["id"]
        )
        await self._remember("delete", kind, stored, name, before=stored, after=None)

    async def bump(
        self,
        what: What,
        services: Iterable[str],
        changed: ChangedObject = ChangedObject.SERVICE,
        policy: Body | None = None,
    ) -> None:
        """Raise a version of services, once for each transaction; of policies also note what changed."""
        for service in dict.fromkeys(services):
            version = self._bumped.get((service, what))
            if version is None:
                version = await self._connection.fetchval(
                    "INSERT INTO sluice.ranger_version AS v (service, what, version, updated_ms)"
                    " VALUES ($1, $2, 1, $3) ON CONFLICT (service, what)"
                    " DO UPDATE SET version = v.version + 1, updated_ms = $3 RETURNING version",
                    service,
                    what,
                    self.now_ms,
                )
                self._bumped[service, what] = version
                self._changed = True
            if what is What.POLICY:
                await self._connection.execute(
                    "INSERT INTO sluice.ranger_change (service, version, change, body, time)"
                    " VALUES ($1, $2, $3, $4, $5)",
                    service,
                    version,
                    int(changed),
                    None if policy is None else as_text(policy),
                    self._time,
                )

    async def bump_all(self, what: What) -> None:
        """Raise a version of every service."""
        rows = await self._connection.fetch("SELECT name FROM sluice.ranger_object WHERE kind = 'service'")
        await self.bump(what, [row["name"] for row in rows])

    async def rename_service(self, old: str, new: str) -> None:
        """Carry everything that is kept under a service's name over to its new one."""
        for statement in (
            "UPDATE sluice.ranger_object SET service = $2, body = jsonb_set(body, '{service}', to_jsonb($2))"
            " WHERE kind = 'policy' AND service = $1",
            "UPDATE sluice.ranger_object SET body = jsonb_set(body, '{tagService}', to_jsonb($2))"
            " WHERE kind = 'service' AND body->>'tagService' = $1",
            "UPDATE sluice.ranger_object SET name = $2, body = jsonb_set(body, '{serviceName}', to_jsonb($2))"
            " WHERE kind = 'tags' AND name = $1",
            "INSERT INTO sluice.ranger_version AS v (service, what, version, updated_ms)"
            " SELECT $2, what, version, updated_ms FROM sluice.ranger_version WHERE service = $1"
            " ON CONFLICT (service, what) DO UPDATE SET version = greatest(v.version, excluded.version)",
            "DELETE FROM sluice.ranger_change WHERE service = $1 OR service = $2",
        ):
            await self._connection.execute(statement.replace("$2", "$2::text"), old, new)

    async def forget_service(self, service: str) -> None:
        """Drop the notes of a service that was deleted.

        Its versions stay: a service that is made anew under the name must not reach a version that some
        plugin still holds of the old one.
        """
        for table in ("ranger_change", "ranger_plugin"):
            await self._connection.execute(f"DELETE FROM sluice.{table} WHERE service = $1", service)

    async def purge_changes(self, days: int) -> None:
        """Drop what downloads of differences older than some days would need; they get everything then."""
        before = self._time - timedelta(days=days)
        await self._connection.execute("DELETE FROM sluice.ranger_change WHERE time < $1", before)

    async def purge_history(self, days: int) -> tuple[int, int]:
        """Drop history older than some days; return how many entries there were, and how many went."""
        total = await self._connection.fetchval("SELECT count(*) FROM sluice.ranger_history")
        gone = await self._connection.execute(
            "DELETE FROM sluice.ranger_history WHERE time < $1", self._time - timedelta(days=days)
        )
        return int(total), int(gone.split()[-1])

    @property
    def _time(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms / 1000, UTC)

    async def _next_id(self, kind: ObjectKind, wanted: int | None) -> int:
        if wanted and await self.get(kind, wanted) is None:
            await self._connection.execute(
                "INSERT INTO sluice.ranger_counter AS c (kind, last) VALUES ($1, $2)"
                " ON CONFLICT (kind) DO UPDATE SET last = greatest(c.last, $2)",
                kind,
                wanted,
            )
            return wanted
        return int(
            await self._connection.fetchval(
                "INSERT INTO sluice.ranger_counter AS c (kind, last) VALUES ($1, 1)"
                " ON CONFLICT (kind) DO UPDATE SET last = c.last + 1 RETURNING last",
                kind,
            )
        )

    async def _remember(
        self,
        action: str,
        kind: ObjectKind,
        body: Body,
        name: str | None,
        *,
        before: Body | None,
        after: Body | None,
    ) -> None:
        self._changed = True
        keys = _keys(kind, body, name)
        await self._connection.execute(
            "INSERT INTO sluice.ranger_history"
            " (time, who, action, kind, object_id, name, service, version, before, after)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            self._time,
            self.who,
            action,
            kind,
            body["id"],
            keys[0],
            keys[1],
            body["version"],
            None if before is None else as_text(before),
            None if after is None else as_text(after),
        )


def _keys(kind: ObjectKind, body: Body, name: str | None) -> tuple[str, str, str]:
    """Return name, service and zone as the columns hold them."""
    if kind is ObjectKind.POLICY:
        return body["name"], body["service"], body.get("zoneName") or ""
    return name or body["name"], "", ""


def _one(found: list[Body]) -> Body | None:
    return found[0] if found else None


def _decode(rows: Sequence[Any]) -> list[Body]:
    return [orjson.loads(row["body"]) for row in rows]


def _body(text: str | None) -> Body | None:
    return None if text is None else orjson.loads(text)


def as_text(body: Body) -> str:
    """Return a body as PostgreSQL takes it."""
    return orjson.dumps(body).decode()
