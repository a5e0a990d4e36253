"""A blocking Spark Connect client that makes the calls of PySpark's statements and nothing beside them."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import grpc

from gateway.wire.connect import pb

SERVICE = "/spark.connect.SparkConnectService/"


class ConnectClient:
    """One connection with one session."""

    def __init__(self, port: int, token: str, user: str = "bench", session: str = "") -> None:
        self._stack = ExitStack()
        channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])
        self._stack.callback(channel.close)
        self._execute = channel.unary_stream(f"{SERVICE}ExecutePlan")
        self._release = channel.unary_unary(f"{SERVICE}ReleaseExecute")
        self._metadata = [("authorization", f"Bearer {token}")] if token else []
        self.session, self._user = session or str(uuid.uuid4()), user

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def select_one(self) -> None:
        """Run `SELECT 1` as a reattachable plan, release each response as it was read, and all at the end.

        Not before the end: a Spark that is quick to release breaks the stream that still waits for its end.
        """
        ids: dict[str, Any] = {"session_id": self.session, "operation_id": str(uuid.uuid4())}
        request = pb.ExecutePlanRequest(**ids)
        request.user_context.user_id = self._user
        request.plan.root.sql.query = "SELECT 1"
        request.request_options.add().reattach_options.reattachable = True
        release: Any = pb.ReleaseExecuteRequest(**ids)
        release.user_context.user_id = self._user
        rows = 0
        for data in self._execute(request.SerializeToString(), metadata=self._metadata):
            response = pb.ExecutePlanResponse.FromString(data)
            rows += response.arrow_batch.row_count
            if not response.HasField("result_complete"):
                release.release_until.response_id = response.response_id
                self._release(release.SerializeToString(), metadata=self._metadata)
        release.release_all.SetInParent()
        self._release(release.SerializeToString(), metadata=self._metadata)
        assert rows == 1, rows
