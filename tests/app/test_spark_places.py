"""Whose files are at a path: those of another metastore's tables are nobody's to read by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from gateway.app.metastore_catalog import MetastoreCatalog
from gateway.app.spark_places import ELSEWHERE, PlacesElsewhere, PlacesOfSparks
from gateway.app.sparks import choose_promotion
from gateway.errors import BackendUnavailable
from gateway.model.catalog import TableName
from gateway.settings.loading import parse_settings

PAY = TableName("spark_catalog", "hr", "pay")


class Places:
    """One metastore's tables, by their places."""

    def __init__(self, **tables: TableName) -> None:
        self.tables = {f"s3://w/{place}": name for place, name in tables.items()}
        self.down = False
        self.unknown = ""

    async def tables_at(self, url: str) -> tuple[TableName, ...] | str:
        if self.down:
            raise BackendUnavailable("Spark cannot be reached")
        return self.unknown or tuple(name for place, name in self.tables.items() if place == url)


class Known:
    """What one Spark knows of names."""

    def __init__(self) -> None:
        self.forgotten: list[Any] = []

    def invalidate(self, tables: Any, databases: Any, **_: Any) -> None:
        self.forgotten.append((tables, databases))


def test_what_is_made_of_files_is_known_on_each_spark_of_the_metastore() -> None:
    here, there = Known(), Known()
    held = MetastoreCatalog(cast(Any, here), lambda: cast(Any, [here, there]))
    held.invalidate([PAY], [])
    assert here.forgotten == there.forgotten == [([PAY], [])]


@pytest.mark.parametrize(("metastore", "same"), [("lake", True), ("other", False)])
def test_files_are_looked_at_on_each_spark_that_has_the_main_ones_metastore(
    tmp_path: Path, metastore: str, same: bool
) -> None:
    text = (
        "backends:\n  main: {thrift: {host: a}, metastore: lake}\n"
        f"  two: {{thrift: {{host: b}}, metastore: {metastore}}}\nfiles: {{raw: {{root: s3://b/raw}}}}\n"
    )
    settings = parse_settings(text, "gateway.yaml", tmp_path)
    promotion = cast(Any, object())
    assert (choose_promotion(settings.for_backend("two"), promotion) is promotion) is same
    assert choose_promotion(settings.for_backend("main"), promotion) is promotion


async def test_a_path_is_asked_of_every_metastore() -> None:
    own, other, missing = Places(mine=PAY), Places(theirs=PAY), list[str]()
    places = PlacesOfSparks(own, PlacesElsewhere(lambda: [other], lambda: missing))
    assert await places.tables_at("s3://w/mine") == (PAY,)
    assert await places.tables_at("s3://w/theirs") == ELSEWHERE
    assert await places.tables_at("s3://w/free") == ()
    other.unknown = "a link is in it"
    assert await places.tables_at("s3://w/free") == other.unknown
    own.unknown = "it is the gateway's"
    assert await places.tables_at("s3://w/mine") == own.unknown
    own.unknown = other.unknown = ""
    missing.append("metastore of etl")
    with pytest.raises(BackendUnavailable):
        await places.tables_at("s3://w/free")
    missing.clear()
    other.down = True
    with pytest.raises(BackendUnavailable):
        await places.tables_at("s3://w/free")
