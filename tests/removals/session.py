"""Rules of `session/` and of what it keeps, each with the text that stands there without it and the tests
that should notice."""

from __future__ import annotations

from tests.removing import Removal

REMOVALS = (
    Removal(
        "a session looks again at what somebody else changed",
        "session.session",
        "if is_table and changed.since(name, since, by=self.number):",
        "if False:",
        "session.test_changed_tables",
    ),
    Removal(
        "what is no table now stays as old as it is",
        "session.session",
        "since = generation if known is None else known.since",
        "since = generation",
        "session.test_changed_tables",
    ),
    Removal(
        "a view whose plan has tables in it that are others is made again",
        "session.barriers",
        "same = view.made.same(verdict) and not session.is_outdated(view, changed)",
        "same = view.made.same(verdict)",
        "session.test_changed_tables",
    ),
    Removal(
        "what a view of a text reads is looked at",
        "session.barriers",
        "stale = session.changed_tables(verdict, changed)",
        "stale: list[TableName] = []",
        "session.test_changed_tables",
    ),
    Removal(
        "a clone of a session knows what that knew",
        "session.session",
        "        self.known_tables = dict(other.known_tables)\n",
        "",
        "session.test_changed_tables",
    ),
    Removal(
        "of a session that lived on nobody knows what it knows",
        "session.session",
        "for name in cleared.names if self.lived_on else cleared.names & self.known_tables.keys():",
        "for name in cleared.names & self.known_tables.keys():",
        "session.test_changed_tables",
    ),
    Removal(
        "files that a statement may delete are looked for by others",
        "session.locks",
        "        if self.request.rewritten and not before:\n",
        "        if False:\n",
        "session.test_changed_tables",
    ),
    Removal(
        "own changes do not hide those of others",
        "model.changed_names",
        "before = was.others if was.by == by else was.last",
        "before = 0",
        "session.test_changed_tables",
    ),
    Removal(
        "what is forgotten counts as changed",
        "model.changed_names",
        "self._forgotten = max(self._forgotten, change.last)",
        "pass",
        "session.test_changed_tables",
    ),
)
