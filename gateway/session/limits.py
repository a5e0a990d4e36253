"""Bounds of the session service; every buffer, wait and count of it has one here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Defaults suit a gateway of a few hundred users."""

    session_idle_s: float = 3600.0
    """Seconds without a call before a session without a running statement is closed; HiveServer2's own
    default is 7 days."""
    operation_idle_s: float = 3600.0
    """Seconds without a call before an operation is closed: Spark keeps its whole result on the driver."""
    login_s: float = 60.0
    """Seconds in which Spark must have opened a session and carried out what begins it."""
    sessions_per_user: int = 200
    sessions: int = 5000
    operations_per_session: int = 200
    settle_timeout_s: float = 300.0
    """How long the next statement waits for one that changes the meaning of names."""
    catalog_wait_s: float = 30.0
    """How long a statement waits for others that change tables or views that it names, or that use those that
    it changes, before it is refused."""
    overtake_s: float = 5.0
    """How long a change of a table or view waits for statements that only read it and may not have been
    analysed yet; then what these answer is no longer shown."""
    statements: int = 100
    """Statements that Spark's Thrift Server is given at once; the default is that of
    `hive.server2.async.exec.threads`."""
    statements_waiting: int = 1000
    """Statements that wait until Spark has room for them."""
    spark_wait_s: float = 300.0
    """How long a statement waits for that."""
    poll_s: float = 5.0
    """How long the status of a statement that waits is asked for before it is told; Spark's own long poll."""
    stopped_s: float = 15.0
    """How long what a statement has changed, or relied on, counts as changing after Spark has stopped it
    half-way: it may still be at work in the metastore, and a cancel that comes while Spark plans is lost
    until it is closed."""
    unsettled_s: float = 60.0
    """The same where Spark did not say that it has stopped it."""
    end_results_on_policy_change: bool = False
    """Whether results that are open end when they would be others by changed policies; see OpenResults."""
    answer_rows: int = 100_000
    """Rows of an answer that the gateway filters itself, and of a metadata call."""
    fetch_rows: int = 1_000_000
    """Rows of one batch, whatever the client asks for; Spark builds a batch in memory."""
    catalog_rounds: int = 24
    """How often judging may ask for more of the catalog: views of views, each one level further."""
    verdicts_cached: int = 4096
    verdict_text_chars: int = 32_768
    """Longest statement whose verdict is kept; of a plan its bytes count."""
    policy_tables_s: float = 10.0
    """How old may be what a session of Spark knows of tables that masks and filters read."""
    verdict_age_s: float = 10.0
    """How long a clearance is used again: policies may end at a moment without a new version."""
    detached_s: float = 600.0
    """Seconds that an operation of Spark Connect waits for its client to come back or to release it; Spark
    itself gives it 5 minutes."""
    farewell_s: float = 1.0
    """Seconds after a client left such an operation before the gateway looks by itself how it ends."""
    stream_s: float = 120.0
    """How long a stream of an answer that the gateway holds lasts before the client has to come again, as
    Spark's own streams do: clients give each of theirs 10 minutes."""
    buffered_answer_bytes: int = 64 * 1024 * 1024
    """Bytes of answers of one Spark Connect session that the gateway holds, because they must be changed."""
    cached_plan_bytes: int = 64 * 1024 * 1024
    """Bytes of plans that one session keeps to judge its temporary views and cached relations again."""
    origins: int = 64
    """Statements that a cached relation was computed from, as far as they are remembered."""
    handles: int = 10_000
    """Cached relations and streaming queries of one session, and uploaded files that it may ask about."""
    error_ids: int = 256
    """Errors of one session whose details may be asked for."""
    tags: int = 64
    tag_chars: int = 256
    lookup_batch: int = 200
    """Tables that one look-up for GetColumns asks for."""
    close_timeout_s: float = 10.0
    """How long closing a session waits for Spark before the gateway forgets it."""
