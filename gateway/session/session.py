"""A client's session: whose it is, what names mean in it, and what is open in it. State only, no I/O."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace

from gateway.model.principal import Principal
from gateway.model.statement import (
    CatalogChanged,
    Cleared,
    Client,
    CreateTempView,
    DropTempView,
    SessionContext,
    UseNamespace,
)
from gateway.session.identifiers import Handle
from gateway.session.operation import Operation
from gateway.session.ports import BackendSession


@dataclass(frozen=True, slots=True, kw_only=True)
class TempView:
    """A temporary view that exists in Spark's session, and how to make it again."""

    name: str
    text: str
    """The user's statement, as it was sent."""
    context: SessionContext
    """What names meant when it was made."""
    forwarded: str
    """What Spark was given: as long as judging gives this text again, the view is still right."""
    policies_version: int


class Session:
    """Only the service changes it. `turn` is held while a statement is judged and handed to Spark.

    INVARIANT (names are judged as Spark will resolve them): `context` is what Spark's session holds for
    certain. A view enters it only after the gateway has seen its statement FINISHED, and leaves it as soon as
    a drop is forwarded; the namespace changes only after FINISHED; while `pending` is set, nothing is judged.
    A view that is missing here is harmless: its name is pinned to a table of the catalog, never to the view.
    A view that is here and not in Spark would let its name reach an unguarded table: that must not happen.
    """

    def __init__(
        self,
        *,
        handle: Handle,
        principal: Principal,
        client: Client,
        protocol_version: int,
        backend: BackendSession,
        opened: float,
    ) -> None:
        self.handle = handle
        self.principal = principal
        self.client = client
        self.protocol_version = protocol_version
        self.backend = backend
        self.context = SessionContext()
        self.operations: dict[bytes, Operation] = {}
        self.views: dict[str, TempView] = {}
        self.ended_views: set[str] = set()
        self.pending: Operation | None = None
        self.turn = asyncio.Lock()
        self.used_at = opened
        self.closed = False
        self.views_obliged = False
        """Whether Spark was ever sent a temporary view that carries row filters or masks. It stays true: rows
        of a statement can still be computed when the view that it read is long dropped."""

    @property
    def busy(self) -> bool:
        """Whether a statement is being judged or may still be running."""
        return self.turn.locked() or any(operation.running for operation in self.operations.values())

    def forwarding(self, cleared: Cleared) -> None:
        """Take out what a statement that is about to reach Spark may drop, and note what it may make."""
        for effect in cleared.effects:
            if isinstance(effect, CreateTempView) and cleared.obligations:
                self.views_obliged = True
            if isinstance(effect, DropTempView):
                self._forget(effect.name)
                self.ended_views.discard(effect.name.lower())

    def finished(self, cleared: Cleared, policies_version: int) -> None:
        """Put in force what a statement that Spark has FINISHED changes."""
        for effect in cleared.effects:
            match effect:
                case UseNamespace():
                    self.context = _used(self.context, effect)
                case CreateTempView():
                    self._remember(effect.name, cleared, policies_version)
                case DropTempView() | CatalogChanged():
                    pass

    def readers_of(self, name: str) -> list[TempView]:
        """Return the temporary views that may read the view `name`, through others too, in order."""
        found: set[str] = set()
        wanted = [name.lower()]
        while wanted:
            mentioned = wanted.pop()
            for folded, view in self.views.items():
                if folded not in found and folded != name.lower() and _mentions(view.text, mentioned):
                    found.add(folded)
                    wanted.append(folded)
        return [view for folded, view in self.views.items() if folded in found]

    def end_view(self, name: str) -> None:
        """Take out a view whose policies changed; its name does not silently become a table's."""
        self._forget(name)
        self.ended_views.add(name.lower())

    def view_still_right(self, view: TempView, policies_version: int) -> None:
        self.views[view.name.lower()] = replace(view, policies_version=policies_version)

    def ended_view_in(self, cleared: Cleared) -> str | None:
        """Return the ended view that the statement mentions by its bare name, if it reads a table instead."""
        if not self.ended_views:
            return None
        for scan in cleared.scans:
            name = scan.table.table.lower()
            bare = rf"(?<![\w.`])`?{re.escape(name)}`?(?![\w`])"
            if name in self.ended_views and re.search(bare, cleared.statement.text, re.IGNORECASE):
                return name
        return None

    def _remember(self, name: str, cleared: Cleared, policies_version: int) -> None:
        folded = name.lower()
        self.views.pop(folded, None)
        # Last in order: views are renewed in the order they were made, because one may read another.
        self.views[folded] = TempView(
            name=name,
            text=cleared.statement.text,
            context=cleared.statement.context,
            forwarded=cleared.forwarded,
            policies_version=policies_version,
        )
        self.ended_views.discard(folded)
        self.context = replace(self.context, temp_views=self.context.temp_views | {folded})

    def _forget(self, name: str) -> None:
        folded = name.lower()
        self.views.pop(folded, None)
        self.context = replace(self.context, temp_views=self.context.temp_views - {folded})


def _mentions(text: str, name: str) -> bool:
    """Whether the name stands anywhere in the text, in a comment or a literal too: more than need be.

    Spark's identifiers have no escapes but the doubled backtick, and its lexer takes the longest run of
    letters, digits and underscores. The case of letters outside of ASCII is folded in more than one way, so
    such a name counts as mentioned everywhere.
    """
    if not name.isascii():
        return True
    if re.fullmatch(r"\w+", name):
        return re.search(rf"(?<!\w){name}(?!\w)", text.lower()) is not None
    return name.replace("`", "``") in text.lower()


def _used(context: SessionContext, effect: UseNamespace) -> SessionContext:
    """Return the context after USE or SET CATALOG; another catalog begins in its database `default`."""
    catalog = effect.catalog if effect.catalog is not None else context.catalog
    if effect.namespace is not None:
        return replace(context, catalog=catalog, namespace=effect.namespace)
    if catalog.lower() != context.catalog.lower():
        return replace(context, catalog=catalog, namespace=("default",))
    return context
