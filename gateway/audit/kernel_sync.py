"""Has the kernel put a file on the disk while the event loop goes on: `fdatasync` by Linux's own asynchronous
I/O, without a thread that would take turns with the loop for the interpreter.

Handing a write to a thread and hearing of it costs a gateway four times what the write itself does
(docs/adr/0049-the-kernel-syncs-the-record.md). Nothing else is asked of asynchronous I/O: writes into the
page cache are the caller's.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import select
import sys
from collections.abc import Callable

_NUMBERS = {
    "x86_64": (206, 207, 208, 209),
    "aarch64": (0, 1, 4, 2),
    "riscv64": (0, 1, 4, 2),
}
"""Numbers of io_setup, io_destroy, io_getevents and io_submit by machine: libc has no functions for them."""
_FDSYNC = 3
_TELLS_BY_RESFD = 1
_TRIAL_MS = 2000
"""How long a kernel may take for the first sync, by which it is known whether it has any."""

Synced = Callable[[OSError | None], None]
"""Told in the loop when a sync has ended, and by what error."""


class _SyncRequest(ctypes.Structure):
    """`struct iocb` of a little-endian machine."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_int32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("fd", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("resfd", ctypes.c_uint32),
    )


class _SyncEnd(ctypes.Structure):
    """`struct io_event`."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    )


class KernelSync:
    """One sync at a time, of any file. Belongs to one event loop; `start` makes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, synced: Synced, numbers: tuple[int, ...]) -> None:
        """Raises OSError where the kernel has no asynchronous I/O, or does not let us have any."""
        # Of these calls none waits, so the interpreter is not let go of for them.
        self._call = ctypes.PyDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._setup, self._destroy, self._get, self._submit = map(ctypes.c_long, numbers)
        self._synced = synced
        self._loop = loop
        self._context = ctypes.c_ulong(0)
        self._one = ctypes.c_long(1)
        self._ended = _SyncEnd()
        self._into = ctypes.byref(self._ended)
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._request = _SyncRequest(opcode=_FDSYNC, flags=_TELLS_BY_RESFD, resfd=self._bell)
        self._list = (ctypes.POINTER(_SyncRequest) * 1)(ctypes.pointer(self._request))
        try:
            self._require(self._call(self._setup, self._one, ctypes.byref(self._context)), 0)
        except OSError:
            os.close(self._bell)
            raise

    @classmethod
    def start(cls, loop: asyncio.AbstractEventLoop, synced: Synced, trial: int) -> KernelSync | None:
        """Make one that has synced the file `trial` once; None where that does not work: another system, a
        kernel or a sandbox without it."""
        numbers = _NUMBERS.get(platform.machine())
        if numbers is None or sys.platform != "linux" or sys.byteorder != "little":
            return None
        try:
            made = cls(loop, synced, numbers)
        except OSError:
            return None
        try:
            made._try_out(trial)
        except OSError:
            made._release()
            return None
        loop.add_reader(made._bell, made._take)
        return made

    def begin(self, fd: int) -> None:
        """Have what was written to `fd` put on the disk. Raises OSError; then nothing is told."""
        self._request.fd = fd
        self._require(self._call(self._submit, self._context, self._one, self._list), 1)

    def close(self) -> None:
        """Let go of the kernel's part. Nothing may be under way."""
        self._loop.remove_reader(self._bell)
        self._release()

    def _try_out(self, fd: int) -> None:
        self.begin(fd)
        waiting = select.poll()
        waiting.register(self._bell, select.POLLIN)
        if not waiting.poll(_TRIAL_MS):
            raise TimeoutError
        if (error := self._read_end()) is not None:
            raise error

    def _take(self) -> None:
        try:
            error = self._read_end()
        except OSError as fault:
            error = fault
        self._synced(error)

    def _read_end(self) -> OSError | None:
        os.eventfd_read(self._bell)
        self._require(self._call(self._get, self._context, self._one, self._one, self._into, None), 1)
        number = int(self._ended.result)
        return OSError(-number, os.strerror(-number)) if number < 0 else None

    def _require(self, answer: int, wanted: int) -> None:
        if answer != wanted:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def _release(self) -> None:
        self._call(self._destroy, self._context)
        os.close(self._bell)
