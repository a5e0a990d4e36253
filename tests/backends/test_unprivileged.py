"""Whether a user can reach a file is read from mode bits; what it cannot reach is put within its reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.backends import unprivileged
from gateway.backends.unprivileged import RunAs, can_reach, state_directory, within_reach

STRANGER = RunAs(name="nobody", uid=65534, gid=65534)


@pytest.fixture
def open_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that counts as reachable: pytest's own lies below one that is closed to others."""
    closed = {parent for parent in tmp_path.resolve().parents if not parent.stat().st_mode & 0o001}
    real = unprivileged._may
    monkeypatch.setattr(
        unprivileged, "_may", lambda path, user, bits: path in closed or real(path, user, bits)
    )
    tmp_path.chmod(0o755)
    return tmp_path


def make_tree(root: Path, mode: int = 0o755) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "java").write_text("#!/bin/sh\n")
    (root / "bin" / "java").chmod(mode)
    (root / "data.jar").write_text("jar")
    (root / "data.jar").chmod(mode & 0o644)
    (root / "link.jar").symlink_to("data.jar")
    return root


def test_a_file_below_a_closed_directory_is_out_of_reach(open_path: Path) -> None:
    tree = make_tree(open_path / "home" / "spark")
    assert can_reach(tree / "data.jar", STRANGER)
    (open_path / "home").chmod(0o700)
    assert not can_reach(tree / "data.jar", STRANGER)
    assert can_reach(tree / "data.jar", RunAs(name="owner", uid=os.getuid(), gid=os.getgid()))


def test_what_can_be_read_is_used_where_it_is(open_path: Path) -> None:
    tree = make_tree(open_path / "spark")
    assert within_reach(tree, STRANGER, open_path / "shelter") == tree
    assert within_reach(tree, None, open_path / "shelter") == tree


def test_what_is_out_of_reach_is_linked_not_copied_and_found_again(open_path: Path) -> None:
    tree = make_tree(open_path / "home" / "spark")
    (open_path / "home").chmod(0o700)
    copy = within_reach(tree, STRANGER, open_path / "shelter")
    assert copy != tree
    assert can_reach(copy / "bin" / "java", STRANGER)
    assert (copy / "data.jar").samefile(tree / "data.jar")
    assert (copy / "link.jar").is_symlink()
    made = (copy / "bin").stat().st_ctime_ns
    assert within_reach(tree, STRANGER, open_path / "shelter") == copy
    assert (copy / "bin").stat().st_ctime_ns == made, "copied a second time"


def test_a_changed_original_is_linked_anew(open_path: Path) -> None:
    tree = make_tree(open_path / "home" / "spark")
    (open_path / "home").chmod(0o700)
    within_reach(tree, STRANGER, open_path / "shelter")
    (tree / "new.jar").write_text("new")
    copy = within_reach(tree, STRANGER, open_path / "shelter")
    assert (copy / "new.jar").read_text() == "new"


def test_a_private_original_keeps_its_mode(open_path: Path) -> None:
    tree = make_tree(open_path / "home" / "spark", mode=0o700)
    copy = within_reach(tree, STRANGER, open_path / "shelter")
    assert can_reach(copy / "bin" / "java", STRANGER)
    assert os.access(copy / "bin" / "java", os.X_OK)
    assert (tree / "bin" / "java").stat().st_mode & 0o777 == 0o700


def test_state_goes_to_the_chosen_directory_when_it_can_be_reached(open_path: Path) -> None:
    me = RunAs(name="me", uid=os.getuid(), gid=os.getgid())
    state = state_directory(open_path / "run" / "spark", me)
    assert state == open_path / "run" / "spark"
    assert state.stat().st_mode & 0o777 == 0o700


def test_state_below_a_closed_directory_goes_elsewhere_and_always_to_the_same_place(
    open_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unprivileged, "STATE", open_path / "state")
    monkeypatch.setattr(os, "chown", lambda *_: None)
    (open_path / "home").mkdir(mode=0o700)
    first = state_directory(open_path / "home" / "run" / "spark", STRANGER)
    assert first.parent == open_path / "state"
    assert state_directory(open_path / "home" / "run" / "spark", STRANGER) == first
    assert state_directory(open_path / "home" / "other" / "spark", STRANGER) != first


def test_a_file_alone_is_put_within_reach_and_the_original_stays_as_it_is(open_path: Path) -> None:
    closed = open_path / "closed.jar"
    closed.write_text("jar")
    closed.chmod(0o600)
    placed = open_path / "placed.jar"
    unprivileged.file_within_reach(closed, STRANGER, placed)
    assert can_reach(placed, STRANGER)
    assert placed.read_text() == "jar"
    assert not can_reach(closed, STRANGER)
