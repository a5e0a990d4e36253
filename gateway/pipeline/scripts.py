"""Scripts (BEGIN … END): every statement in one is judged before any of it runs, and stands guarded in the
text that Spark gets.

Spark parses a script once and then runs what is in it, so what is known of a statement is its text. Its names
have to mean when it runs what they meant when it was judged: nothing in a script changes what another part of
it names, and what others could change is held until the script has ended. Variables are values and never
names, but for strings that nothing in the script can change.

Each part is judged as a text of its own, in front of which the rest of the script is blanked out, so that its
places are those of the script. The parser says that the part, standing alone, is what it is in the script,
and of the script that Spark gets that nothing is in it but the same skeleton with the judged texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gateway.model.catalog import TableName, namespaces_of
from gateway.model.reading import (
    CommandNode,
    ExpressionNode,
    NotRead,
    Reading,
    RelationRole,
    ScriptPart,
    ScriptReading,
    Span,
)
from gateway.model.reading_settings import VARIABLES_MARK
from gateway.model.statement import (
    RELAY,
    CatalogChanged,
    DeclareVariables,
    Findings,
    NeedsCatalog,
    RewrittenText,
    SessionContext,
    SessionEffect,
    SetVariables,
)
from gateway.pipeline.immediate import ROOT as IMMEDIATE
from gateway.pipeline.immediate import write_known_names
from gateway.pipeline.judging import (
    Judging,
    JudgingOutcome,
    Refusal,
    RewrittenStatement,
    not_governable,
    refuse_unread,
    settle_effects,
)
from gateway.pipeline.seeing import TextScope
from gateway.sql.functions import GENERATORS
from gateway.sql.names import Names
from gateway.sql.required import Required, Unsupported
from gateway.sql.variable_commands import list_declared, list_targets

ROOT = "CompoundBody"
MAX_PARTS = 200
MAX_BLANKS = 8_000_000
"""Characters that all parts have together, with what is blanked out in front of each."""
_PASSES = (CatalogChanged, DeclareVariables, SetVariables)
_NAMING = frozenset({"Generate", "Pivot", "Unpivot"})
"""What gives columns names by itself."""
_WORD = re.compile(r"\w+")
_SET_VARIABLE = re.compile(r"\ASET\s+VAR(?:IABLE)?\b", re.IGNORECASE)
_INTO = re.compile(r"\ASET VARIABLE \(.*?\) = \(", re.DOTALL)
"""What EXECUTE IMMEDIATE … INTO becomes: its variables may be the script's."""
_ALONE = (
    "it changes the session's database, temporary views, functions or settings, and so what names behind it "
    "mean; send it by itself"
)


async def is_script(text: str, judging: Judging) -> bool:
    """Whether a text is a script; only what has the word is asked about."""
    return "begin" in text.lower() and isinstance(await judging.reader.read_script(text), ScriptReading)


async def govern_script(text: str, context: SessionContext, judging: Judging) -> JudgingOutcome:
    """Judge every statement of a script, and return the script with what each was judged as."""
    script = await judging.reader.read_script(text)
    if isinstance(script, NotRead):
        return refuse_unread(script)
    if script is None or script.strange:  # RULE (script-known-parts)
        found = "" if script is None else f": {script.strange[0]}"
        return not_governable(Unsupported(f"the script could not be read{found}"))
    if len(script.parts) > MAX_PARTS or sum(part.span.end for part in script.parts) > MAX_BLANKS:
        return not_governable(Unsupported(f"a script has at most {MAX_PARTS} statements; run it in parts"))
    parts: list[_Part] = []
    for piece in script.parts:
        part = _Part(text, piece)
        answer = await judging.reader.read(part.judged)
        parts.append(replace(part, reading=answer) if isinstance(answer, Reading) else part)
    return await _Script(text, script, parts, context, judging).govern()


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a script, as the text that is judged."""

    script: str
    piece: ScriptPart
    reading: Reading | None = None
    """None of what the parser does not read; judging it says why."""

    @property
    def begins(self) -> int:
        """Where in the script, and in the text, it begins with what leads it."""
        return self.piece.span.start - (len(self.piece.lead) - self.piece.cut)

    @property
    def judged(self) -> str:
        span = self.piece.span
        before = re.sub(r"[^\n]", " ", self.script[: self.begins])
        return f"{before}{self.piece.lead}{self.script[span.start + self.piece.cut : span.end]}"

    @property
    def line(self) -> int:
        return self.script.count("\n", 0, self.piece.span.start) + 1

    @property
    def runs_text(self) -> bool:
        return self.reading is not None and self.reading.root == IMMEDIATE

    def explain_strange(self) -> Refusal:
        """Say why what is not the same by itself cannot pass."""
        if self.reading is not None and self.reading.identifiers:
            return self.refuse("has a name in IDENTIFIER(…) that is not known before it runs")
        return self.refuse("means something else within the script than by itself; send it by itself")

    def refuse(self, why: str) -> Refusal:
        return not_governable(Unsupported(f"the statement in line {self.line} of the script {why}"))


@dataclass(frozen=True, slots=True)
class _JudgedPart:
    """A part of a script, and what it was judged as."""

    part: _Part
    outcome: RewrittenStatement
    local: frozenset[str]
    """The script's variables in its place."""

    @property
    def written(self) -> str:
        """What stands in the script for it, as Spark gets that."""
        piece, text = self.part.piece, self.outcome.text
        if self.part.runs_text:
            # In a script SET is of variables, and does not say so.
            return _SET_VARIABLE.sub("SET ", text.strip().removesuffix(";"))
        kept = self.part.script[piece.span.start : piece.span.start + piece.cut]
        return f"{kept}{text[self.part.begins + len(piece.lead) :]}"

    def list_changes(self) -> Iterator[tuple[int, int, int]]:
        """Yield what was replaced in the script, by places in it."""
        piece, texts = self.part.piece, self.outcome.rewritten
        if piece.cut == 0 and len(texts) == 1 and texts[0].original == self.part.judged:
            yield from texts[0].changes
        elif self.written != piece.span.of(self.part.script):
            yield piece.span.start, piece.span.end, len(self.written)


@dataclass(frozen=True, slots=True)
class _Script:
    """One script under judgement."""

    text: str
    script: ScriptReading
    parts: Sequence[_Part]
    context: SessionContext
    judging: Judging

    async def govern(self) -> JudgingOutcome:
        loops = self._list_loop_variables()
        if isinstance(loops, NeedsCatalog):
            return loops
        around = self._bind(frozenset().union(*loops.values()))
        for part in self.parts:
            if not part.piece.alone:  # RULE (script-part-alone)
                named = await self._write_known_names(around)
                return (
                    part.explain_strange()
                    if named is None
                    else await govern_script(named, self.context, self.judging)
                )
        needed: list[NeedsCatalog] = []
        found: list[_JudgedPart] = []
        for part in self.parts:
            kind = part.piece.kind
            scope = TextScope(commands=kind == "statement", arguments=kind == "cursor", alone=True)
            within = part.piece.loops  # RULE (for-columns-variables)
            words = frozenset[str]().union(*(loops[one] for one in within))
            context, judging = self._within_loops(around, words)
            outcome = await judging.govern(part.judged, context, judging, scope)
            if isinstance(outcome, NeedsCatalog):
                needed.append(outcome)
            elif isinstance(outcome, Refusal):
                return _refuse(part, outcome, found)
            else:
                # Also where the session has a variable of the name: in the script it is the script's.
                found.append(_JudgedPart(part, outcome, self._list_declared() | words))
        if needed:
            return _merge_needed(needed)
        known = _list_given(found).intersection(name for name, _ in self.context.known_values)
        if known:  # RULE (script-immediate-values)
            kept = frozenset(one for one in self.context.known_values if one[0] not in known)
            context = replace(self.context, known_values=kept)
            return await govern_script(self.text, context, self.judging)
        refusal = _refuse_alone(found) or _refuse_changes(found)
        if refusal is not None:
            return refusal
        written = _write(self.text, found)
        unproved = await self._prove(written, found)
        return unproved or self._rewrite(written, found)

    async def _write_known_names(self, context: SessionContext) -> str | None:
        """Return the script with the strings of variables in IDENTIFIER clauses, where they do not change;
        None where there are none."""
        written = self.text
        for part in sorted(self.parts, key=lambda one: one.piece.span.start, reverse=True):
            reading, span = part.reading, part.piece.span
            if reading is not None and reading.identifiers and part.piece.cut == 0:
                named = await write_known_names(part.judged, reading, context, self.judging.reader)
                if isinstance(named, str):
                    written = f"{written[: span.start]}{named[span.start :]}{written[span.end :]}"
        return None if written == self.text else written

    # -- variables ---------------------------------------------------------------------------------------

    def _list_loop_variables(self) -> dict[int, frozenset[str]] | NeedsCatalog:
        """Return for each query of a FOR loop, by its number, every word (lower case) that a column of it may
        be called: in the loop it is a variable. `?`: not all of them are known."""
        loops: dict[int, frozenset[str]] = {}
        unknown: list[TableName] = []
        catalog = self.judging.snapshot.catalog
        names = Names(self.context, catalog.catalogs, catalog.sources, catalog.listed)
        for number, part in enumerate(self.parts):
            if part.piece.kind != "query":
                continue
            reading = part.reading
            tree = None if reading is None else reading.tree
            if reading is None or tree is None:
                loops[number] = frozenset({"?"})
                continue
            found = {name.lower() for name in _list_parts(tree)}
            star = any(column.star for column in reading.columns)
            makes = any(function.parts[-1].lower() in GENERATORS for function in reading.functions)
            tabled = any(function.table_valued for function in reading.functions)
            if makes or (star and (tabled or reading.nodes & _NAMING)):
                found.add("?")
            for relation in reading.relations if star else ():
                if relation.role is RelationRole.CTE:
                    continue
                name = names.table(relation.parts)
                table = catalog.table(name.fold()) if isinstance(name, TableName) else None
                if isinstance(name, TableName) and not catalog.knows(name.fold()):
                    unknown.append(name.fold())
                found.update(("?",) if table is None else (one.name.lower() for one in table.columns))
            loops[number] = frozenset(found)
        return NeedsCatalog(tuple(unknown)) if unknown else loops

    def _bind(self, loops: frozenset[str]) -> SessionContext:
        """Return how names are found outside of loops: the script's variables, and the strings of those that
        do not change."""
        context, targets = self.context, self._list_targets()
        declared = [one for part in self.parts if part.reading for one in list_declared(part.reading)]
        names = [name for name, _ in declared]
        changing = targets | loops
        known = {(name, value) for name, value in context.known_values if name not in changing.union(names)}
        # RULE (script-constant-variables)
        known |= {
            (name, value)
            for name, value in declared
            if value is not None
            and names.count(name) == 1
            and not {name, "?"} & (changing | context.variables)
        }
        # RULE (script-variables-known)
        variables = context.variables.union(names)
        return replace(context, variables=variables, known_values=frozenset(known))

    def _within_loops(self, around: SessionContext, loops: frozenset[str]) -> tuple[SessionContext, Judging]:
        """Return how a part is judged in whose place these words may be variables, too."""
        variables = around.variables | loops
        settings = around.settings | ({VARIABLES_MARK} if "?" in loops else frozenset())
        judging = replace(self.judging, variables=variables, settings=settings, bodies={}, narrowed=[])
        return replace(around, variables=variables, settings=settings), judging

    def _list_declared(self) -> frozenset[str]:
        """Return the variables (lower case) that the script declares."""
        read = (part.reading for part in self.parts if part.reading is not None)
        return frozenset(name for reading in read for name, _ in list_declared(reading))

    def _list_targets(self) -> frozenset[str]:
        """Return the variables (lower case) that something in the script gives a value."""
        found = {parts[-1].lower() for parts in self.script.targets}
        for part in self.parts:
            if part.reading is not None:
                found.update(list_targets(part.reading))
        return frozenset(found)

    # -- what Spark gets ---------------------------------------------------------------------------------

    async def _prove(self, written: str, judged: Sequence[_JudgedPart]) -> Refusal | None:
        """Have Spark's parser read the script again: nothing but the parts has changed, and each of them is
        the text that was judged."""
        if written == self.text:
            return None
        script = await self.judging.reader.read_script(written)
        if isinstance(script, NotRead):
            return refuse_unread(script)
        holds = (  # RULE (script-proof)
            script is not None
            and not script.strange
            and script.skeleton == self.script.skeleton
            and [one.kind for one in script.parts] == [part.piece.kind for part in self.parts]
            and all(one.alone for one in script.parts)
            and all(
                _is_all_of(one.written, piece.span, written)
                for one, piece in zip(judged, script.parts, strict=True)
            )
        )
        if holds:
            return None
        return not_governable(
            Unsupported(
                "could not prove that the rewritten script is equivalent to the original; send its "
                "statements one by one"
            )
        )

    # -- what is said of it ------------------------------------------------------------------------------

    def _rewrite(self, written: str, judged: Sequence[_JudgedPart]) -> RewrittenStatement:
        outcomes = [one.outcome for one in judged]
        changes = tuple(sorted(change for one in judged for change in one.list_changes()))
        shows_errors = all(one.shows_errors for one in outcomes)  # RULE (script-errors)
        varying = (one.uncacheable_reason for one in outcomes if one.uncacheable_reason)
        found = Findings(
            readers_agree=_all_agree([one.readers_agree for one in outcomes]),
            temp_views_read=frozenset[str]().union(*(one.temp_views_read for one in outcomes)),
            uncacheable_reason=next(varying, ""),
            hides_columns=any(one.hides_columns for one in outcomes),
            hides_target=any(one.hides_target for one in outcomes),
            shows_errors=shows_errors,
            missing=tuple(dict.fromkeys(pair for one in outcomes for pair in one.missing)),
            rewritten=(RewrittenText(original=self.text, forwarded=written, changes=changes),)
            if written != self.text
            else (),
            names_until_end=True,
        ).merge(outcomes)
        return RewrittenStatement(
            text=written,
            reading=_READING,
            required=Required(
                privileges=tuple(one for outcome in outcomes for one in outcome.required.privileges),
                effects=settle_effects(self._list_effects(judged), self.judging.snapshot.catalog),
            ),
            allowed=frozenset(),
            has_obligations=any(one.has_obligations for one in outcomes),
            guarded=tuple(name for one in outcomes for name in one.guarded),
            **found.list_fields(),
        )

    def _list_effects(self, judged: Sequence[_JudgedPart]) -> Iterator[SessionEffect]:
        """Yield what is left of it in the session and the catalog."""
        # RULE (script-session-variables)
        if given := (self._list_targets() | _list_given(judged)) & self.context.variables:
            yield SetVariables(given)
        for one in judged:
            yield from _list_catalog_effects(one.outcome)


_READING = Reading(
    root=ROOT,
    nodes=frozenset(),
    expressions=frozenset(),
    relations=(),
    columns=(),
    functions=(),
    commands=(CommandNode(node=ROOT, fields={}),),
    subquery_aliases=frozenset(),
)


def _refuse(part: _Part, refusal: Refusal, judged: Iterable[_JudgedPart]) -> Refusal:
    """Say where in the script it is that cannot pass; Spark's own words have the place already."""
    made = next((one.part for one in judged if any(_list_changes(one.outcome))), None)
    if refusal.code == "SPARK" and made is not None:
        return part.refuse(
            f"names what is not there yet, and the one in line {made.line} makes or changes something: what "
            "a script makes is not known before it runs; make it by a statement before the script"
        )
    if refusal.code in ("SPARK", "ACCESS_DENIED"):
        return refusal
    return replace(refusal, message=f"{refusal.message} (line {part.line} of the script)")


def _list_given(judged: Iterable[_JudgedPart]) -> frozenset[str]:
    """Return the variables (lower case) that texts give a value which a script has run."""
    effects = (effect for one in judged if one.part.runs_text for effect in one.outcome.required.effects)
    return frozenset(name for one in effects if isinstance(one, SetVariables) for name in one.names)


def _refuse_alone(judged: Iterable[_JudgedPart]) -> Refusal | None:
    """Refuse what changes the session, whose answer is filtered, or what would find the script's
    variables."""
    for one in judged:
        part, outcome, required = one.part, one.outcome, one.outcome.required
        if any(not isinstance(effect, _PASSES) for effect in required.effects):  # RULE (script-effects)
            return part.refuse(f"may not stand in one: {_ALONE}")
        # RULE (script-immediate-declares): Spark declares one of the session; what is written here would not.
        if part.runs_text and any(isinstance(effect, DeclareVariables) for effect in required.effects):
            return part.refuse("declares a variable of the session; declare it before the script")
        if outcome.answer is not RELAY or outcome.definition is not None:  # RULE (script-answers)
            return part.refuse("may not stand in one: its answer is filtered; send it by itself")
        if required.cached is not None or required.explains:
            return part.refuse("may not stand in one; send it by itself")
        text = _INTO.sub("", outcome.text) if part.runs_text else ""
        words = {word.lower() for word in _WORD.findall(text)}
        if words & one.local:  # RULE (script-immediate-variables)
            return part.refuse(
                f"runs a text with the word `{min(words & one.local)}`, which is a variable of the script "
                "and not of the text; give the variable another name"
            )
    return None


def _refuse_changes(judged: Sequence[_JudgedPart]) -> Refusal | None:
    """Refuse what changes the meaning of names that the script has elsewhere, or when it runs again."""
    for one in judged:
        for change in _list_changes(one.outcome):
            used = next(
                (other for other in judged if other is not one and _uses(other.outcome, change)), None
            )
            if used is not None:  # RULE (script-names-stay)
                return one.part.refuse(
                    f"makes, changes or drops what the one in line {used.part.line} names: that cannot be "
                    "judged before the script runs; send it by itself"
                )
            if one.part.piece.repeats:  # RULE (script-changes-once)
                return one.part.refuse(
                    "makes, changes or drops a table, view, function or database in a loop or handler; send "
                    "it by itself"
                )
    return None


def _write(text: str, judged: Iterable[_JudgedPart]) -> str:
    for one in sorted(judged, key=lambda one: one.part.piece.span.start, reverse=True):
        span = one.part.piece.span
        # A text that is run may end in a comment.
        end = "\n" if one.part.runs_text else ""
        text = f"{text[: span.start]}{one.written}{end}{text[span.end :]}"
    return text


def _is_all_of(part: str, span: Span, script: str) -> bool:
    """Whether a part is what stands in a place of a script; a comment may follow there."""
    rest = part[span.end - span.start :].strip()
    return script.startswith(part, span.start) and (not rest or rest.startswith(("--", "/*")))


def _list_catalog_effects(outcome: RewrittenStatement) -> Iterator[CatalogChanged]:
    return (effect for effect in outcome.required.effects if isinstance(effect, CatalogChanged))


def _list_changes(outcome: RewrittenStatement) -> Iterator[CatalogChanged]:
    """Yield what gives names another meaning."""
    return (effect for effect in _list_catalog_effects(outcome) if effect.meaning != "stays")


def _uses(outcome: RewrittenStatement, change: CatalogChanged) -> bool:
    """Whether a statement was judged by something that a change is about, or changes it, too."""
    effects = list(_list_catalog_effects(outcome))
    used = {_key(name) for name in (*outcome.names, *(name for one in effects for name in one.tables))}
    databases = {(c.lower(), d.lower()) for one in effects for c, d in one.databases}
    within = {
        (catalog, above)
        for catalog, database in databases | {(one[0], one[1]) for one in used}
        for above in namespaces_of(database)
    }
    changed = {(catalog.lower(), database.lower()) for catalog, database in change.databases}
    return bool({_key(name) for name in change.tables} & used or changed & within)


def _key(name: TableName) -> tuple[str, str, str]:
    """Return what a table, its versions and a function of the name have in common."""
    return name.catalog.lower(), name.database.lower(), name.table.lower()


def _list_parts(node: ExpressionNode) -> Iterator[str]:
    pending = [node]
    while pending:
        one = pending.pop()
        yield from one.parts
        pending += (*one.children, *one.plans)


def _merge_needed(needed: Sequence[NeedsCatalog]) -> NeedsCatalog:
    """Put together what has to be looked up; what has to be known of this moment is asked for last."""
    first = [one for one in needed if not one.anew] or list(needed)
    return NeedsCatalog(
        tables=tuple(dict.fromkeys(name for one in first for name in one.tables)),
        promotes=all(one.promotes for one in first),
        asked=all(one.asked for one in first),
        anew=first[0].anew,
    )


def _all_agree(found: Sequence[bool | None]) -> bool | None:
    if False in found:
        return False
    return True if True in found else None
