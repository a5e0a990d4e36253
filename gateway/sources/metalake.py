"""A metalake, asked again and again: the last good answer is in force, in a file as well, and not for ever.

An answer counts when all of it came and could be put in force. In the file stand no secrets: properties that
may hold one are left out, and told by name.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import orjson
import structlog

from gateway.errors import Faults, SluiceError
from gateway.model.metalakes import (
    MetadataObject,
    Metalake,
    MetalakeCatalog,
    MetalakePrivilege,
    MetalakeRestriction,
    MetalakeRole,
    MetalakeTag,
    Owner,
)
from gateway.sources.backoff import Backoff
from gateway.sources.cache import CacheTrouble, read_file, replace_file

_log = structlog.get_logger(__name__)

_FORM = 3
"""What a file says that is written here; one of another form is not read."""

Fetch = Callable[[], Awaitable[Metalake]]
"""Asks the server for everything. Raises SluiceError."""
_Offer = Callable[[Metalake], Awaitable[None]]
"""Puts what a metalake holds in force. Raises Faults, and then what was before is in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetalakeOptions:
    """One metalake, and how it is asked."""

    name: str
    """Of the entry in `catalogs:`."""
    poll_s: float
    max_stale_s: float
    asked: str = ""
    """Which server is asked for what. A file of other answers is not used: denials might be missing in it."""
    look_s: float = 600.0
    """Seconds for everything together."""
    start_s: float = 60.0
    """Seconds for it when the gateway starts, which waits for it; then it goes on as after a failure."""
    cache: Path | None = None
    """File of the last good answer; when it was confirmed stands in it."""
    minor: str = ""
    """Of the Spark behind the gateway; it stands in the file."""
    read_only: bool = False
    """The file is read, and nobody is asked: for a command beside the gateway whose file it is."""


class MetalakeSource:
    """Polls one metalake and offers it when it has changed."""

    def __init__(
        self,
        options: MetalakeOptions,
        fetch: Fetch,
        *,
        is_secret: Callable[[str, str], bool],
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random | None = None,
    ) -> None:
        self._options = options
        self._fetch = fetch
        self._is_secret = is_secret
        self._clock = clock
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._wait = Backoff(options.poll_s, random or Random())  # noqa: S311  # spreads questions, no secret
        self._offer: _Offer | None = None
        self._confirmed: float | None = None
        self._reported_stale = False
        self.held: Metalake | None = None
        """What is in force; None before anything was."""
        self.trouble = ""
        """Why the last look failed; what is in force is older then."""
        self.cache_trouble = ""

    @property
    def name(self) -> str:
        """The name of the entry in `catalogs:`."""
        return self._options.name

    @property
    def age_s(self) -> float | None:
        """Seconds since the server last confirmed what is in force; None when it never has."""
        return None if self._confirmed is None else max(0.0, self._clock() - self._confirmed)

    def stale(self) -> str | None:
        """Return why nothing of the metalake may be used now, or None."""
        age, limit = self.age_s, self._options.max_stale_s
        if age is None:
            return "whose metalake has not been read yet"
        if age <= limit:
            return None
        # Always the same words: what is known of catalogs changes when they do.
        return f"whose metalake `{self.name}` has not answered for more than {limit:g} seconds"

    # -- the task --------------------------------------------------------------------------------------------

    async def start(self, offer: _Offer) -> None:
        """Take what the file holds, then ask once. Whatever they say, this does not raise."""
        self._offer = offer
        await self._take_cache()
        if not self._options.read_only:
            await self.look(self._options.start_s)

    async def run(self) -> None:
        """Ask whenever it is time, until cancelled."""
        while True:
            await self._sleep(self._wait.record_failure() if self.trouble else self._wait.record_success())
            await self.look()

    async def look(self, within_s: float | None = None) -> bool:
        """Ask once; return whether all came and is in force."""
        limit = self._options.look_s if within_s is None else within_s
        try:
            async with asyncio.timeout(limit):
                found = await self._fetch()
            await self._put(found)
        except Faults as error:
            self._handle_failure("; ".join(error.faults))
        except SluiceError as error:
            self._handle_failure(error.message)
        except TimeoutError:
            self._handle_failure(f"the server did not finish answering within {limit:g} s")
        except Exception as error:  # noqa: BLE001 - a source's root: nothing from there ends the gateway
            self._handle_failure(f"its response cannot be used ({type(error).__name__})")
        else:
            if self.trouble:
                _log.info("metalake_well_again", metalake=self.name)
            self.trouble, self._reported_stale = "", False
            self._confirmed = self._clock()
            await self._keep(found)
            return True
        return False

    async def _put(self, found: Metalake) -> None:
        if self._offer is not None and found != self.held:
            await self._offer(found)
            self.held = found

    def _handle_failure(self, why: str) -> None:
        if why != self.trouble:
            _log.warning("metalake_not_read", metalake=self.name, trouble=why, age_s=self.age_s)
        self.trouble = why
        stale = self.stale()
        if stale is not None and not self._reported_stale:
            self._reported_stale = True
            _log.error("metalake_stale", metalake=self.name, age_s=self.age_s, catalogs="refused")

    # -- the file --------------------------------------------------------------------------------------------

    async def _take_cache(self) -> None:
        path = self._options.cache
        if path is None:
            return
        try:
            found = await asyncio.to_thread(load_cached_metalake, path)
            if found is None:
                return
            if found.asked != self._options.asked:
                raise CacheTrouble(f"{path} is not used: it is of another server, or invalid")
            await self._put(found.metalake)
        except CacheTrouble as error:
            self._cache_failed(error.message)
            return
        except Faults as error:
            self._cache_failed(f"{path} is not used: {'; '.join(error.faults)}")
            return
        age = self._wall_clock() - found.confirmed
        if age < 0:
            _log.warning("metalake_file_from_the_future", metalake=self.name, seconds=round(-age))
        self._confirmed = self._clock() - max(0.0, age)

    async def _keep(self, found: Metalake) -> None:
        path = self._options.cache
        if path is None or self._options.read_only:
            return
        try:
            shown = without_secrets(found, self._is_secret)
            own = CachedMetalake(
                metalake=shown,
                confirmed=self._wall_clock(),
                asked=self._options.asked,
                minor=self._options.minor,
            )
            await asyncio.to_thread(keep, path, own)
            self.cache_trouble = ""
        except CacheTrouble as error:
            self._cache_failed(error.message)

    def _cache_failed(self, trouble: str) -> None:
        if trouble != self.cache_trouble:
            _log.error("metalake_file_trouble", metalake=self.name, trouble=trouble)
        self.cache_trouble = trouble


def without_secrets(metalake: Metalake, is_secret: Callable[[str, str], bool]) -> Metalake:
    """Return a metalake whose catalogs have no property that may hold a secret."""

    def leave_out_secrets(catalog: MetalakeCatalog) -> MetalakeCatalog:
        hidden = {key for key, value in catalog.properties.items() if is_secret(key, value)}
        shown = {key: value for key, value in catalog.properties.items() if key not in hidden}
        return replace(catalog, properties=shown, left_out=catalog.left_out | hidden)

    return replace(metalake, catalogs=tuple(leave_out_secrets(catalog) for catalog in metalake.catalogs))


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedMetalake:
    """What a file holds, and when the server confirmed it, in seconds since 1970."""

    metalake: Metalake
    confirmed: float
    asked: str
    minor: str = ""


def keep(path: Path, own: CachedMetalake) -> None:
    """Replace the file, whole or not at all, for its owner alone. Raises CacheTrouble."""
    told = {
        "confirmed": own.confirmed,
        "asked": own.asked,
        "minor": own.minor,
        **_build_document(own.metalake),
    }
    replace_file(path, (orjson.dumps(told),))


def digest(metalake: Metalake) -> str:
    """Return twelve hexadecimal digits that are others when anything that is told is."""
    return hashlib.sha256(orjson.dumps(_build_document(metalake), option=orjson.OPT_SORT_KEYS)).hexdigest()[
        :12
    ]


def load_cached_metalake(path: Path) -> CachedMetalake | None:
    """Return what a file holds, None when there is none. Raises CacheTrouble."""
    found = read_file(path)
    if found is None:
        return None
    try:
        if found["form"] != _FORM:
            raise CacheTrouble(f"{path}: has an unsupported format")
        return CachedMetalake(
            metalake=_read(found),
            confirmed=float(found["confirmed"]),
            asked=str(found["asked"]),
            minor=str(found.get("minor", "")),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CacheTrouble(f"{path}: contains something other than a metalake") from None


def _build_document(metalake: Metalake) -> dict[str, Any]:
    return {
        "form": _FORM,
        "catalogs": [
            {
                "name": one.name,
                "type": one.type,
                "provider": one.provider,
                "comment": one.comment,
                "properties": dict(one.properties),
                "in_use": one.in_use,
                "left_out": sorted(one.left_out),
            }
            for one in metalake.catalogs
        ],
        "tags": [
            {
                "name": tag.name,
                "properties": dict(tag.properties),
                "objects": [_object(one) for one in tag.objects],
            }
            for tag in metalake.tags
        ],
        "roles": [
            {
                "name": role.name,
                "grants": [
                    [_object(one), [[p.name, p.denied] for p in privileges]]
                    for one, privileges in role.grants
                ],
            }
            for role in metalake.roles
        ],
        "users": {name: list(roles) for name, roles in metalake.users.items()},
        "groups": {name: list(roles) for name, roles in metalake.groups.items()},
        "owners": [[_object(one), owner.name, owner.group] for one, owner in metalake.owners.items()],
        "restricted": [_object(one) for one in metalake.restricted],
        "restrictions": [
            [one.name, one.hides, one.expression, [_object(each) for each in one.objects]]
            for one in metalake.restrictions
        ],
    }


def _object(one: MetadataObject) -> list[Any]:
    return [one.type, list(one.parts)]


def _read(found: Mapping[str, Any]) -> Metalake:
    """Raises AttributeError, KeyError, TypeError or ValueError for what was not written here."""
    return Metalake(
        catalogs=tuple(
            MetalakeCatalog(
                name=str(one["name"]),
                type=str(one["type"]),
                provider=str(one["provider"]),
                comment=None if one["comment"] is None else str(one["comment"]),
                properties=_texts(one["properties"]),
                in_use=one["in_use"] is True,
                left_out=frozenset(map(str, one["left_out"])),
            )
            for one in found["catalogs"]
        ),
        tags=tuple(
            MetalakeTag(
                name=str(tag["name"]),
                properties=_texts(tag["properties"]),
                objects=tuple(map(_read_object, tag["objects"])),
            )
            for tag in found["tags"]
        ),
        roles=tuple(
            MetalakeRole(
                name=str(role["name"]),
                grants=tuple(
                    (
                        _read_object(one),
                        tuple(MetalakePrivilege(str(name), no is not False) for name, no in given),
                    )
                    for one, given in role["grants"]
                ),
            )
            for role in found["roles"]
        ),
        users={str(name): tuple(map(str, roles)) for name, roles in found["users"].items()},
        groups={str(name): tuple(map(str, roles)) for name, roles in found["groups"].items()},
        owners={
            _read_object(one): Owner(name=str(name), group=group is True)
            for one, name, group in found["owners"]
        },
        restricted=tuple(map(_read_object, found["restricted"])),
        restrictions=tuple(
            MetalakeRestriction(
                name=str(name),
                hides="rows" if hides == "rows" else "values",
                expression=str(expression),
                objects=tuple(map(_read_object, objects)),
            )
            for name, hides, expression, objects in found["restrictions"]
        ),
    )


def _read_object(told: Sequence[Any]) -> MetadataObject:
    kind, parts = told
    return MetadataObject(str(kind), tuple(map(str, parts)))


def _texts(value: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(one) for key, one in value.items()}
