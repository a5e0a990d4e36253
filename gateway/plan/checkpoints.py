"""What a stream reads, in the order in which Spark numbers it: what its checkpoint belongs to.

A checkpoint keeps, for each source by its number, which files were read and are to be read next; Spark reads
them whatever source has the number now. So a checkpoint is bound to the sources in their order, and that
order comes from the relations with more than one input and from what they read. Relations with one input, and
expressions, change nothing of it: a stream may be given another projection and go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gateway.plan.walk_sources import TABLE_OPTIONS
from gateway.sql.required import Unsupported
from gateway.wire.connect import Message, pb, serialize

_OPTION = "checkpointlocation"
_ASIDE = frozenset(
    {"spark.connect.Expression", "spark.connect.RelationCommon", "spark.connect.ExpressionCommon"}
)
_OWN_ROWS = frozenset({"local_relation", "cached_local_relation", "chunked_cached_local_relation", "range"})
"""Relations whose rows the plan brings along."""

Leaf = Callable[[Message], str | Unsupported | None]
"""What a relation without inputs is, in words that are the same for the same; None: it is for this room."""


def location_option(start: pb.WriteStreamOperationStart) -> str | Unsupported | None:
    """Return the key under which a stream's start names a checkpoint's location; None when it names none."""
    keys = [key for key in start.options if key.lower() == _OPTION]
    if len(keys) > 1:  # RULE (checkpoint-one-location)
        return Unsupported("the option `checkpointLocation` is given more than once in different spellings")
    return keys[0] if keys else None


def sources_of(relation: pb.Relation, leaf: Leaf) -> tuple[str, ...] | Unsupported:
    """Return what a plan reads: its leaves, and the relations that put more than one together, from the top
    down and from the left to the right, so that the same answer means the same order of the same sources."""
    found: list[str] = []
    pending = [relation]
    while pending:
        one = pending.pop()
        inputs = list(_inputs(one))
        if len(inputs) == 1:
            pending.append(inputs[0])
        elif inputs:
            found.append(f"{one.WhichOneof('rel_type')} of {len(inputs)}")  # RULE (checkpoint-source-order)
            pending.extend(reversed(inputs))
        else:
            told = leaf(one)
            told = _leaf(one) if told is None else told
            if isinstance(told, Unsupported):
                return told
            found.append(told)
    return tuple(found)


def _inputs(relation: pb.Relation) -> Iterator[pb.Relation]:
    """Yield the relations that a relation is made of, in the order of its fields."""
    pending: list[Message] = [getattr(relation, relation.WhichOneof("rel_type") or "")]
    while pending:
        message = pending.pop()
        if isinstance(message, pb.Relation):
            yield message
            continue
        inside: list[Message] = []
        for descriptor, value in message.ListFields():
            kind = descriptor.message_type
            if kind is None or kind.full_name in _ASIDE or kind.GetOptions().map_entry:
                continue
            inside.extend(value if descriptor.is_repeated else (value,))
        pending.extend(reversed(inside))


def _leaf(relation: pb.Relation) -> str | Unsupported:
    case = relation.WhichOneof("rel_type")
    if case in _OWN_ROWS:
        return str(case)
    if case == "cached_remote_relation":  # RULE (checkpoint-over-cached)
        return Unsupported(
            "a cached relation exists in this session only, but a stream with a `checkpointLocation` can "
            "be resumed in another; read its source instead"
        )
    if case == "read" and relation.read.WhichOneof("read_type") == "data_source":
        return _files(relation.read)
    copy = type(relation)()
    copy.CopyFrom(relation)
    copy.ClearField("common")
    return f"{case} {serialize(copy).hex()}"


def _files(read: pb.Read) -> str:
    """Write what a data source reads, without how fast."""
    source = type(read.data_source)()
    source.CopyFrom(read.data_source)
    source.ClearField("schema")
    for key in list(source.options):
        if key.lower() in TABLE_OPTIONS:
            del source.options[key]
    return f"files {bool(read.is_streaming)} {serialize(source).hex()}"


def build_checkpoint_listing(directory: str) -> bytes:
    """Return the analysis that tells which checkpoints are in a directory: Spark lists, and reads nothing.

    Every stream writes a file `metadata` before anything else.
    """
    request = pb.AnalyzePlanRequest()
    files = request.input_files.plan.root.read.data_source
    files.format = "text"
    files.paths.append(f"{directory}/*/metadata")
    return serialize(request)
