"""What a plan asks for beside its SQL texts: its reads resolved, and everything that policies must grant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from gateway.model.catalog import TableName, quote_parts
from gateway.model.reading import FunctionRef
from gateway.model.resource import Resource
from gateway.model.spark_minors import Minor
from gateway.model.statement import RELAY, AnswerRule, SessionEffect
from gateway.plan.catalog_calls import call_privileges
from gateway.plan.commands import command_privileges
from gateway.plan.identifiers import attribute_parts
from gateway.plan.reading import CodeUse, FunctionCall, PlanReading, TableRead
from gateway.plan.scope import NamePin, PlanRequired
from gateway.plan.walk_sources import explain_unknown_format
from gateway.sql.classify import function_refusal, is_builtin, is_registered
from gateway.sql.evaluate import function_privileges
from gateway.sql.function_calls import code_privileges, find_short_function
from gateway.sql.functions import (
    ALLOWED_FUNCTIONS,
    ALLOWED_TABLE_FUNCTIONS,
    INTERNAL_FUNCTIONS,
    REFUSED_FUNCTIONS,
    REFUSED_TABLE_FUNCTIONS,
    is_of,
)
from gateway.sql.names import Names, TempViewName, Ungovernable
from gateway.sql.required import Privilege, Required, Unsupported, join

_BUILTIN = ALLOWED_FUNCTIONS.union(REFUSED_FUNCTIONS)
_BUILTIN_TABLE_FUNCTIONS = ALLOWED_TABLE_FUNCTIONS.union(REFUSED_TABLE_FUNCTIONS)
RESERVED_FUNCTIONS = _BUILTIN | _BUILTIN_TABLE_FUNCTIONS | INTERNAL_FUNCTIONS
"""Names that nobody may register: masks and filters call them, and so does everybody else."""
METADATA = "_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One table read, resolved. `name` is None for a temporary view of the session."""

    read: TableRead
    name: TableName | None


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """Everything that a plan asks for by itself; the texts within it ask by themselves."""

    reads: tuple[Read, ...]
    required: tuple[Privilege, ...]
    command: PlanRequired
    calls: tuple[PlanRequired, ...]
    temp_views: frozenset[str]
    code: tuple[str, ...]
    short_functions: tuple[tuple[FunctionRef, TableName], ...] = ()
    """Functions of databases that `call_function` names without their catalog, and which are meant."""
    short_pins: tuple[NamePin, ...] = ()
    """What writes their whole names."""

    @cached_property
    def parts(self) -> tuple[PlanRequired, ...]:
        return (self.command, *self.calls)

    @property
    def names(self) -> tuple[NamePin, ...]:
        return (*(pin for part in self.parts for pin in part.names), *self.short_pins)

    @cached_property
    def commanded(self) -> Required:
        """What the plan's commands and catalog calls want, put together."""
        return join(part.required for part in self.parts)

    @property
    def cached(self) -> tuple[TableName, ...]:
        """Tables and views whose rows Spark is to cache under their names."""
        return tuple(part.required.cached for part in self.parts if part.required.cached is not None)

    @property
    def effects(self) -> tuple[SessionEffect, ...]:
        return tuple(effect for part in self.parts for effect in part.required.effects)

    @property
    def answer(self) -> AnswerRule:
        return next((p.required.answer for p in self.parts if p.required.answer is not RELAY), RELAY)


def facts_of(reading: PlanReading, names: Names) -> PlanFacts | Unsupported:
    """Resolve the names of a plan and say what it wants, or why it cannot pass."""
    reads = _reads(reading, names)
    if isinstance(reads, Unsupported):
        return reads
    command = command_privileges(reading, names)
    if isinstance(command, Unsupported):
        return command
    calls = []
    for asked in reading.catalog_calls:
        required = call_privileges(asked, names, reading.minor)
        if isinstance(required, Unsupported):
            return required
        calls.append(required)
    named = {call: _find_short(call, names, reading.minor) for call, _ in reading.named_calls}
    short = {call: name for call, name in named.items() if name is not None}
    functions = _functions(reading.functions, names, reading.minor, short)
    if isinstance(functions, Unsupported):
        return functions
    refusal = _handles(reading, names) or _code(reading.code, names) or _check_bound_names(reading, names)
    if refusal is not None:
        return refusal
    urls = (Privilege(Resource.url(use.url), use.access) for use in reading.urls)
    code = (Privilege(_udf(use), use.access) for use in reading.code)
    stated = (privilege for part in (command, *calls) for privilege in part.required.privileges)
    return PlanFacts(
        reads=reads,
        required=tuple(dict.fromkeys((*stated, *functions, *urls, *code))),  # RULE (urls-wanted, code-wanted)
        command=command,
        calls=tuple(calls),
        temp_views=frozenset(one.read.parts[0].lower() for one in reads if one.name is None),
        code=tuple(dict.fromkeys(f"{use.access} {_udf(use)}" for use in reading.code)),
        short_functions=tuple((_refer(call, reading.minor), name) for call, name in short.items()),
        # RULE (plan-short-functions)
        short_pins=tuple(
            NamePin(message=message, field="function_name", text=quote_parts(short[call].parts))
            for call, message in reading.named_calls
            if call in short
        ),
    )


def _udf(use: CodeUse) -> Resource:
    return Resource.udf("system", "session", use.name)


def _reads(reading: PlanReading, names: Names) -> tuple[Read, ...] | Unsupported:
    found = []
    for read in reading.tables:
        written = ".".join(read.parts)
        match names.table(read.parts):
            case Ungovernable() as resolved:
                return resolved.refusal(written)
            case TempViewName():
                if read.changes or read.options:  # RULE (temp-view-read-options)
                    return Unsupported(
                        f"`{written}` is a temporary view, which has no change feed and takes no options"
                    )
                found.append(Read(read=read, name=None))
            case TableName() as name:
                found.append(Read(read=read, name=name))
    return tuple(found)


def _functions(
    calls: Iterable[FunctionCall], names: Names, minor: Minor, short: Collection[FunctionCall]
) -> tuple[Privilege, ...] | Unsupported:
    """`short`: those whose whole names are written, which the caller looks up."""
    required: dict[Privilege, None] = {}
    for call in dict.fromkeys(calls):
        if _plain(call, minor):
            continue
        written = ".".join(call.parts)
        if call.internal:  # RULE (internal-functions)
            return Unsupported(f"the internal function `{written}` is not supported")
        reference = (_refer(call, minor),)
        if reference[0].builtin and (code := code_privileges(reference[0])):
            required.update(dict.fromkeys(code))
            continue
        refusal = function_refusal(reference, names)  # RULE (plan-function-names)
        if refusal is not None:
            return refusal
        if call in short:
            continue
        found = function_privileges(reference, names)
        if isinstance(found, Unsupported):
            return found
        required.update(dict.fromkeys(found))
    return tuple(required)


def _refer(call: FunctionCall, minor: Minor) -> FunctionRef:
    """Return a call as one of a text."""
    name = call.parts[0].lower()
    registry = _BUILTIN_TABLE_FUNCTIONS if call.table_valued else _BUILTIN
    builtin = len(call.parts) == 1 and name in registry and is_of(name, minor)
    return FunctionRef(parts=call.parts, table_valued=call.table_valued, builtin=builtin)


def _find_short(call: FunctionCall, names: Names, minor: Minor) -> TableName | None:
    """Return which function of a database is meant by a name without its catalog, where Spark looks it up as
    SQL would."""
    function = _refer(call, minor)
    if not call.by_name or _plain(call, minor) or is_builtin(function) or is_registered(function, names):
        return None
    return find_short_function(function, names)


@lru_cache(maxsize=4096)
def _plain(call: FunctionCall, minor: Minor) -> bool:
    """Whether a name can only mean a function that everybody may call, to a Spark of this minor."""
    parts, table_valued, internal, by_name = call
    if len(parts) != 1:
        return False
    name = parts[0].lower()
    if not is_of(name, minor):  # RULE (function-newer-than-spark)
        return False
    if internal:
        return name in INTERNAL_FUNCTIONS
    if table_valued:
        return name in ALLOWED_TABLE_FUNCTIONS
    # RULE (internal-function-names)
    return name in ALLOWED_FUNCTIONS or (not by_name and name in INTERNAL_FUNCTIONS)


def _handles(reading: PlanReading, names: Names) -> Unsupported | None:
    for use in reading.handles:
        if use.handle not in names.context.handles:  # RULE (foreign-handles)
            what = "cached relation" if use.handle.kind == "relation" else "streaming query"
            return Unsupported(f"the {what} `{use.handle.id}` does not belong to this session")
    return None


def _code(uses: Iterable[CodeUse], names: Names) -> Unsupported | None:
    """Refuse to register a name that masks, filters and everybody's statements call, and what is called by a
    name that the session has not registered."""
    for use in uses:
        if use.handle is not None and use.handle not in names.context.handles:  # RULE (unregistered-source)
            return Unsupported(explain_unknown_format(use.name))
        name = use.name.replace("`", "").strip().rsplit(".", 1)[-1].lower()
        if use.access == "create" and name in RESERVED_FUNCTIONS:  # RULE (reserved-function-names)
            return Unsupported(f"`{use.name}` is a built-in function of Spark; its name cannot be registered")
    return None


def _check_bound_names(reading: PlanReading, names: Names) -> Unsupported | None:
    """Refuse references that Spark would make, and drop again, in the place of a temporary view."""
    bound = [text.aliases for text in reading.texts] + [text.aliases for text in reading.expressions]
    for aliases in bound:
        taken = sorted(aliases & names.context.temp_views)
        if taken:  # RULE (registered-over-temp-view)
            return Unsupported(
                f"the name `{taken[0]}` is bound for one query and is also a temporary view of the session"
            )
    return None


def names_metadata(reading: PlanReading) -> bool:
    """Whether the plan could mean Spark's hidden `_metadata`, which tells where rows are stored."""
    for column in set(reading.columns):
        # RULE (metadata-column-flag)
        if column.metadata or METADATA in (part.lower() for part in column.parts):
            return True
    return any(
        METADATA in (part.lower() for part in attribute_parts(name) or (name,)) for name in reading.names
    )
