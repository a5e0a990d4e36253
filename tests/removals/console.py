"""Rules of the web console: how each is taken out, and the tests that should notice."""

from __future__ import annotations

from tests.removals.operations import Always, Becomes, Deleted, Never
from tests.removals.removing import Removal

_EVERY = "console.test_every_route"
_LOGIN = "console.test_login"

REMOVALS = (
    Removal("console-role", "who has not the role is not answered", Never(), _EVERY),
    Removal("console-recorded", "nothing is answered that is not on record", Deleted(), _EVERY),
    Removal("console-refusal-recorded", "nor is a change on record that was not made", Never(), _EVERY),
    Removal("console-removed-user", "who was removed is logged in no more", Never(), _EVERY),
    Removal("console-csrf", "a change comes from a page of this session", Never(), _EVERY),
    Removal("console-host", "only the console's own names are answered", Never(), _EVERY),
    Removal("console-site", "pages of other sites ask nothing", Deleted(), _EVERY),
    Removal(
        "console-form-of-others", "what another site sends is shown nobody", Never(), "console.test_forms"
    ),
    Removal("console-login-csrf", "a login comes from our own page", Never(), _LOGIN),
    Removal(
        "console-session-fixation",
        "a login begins a session of its own",
        Becomes("old or new_secret()"),
        _LOGIN,
    ),
    Removal("console-redirect", "a login leads to our own pages", Becomes("True"), _LOGIN),
    Removal("oidc-state", "a provider's answer is to this browser's login", Never(), _LOGIN),
    Removal("oidc-nonce", "an ID token is of this login", Never(), _LOGIN),
    Removal("oidc-audience", "an ID token is for the console", Never(), _LOGIN),
    Removal(
        "console-download-ends",
        "a file ends where its reader may have it no more",
        Never(),
        "console.test_downloads",
    ),
    Removal("console-rate", "who asks too often waits", Never(), "console.test_guards"),
    Removal(
        "added-plain", "nobody unmasks from a service that is added", Never(), "policy.test_added_services"
    ),
    Removal("added-whole", "a service is added whole or not at all", Never(), "policy.test_added_services"),
    Removal("console-places", "nobody has all streams to himself", Becomes("False"), "console.test_guards"),
    Removal(
        "console-places-of-the-gone",
        "who has left keeps no place, and only he loses one",
        Never(),
        "console.test_guards",
    ),
    Removal("console-hidden-shown", "what is not seen in a text is shown", Never(), "console.test_display"),
    Removal("console-own-event", "events of others are for auditors alone", Never(), "console.test_events"),
    Removal("literals-hidden", "literals of others are replaced", Always(), "console.test_events"),
    Removal(
        "console-own-statement",
        "nobody cancels statements of others here",
        Never(),
        "console.test_live_and_mine",
    ),
)
