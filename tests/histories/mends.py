"""The mends of issue 9, and how each is taken out: its history must fail then.

`python -m tests.histories mends` starts a gateway without each, one after the other, and runs its history.
The way is that of `tests/removals/removing.py`.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping, Sequence

from tests.removals.operations import Argument, Becomes, DropArgument, DropOperand, Literal, Never
from tests.removals.pipeline import REMOVALS
from tests.removals.removing import Removal, changed

_RULES = {removal.name: removal for removal in REMOVALS}

MENDS: Mapping[int, Sequence[Removal]] = {
    2: (_RULES["policy-identities"],),
    3: (Removal("varying-not-cached", "what varies is not cached", Never(), "3-frozen-filters"),),
    4: (Removal("collation-beside-policies", "no collation reaches a policy", Never(), "4-collations"),),
    5: (Removal("personal-view-written-out", "views ask for who reads them", DropOperand(3), "5-who-asks"),),
    6: (
        Removal(
            "read-by-definer",
            "a view is read by the access of its definer",
            Becomes("Rights(readers=readers, accessors=(), view=view.name)"),
            "6-views-outlive-denials",
        ),
    ),
    7: (
        Removal(
            "policy-tables-looked-at",
            "sessions look again at what policies read",
            Never(),
            "7-open-sessions",
        ),
    ),
    8: (Removal("hidden-columns-absent", "hidden columns are not there", Never(), "8-hidden-columns"),),
    12: (
        Removal(
            "checkpoint-one-stream",
            "a checkpoint is of one stream only",
            Argument(3, "FORM"),
            "12-reused-checkpoints",
        ),
    ),
    13: (
        Removal(
            "names-held",
            "what was judged and what changes hold their names, and the catalog forgets what changes",
            Becomes("Hold(None, request)"),
            "13-a-window-for-others",
        ),
    ),
    14: (
        Removal("new-name-opens-nothing", "a new name opens nothing", DropOperand(1), "14-what-alter-opens"),
        Removal("renaming-reads", "renaming reads", DropArgument(0), "14-what-alter-opens"),
    ),
    15: (
        Removal(
            "command-needs-table", "a command needs its table", Becomes("None"), "15-missing-a-moment-ago"
        ),
        # That a table is missing is remembered so shortly that a busy machine takes longer than that.
        Removal(
            "missing-asked-again",
            "what is missing is soon asked for again",
            Literal(600.0),
            "15-missing-a-moment-ago",
        ),
    ),
}
"""Item → what is taken out; a module stands once."""


def command(item: int) -> tuple[str, ...]:
    """Return what Python runs for a gateway without a mend."""
    return ("-m", "tests.histories.mends", str(item))


def main() -> None:
    """Run `python -m gateway` without a mend: its item is the first argument."""
    for removal in MENDS[int(sys.argv.pop(1))]:
        finder = changed(removal)
        assert not isinstance(finder, str), f"{removal.rule}: {finder}"
        sys.meta_path.insert(0, finder)
    runpy.run_module("gateway", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
