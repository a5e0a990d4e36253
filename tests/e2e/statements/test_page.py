"""docs/statements.md is what the tables say."""

from __future__ import annotations

from tests.e2e.statements.page import PAGE, page


def test_the_page_is_as_generated() -> None:
    told = "run `python -m tests.e2e.statements.page`"
    assert PAGE.read_text(encoding="utf-8") == page(), told
