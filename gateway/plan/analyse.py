"""Column analysis of plans: which columns of which table a DataFrame uses, counted as for the same SQL.

An advisor, as the one for SQL is (gateway/sql/analyse.py), and as silent about what it is not sure of. It
never raises, and its time is linear in the size of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from gateway.model import catalog
from gateway.model.catalog import TableName
from gateway.plan import analyse_texts
from gateway.plan.analyse_expressions import Expressions
from gateway.plan.analyse_relations import INPUTS, Relations, local
from gateway.plan.analyse_scope import ColumnPlace, ColumnUsage, Node, PlanColumn, build_unknown_relation
from gateway.plan.analyse_texts import TextUse
from gateway.plan.reading import PlanReading, SqlText
from gateway.plan.references import ids_bound, names_bound
from gateway.sql.analyse import ScannedTable, Silent, Usage, has_stars
from gateway.sql.analyse_scope import GUESSED, OutputColumn, Unclear
from gateway.wire.connect import Message, pb

__all__ = ["TextUse", "analyse_plan"]

MAX_NESTED_SUBQUERIES = 20
"""Subqueries within subqueries; each is a level of recursion."""
MAX_DUPLICATES = 8
"""Relations of one plan_id, as in a join of a DataFrame with itself, that a column of it may be of."""

# Data that come from no table: what the client brings, ranges, functions, handles to earlier results.
_OPAQUE_LEAVES = frozenset(
    {"cached_local_relation", "chunked_cached_local_relation", "cached_remote_relation", "catalog"}
)

_COMMANDS: Mapping[str, str] = {
    "sql_command": "input",
    "write_operation": "input",
    "write_operation_v2": "input",
    "create_dataframe_view": "input",
    "write_stream_operation_start": "input",
    "checkpoint_command": "relation",
}
"""Commands that read a relation as a query does, and where it is."""
_ANALYSES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("schema", "explain", "tree_string", "is_local", "is_streaming", "input_files", "semantic_hash"),
        ("plan",),
    ),
    "same_semantics": ("target_plan", "other_plan"),
    **dict.fromkeys(("persist", "unpersist", "get_storage_level"), ("relation",)),
}


def analyse_plan(
    reading: PlanReading,
    tables: Mapping[int, ScannedTable],
    texts: Mapping[int, TextUse] | None = None,
    expressions: Mapping[int, TextUse] | None = None,
    findings: ColumnUsage | None = None,
) -> Usage | Silent:
    """Say which columns of its tables a plan uses, those of the SQL texts within it included.

    `tables` has for each position in `reading.tables` what is read there, with `name=None` for a temporary
    view; `texts` and `expressions` have what is known of the text at a position of `reading.texts` and
    `reading.expressions`. To be called before the plan is guarded. `findings`: what is found is noted there.
    """
    walk = _ColumnUsageWalk(reading, tables, texts or {}, expressions or {}, findings or ColumnUsage())
    try:
        outputs = walk.run()
        if walk.findings.unclear is not None:
            raise walk.findings.unclear
    except (Unclear, RecursionError) as error:
        nested = "the plan is nested too deeply for column analysis"
        return Silent(error.why if isinstance(error, Unclear) else nested, stars=walk.has_stars())
    return walk.usage(outputs)


class _ColumnUsageWalk:
    """One walk over one plan."""

    def __init__(
        self,
        reading: PlanReading,
        tables: Mapping[int, ScannedTable],
        texts: Mapping[int, TextUse],
        expressions: Mapping[int, TextUse],
        findings: ColumnUsage,
    ) -> None:
        self.reading = reading
        self.tables = {id(reading.tables[i].relation): table for i, table in tables.items()}
        self.texts = {id(text.relation): (text, texts.get(i)) for i, text in enumerate(reading.texts)}
        self.scanned = [
            scan
            for scans in (
                tables.values(),
                *(use.scans for use in texts.values()),
                *(use.scans for use in expressions.values()),
            )
            for scan in scans
        ]
        self.findings = findings
        uses = {id(reading.expressions[i].message): use for i, use in expressions.items()}
        self.expressions = Expressions(self.findings, uses, self._by_plan_id, self._subquery)
        self.relations = Relations(self.findings, self.expressions, self.relation)
        self.references: dict[int, pb.Relation] = {}
        """The relations that subqueries refer to by their plan_id."""
        self.aliases: dict[str, pb.Relation] = {}
        self.made: list[tuple[pb.Relation, Node]] = []
        self.nodes: dict[int, list[Node]] = {}
        """Relations by their plan_id, as far as `made` was looked through."""
        self.indexed = 0
        self.depth = 0
        self.complete = True

    # ---------------------------------------------------------------- the whole plan

    def has_stars(self) -> bool:
        """Whether stars or patterns of columns are in the plan, or in an expression's text."""
        of_plan = any(column.star for column in self.reading.columns)
        return of_plan or any(has_stars(use.references) for use in self.expressions.texts.values())

    def run(self) -> list[PlanColumn]:
        """Walk the plan and show what it shows; return its columns."""
        roots = self._roots()
        nodes = [self.relation(root, None) for root in roots]
        for node in nodes:
            self.findings.show(node.columns)
        if not self.scanned and not any(use and use.usage for _, use in self.texts.values()):
            raise Unclear("nothing is read")
        self.complete = all(node.complete for node in nodes)
        return [column for node in nodes for column in node.columns]

    def _roots(self) -> list[pb.Relation]:
        reading = self.reading
        if isinstance(reading.message, pb.AnalyzePlanRequest):
            if reading.analysis not in _ANALYSES:
                raise Unclear("nothing is read")
            analysis = getattr(reading.message, reading.analysis)
            found = [getattr(analysis, name) for name in _ANALYSES[reading.analysis]]
            return [item.root if _is_plan(item) else item for item in found]
        if reading.command is None:
            return [reading.message.root]
        case = reading.command.WhichOneof("command_type") or ""
        if case not in _COMMANDS:
            raise Unclear(f"column analysis does not read {case}")
        return [getattr(getattr(reading.command, case), _COMMANDS[case])]

    def usage(self, outputs: list[PlanColumn]) -> Usage:
        findings = self.findings
        names = {scan.name for scan in self.scanned if scan.name is not None}
        for _, use in self.texts.values():
            if use is not None and isinstance(use.usage, Usage):
                names.update(use.usage.columns)
        return Usage(
            columns=_by_table(findings.used, names),
            named=_by_table(findings.named, names),
            computed=_by_table(findings.computed, names),  # RULE (usage-passed-on)
            stars=frozenset(findings.stars),
            outputs=tuple([OutputColumn(column.name, column.origins) for column in outputs]),
            words=frozenset(findings.words),
            complete=self.complete,
        )

    # ---------------------------------------------------------------- relations

    def relation(self, root: pb.Relation, outer: ColumnPlace | None) -> Node:
        """Walk a relation and those that it reads, without recursion, and return its columns."""
        order: list[tuple[pb.Relation, str, Message]] = []
        stack = [root]
        while stack:
            relation = stack.pop()
            case: str = relation.WhichOneof("rel_type") or ""
            message: Message = getattr(relation, case) if case else relation
            order.append((relation, case, message))
            names = INPUTS.get(case, ())
            if case == "with_relations":
                self._bind(relation.with_relations)
            if case == "group_map" and not relation.group_map.HasField("initial_input"):
                names = names[:1]
            stack += [getattr(message, name) for name in names]
        self.findings.count(len(order))
        results: list[Node] = []
        made, walk = self.made, self.relations.walk
        for relation, case, message in reversed(order):
            reads = INPUTS.get(case)
            if reads is None:
                node = self._leaf(relation, case)
            else:
                count = len(reads)
                if case == "group_map" and not relation.group_map.HasField("initial_input"):
                    count = 1
                inputs = results[-count:]
                del results[-count:]
                node = walk(case, message, inputs, outer)
            results.append(node)
            made.append((relation, node))
        return results[0]

    def _leaf(self, relation: pb.Relation, case: str) -> Node:
        if case in ("read", "relation_changes"):
            return self._table(relation, case)
        if case == "sql":
            return self._text(relation)
        if case == "range":
            return Node([PlanColumn("id", (), frozenset())])
        if case == "local_relation":
            return local(relation.local_relation.schema)
        if case in _OPAQUE_LEAVES:
            return build_unknown_relation()
        if case == "unresolved_table_valued_function":
            return self._call(relation.unresolved_table_valued_function.arguments)
        if case == "common_inline_user_defined_table_function":
            return self._call(relation.common_inline_user_defined_table_function.arguments)
        raise Unclear(f"column analysis does not understand {case or 'an empty relation'}")

    def _call(self, arguments: Sequence[pb.Expression]) -> Node:
        self.expressions.compute(arguments, ColumnPlace(build_unknown_relation()))
        return build_unknown_relation()

    def _table(self, relation: pb.Relation, case: str) -> Node:
        table = self.tables.get(id(relation))
        if table is None:
            if case == "read" and relation.read.WhichOneof("read_type") == "data_source":
                return build_unknown_relation()
            raise Unclear("a table is not known")
        if table.name is None:
            return build_unknown_relation(tuple([part.lower() for part in table.parts]))
        node = _whole(table.name, _TableColumns(table.columns), table.guessed)
        self.findings.count(len(node.columns))
        if case == "relation_changes":
            return Node(node.columns, complete=False, open=((),))
        return node

    def _text(self, relation: pb.Relation) -> Node:
        text, use = self.texts.get(id(relation), (None, None))
        if text is None or use is None:
            raise Unclear("an SQL text was not read")
        arguments = [*relation.sql.pos_arguments, *relation.sql.named_arguments.values()]
        self.expressions.compute(arguments, ColumnPlace(build_unknown_relation()))
        aliases = {name: self._apply_alias(name) for name in sorted(text.aliases) if _mentions(text, name)}
        return analyse_texts.query(text.text, use, aliases, self.findings)

    # ---------------------------------------------------------------- references by id and by alias

    def _bind(self, message: pb.WithRelations) -> None:
        """Bind what stands beside a relation; it is walked where it is used, within the place of its use."""
        self.references.update(ids_bound(message))
        self.aliases.update((name.lower(), reference) for name, reference in names_bound(message))

    def _apply_alias(self, name: str) -> Node:
        if name not in self.aliases:
            raise Unclear(f"`{name}` is bound nowhere")
        return self._walk_nested(self.aliases[name], None)

    def _subquery(self, plan_id: int, place: ColumnPlace) -> Node:
        reference = self.references.get(plan_id)
        if reference is None:
            raise Unclear("a subquery refers to a relation that is not beside it")
        return self._walk_nested(reference, place)

    def _walk_nested(self, relation: pb.Relation, place: ColumnPlace | None) -> Node:
        self.depth += 1
        if self.depth > MAX_NESTED_SUBQUERIES:
            raise Unclear("the plan has too many subqueries within subqueries for column analysis")
        node = self.relation(relation, place)
        self.depth -= 1
        return node

    def _by_plan_id(self, plan_id: int) -> list[Node]:
        nodes = self.nodes
        for relation, node in self.made[self.indexed :]:
            nodes.setdefault(relation.common.plan_id, []).append(node)
        self.indexed = len(self.made)
        found = nodes.get(plan_id, [])
        if not found:
            raise Unclear("a column is of a relation that is not in the plan")
        if len(found) > MAX_DUPLICATES:
            raise Unclear("a relation occurs too often in the plan")
        return found


class _TableColumns:
    """The columns of a table in one snapshot, told from others by identity: they are compared often."""

    __slots__ = ("columns",)

    def __init__(self, columns: tuple[catalog.Column, ...]) -> None:
        self.columns = columns

    def __hash__(self) -> int:
        return id(self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TableColumns) and self.columns is other.columns


@lru_cache(maxsize=1024)
def _whole(table: TableName, of: _TableColumns, guessed: frozenset[str]) -> Node:
    """Return a table as a relation. Nobody changes a relation, so it serves every plan."""
    name = table.fold()
    qualifier = name.parts
    shows = frozenset({table})
    names = [(column.name.lower(),) * 2 for column in of.columns]
    names += [(word, GUESSED + word) for word in sorted(guessed)]
    return Node([PlanColumn(word, qualifier, frozenset({(table, column)}), shows) for word, column in names])


def _is_plan(message: Message) -> bool:
    return bool(message.DESCRIPTOR.name == "Plan")


def _mentions(text: SqlText, name: str) -> bool:
    return name in text.text.lower()


def _by_table(found: set[tuple[TableName, str]], tables: set[TableName]) -> dict[TableName, frozenset[str]]:
    # By identity first: a name's hash is made anew each time, and columns of one table share its name.
    alike: dict[int, tuple[TableName, list[str]]] = {}
    for table, column in found:
        known = alike.get(id(table))
        if known is None:
            alike[id(table)] = (table, [column])
        else:
            known[1].append(column)
    columns: dict[TableName, set[str]] = {table: set() for table in tables}
    for table, names in alike.values():
        columns.setdefault(table, set()).update(names)
    return {table: frozenset(names) for table, names in columns.items()}
