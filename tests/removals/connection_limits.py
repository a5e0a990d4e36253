"""Rules of what is accepted before a login, and of files that become tables: how each is taken out, and the
tests that should notice."""

from __future__ import annotations

from tests.removals.operations import (
    Always,
    Argument,
    Becomes,
    Condition,
    Deleted,
    DropElement,
    DropOperand,
    Never,
    Statement,
    Uncalled,
)
from tests.removals.removing import Removal

REMOVALS = (
    Removal(
        "door-address-queue",
        "more of one address than may be at once wait",
        Never(),
        "frontends.test_connection_limits",
    ),
    Removal(
        "door-queue-bound",
        "who waits for others of an address is bounded",
        Always(),
        "frontends.test_connection_limits",
    ),
    Removal(
        "door-recent-stays",
        "who would take the place of one of its address who has just come waits, whichever bound it is",
        Statement("return False"),
        "frontends.test_connection_limits",
    ),
    Removal(
        "door-equal-addresses",
        "of addresses with as many strangers the one that wants a place makes it",
        Becomes("(len(strangers), False)"),
        "frontends.test_connection_limits",
    ),
    Removal(
        "door-queue-fair",
        "who waits leaves room for those of other addresses who wait",
        Always(),
        "frontends.test_connection_limits",
    ),
    Removal("door-silent-cut", "who says nothing is cut", Deleted(), "frontends.test_connection_limits"),
    Removal(
        "door-most-strangers-first",
        "who has most strangers makes room",
        Uncalled(),
        "frontends.test_connection_limits",
    ),
    Removal(
        "door-address-bound",
        "strangers of one address are bounded",
        DropElement(0),
        "frontends.test_connection_limits",
    ),
    Removal(
        "door-ipv6-network", "a network of IPv6 is one address", Always(), "frontends.test_connection_limits"
    ),
    Removal("door-pool-burst", "a pool logs in at once", Becomes("True"), "frontends.test_connection_limits"),
    Removal(
        "door-room-for-others",
        "one address leaves room for others, however fast it is",
        Never(),
        "frontends.test_connection_limits",
    ),
    Removal(
        "door-descriptors",
        "strangers leave descriptors for others",
        Uncalled(),
        "frontends.test_connection_limits",
    ),
    Removal(
        "has-session-asked-by-workers",
        "only other workers are told whose sessions are here",
        Never(),
        "frontends.test_sibling_calls",
    ),
    Removal(
        "door-grpc", "what comes to gRPC comes through the door", Never(), "frontends.test_connection_limits"
    ),
    Removal("recent-stamps", "stamps of just now are not relied on", DropOperand(3), "files.test_unlinked"),
    Removal("root-link", "a root that is a link may lead elsewhere", DropOperand(0), "files.test_unlinked"),
    Removal("directory-links", "directories below are looked at for links", Never(), "files.test_unlinked"),
    Removal(
        "directory-gone",
        "a directory that goes meanwhile does not end the look for links",
        Never(),
        "files.test_unlinked",
    ),
    Removal(
        "local-file-elsewhere",
        "local files that lie elsewhere than they are looked through are not read",
        Never(),
        "files.test_promotion",
    ),
    Removal(
        "csv-header",
        "no CSV is read by place whose header has other names",
        Deleted(),
        "files.test_names_and_formats",
    ),
    Removal(
        "link-walk-timeout", "a look for links that hangs ends", Argument(0, "None"), "files.test_unlinked"
    ),
    Removal(
        "stream-of-walked-files",
        "no stream goes on reading files that are looked through",
        Never(),
        "session.test_datasets",
    ),
    Removal(
        "link-come-meanwhile",
        "files among which a link has come are not read",
        Never(),
        "session.test_datasets",
    ),
    Removal(
        "broken-user-removed",
        "a user at fault keeps nobody in who was removed",
        Condition("reading.faults"),
        "frontends.test_users",
    ),
    Removal(
        "no-user-file",
        "what is no user file lets nobody in for ever",
        Statement("if self._unreadable:\n    ..."),
        "frontends.test_users",
    ),
    Removal(
        "files-settled",
        "files that are still written to are not read",
        Becomes("range(0)"),
        "session.test_settling",
    ),
)
