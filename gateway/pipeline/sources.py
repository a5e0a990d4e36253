"""What a text or a plan reads, and what policies put on it: the same for either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.model.catalog import TableName
from gateway.model.reading import Span
from gateway.model.statement import NeedsCatalog
from gateway.pipeline.authors import Authors, authors_of
from gateway.pipeline.barriers import Placed, QueriedViews
from gateway.pipeline.function_bodies import judge_called
from gateway.pipeline.functions import list_required_functions, read_by, session_asked
from gateway.pipeline.judging import NotRewritten, RewrittenStatement, refuse_unsupported
from gateway.pipeline.policies import Policies, policies_of
from gateway.pipeline.views import ReadViews
from gateway.sql.call_texts import GuardedFunction
from gateway.sql.evaluate import Evaluation
from gateway.sql.required import Privilege


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSources:
    """The views that are read, and the policies of everything that is."""

    reads: ReadViews
    bodies: Mapping[TableName, RewrittenStatement]
    """The texts of the views."""
    policies: Policies
    authors: Authors
    barred: frozenset[TableName]
    """The views with a barrier above them."""
    opened: Mapping[Span, RewrittenStatement]
    """The texts of views without barriers, where nothing in them can fail."""
    functions: Mapping[TableName, RewrittenStatement]
    """The bodies of functions that are judged where they are called."""
    guarded_functions: Mapping[TableName, GuardedFunction]
    """Those of them whose bodies are written out there."""
    called: frozenset[TableName]
    """The functions in SQL that are called, and what their bodies read."""
    moves: str
    """Why the text of a view means something else where it is written out, for a function that it calls;
    empty where it does not."""

    @property
    def names(self) -> frozenset[TableName]:
        """What of the catalog it rests on beside what is named: functions, of policies too, and what they
        read."""
        return self.authors.names | self.called  # RULE (functions-read)

    @property
    def inside(self) -> tuple[RewrittenStatement, ...]:
        """The texts of views and the bodies of functions."""
        return (*self.bodies.values(), *self.functions.values())

    @property
    def list_queried_views(self) -> QueriedViews:
        return self.reads.list_queried_views(self.bodies, self.barred, self.opened)

    def context_dependencies(self, evaluation: Evaluation) -> frozenset[str]:
        """Return the fields of the context that decisions and policies depend on."""
        return frozenset(evaluation.context_dependencies) | self.policies.context_dependencies

    async def narrow_views(self, placed: Placed) -> dict[Span, RewrittenStatement] | NotRewritten:
        """Return the texts of views for the places where they are others than elsewhere."""
        return await self.reads.narrow_views(placed, self.opened, self.bodies, self.barred)


async def sources_of(
    reads: ReadViews,
    bodies: Mapping[TableName, RewrittenStatement],
    required: Iterable[Privilege],
    *,
    alone: bool,
    writes: bool = False,
    personal: bool = True,
) -> ReadSources | NotRewritten:
    """Find the policies of what is read, whose access they rest on, and where views have barriers.

    `required`: with the functions that are called. `alone`: the text is all that is asked. `writes`: the
    bodies of functions can be written out in it; `personal`: those that ask who the user is have to be.
    """
    policies: Policies | NotRewritten = refuse_unsupported(await policies_of(reads.seen, reads.judging))
    if isinstance(policies, NotRewritten):
        return policies
    authors: Authors | NotRewritten = refuse_unsupported(await authors_of(reads.seen, reads.judging))
    if isinstance(authors, NotRewritten):
        return authors
    judging = reads.judging
    functions = list_required_functions(required)
    called = await read_by(functions, reads.context, judging)
    if isinstance(called, NeedsCatalog):
        return called
    within = await judge_called((name.fold() for name in functions), reads, writes=writes, personal=personal)
    if isinstance(within, NotRewritten):
        return within
    moves = await session_asked(functions, judging, names_alone=True) if reads.place.depth > 0 else None
    barred = reads.find_barred_views(bodies)
    return ReadSources(
        reads=reads,
        bodies=bodies,
        policies=policies,
        authors=authors,
        barred=barred,
        functions=within.bodies,
        guarded_functions=within.guarded,
        called=called,
        moves=moves or "",
        opened=await reads.list_open_views(bodies, barred, alone=alone),
    )
