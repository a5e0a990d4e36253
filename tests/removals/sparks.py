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
        "files-of-main-metastore",
        "files become tables of the first Spark's metastore, and are looked at on all Sparks that have it",
        Becomes("None"),
        "app.test_spark_places",
    ),
    Removal(
        "files-of-a-metastore",
        "a table that is made of files is known on each Spark of its metastore",
        Becomes("()"),
        "app.test_spark_places",
    ),
    Removal(
        "files-of-another-metastore",
        "files where another metastore has a table become none",
        Never(),
        "files.test_promotion",
    ),
    Removal(
        "checkpoints-of-one-metastore",
        "streams of two metastores have no directory of checkpoints in common",
        Never(),
        "settings.test_several_sparks",
    ),
    Removal(
        "gone-unbound",
        "a client that goes away while its session is opened leaves it bound to no Spark",
        Deleted(),
        "session.connect.test_routing",
    ),
    Removal(
        "own-address-left-out",
        "a gateway is no Spark of its own",
        Becomes("addresses"),
        "app.test_discovering",
    ),
    Removal(
        "shown-user-of-session",
        "nothing about a session goes out under another user's token",
        Never(),
        "backends.test_user_identity",
    ),
    Removal(
        "uploads-of-one-user",
        "no upload goes to another user's session",
        Never(),
        "backends.test_user_identity",
    ),
    Removal(
        "refused-user-no-outage",
        "a user whom the gateway behind does not take closes it to nobody else",
        Never(),
        "backends.test_user_identity",
    ),
    Removal(
        "acts-as-session-user",
        "a login of the gateway's acts as the user of the session",
        Deleted(),
        "backends.test_spark_thrift",
    ),
    Removal(
        "session-of-whom-it-acts-as",
        "a session that Spark has opened as somebody else gets no statement",
        Never(),
        "backends.test_spark_thrift",
    ),
    Removal(
        "own-name-is-nobodys",
        "nobody is shown as the gateway itself",
        Never(),
        "app.test_user_tokens",
    ),
    Removal(
        "no-token-no-exchange",
        "who has shown no token gets none exchanged",
        Never(),
        "app.test_user_tokens",
    ),
    Removal(
        "no-token-none-passed-on",
        "who has shown no token has none passed on",
        Never(),
        "app.test_user_tokens",
    ),
    Removal(
        "keys-before-readiness",
        "what is behind checks tokens while the gateway starts",
        Becomes("{}"),
        "app.test_user_tokens",
    ),
    Removal(
        "unidentified-on-record",
        "the record says who got no session for want of an identity",
        Deleted(),
        "session.connect.test_spark_logins",
    ),
    Removal(
        "limit-of-cluster",
        "what other gateways have of a limit counts",
        Becomes("True"),
        "session.test_shares",
    ),
    Removal(
        "limit-share-not-kept",
        "a gateway does not push in before those who wait at another one",
        Deleted(),
        "session.test_shares",
    ),
    Removal(
        "limit-share-given-back",
        "a share that nobody uses goes back",
        Becomes("False"),
        "session.test_shares",
    ),
    Removal(
        "unidentified-thrift-on-record",
        "the record says who got no session of HiveServer2 for want of an identity",
        Deleted(),
        "session.test_service",
    ),
)
