"""What a policy's text needs beside its row, by Spark's own parser: a delegate may write none of it."""

from __future__ import annotations

import pytest

from gateway.app.ranger_admin import reach_of
from gateway.model.reading import Reading
from gateway.reader.pool import ReaderPool

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        ("region = 'EMEA' AND amount > 5", ""),
        ("CASE WHEN `c` IS NOT NULL THEN sha2(CAST(`c` AS STRING), 256) END", ""),
        ("exists(tags, x -> x = 'open')", ""),
        ("(SELECT max(ssn) FROM lab.secret)", "reads `lab.secret`"),
        ("id IN (SELECT id FROM a JOIN b.c USING (id))", "reads `a`, `b.c`"),
        ("(SELECT max(to_json(struct(*))) FROM IDENTIFIER('lab' || '.secret'))", "reads `lab.secret`"),
        ("EXISTS (SELECT 1)", "reads by a query"),
        ("lab.peek(id) = 1", "calls `lab.peek`"),
        ("no_such_function(id)", "calls `no_such_function`"),
        ("reflect('java.lang.System', 'getenv', 'HOME') = ''", "calls `reflect`"),
        ("input_file_name() LIKE '%x%'", "calls `input_file_name`"),
    ],
)
async def test_what_a_text_needs(reader: ReaderPool, text: str, reach: str) -> None:
    answer = await reader.read_expression(text)
    assert isinstance(answer, Reading)
    assert reach_of(answer) == reach
