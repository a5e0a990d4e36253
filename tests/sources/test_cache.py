"""The cache is named and shaped as Ranger's plugins have it, private, and replaced whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gateway.sources.cache import Cache, CacheTrouble
from gateway.sources.ranger_client import DownloadKind


def test_names_are_rangers(tmp_path: Path) -> None:
    cache = Cache(tmp_path, "hiveServer2", "a/b:c")
    assert [
        cache.path(kind).name
        for kind in (DownloadKind.POLICIES, DownloadKind.ROLES, DownloadKind.TAGS, DownloadKind.USERS)
    ] == [
        "hiveServer2_a_b_c.json",
        "hiveServer2_a_b_c_roles.json",
        "hiveServer2_a_b_c_tag.json",
        "hiveServer2_a_b_c_userstore.json",
    ]
    assert Cache(tmp_path, "x", "..").path(DownloadKind.POLICIES).parent == tmp_path


def test_a_file_is_for_its_owner_only_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new", "sluice", "s")
    cache.write(DownloadKind.POLICIES, {"policies": [{"id": 1}], "serviceName": "s"})
    path = cache.path(DownloadKind.POLICIES)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [found.name for found in path.parent.iterdir()] == ["sluice_s.json"]
    assert cache.read(DownloadKind.POLICIES) == {"policies": [{"id": 1}], "serviceName": "s"}
    assert cache.read(DownloadKind.TAGS) is None


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path, "sluice", "s")
    cache.write(DownloadKind.POLICIES, {"policyVersion": 1})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(CacheTrouble, match="No space left"):
            cache.write(DownloadKind.POLICIES, {"policyVersion": 2})
    assert cache.read(DownloadKind.POLICIES) == {"policyVersion": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_content_that_nests_too_deep_is_trouble_and_not_a_crash(tmp_path: Path) -> None:
    cache = Cache(tmp_path, "sluice", "s")
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(CacheTrouble, match="cannot be written"):
        cache.write(DownloadKind.POLICIES, deep)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b'{"policies": "x"}', b'{"policies": true}', b'{"policies": 1e300}', b"[]"]
)
def test_times_that_are_none_are_trouble(tmp_path: Path, content: bytes) -> None:
    cache = Cache(tmp_path, "sluice", "s")
    cache.contact_path.write_bytes(content)
    with pytest.raises(CacheTrouble, match=r"sluice_s\.contact"):
        cache.read_contact([DownloadKind.POLICIES])


def test_a_command_beside_the_gateway_writes_nothing(tmp_path: Path) -> None:
    Cache(tmp_path, "sluice", "s").write(DownloadKind.POLICIES, {"policyVersion": 1})
    cache = Cache(tmp_path, "sluice", "s", read_only=True)
    cache.write(DownloadKind.POLICIES, {"policyVersion": 2})
    cache.write_contact({DownloadKind.POLICIES: 1.0})
    cache.set_aside(1.0)
    assert cache.read(DownloadKind.POLICIES) == {"policyVersion": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_that_everybody_may_write_is_not_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path, "sluice", "dev")
    cache.write(DownloadKind.POLICIES, {"a": 1})
    cache.path(DownloadKind.POLICIES).chmod(0o666)
    with pytest.raises(CacheTrouble, match="is writable by everybody"):
        cache.read(DownloadKind.POLICIES)


def test_what_cannot_be_set_aside_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path, "sluice", "dev")
    for kind in DownloadKind:
        cache.write(kind, {"a": 1})

    def refused(*_: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(CacheTrouble, match="cannot be renamed"):
        cache.set_aside(0)
    for kind in DownloadKind:
        with pytest.raises(CacheTrouble):
            cache.read(kind)
