"""Runs a few rows' SELECT as somebody for the console: through a session like any client's, so that it is
judged, recorded with both names, and bounded like any other statement."""

from __future__ import annotations

from gateway.admin.requests import BadRequest
from gateway.console.routes import Viewer
from gateway.errors import SluiceError
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.session.operation import Batch
from gateway.session.routing.thrift import RoutedSessions
from gateway.session.service import Sessions
from gateway.wire import calls
from gateway.wire.messages import decode_reply
from gateway.wire.rows import decode_rows
from gateway.wire.tcli import TProtocolVersion

PROTOCOL = "console"
TIMEOUT_S = 60
MAX_BYTES = 1024 * 1024
_NEXT = 0
_QUERY_OUTPUT = 0


class _Collected:
    """Takes what is relayed, up to a bound."""

    slow = False

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        if len(self.data) + len(data) > MAX_BYTES:
            raise BadRequest(f"the rows have more than {MAX_BYTES} bytes")
        self.data += data

    async def drain(self) -> None:
        """Wait for nobody."""


async def run_sample(
    sessions: RoutedSessions, principal: Principal, viewer: Viewer, text: str, rows: int
) -> tuple[tuple[str, ...], list[tuple[str, ...]], str]:
    """Run a query as `principal`; return its column names, its first rows as texts, and its statement's id.

    Raises BadRequest where it is refused or fails, and what else opening a session raises.
    """
    acting = principal.user != viewer.user
    client = Client(
        address=viewer.address,
        protocol=PROTOCOL,
        application=PROTOCOL,
        real_user=viewer.user if acting else "",  # RULE (console-sample-recorded)
        real_id=viewer.principal.id if acting else "",
    )
    handle = await sessions.open_session(principal, client, protocol_version=TProtocolVersion.V10)
    of = sessions.of(handle)
    try:
        opened = await of.execute(principal, handle, text, run_async=False, timeout_s=TIMEOUT_S)
        schema = await of.schema(principal, opened.handle, opened.kind)
        names = tuple(column.columnName for column in schema.columns)
        statement = await of.statement_id(principal, opened.handle, opened.kind)
        return names, await _fetch(of, principal, opened.handle, opened.kind, rows), statement
    except SluiceError as error:
        raise BadRequest(error.text) from None
    finally:
        await of.close_session(principal, handle)


async def _fetch(
    of: Sessions, principal: Principal, handle: object, kind: int, rows: int
) -> list[tuple[str, ...]]:
    sink = _Collected()
    batch = await of.fetch(
        principal,
        handle,  # type: ignore[arg-type]
        kind,
        orientation=_NEXT,
        max_rows=rows,
        fetch_type=_QUERY_OUTPUT,
        seqid=1,
        sink=sink,
    )
    if isinstance(batch, Batch):
        return [tuple(map(_cell, row)) for row in batch.rows[:rows]]
    reply = decode_reply(bytes(sink.data[4:]), calls.TFetchResultsResp)
    found = decode_rows(reply.results) if reply.results is not None else []
    return [tuple(map(_cell, row)) for row in found[:rows]]


def _cell(value: object) -> str:
    return "NULL" if value is None else str(value)
