"""Answers of Spark Connect that list names or carry a relation, as the client may see them.

Everything here is pure: responses and Arrow bytes in, bytes out. An answer that does not have the
shape that Spark 4 is known to give it raises UnknownShape, and nothing of it may be shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from gateway.errors import BackendUnavailable
from gateway.model.catalog import TableName, split_name
from gateway.model.statement import AnswerFilter, AnswerRule
from gateway.session.answers import NONE_DESCRIBED, UnknownShape, Visible, filter_rows, list_extended_tables
from gateway.wire.connect_calls import rows_of_command
from gateway.wire.connect_responses import ArrowBatch, Response
from gateway.wire.protobuf import ProtobufError

_Arrow = Any  # type: ignore[explicit-any]  # pyarrow has no types

MAX_ROWS = 100_000
"""Rows of an answer that is filtered here, as `SessionLimits.answer_rows`."""
MAX_BYTES = 64 * 1024 * 1024
"""Arrow bytes of an answer that is filtered here. 100,000 rows of SHOW TABLES are about 8 MB."""

_ENVELOPES = frozenset({None, "execution_progress", "result_complete"})
"""Cases of a response that may stand between the batches of an answer; None has a schema or metrics only."""
_SENT_BACK = frozenset({"sql", "with_relations"})
"""What Spark answers a query in a SqlCommand with: the relation that it was sent."""


def filter_responses(
    rule: AnswerRule,
    responses: Sequence[bytes],
    visible: Visible,
    described: Mapping[TableName, AnswerRule] = NONE_DESCRIBED,
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
) -> list[bytes]:
    """Return the responses of one execution with the rows that `rule` lets the client see, serialized.

    `responses` are those from the first batch, or from the first one after a whole batch.
    A batch in chunks becomes one batch in the place of its last chunk, so whoever takes up the execution
    again after any response that was shown finds the next batch whole. Raises UnknownShape and ProtobufError.
    """
    answer = _FilteredAnswer(rule, visible, described, max_rows, max_bytes)
    if rule.filter is AnswerFilter.DESCRIBE_TABLE:  # RULE (description-in-batches)
        answer.take_together(row for rows in _read_batches(responses, max_rows, max_bytes) for row in rows)
    shown = [changed for data in responses if (changed := answer.take(Response(data))) is not None]
    answer.end()
    return shown


def tables_in_batches(
    rule: AnswerRule,
    responses: Sequence[bytes],
    visible: Visible,
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
) -> list[TableName]:
    """Return the tables in all responses of one execution of which it has to be found out what DESCRIBE would
    show. Raises UnknownShape and ProtobufError."""
    if rule.filter is not AnswerFilter.TABLE_EXTENDED:
        return []
    batches = _read_batches(responses, max_rows, max_bytes)
    return [table for rows in batches for table in list_extended_tables(rule, rows, visible)]


def tables_in_sql_result(
    rule: AnswerRule,
    response: bytes,
    visible: Visible,
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
) -> list[TableName]:
    """Return the tables in a response of a SqlCommand of which it has to be found out what DESCRIBE would
    show. Raises UnknownShape and ProtobufError."""
    data = Response(response).command_rows
    if rule.filter is not AnswerFilter.TABLE_EXTENDED or not data:
        return []
    return list_extended_tables(rule, _decode(data, max_rows, max_bytes)[1], visible)


def patch_sql_result(
    rule: AnswerRule,
    original_relation: bytes,
    response: bytes,
    visible: Visible,
    described: Mapping[TableName, AnswerRule] = NONE_DESCRIBED,
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
) -> bytes:
    """Return a response of a SqlCommand with the client's own relation in it, or its rows filtered.

    Spark answers a query with the relation that it was given, which is the guarded one: shown, it would tell
    the policies, and sent again it would be masked twice. `original_relation` is what the client sent.
    Commands are answered with rows. Raises UnknownShape and ProtobufError.
    """
    patched = Response(response)
    filtered = rule.filter is not AnswerFilter.RELAY
    if filtered:
        patched.drop_counts()
    if patched.case != "sql_command_result":
        if patched.case not in _ENVELOPES:
            raise UnknownShape("a response that a SQL command does not give")
        return patched.serialize()
    if patched.relation in _SENT_BACK:
        _put_original_relation(patched, original_relation)
    elif patched.relation != "local_relation":
        raise UnknownShape("a SQL command that is answered with neither rows nor its query")
    elif filtered and (data := patched.command_rows) is not None:
        schema, rows = _decode(data, max_rows, max_bytes)
        patched.replace_command_rows(_encode(schema, filter_rows(rule, rows, visible, described)))
    return patched.serialize()


def _put_original_relation(response: Response, original_relation: bytes) -> None:
    """Answer with the relation that the client sent; without one there is nothing that could be shown."""
    if not original_relation:
        raise UnknownShape("the answer to a query whose own relation is not known")
    try:
        response.replace_relation(original_relation)
    except ProtobufError as error:
        raise UnknownShape("the relation that the client sent cannot be read again") from error


def current_namespace(responses: Iterable[bytes]) -> tuple[str, tuple[str, ...]]:
    """Read the answer to SHOW CURRENT NAMESPACE: one row of a catalog and a namespace, quoted if need be.

    Raises BackendUnavailable.
    """
    try:
        for data in responses:
            if (arrow := rows_of_command(data)) is None:
                continue
            match _decode(arrow, 1, MAX_BYTES)[1]:
                case [(str(catalog), str(namespace))]:
                    names, parts = split_name(catalog), split_name(namespace)
                    if parts and len(names) == 1:
                        return names[0], parts
    except (ProtobufError, UnknownShape) as error:
        raise BackendUnavailable(_NOT_READ) from error
    raise BackendUnavailable(_NOT_READ)


_NOT_READ = "Spark's current catalog and database could not be read"


class _Batches:
    """Reads the batches of one execution, one response after the other."""

    def __init__(self, max_rows: int, max_bytes: int) -> None:
        self._rows_left = max_rows
        self._bytes_left = max_bytes
        self._chunks: list[bytes] = []

    def read(self, batch: ArrowBatch) -> tuple[_Arrow, list[tuple[object, ...]]] | None:
        """Return schema and rows of a batch with its last chunk; None before."""
        if batch.chunk != len(self._chunks):
            raise UnknownShape("chunks of a batch that are out of order")
        self._bytes_left -= len(batch.data)
        if self._bytes_left < 0:
            raise UnknownShape("a response that is too large to be filtered")
        self._chunks.append(batch.data)
        if len(self._chunks) < batch.chunks:
            return None
        data, self._chunks = b"".join(self._chunks), []
        schema, rows = _decode(data, self._rows_left, len(data))
        self._rows_left -= len(rows)
        if len(rows) != batch.rows:
            raise UnknownShape("a batch with another number of rows than announced")
        return schema, rows

    @property
    def within(self) -> bool:
        """Whether a batch has begun and not ended."""
        return bool(self._chunks)


def _read_batches(
    responses: Sequence[bytes], max_rows: int, max_bytes: int
) -> Iterator[list[tuple[object, ...]]]:
    """Yield the rows of each batch of one execution."""
    batches = _Batches(max_rows, max_bytes)
    for response in map(Response, responses):
        read = batches.read(response.batch) if response.case == "arrow_batch" else None
        if read is not None:
            yield read[1]


class _FilteredAnswer:
    """Filters the responses of one execution, one after the other."""

    def __init__(
        self,
        rule: AnswerRule,
        visible: Visible,
        described: Mapping[TableName, AnswerRule],
        max_rows: int,
        max_bytes: int,
    ) -> None:
        self._rule = rule
        self._visible = visible
        self._described = described
        self._batches = _Batches(max_rows, max_bytes)
        self._first: bool = True
        self._shown: int | None = 0
        """Rows shown so far; None when the batches before are not known."""
        self._together: Sequence[Sequence[object]] | None = None
        """Rows to show in place of those of all batches."""

    def take_together(self, rows: Iterable[tuple[object, ...]]) -> None:
        """Filter the rows of all batches at once, where a row is read by those before it, and show them in
        the place of the first: Spark puts the rows of a command into as many batches as it has cores."""
        self._together = filter_rows(self._rule, list(rows), self._visible, self._described)

    def take(self, response: Response) -> bytes | None:
        """Return what the client gets in the place of a response; None for a chunk before the last."""
        response.drop_counts()
        if response.case == "arrow_batch":
            return self._batch(response)
        if response.case not in _ENVELOPES or self._batches.within:
            raise UnknownShape("a response that does not belong to a list")
        return response.serialize()

    def end(self) -> None:
        if self._batches.within:
            raise UnknownShape("a response that ends within a batch")

    def _batch(self, response: Response) -> bytes | None:
        batch = response.batch
        read = self._batches.read(batch)
        if read is None:
            return None
        schema, rows = read
        if self._together is None:
            shown = filter_rows(self._rule, rows, self._visible, self._described)
        else:
            shown, self._together = list(self._together), ()
        if self._first and batch.start:
            self._shown = None
        self._first = False
        start = self._shown if batch.start is not None else None
        response.replace_batch(ArrowBatch(data=_encode(schema, shown), rows=len(shown), start=start))
        if self._shown is not None:
            self._shown += len(shown)
        return response.serialize()


def _decode(data: bytes, max_rows: int, max_bytes: int) -> tuple[_Arrow, list[tuple[object, ...]]]:
    """Return schema and rows of an Arrow stream of names, flags and lists of names. Raises UnknownShape."""
    if len(data) > max_bytes:
        raise UnknownShape("a response that is too large to be filtered")
    rows: list[tuple[object, ...]] = []
    try:
        with pa.ipc.open_stream(data) as reader:
            schema = reader.schema
            if not all(_is_plain(field.type) for field in schema):
                raise UnknownShape("a response whose column types are not those of a list of names")
            for batch in reader:
                batch.validate(full=True)
                if len(rows) + batch.num_rows > max_rows:
                    raise UnknownShape(f"it has more than {max_rows} rows")
                rows.extend(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise UnknownShape("a response whose rows cannot be read") from error
    return schema, rows


def _is_plain(kind: _Arrow) -> bool:
    if pa.types.is_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind))


def _encode(schema: _Arrow, rows: Sequence[Sequence[object]]) -> bytes:
    """Return the rows as an Arrow stream of the same schema, with one batch as Spark writes it."""
    columns = [pa.array([row[index] for row in rows], type=field.type) for index, field in enumerate(schema)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    data: bytes = sink.getvalue().to_pybytes()
    return data
