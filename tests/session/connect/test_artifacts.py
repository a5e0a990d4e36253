"""Uploads: names that may come, grants that they need, and chunks that are what was announced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.resource import Resource
from gateway.session.connect.artifacts import (
    CODE_PREFIXES,
    MAX_NAME_CHARS,
    ArtifactLimits,
    ArtifactStream,
    judge_names,
)
from gateway.wire.connect import pb
from gateway.wire.connect_requests import AddArtifactsRequest, add_artifacts

CACHED = "cache/" + "0123456789abcdef" * 4
REQUEST = pb.AddArtifactsRequest


def always(resource: Resource) -> bool:
    return True


def never(resource: Resource) -> bool:
    return False


def code(name: str, rights: Any = always) -> str | None:
    refusal = judge_names([name], "bob", rights)
    return refusal.code if refusal is not None else None


def test_cached_local_data_needs_no_grant() -> None:
    assert code(CACHED, never) is None


@pytest.mark.parametrize(
    "name",
    [
        "pyfiles/x.py",
        "pyfiles/package/module.py",
        "jars/x.jar",
        "classes/org/x/Y.class",
        "archives/x.zip",
        "archives/x.tar.gz#environment",
        "files/data.csv",
        "files/käse und brot.txt",
    ],
)
def test_code_and_files_need_create_on_the_artifact(name: str) -> None:
    assert code(name) is None
    refusal = judge_names([name], "bob", never)
    assert refusal is not None
    assert (refusal.code, refusal.sqlstate) == ("ACCESS_DENIED", "42501")
    assert refusal.message == f"user bob needs create on artifact {name}"


def test_all_missing_grants_are_told_at_once_and_no_more_than_fit() -> None:
    refusal = judge_names(["jars/a.jar", CACHED, "jars/b.jar"], "bob", never)
    assert refusal is not None
    assert refusal.message == "user bob needs create on artifact jars/a.jar, create on artifact jars/b.jar"
    many = judge_names([f"jars/{'x' * 400}{i}" for i in range(500)], "bob", never)
    assert many is not None
    assert len(many.message) < 4000


@pytest.mark.parametrize("name", ["forward_to_fs/etc/passwd", "forward_to_fs//etc/x", "forward_to_fs"])
def test_files_are_never_copied_to_sparks_file_system(name: str) -> None:
    assert code(name) == "NOT_GOVERNABLE"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "pyfiles",
        "pyfiles/",
        "pyfiles//x.py",
        "pyfiles/../jars/x.jar",
        "pyfiles/..",
        "pyfiles/./x.py",
        "pyfiles/x.py/",
        "pyfiles/x\x00.py",
        "pyfiles/x\n.py",
        "pyfiles\\x.py",
        "pyfiles/..\\x.py",
        "pyfiles/ ../x.py",
        "pyfiles/.. /x.py",
        "PyFiles/x.py",
        "unknown/x",
        "x.py",
        "../x",
        ".",
        "cache/",
        "cache/x",
        "cache/" + "0" * 63,
        "cache/" + "0" * 65,
        "cache/" + "A" * 64,
        "cache/../" + "0" * 64,
        CACHED + "\n",
        "archives/x.zip#",
        "archives/x.zip#..",
        "archives/x.zip#../../etc",
        "archives/x.zip#/etc",
        "archives/x.zip#a#b",
        "pyfiles/x.py#y",
        "jars/" + "x" * MAX_NAME_CHARS,
        "jars/\ud800",
    ],
)
def test_odd_names_are_refused_whatever_policies_say(name: str) -> None:
    assert code(name) == "MALFORMED"


@given(st.text(max_size=60))
def test_any_name_is_refused_or_a_plain_path_below_a_known_folder(name: str) -> None:
    if code(name) is None:
        assert name.split("/")[0] in (*CODE_PREFIXES, "cache")
        assert not {"", ".", ".."} & set(name.split("/"))


def batch(*artifacts: tuple[str, bytes]) -> Any:
    kinds = [
        REQUEST.SingleChunkArtifact(name=name, data=REQUEST.ArtifactChunk(data=data))
        for name, data in artifacts
    ]
    return REQUEST(batch=REQUEST.Batch(artifacts=kinds))


def begin(name: str, total: int, chunks: int, first: bytes) -> Any:
    return REQUEST(
        begin_chunk=REQUEST.BeginChunkedArtifact(
            name=name, total_bytes=total, num_chunks=chunks, initial_chunk=REQUEST.ArtifactChunk(data=first)
        )
    )


def chunk(data: bytes) -> Any:
    return REQUEST(chunk=REQUEST.ArtifactChunk(data=data))


def read(request: Any) -> AddArtifactsRequest:
    request.session_id = "11111111-2222-3333-4444-555555555555"
    return add_artifacts(request.SerializeToString())


def outcome(
    requests: Sequence[Any], limits: ArtifactLimits | None = None, rights: Any = always
) -> str | None:
    """Say how an upload ends: the code of what refused it, or None when it is whole."""
    upload = ArtifactStream("bob", rights, limits)
    for request in requests:
        if (refusal := upload.take(read(request))) is not None:
            return refusal.code
    end = upload.finish()
    return end.code if end is not None else None


def test_uploads_as_pyspark_sends_them() -> None:
    upload = ArtifactStream("bob", always)
    for request in (
        batch(("pyfiles/a.py", b"x"), (CACHED, b"y")),
        begin("jars/b.jar", 7, 3, b"abc"),
        chunk(b"def"),
        chunk(b"g"),
        batch(("files/c", b"")),
        begin("jars/d.jar", 2, 1, b"xy"),
    ):
        assert upload.take(read(request)) is None
    assert upload.finish() is None
    assert upload.names == ["pyfiles/a.py", CACHED, "jars/b.jar", "files/c", "jars/d.jar"]
    assert outcome([]) is None


@pytest.mark.parametrize(
    "requests",
    [
        [REQUEST()],
        [chunk(b"x")],
        [begin("jars/a", 6, 2, b"abc")],
        [begin("jars/a", 6, 2, b"abc"), chunk(b"d")],
        [begin("jars/a", 6, 2, b"abc"), chunk(b"defg")],
        [begin("jars/a", 6, 2, b"abcdefg")],
        [begin("jars/a", 3, 1, b"ab")],
        [begin("jars/a", 3, 1, b"abc"), chunk(b"")],
        [begin("jars/a", 6, 2, b"abc"), begin("jars/b", 1, 1, b"x")],
        [begin("jars/a", 6, 2, b"abc"), batch(("jars/b", b"x"))],
        [begin("jars/a", 6, 0, b"")],
        [begin("jars/a", 6, -1, b"")],
        [begin("jars/a", -6, 1, b"")],
        [begin("jars/../a", 1, 1, b"x")],
        [batch(("jars/a", b""), ("../b", b""))],
    ],
)
def test_uploads_that_are_not_what_they_announce(requests: list[Any]) -> None:
    assert outcome(requests) == "MALFORMED"


def test_a_grant_is_asked_for_in_every_form() -> None:
    assert outcome([batch(("jars/a", b"x"))], rights=never) == "ACCESS_DENIED"
    assert outcome([begin("jars/a", 1, 1, b"x")], rights=never) == "ACCESS_DENIED"
    assert outcome([begin(CACHED, 1, 1, b"x")], rights=never) is None
    assert outcome([batch((CACHED, b"x"), ("jars/a", b"x"))], rights=never) == "ACCESS_DENIED"


def test_an_upload_has_bounds() -> None:
    limits = ArtifactLimits(total_bytes=10, artifacts=3)
    assert outcome([batch((CACHED, b"x" * 10))], limits) is None
    assert outcome([batch((CACHED, b"x" * 11))], limits) == "LIMIT_EXCEEDED"
    assert outcome([begin(CACHED, 11, 2, b"x")], limits) == "LIMIT_EXCEEDED"
    assert outcome([begin(CACHED, 2**62, 2, b"x")], limits) == "LIMIT_EXCEEDED"
    assert outcome([batch((CACHED, b"x" * 6)), begin(CACHED, 5, 1, b"x" * 5)], limits) == "LIMIT_EXCEEDED"
    assert outcome([batch((CACHED, b""))] * 3, limits) is None
    assert outcome([batch((CACHED, b""))] * 4, limits) == "LIMIT_EXCEEDED"


def test_every_kind_of_message_of_an_upload_is_judged() -> None:
    payloads = {field.name for field in REQUEST.DESCRIPTOR.oneofs_by_name["payload"].fields}
    assert payloads == {"batch", "begin_chunk", "chunk"}
