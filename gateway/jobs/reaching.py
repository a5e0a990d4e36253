"""A Spark Connect server that does not answer is told soon: pyspark by itself goes on trying for ten minutes,
in which a job can do nothing else, and cannot be stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.errors import BackendUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWER_S = 10.0
"""Seconds in which a server has to take a connection."""
RETRIES = 7
"""Retries of a call that the gateway no longer answers: for half a minute, so that a restart is bridged."""


def require_answer(url: str) -> None:
    """Raise BackendUnavailable where no server takes a connection. Raises errors of pyspark's where `url` is
    none."""
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    channel = DefaultChannelBuilder(url).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=ANSWER_S)
    except grpc.FutureTimeoutError:
        # What follows may be a token.
        raise BackendUnavailable(f"no answer at {url.partition('/;')[0]}") from None
    finally:
        channel.close()


def give_up_soon(session: SparkSession) -> None:
    """End a session's calls when its server stays away."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=10_000)])
