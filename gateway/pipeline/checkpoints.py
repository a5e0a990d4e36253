"""Where the checkpoint of a stream is: nowhere that its user can choose.

Spark reads the files that a checkpoint lists, and the rows that it holds, into whatever stream is started
with it. A checkpoint therefore belongs to its principal, to what the stream reads, and to what policies say
of that. All three are in its path, by digests, so that no gateway has to remember anything: a stream that
begins under another of them does not find it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence

from gateway.model.catalog import Table
from gateway.model.decision import RowFilter
from gateway.model.statement import Checkpoint, Cleared, Refused, ScanRecord, Verdict
from gateway.pipeline.guarded_plans import Guarding, build_lasting_query
from gateway.pipeline.judging import Judging, RewrittenStatement
from gateway.pipeline.plan_texts import PlanTexts
from gateway.pipeline.sources import ReadSources
from gateway.plan.checkpoints import location_option, sources_of
from gateway.plan.facts import PlanFacts
from gateway.plan.reading import PlanReading, StreamStart
from gateway.sql.required import Unsupported

FORM = 1
"""Form of what is digested: another number begins all checkpoints anew."""
_DIGITS = 40
_PERIOD = re.compile(r"REPEATABLE \(\d+\)")
"""What changes with time in a guard's text, and nothing else."""


def find_started_stream(reading: PlanReading) -> StreamStart | None:
    """Return the command that starts a stream, when the plan is one."""
    command = reading.command
    if command is None or command.WhichOneof("command_type") != "write_stream_operation_start":
        return None
    return command.write_stream_operation_start


def checkpoint_of(
    start: StreamStart,
    facts: PlanFacts,
    texts: PlanTexts,
    guarding: Sequence[Guarding],
    governed: Sequence[RewrittenStatement],
    sources: ReadSources,
    scans: Iterable[ScanRecord],
    judging: Judging,
) -> tuple[str, Checkpoint] | Unsupported | None:
    """Say where a stream's checkpoint is, and the option that it is written to; None for a stream without.

    To be asked before anything is written into the plan.
    """
    key = location_option(start)
    if key is None or isinstance(key, Unsupported):
        return key
    root = judging.rules.checkpoints
    if root is None:  # RULE (checkpoint-root)
        return Unsupported(
            "a checkpoint contains file names and unfiltered, unmasked rows, so Sluice stores it in a "
            "place of its own, and the operator has not set `sessions.checkpoints`"
        )
    if facts.temp_views or any(one.temp_views_read for one in governed):  # RULE (checkpoint-session-view)
        return Unsupported(
            "a temporary view exists in this session only, but a stream with a `checkpointLocation` can be "
            "resumed in another; read the view's source tables or files instead"
        )
    leaves = _leaves(texts, guarding, governed, sources, judging)
    streamed = sources_of(start.input, lambda relation: leaves.get(id(relation)))
    if isinstance(streamed, Unsupported):
        return streamed
    chosen = start.options[key]
    # INVARIANT (a name is nobody): who was removed and added again goes on with nothing of the first one's.
    who = judging.principal.identity  # RULE (checkpoint-identity)
    # RULE (checkpoint-sources, checkpoint-expression-policies)
    rest = [FORM, streamed, sorted(_obligations(scan) for scan in scans)]
    directory = f"{root.url.rstrip('/')}/{_name(FORM, who, chosen)}"  # RULE (checkpoint-principal)
    # RULE (checkpoint-one-stream)
    return key, Checkpoint(chosen=chosen, directory=directory, name=_name(*rest))


def refuse_other_checkpoint(cleared: Cleared, checkpoint: Checkpoint, known: frozenset[str]) -> Verdict:
    """Refuse a stream whose location has a checkpoint that began with something else; `known`: those it has.

    It could not use that one and would begin anew: all rows would come into its sink once more, or, as sinks
    of files leave out the numbers of batches that they have, none.
    """
    if not known or checkpoint.name in known:
        return cleared
    return Refused(
        statement=cleared.statement,
        code="CHECKPOINT_CHANGED",
        sqlstate="55000",
        message=f"the checkpoint at `{checkpoint.chosen}` was started with other tables, files or "
        "policies, so this stream cannot resume it; use another `checkpointLocation`, and a sink "
        "that has none of its rows",
        plan_class=cleared.plan_class,
        decisions=cleared.decisions,
        snapshot_version=cleared.snapshot_version,
    )


def _leaves(
    texts: PlanTexts,
    guarding: Sequence[Guarding],
    governed: Sequence[RewrittenStatement],
    sources: ReadSources,
    judging: Judging,
) -> dict[int, str]:
    """Return what tables and texts read, as guarded, by the identity of their relations."""
    found: dict[int, str] = {}
    for one in guarding:
        read = one.read.read
        # RULE (checkpoint-source-policies)
        told = [_table(one.table), read.streaming, read.changes, build_lasting_query(one, sources)]
        found[id(read.relation)] = f"table {_steady(json.dumps(told))}"
    for (text, _), guarded in zip(texts.statements, governed, strict=False):
        tables = [judging.snapshot.catalog.table(scan.table) for scan in guarded.scans]
        told = [guarded.text, [_table(table) for table in tables if table is not None]]
        found[id(text.relation)] = f"text {_steady(json.dumps(told))}"
    return found


def _table(table: Table) -> list[str | None]:
    """Return what makes a table this one, as far as Spark tells."""
    view = table.view.text if table.view is not None else None
    return [str(table.name.fold()), table.provider, table.location, view]  # RULE (checkpoint-target)


def _obligations(scan: ScanRecord) -> list[str]:
    told = [
        json.dumps(["", one.expression] if isinstance(one, RowFilter) else [one.column, one.expression])
        for one in scan.obligations
    ]
    return [str(scan.table.fold()), *sorted(told)]


def _steady(text: str) -> str:
    return _PERIOD.sub("REPEATABLE (0)", text)  # RULE (checkpoint-period)


def _name(*told: object) -> str:
    """Return a name that nothing else has. Spark, listing files, leaves out what begins with `_`."""
    return "_" + hashlib.sha256(json.dumps(told).encode()).hexdigest()[:_DIGITS]
