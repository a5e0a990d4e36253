"""Places in every spelling: what could be the same, or lie in the other, counts as doing so."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.files.places import Place, overlap, overlaps, parse_place, places


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3a://B/x//y/", Place("s3", "b", ("x", "y"))),
        ("S3://user@b/x/./z/../Y", Place("s3", "b", ("x", "Y"))),
        ("file:///Tmp/X", Place("file", "", ("tmp", "x"))),
        ("file:/Tmp/X", Place("file", "", ("tmp", "x"))),
        ("/x", Place("", "", ("x",))),
        ("abfss://c@acc.dfs.core.windows.net/x", Place("azure", "c@acc", ("x",))),
        ("wasb://c@acc.blob.core.windows.net/X", Place("azure", "c@acc", ("x",))),
        ("viewfs:///x", Place("hdfs", "", ("x",))),
        ("hdfs://nn:8020/../x", Place("hdfs", "nn:8020", ("x",))),
    ],
)
def test_a_place_has_one_spelling(url: str, expected: Place) -> None:
    assert parse_place(url) == expected


@pytest.mark.parametrize("url", ["", "x/y", "file:x", "s3a:x"])
def test_nobody_knows_where_a_relative_path_begins(url: str) -> None:
    with pytest.raises(ValueError, match="not an absolute path"):
        parse_place(url)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("s3a://b/x", "s3://b/x", True),
        ("s3a://b/x", "s3://b/x/y", True),
        ("s3a://b/x", "s3://b", True),
        ("s3a://b/x", "s3://b/xy", False),
        ("s3a://b/x", "s3://b/X", False),
        ("s3a://b/x", "s3://c/x", False),
        ("gs://b/x", "s3://b/x", False),
        # A server has names that nobody here knows, and a default file system could be any.
        ("hdfs://nn1:8020/x", "hdfs://lake/x/y", True),
        ("hdfs:///x", "webhdfs://nn:9870/x", True),
        ("/x/y", "hdfs://nn/x", True),
        ("/x/Y", "s3://b/x/y/z", True),
        ("/x/y", "s3://b/z", False),
        # Some file systems do not tell upper from lower case, or how a letter is composed.
        ("file:/lake/Größe", "file:///LAKE/Gro\u0308ße/x", True),
        ("abfs://c@a.dfs.core.windows.net/X", "wasbs://c@a.blob.core.windows.net/x", True),
        ("abfs://c@a.dfs.core.windows.net/x", "abfs://d@a.dfs.core.windows.net/x", False),
        ("file:/a", "file:/", True),
    ],
)
def test_places_overlap(one: str, other: str, expected: bool) -> None:
    assert overlap(parse_place(one), parse_place(other)) is expected
    assert overlap(parse_place(other), parse_place(one)) is expected


def test_escapes_and_links_mean_both(tmp_path: Path) -> None:
    assert places("s3a://b/r%61w") == {Place("s3", "b", ("r%61w",)), Place("s3", "b", ("raw",))}
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for url in (f"file:{tmp_path}/link/in", f"file://{tmp_path}/link/in", f"{tmp_path}/link"):
        assert overlaps(places(url), places(f"file:{tmp_path}/real/in/x"))
    assert not overlaps(places(f"file:{tmp_path}/link/in"), places(f"file:{tmp_path}/real/out"))
    (tmp_path / "relative").symlink_to("./link/../real")
    assert overlaps(places(f"{tmp_path}/relative/in"), places(f"{tmp_path}/real/in"))


@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/cwd/t",
        "file:///proc/self/task/1/root/t",
        "//h/proc/x",
        "/%70roc/1/cwd",
        "/dev/fd/3",
        "{}/in",
    ],
)
def test_what_leads_elsewhere_in_each_process_is_no_place(path: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc/self/cwd")
    with pytest.raises(ValueError, match="each process"):
        places(path.format(tmp_path / "link"))
    (tmp_path / "again").symlink_to(tmp_path / "again")
    with pytest.raises(ValueError, match="too many links"):
        places(f"{tmp_path}/again")


NAMES = st.text("abAB%._é ", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))


@given(st.lists(NAMES, max_size=4), st.lists(NAMES, max_size=3), st.sampled_from(["s3://b", "file:", ""]))
def test_what_lies_below_overlaps_in_every_spelling(path: list[str], more: list[str], start: str) -> None:
    above, below = "/".join([start, *path]) or "/", "/".join([start, *path, *more])
    if start == "file:" and not path:
        above = "file:/"
    assert overlaps([parse_place(above + "/")], [parse_place(below + "//")])
