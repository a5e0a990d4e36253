"""What names mean in a session, whose it is, and what it has made of them. State only, no I/O."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from gateway.model.bounded import BoundedDict
from gateway.model.catalog import Table, TableKind, TableName, is_cached_by_sessions
from gateway.model.changed_names import NOBODY, ChangedNames
from gateway.model.handles import PERSISTED, HandleKind, SparkHandle, functions_called, mark_reading_function
from gateway.model.meaning_settings import may_change_meaning
from gateway.model.principal import Principal
from gateway.model.statement import (
    CatalogChanged,
    ChangeSetting,
    Cleared,
    Client,
    CreateTempView,
    DeclareVariables,
    DropFunction,
    DropTempView,
    DropVariable,
    MakeFunction,
    PersistFrame,
    RegisterCode,
    ResetSettings,
    SessionContext,
    SetVariables,
    UseNamespace,
    Verdict,
)
from gateway.session.judged import (
    Basis,
    CachedRelation,
    JudgedStatement,
    build_judged,
    limit_origin,
    list_timed,
)
from gateway.session.variables import after_success, before_forwarding
from gateway.session.words import find_mentioned, has_bare, list_reached, mentions, text_of, words_of

ENDED_RELATIONS = 1000
"""Cached relations that ended of which a session remembers why."""
VIEW_ORIGINS = 64
"""Statements that a temporary view of a DataFrame was made from, as far as they are remembered."""

_numbers = itertools.count(NOBODY + 1)

_CLONED: frozenset[HandleKind] = frozenset(
    {"function", "table_function", "reading_function", "data_source", "persisted"}
)
"""Code by its name, and what Spark's cache has: a clone of a session has them too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TempView:
    """A temporary view that exists in Spark's session, and how to make it again."""

    name: str
    text: str
    """The user's statement, as it was sent; of a plan its rendering and the SQL in it."""
    made: JudgedStatement
    policies_version: int
    reads: frozenset[str] = frozenset()
    """Temporary views that it is known to read, lower case."""
    basis: Basis = ()
    """What the cached relations were computed from that it reads; when inlined, also what the temporary views
    were made from."""
    timed: Basis = ()
    """As CachedRelation has it."""
    names: frozenset[TableName] = frozenset()
    """What of the catalog it was judged by, what it was made from included: Spark may look it up again."""
    statement_id: str = ""
    """The statement that made it, as the record knows it."""
    sources: frozenset[TableName] = frozenset()
    """What of the catalog its rows may come from, by cached relations too."""
    of: Literal["text", "frame", "stream"] = "text"
    """As CreateTempView has it."""
    judged_in: int = 0
    """The generation of changed names in which it was made."""
    words: frozenset[str] = field(init=False, repr=False, compare=False)
    """Everything in its text that could be a name without backticks, lower case."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", words_of(self.text))

    @property
    def inlined(self) -> bool:
        """Whether names mean in it for ever what they meant when it was made."""
        return self.of != "text"

    def may_read(self, name: str) -> bool:
        """Whether it may read the temporary view of that name (lower case) itself: more than need be."""
        return name in self.reads or mentions(self.text, name, self.words)


class KnownTable(NamedTuple):
    """A table as a session of Spark may know it."""

    table: Table | None
    """None: it was not there."""
    since: int
    """The generation of changed names as of which it may."""


_LONG_AGO = KnownTable(None, -1)


class SavedNames(NamedTuple):
    """What names mean in a session, as far as forwarding a statement may change it."""

    context: SessionContext
    views: dict[str, TempView]
    ended_views: dict[str, str]
    views_have_obligations: bool


class NameResolution:
    """What names and ids mean in a session of Spark, through whichever endpoint it was opened.

    INVARIANT (names are judged as Spark will resolve them): `context` is what Spark's session holds for
    certain. A view enters it only after the gateway has seen its statement FINISHED, and leaves it as soon as
    a drop is forwarded; the namespace changes only after FINISHED. A view that is missing here is harmless:
    its name is pinned to a table of the catalog, never to the view. A view that is here and not in Spark
    would let its name reach an unguarded table: that must not happen.
    """

    def __init__(self, principal: Principal, client: Client, context: SessionContext) -> None:
        self.principal = principal
        self.client = client
        self.context = context
        self.views: dict[str, TempView] = {}
        self.ended_views: dict[str, str] = {}
        """Temporary views that ended (lower case) → why, as their user is told."""
        self.views_version = -1
        """Version of the catalog at which the temporary views were judged last."""
        self.relations: dict[SparkHandle, CachedRelation] = {}
        self.ended_relations: BoundedDict[SparkHandle, None] = BoundedDict(ENDED_RELATIONS)
        """Cached relations that ended because the policies changed; the latest last."""
        self.variables: dict[str, CachedRelation] = {}
        """Session variables (lower case) whose values came of what was judged, and of what."""
        self.functions: dict[str, CachedRelation] = {}
        """The same of temporary functions (lower case) whose bodies read tables."""
        self.marked = False
        """Whether Spark's session says by a setting that it has variables."""
        self.lock = asyncio.Lock()
        self.own_settings: Mapping[str, str] = {}
        """What is set in a session of this Spark that nobody has touched."""
        self.given_settings: set[str] = set()
        """Keys of the settings that the session was given, and may have otherwise than Spark itself does."""
        self.looked_at: dict[TableName, int] = {}
        """Tables that policies read, and the period in which Spark's session last looked at them."""
        self.number = next(_numbers)
        """Which session of this gateway it is."""
        self.known_tables: dict[TableName, KnownTable] = {}
        """What statements were judged by, folded: Spark's session may know it as it was then."""
        self.lived_on = False
        """Whether Spark had the session before this gateway: it may know anything, as it was at any time."""
        self.began: int | None = None
        """The generation of changed names in which its first statement was judged."""
        self.judged_in = 0
        """The generation of changed names in which a statement was judged last."""
        self.views_have_obligations = False
        """Whether Spark was ever sent a temporary view, or a checkpoint to compute later, that carries row
        filters or masks. It stays true: rows of a statement can still be computed when what it read is long
        dropped."""
        self.views_guarded = False
        """The same of one over anything whose plan the user may not see, such as hidden columns."""

    @property
    def cached_plan_bytes(self) -> int:
        """Bytes of plans that are kept, to judge them again."""
        kept = [view.made for view in self.views.values()]
        for basis in (*(v.basis for v in self.views.values()), *(r.basis for r in self.relations.values())):
            kept.extend(basis or ())
        return sum({id(judged): judged.size for judged in kept}.values())

    def stale_tables(self, cleared: Cleared, changed: ChangedNames) -> list[TableName]:
        """Return the tables that Spark's session has to look at again first: those of a statement's policies
        (where it writes, each time: that stays), those that somebody else changed, and those that have become
        something else where sessions keep what a table is."""
        ordered = sorted(cleared.policy_tables, key=str)
        writes = not cleared.read_only  # RULE (policy-tables-of-writes)
        # RULE (policy-tables-looked-at)
        read = [table for table in ordered if writes or self.looked_at.get(table) != cleared.period]
        return list(dict.fromkeys((*read, *self.find_changed_tables(cleared, changed))))

    def schedule_refresh(self, tables: Iterable[TableName]) -> None:
        """Have Spark's session look at tables of policies before the next statement that they are for."""
        for table in tables:
            self.looked_at.pop(table, None)

    def find_changed_tables(self, cleared: Cleared, changed: ChangedNames) -> list[TableName]:
        """Return the tables of a statement that are not, or may not be, as Spark's session knows them."""
        now = {table.name.fold(): table for table in cleared.tables}
        found = []
        began = changed.generation if self.began is None else self.began
        for name in cleared.names:
            table = now.get(name)
            # INVARIANT (now): Spark reads tables that are in no statement, such as those in the body of a
            # function in SQL. So a session may know any table since it began.
            unseen = _LONG_AGO if self.lived_on else KnownTable(table, began)  # RULE (lived-on-knows-nothing)
            was, since = self.known_tables.get(name, unseen)  # RULE (unread-known-table)
            if was != table and any(one is not None and is_cached_by_sessions(one) for one in (was, table)):
                found.append(name)
                continue
            is_table = table is not None and table.kind is TableKind.TABLE
            if is_table and changed.since(name, since, by=self.number):  # RULE (changed-by-others)
                found.append(name)
        return sorted(found, key=str)

    def note_judged(self, cleared: Cleared, generation: int, looked: Mapping[TableName, int]) -> None:
        """Note what Spark's session may know from now on, having looked at what was stale: what it has seen
        for the first time as of `generation`, and what was `looked` at as of then. What somebody changed and
        is no table now stays as old as it is: should it be one again, it is looked at."""
        now = {table.name.fold(): table for table in (*cleared.tables, *cleared.functions)}
        self.judged_in = generation
        self.began = generation if self.began is None else self.began
        for name in cleared.names:
            known = self.known_tables.get(name, _LONG_AGO if self.lived_on else None)
            since = generation if known is None else known.since  # RULE (absent-stays-old)
            self.known_tables[name] = KnownTable(now.get(name), looked.get(name, since))

    def collect_dependencies(self, cleared: Cleared) -> frozenset[TableName]:
        """Return what of the catalog a statement was judged by, and the temporary views and functions that it
        reads."""
        views = (view.names for view in self._views_read(cleared))
        functions = (one.sources for one in self.find_read_functions(cleared))
        return cleared.names.union(*views, *functions)  # RULE (function-tables-held)

    def reads_own_names(self, cleared: Cleared) -> bool:
        """Whether a statement reads temporary views, or may call temporary functions that read tables."""
        # RULE (function-tables-moved)
        return bool(cleared.temp_views_read) or any(True for _ in self.find_read_functions(cleared))

    def _sources_of(self, cleared: Cleared) -> frozenset[TableName]:
        views = (view.sources for view in self._views_read(cleared))
        relations = (one.sources for handle, one in self.relations.items() if handle in cleared.handles)
        values = (one.sources for one in self._find_read_values(cleared))
        return cleared.names.union(*views, *relations, *values)  # RULE (view-made-of-files)

    def names_in_force(self) -> SavedNames:
        """Return what `restore` puts back."""
        return SavedNames(self.context, dict(self.views), dict(self.ended_views), self.views_have_obligations)

    def restore(self, saved: SavedNames) -> None:
        """Undo `prepare_to_forward`: Spark has not taken the statement, and nobody has judged another
        since."""
        self.context, self.views, self.ended_views, self.views_have_obligations = saved

    def prepare_to_forward(self, cleared: Cleared) -> None:
        """Take out what a statement that is about to reach Spark may drop, and note what it may make."""
        for effect in cleared.effects:
            if isinstance(effect, CreateTempView) or (isinstance(effect, RegisterCode) and effect.reads):
                self.note_lazy_reads(cleared)
            if isinstance(effect, DropTempView):
                self._remove_view(effect.name)
                self.ended_views.pop(effect.name.lower(), None)
            if isinstance(effect, DropFunction):  # RULE (dropped-function-unknown)
                gone = functions_called(effect.name) | {mark_reading_function(effect.name)}
                self.context = replace(self.context, handles=self.context.handles - gone)
            self.context = before_forwarding(self.context, effect)

    def note_lazy_reads(self, cleared: Cleared) -> None:
        """Note that other statements may compute what a statement reads, and fail as it would."""
        if cleared.obligations:
            self.views_have_obligations = True
        if not cleared.shows_errors:
            self.views_guarded = True

    def apply_finished(self, cleared: Cleared, policies_version: int, statement_id: str = "") -> None:
        """Put in force what a statement that Spark has FINISHED changes."""
        for effect in cleared.effects:
            match effect:
                case UseNamespace():
                    self.context = _used(self.context, effect)
                case CreateTempView():
                    self._add_view(effect, cleared, policies_version, statement_id)
                case RegisterCode():
                    self._note_function(effect, cleared, policies_version, statement_id)
                case PersistFrame():
                    self.add_handle(PERSISTED)
                case DeclareVariables() | SetVariables():
                    self._note_values(effect.names, cleared, policies_version, statement_id)
                    self.context = after_success(self.context, effect)
                case DropVariable():
                    self.variables.pop(effect.name, None)
                    self.context = after_success(self.context, effect)
                case ChangeSetting():
                    own = effect.value is None or effect.value == self.own_settings.get(effect.key)
                    self.note_setting_changed(effect.key, own=own)
                case MakeFunction():
                    self.known_tables.pop(effect.function.fold(), None)
                case DropFunction():
                    self.functions.pop(effect.name, None)
                case DropTempView() | CatalogChanged() | ResetSettings():
                    pass

    def _note_values(
        self, names: Iterable[str], cleared: Cleared, policies_version: int, statement_id: str
    ) -> None:
        """Note what the values of variables came of: of rows that are judged again, or of nothing."""
        basis = self.basis_of(cleared)
        read = bool(cleared.names or cleared.temp_views_read or cleared.handles)
        for name in names:
            self.variables.pop(name, None)
            if not read and basis == ():
                continue
            self.variables[name] = self._cache(cleared, policies_version, statement_id, of_itself=read)

    def _note_function(
        self, made: RegisterCode, cleared: Cleared, policies_version: int, statement_id: str
    ) -> None:
        name = made.handle.id
        self.functions.pop(name, None)  # the new one does not come of the one that it replaces
        self.add_handle(made.handle)
        if made.reads:  # RULE (function-body-noted)
            self.add_handle(mark_reading_function(name))
            text = cleared.plan_texts[0] if cleared.plan_texts else cleared.statement.text
            self.functions[name] = replace(self._cache(cleared, policies_version, statement_id), text=text)
        else:
            self.drop_handle(mark_reading_function(name))

    def _cache(
        self, cleared: Cleared, policies_version: int, statement_id: str, *, of_itself: bool = True
    ) -> CachedRelation:
        """Return what came of a statement, and of what it reads; `of_itself`: it would itself be judged
        again."""
        own = (build_judged(cleared),) if of_itself else ()
        basis, timed = self._find_origin(cleared, own, VIEW_ORIGINS)
        return CachedRelation(
            basis=basis,
            timed=timed,
            policies_version=policies_version,
            statement_id=statement_id,
            sources=self._sources_of(cleared),
        )

    def note_setting_changed(self, key: str, *, own: bool) -> None:
        """Note that a setting has another value than Spark's own, or, with `own`, that it has that."""
        if own:
            self.given_settings.discard(key)
            self.context = replace(self.context, settings=self.context.settings - {key})
        else:
            self.given_settings.add(key)
            self.note_setting_may_change(key)

    def note_setting_may_change(self, key: str) -> None:
        """Note that a setting may get another value than Spark's own at any moment."""
        if may_change_meaning(key):
            self.context = replace(self.context, settings=self.context.settings | {key})

    def readers_of(self, name: str, *, by_name: bool = False) -> list[TempView]:
        """Return the temporary views that may read the view `name`, through others too, in order.

        `by_name`: only those in which Spark will look the name up again."""

        def readers(read: str) -> Iterator[str]:
            for reader, view in self.views.items():
                if not view.inlined:
                    reads = view.may_read(read)
                else:
                    reads = not by_name and self._was_made_from(view, read)
                if reads:
                    yield reader

        found = list_reached(name.lower(), readers)
        return [view for folded, view in self.views.items() if folded in found]

    def list_views_mentioning(self, name: str) -> list[TempView]:
        """Return the temporary views in whose texts a name (lower case) may stand."""
        return [view for view in self.views.values() if mentions(view.text, name, view.words)]

    def can_be_made_again(self, view: TempView) -> bool:
        """Whether the statement that made the view would make it of the same things: none of the views that
        it read has been dropped or replaced since, by itself neither; and it would start no stream."""
        if view.of == "stream":
            return False
        return not view.inlined or all(
            name != view.name.lower() and self._was_made_from(view, name) for name in view.reads
        )

    def is_outdated(self, view: TempView, changed: ChangedNames) -> bool:
        """Whether the plan that Spark keeps of a view has tables in it that are others by now, or of which
        others may have deleted the files that are in the plan. For these alone no view ends."""
        if view.of != "frame":
            return False
        if any(changed.was_replaced_since(name, view.judged_in) for name in view.names):
            return True
        touched = any(changed.since(name, view.judged_in, by=self.number) for name in view.names)
        return touched and self.can_be_made_again(view)

    def end_view(self, name: str, why: str) -> None:
        """Take out a view whose policies changed; its name does not silently become a table's."""
        self._remove_view(name)
        self.ended_views[name.lower()] = why

    def confirm_view(self, view: TempView, policies_version: int) -> None:
        self.views[view.name.lower()] = replace(view, policies_version=policies_version)

    def find_ended_view(self, cleared: Cleared) -> str | None:
        """Return the ended view that the statement mentions by its bare name, if it reads a table instead."""
        if not self.ended_views:
            return None
        text = text_of(cleared)
        for scan in cleared.scans:
            name = scan.table.table.lower()
            if name in self.ended_views and has_bare(text, name):
                return name
        return None

    def cache_relation(
        self, handle: SparkHandle, cleared: Cleared, policies_version: int, statement_id: str, *, most: int
    ) -> None:
        """Remember a relation that Spark has computed from a cleared plan and keeps under an id.

        Its origin is remembered in at most `most` statements and, with everything else, bytes; beyond that
        it lasts as long as the policies stay as they are.
        """
        basis, timed = self._find_origin(cleared, (build_judged(cleared),), most)
        self.relations[handle] = CachedRelation(
            basis=basis,
            timed=timed,
            policies_version=policies_version,
            statement_id=statement_id,
            sources=self._sources_of(cleared),
        )
        self.context = replace(self.context, handles=self.context.handles | {handle})

    def drop_origin(self, handle: SparkHandle) -> None:
        """Keep a relation only as long as the policies stay as they are, and no longer where it matters what
        time it is."""
        relation = self.relations[handle]
        timed = relation.timed if relation.basis is None else list_timed(relation.basis)
        self.relations[handle] = replace(relation, basis=None, timed=None if timed else timed)

    def add_handle(self, handle: SparkHandle) -> None:
        """Let plans refer to something of Spark's session that this session made."""
        self.context = replace(self.context, handles=self.context.handles | {handle})

    def drop_handle(self, handle: SparkHandle) -> None:
        """Let plans no longer refer to it."""
        self.relations.pop(handle, None)
        self.context = replace(self.context, handles=self.context.handles - {handle})

    def end_relation(self, handle: SparkHandle) -> None:
        """Forget a cached relation whose rows would be others now; plans that name it are told why."""
        self.drop_handle(handle)
        self.ended_relations[handle] = None

    def copy_names(self, other: NameResolution) -> None:
        """Begin with what names mean in another session: Spark has cloned it."""
        registered = frozenset(h for h in other.context.handles if h.kind in _CLONED)
        self.context = replace(other.context, handles=registered)
        self.views = dict(other.views)
        self.ended_views = dict(other.ended_views)
        self.views_have_obligations = other.views_have_obligations
        self.views_guarded = other.views_guarded
        self.variables = dict(other.variables)
        self.functions = dict(other.functions)
        self.known_tables = dict(other.known_tables)  # RULE (cloned-known-tables)
        self.began = other.began
        self.own_settings = other.own_settings
        self.given_settings = set(other.given_settings)

    def views_made_by(self, verdict: Verdict) -> dict[str, str]:
        """Return the temporary views that a statement reads itself, by the statements that made them."""
        if not isinstance(verdict, Cleared):
            return {}
        read = ((name, self.views.get(name)) for name in sorted(verdict.temp_views_read))
        return {name: view.statement_id for name, view in read if view is not None}

    def relations_made_by(self, verdict: Verdict) -> dict[str, str]:
        """Return the ids of the cached relations that a plan reads, by the statements that computed them."""
        if not isinstance(verdict, Cleared) or not self.relations:
            return {}
        named = ((handle, one) for handle, one in self.relations.items() if handle in verdict.handles)
        return {handle.id: one.statement_id for handle, one in named}

    # Spark keeps two kinds of views. Names in one of a text are looked up whenever it is read: its basis has
    # only the cached relations. One of a DataFrame (`inlined`) means for ever what its names meant then: its
    # basis has what the views of then were made from, too, by identity: an equal statement makes another.

    def basis_of(self, cleared: Cleared) -> Basis:
        """Return what the relations and views were computed from that a statement reads."""
        found: dict[int, JudgedStatement] = {}
        for basis in self._bases_of(cleared):
            if basis is None:
                return None
            found.update((id(judged), judged) for judged in basis)
        return tuple(found.values())

    def _find_origin(
        self, cleared: Cleared, own: tuple[JudgedStatement, ...], most: int
    ) -> tuple[Basis, Basis]:
        """Return what something was computed from; of too much, None and what time may make another."""
        basis = self.basis_of(cleared)
        if basis is not None and len(basis) + len(own) <= most:
            return (*basis, *own), ()
        return None, limit_origin(own, self._bases_of(cleared, timed=True), most)

    def _bases_of(self, cleared: Cleared, *, timed: bool = False) -> Iterator[Basis]:
        """`timed`: what is left of those that are no longer known."""
        views = list(self._views_read(cleared))
        kept: list[CachedRelation | TempView] = [*self._find_read_values(cleared), *views]
        kept += [relation for handle, relation in self.relations.items() if handle in cleared.handles]
        for one in kept:
            yield one.timed if timed and one.basis is None else one.basis
        for view in views:
            yield (view.made,)

    def _find_read_values(self, cleared: Cleared) -> Iterator[CachedRelation]:
        """Yield what the variables and temporary functions came of that a statement may read."""
        if self.variables:
            yield from find_mentioned(self.variables, cleared)
        yield from self.find_read_functions(cleared)

    def find_read_functions(self, cleared: Cleared) -> Iterator[CachedRelation]:
        """Yield the temporary functions that read tables and that a statement may call; one that drops them
        calls none."""
        if not self.functions:
            return iter(())
        drops = [isinstance(effect, DropFunction | DropVariable | DropTempView) for effect in cleared.effects]
        return iter(()) if drops and all(drops) else find_mentioned(self.functions, cleared)

    def _views_read(self, cleared: Cleared) -> Iterator[TempView]:
        """Return the temporary views that a statement reads, through others too."""
        for name in cleared.temp_views_read:
            if (view := self.views.get(name)) is not None:
                yield view
                yield from (self.views[n] for n in self._list_views_read_by(view))

    def _list_views_read_by(self, view: TempView) -> set[str]:
        """Return the names of the views that a view reads, through others too."""

        def read(reader: str) -> Iterator[str]:
            # Of an inlined one the basis has what it was made from.
            if not (view := self.views[reader]).inlined:
                yield from (name for name in self.views if name != reader and view.may_read(name))

        return list_reached(view.name.lower(), read)

    def _was_made_from(self, view: TempView, name: str) -> bool:
        """Whether an inlined view has in it what the temporary view `name` (lower case) is now."""
        now = self.views.get(name)
        return now is not None and any(judged is now.made for judged in view.basis or ())

    def _add_view(
        self, made: CreateTempView, cleared: Cleared, policies_version: int, statement_id: str
    ) -> None:
        folded = made.name.lower()
        view = TempView(
            name=made.name,
            of=made.of,
            text=text_of(cleared),
            made=build_judged(cleared),
            policies_version=policies_version,
            reads=cleared.temp_views_read,
            names=self.collect_dependencies(cleared),
            sources=self._sources_of(cleared),
            statement_id=statement_id,
            judged_in=self.judged_in,
        )
        # Before the view takes the name: a DataFrame's may read the one that it replaces.
        read = cleared if view.inlined else replace(cleared, temp_views_read=frozenset())
        basis, timed = self._find_origin(read, (), VIEW_ORIGINS)
        self.views.pop(folded, None)
        # Last in order: views are renewed in the order they were made, because one may read another.
        self.views[folded] = replace(view, basis=basis, timed=timed)
        self.ended_views.pop(folded, None)
        varying = self.context.varying_views - {folded}
        self.context = replace(
            self.context,
            temp_views=self.context.temp_views | {folded},
            varying_views=varying | {folded} if cleared.uncacheable_reason else varying,
        )

    def _remove_view(self, name: str) -> None:
        folded = name.lower()
        self.views.pop(folded, None)
        self.context = replace(
            self.context,
            temp_views=self.context.temp_views - {folded},
            varying_views=self.context.varying_views - {folded},
        )


def _used(context: SessionContext, effect: UseNamespace) -> SessionContext:
    """Return the context after USE or SET CATALOG; another catalog begins in its database `default`."""
    catalog = effect.catalog if effect.catalog is not None else context.catalog
    if effect.namespace is not None:
        return replace(context, catalog=catalog, namespace=effect.namespace)
    if catalog.lower() != context.catalog.lower():
        return replace(context, catalog=catalog, namespace=("default",))
    return context
