"""Every spelling of a path that could lead to where checkpoints are is told from those that could not."""

from __future__ import annotations

import pytest

from gateway.policy.reserved import ReservedPlace, parse_reserved_place

LOCAL = ReservedPlace("file:/srv/sluice/ck")
BUCKET = ReservedPlace("s3://ops/sluice-ck")

THERE = (
    "file:/srv/sluice/ck",
    "file:///srv/sluice/ck/",
    "file:////srv//sluice/./ck/_a/_b/sources/0/0",
    "FILE:/srv/sluice/ck/x",
    "/srv/sluice/ck",
    "file:/SRV/Sluice/CK/x",
    " file:/srv/sluice/ck/x",
    "file:/srv/other/../sluice/ck/x",
    "file:/srv/sluice/x/../../sluice/ck",
    "file:/srv/sluice/%63k/x",
    "file:/srv/sluice/%2563k/x",
    "file:/srv%2Fsluice%2Fck",
    "file:/srv/other/%2e%2e/sluice/ck",
    "file:/srv/sluice/ck#x",
    "file:/srv/sluice/*/x",
    "file:/srv/{sluice,other}/ck/x",
    "file:/srv/sluice/c?/x",
    "file:/srv/sluice/[c]k",
    "file:/srv/sluice/c\\k",
    "file:/*",
    "hdfs://name/srv/sluice/ck/x",
    "file://localhost/srv/sluice/ck/x",
    "file://srv/sluice/ck/x",
    "har:file:/srv/sluice/ck/x.har",
    "ck/x",
    "sluice/ck",
    "file:/srv/sluice",
    "file:/srv",
    "file:/",
    "/",
    "",
    ".",
    "sluice",
    "file:/%" + "25" * 9 + "2f",
)
ELSEWHERE = (
    "file:/srv/sluice/ck2",
    "file:/srv/sluice/other",
    "file:/srv/other/sluice/ck",
    "file:/data/srv/sluice/ck",
    "file:/srv/sluic",
    "file:/data/x?/y",
    "s3://landing/",
    "s3://landing/srv",
    "s3://landing/in/day=1",
    "jdbc:derby:memory:x",
)


@pytest.mark.parametrize("url", THERE)
def test_spellings_that_lead_there(url: str) -> None:
    assert LOCAL.may_be_reached_by(url)


@pytest.mark.parametrize("url", ELSEWHERE)
def test_places_that_are_others(url: str) -> None:
    assert not LOCAL.may_be_reached_by(url)


@pytest.mark.parametrize(
    ("url", "there"),
    [
        ("s3://ops/sluice-ck/_a", True),
        ("s3a://ops/sluice-ck/_a", True),
        ("s3a://access-point/sluice-ck/_a", True),
        ("s3n://ops/", True),
        ("s3://ops", True),
        ("s3://ops/*/_a", True),
        ("s3://landing/*/_a", True),
        ("s3://ops/sluice", False),
        ("s3://landing/", False),
        ("s3://landing/x", False),
        ("file:/", False),
        ("hdfs://name/", False),
    ],
)
def test_buckets(url: str, there: bool) -> None:
    assert BUCKET.may_be_reached_by(url) is there


def test_a_place_on_a_server_with_more_names() -> None:
    place = ReservedPlace("hdfs://name-1/srv/ck")
    assert place.may_be_reached_by("hdfs://name-2/srv")
    assert place.may_be_reached_by("webhdfs://name-2:9870/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ck",
        "/srv/ck",
        "file:/",
        "s3://bucket",
        "s3://bucket/",
        "file:/a/*",
        "file:/a/%41",
        "file:/a/../b",
    ],
)
def test_what_is_no_directory_of_its_own(url: str) -> None:
    with pytest.raises(ValueError, match="must be the URL of a directory"):
        parse_reserved_place(url)


def test_a_directory_of_its_own() -> None:
    assert parse_reserved_place("s3a://ops/sluice-ck/").may_be_reached_by("s3://ops/sluice-ck/_a")
