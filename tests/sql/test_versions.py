"""Of a clause that chooses a version nothing but numbers and plain literals reaches a session of ours."""

from __future__ import annotations

import pytest

from gateway.model.catalog import SOME_VERSION
from gateway.model.meaning_settings import TIME_ZONE
from gateway.model.statement import SessionContext
from gateway.sql.names import Names
from gateway.sql.versions import version_of

PLAIN = Names(SessionContext(namespace=("d",)), frozenset({"spark_catalog"}))
ZONED = Names(SessionContext(namespace=("d",), settings=frozenset({TIME_ZONE})), frozenset({"spark_catalog"}))


@pytest.mark.parametrize(
    ("suffix", "version"),
    [
        ("VERSION AS OF 12", "VERSION AS OF 12"),
        (" for  system_version as\nof 'a tag'", "VERSION AS OF 'a tag'"),
        ("TIMESTAMP AS OF '2024-01-01 10:00:00'", "TIMESTAMP AS OF '2024-01-01 10:00:00'"),
        ("FOR SYSTEM_TIME AS OF '2024-01-01'", "TIMESTAMP AS OF '2024-01-01'"),
        ("TIMESTAMP AS OF timestamp_millis(17)", "TIMESTAMP AS OF timestamp_millis(17)"),
    ],
)
def test_plain_clauses_are_written_anew(suffix: str, version: str) -> None:
    assert version_of(suffix, PLAIN) == version


@pytest.mark.parametrize(
    "suffix",
    [
        "VERSION AS OF 'a' UNION SELECT 1",
        "VERSION AS OF 'it''s'",
        "VERSION AS OF 'a\\'b'",
        "VERSION AS OF '${x}'",
        'VERSION AS OF "a"',
        "VERSION AS OF 1 /* x */",
        "TIMESTAMP AS OF (SELECT max(t) FROM secret)",
        "TIMESTAMP AS OF current_timestamp()",
        "TIMESTAMP AS OF :t",
    ],
)
def test_others_are_not_asked_about(suffix: str) -> None:
    assert version_of(suffix, PLAIN) == SOME_VERSION


def test_options_choose_no_version() -> None:
    assert version_of("WITH ('split-size' = '5')", PLAIN) == ""


def test_a_time_without_zone_means_what_the_session_says() -> None:
    assert version_of("TIMESTAMP AS OF '2024-01-01 10:00:00'", ZONED) == SOME_VERSION
    assert version_of("TIMESTAMP AS OF '2024-01-01 10:00:00Z'", ZONED) != SOME_VERSION
    assert version_of("TIMESTAMP AS OF '2024-01-01 10:00:00+02:00'", ZONED) != SOME_VERSION
    assert version_of("VERSION AS OF 1", ZONED) != SOME_VERSION
