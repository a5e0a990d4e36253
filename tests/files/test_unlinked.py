"""A link that comes among the files of a table after it was made, and what it costs to see it."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.files import links, unlinked
from gateway.files.links import open_below
from gateway.files.unlinked import Unlinked
from gateway.model.files import FileSource
from tests.speed import patience

LATER_NS = 10**12


def source_of(root: Path) -> FileSource:
    return source_at(f"file:{root}")


def source_at(url: str) -> FileSource:
    return FileSource(
        name="lake", root=url, database="lake", formats=("csv",), depth=8, leaf_columns=800, files=2
    )


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / "root"
        for day in (1, 2):
            (made / "raw" / "events" / f"day={day}").mkdir(parents=True)
            (made / "raw" / "events" / f"day={day}" / "a.csv").write_text("id\n1\n")
        (made / "raw" / "one.csv").write_text("id\n1\n")
        secret = Path(directory) / "secret"
        secret.mkdir()
        (secret / "a.csv").write_text("id\n9\n")
        yield made


def sure() -> Unlinked:
    """Every stamp is old by its clock."""
    return Unlinked(lambda: 2**62)


Put = Callable[[Path, Path], None]


def link_of_a_file(events: Path, secret: Path) -> None:
    (events / "b.csv").symlink_to(secret / "a.csv")


def deep_link(events: Path, secret: Path) -> None:
    (events / "day=2" / "b.csv").symlink_to(secret / "a.csv")


def link_in_a_files_place(events: Path, secret: Path) -> None:
    link = events / "link"
    link.symlink_to(secret / "a.csv")
    link.rename(events / "day=1" / "a.csv")


def link_of_a_directory(events: Path, secret: Path) -> None:
    (events / "day=3").symlink_to(secret)


def link_in_a_directorys_place(events: Path, secret: Path) -> None:
    (events / "day=1").rename(events.parent / "elsewhere")
    (events / "day=1").symlink_to(secret)


def link_in_its_own_place(events: Path, secret: Path) -> None:
    events.rename(events.with_name("elsewhere"))
    events.symlink_to(secret)


def link_in_the_place_of_what_it_lies_in(events: Path, secret: Path) -> None:
    raw = events.parent
    raw.rename(raw.with_name("elsewhere"))
    (secret / "events").mkdir()
    raw.symlink_to(secret)


def link_in_a_new_directory(events: Path, secret: Path) -> None:
    (events / "day=3").mkdir()
    (events / "day=3" / "a.csv").symlink_to(secret / "a.csv")


def link_whose_time_is_set_back(events: Path, secret: Path) -> None:
    told = events.stat()
    link_of_a_file(events, secret)
    os.utime(events, ns=(told.st_atime_ns, told.st_mtime_ns))


@pytest.mark.parametrize(
    "put",
    [
        link_of_a_file,
        deep_link,
        link_in_a_files_place,
        link_of_a_directory,
        link_in_a_directorys_place,
        link_in_its_own_place,
        link_in_the_place_of_what_it_lies_in,
        link_in_a_new_directory,
        link_whose_time_is_set_back,
    ],
)
async def test_a_link_that_comes_later_is_seen(root: Path, put: Put) -> None:
    looked, source = sure(), source_of(root)
    for _ in range(3):
        assert await looked.trouble(source, ("raw", "events")) is None
    assert looked.walks == 1
    put(root / "raw" / "events", root.parent / "secret")
    for _ in range(2):
        assert "link" in str(await looked.trouble(source, ("raw", "events")))


async def test_a_directory_that_goes_meanwhile_hides_no_link(root: Path) -> None:
    """Who makes and removes directories all the time does not end the look before it comes to a link."""
    events, first = root / "raw" / "events", list[str]()
    for day in (1, 2):
        (events / f"day={day}" / "b.csv").symlink_to(root.parent / "secret" / "a.csv")

    def after_it_went(name: str, at: int) -> int:
        if name.startswith("day=") and not first:
            first.append(name)
            shutil.rmtree(events / name)
        return open_below(name, at)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(links, "open_below", after_it_went)
        assert "link" in str(await sure().trouble(source_of(root), ("raw", "events")))
    assert len(first) == 1


async def test_directories_of_a_writer_that_ends_are_no_trouble(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, looked = root / "raw" / "events", sure()

    def after_it_went(path: str, *, of_within: bool = True) -> Any:
        if path.endswith("day=1"):
            shutil.rmtree(path, ignore_errors=True)
        return stamp_of(path, of_within=of_within)

    stamp_of = unlinked._stamp_of
    monkeypatch.setattr(unlinked, "_stamp_of", after_it_went)
    for _ in range(2):
        assert await looked.trouble(source_of(root), ("raw", "events")) is None
    deep_link(events, root.parent / "secret")
    assert "link" in str(await looked.trouble(source_of(root), ("raw", "events")))


async def test_a_file_that_becomes_a_link_is_seen(root: Path) -> None:
    looked, source = sure(), source_of(root)
    assert await looked.trouble(source, ("raw", "one.csv")) is None
    (root / "raw" / "one.csv").unlink()
    assert await looked.trouble(source, ("raw", "one.csv")) is None, "there is nothing to be read"
    (root / "raw" / "one.csv").symlink_to(root.parent / "secret" / "a.csv")
    assert "link" in str(await looked.trouble(source, ("raw", "one.csv")))
    (root / "raw" / "one.csv").unlink()
    (root / "raw" / "one.csv").write_text("id\n1\n")
    assert await looked.trouble(source, ("raw", "one.csv")) is None


async def test_new_files_are_gone_through_once_and_others_of_the_source_not_at_all(root: Path) -> None:
    looked, source = sure(), source_of(root)
    for number in range(3):
        for _ in range(2):
            assert await looked.trouble(source, ("raw", "events")) is None
        (root / "raw" / "events" / "day=1" / f"{number}.csv").write_text("id\n1\n")
        (root / "raw" / f"other_{number}").mkdir()
        (root / f"other_{number}").mkdir()
    assert looked.walks == 3


async def test_a_stamp_of_just_now_is_not_relied_on(root: Path) -> None:
    newest = (root / "raw" / "events").stat().st_ctime_ns
    now = newest
    looked, source = Unlinked(lambda: now), source_of(root)
    for later_s, walks in ((1, 1), (1, 2), (60, 3), (60, 3)):
        now = newest + later_s * 10**9
        assert await looked.trouble(source, ("raw", "events")) is None
        assert looked.walks == walks


async def test_a_look_that_hangs_holds_up_nobody_else_and_ends(root: Path) -> None:
    """As on a file system whose server is away."""
    looked, source, goes_on = Unlinked(lambda: 2**62, within_s=0.2), source_of(root), threading.Event()
    assert await looked.trouble(source, ("raw", "events")) is None

    def hangs(path: str, *, of_within: bool = True) -> Any:
        goes_on.wait(patience(20))
        return stamp_of(path, of_within=of_within)

    stamp_of = unlinked._stamp_of
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(unlinked, "_stamp_of", hangs)
        asked = asyncio.gather(*(looked.trouble(source, ("raw", name)) for name in ("events", "one.csv")))
        try:
            async with asyncio.timeout(patience(5)):
                assert set(await asked) == {"the gateway could not look at its files in time"}
        finally:
            goes_on.set()
    assert await Unlinked().trouble(source, ("raw", "events")) is None


async def test_what_is_kept_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.files.unlinked.MAX_KEPT", 6)
    looked, source = sure(), source_of(root)
    for name in ("events", "one.csv", "events", "one.csv"):
        assert await looked.trouble(source, ("raw", name)) is None
        assert looked._count == sum(map(len, looked._kept.values())) <= 6
    assert looked.walks == 4


async def test_of_other_stores_nothing_is_looked_at() -> None:
    looked = sure()
    assert await looked.trouble(source_at("s3a://bucket/lake"), ("raw",)) is None
    assert looked.walks == 0


async def test_a_root_that_is_a_link_may_lead_elsewhere_later(root: Path) -> None:
    """An operator who publishes versions of a source changes the link that is its root."""
    other = root.parent / "other"
    (other / "raw" / "events").mkdir(parents=True)
    (other / "raw" / "events" / "a.csv").symlink_to(root.parent / "secret" / "a.csv")
    current = root.parent / "current"
    current.symlink_to(root)
    looked = sure()
    path = ("raw", "events")
    assert await looked.trouble(source_of(current), path) is None
    assert await looked.trouble(source_of(current), path) is None
    assert looked.walks == 1
    (root.parent / "next").symlink_to(other)
    (root.parent / "next").rename(current)
    assert "link" in (await looked.trouble(source_of(current), path) or "")
    (root.parent / "next").symlink_to(root)
    (root.parent / "next").rename(current)
    assert await looked.trouble(source_of(current), path) is None
