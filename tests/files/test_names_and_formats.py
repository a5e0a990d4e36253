"""Paths, the names of their tables, and formats: no file is read, nothing is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.files.formats import HEAD_BYTES, Format, NotKnown, told, wide_encoding
from gateway.model.catalog import TableName
from gateway.model.files import FileSource, decoded, encoded, require_root, source_of
from gateway.model.statement import SessionContext
from gateway.sql.names import Names, Ungovernable

FORMATS = ("parquet", "orc", "avro", "json", "csv")
LAKE = FileSource(
    name="lake", root="file:/data/lake", database="lake", formats=FORMATS, depth=3, leaf_columns=9, files=9
)
NAMES = Names(SessionContext(), frozenset({"spark_catalog"}), {"lake": LAKE.table})


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4))
def test_the_name_of_a_path_leads_back_to_it_and_to_no_other(path: list[str]) -> None:
    assert decoded(encoded(tuple(path))) == tuple(path)


@given(st.text(alphabet="abz019_zx", max_size=16))
def test_what_a_name_stands_for_has_that_name(table: str) -> None:
    path = decoded(table)
    assert path is None or encoded(path) == table


def test_names_read_as_people_would_write_them() -> None:
    assert LAKE.table(("raw", "page_views")).table == "raw__page_views"
    assert LAKE.table(("Größe", "a.csv")).table == "_z47zr_zf6z_zdfze__a_z2ezcsv"


def test_a_source_is_the_first_part_of_names() -> None:
    table = TableName("spark_catalog", "lake", "raw__events")
    assert NAMES.table(("LAKE", "raw", "events")) == table
    assert NAMES.table(("spark_catalog", "lake", "raw__events")) == table
    assert source_of([LAKE], table) == (LAKE, ("raw", "events"))
    assert source_of([LAKE], TableName("spark_catalog", "hr", "raw__events")) is None


@pytest.mark.parametrize(
    "segment",
    ["..", ".", ".hidden", "_delta_log", "a/b", "a\\b", "%2e%2e", "a*", "{a,b}", "a\0", "a`b", "a'b", " a",
     "a ", "．．", "a／b", "a\u202eb", "a\u0301", "ﬁle", "a:b", "a#b", "a?b", "", "a\nb"],
)  # fmt: skip
def test_a_path_that_could_be_another_one_is_refused(segment: str) -> None:
    with pytest.raises(ValueError):
        LAKE.table(("raw", segment))
    assert isinstance(NAMES.table(("lake", "raw", segment)), Ungovernable)
    assert LAKE.path(encoded(("raw", segment))) is None


def test_paths_are_as_deep_as_the_source_allows() -> None:
    with pytest.raises(ValueError):
        LAKE.table(("a", "b", "c", "d"))
    with pytest.raises(ValueError):
        LAKE.table(("a" * 129,))


@pytest.mark.parametrize(
    "root",
    ["/data", "file:/", "file:///", "file:/a/../b", "file:/a/./b", "http://x/", "s3a://b/{a}", "s3a:/b"],
)
def test_a_root_is_a_plain_url(root: str) -> None:
    with pytest.raises(ValueError):
        require_root(root)


def test_a_root_has_one_spelling() -> None:
    assert require_root("file:///data/lake/") == "file:/data/lake"
    assert require_root("s3a://bucket/") == "s3a://bucket"
    assert require_root("file:/home/me/.run/_demo/inbox") == "file:/home/me/.run/_demo/inbox"


LONG = (b'{"a": "' + b"x" * 5_000)[:HEAD_BYTES]
"""A line that goes on."""
LATIN = {"encoding": "ISO-8859-1"}
APOSTROPHES = {"quote": "'", "escape": "'"}
CUT_IN_TWO = ("ß" * 3_000).encode()
CSV = {"sep": ",", "header": "true", "inferSchema": "true", "escape": '"'}


@pytest.mark.parametrize(
    ("lines", "format_"),
    [
        ([b"PAR1\x15\x04"], Format("parquet")),
        ([b"ORC\x0a"], Format("orc")),
        ([b"Obj\x01\x02"], Format("avro")),
        ([b'{"a": 1}', b'{"a": 2}'], Format("json")),
        ([b"[", b'{"a": 1}', b"]"], Format("json", {"multiLine": "true"})),
        ([b"{", b'"a": 1', b"}"], Format("json", {"multiLine": "true"})),
        ([b"id,name", b"1,x"], Format("csv", CSV)),
        ([b"\xef\xbb\xbfid;name\r", b"1;x,y\r"], Format("csv", {**CSV, "sep": ";"})),
        ([b"id\tname", b'1\t"a\tb"'], Format("csv", {**CSV, "sep": "\t"})),
        ([b"1,2", b"3,4"], Format("csv", {**CSV, "header": "false"})),
        (["größe|n".encode(), b"x|1"], Format("csv", {**CSV, "sep": "|"})),
        ([LONG, LONG], Format("json")),
        ([b"", LONG, b'{"a": 1}'], Format("json")),
        ([b"[" + LONG, LONG], Format("json", {"multiLine": "true"})),
        ([b"id,name", b"1,x", b"2," + CUT_IN_TWO], Format("csv", CSV)),
        ([b"id,name", b"1,x", b"20," + CUT_IN_TWO], Format("csv", CSV)),
        ([b"id,name,c", b"1,x,y", b"2," + b"z" * 4_094], Format("csv", CSV)),
        ([b"id,caf\xe9", b"1,caf\xe9"], Format("csv", {**CSV, **LATIN})),
        ([b"id,name", b"1,\xabgr\xf6\xdfe\xbb 5\xb0"], Format("csv", {**CSV, **LATIN})),
        ([b"id,name", b"1,'a,b'"], Format("csv", {**CSV, **APOSTROPHES})),
        ([b"id;name", b"1;'a,b,c'", b"2;'d''s, e,f'"], Format("csv", {**CSV, **APOSTROPHES, "sep": ";"})),
        ([b"id,name", b"1,it's"], Format("csv", CSV)),
        ([b"id,name", b"1,'tis", b"2,o'er"], Format("csv", CSV)),
        ([b"id,name", b"1,'it's'"], Format("csv", CSV)),
    ],
)
def test_formats_are_told_from_first_lines(lines: list[bytes], format_: Format) -> None:
    assert told([line[:HEAD_BYTES] for line in lines], FORMATS) == format_


@pytest.mark.parametrize(
    "lines",
    [
        [b"{", b'"a": 1', b"}", b"{", b'"a": 2', b"}"],
        [b'[{"a": 1}]', b'[{"a": 2}]'],
        [LONG, b'"b": 1', b"}"],
        [LONG, b"[1]"],
    ],
)
def test_json_of_which_spark_would_read_a_part_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(NotKnown, match=r"several JSON documents|too long to tell"):
        told(lines, FORMATS)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [b""],
        [b"PARE\x00"],
        [b"hello"],
        [b"\xff\xfea\x00"],
        [b"id,name", "1,Łódź żółw".encode("iso8859-2")],
        [b"id,name", "1,Привет".encode("cp1251")],
        [b"id,name", "1,日本語".encode("shift-jis")],
        [b"id,name", "1,“quoted”".encode("cp1252")],
        [b"a,b", b"1"],
        [b"id,name", b"1," + b"x" * 4_094],
        [b"a," + b"x" * 4_094, b"1,2"],
    ],
)
def test_what_cannot_be_told_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(NotKnown):
        told(lines, FORMATS)


@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE"])
def test_files_that_say_that_they_are_utf_16_are_read_so(encoding: str) -> None:
    lines = [line.encode(encoding) for line in ("\ufeffid\tgröße\r", "1\tß, Ю\r")]
    assert wide_encoding(lines) == encoding
    wide = {"sep": "\t", "encoding": "UTF-16", "multiLine": "true"}
    assert told(lines, FORMATS, encoding) == Format("csv", {**CSV, **wide})
    with pytest.raises(NotKnown, match="UTF-16"):
        told(['\ufeff{"a": 1}'.encode(encoding)], FORMATS, encoding)
    with pytest.raises(NotKnown, match="UTF-16"):
        told(lines, ("json",), encoding)


def test_formats_that_a_source_does_not_take_are_refused() -> None:
    with pytest.raises(NotKnown):
        told([b"PAR1"], ("json", "csv"))
