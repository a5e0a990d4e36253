"""The SQL texts and expressions within a plan, on the way of all SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gateway.model.catalog import Column, TableName
from gateway.model.handles import PERSISTED
from gateway.model.reading import Reading
from gateway.model.statement import NeedsCatalog, SessionContext
from gateway.pipeline.judging import Judging, Refusal, RewrittenStatement, not_governable
from gateway.pipeline.seeing import (
    USER,
    Guesses,
    Prepared,
    TextScope,
    any_of,
    collect_guesses,
    deny_changed_meaning,
    deny_variables,
    has_variables,
    list_scanned_tables,
    list_sought_words,
    may_be_hidden,
    misread_text,
    not_followed,
    usage_of,
    words_within_lambdas,
)
from gateway.pipeline.texts import prepare, settle_functions
from gateway.plan.analyse import TextUse, WordMeanings, analyse_plan
from gateway.plan.arguments import (
    argument_refusal,
    names_by_argument,
    queries_of_view,
    schemas_in,
    with_named_arguments,
    with_written_arguments,
)
from gateway.plan.facts import PlanFacts
from gateway.plan.guard import Edits
from gateway.plan.niladic_functions import find_meanings
from gateway.plan.reading import ExpressionText, PlanReading, SqlText
from gateway.sql.analyse import ScannedTable, Silent, Usage
from gateway.sql.evaluate import Denied, Evaluation
from gateway.sql.identity import IsIdentity
from gateway.sql.required import Unsupported
from gateway.sql.schema_text import check_schema
from gateway.sql.scope import CannotClassify

MAX_STATEMENTS = 1_000
MAX_EXPRESSIONS = 10_000
"""Texts of one plan. Each costs the reader a question and column analysis about a millisecond."""


@dataclass(kw_only=True)
class PlanTexts:
    """Every text of a plan, prepared: statements first, then expressions, as the plan's reading has them."""

    statements: tuple[tuple[SqlText, Prepared], ...]
    expressions: tuple[tuple[ExpressionText, Prepared], ...]
    usages: dict[int, Usage | Silent] = field(default_factory=dict)

    @cached_property
    def all(self) -> tuple[Prepared, ...]:
        return tuple([p for _, p in self.statements] + [p for _, p in self.expressions])

    @property
    def written(self) -> tuple[str, ...]:
        """The texts as the client wrote them."""
        return tuple(prepared.text for prepared in self.all)

    def usage(self, prepared: Prepared) -> Usage | Silent:
        """Return what column analysis says of one text by itself."""
        return self.usages.get(id(prepared), Silent("nothing is read"))

    def meanings(self, words: WordMeanings) -> tuple[IsIdentity | None, ...]:
        """Return for each of `all` what words without brackets mean where it stands."""
        of_statements: list[IsIdentity | None] = [None] * len(self.statements)
        return (*of_statements, *(find_meanings(one.message, words) for one, _ in self.expressions))

    def write(self, governed: Sequence[RewrittenStatement], edits: Edits) -> None:
        """Put the guarded texts in the place of those that the client wrote."""
        count = len(self.statements)
        for (found, _), one in zip(self.statements, governed[:count], strict=True):
            edits.write(found.relation.sql, "query", one.text)
            edits.queries.add(one.text)
        for (expression, _), one in zip(self.expressions, governed[count:], strict=True):
            edits.write(expression.message, "expression", one.text)
            edits.expressions.add(one.text)


async def prepare_texts(
    reading: PlanReading, context: SessionContext, judging: Judging, evaluation: Evaluation
) -> PlanTexts | Refusal | NeedsCatalog:
    """Read, classify and analyse every text of a plan; a Refusal when nothing of one can pass.

    Analysed one by one, between questions to the reader: all at once they would hold up everybody else.
    """
    for found, most, kind in (
        (reading.texts, MAX_STATEMENTS, "SQL texts"),
        (reading.expressions, MAX_EXPRESSIONS, "expressions in SQL"),
    ):
        if len(found) > most:
            return not_governable(Unsupported(f"the plan has more than {most} {kind}; run it in parts"))
    usages: dict[int, Usage | Silent] = {}
    statements = []
    for text in reading.texts:
        why = argument_refusal(text.relation.sql)  # RULE (plan-text-arguments)
        if why is not None:
            return not_governable(Unsupported(why))
        alone = text.relation is reading.shown and PERSISTED not in context.handles
        place = TextScope(
            commands=text.runs_commands,
            arguments=text.arguments,
            aliases=text.aliases,
            alone=alone,
            shape=reading.shape or text.command,
        )
        prepared = await prepare(await _resolve_text_names(text, judging), context, judging, place)
        if isinstance(prepared, Refusal):
            return prepared
        settled = settle_functions(prepared, evaluation, judging)
        if not isinstance(settled, Prepared):
            return settled
        prepared = settled
        refusal = _schema_refusal(text, prepared)
        if refusal is not None:
            return not_governable(refusal)
        usages[id(prepared)] = usage_of(prepared, evaluation)
        statements.append((text, prepared))
    expressions = []
    for one in reading.expressions:
        place = TextScope(expression=True, commands=False, aliases=one.aliases)
        prepared = await prepare(one.text, context, judging, place)
        if isinstance(prepared, Refusal):
            return prepared
        settled = settle_functions(prepared, evaluation, judging)  # RULE (plan-expression-functions)
        if not isinstance(settled, Prepared):
            return settled
        prepared = settled
        usages[id(prepared)] = usage_of(prepared, evaluation)
        expressions.append((one, prepared))
    return PlanTexts(statements=tuple(statements), expressions=tuple(expressions), usages=usages)


async def _resolve_text_names(text: SqlText, judging: Judging) -> str:
    """Return a text with the names in it that its arguments give, and that of a temporary view with all of
    them: that is judged, proved and forwarded."""
    for before, query in queries_of_view(text):
        reading = await judging.reader.read(query)
        if isinstance(reading, Reading) and reading.parameters and not reading.commands:
            written = with_written_arguments(text, reading, query)
            return text.text if written is None else before + written
    named = await judging.reader.read(text.text) if names_by_argument(text) else None
    return with_named_arguments(text, named) if isinstance(named, Reading) else text.text


def _schema_refusal(text: SqlText, prepared: Prepared) -> Unsupported | None:
    """Refuse an argument that a function takes for a schema and that holds what Spark would evaluate."""
    if not any(argument.parameter for f in prepared.reading.functions for argument in f.arguments):
        return None
    try:
        for schema in schemas_in(text.relation.sql):
            check_schema(schema)  # RULE (plan-text-schemas)
    except CannotClassify as problem:
        return problem.refusal
    return None


def usage_of_plan(
    reading: PlanReading,
    facts: PlanFacts,
    texts: PlanTexts,
    evaluation: Evaluation,
    words: WordMeanings | None = None,
    *,
    hidden: bool = False,
    guesses: Guesses | None = None,
) -> Usage | Silent:
    """Return what column analysis says of the whole plan, with the texts within; what words mean is
    noted in `words`.

    With `hidden`: what one says that knows the hidden columns too; with `guesses`: what they may be called.
    """
    tables: dict[int, ScannedTable] = {}
    selectable: dict[TableName, tuple[Column, ...]] = {}
    for position, one in enumerate(facts.reads):
        table = evaluation.catalog.table(one.name) if one.name is not None else None
        if one.name is not None and table is None:
            return Silent("a table does not exist")
        if table is not None and table.name not in selectable:
            selectable[table.name] = table.columns if hidden else evaluation.selectable(table)
        tables[position] = ScannedTable(
            parts=one.read.parts,
            name=one.name.fold() if one.name is not None else None,
            columns=selectable[table.name] if table is not None else (),
            guessed=(guesses or {}).get(table.name.fold(), frozenset()) if table is not None else frozenset(),
        )
    uses: list[dict[int, TextUse]] = [{}, {}]
    for into, pairs in zip(uses, (texts.statements, texts.expressions), strict=True):
        for position, (_, prepared) in enumerate(pairs):
            use = _use(prepared, evaluation, hidden=hidden, guesses=guesses)
            if use is None:
                return Silent("a table does not exist")
            into[position] = use
    return analyse_plan(reading, tables, uses[0], uses[1], words)


def _use(
    prepared: Prepared, evaluation: Evaluation, *, hidden: bool, guesses: Guesses | None
) -> TextUse | None:
    scans = list_scanned_tables(prepared, evaluation, hidden=hidden, guesses=guesses)
    return None if scans is None else TextUse(text=prepared.text, reading=prepared.reading, scans=scans)


def misread_plan(
    reading: PlanReading,
    facts: PlanFacts,
    texts: PlanTexts,
    evaluation: Evaluation,
    usage: Usage | Silent,
    judging: Judging,
) -> Denied | None:
    """Deny names of a plan that could mean hidden columns, and would mean something else."""
    names = [one.name for one in facts.reads if one.name is not None]
    for prepared in texts.all:
        names += [name for _, name in prepared.scans]
        if prepared.place.expression or prepared.place.aliases:
            continue
        if (denied := misread_text(prepared, texts.usage(prepared), evaluation, judging)) is not None:
            return denied
    if isinstance(usage, Silent) and has_variables(judging):
        first = _list_first_words(reading, texts)
        if isinstance(first, Silent):
            return not_followed(names, evaluation)
        if (denied := deny_variables(names, first, evaluation, judging)) is not None:
            return denied
    guesses = collect_guesses(names, words_of(reading, texts) | list_sought_words(usage), evaluation)
    if not guesses:  # RULE (hidden-name-in-plan)
        return None
    words = {c.parts for _, p in texts.expressions for c in p.reading.columns if not c.star}
    if USER in any_of(guesses) and (USER,) in words and not isinstance(usage, Silent):
        return may_be_hidden(USER)
    return deny_changed_meaning(
        usage,
        lambda: usage_of_plan(reading, facts, texts, evaluation, guesses=guesses),
    )


def _list_first_words(reading: PlanReading, texts: PlanTexts) -> frozenset[str] | Silent:
    """Return what the references of a plan begin with, and of the expressions that are texts, lower case."""
    written = {c.parts[0].lower() for c in reading.columns if c.parts and not c.star}
    for _, prepared in texts.expressions:
        written |= {c.parts[0].lower() for c in prepared.reading.columns if not c.star}
        within = words_within_lambdas(prepared)
        if isinstance(within, Silent):
            return within
        written |= within
    return frozenset(written)


def words_of(reading: PlanReading, texts: PlanTexts) -> frozenset[str]:
    """Return every word of a plan and of the texts within that could be the name of a column, lower case."""
    written = {c.parts[-1].lower() for c in reading.columns if c.parts and not c.star}
    for prepared in texts.all:
        written |= {c.parts[-1].lower() for c in prepared.reading.columns if not c.star}
    return frozenset(written | {name.lower() for name in reading.names})
