"""Paths, the names of their tables, and formats: no file is read, nothing is asked."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.files.formats import (
    HEAD_BYTES,
    Dialect,
    Format,
    NotKnown,
    detect_format,
    find_common_format,
    wide_encoding,
)
from gateway.files.looking import build_whole_question, choose_whole_format
from gateway.model.catalog import TableName
from gateway.model.files import FileSource, decode_table_name, encode_table_name, require_root, source_of
from gateway.model.statement import SessionContext
from gateway.sql.names import Names, Ungovernable

FORMATS = ("parquet", "orc", "avro", "json", "csv")
LAKE = FileSource(
    name="lake", root="file:/data/lake", database="lake", formats=FORMATS, depth=3, leaf_columns=9, files=9
)
NAMES = Names(SessionContext(), frozenset({"spark_catalog"}), {"lake": LAKE})


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4))
def test_the_name_of_a_path_leads_back_to_it_and_to_no_other(path: list[str]) -> None:
    assert decode_table_name(encode_table_name(tuple(path))) == tuple(path)


@given(st.text(alphabet="abz019_zx", max_size=16))
def test_what_a_name_stands_for_has_that_name(table: str) -> None:
    path = decode_table_name(table)
    assert path is None or encode_table_name(path) == table


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
    assert LAKE.path(encode_table_name(("raw", segment))) is None


def test_paths_are_as_deep_as_the_source_allows() -> None:
    with pytest.raises(ValueError):
        LAKE.table(("a", "b", "c", "d"))
    with pytest.raises(ValueError):
        LAKE.table(("a" * 256,))
    assert len(LAKE.table(("日" * 36,)).table) == 252


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


def told(lines: Sequence[bytes], allowed: Sequence[str], encoding: str | None = None) -> Format:
    return find_common_format({"a": detect_format(lines, allowed, encoding)})


LONG = (b'{"a": "' + b"x" * 5_000)[:HEAD_BYTES]
"""A line that goes on."""
LATIN = {"encoding": "ISO-8859-1"}
APOSTROPHES = {"quote": "'", "escape": "'"}
CUT_IN_TWO = ("ß" * 3_000).encode()
CSV = {"sep": ",", "header": "true", "inferSchema": "true", "enforceSchema": "false", "escape": '"'}
NO_QUOTES = {"sep": "\t", "header": "true", "inferSchema": "true", "enforceSchema": "false", "quote": ""}


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
        ([b"id,name", b'1,"two', b"", b'lines"', b"2,x"], Format("csv", {**CSV, "multiLine": "true"})),
        ([b"id,name", b'1,"say ""hi"", you"'], Format("csv", CSV)),
        ([b"id,name", rb'1,"say \"hi\", you"'], Format("csv", {**CSV, "escape": "\\"})),
        ([b"id,name", rb'1,"C:\dir\"', b"2,x"], Format("csv", CSV)),
        ([b"id\tname", b'1\t"Hello" she said'], Format("csv", NO_QUOTES)),
        ([b"id,name", *[b"1,x"] * 18, b'2,"two'], Format("csv", {**CSV, "multiLine": "true"})),
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
    with pytest.raises(NotKnown, match=r"several JSON documents|too long to check"):
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
        [b"id,name", b'1,"a"b'],
        [b"id,name", b'1,"never closed'],
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


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (b"PAR1", b"id,name\n1,x", "different formats: `a` is parquet, `b` is csv"),
        (b'{"a": 1}', b"id,name\n1,x", "different formats: `a` is json, `b` is csv"),
        (b"id,name\n1,x", b"id;name\n1;x", "`a` has `,` between fields, `b` has `;` between fields"),
        (
            b"id,name\n1,x",
            b"2,x\n3,y",
            "`a` begins with a header, `b` with another header or none",
        ),
        (b"id,name\n1,x", b"2,x", "with another header or none"),
        (b"id,name\n1,x", b"id,title\n1,x", "with another header or none"),
        (b"1,x\n2,y", b"1,x,y\n2,y,z", "`a` has 2 columns, `b` has 3 columns"),
        (b"id,n\n1,'a,b'", b'id,n\n1,"a,b"', "`a` has fields in apostrophes, `b` has fields in quotes"),
        (b'id,n\n1,"a ""b"" c"', b'id,n\n1,"a \\"b\\" c"', "`a` has doubled quotes, `b` has backslashes"),
        ("id,n\n1,ß".encode(), b"id,n\n1,\xdf", "`a` is in UTF-8, `b` is in ISO-8859-1"),
        (b'{"a": 1}\n{"a": 2}', b'{\n"a": 1}', "`a` has one JSON document per line, `b` is one document"),
    ],
)
def test_files_that_differ_are_told_by_two_names(one: bytes, other: bytes, why: str) -> None:
    files = {name: detect_format(text.split(b"\n"), FORMATS) for name, text in (("a", one), ("b", other))}
    with pytest.raises(NotKnown, match=re.escape(why)):
        find_common_format(files)


@pytest.mark.parametrize(
    ("one", "other", "format_"),
    [
        (b"id,name\n1,x", b"id,name", Format("csv", CSV)),
        (b"id,n\n1,'a,b'", b"id,n\n1,x", Format("csv", {**CSV, **APOSTROPHES})),
        (b"id,n\n1,x", b"id,n\n1,\xdf", Format("csv", {**CSV, **LATIN})),
        (b'id,n\n1,"a\nb"', b"id,n\n1,x", Format("csv", {**CSV, "multiLine": "true"})),
        (b'{"a": 1}', b'{\n"a": 1}', Format("json", {"multiLine": "true"})),
        (b"PAR1", b"PAR1", Format("parquet")),
    ],
)
def test_what_a_file_does_not_show_goes_by_the_others(one: bytes, other: bytes, format_: Format) -> None:
    files = {name: detect_format(text.split(b"\n"), FORMATS) for name, text in (("a", one), ("b", other))}
    assert find_common_format(files) == format_
    assert find_common_format(dict(reversed(files.items()))) == format_


def test_what_all_lines_tell_of_quotes_is_heeded() -> None:
    found = Format("csv", CSV)
    plain, doubled, slashed = (
        detect_format(text.split(b"\n"), FORMATS)
        for text in (b"id,n\n1,x", b'id,n\n1,"a ""b"" c"', b'id,n\n1,"a \\"b\\" c"')
    )

    def answer(
        back: str | None = None,
        twice: str | None = None,
        *,
        opens: tuple[bool, bool] = (False, False),
        unclosed: str | None = None,
        file: Dialect = plain,
    ) -> Format:
        row = (back, twice, opens[0], unclosed, opens[1], unclosed)
        return choose_whole_format(found, row, [file], lambda path: f"`{path}`")

    assert answer() == found
    assert answer(opens=(True, True)) == Format("csv", {**CSV, "multiLine": "true"})
    # Escaped otherwise, what looks as if it went on does not.
    assert answer("b", opens=(True, False)) == Format("csv", {**CSV, "escape": "\\"})
    assert answer("b", file=slashed).options["escape"] == "\\"
    with pytest.raises(NotKnown, match="`c` has a field with an opening quote and no closing one"):
        answer(opens=(True, True), unclosed="c")
    with pytest.raises(NotKnown, match="`b` has the former, `d` the latter"):
        answer("b", "d")
    with pytest.raises(NotKnown, match="`b` has the former, others the latter"):
        answer("b", file=doubled)


def test_what_all_lines_are_asked_depends_on_the_format() -> None:
    assert build_whole_question(Format("parquet")) is None
    assert build_whole_question(Format("csv", NO_QUOTES)) is None
    assert build_whole_question(Format("csv", {**CSV, "encoding": "UTF-16", "multiLine": "true"})) is None
    lines, documents = (
        build_whole_question(Format("json", options)) for options in ({}, {"multiLine": "true"})
    )
    assert lines is not None
    assert documents is not None
    assert "lag(" in documents
    with pytest.raises(NotKnown, match="`a` has lines that are not JSON"):
        choose_whole_format(Format("json"), ["a"], [], lambda path: f"`{path}`")
    assert choose_whole_format(Format("json"), [None], [], str) == Format("json")


def test_formats_that_a_source_does_not_take_are_refused() -> None:
    with pytest.raises(NotKnown):
        told([b"PAR1"], ("json", "csv"))
