"""Rules of the console's pages of policies: how each is taken out, and the tests that should notice."""

from __future__ import annotations

from tests.removals.operations import Always, Becomes, Condition, Deleted, DropOperand, Never
from tests.removals.removing import Removal

ACCESS, POLICIES, DRAFTS = (
    f"console.pages.test_{name}" for name in ("table_access", "policies", "policy_drafts")
)
DIRECTORY = "policy.test_directory"

REMOVALS = (
    Removal("console-own-items", "of a policy one sees what it says of oneself", Always(), DIRECTORY),
    Removal(
        "console-policy-sight",
        "a list has what the viewer may see",
        DropOperand(1),
        f"{DIRECTORY} {POLICIES}",
    ),
    Removal("console-delegate-covers", "a delegate administers all that a policy covers", Never(), DIRECTORY),
    Removal(
        "console-own-report",
        "of oneself one sees what one may know",
        Becomes("report"),
        f"policy.test_table_report {ACCESS}",
    ),
    Removal(
        "console-own-policies",
        "what denies a column is not named to whom it is denied",
        Becomes("one.settled"),
        "policy.test_table_report",
    ),
    Removal("console-others-access", "others' views are for officers and delegates", Becomes("True"), ACCESS),
    Removal("console-judged-text", "texts that Spark would get are for officers", Always(), ACCESS),
    Removal(
        "console-sample-right",
        "a sample is taken as whom one may act",
        Becomes("Principal(user=asked.user)"),
        ACCESS,
    ),
    Removal("console-own-sample", "a sample is seen by who took it", DropOperand(1), ACCESS),
    Removal(
        "console-who-oracle",
        "whom else a policy names cannot be tried out",
        Becomes("sight.may_see"),
        POLICIES,
    ),
    Removal(
        "console-cursor-names",
        "where a page ends names no policy of others",
        Becomes("encode_cursor(*after)"),
        POLICIES,
    ),
    Removal(
        "console-policy-names",
        "a policy that only takes away is not told to whom may not know what it names",
        DropOperand(1),
        POLICIES,
    ),
    Removal(
        "console-owner-names",
        "what owners are given is named to who may know of it",
        Condition("any(names_subject(item, self.subject) for item in policy.allow)"),
        POLICIES,
    ),
    Removal("console-own-drafts", "drafts are listed to their owners", Becomes("None"), DRAFTS),
    Removal("console-draft-target", "a draft is of what one may write", Deleted(), DRAFTS),
    Removal("console-draft-sight", "a draft is seen by its owner", Condition("draft is None"), DRAFTS),
    Removal("console-draft-compared", "what is not one's to write is not compared", Deleted(), DRAFTS),
    Removal("console-draft-impact", "the record is for auditors", DropOperand(1), DRAFTS),
    Removal(
        "console-sample-recorded", "who takes a sample is recorded", Becomes("''"), "app.test_console_samples"
    ),
)
