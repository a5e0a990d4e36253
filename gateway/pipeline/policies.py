"""What policies put on tables, as texts: whether they can be relied on, and what would tell of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gateway.model.catalog import Table, TableKind, TableName
from gateway.model.decision import ColumnMask, PolicyRef, RowFilter
from gateway.model.meaning_settings import Influence, influence
from gateway.model.principal import Principal
from gateway.model.reading import ExpressionNode, Reading, RelationRole
from gateway.model.reading_settings import VARIABLES_MARK
from gateway.model.statement import AnswerFilter, NeedsCatalog, ScanRecord, SessionContext
from gateway.pipeline.functions import (
    list_text_functions,
    read_by,
    read_within,
    session_asked,
    tables_among,
)
from gateway.pipeline.judging import Judging, RewrittenStatement
from gateway.pipeline.seeing import ColumnAccess
from gateway.policy.engine import TableView
from gateway.policy.masks import standard_masks
from gateway.policy.views import merge_table_views
from gateway.sql import guard, policy_text
from gateway.sql.classify import is_builtin
from gateway.sql.evaluate import Denied, Evaluation
from gateway.sql.functions import builtin_name, find_first_minor
from gateway.sql.identity import IDENTITIES, identity_splices
from gateway.sql.meaning import depends
from gateway.sql.names import Names, Ungovernable
from gateway.sql.required import Required, Unsupported
from gateway.sql.variable_commands import find_variable
from gateway.sql.varying import find_varying, may_vary_by_row, names_session


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What holds for the tables of a text, with texts that were read and mean only what they say."""

    views: Mapping[TableName, TableView | None]
    """What is left for all whose eyes count, with the identities of masks and filters bound."""
    relations: frozenset[tuple[str, ...]]
    """The tables that masks and filters read."""
    reading: frozenset[TableName] = frozenset()
    """Those of the text's tables (folded) whose masks and filters read others."""
    choosing: frozenset[TableName] = frozenset()
    """Those of the text's tables (folded) whose filters may choose a row by more than what stands in it: by
    the rows before it, by chance, or by a function that is not Spark's own."""
    called: frozenset[TableName] = frozenset()
    """What functions in SQL and views read that masks and filters call and read."""
    trees: Mapping[str, ExpressionNode | None] = field(default_factory=dict)
    """The texts as they are written → as Spark's parser reads them."""
    varying: str = ""
    """What of masks and filters changes with time or with other tables, in words."""

    @property
    def context_dependencies(self) -> frozenset[str]:
        """Fields of the context that the texts written for them depend on."""
        return frozenset({"period"}) if self.reading else frozenset()

    @property
    def tables(self) -> frozenset[TableName]:
        # RULE (policy-functions-read)
        return self.called.union(TableName.of(parts) for parts in self.relations)


def plan_shown(name: TableName, user: str) -> Denied:
    return Denied(f"plans over {name} are not shown, because a row filter or mask applies to user {user}")


def metadata_shown(name: TableName, user: str) -> Denied:
    return Denied(
        f"`_metadata` is not available, because a row filter or mask of {name} applies to user {user}"
    )


def names_metadata(parts: Iterable[str]) -> bool:
    """Whether a column's name could mean Spark's hidden `_metadata`, which tells where rows are stored."""
    return "_metadata" in (part.lower() for part in parts)


def deny_show_only(
    kept: Iterable[ScanRecord], bodies: Iterable[RewrittenStatement], judging: Judging
) -> Denied | None:
    """Deny views over columns that may only be shown: what a later statement does with them is not seen.

    `kept` are the scans of a view that is being made.
    """
    for scan in (*(scan for body in bodies for scan in body.scans), *kept):
        for obligation in scan.obligations:
            if isinstance(obligation, ColumnMask) and obligation.predicate == "deny":
                return Denied(
                    f"column {scan.table}.{obligation.column} is masked for user "
                    f"{judging.principal.user} and may only be shown, not read through a view"
                )
    return None


def deny_create_statement(
    required: Required, evaluation: Evaluation, obliged_views: frozenset[TableName]
) -> Denied | None:
    """Deny the statement that makes a view to whom its text may not be told, and to who sees no column."""
    rule = evaluation.answer(required, obliged_views)
    if rule.filter is not AnswerFilter.CREATE_STATEMENT or rule.details or rule.table is None:
        return None
    table, user = evaluation.catalog.table(rule.table), evaluation.principal.user
    if table is None:
        return None  # Spark says that it does not exist
    if not rule.columns:
        return Denied(f"user {user} needs select on table {table.name}")
    if table.kind is TableKind.VIEW:  # RULE (view-statement)
        return Denied(
            f"this would show the text of view {table.name}, and a row filter, column mask or hidden column "
            f"of it or of what it reads applies to user {user}; use DESCRIBE TABLE EXTENDED"
        )
    return None


def refuse_unguarded_access(
    reading: Reading,
    required: Required,
    with_obligations: Sequence[TableName],
    explained: Sequence[TableName],
    judging: Judging,
) -> Denied | None:
    """Deny what would tell of guarded relations past their guard: plans, metadata. `explained`: those whose
    guards a plan would have in it."""
    user = judging.principal.user
    if required.explains and explained:  # RULE (guarded-plan-closed)
        return plan_shown(explained[0], user)
    if not with_obligations:
        return None
    name = with_obligations[0]
    if any(names_metadata(column.parts) for column in reading.columns):  # RULE (guarded-metadata)
        return metadata_shown(name, user)
    return None


async def policies_of(seen: ColumnAccess, judging: Judging) -> Policies | Unsupported | NeedsCatalog:
    """Check that row filters and masks speak of columns that exist; find the tables that they read.

    A column that is nowhere inside of the guard could be answered by a relation of the user's, outside of it.
    """
    views: dict[TableName, TableView | None] = {}
    relations: set[tuple[str, ...]] = set()
    reading: set[TableName] = set()
    choosing: set[TableName] = set()
    called: set[TableName] = set()
    trees: dict[str, ExpressionNode | None] = {}
    changing = ""
    for name, one in seen.tables.items():
        table = judging.snapshot.catalog.table(name)
        if table is None or one is None:
            views[name] = None
            continue
        bound = []
        for principal, view in one.eyes:
            texts: dict[str, str] = {}
            standard = _standard(view, table)
            for text, policy in _texts_of(view).items():
                is_standard = text in standard
                checked = await _check_text(
                    text, policy, table.named_now, principal, judging, standard=is_standard
                )
                if not isinstance(checked, _Checked):
                    return checked
                texts[text] = checked.text
                trees[checked.text] = checked.tree
                relations |= checked.relations
                called |= checked.called
                if checked.relations or checked.called:
                    reading.add(name.fold())
                if checked.by_row and view.row_filter is not None and text == view.row_filter.expression:
                    choosing.add(name.fold())
                if checked.varying and not changing:
                    changing = (
                        f"the row filter or mask of {table.name} for user {principal.user} depends "
                        "on time or the session"
                    )
            different = any(text != written for text, written in texts.items())
            bound.append(_with_texts(view, texts) if different else view)
        views[name] = merge_table_views(one.hidden, bound)
    return Policies(
        views=views,
        relations=frozenset(relations),
        reading=frozenset(reading),
        choosing=frozenset(choosing),
        called=frozenset(called),
        trees=trees,
        varying=changing,
    )


@dataclass(frozen=True, slots=True)
class _Checked:
    """A policy's text as it is to be written."""

    text: str
    relations: frozenset[tuple[str, ...]]
    """The tables that it reads."""
    called: frozenset[TableName]
    """What functions in SQL and views read that it calls and reads."""
    varying: bool
    by_row: bool
    """Whether it may vary by row (`may_vary_by_row`)."""
    tree: ExpressionNode | None


def _texts_of(view: TableView) -> dict[str, PolicyRef]:
    """Return the texts, each with the policy that it is of."""
    texts = {mask.expression: mask.policy for mask in view.masks.values()}
    if view.row_filter is not None:
        texts.setdefault(view.row_filter.expression, view.row_filter.policy)
    return texts


def _with_texts(view: TableView, texts: Mapping[str, str]) -> TableView:
    masks: dict[str, ColumnMask] = {
        name: replace(mask, expression=texts[mask.expression]) for name, mask in view.masks.items()
    }
    rows: RowFilter | None = view.row_filter
    if rows is not None:
        rows = replace(rows, expression=texts[rows.expression])
    return replace(view, masks=masks, row_filter=rows)


def _standard(view: TableView, table: Table) -> frozenset[str]:
    """Return the masks among a view's texts that are of a standard type, without a text of the policy's."""
    types = {column.name.lower(): column.type for column in table.columns}
    return frozenset(
        mask.expression
        for name, mask in view.masks.items()
        if mask.expression in standard_masks(mask.column, types.get(name.lower(), ""))
    )


def _otherwise(
    text: str, reading: Reading, table: Table, read: Sequence[Table], judging: Judging, *, standard: bool
) -> Unsupported | None:
    """Refuse a policy's text that could mean something else under what the session has set."""
    # INVARIANT (a policy's text means what it says): under Spark's own settings, whatever a user sets.
    if not judging.settings:
        return None
    influences: frozenset[Influence] | None = None
    if VARIABLES_MARK in judging.settings:  # RULE (lived-on-variables)
        return Unsupported(
            f"a policy for {table.name} could mean a variable of this session, whose names are not known "
            "since the gateway was started anew; begin a new session"
        )
    for key in sorted(judging.settings):
        reached = influence(key)
        # RULE (policy-rows-of-branch)
        if reached is Influence.TABLES and not read and all(map(is_builtin, reading.functions)):
            continue
        if reached in (Influence.ANSI, Influence.TIME_ZONE, Influence.NONE):  # RULE (policy-unlisted-setting)
            if influences is None:
                # RULE (standard-masks-meaning)
                influences = frozenset() if standard else depends(reading.tree, text, table, read)
            if reached not in influences:
                continue
        return Unsupported(
            f"a policy for {table.name} could have another result under this session's `{key}`; run RESET "
            f"{key}, or set it to Spark's value"
        )
    return None


def _explain_ungoverned(parts: tuple[str, ...], names: Names) -> str | None:
    """Say why a name of several levels is not a table's in the session that policies are read in, whose
    catalog has one level; None when it is, and so begins with a catalog."""
    meant = names.new_table(parts)
    return meant.why if isinstance(meant, Ungovernable) else None  # RULE (policy-nested-names)


def _find_qualified_builtin(reading: Reading) -> str | None:
    """Return a built-in function that is called by its full name, if one is."""
    for function in reading.functions:
        if len(function.parts) > 1 and is_builtin(function):
            return ".".join(function.parts)
    return None


def _unlike_this_spark(reading: Reading, judging: Judging) -> str | None:
    """Say what of a policy's text a Spark of this version does not have, or takes for something else."""
    version = judging.reader.spark_version
    if reading.doubled_quotes:
        return (
            f"has two consecutive quotes in a literal, which Spark {version} reads as the end of one "
            "literal and the beginning of another; write \\' for a quote"
        )
    for function in reading.functions:
        name = builtin_name(function.parts)
        came = None if name is None or name in IDENTITIES else find_first_minor(name)
        if came is not None and came > judging.minor:
            return f"calls `{'.'.join(function.parts)}`, which needs Spark {came}; this is Spark {version}"
    if (  # RULE (policy-bare-builtins)
        judging.bare_builtins and (named := _find_qualified_builtin(reading)) is not None
    ):
        return (
            f"calls `{named}`, a name that Spark {version} does not support; write "
            f"`{named.rpartition('.')[-1]}`"
        )
    return None


def _out_of_reach(read: Collection[tuple[str, ...]], judging: Judging) -> str | None:
    """Say why policies cannot read one of these tables."""
    known = judging.snapshot.catalog
    context = SessionContext(catalogs=judging.session_catalogs)
    session = Names(context, known.catalogs, known.sources, known.listed)
    if any(len(parts) < 3 for parts in read):  # RULE (policy-full-table-names)
        return "refers to a table without catalog and database"
    for parts in read:
        refused = session.explain_unusable_catalog(parts[0])
        if refused is not None:
            return f"reads a table that {refused.why}"
        if (len(parts) > 3 or "." in parts[1]) and (why := _explain_ungoverned(parts, session)) is not None:
            return f"reads `{'.'.join(parts)}`, which {why}"
    return None


async def _explain_session_metric_view(read: Collection[Table], judging: Judging) -> str | None:
    """Say which metric view among the tables that a policy reads is another one in another session.

    INVARIANT (a policy's text means what it says): a name without its catalog in such a view is found in
    whatever session reads it, and so in that of whoever the policy is for.
    """
    for table in read:
        if table.view is None or table.view.metrics is None:
            continue
        reading = await judging.reader.read(table.view.text)
        if not isinstance(reading, Reading):
            return f"reads the metric view {table.name}, which cannot be parsed"
        scans = [one.parts for one in reading.relations if one.role is RelationRole.SCAN]
        functions = [one.parts for one in reading.functions if not is_builtin(one)]
        for parts in (*scans, *functions):
            if len(parts) < 3:
                return (
                    f"reads the metric view {table.name}, which refers to `{'.'.join(parts)}` without a "
                    "catalog, so that it resolves in the session of the user"
                )
    return None


async def _check_text(
    text: str, policy: PolicyRef, table: Table, principal: Principal, judging: Judging, *, standard: bool
) -> _Checked | Unsupported | NeedsCatalog:
    """Return a policy's text as it is to be written for a principal, and what it depends on.

    Who the user is stands in it as a literal, on every endpoint: Spark's cache tells plans apart by that, and
    Spark Connect does not know the user.
    """
    reading = await judging.reader.read_expression(text)
    if not isinstance(reading, Reading):
        return Unsupported(f"a policy for {table.name} cannot be parsed")
    text = reading.written or text
    if (why := _unlike_this_spark(reading, judging)) is not None:
        return Unsupported(f"a policy for {table.name} {why}")
    if reading.parameters or names_session(reading):
        return Unsupported(
            f"a policy for {table.name} depends on the session or on parameters of the statement"
        )
    read = {r.parts for r in reading.relations if r.role is not RelationRole.CTE}
    if (why := _out_of_reach(read, judging)) is not None:
        return Unsupported(f"a policy for {table.name} {why}")
    names = [TableName.of(parts) for parts in read]
    if unknown := judging.list_unknown(names):
        return NeedsCatalog(unknown)
    tables = [judging.snapshot.catalog.table(name) for name in names]
    if (  # RULE (policy-fits-table)
        what := policy_text.find_unknown_column(text, reading, table, tables)
    ) is not None:
        # RULE (unmatched-filter-why)
        told = f": `{policy.name}` refers to {what}" if judging.rules.unmatched_columns == "closed" else ""
        return Unsupported(f"a policy for {table.name} does not match its columns{told}")
    read_tables = [other for other in tables if other is not None]
    restricted = [one for one in read_tables if one.restrictions is not None and one.restrictions.restricts]
    if restricted:  # RULE (policy-restricted-table)
        return Unsupported(
            f"a policy for {table.name} reads {restricted[0].name}, which its catalog restricts for the user"
        )
    if (  # RULE (policy-metric-view)
        why := await _explain_session_metric_view(read_tables, judging)
    ) is not None:
        return Unsupported(f"a policy for {table.name} {why}")
    variable = find_variable(text, reading, judging.variables)
    if variable is not None:  # RULE (policy-beside-variables)
        return Unsupported(
            f"a policy for {table.name} has the word `{variable}`, and so is called a variable of this "
            f"session; DROP TEMPORARY VARIABLE {variable}, and give it another name"
        )
    otherwise = _otherwise(text, reading, table, read_tables, judging, standard=standard)
    if otherwise is not None:  # RULE (policy-under-settings)
        return otherwise
    if any(
        # RULE (policy-full-function-names)
        len(function.parts) != 3 and not is_builtin(function)
        for function in reading.functions
    ):
        # It is found in the session, which may have registered one of that name, or be in another database.
        return Unsupported(f"a policy for {table.name} calls a function without catalog and database")
    functions = list_text_functions(reading)
    within = await read_by(functions, SessionContext(), judging)
    if isinstance(within, NeedsCatalog):
        return within
    # RULE (policy-functions-of-session)
    if (why := await session_asked(functions, judging)) is not None:
        return Unsupported(f"a policy for {table.name} {why}")
    inside = await read_within((*names, *functions), judging)
    if isinstance(inside, NeedsCatalog):
        return inside
    if isinstance(inside, str):  # RULE (policy-views-of-user)
        return Unsupported(f"a policy for {table.name} {inside}")
    # RULE (policy-views-within)
    called = tables_among(within, judging.snapshot.catalog) | inside
    changes = bool(read) or find_varying(text, reading) is not None
    by_row = may_vary_by_row(reading.functions)
    if not reading.identities:
        return _Checked(text, frozenset(read), called, changes, by_row, reading.tree)
    # RULE (policy-subjects)
    splices = identity_splices(reading, principal.user, (table, *tables), named=False)
    if isinstance(splices, Unsupported):
        return Unsupported(f"a policy for {table.name} depends on current_user(): {splices.why}")
    # RULE (policy-identities)
    text = guard.apply(text, splices)
    return _Checked(text, frozenset(read), called, changes, by_row, reading.tree)
