"""Of a clause that chooses a version nothing but numbers and plain literals reaches a session of ours."""

from __future__ import annotations

import pytest

from gateway.model.catalog import SOME_VERSION
from gateway.model.meaning_settings import ANSI_MODE, TIME_ZONE
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
        ("TIMESTAMP AS OF TIMESTAMP'2024-01-01'", "TIMESTAMP AS OF timestamp '2024-01-01'"),
        (
            "TIMESTAMP AS OF Current_Timestamp() -\n INTERVAL '1' DAY",
            "TIMESTAMP AS OF current_timestamp ( ) - interval '1' day",
        ),
        ("TIMESTAMP AS OF '2024-01-01'::timestamp", "TIMESTAMP AS OF '2024-01-01' :: timestamp"),
        ("TIMESTAMP AS OF date_sub(current_date, 1)", "TIMESTAMP AS OF date_sub ( current_date , 1 )"),
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
        "TIMESTAMP AS OF rand()",
        "TIMESTAMP AS OF timestamp'2024-01-01' /* x */",
        "TIMESTAMP AS OF ((SELECT now()))",
        "TIMESTAMP AS OF now() - INTERVAL '1' DAY + shift",
        "TIMESTAMP AS OF reflect('java.lang.System', 'nanoTime')",
        f"TIMESTAMP AS OF now(){' - INTERVAL 1 DAY' * 40}",
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
    assert version_of("TIMESTAMP AS OF now()", ZONED) == SOME_VERSION
    assert version_of("VERSION AS OF 1", ZONED) != SOME_VERSION


def test_signs_are_never_joined_to_a_comment() -> None:
    assert version_of("TIMESTAMP AS OF now() - -1", PLAIN) == "TIMESTAMP AS OF now ( ) - - 1"


def test_numbers_mean_what_the_session_computes() -> None:
    settings = frozenset({ANSI_MODE})
    names = Names(SessionContext(namespace=("d",), settings=settings), frozenset({"spark_catalog"}))
    assert version_of("TIMESTAMP AS OF timestamp_seconds(2147483647 + 1)", names) == SOME_VERSION
