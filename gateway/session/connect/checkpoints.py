"""Which checkpoints a user's location has, and what that means for a stream that is started with it."""

from __future__ import annotations

from dataclasses import replace

from gateway.model.statement import Checkpoint, Cleared, Refused, Statement, Verdict
from gateway.wire import connect_calls


def asking_for(statement: Statement, checkpoint: Checkpoint) -> Statement:
    """Return the gateway's own question for the checkpoints in a directory."""
    return replace(statement, text="", plan=None, checkpoint=checkpoint)


def listed_in(answer: bytes) -> frozenset[str]:
    """Return the names of the checkpoints that Spark's answer to that question has."""
    files = connect_calls.listed_files(answer)
    return frozenset(file.rsplit("/", 2)[-2] for file in files if file.count("/") > 1)


def with_those(cleared: Cleared, checkpoint: Checkpoint, known: frozenset[str]) -> Verdict:
    """Refuse a stream whose location has a checkpoint that began with something else.

    It could not use that one and would begin anew: all rows would come into its sink once more, or, as sinks
    of files leave out the numbers of batches that they have, none.
    """
    if not known or checkpoint.name in known:
        return cleared
    return Refused(
        statement=cleared.statement,
        code="CHECKPOINT_CHANGED",
        sqlstate="55000",
        message=f"the checkpoint at `{checkpoint.chosen}` began with other tables, files or policies than "
        "these, so this stream cannot go on with it; begin with another `checkpointLocation`, and a sink "
        "that has none of its rows",
        plan_class=cleared.plan_class,
        decisions=cleared.decisions,
        snapshot_version=cleared.snapshot_version,
    )
