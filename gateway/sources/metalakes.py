"""Several metalakes: their catalogs that are in force, and what Spark and policies get of them.

A catalog has one metalake: of two that name the same, whoever had it first keeps it. What changes is put in
force in an order in which nothing can be named before policies speak for it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from gateway.catalog.gravitino import GravitinoMetalake
from gateway.catalog.providers import (
    ForSpark,
    NotForSpark,
    Providers,
    Wishes,
    is_secret,
    secrets_in,
    secrets_of,
    spark_catalog,
)
from gateway.catalog.spark_settings import NamedCatalog
from gateway.errors import SluiceError
from gateway.model.bounded import BoundedDict
from gateway.model.catalog import Table, TableKind, TableName
from gateway.model.metalakes import (
    NONE_LISTED,
    RELATIONAL,
    ListedCatalogs,
    MetadataObject,
    Metalake,
    MetalakeRestriction,
)
from gateway.model.secret_values import HIDDEN, RevealedSecrets
from gateway.model.spark_minors import Minor
from gateway.policy.parts import Part
from gateway.sources.metalake import MetalakeSource, digest, without_secrets
from gateway.sources.metalake_rules import MetalakeRules, rules_of

log = structlog.get_logger(__name__)

Take = Callable[[str, Part], Awaitable[None]]
"""Puts a source of policies in force. Raises Faults, and then nothing has changed."""

OwnCatalogs = Callable[[], Awaitable[Mapping[str, str]]]
"""Asks Spark which catalogs it has by itself: name → class. Raises BackendUnavailable."""

SPARK_POLL_S = 30.0
"""Seconds between questions for these: a Spark that was started anew may have others."""
MAX_REPORTED = 20
"""Catalogs and privileges that one log line names."""
OWNERS_KEPT = 50_000
GONE_KEPT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A catalog of a metalake that Spark is not told of."""

    name: str
    provider: str
    why: str
    expected: bool = False
    """Whether nobody has to be told: it holds no tables, or is switched off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetalakeState:
    """How one metalake is doing."""

    name: str
    catalogs: tuple[NamedCatalog, ...]
    """In force, or refused because they are too old."""
    properties: tuple[Mapping[str, str], ...] = field(repr=False)
    """As the server tells them, of all catalogs that hold tables: also what only it tells Spark, and of those
    that Spark is not told of."""
    left_out: tuple[LeftOut, ...]
    unmapped_privileges: Mapping[str, int]
    """What its tags, privileges and properties cannot mean here → how often."""
    hidden_roles: tuple[str, ...] = ()
    """Roles that the server does not show; whoever has one is denied everything."""
    age_s: float | None
    trouble: str
    stale: str | None


@dataclass(slots=True, kw_only=True)
class PolledMetalake:
    """One metalake with what has become of it."""

    name: str
    service: str
    """Whose policies speak for its catalogs."""
    source: MetalakeSource
    client: GravitinoMetalake | None = None
    """None: no server is asked."""
    wishes: Wishes
    reveal: Callable[[str], Mapping[str, str]]
    """Returns the secrets that the settings give a catalog. Raises Faults."""
    tags: bool
    owners: bool
    privileges: bool
    """What is taken of it."""
    held: Metalake = field(default_factory=Metalake)
    left_out: tuple[LeftOut, ...] = ()
    unforwarded: Counter[str] = field(default_factory=Counter)
    """Properties meant for Spark that are not forwarded → how often."""
    rules: MetalakeRules = field(default_factory=MetalakeRules)
    part: Part | None = None

    @property
    def unmapped_privileges(self) -> Mapping[str, int]:
        """Returns how often something of the metalake has no meaning here."""
        return {**self.rules.unmapped_privileges, **dict(sorted(self.unforwarded.items()))}


@dataclass(frozen=True, slots=True)
class _InForce:
    lake: str
    catalog: NamedCatalog
    """Secrets of the settings stand as `***`."""
    revision: int


class Metalakes:
    """Polls every metalake, and keeps the list of their catalogs."""

    def __init__(
        self,
        lakes: Sequence[PolledMetalake],
        minor: Minor,
        providers: Providers,
        reserved: frozenset[str],
        *,
        logs: bool = True,
    ) -> None:
        """`minor`: of the Spark that is told. `reserved`: first parts of names that mean something already,
        lower case. `logs`: whether what changes is logged."""
        self._lakes = list(lakes)
        self._minor = minor
        self._providers = providers
        self._reserved = reserved
        self._logs = logs
        self._take: Take | None = None
        self._own: OwnCatalogs | None = None
        self._of_spark: Mapping[str, str] | None = None
        """Spark's own catalogs: name, lower case → class; None while they are not known."""
        self._changing = asyncio.Lock()
        self._in_force: dict[str, _InForce] = {}
        self._gone: BoundedDict[str, str] = BoundedDict(GONE_KEPT)
        self._numbers = itertools.count(1)
        self._listed = NONE_LISTED
        self._shown: tuple[ListedCatalogs, frozenset[str], ListedCatalogs] = (
            NONE_LISTED,
            frozenset(),
            NONE_LISTED,
        )
        self._owners: BoundedDict[TableName, str | None] = BoundedDict(OWNERS_KEPT)
        self._secrets = RevealedSecrets()

    # -- what others ask -------------------------------------------------------------------------------------

    def list_catalogs(self) -> ListedCatalogs:
        """Return the catalogs that can be used now, and those that cannot; the same object while nothing
        changes."""
        stale = {lake.name: why for lake in self._lakes if (why := lake.source.stale()) is not None}
        listed, lakes, shown = self._shown
        if listed is not self._listed or lakes != stale.keys():
            refused = {
                name: stale[one.lake]
                for name, one in self._in_force.items()
                if one.lake in stale and name in self._listed.revisions
            }
            left = {name: n for name, n in self._listed.revisions.items() if name not in refused}
            shown = ListedCatalogs(revisions=left, refused={**self._listed.refused, **refused})
            self._shown = (self._listed, frozenset(stale), shown)
        return shown

    def reveal_catalogs(self) -> list[NamedCatalog]:
        """Return the catalogs as Spark is told of them now, secrets revealed. Raises Faults."""
        usable = self.list_catalogs().revisions
        return [self._reveal_catalog(one) for name, one in self._in_force.items() if name in usable]

    def find_catalog(self, name: str) -> NamedCatalog | None:
        """Return a catalog as Spark is told of it now, secrets revealed; None where there is none of the
        name. Raises Faults."""
        one = self._in_force.get(name)
        return None if one is None else self._reveal_catalog(one)

    def list_in_force(self) -> Sequence[tuple[str, NamedCatalog]]:
        """Return the catalogs, each with the metalake that has it; secrets stand as `***`."""
        return [(one.lake, one.catalog) for one in self._in_force.values()]

    def list_restrictions(self) -> Mapping[str, Sequence[MetalakeRestriction]]:
        """Return the policies of servers that hide rows or values, by the lower-case names of catalogs whose
        metalake has some."""
        held = {lake.name: lake.held.restrictions for lake in self._lakes if lake.held.restrictions}
        return {name: held[one.lake] for name, one in self._in_force.items() if one.lake in held}

    def secrets(self) -> Sequence[str]:
        """Return the values that no client may read, of now and of before."""
        return tuple(self._secrets)

    def states(self) -> list[MetalakeState]:
        """Return how each metalake is doing."""
        return [
            MetalakeState(
                name=lake.name,
                catalogs=tuple(one.catalog for one in self._in_force.values() if one.lake == lake.name),
                properties=tuple(
                    one.properties for one in lake.held.catalogs if one.type.upper() == RELATIONAL
                ),
                left_out=lake.left_out,
                unmapped_privileges=lake.unmapped_privileges,
                hidden_roles=lake.rules.hidden_roles,
                age_s=lake.source.age_s,
                trouble=lake.source.trouble or lake.source.cache_trouble,
                stale=lake.source.stale(),
            )
            for lake in self._lakes
        ]

    async def report_trouble(self) -> str | None:
        """Say what is wrong with the metalakes, None when nothing is."""
        said = []
        for state in self.states():
            if state.stale is not None:
                why = state.trouble or state.stale
                said.append(f"metalake `{state.name}`: its catalogs are refused: {why}")
            elif state.trouble:
                said.append(f"metalake `{state.name}`: {state.trouble}; the last catalogs are in force")
            skipped = [one for one in state.left_out if not one.expected]
            if skipped:
                names = ", ".join(f"`{one.name}` ({one.why})" for one in skipped[:MAX_REPORTED])
                said.append(f"metalake `{state.name}`: {len(skipped)} catalogs are skipped: {names}")
            if state.hidden_roles:
                roles = ", ".join(f"`{role}`" for role in state.hidden_roles[:MAX_REPORTED])
                why = f"{len(state.hidden_roles)} roles that the server does not show is denied everything"
                said.append(f"metalake `{state.name}`: whoever has one of {why}: {roles}")
            if state.unmapped_privileges:
                lost = sum(state.unmapped_privileges.values())
                said.append(
                    f"metalake `{state.name}`: {lost} tags, privileges and properties cannot be mapped"
                )
        return "; ".join(said) or None

    async def owner(self, table: Table) -> str | None:
        """Return who owns a table, by its metalake where owners are taken of it: then Spark is not asked.

        Of a server that is silent the last answer counts while its list does; without one there is none.
        """
        found = self._in_force.get(table.name.catalog.lower())
        lake = next((one for one in self._lakes if found is not None and one.name == found.lake), None)
        if found is None or lake is None or not lake.owners:
            return table.owner
        name = table.name.fold()
        if lake.client is not None and not lake.source.trouble:
            kind = "TABLE" if table.kind is TableKind.TABLE else "VIEW"
            parts = (found.catalog.name, table.name.database, table.name.table)
            try:
                owner = await lake.client.owner(MetadataObject(kind, parts))
            except SluiceError as error:
                log.warning("owner_not_told", metalake=lake.name, trouble=error.message)
            else:
                # Owners are users here: what a group owns is nobody's.
                self._owners[name] = None if owner is None or owner.group else owner.name
        return None if lake.source.stale() else self._owners.get(name)

    @property
    def services(self) -> frozenset[str]:
        """The services that speak for their catalogs."""
        return frozenset(lake.service for lake in self._lakes)

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self, take: Take, own: OwnCatalogs | None = None) -> None:
        """Take what the files hold, then ask every server once. Whatever they say, this does not raise.

        `own` tells which catalogs Spark has by itself, whose names no metalake may have. As long as it
        cannot, none of theirs is in force; without it all other names are free.
        """
        self._take, self._own = take, own
        self._of_spark = await self._ask_spark(own) if own is not None and self._lakes else {}
        # One after the other: of two with the same catalog it is the first one's.
        for lake in self._lakes:
            await lake.source.start(partial(self._offer_catalogs, lake))

    async def run(self) -> None:
        """Poll until cancelled."""
        async with asyncio.TaskGroup() as group:
            for lake in self._lakes:
                group.create_task(lake.source.run())
            if self._lakes:
                group.create_task(self._watch_spark())

    async def _watch_spark(self) -> None:
        while True:
            await asyncio.sleep(SPARK_POLL_S)
            await self.look_at_spark()

    async def look_at_spark(self) -> None:
        """Ask Spark for its own catalogs once: one that was started anew may have others. Does not raise."""
        found = await self._ask_spark(self._own) if self._own is not None else None
        if found is None or found == self._of_spark:
            return
        async with self._changing:
            before, self._of_spark = self._of_spark, found
            try:
                await self._settle()
            except Exception as error:  # noqa: BLE001 - a task's root: what was before is in force
                self._of_spark = before
                log.warning("own_catalogs_not_taken", trouble=type(error).__name__)

    async def _ask_spark(self, own: OwnCatalogs) -> Mapping[str, str] | None:
        try:
            return {name.lower(): kind for name, kind in (await own()).items()}
        except SluiceError as error:
            trouble = error.message
        except Exception as error:  # noqa: BLE001 - a task's root: a Spark that answers oddly ends no gateway
            trouble = type(error).__name__
        log.warning("own_catalogs_not_told", trouble=trouble)
        return None

    async def look(self) -> None:
        """Ask every server once."""
        for lake in self._lakes:
            await lake.source.look()

    async def close(self) -> None:
        """Close the connections."""
        for lake in self._lakes:
            if lake.client is not None:
                await lake.client.close()

    # -- one change at a time --------------------------------------------------------------------------------

    async def _offer_catalogs(self, lake: PolledMetalake, metalake: Metalake) -> None:
        """Put in force what a metalake holds now. Raises Faults, and then all is as before."""
        async with self._changing:
            before = lake.held
            lake.held = metalake
            try:
                await self._settle()
            except BaseException:
                lake.held = before
                raise

    async def _settle(self) -> None:
        before = [(lake, lake.part, lake.rules, lake.left_out, lake.unforwarded) for lake in self._lakes]
        chosen, left_out = self._choose_catalogs()
        new = {name: self._number_catalog(name, lake, catalog) for name, (lake, catalog) in chosen.items()}
        old = self._in_force
        same = {name for name, one in new.items() if old.get(name) == one}
        earlier = self._listed
        # INVARIANT (deny is the ground state): what goes or changes is refused before, and what comes can be
        # named after, policies speak for it.
        self._listed = ListedCatalogs(
            revisions={name: one.revision for name, one in old.items() if name in same},
            refused={**self._gone, **dict.fromkeys(old.keys() - same, "which is being changed")},
        )
        try:
            for lake in self._lakes:
                names = [one.catalog.name for one in new.values() if one.lake == lake.name]
                part, lake.rules = self._part(lake, names)
                if part is not lake.part:
                    await self._put(part)
                    lake.part = part
        except BaseException:
            for lake, part_before, lake.rules, lake.left_out, lake.unforwarded in before:
                changed, lake.part = lake.part, part_before
                if part_before is not None and changed is not part_before:
                    await self._put(part_before)
            self._listed = earlier
            raise
        for name in old.keys() - new.keys():
            gone = f"which the metalake `{old[name].lake}` no longer has"
            self._gone[name] = "which is now one of Spark's own" if name in (self._of_spark or ()) else gone
        for name in new:
            self._gone.pop(name, None)
        self._in_force = new
        for table in [table for table in self._owners if table.catalog in old.keys() - same]:
            del self._owners[table]
        for one in new.values():
            self._remember(one)
        self._listed = ListedCatalogs(
            revisions={name: one.revision for name, one in new.items()}, refused=dict(self._gone)
        )
        if self._logs:
            self._tell(old, new, left_out)

    async def _put(self, part: Part) -> None:
        if self._take is not None:
            await self._take(part.name, part)

    def _choose_catalogs(self) -> tuple[dict[str, tuple[str, NamedCatalog]], dict[str, list[LeftOut]]]:
        """Return which metalake's catalog each name means, and what every metalake has to do without."""
        offers: dict[str, dict[str, NamedCatalog]] = {}
        left_out: dict[str, list[LeftOut]] = {}
        for lake in self._lakes:
            offers[lake.name], left_out[lake.name] = self._offers(lake)
        chosen: dict[str, tuple[str, NamedCatalog]] = {
            name: (one.lake, offers[one.lake][name])
            for name, one in self._in_force.items()
            if name in offers[one.lake]
        }
        for lake in self._lakes:
            providers = {one.name: one.provider for one in lake.held.catalogs}
            for name, catalog in offers[lake.name].items():
                owner, _ = chosen.setdefault(name, (lake.name, catalog))
                if owner != lake.name:
                    why = f"its name is already used by the metalake `{owner}`"
                    left_out[lake.name].append(
                        LeftOut(name=catalog.name, provider=providers[catalog.name], why=why)
                    )
            lake.left_out = tuple(sorted(left_out[lake.name], key=lambda one: one.name))
        return chosen, left_out

    def _offers(self, lake: PolledMetalake) -> tuple[dict[str, NamedCatalog], list[LeftOut]]:
        offers: dict[str, NamedCatalog] = {}
        left_out: list[LeftOut] = []
        lake.unforwarded = Counter()
        for one in lake.held.catalogs:
            name = one.name.lower()
            made = spark_catalog(one, self._providers, self._minor, lake.wishes)
            if isinstance(made, ForSpark) and (why := self._explain_taken(name, made.catalog)):
                made = NotForSpark(why)
            if isinstance(made, ForSpark):
                offers[name] = made.catalog
                lake.unforwarded.update(f"property {key} of {one.name}" for key in made.left_out)
            else:
                left_out.append(
                    LeftOut(name=one.name, provider=one.provider, why=made.why, expected=made.expected)
                )
        return offers, left_out

    def _explain_taken(self, name: str, catalog: NamedCatalog) -> str:
        """Say why nobody may have a name, empty where it is free."""
        if name in self._reserved:
            return "its name is already used in the settings"
        if self._of_spark is None:
            return "Spark's own catalogs are not known yet"
        # Gravitino's connector makes catalogs known to Spark by itself: those are what we mean.
        own = self._of_spark.get(name)
        return "" if own in (None, catalog.parameters.get("class")) else "its name is already used by Spark"

    def _number_catalog(self, name: str, lake: str, catalog: NamedCatalog) -> _InForce:
        known = self._in_force.get(name)
        if known is not None and (known.lake, known.catalog) == (lake, catalog):
            return known
        return _InForce(lake, catalog, next(self._numbers))

    def _part(self, lake: PolledMetalake, names: list[str]) -> tuple[Part, MetalakeRules]:
        """Return what policies get of a metalake."""
        service = lake.service
        rules = rules_of(lake.held, names, name=lake.name, service=service, privileges=lake.privileges)
        part = Part(
            name=f"the metalake `{lake.name}`",
            services={},
            tagged=rules.tagged if lake.tags else (),
            policies=rules.policies,
            catalogs=dict.fromkeys(names, service),
            versions={f"metalake.{lake.name}": digest(without_secrets(lake.held, is_secret))},
        )
        known = lake.part
        if known is not None and _same(known, part):
            return known, rules
        return part, rules

    # -- secrets ---------------------------------------------------------------------------------------------

    def _reveal_catalog(self, one: _InForce) -> NamedCatalog:
        """Return a catalog with the secrets of the settings as they are now. Raises Faults."""
        lake = next(lake for lake in self._lakes if lake.name == one.lake)
        shown = lake.reveal(one.catalog.name)
        for key, value in shown.items():
            self._secrets.add(secrets_of(key, value))
        return replace(one.catalog, parameters={**one.catalog.parameters, **shown})

    def _remember(self, one: _InForce) -> None:
        for key, value in one.catalog.parameters.items():
            self._secrets.add(secrets_in(key, value) if value != HIDDEN else ())

    # -- telling ---------------------------------------------------------------------------------------------

    def _tell(
        self,
        old: Mapping[str, _InForce],
        new: Mapping[str, _InForce],
        left_out: Mapping[str, Sequence[LeftOut]],
    ) -> None:
        changed = [name for name in new.keys() & old.keys() if new[name] != old[name]]
        for lake in self._lakes:
            log.info(
                "metalake_in_force",
                metalake=lake.name,
                catalogs=sum(1 for one in new.values() if one.lake == lake.name),
                came=sorted(new.keys() - old.keys())[:MAX_REPORTED],
                went=sorted(old.keys() - new.keys())[:MAX_REPORTED],
                changed=sorted(changed)[:MAX_REPORTED],
                left_out=len(left_out[lake.name]),
            )
            for one in [one for one in lake.left_out if not one.expected][:MAX_REPORTED]:
                log.warning("metalake_catalog_left_out", metalake=lake.name, catalog=one.name, why=one.why)
            if hidden := lake.rules.hidden_roles:
                log.error(
                    "metalake_roles_hidden",
                    metalake=lake.name,
                    roles=hidden[:MAX_REPORTED],
                    times=len(hidden),
                    told="whoever has one is denied everything",
                )
            if lost := lake.unmapped_privileges:
                log.warning(
                    "metalake_not_mapped",
                    metalake=lake.name,
                    times=sum(lost.values()),
                    what=list(lost)[:MAX_REPORTED],
                )


def _same(one: Part, other: Part) -> bool:
    """Whether two parts say the same."""
    return (one.tagged, one.policies, one.catalogs) == (other.tagged, other.policies, other.catalogs)
