"""The spool loses nothing within its bounds, and counts what it loses beyond them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import Faults
from gateway.lineage.openlineage.spool import EventSpool, EventSpoolLimits


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def spool_of(path: Path, clock: Clock | None = None, **limits: float) -> EventSpool:
    spool = EventSpool(path, limits=EventSpoolLimits(**limits), clock=clock or Clock())  # type: ignore[arg-type]
    spool.open()
    return spool


def line(number: int, size: int = 0) -> bytes:
    return b'{"n":%d,"x":"%s"}\n' % (number, b"x" * size)


def waiting(spool: EventSpool) -> list[bytes]:
    """Return all that waits, and pass it in memory only."""
    found = []
    while entries := spool.take():
        for entry in entries:
            found.append(entry.line)
            spool.advance(entry.end)
    return found


def test_events_come_in_their_order_over_restarts(tmp_path: Path) -> None:
    spool = spool_of(tmp_path)
    for number in range(5):
        spool.append(line(number))
    first, second = spool.take(2)
    assert [first.line, second.line] == [line(0), line(1)]
    spool.advance(first.end)
    spool.close()
    spool = spool_of(tmp_path)
    spool.append(line(5))
    assert waiting(spool) == [line(n) for n in range(1, 6)]
    spool.save()
    assert spool.backlog_bytes == 0
    assert list(tmp_path.glob("*.jsonl")) == []
    spool.append(line(6))
    spool.close()
    assert waiting(spool_of(tmp_path)) == [line(6)]


def test_what_was_not_saved_comes_again(tmp_path: Path) -> None:
    spool = spool_of(tmp_path)
    spool.append(line(0) + line(1))
    spool.save()
    assert waiting(spool) == [line(0), line(1)]
    spool._lock.release()  # as a kill does
    assert waiting(spool_of(tmp_path)) == [line(0), line(1)]


class HeldWhileTheDiskWrites:
    def __enter__(self) -> None:
        raise AssertionError("the event loop would wait for the disk")

    def __exit__(self, *of: object) -> None: ...


def test_what_the_event_loop_asks_waits_for_no_disk(tmp_path: Path) -> None:
    spool = spool_of(tmp_path)
    spool.append(line(0) + line(1))
    first, second = spool.take()
    spool._guard = HeldWhileTheDiskWrites()  # type: ignore[assignment]
    spool.advance(first.end)
    assert (spool.has(first.end), spool.has(second.end)) == (False, True)
    assert spool.backlog_bytes == len(second.line)
    assert spool.oldest_s == 0.0


def test_beyond_its_size_the_oldest_go_and_are_counted(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, max_bytes=4000)
    for number in range(100):
        spool.append(line(number, 80))
    left = waiting(spool)
    assert left == [line(n, 80) for n in range(100 - len(left), 100)]
    assert spool.dropped == 100 - len(left)
    assert 25 <= len(left) <= 45
    assert sum(p.stat().st_size for p in tmp_path.glob("*.jsonl")) <= 5000


def test_an_event_that_went_meanwhile_is_not_sent(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, max_bytes=1000)
    spool.append(line(0, 300))
    (entry,) = spool.take()
    assert spool.has(entry.end)
    for number in range(1, 5):
        spool.append(line(number, 300))
    assert not spool.has(entry.end)
    assert waiting(spool)[-1] == line(4, 300)


def test_beyond_their_age_events_go_and_are_counted(tmp_path: Path) -> None:
    clock = Clock()
    spool = spool_of(tmp_path, clock, max_age_s=100)
    spool.append(line(0))
    clock.now += 60
    spool.append(line(1))
    assert spool.oldest_s == 60
    clock.now += 60
    spool.expire()
    assert (spool.dropped, waiting(spool)) == (1, [line(1)])
    spool.append(line(2))
    clock.now += 101
    spool.expire()
    assert (spool.dropped, waiting(spool), spool.backlog_bytes) == (2, [], 0)


def test_a_half_line_goes_and_a_damaged_position_is_no_loss(tmp_path: Path) -> None:
    spool = spool_of(tmp_path)
    spool.append(line(0) + line(1))
    spool.close()
    (segment,) = tmp_path.glob("*.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"n":')
    (tmp_path / "sent").write_bytes(b"{?")
    spool = spool_of(tmp_path)
    assert waiting(spool) == [line(0), line(1)]


def test_a_file_that_somebody_removed_does_not_stop_the_others(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, max_bytes=4000)
    for number in range(30):
        spool.append(line(number, 80))
    sorted(tmp_path.glob("*.jsonl"))[0].unlink()
    left = waiting(spool)
    assert left
    assert left[-1] == line(29, 80)


def test_two_gateways_on_one_spool_are_told(tmp_path: Path) -> None:
    spool = spool_of(tmp_path)
    with pytest.raises(Faults, match="another process uses the spool of events"):
        spool_of(tmp_path)
    spool.close()
    spool_of(tmp_path).close()


def test_what_is_put_aside_is_bounded(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, max_refused_bytes=1000)
    for number in range(100):
        spool.put_aside(line(number, 80))
    kept = (tmp_path / "refused.old.jsonl").read_bytes() + (tmp_path / "refused.jsonl").read_bytes()
    assert kept.endswith(line(99, 80))
    assert len(kept) <= 2000


def test_a_disk_that_fails_is_an_error_and_the_next_append_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = spool_of(tmp_path)
    spool.append(line(0))

    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.fdatasync", fail)
    with pytest.raises(Faults, match="Input/output error"):
        spool.append(line(1))
    monkeypatch.undo()
    spool.append(line(1))
    assert waiting(spool) == [line(0), line(1)]
