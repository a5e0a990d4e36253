"""The mends of issue 9, each with the text that stands there without it: its history must fail then.

`python -m tests.histories mends` starts a gateway without each, one after the other, and runs its history.
The way is that of `tests/removing.py`.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping, Sequence

from tests.removals.pipeline import REMOVALS
from tests.removing import Removal, changed

_RULES = {removal.rule: removal for removal in REMOVALS}

MENDS: Mapping[int, Sequence[Removal]] = {
    2: (_RULES["identities of policies"],),
    3: (
        Removal(
            "what varies is not cached",
            "pipeline.kept",
            'if changing and any(command.node == "CacheTableAsSelect"',
            'if False and any(command.node == "CacheTableAsSelect"',
            "3-frozen-filters",
        ),
    ),
    4: (
        Removal(
            "no collation reaches a policy",
            "pipeline.rewrite_texts",
            "if default_collation(prepared.reading) and any(",
            "if False and any(",
            "4-collations",
        ),
    ),
    5: (
        Removal(
            "views ask for who reads them",
            "pipeline.kept",
            "or body.listed or (personal and body.personal) else None",
            "or body.listed else None",
            "5-who-asks",
        ),
    ),
    6: (
        Removal(
            "a view is read by the access of its definer",
            "pipeline.rights",
            "return Rights(readers=readers, accessors=(principal,), definer=principal, view=view.name)",
            "return Rights(readers=readers, accessors=(), view=view.name)",
            "6-views-outlive-denials",
        ),
    ),
    7: (
        Removal(
            "sessions look again at what policies read",
            "session.session",
            "if self.looked_at.get(table) != cleared.period]",
            "if False]",
            "7-open-sessions",
        ),
    ),
    8: (
        Removal(
            "hidden columns are not there",
            "pipeline.seeing",
            "if table is not None and not hidden and prepared.place.depth == 0:",
            "if False:",
            "8-hidden-columns",
        ),
    ),
    12: (
        Removal(
            "a checkpoint is of one stream only",
            "pipeline.checkpoints",
            "name=_name(*rest))",
            "name=_name(FORM))",
            "12-reused-checkpoints",
        ),
    ),
    13: (
        Removal(
            "what was judged and what changes hold their names, and the catalog forgets what changes",
            "session.barriers",
            "hold = await locks.acquire(request, until=until, by=session.number)",
            "hold = Hold(None, request)",
            "13-a-window-for-others",
        ),
    ),
    14: (
        Removal(
            "a new name opens nothing",
            "sql.evaluate",
            "return self._named(required) or self._renamed(required)",
            "return self._named(required)",
            "14-what-alter-opens",
        ),
        Removal(
            "renaming reads",
            "sql.data_commands",
            "        read=(existing.table,),\n        renamed=",
            "        renamed=",
            "14-what-alter-opens",
        ),
    ),
    15: (
        Removal(
            "a command needs its table",
            "sql.evaluate",
            "return next((name for name in about if self.catalog.table(name) is None), None)",
            "return None",
            "15-missing-a-moment-ago",
        ),
        # That a table is missing is remembered so shortly that a busy machine takes longer than that.
        Removal(
            "what is missing is soon asked for again",
            "catalog.live",
            "missing_age_s: float = 1.0",
            "missing_age_s: float = 600.0",
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
        finder = changed(removal, "gateway")
        assert not isinstance(finder, str), f"{removal.rule}: {finder}"
        sys.meta_path.insert(0, finder)
    runpy.run_module("gateway", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
