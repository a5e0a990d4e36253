"""The first contact with a session: its settings pinned, and what names mean in it learnt from Spark.

The session may be new in Spark, or one that lived on while the gateway was started anew. Of the latter the
current catalog and database are asked for. Its temporary views are not known: their names are pinned to the
catalog, so that they are out of reach until they are made again. Its cached relations are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from gateway.errors import BackendUnavailable
from gateway.model.meaning_settings import changed
from gateway.model.reading_settings import given
from gateway.model.statement import Client
from gateway.session.answers import split_name
from gateway.session.connect.asking import is_in_spark
from gateway.session.connect.execution import ConnectExecution
from gateway.session.connect.operation import BufferedAnswer
from gateway.session.connect.session import ConnectSession
from gateway.session.connect.spark_errors import spark_error
from gateway.session.ports import PlanBackend, RpcError
from gateway.wire import connect_calls
from gateway.wire.protobuf import ProtobufError

CURRENT_NAMESPACE = "SHOW CURRENT NAMESPACE"
_ABANDON_S = 10.0
"""How long Spark is waited for when it is told to forget a session that never came to be."""


async def attach(
    session: ConnectSession,
    observed: str,
    client: Client,
    *,
    backend: PlanBackend,
    execution: ConnectExecution,
    told_catalogs: Callable[[], Mapping[str, int]] = dict,
) -> None:
    """Make a session, which is locked, ready for plans. Raises RpcError, BackendUnavailable, SluiceErrors.

    `observed` is the server-side session that the client knows: Spark refuses when it is another one by now.
    `told_catalogs` are the catalogs that come and go, as Spark is told of them at this moment. What a first
    contact that fails has made in Spark, it takes away again.
    """
    try:
        await _attach(session, observed, client, backend, execution, told_catalogs)
    finally:
        if not session.attached and not observed:
            await _abandon(session, backend)


async def _abandon(session: ConnectSession, backend: PlanBackend) -> None:
    """Release a session in Spark; its client may come again with the same id."""
    request = connect_calls.release_session(session.key, allow_reconnect=True)
    with suppress(RpcError, BackendUnavailable, TimeoutError):
        async with asyncio.timeout(_ABANDON_S):
            await backend.call("ReleaseSession", request)


async def _attach(
    session: ConnectSession,
    observed: str,
    client: Client,
    backend: PlanBackend,
    execution: ConnectExecution,
    told_catalogs: Callable[[], Mapping[str, int]],
) -> None:
    if observed and not await is_in_spark(backend, session.key):
        # As Spark says it, which would make the session first and leave it there.
        raise spark_error("INVALID_HANDLE.SESSION_CHANGED", session.session_id)
    # INVARIANT (one reading): before the first text reaches Spark, it has said that it reads texts as the
    # reader does. What comes after goes to this session of this process or nowhere.
    told = frozenset(told_catalogs().items())
    opened = await backend.open_session(session.session_id, session.principal.user, observed)
    session.server_session, session.own_settings = opened.id, opened.own_settings
    # A session that lived on without us may have settings of its client's.
    settings = changed(opened.settings, opened.own_settings)
    # What is the same before and after was so when Spark was told. Of what a session that lived on had been
    # told before, nobody knows whether it is the same.
    told = frozenset(
        one for one in told & frozenset(told_catalogs().items()) if one[0] not in opened.known_catalogs
    )
    session.context = replace(session.context, settings=settings, catalogs=told)
    session.given_settings |= given(opened.settings, opened.own_settings)
    # A statement like any other: judged, recorded, and run under the client's name.
    kept = await execution.run_inside(session, execution.sql(session, CURRENT_NAMESPACE), client)
    catalog, namespace = _current(kept)
    session.context = replace(session.context, catalog=catalog, namespace=namespace)
    session.attached = True


def _current(kept: BufferedAnswer) -> tuple[str, tuple[str, ...]]:
    """Read the answer to SHOW CURRENT NAMESPACE: one row of a catalog and a namespace, quoted if need be."""
    position = kept.position("")
    while (data := kept.at(position)) is not None:
        position += 1
        try:
            arrow = connect_calls.rows_of_command(data)
            if arrow is None:
                continue
            with pa.ipc.open_stream(arrow) as reader:
                rows = [tuple(row.values()) for batch in reader for row in batch.to_pylist()]
        except (ProtobufError, pa.ArrowException, OSError, ValueError) as error:
            raise BackendUnavailable("Spark's current catalog and database could not be read") from error
        match rows:
            case [(str(catalog), str(namespace))]:
                parts = tuple(split_name(namespace))
                names = split_name(catalog)
                if parts and len(names) == 1:
                    return names[0], parts
    raise BackendUnavailable("Spark's current catalog and database could not be read")
