"""Accepted tags: the last good list holds whatever becomes of the database; none is no list."""

from __future__ import annotations

from pathlib import Path

from gateway.sources.accepted_tags import AcceptedList, AcceptedTag, AcceptedTags

PII = AcceptedTag(
    catalog="c", database="d", table="t", column="x{1}", tag="PII", attributes=({"level": "3"}, {})
)
WHOLE = AcceptedTag(catalog="c", database="d", table="t", column="*", tag="PII")


class Database:
    """A list behind a connection that can be cut."""

    def __init__(self, *tags: AcceptedTag) -> None:
        self.found = AcceptedList(number=1, tags=tags)
        self.away = False
        self.read = 0

    async def fetch(self, known: int | None) -> AcceptedList | None:
        if self.away:
            raise OSError("it is away")
        if known == self.found.number:
            return None
        self.read += 1
        return self.found


class Policies:
    def __init__(self) -> None:
        self.lists: list[AcceptedList] = []

    async def offer(self, found: AcceptedList) -> None:
        self.lists.append(found)


async def test_a_list_is_offered_once_for_each_change() -> None:
    database, policies = Database(PII), Policies()
    source = AcceptedTags(database.fetch)
    assert source.stale() is not None
    await source.start(policies.offer)
    assert await source.look()
    assert policies.lists == [database.found]
    database.found = AcceptedList(number=2, tags=())
    assert await source.look()
    assert [found.number for found in policies.lists] == [1, 2]
    assert source.stale() is None
    assert source.trouble == ""


async def test_the_last_list_holds_while_the_database_is_away_and_is_read_whole_afterwards() -> None:
    database, policies = Database(PII), Policies()
    source = AcceptedTags(database.fetch)
    await source.start(policies.offer)
    database.away = True
    assert not await source.look()
    assert source.stale() is None
    assert "it is away" in source.trouble
    database.away = False
    # It may be another database with the same number by now.
    database.found = AcceptedList(number=1, tags=())
    assert await source.look()
    assert policies.lists[-1].tags == ()


async def test_the_list_holds_over_a_restart(tmp_path: Path) -> None:
    database, cache = Database(PII, WHOLE), tmp_path / "accepted.json"
    await AcceptedTags(database.fetch, cache=cache).start(Policies().offer)
    assert cache.stat().st_mode & 0o777 == 0o600
    database.away = True
    policies = Policies()
    again = AcceptedTags(database.fetch, cache=cache)
    await again.start(policies.offer)
    assert policies.lists == [database.found]
    assert again.stale() is None


async def test_without_any_list_nothing_is_judged(tmp_path: Path) -> None:
    database = Database(PII)
    database.away = True
    source = AcceptedTags(database.fetch, cache=tmp_path / "accepted.json")
    await source.start(Policies().offer)
    assert "it is away" in (source.stale() or "")
    database.away = False
    await source.look()
    assert source.stale() is None


async def test_a_file_that_is_broken_is_no_list(tmp_path: Path) -> None:
    database, cache = Database(PII), tmp_path / "accepted.json"
    database.away = True
    odd = '{"number": 1, "tags": [["c", "d", "t", "x", "PII", ["level"]]]}'
    for broken in ('{"number": 1', '{"number": 1, "tags": [["c", "d"]]}', '{"tags": []}', "[]", odd):
        cache.write_text(broken)
        cache.chmod(0o600)
        policies = Policies()
        source = AcceptedTags(database.fetch, cache=cache)
        await source.start(policies.offer)
        assert source.stale() is not None, broken
        assert policies.lists == []


async def test_policies_that_do_not_take_the_list_leave_it_to_be_offered_again() -> None:
    database = Database(PII)
    source = AcceptedTags(database.fetch)

    async def refuse(found: AcceptedList) -> None:
        raise ValueError("no")

    await source.start(refuse)
    assert source.stale() is not None
    policies = Policies()
    await source.start(policies.offer)
    assert policies.lists == [database.found]


def test_names_are_literal_and_each_set_of_attributes_is_a_tag() -> None:
    tagged = PII.build_tagged()
    assert tagged.resources["column"].values == ("x?1?",)
    assert [dict(tag.attributes) for tag in tagged.tags] == [{"level": "3"}, {}]
    assert all(tag.propagated for tag in tagged.tags)
    assert set(WHOLE.build_tagged().resources) == {"catalog", "database", "table"}
    assert [tag.type for tag in WHOLE.build_tagged().tags] == ["PII"]
