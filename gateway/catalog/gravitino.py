"""A Gravitino server by its REST API: what a metalake holds, and each of its catalogs as a readable catalog.

Paths and shapes are those of Gravitino's OpenAPI documents (`docs/open-api` of its repository).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import quote

from gateway.catalog.gravitino_policies import (
    MaskProgram,
    PolicyNotConvertible,
    RowProgram,
    read_column_mask,
    read_row_filter,
)
from gateway.catalog.readable import (
    CatalogUnavailable,
    DatabaseAlreadyExists,
    DatabaseEntry,
    DatabaseNotEmpty,
    NoSuchDatabase,
    NoSuchTable,
    TableEntry,
    WithoutFunctions,
)
from gateway.catalog.rest import (
    CatalogError,
    Login,
    RestClient,
    build_lookup_error,
    items,
    properties,
    read_object,
    refusals,
    text,
    unavailable,
)
from gateway.model.catalog import Column
from gateway.model.catalog import quote as quoted
from gateway.model.closing import Closing
from gateway.model.metalakes import (
    RELATIONAL,
    Level,
    MetadataObject,
    Metalake,
    MetalakeCatalog,
    MetalakePrivilege,
    MetalakeRestriction,
    MetalakeRole,
    MetalakeTag,
    Owner,
)

MEDIA_TYPE = "application/vnd.gravitino.v1+json"
MAX_TAGS = 10_000
"""Tags and roles are asked for one by one; more than these are told as a fault."""
MAX_ROLES = 10_000
AT_ONCE = 8
"""Questions that are asked at the same time."""
MAX_POLICIES = 10_000
_RESTRICTING = {"system_row_filter": "rows", "system_column_mask": "values"}
"""Types of policies that hide something, and what."""
_RESTRICTS = ("row_filter", "column_mask")
"""In the types of policies that hide something, of which later versions may have more."""
_CONTENT = frozenset({"expression", "properties", "supportedObjectTypes"})
"""Members of a policy's content. The last two say for whom it is, and change nothing of what it hides."""
_TABLES = frozenset({Level.METALAKE, Level.CATALOG, Level.SCHEMA, Level.TABLE})
_NO_POLICIES = frozenset({404, 405, 501})
"""Statuses of a server that has no policies."""
_HIDDEN = frozenset({403, 404})
"""Statuses for a role that is not there, or not to be seen by the account that asks."""
_Members = dict[str, tuple[str, ...]]
"""User or group → names of the roles."""
_NO_OWNERS = frozenset({404, 405, 501})
"""Statuses of a server that does not know the object, or has no owners at all."""


class GravitinoMetalake(Closing):
    """One metalake of a server. Raises CatalogUnavailable when it does not answer as documented."""

    def __init__(
        self,
        url: str,
        metalake: str,
        login: Login,
        *,
        timeout_s: float = 30.0,
        max_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        """`timeout_s` and `max_bytes` bound each answer."""
        self._client = RestClient(
            url, login, accept=MEDIA_TYPE, told=_read_error, timeout_s=timeout_s, max_bytes=max_bytes
        )
        self._metalake = metalake

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def catalogs(self) -> tuple[MetalakeCatalog, ...]:
        """Return all catalogs of every type, sorted by name."""
        answer = await self._get("catalogs", {"details": "true"})
        found = (_catalog(read_object(one, "catalog")) for one in items(answer.get("catalogs"), "catalogs"))
        return tuple(sorted(found, key=lambda entry: entry.name))

    async def load_everything(self, *, tags: bool, privileges: bool) -> Metalake:
        """Return what there is: the catalogs and, where they are wanted, tags; and roles with who has them,
        and owners of the catalogs. What cannot be had whole is not had: raises CatalogUnavailable."""
        catalogs = await self.catalogs()
        users, groups, roles = await self._grants() if privileges else ({}, {}, ())
        own: dict[MetadataObject, Owner] = {}
        if privileges:
            relational = [(one.name,) for one in catalogs if one.type == RELATIONAL and one.in_use]
            for parts in ((), *relational):
                level = "CATALOG" if parts else "METALAKE"
                owner = await self.owner(MetadataObject(level, parts))
                if owner is not None:
                    own[MetadataObject(level, parts)] = owner
        restricting = await self._list_restricting_policies()
        tagged = await self._tags() if tags or restricting else ()
        restrictions, restricted = await self._list_restrictions(restricting, tagged)
        return Metalake(
            catalogs=catalogs,
            tags=tagged if tags else (),
            restricted=restricted,
            restrictions=restrictions,
            roles=roles,
            users=users,
            groups=groups,
            owners=own,
        )

    async def owner(self, of: MetadataObject) -> Owner | None:
        """Return whose an object is; None for nobody's, and for what the server does not know."""
        name = quote(".".join(of.parts or (self._metalake,)), safe="")
        try:
            answer = await self.ask(f"owners/{of.type.lower()}/{name}")
        except CatalogError as error:
            if error.status in _NO_OWNERS:
                return None
            raise unavailable(error) from None
        if answer.get("owner") is None:
            return None
        told = read_object(answer["owner"], "owner")
        return Owner(name=text(told.get("name"), "name"), group=str(told.get("type")).upper() == "GROUP")

    async def _tags(self) -> tuple[MetalakeTag, ...]:
        answer = await self._get("tags", {"details": "true"})
        told = [read_object(one, "tag") for one in items(answer.get("tags"), "tags")]
        if len(told) > MAX_TAGS:
            raise CatalogUnavailable(f"the metalake has more than {MAX_TAGS} tags")
        by_name = {text(tag.get("name"), "name"): properties(tag.get("properties")) for tag in told}
        found = []
        answers = await self._each("tags/{}/objects", sorted(by_name))
        if len(answers) < len(by_name):
            # Gone meanwhile, or else something that masks may rest on is kept from us.
            again = items((await self._get("tags")).get("names"), "names")
            kept = (by_name.keys() - {name for name, _ in answers}) & set(again)
            if kept:
                raise CatalogUnavailable(f"the server does not list the objects with the tag `{min(kept)}`")
        for name, listed in answers:
            objects = [self._object(one) for one in items(listed.get("metadataObjects"), "objects")]
            found.append(MetalakeTag(name=name, properties=by_name[name], objects=tuple(objects)))
        return tuple(found)

    async def _list_restricting_policies(self) -> tuple[MetalakeRestriction, ...]:
        """Return the policies in force that hide rows or values, without what they are on; one that is not
        enforced has no expression."""
        try:
            answer = await self.ask("policies", {"details": "true"})
        except CatalogError as error:
            if error.status in _NO_POLICIES:
                return ()
            raise unavailable(error) from None
        told = [read_object(one, "policy") for one in items(answer.get("policies"), "policies")]
        if len(told) > MAX_POLICIES:
            raise CatalogUnavailable(f"the metalake has more than {MAX_POLICIES} policies")
        found = []
        for one in told:
            kind = text(one.get("policyType"), "policyType").lower()
            # RULE (metalake-restricting-policies)
            if any(word in kind for word in _RESTRICTS) and one.get("enabled") is not False:
                found.append(_read_restriction(text(one.get("name"), "name"), kind, one.get("content")))
        return await self._close_unknown_groups(sorted(found, key=lambda one: one.name))

    async def _close_unknown_groups(
        self, policies: Sequence[MetalakeRestriction]
    ) -> tuple[MetalakeRestriction, ...]:
        """Return policies, without an expression where one asks about a group that the metalake does not
        have: who is not in it would be everybody."""
        asked = {
            one.name: _read_program(one.hides, one.expression).groups for one in policies if one.expression
        }
        if not any(asked.values()):
            return tuple(policies)
        known: set[str] = set()
        try:
            told = (await self.ask("groups", {"details": "true"})).get("groups")
            known = {text(read_object(one, "group").get("name"), "name") for one in items(told, "groups")}
        except CatalogError as error:
            if error.status not in _NO_POLICIES | _HIDDEN:
                raise unavailable(error) from None
        unknown = {name for name, groups in asked.items() if not groups <= known}  # RULE (metalake-group)
        return tuple(replace(one, expression="") if one.name in unknown else one for one in policies)

    async def _list_restrictions(
        self, policies: Sequence[MetalakeRestriction], tags: Iterable[MetalakeTag]
    ) -> tuple[tuple[MetalakeRestriction, ...], tuple[MetadataObject, ...]]:
        """Return the policies with the objects that they are on, those with a tag that one is on as well; and
        the objects of policies that are not enforced there. Of these the policies speak too, without an
        expression: a statement may be judged by rules of before the last answer, or of after it."""
        tagged = {tag.name: tag.objects for tag in tags}
        by_name = {one.name: one for one in policies}
        answers = await self._each("policies/{}/objects", list(by_name))
        if len(answers) < len(policies):
            gone = min(by_name.keys() - {name for name, _ in answers})
            raise CatalogUnavailable(f"the server does not list the objects with the policy `{gone}`")
        found: list[MetalakeRestriction] = []
        closed: dict[MetadataObject, None] = {}
        for name, listed in answers:
            on: dict[MetadataObject, None] = {}
            for one in [self._object(each) for each in items(listed.get("metadataObjects"), "objects")]:
                on_tag = tagged.get(".".join(one.parts)) if one.type == "TAG" else (one,)
                if on_tag is None:  # RULE (metalake-policy-on-unknown-tag)
                    raise CatalogUnavailable("a policy is on a tag whose objects are not listed")
                on |= dict.fromkeys(on_tag)
            policy = by_name[name]
            levels = _TABLES | {Level.COLUMN} if policy.hides == "values" else _TABLES
            # RULE (metalake-not-enforced)
            fits = [one for one in on if policy.expression and one.level in levels]
            not_enforced = [one for one in on if one not in fits]
            if not listed.get("metadataObjects"):
                # Of a policy that is on nothing, and of one whose objects the account may not see, the server
                # says the same.
                not_enforced.append(MetadataObject(type=Level.METALAKE.value, parts=()))
            closed |= dict.fromkeys(not_enforced)
            if fits:
                found.append(replace(policy, objects=tuple(fits)))
            if not_enforced:  # RULE (metalake-closed-twice)
                found.append(replace(policy, expression="", objects=tuple(not_enforced)))
        return tuple(found), tuple(closed)

    async def _grants(self) -> tuple[_Members, _Members, tuple[MetalakeRole, ...]]:
        """Return users, groups and roles; a role that somebody has and that is not among them is hidden."""
        users, groups = await self._members("users"), await self._members("groups")
        held = {role for members in (users, groups) for names in members.values() for role in names}
        roles = await self._roles(held)
        if held - {role.name for role in roles}:
            # One that is gone meanwhile is nobody's by now.
            users, groups = await self._members("users"), await self._members("groups")
        return users, groups, roles

    async def _roles(self, held: Iterable[str]) -> tuple[MetalakeRole, ...]:
        """Return the roles of the list, and those that somebody has: a list leaves out what the account that
        asks may not see."""
        listed = {text(one, "name") for one in items((await self._get("roles")).get("names"), "names")}
        names = sorted(listed.union(held))
        if len(names) > MAX_ROLES:
            raise CatalogUnavailable(f"the metalake has more than {MAX_ROLES} roles")
        found = []
        for name, answer in await self._each("roles/{}", names, missing=_HIDDEN):
            role = read_object(answer.get("role"), "role")
            told = [read_object(o, "object") for o in items(role.get("securableObjects"), "objects")]
            grants = tuple((self._object(one), _privileges(one)) for one in told)
            found.append(MetalakeRole(name=name, grants=grants))
        return tuple(found)

    async def _each(
        self, path: str, names: Sequence[str], *, missing: frozenset[int] = frozenset({404})
    ) -> list[tuple[str, Mapping[str, Any]]]:
        """Ask one question about each name, a few at a time; a status of `missing` is no answer."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def ask(name: str) -> Mapping[str, Any] | None:
            async with slots:
                try:
                    return await self.ask(path.format(quote(name, safe="")))
                except CatalogError as error:
                    if error.status in missing:
                        return None
                    raise unavailable(error) from None

        tasks = [asyncio.create_task(ask(name)) for name in names]
        try:
            answers = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [(name, told) for name, told in zip(names, answers, strict=True) if told is not None]

    async def _members(self, what: str) -> _Members:
        """Return users or groups with their roles."""
        answer = await self._get(what, {"details": "true"})
        found = {}
        for told in items(answer.get(what), what):
            one = read_object(told, what)
            roles = items(one.get("roles") or [], "roles")
            found[text(one.get("name"), "name")] = tuple(text(role, "role") for role in roles)
        return found

    def _object(self, told: Any) -> MetadataObject:
        """Return an object by its type and full name, whose parts the server joins by dots."""
        one = read_object(told, "object")
        kind = text(one.get("type"), "type").upper()
        return MetadataObject(
            kind, () if kind == "METALAKE" else tuple(text(one.get("fullName"), "name").split("."))
        )

    def catalog(self, name: str, types: Mapping[str, str]) -> GravitinoCatalog:
        """Return one of them; whether it is there is seen when it is asked. `types`: what the server's types
        are in Spark."""
        return GravitinoCatalog(self, name, types)

    async def _get(self, path: str, query: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        try:
            return await self.ask(path, query)
        except CatalogError as error:
            raise unavailable(error) from None

    async def ask(self, path: str, query: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        """Return the answer to a question below the metalake. Raises CatalogError, CatalogUnavailable."""
        return await self._request("GET", path, query=query)

    async def send_change(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Change something below the metalake, and return what is answered. Raises as `ask`."""
        return await self._request(method, path, body=body)

    async def _request(self, method: str, path: str, **request: Any) -> Mapping[str, Any]:
        whole = f"api/metalakes/{quote(self._metalake, safe='')}/{path}"
        answer = read_object(await self._client.ask(method, whole, **request), "body")
        if answer.get("code") != 0:
            # An error with the status of a success.
            raise CatalogUnavailable("the server returned an error without a type")
        return answer


class GravitinoCatalog(WithoutFunctions, Closing):
    """See WritableCatalog; it has no views. What opens the metalake closes it."""

    def __init__(self, metalake: GravitinoMetalake, name: str, types: Mapping[str, str]) -> None:
        self._metalake = metalake
        self._types = types
        self._path = f"catalogs/{quote(name, safe='')}"

    async def databases(self) -> Sequence[str]:
        try:
            return _names(await self._metalake.ask(f"{self._path}/schemas"))
        except CatalogError as error:
            raise unavailable(error) from None

    async def database(self, name: str) -> DatabaseEntry:
        try:
            answer = await self._metalake.ask(self._schema(name))
        except CatalogError as error:
            raise build_lookup_error(error, NoSuchDatabase(f"database `{name}` does not exist")) from None
        schema = read_object(answer.get("schema"), "schema")
        told = properties(schema.get("properties"))
        return DatabaseEntry(
            name=text(schema.get("name"), "name"),
            comment=schema.get("comment"),
            owner=_creator(schema),
            location=told.get("location"),
            properties=told,
        )

    async def tables(self, database: str) -> Sequence[str]:
        try:
            return _names(await self._metalake.ask(f"{self._schema(database)}/tables"))
        except CatalogError as error:
            raise build_lookup_error(error, NoSuchDatabase(f"database `{database}` does not exist")) from None

    async def views(self, database: str) -> Sequence[str]:
        await self.database(database)
        return ()

    async def table(self, database: str, name: str) -> TableEntry:
        try:
            answer = await self._metalake.ask(self._table(database, name))
        except CatalogError as error:
            raise build_lookup_error(
                error, NoSuchTable(f"table `{database}.{name}` does not exist")
            ) from None
        table = read_object(answer.get("table"), "table")
        told = properties(table.get("properties"))
        columns = [read_object(one, "column") for one in items(table.get("columns"), "columns")]
        return TableEntry(
            database=database,
            name=text(table.get("name"), "name"),
            columns=tuple(
                Column(
                    name=text(c.get("name"), "name"),
                    type=spark_type(c.get("type"), self._types),
                    comment=c.get("comment"),
                )
                for c in columns
            ),
            partitioning=tuple(
                _transform(read_object(p, "partitioning")) for p in table.get("partitioning") or ()
            ),
            owner=_creator(table),
            comment=table.get("comment"),
            provider=told.get("provider") or told.get("format"),
            location=told.get("location"),
            properties=told,
        )

    async def create_database(self, name: str) -> None:
        body: dict[str, Any] = {"name": name, "comment": None, "properties": {}}
        with refusals(None, DatabaseAlreadyExists(f"database `{name}` already exists")):
            await self._metalake.send_change("POST", f"{self._path}/schemas", body=body)

    async def drop_database(self, name: str) -> None:
        missing = NoSuchDatabase(f"database `{name}` does not exist")
        with refusals(missing, DatabaseNotEmpty(f"the database `{name}` is not empty")):
            answer = await self._metalake.send_change("DELETE", self._schema(name))
        if answer.get("dropped") is not True:
            raise missing

    def _table(self, database: str, name: str) -> str:
        return f"{self._schema(database)}/tables/{quote(name, safe='')}"

    def _schema(self, name: str) -> str:
        return f"{self._path}/schemas/{quote(name, safe='')}"


def spark_type(told: Any, types: Mapping[str, str], depth: int = 0) -> str:
    """Return a type of Gravitino as DDL. Raises CatalogUnavailable where Spark has none."""
    if depth > 50:
        raise CatalogUnavailable("a type that is nested too deep")
    if isinstance(told, str):
        plain = told.lower()
        if plain.startswith(("decimal(", "char(", "varchar(")):
            return plain.replace(" ", "")
        found = types.get(plain.partition("(")[0].strip())
        if found is None:
            raise CatalogUnavailable(f"Spark has no type for `{told[:80]}`")
        return found
    one = read_object(told, "type")
    match one.get("type"):
        case "struct":
            fields = [read_object(f, "field") for f in items(one.get("fields"), "fields")]
            named = (
                (text(f.get("name"), "name"), spark_type(f.get("type"), types, depth + 1)) for f in fields
            )
            return f"struct<{','.join(f'{quoted(name)}:{kind}' for name, kind in named)}>"
        case "list":
            return f"array<{spark_type(one.get('elementType'), types, depth + 1)}>"
        case "map":
            key, value = (spark_type(one.get(f"{side}Type"), types, depth + 1) for side in ("key", "value"))
            return f"map<{key},{value}>"
    raise CatalogUnavailable("a type that Spark does not have")


def _read_restriction(name: str, kind: str, content: Any) -> MetalakeRestriction:
    """Return a policy as far as it is understood: what is not enforced has no expression."""
    hides: Literal["rows", "values"] = "rows" if _RESTRICTING.get(kind) == "rows" else "values"
    told = content.get("expression") if isinstance(content, dict) and content.keys() <= _CONTENT else None
    try:
        if not isinstance(told, str) or kind not in _RESTRICTING:
            raise PolicyNotConvertible("a content, or a type, of another form")
        _read_program(hides, told)
    except PolicyNotConvertible:
        told = ""
    return MetalakeRestriction(name=name, hides=hides, expression=str(told))


def _read_program(hides: Literal["rows", "values"], expression: str) -> RowProgram | MaskProgram:
    return read_row_filter(expression) if hides == "rows" else read_column_mask(expression)


def _read_error(answer: Any) -> tuple[str, str]:
    return str(answer["type"]), str(answer["message"])


def _privileges(told: Mapping[str, Any]) -> tuple[MetalakePrivilege, ...]:
    found = []
    for one in items(told.get("privileges"), "privileges"):
        privilege = read_object(one, "privilege")
        condition = text(privilege.get("condition"), "condition").upper()
        # What is not known to allow does not.
        found.append(
            MetalakePrivilege(text(privilege.get("name"), "name").upper(), denied=condition != "ALLOW")
        )
    return tuple(found)


def _catalog(told: Mapping[str, Any]) -> MetalakeCatalog:
    found = properties(told.get("properties"))
    return MetalakeCatalog(
        name=text(told.get("name"), "name"),
        type=str(told.get("type") or "").upper(),
        provider=str(told.get("provider") or "").lower(),
        comment=told.get("comment"),
        properties=found,
        in_use=found.get("in-use", "true").lower() != "false",
    )


def _names(answer: Mapping[str, Any]) -> Sequence[str]:
    found = items(answer.get("identifiers"), "identifiers")
    return sorted(text(read_object(one, "identifier").get("name"), "name") for one in found)


def _creator(told: Mapping[str, Any]) -> str | None:
    audit = told.get("audit")
    creator = audit.get("creator") if isinstance(audit, dict) else None
    return creator if isinstance(creator, str) else None


def _transform(told: Mapping[str, Any]) -> str:
    fields = ", ".join(".".join(str(p) for p in one) for one in (told.get("fieldNames") or ()))
    name = ".".join(str(part) for part in told.get("fieldName") or ()) or fields
    strategy = str(told.get("strategy", ""))
    if strategy == "identity":
        return name
    width = told.get("numBuckets", told.get("width"))
    return f"{strategy}({name})" if width is None else f"{strategy}({width}, {name})"
