"""Rules of several Sparks: how each is taken out, and the tests that should notice."""

from __future__ import annotations

from tests.removals.operations import Always, Becomes, Deleted, Never
from tests.removals.removing import Removal

REMOVALS = (
    Removal(
        "backend-allowed",
        "nobody gets a session on a Spark that he may not use",
        Always(),
        "session.routing.test_choosing session.routing.test_thrift",
    ),
    Removal(
        "bound-backend-allowed",
        "nobody goes on with a session on a Spark that he may not use any more",
        Never(),
        "session.connect.test_routing",
    ),
    Removal(
        "session-backend-allowed",
        "no call makes a session on a Spark that its user may not use",
        Deleted(),
        "session.connect.test_routing",
    ),
    Removal(
        "plan-backend-allowed",
        "no plan begins in an open session on a Spark that its user may not use any more",
        Deleted(),
        "session.connect.test_routing",
    ),
    Removal(
        "reattach-backend-allowed",
        "nobody reads on from a Spark that he may not use any more",
        Deleted(),
        "session.connect.test_routing",
    ),
    Removal(
        "statement-backend-allowed",
        "no statement begins in an open session on a Spark that its user may not use any more",
        Deleted(),
        "session.routing.test_thrift",
    ),
    Removal(
        "metadata-backend-allowed",
        "no metadata call is answered from a Spark that its user may not use any more",
        Deleted(),
        "session.routing.test_thrift",
    ),
    Removal(
        "backend-refused-on-record",
        "who asks for a Spark that is not his is on record",
        Deleted(),
        "session.connect.test_routing session.routing.test_thrift",
    ),
    Removal(
        "first-bind-wins",
        "a session goes where it was bound first",
        Never(),
        "session.connect.test_routing",
    ),
    Removal(
        "moved-session-dropped",
        "a session that was moved meanwhile is not on two Sparks",
        Deleted(),
        "session.connect.test_routing",
    ),
    Removal(
        "moved-clone-dropped",
        "a clone that was moved meanwhile is not on two Sparks",
        Deleted(),
        "session.connect.test_routing",
    ),
    Removal(
        "drained-stays-drained",
        "a Spark that joins after it was drained gets no sessions",
        Deleted(),
        "session.routing.test_choosing",
    ),
    Removal(
        "refused-unbound",
        "who is refused a session leaves nothing in the store",
        Deleted(),
        "session.connect.test_routing",
    ),
    Removal(
        "lost-handle-closed",
        "a session whose client goes away while it is opened is closed",
        Deleted(),
        "session.routing.test_thrift",
    ),
    Removal(
        "sessions-open-no-breaker",
        "sessions of one user that fail close no Spark to others",
        Never(),
        "session.routing.test_choosing",
    ),
    Removal(
        "changes-of-a-metastore",
        "a change is known on each Spark of its metastore",
        Becomes("self._locks.catalogs[:1]"),
        "session.test_locks",
    ),
    Removal(
        "path-of-another-metastore",
        "the files of tables of another metastore are not read by a path",
        Becomes("()"),
        "app.test_spark_places",
    ),
    Removal(
        "path-of-missing-spark",
        "no path is used while a Spark that may have tables there is away",
        Never(),
        "app.test_spark_places",
    ),
    Removal(
        "files-of-one-spark",
        "files become tables where there is one Spark",
        Never(),
        "settings.test_several_sparks",
    ),
    Removal(
        "metalakes-of-one-spark",
        "catalogs come and go where there is one Spark",
        Never(),
        "settings.test_several_sparks",
    ),
)
