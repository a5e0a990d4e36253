"""What policies say of the privileges and scans of a statement, and what the refusal tells its sender."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from gateway.model.catalog import CatalogSnapshot, Column, Table, TableKind, TableName, quote_parts
from gateway.model.context import AccessContext
from gateway.model.decision import ColumnMask, Decision, Obligation
from gateway.model.files import SESSION_CATALOG
from gateway.model.principal import Principal
from gateway.model.reading import FunctionRef, Relation
from gateway.model.resource import ANY_ACCESS, BY_NAME, AccessRequest, Resource
from gateway.model.statement import AnswerRule
from gateway.policy.copied_values import mask_copied_values
from gateway.policy.engine import Engine, TableView
from gateway.policy.reserved import ReservedPlace
from gateway.policy.restrictions import restrict_view
from gateway.policy.unmatched import ResourceNames
from gateway.sql.analyse import Silent, Usage
from gateway.sql.change_feeds import is_changes
from gateway.sql.classify import is_builtin, is_registered
from gateway.sql.function_calls import code_privileges, find_short_function
from gateway.sql.names import Names, Ungovernable
from gateway.sql.required import ALL_TABLES, MAINTAIN, Privilege, Required, Unsupported
from gateway.sql.scope import is_copied_without_rows, table_resource
from gateway.sql.spark_errors import build_unknown_function_refusal
from gateway.sql.unmatched import close_unmatched_view
from gateway.sql.versions import list_renamed_columns, of_version


@dataclass(frozen=True, slots=True)
class Denied:
    """What the principal lacks, in words fit for a client."""

    message: str


ScannedRelation = tuple[Relation, TableName]

RESERVED = "it is reserved for files that Sluice keeps there"
OF_FILES = "its database is reserved for tables made of files, which are named by their paths"


@dataclass(slots=True)
class Evaluation:
    """Decisions on one text for one principal, collected until everything that is missing is known."""

    principal: Principal
    engine: Engine
    catalog: CatalogSnapshot
    context: AccessContext
    """When and from where; completed with the columns that are read together once they are known."""
    star_shows_visible: bool
    reserved: tuple[ReservedPlace, ...] = ()
    """Places of the gateway's own, that no policy opens."""
    names: ResourceNames | None = None
    """What policies name, where a table is closed that lacks a column of theirs."""
    decisions: list[Decision] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    context_dependencies: set[str] = field(default_factory=set)
    """Fields of the context that some answer depended on."""
    unsure: set[TableName] = field(default_factory=set)
    """Tables that must be looked up first, because it matters who owns them."""
    # RULE (views-of-one-principal)
    _viewed: dict[int, tuple[Table, AccessContext, TableView]] = field(default_factory=dict, init=False)
    """By the identity of a table: itself, and what the principal may see of it in a context."""

    def build_denial(self) -> Denied | None:
        """Return all missing privileges at once, or None when nothing is missing."""
        if not self.missing:
            return None
        return Denied(f"user {self.principal.user} needs {', '.join(dict.fromkeys(self.missing))}")

    def view(self, name: TableName) -> TableView | None:
        """Return what the principal may see of a table; None when it does not exist."""
        table = self.catalog.table(name)
        return None if table is None else self.table_view(table)

    def table_view(self, table: Table) -> TableView:
        """Return what the principal may see of a table that is there."""
        view = close_unmatched_view(self._find_view(table, self.context), table, self.catalog, self.names)
        # RULE (catalog-restricts)
        view = mask_copied_values(restrict_view(view, table, bare=self.context.bare_builtins), table)
        self.context_dependencies |= view.context_dependencies
        return view

    def _find_view(self, table: Table, context: AccessContext) -> TableView:
        known = self._viewed.get(id(table))  # each pass asks for it
        # RULE (views-of-one-context)
        if known is not None and known[0] is table and known[1] is context:
            return known[2]
        view = self._make_view(table, context)
        self._viewed[id(table)] = table, context, view
        return view

    def _make_view(self, table: Table, context: AccessContext) -> TableView:
        resource = table_resource(table.name, table.owner)
        view = self.engine.table_view(self.principal, resource, table.columns, "select", context)
        if not table.renamed:
            return view
        now = [replace(c, name=one.now) for c, one in list_renamed_columns(table)]
        return of_version(
            table, view, self.engine.table_view(self.principal, resource, now, "select", context)
        )

    def has_column_rules(self, name: TableName) -> bool:
        """Whether policies say something of some columns of a table alone, be it there or not."""
        if (table := self.catalog.table(name)) is not None:
            return not self.table_view(table).uniform()
        resource = table_resource(name)
        # RULE (absent-may-appear)
        return not self.engine.table_view(self.principal, resource, (), "select", self.context).uniform()

    def settle_maintenance(self, required: Required) -> Required:
        """Return what a command requires once it is known who maintains the tables that it tends.

        INVARIANT (maintaining shows nothing): masks and filters do not hinder who has `maintain` by a policy
        that lists it, since no row is shown and none changes; `all` is given to see what these leave.
        """
        tended = [self._add_owner(table_resource(name), MAINTAIN + BY_NAME) for name in required.maintained]
        if None in tended:
            return replace(required, privileges=())  # the owner counts: it is judged again once that is known
        found = [resource for resource in tended if resource is not None]
        # RULE (maintain-by-name)
        if not found or not all(self._is_allowed(resource, MAINTAIN + BY_NAME) for resource in found):
            return required
        asked = tuple(Privilege(table_resource(name), MAINTAIN) for name in required.maintained)
        return replace(required, privileges=asked, raw=(), read=(), past=())

    def require(self, required: Iterable[Privilege]) -> None:
        for privilege in required:
            # RULE (reserved-place)
            if privilege.resource.kind == "url" and self._is_reserved(privilege.resource):
                self._keep_off(privilege.resource, privilege.access, RESERVED)
                continue
            # INVARIANT (one name): a name in it means the files of its path, whoever may create tables.
            if privilege.access == "create" and self._is_of_files(privilege.resource):
                self._keep_off(privilege.resource, privilege.access, OF_FILES)
                continue
            resource = self._add_owner(privilege.resource, privilege.access)
            # RULE (visible-is-enough)
            if resource is None or (privilege.visible_is_enough and self._visible(resource)):
                continue
            decision = self._decide(resource, privilege.access)
            # RULE (missing-privilege, cascade-denied-below)
            if not decision.allowed or (privilege.and_below and self._is_denied_below(privilege.resource)):
                self.missing.append(f"{privilege.access} on {privilege.resource.kind} {privilege.resource}")
            elif privilege.and_below and self._may_hide_below(privilege.resource):
                by_name = self._decide(resource, privilege.access + BY_NAME)
                if not by_name.allowed:  # RULE (drop-masked-database-by-name)
                    what = f"{privilege.access}{BY_NAME} on {privilege.resource.kind} {privilege.resource}"
                    self.missing.append(
                        f"{what}, since something in it may be hidden from the user who drops it"
                    )

    def visibility(self, names: Iterable[TableName]) -> None:
        """Deny tables of which nothing may be seen, before anything is looked up.

        The answer is the same whether the table exists or not, so that refusals do not tell names.
        """
        for name in dict.fromkeys(names):
            resource = self._add_owner(table_resource(name), ANY_ACCESS)
            if resource is not None and not self._visible(resource):  # RULE (invisible-is-absent)
                self._decide(resource, "select")
                self.missing.append(f"select on table {name}")

    def columns(
        self, table: Table, view: TableView, usage: Usage | Silent, *, in_view: bool
    ) -> tuple[str, ...] | Denied | None:
        """Decide on the columns that the statement uses and return them; None: analysis could not tell.

        Enforcement does not rest on this: columns that may not be selected are absent from the guarded
        relation whatever column analysis says. It makes refusals exact and the record complete.

        INVARIANT (hidden is not there): column analysis of a client's statement knows no column that may not
        be selected, so that one is not refused by its name: Spark does not find it, nor one that nobody has.
        `in_view`: the names are those of a view's text, which the client did not write.
        """
        hidden = list_hidden_columns(table, view)
        if len(hidden) == len(table.columns):
            self._decide(table_resource(table.name, table.owner), "select")
            self.missing.append(f"select on table {table.name}")
            return ()
        barred = {
            name.lower()
            for name, mask in view.masks.items()
            if mask.predicate == "deny" and name not in view.hidden
        }
        if isinstance(usage, Silent):
            self.decisions.extend(d for d in view.allowed.values() if d.allowed)
            if barred:  # RULE (show-only-not-followed)
                return Denied(
                    f"could not determine how column {table.name}.{min(barred)} is used, and it may only "
                    "be shown, not compared, joined, grouped or sorted"
                )
            if hidden and usage.stars and (in_view or not self.star_shows_visible):
                self._miss_all_columns(table, view, hidden)  # RULE (star-not-followed)
            return None
        folded = table.name.fold()
        used = usage.columns.get(folded, frozenset())
        # A view's star was every column when the view was made: it cannot mean fewer for one who reads it.
        if self.star_shows_visible and not in_view:  # RULE (star-in-view, star-visible-setting)
            used = used - ({name.lower() for name in hidden} - usage.named.get(folded, frozenset()))
        elif hidden and folded in usage.stars:
            self._miss_all_columns(table, view, hidden)
        self._decide_columns(table, view, used, in_view=in_view)
        misused = sorted(barred & usage.computed.get(folded, frozenset()))
        if misused:  # RULE (show-only-not-compared)
            return Denied(
                f"column {table.name}.{misused[0]} is masked for user {self.principal.user} and may only be "
                f"shown, not compared, joined, grouped or sorted"
            )
        return tuple(sorted(used))

    def _miss_all_columns(self, table: Table, view: TableView, hidden: Iterable[str]) -> None:
        self.decisions.extend(view.allowed[name] for name in hidden)
        self.missing.append(
            f"select on every column of table {table.name}: `*`, NATURAL JOIN, aliases with a column "
            "list and selecting columns by position or pattern use all of them (DESCRIBE lists the "
            "columns that you may select)"
        )

    def selectable(self, table: Table) -> tuple[Column, ...]:
        """Return the columns that the principal may know of: that may be selected, be it in other company."""
        view = self._find_view(table, self.context)
        if "accessed_together" in view.context_dependencies:
            view = self._find_view(table, replace(self.context, accessed_together=frozenset()))
        self.context_dependencies |= view.context_dependencies
        if not view.hidden:
            return table.columns
        return tuple(
            c
            for c in table.columns
            if c.name not in view.hidden or "accessed_together" in view.allowed[c.name].context_dependencies
        )

    def may_name_hidden(self, names: Iterable[TableName], written: AbstractSet[str]) -> bool:
        """Whether one of these words (lower case) may be the name of a hidden column of the tables: none that
        may be selected is. Time must not tell a hidden column from none, so both are looked into."""
        seen = [(self.catalog.table(name), view) for name in names if (view := self.view(name)) is not None]
        visible = {
            c.name.lower()
            for table, view in seen
            if table
            for c in table.columns
            if c.name not in view.hidden
        }
        return any(view.hidden for _, view in seen) and not written <= visible

    def hides_columns(self, names: Iterable[TableName]) -> bool:
        """Whether some columns of the tables may not be selected."""
        return any(view.hidden for name in names if (view := self.view(name)) is not None)

    def visible_where_some_are_hidden(self, names: Iterable[TableName]) -> dict[TableName, frozenset[str]]:
        """Return the columns, lower case, that may be selected, of those tables that have others too; of none
        where a star means what may be selected, as then any name does."""
        found: dict[TableName, frozenset[str]] = {}
        for name in () if self.star_shows_visible else dict.fromkeys(name.fold() for name in names):
            table = self.catalog.table(name)
            shown = self.selectable(table) if table is not None else ()
            if table is not None and len(shown) < len(table.columns):
                found[name] = frozenset(column.name.lower() for column in shown)
        return found

    def record_denied_columns(self, usage: Usage | Silent) -> None:
        """Record the denial of every hidden column that a statement uses. `usage` is the word of a column
        analysis that knows all columns; nothing that the client sees may depend on it."""
        if isinstance(usage, Silent):
            return
        for name in usage.columns:
            table, view = self.catalog.table(name), self.view(name)
            if table is None or view is None:
                continue
            used = usage.columns[name] if name not in usage.stars else usage.named.get(name, frozenset())
            self.decisions.extend(
                view.allowed[c] for c in list_hidden_columns(table, view) if c.lower() in used
            )

    def find_missing_table(self, required: Required) -> TableName | None:
        """Return a table that the commands are about and that is not there.

        What policies say of its rows and columns cannot be asked, so the command must not reach one of the
        name that somebody makes in the meantime.
        """
        about = (
            *required.raw,
            *required.read,
            *(() if required.cached is None else (required.cached,)),
            *(one.table for one in required.named),
            *(one.table for one in required.written if not one.creates),
        )
        # RULE (command-needs-table)
        return next((name for name in about if self.catalog.table(name) is None), None)

    def deny_commands(self, required: Required, obliged_views: frozenset[TableName]) -> Denied | None:
        """Deny commands that would show or change rows and columns past masks and filters, and that would
        tell of columns which may not be selected.

        `obliged_views` are the views whose sources carry obligations. Of a table that a command reads, every
        column must be selectable; of one that it changes, with no column granted at all, the command's own
        privilege decides.
        """
        required = self.settle_maintenance(required)
        for name in required.maintained:
            if (view := self.view(name)) is not None and view.closed:
                return Denied(view.closed)
        replaced = self._list_replaced(required)
        removed = self.build_denial() or self._deny_removals((*required.removed, *replaced))
        if removed is not None:
            return removed
        read, past = {*required.read, *required.shown}, {*required.past}
        changed = (*required.raw, *(name for name, _ in replaced))
        for name in dict.fromkeys((*changed, *required.read, *required.shown)):
            view, table = self.view(name), self.catalog.table(name)
            if view is None or table is None:
                continue
            if view.closed:  # RULE (closed-table-why)
                return Denied(view.closed)
            hidden = len(list_hidden_columns(table, view))
            if name in read:
                self.decisions.extend(view.allowed.values())
                if hidden == len(table.columns):
                    return Denied(
                        f"user {self.principal.user} needs select on table {name}, because this kind of "
                        "statement reads or reveals its data"
                    )
            barred = hidden > 0 if name in read else 0 < hidden < len(table.columns)
            barred = barred or (name in past and not view.uniform())
            # Renamed, a view keeps text and definer, and readers what policies say of what it reads.
            moved = table.kind is TableKind.VIEW and any(name == old for old, _ in required.renamed)
            beneath = name.fold() in obliged_views and not moved
            # RULE (explain-described-columns, explain-described-formats)
            if name in required.outlined and not (barred or beneath) and is_copied_without_rows(table):
                continue
            # RULE (create-like-structure)
            if required.structure and name in required.read and not barred and is_copied_without_rows(table):
                continue
            # RULE (raw-command-masks, raw-command-filters, raw-command-hidden-columns, raw-command-views)
            if view.masks or view.row_filter is not None or barred or beneath:
                return Denied(
                    f"a row filter, column mask or hidden column of table {name} applies to user "
                    f"{self.principal.user}, so this kind of statement is not allowed on it"
                    + (f"; {required.instead}" if required.instead else "")
                )
        return self._deny_hidden_names(required) or self._deny_renames(  # RULE (new-name-opens-nothing)
            required
        )

    def _list_replaced(self, required: Required) -> list[tuple[TableName, str]]:
        """Return the tables where rows that are added take the place of others: of those with their keys, or
        of all, which then takes `delete`."""
        tables = [(one, table) for one in required.written if (table := self.catalog.table(one.table))]
        hiding = [one.table for one, table in tables if one.hides_rows(table)]
        self.require(Privilege(table_resource(name), "delete") for name in hiding)
        # RULE (insert-replaces-rows)
        return [(name, "delete") for name in (*hiding, *(t.name for _, t in tables if t.replaces_rows))]

    def _deny_removals(self, removals: Iterable[tuple[TableName, str]]) -> Denied | None:
        """Deny to remove rows or columns of a table that the principal does not see, unless by name.

        Whoever sees a part of a table drops or replaces it by `drop` from a policy that lists it itself:
        `all` is given to see what masks and filters leave. Whoever sees nothing of it needs it likewise.
        """
        for name, removing in removals:
            access = self._find_removal_privilege(name, removing)
            resource = self._add_owner(table_resource(name), access) if access is not None else None
            if access is None or resource is None:
                continue
            decision = self._decide(resource, access)
            if not decision.allowed:  # RULE (drop-unseen-by-name)
                return Denied(
                    f"user {self.principal.user} does not see all rows and columns of table {name}, and "
                    f"this statement removes them: it needs {access} on the table, which a policy grants "
                    f"by listing `{access.removesuffix(BY_NAME)}`, not by `all` alone"
                )
        return None

    def _find_removal_privilege(self, name: TableName, access: str) -> str | None:
        """Return what removing rows of a table wants besides; None where the principal sees all of it."""
        table, view = self.catalog.table(name), self.view(name)
        if table is None or view is None:
            # It may be there before the statement: what policies say of the name tells then.
            filtered = self.engine.row_filter(self.principal, table_resource(name), self.context)
            sees_all = filtered is None and self._is_allowed(table_resource(name), "select")
            return None if sees_all else access + BY_NAME
        if table.kind is TableKind.VIEW:
            return None  # no rows go with it
        hidden = len(list_hidden_columns(table, view))
        if not hidden and not view.masks and view.row_filter is None:
            return None
        if hidden < len(table.columns) and access != "drop":
            return None  # in place: refused to whoever sees a part of it
        return access + BY_NAME

    def _may_hide_below(self, resource: Resource) -> bool:
        """Whether something in a database, or in one that lies in it, may be hidden from the principal: by a
        mask or a row filter, whoever it is for, or since not all of its columns may be selected."""
        every = [resource]
        catalog, database = (value for _, value in resource.elements[:2])
        if catalog.lower() != SESSION_CATALOG:
            every.append(Resource.table(catalog, f"{database}.*", ALL_TABLES))
        sees_all = all(self._is_allowed(tables.child("column", "*"), "select") for tables in every)
        # RULE (cascade-hidden-below, cascade-hidden-columns)
        return not sees_all or self.engine.may_be_hidden_below(resource)

    def hides_target(self, required: Required) -> bool:
        """Whether Spark's errors could name columns of a table that is written to and may not be read."""
        for written in required.written:
            view, table = self.view(written.table), self.catalog.table(written.table)
            if table is None or view is None:
                # Should it appear meanwhile, its columns are those of somebody else's table.
                if not self._is_allowed(table_resource(written.table), "select"):
                    return True
            elif view.hidden:
                return True
        return False

    def shows_all(self, names: Iterable[TableName]) -> bool:
        """Whether nothing of the tables is hidden from the principal or masked: a plan may print them."""
        for name in dict.fromkeys(name.fold() for name in names):
            view, table = self.view(name), self.catalog.table(name)
            if table is None or view is None:
                # Should it appear meanwhile, its columns are those of somebody else's table.
                if not self._is_allowed(table_resource(name), "select"):
                    return False
            elif view.hidden or view.masks or view.row_filter is not None:
                return False
        return True

    def _deny_hidden_names(self, required: Required) -> Denied | None:
        """Deny to name hidden columns, in the words for those that the table does not have."""
        for named in required.named:
            table = self.catalog.table(named.table)
            shown = self.selectable(table) if table is not None else ()
            if table is None or len(shown) == len(table.columns):
                continue
            known = {column.name.lower() for column in shown}
            if unknown := [name for name in named.columns if name.lower() not in known]:
                columns = ", ".join(f"select on column {named.table}.{name}" for name in unknown)
                return Denied(f"user {self.principal.user} needs {columns}, if the table has it")
        for written in required.written:
            view = self.view(written.table)
            if written.by_name and view is not None and view.hidden:
                return Denied(
                    f"user {self.principal.user} may not select every column of table {written.table}, so "
                    "rows can only be inserted by position, not by name: use INSERT INTO or insertInto"
                )
        return None

    def _deny_renames(self, required: Required) -> Denied | None:
        for old, new in required.renamed:
            table = self.catalog.table(old)
            owner = table.owner if table is not None else None
            if self.engine.would_rename_widen_access(table_resource(old, owner), table_resource(new, owner)):
                return Denied(
                    f"policies differ for {old} and {new}: somebody could do more with the table under the "
                    "new name; copy it with CREATE TABLE … AS SELECT instead"
                )
        return None

    def answer(self, required: Required, obliged_views: frozenset[TableName]) -> AnswerRule:
        """Complete the answer's rule with the columns of a described table that may be shown."""
        rule = required.answer
        if required.described is None:
            return rule
        view, table = self.view(required.described), self.catalog.table(required.described)
        if view is None or table is None:
            # It does not exist; should it appear meanwhile, nothing of it is shown.
            return replace(rule, columns=frozenset(), details=False)
        hidden = {name.lower() for name in list_hidden_columns(table, view)}
        plain = not hidden and not view.masks and view.row_filter is None  # RULE (described-details)
        return replace(
            rule,
            columns=frozenset(c.name.lower() for c in table.columns) - hidden,  # RULE (described-columns)
            details=plain and required.described.fold() not in obliged_views,  # RULE (described-view-details)
        )

    def holds(self, privilege: Privilege) -> bool:
        """Whether policies allow what would show more, without a record and without missing it."""
        return self._is_allowed(privilege.resource, privilege.access)

    def knows_of(self, resource: Resource) -> bool:
        """Whether the principal may know that a resource exists."""
        owned = self._add_owner(resource, ANY_ACCESS)
        return owned is not None and self._visible(owned)

    def _is_denied_below(self, resource: Resource) -> bool:
        """Whether some policy denies anything in the database to anybody: no statement touches all of it."""
        return self.engine.may_be_denied_below(resource)

    def _decide_columns(
        self, table: Table, view: TableView, wanted: frozenset[str], *, in_view: bool
    ) -> None:
        for column in table.columns:
            if column.name.lower() not in wanted:
                continue
            decision = view.allowed[column.name]
            self.decisions.append(decision)
            if not decision.allowed:  # RULE (missing-column)
                what = "every column that the view reads of table" if in_view else "column"
                where = f"{table.name}" if in_view else f"{table.name}.{column.name}"
                self.missing.append(f"select on {what} {where}")
        if not wanted:
            self.decisions.append(next(d for d in view.allowed.values() if d.allowed))

    def _is_reserved(self, url: Resource) -> bool:
        """Whether a path could lead to where the gateway keeps the checkpoints of streams, or above it."""
        return any(place.may_be_reached_by(url.elements[-1][1]) for place in self.reserved)

    def _is_of_files(self, resource: Resource) -> bool:
        """Whether a table lies in a database that is for tables made of files."""
        return (
            resource.kind == "table"
            and (resource.level("catalog") or "").lower() == SESSION_CATALOG
            and (resource.level("database") or "").lower() in self.catalog.file_databases
        )

    def _keep_off(self, resource: Resource, access: str, why: str) -> None:
        """Deny what is the gateway's own, whatever policies say of it."""
        request = AccessRequest(
            principal=self.principal, resource=resource, access=access, context=self.context
        )
        self.decisions.append(Decision(request=request, allowed=False, reason=why))
        self.missing.append(f"{access} on {resource.kind} {resource}, which cannot be granted: {why}")

    def _decide(self, resource: Resource, access: str) -> Decision:
        decision = self.engine.decide(
            AccessRequest(principal=self.principal, resource=resource, access=access, context=self.context)
        )
        self.decisions.append(decision)
        self.context_dependencies |= decision.context_dependencies
        return decision

    def _visible(self, resource: Resource) -> bool:
        return self._is_allowed(resource, ANY_ACCESS)

    def _is_allowed(self, resource: Resource, access: str) -> bool:
        allowed, context_dependencies = self.engine.allows(self.principal, resource, access, self.context)
        self.context_dependencies |= context_dependencies
        return allowed

    def _add_owner(self, resource: Resource, access: str) -> Resource | None:
        """Return a table with its owner; None when that is not known yet and makes a difference."""
        if resource.kind != "table" or resource.elements[-1][1] == "*":
            return resource
        name = TableName(*(value for _, value in resource.elements))
        if self.catalog.knows(name):
            table = self.catalog.table(name)
            return resource if table is None else replace(resource, owner=table.owner)  # RULE (table-owner)
        own = replace(resource, owner=self.principal.user)
        if all(self._is_allowed(own, a) == self._is_allowed(resource, a) for a in {access, ANY_ACCESS}):
            return resource
        self.unsure.add(name.fold())  # RULE (unknown-owner)
        return None


def function_privileges(
    functions: Iterable[FunctionRef], names: Names, *, short: bool = False
) -> tuple[Privilege, ...] | Unsupported:
    """Return execute on every persistent function that is called; they must be named in full, unless what is
    judged is written over them. `short`: the caller sees to that of names without their catalog."""
    required: list[Privilege] = []
    for function in functions:
        if is_builtin(function) or is_changes(function):
            required += code_privileges(function)
            continue
        if is_registered(function, names):
            # RULE (execute-registered-function)
            required.append(Privilege(Resource.udf("system", "session", function.parts[0]), "execute"))
            continue
        if short and find_short_function(function, names) is not None:
            continue
        name = names.new_table(function.parts)
        if isinstance(name, Ungovernable) and name.sqlstate:
            return name.refusal(quote_parts(function.parts))
        # RULE (function-full-name)
        if isinstance(name, Ungovernable) or len(function.parts) < 3 or name.parts != function.parts:
            return build_unknown_function_refusal(function, names.context)
        # RULE (execute-persistent-function)
        required.append(Privilege(Resource.udf(name.catalog, name.database, name.table), "execute"))
    return tuple(required)


def list_hidden_columns(table: Table, view: TableView) -> tuple[str, ...]:
    """Return the columns that may not be selected, as the table writes them, in its order."""
    return tuple([c.name for c in table.columns if c.name in view.hidden])


def masks_of(view: TableView) -> Mapping[str, ColumnMask]:
    """Return the masks of the columns that are shown."""
    # RULE (masks-of-shown-columns)
    return {name: mask for name, mask in view.masks.items() if name not in view.hidden}


def obligations_of(view: TableView) -> tuple[Obligation, ...]:
    masks = tuple(masks_of(view).values())
    return masks if view.row_filter is None else (*masks, view.row_filter)
