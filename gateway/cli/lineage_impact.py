"""`sluice lineage COLUMN --impact`: what a change of a column, or a tag on it, would touch."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from gateway.cli.lineage_laundering import policies_of
from gateway.cli.policy_output import TYPES
from gateway.cli.terminal import BOLD, Terminal
from gateway.lineage.drawing import as_json
from gateway.lineage.graph import Carries, GraphAnswer
from gateway.lineage.propagation import PropagationNode, find_ids, nodes
from gateway.model.context import AccessContext
from gateway.model.lineage import DatasetKind
from gateway.model.policy import Policy
from gateway.model.resource import Resource
from gateway.policy.engine import engine_for
from gateway.policy.impact import Concern, by_tag, concerns
from gateway.settings import Settings

_ARRIVES = {
    Carries.VALUES: "values: a tag on it would follow",
    Carries.MASKED: "masked values",
    Carries.INFLUENCE: "nothing; it affects only which rows there are, or their order",
}


async def show_impact(
    connection: Any,
    settings: Settings,
    answer: GraphAnswer,
    arguments: argparse.Namespace,
    terminal: Terminal,
) -> None:
    """Tell the columns that it feeds, the policies and views that name it, and what a tag would change."""
    policies = await policies_of(connection, settings, arguments)
    engine, context = engine_for(policies), AccessContext(time=datetime.now(UTC))
    carried = [one.column for one in answer.reached if one.carries is Carries.VALUES]
    start = answer.start
    columns = [*start, *(one.column for one in answer.reached)]
    ids = await find_ids(connection, [(column.dataset, column.name) for column in columns])
    known = {node.column: node for node in (await nodes(connection, ids.values())).values()}
    views = sorted(
        {node.dataset for column, node in known.items() if node.kind == DatasetKind.VIEW.value}
        - {column.dataset for column in start}
    )
    of_start = [known[column] for column in start if column in known and _is_column(known[column])]
    concerned = [
        (node, one) for node in of_start for one in concerns(policies, engine, _resource(node), context)
    ]
    tagged: list[tuple[PropagationNode, Policy]] = []
    if arguments.tag:
        fed = [known[column] for column in carried if column in known and _is_column(known[column])]
        tagged = [
            (node, policy)
            for node in (*of_start, *fed)
            for policy in by_tag(engine, _resource(node), arguments.tag, context)
        ]
    if arguments.json:
        terminal.json(
            as_json(answer)
            | {
                "policies": [_concern_as_json(node, one) for node, one in concerned],
                "views": views,
                "by_tag": [{"column": str(node.column)} | _as_json(policy) for node, policy in tagged],
            }
        )
        return
    rows = [(str(one.column), one.distance, _ARRIVES[one.carries]) for one in answer.reached]
    terminal.table(("column", "steps", "what arrives"), rows, max_cell=120)
    if answer.cut_off:
        terminal.line(f"… {answer.cut_off}")
    _section(terminal, "views that read it", views)
    _section(terminal, "policies that name it", [_format_concern(node, one) for node, one in concerned])
    if arguments.tag:
        _section(
            terminal,
            f"policies that {arguments.tag} would apply to it, and to its descendants once the tag is "
            "accepted there",
            [f"{node.column}  {TYPES[policy.type]} `{policy.name}`" for node, policy in tagged],
        )


def _section(terminal: Terminal, title: str, lines: Iterable[str]) -> None:
    terminal.line(terminal.style(title, BOLD))
    for line in list(lines) or ["(none)"]:
        terminal.line(f"  {line}")


def _format_concern(node: PropagationNode, one: Concern) -> str:
    why = f", by its tag {one.tag}" if one.tag else f", in its text: {one.text}" if one.text else ""
    place = f"  {one.policy.place}" if one.policy.place is not None else ""
    return f"{node.name}  {TYPES[one.policy.type]} `{one.policy.name}`{why}{place}"


def _concern_as_json(node: PropagationNode, one: Concern) -> dict[str, Any]:
    return {"column": str(node.column), "tag": one.tag, "text": one.text} | _as_json(one.policy)


def _as_json(policy: Policy) -> dict[str, Any]:
    return {
        "policy": policy.name,
        "type": TYPES[policy.type],
        "service": policy.service,
        "place": None if policy.place is None else str(policy.place),
    }


def _is_column(node: PropagationNode) -> bool:
    kinds = (DatasetKind.TABLE.value, DatasetKind.VIEW.value)
    return node.kind in kinds and len(node.parts) == 3 and node.name != "*"


def _resource(node: PropagationNode) -> Resource:
    catalog, database, table = node.parts
    return Resource.table(catalog, database, table).child("column", node.name)
