"""What the gateway looks at in Spark's responses, whoever reads them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import cast

from gateway.errors import BackendUnavailable
from gateway.wire import connect_peek as peeked
from gateway.wire.connect import ProtobufError, parse, pb
from gateway.wire.connect_peek import ResponsePeek, peek

_UNRESOLVED = (peeked.NONE, peeked.EXECUTION_PROGRESS)
"""Responses that may come before Spark has looked up the plan's names."""


def look_at(data: bytes) -> ResponsePeek:
    try:
        return peek(data)
    except ProtobufError:
        raise BackendUnavailable("Spark answered with bytes that are no response") from None


def closing(source: AsyncIterator[bytes]) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
    """Close an iterator of the backend, and with it the call, however its reading ends."""
    return (
        aclosing(cast(AsyncGenerator[bytes, None], source))
        if hasattr(source, "aclose")
        else nullcontext(source)
    )


def names_are_known(seen: ResponsePeek) -> bool:
    """Whether Spark has looked up all names of the operation that it answers so."""
    return seen.schema or seen.case not in _UNRESOLVED


def handles_in(seen: ResponsePeek, data: bytes) -> list[str]:
    """Return what a response gives an id to: `relation:ID` and `query:ID`."""
    if seen.case == peeked.CHECKPOINT_COMMAND_RESULT:
        result = parse(pb.ExecutePlanResponse, data).checkpoint_command_result
        return [f"relation:{result.relation.relation_id}"]
    if seen.case == peeked.WRITE_STREAM_OPERATION_START_RESULT:
        query = parse(pb.ExecutePlanResponse, data).write_stream_operation_start_result.query_id
        return [f"query:{query.id}", f"query:{query.run_id}"]
    if seen.case == peeked.STREAMING_QUERY_MANAGER_COMMAND_RESULT:
        managed = parse(pb.ExecutePlanResponse, data).streaming_query_manager_command_result
        queries = [*managed.active.active_queries]
        if managed.WhichOneof("result_type") == "query":
            queries.append(managed.query)
        return [f"query:{part}" for q in queries for part in (q.id.id, q.id.run_id)]
    return []
