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
    # Errors and descriptions under obligations
    Removal(
        "a parameter that may be a value is not told",
        "session.conditions",
        'if kind == "values" or len(value) > MAX_PARAMETER_CHARS:\n        return False\n',
        'if kind == "values" or len(value) > MAX_PARAMETER_CHARS:\n        return True\n',
        "session.test_conditions",
    ),
    Removal(
        "parameters of what a user may raise are not told",
        "session.conditions",
        "    if exception in RAISED_BY_USERS:\n        return False\n",
        "",
        "session.test_conditions",
    ),
    Removal(
        "of the literals of a long statement none is told",
        "session.conditions",
        "frozenset(literals) if len(literals) <= MAX_LITERALS else frozenset()",
        "frozenset(literals)",
        "session.test_conditions",
    ),
    Removal(
        "the condition of a cause says why",
        "session.raised",
        "        if cause.condition in conditions():\n            return cause\n",
        "",
        "session.test_conditions",
    ),
    Removal(
        "an error of a task does not come before rows",
        "session.raised",
        "outermost = wrapper is not None and depth == 0",
        "outermost = True",
        "session.test_conditions",
    ),
    Removal(
        "what LIKE says of a row's pattern does not come before rows",
        "session.redact",
        "    if condition.startswith(_OF_ROWS):\n        return False\n",
        "",
        "session.test_conditions",
    ),
    Removal(
        "what failed for files that are gone is run again",
        "session.execution",
        "again = cleared.read_only and not cleared.effects and bool(cleared.policy_tables)",
        "again = False",
        "session.test_lost_files",
    ),
    Removal(
        "what writes is not run again",
        "session.execution",
        "again = cleared.read_only and not cleared.effects and bool(cleared.policy_tables)",
        "again = bool(cleared.policy_tables)",
        "session.test_lost_files",
    ),
    Removal(
        "it is run again once",
        "session.execution",
        "if not again or operation.ran_again or",
        "if not again or",
        "session.test_lost_files",
    ),
    Removal(
        "lines of a view's text are no lines about it",
        "session.descriptions",
        "        if found[1] in _ENDS:\n            return\n",
        "        if found[1] in _ENDS:\n            told.clear()\n",
        "session.test_answers",
    ),
    Removal(
        "columns that may not be seen are not in the tree",
        "session.descriptions",
        "columns is None or found[1].lower() in columns",
        "True",
        "session.test_answers",
    ),
    Removal(
        "what is not harmless of a description goes",
        "session.answers",
        "if name in HARMLESS_DETAILS",
        "if name",
        "session.test_answers",
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
