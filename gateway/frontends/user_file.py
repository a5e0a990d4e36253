"""The users in force: the user file is read at start, and again when it changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path

import structlog

from gateway.errors import Faults, UnreadableFiles
from gateway.frontends.users import User, Users, read_usable_users, read_users
from gateway.model.principal import Principal
from gateway.session.settling import wait_until_settled

_log = structlog.get_logger(__name__)

NOBODY: Users = {}
MAX_STALE_S = 900.0
"""Seconds that users stay in force whose file cannot be read, or is no user file, any more."""


class UserFile:
    """The users in force: read at start, read again when the file changes.

    An entry with faults holds no other back: its user is out until it is mended. A file that cannot be read,
    or is no user file, keeps the last good users for `max_stale_s`: somebody may have been removed from it,
    and after that nobody logs in.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_stale_s: float = MAX_STALE_S,
        removed: Callable[[Collection[str]], Awaitable[None]] | None = None,
        changed: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`removed` hears of users who were in the file and are no longer, and then `changed` that others are
        in force."""
        self._path = path
        self._removed = removed or _nobody_hears
        self._changed = changed
        self._is_news = False
        """Whether other users are in force than `changed` has heard of."""
        self._lock = asyncio.Lock()
        self._max_stale_s = max_stale_s
        self._clock = clock
        self._stamp: tuple[int, int, int, int] | None = _stamp(path)
        self._users: Users = read_users(path)
        self._principals: tuple[Users, Mapping[str, Principal]] = ({}, {})
        self._at_fault_since_s: float | None = None
        """Only a good file ends that: somebody may have been removed."""
        self._unreadable = False
        """Whether the file could not be read at the last look."""
        self._looking_since_s: float | None = None
        """Set while a look goes on: one that never ends is as good as none."""
        self._gone = frozenset[str]()
        """Who is no longer in the file, and of whom `removed` has not heard."""
        self.faults: tuple[str, ...] = ()
        """What is wrong with the file as it is now."""

    @property
    def users(self) -> Users:
        """Everybody who may log in now; nobody, while the file could not be taken for too long."""
        return NOBODY if self.stale() is not None else self._users

    def stale(self) -> str | None:
        """Return why nobody may log in now, or None."""
        why = "could not be read" if self._unreadable else "has been invalid"
        for since_s, told in ((self._looking_since_s, "could not be read"), (self._at_fault_since_s, why)):
            if since_s is not None and self._clock() - since_s > self._max_stale_s:
                return f"the user file {told} for {self._max_stale_s:g} s"
        return None

    @property
    def principals(self) -> Mapping[str, Principal]:
        """Everybody in the file, by name."""
        if self._principals[0] is not self.users:
            self._principals = (self.users, {name: user.principal for name, user in self.users.items()})
        return self._principals[1]

    def look(self) -> bool:
        """Read the file again if it has changed; True when other users are in force now."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return False
        try:
            users, faults = read_usable_users(self._path)
        except Faults as error:
            # One that cannot be read is looked at again and again: who may read a file is not in its stamp.
            self._unreadable = isinstance(error, UnreadableFiles)
            self._stamp = None if self._unreadable else stamp
            self._at_fault()  # RULE (no-user-file)
            self._tell("users_not_reloaded", error.faults)
            return False
        self._gone |= {name for name, user in self._users.items() if not _is_same(user, users.get(name))}
        self._users = users
        self._is_news = True
        self._stamp, self._at_fault_since_s, self._unreadable = stamp, None, False
        self._tell("users_at_fault", faults)
        _log.info("users_reloaded", users=len(users))
        return True

    def _at_fault(self) -> None:
        if self._at_fault_since_s is None:
            self._at_fault_since_s = self._clock()

    def _tell(self, event: str, faults: tuple[str, ...]) -> None:
        """Log what is wrong with the file, once for the same faults."""
        if faults and faults != self.faults:
            _log.error(event, faults=list(faults))
        self.faults = faults

    async def refresh(self) -> None:
        """Look at the file now; who hears of changes has heard of them when this returns."""
        async with self._lock:
            self._looking_since_s = self._clock()
            try:
                await wait_until_settled(lambda: _stamp(self._path), self._stamp)
                await asyncio.to_thread(self.look)
            except Exception:
                self._at_fault()
                raise
            finally:
                self._looking_since_s = None
            if gone := self._gone:
                await self._removed(gone)
                self._gone -= gone
            if self._is_news and self._changed is not None:
                self._is_news = False
                await self._changed()

    async def run(self, every_s: float) -> None:
        """Look at the file now and then, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.refresh()
            except Exception:  # noqa: BLE001 - a task's root: no file and no ending may stop the looking
                _log.exception("users_broke")
                self.faults = ("checking the user file failed; the log has the details",)


def _is_same(user: User, now: User | None) -> bool:
    """Whether a user is still there, and not somebody else under the name."""
    return now is not None and now.principal.id == user.principal.id


async def _nobody_hears(_: Collection[str]) -> None:
    pass


def _stamp(path: Path) -> tuple[int, int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0, 0)
    # The second time changes even when somebody sets the first.
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
