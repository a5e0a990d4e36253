"""Becomes another program, as an unprivileged user, that the kernel kills when its parent dies.

Run as a script, it is the step between fork and exec of the embedded Spark:
`python -I -S parent_watchdog.py PARENT_PID UID GID DIRECTORY PROGRAM ARGUMENT…`; a UID of −1 keeps the user.
A script of its own because code between fork and exec of a threaded process may deadlock, and because a kill
signal that was asked for before a change of user is forgotten by the kernel (prctl(2), PR_SET_PDEATHSIG).

The kernel means the parent's *thread*: start it from one that lives as long as the gateway, the event loop's.
Only Linux has this; elsewhere a gateway that is killed with SIGKILL leaves its Spark behind.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
EXIT_ORPHANED = 75


def main(argv: list[str]) -> None:
    """Drop privileges, tie the process to its parent, and exec. Never returns."""
    parent, uid, gid = (int(number) for number in argv[:3])
    directory, program = argv[3:5]
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        # The parent died before the watchdog was there: nobody would ever stop this process.
        sys.exit(EXIT_ORPHANED)
    os.umask(0o077)
    os.chdir(directory)
    os.execv(program, argv[4:])  # noqa: S606 no shell is the point


if __name__ == "__main__":
    main(sys.argv[1:])
