"""The locks of jobs in PostgreSQL, one advisory lock each, and runs that were killed."""

from collections.abc import Callable
from typing import Any

LOCKS = 0x736C756A
"""First key of the advisory locks of jobs (`sluj` in ASCII); the second is a hash of the job's name."""
TAKEN = (
    f"l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = {LOCKS}::oid"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""Condition on `pg_locks l` that selects the locks of jobs, and of those who pause a job; `l.objid` is
`write_lock_condition` of a job's name."""
HELD = f"{TAKEN} AND l.mode = 'ExclusiveLock'"
"""The same for the locks of jobs that run."""
VERIFYING = "sluice-verify"
"""Name of the connections of `sluice audit verify`."""
MADE_UP_FOR = (
    "state = 'killed' AND lag(state) OVER (PARTITION BY job, whole ORDER BY id) IS DISTINCT FROM 'killed'"
)
"""Whether a run of `sluice.job_run` was killed and the one before it, of those that are as `whole`, was not:
as if it had not begun, it is made up for, once."""


def write_lock_condition(name: str) -> str:
    """Return the expression by which `pg_locks` has the lock of a job, given that for its name."""
    return f"(hashtext({name})::bigint & 4294967295)::oid"


async def keep_archive(connection: Any, told: Callable[[str], None]) -> None:
    """Keep the archive unchanged: no run of its job begins while the connection is open. Waits for one
    that runs, and tells so."""
    if await connection.fetchval("SELECT pg_try_advisory_lock_shared($1, hashtext('archive'))", LOCKS):
        return
    told("waiting for the run of `archive` to end")
    await connection.execute("SELECT pg_advisory_lock_shared($1, hashtext('archive'))", LOCKS)
