"""Rules change without a restart, and a broken change changes nothing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gateway.app.files_at_fault import describe_files_at_fault
from gateway.app.rule_files import FilesFingerprint
from gateway.app.rules import PolicyRegistry, find_shipped_rules, fingerprint, read_rules, rule_paths
from gateway.app.state_metrics import StateCollector, source_gauges
from gateway.errors import Faults, UnreadableFiles
from gateway.model.policy import FilterItem, Policy, PolicySet, PolicyType, Service
from gateway.model.principal import Principal
from gateway.model.reading import NotRead, ReadingAnswer
from gateway.model.resource import AccessRequest, Resource
from gateway.pipeline.policy_reading import Proofs
from gateway.policy.engine import engine_for
from gateway.policy.service_defs import load_service_defs
from gateway.settings.models import PolicySettings
from tests.app.readers import ReaderThatCounts
from tests.judge_world import SERVICE_DEFS
from tests.speed import patience

SPARK = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})["spark"]

PACK = """\
service: spark
policies:
  - name: analysts read
    on: {{catalog: spark_catalog, database: hr, table: "*", column: "*"}}
    allow: [{{groups: [analysts], access: [select]}}]
  - name: own region
    on: {{catalog: spark_catalog, database: hr, table: employee}}
    filter: [{{groups: [analysts], where: "{where}"}}]
"""


def rules_of(directory: Path) -> PolicyRegistry:
    return PolicyRegistry(PolicySettings(paths=(directory,)), ReaderThatCounts())


def write(directory: Path, where: str, name: str = "hr.yaml") -> None:
    (directory / name).write_text(PACK.format(where=where))


async def test_a_change_is_in_force_at_the_next_look(tmp_path: Path) -> None:
    write(tmp_path, "region = 'EMEA'")
    rules = rules_of(tmp_path)
    await rules.start()
    first = rules.current
    assert not await rules.reload_files()
    assert rules.current is first

    write(tmp_path, "region = 'APAC' ")
    assert await rules.reload_files()
    assert rules.current.version == first.version + 1
    assert rules.current is not first


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("tags: [", "hr.yaml:10: not YAML"),
        ("service: spakr", "hr.yaml:9: key `service` is repeated here"),
    ],
)
async def test_a_file_at_fault_keeps_its_last_good_state(tmp_path: Path, more: str, fault: str) -> None:
    write(tmp_path, "region = 'EMEA'")
    rules = rules_of(tmp_path)
    await rules.start()
    good = rules.current

    (tmp_path / "hr.yaml").write_text(f"{PACK.format(where='true')}{more}\n")
    assert not await rules.reload_files()
    assert rules.current is good
    assert fault in rules.faults[0]

    write(tmp_path, "region = 'APAC'")
    assert await rules.reload_files()
    assert rules.faults == ()


async def test_a_filter_that_cannot_be_used_closes_its_table_and_holds_nothing_back(tmp_path: Path) -> None:
    write(tmp_path, "region = 'EMEA'")
    rules = rules_of(tmp_path)
    await rules.start()
    assert may_read(rules, "employee")

    write(tmp_path, "region = broken")
    other = PACK.format(where="true").replace("employee", "salary")
    other = other.replace("analysts read", "others read").replace("own region", "all regions")
    (tmp_path / "more.yaml").write_text(other)
    assert await rules.reload_files()
    (state,) = rules.sources()
    fault = "hr.yaml:8: this filter is not a Spark SQL expression: syntax error at 'broken'"
    assert len(state.faults) == 1
    assert fault in state.faults[0]
    assert not may_read(rules, "employee")
    assert not may_read(rules, "employee", "table")
    assert may_read(rules, "department"), "what else the pack says is in force"
    assert "all regions" in {policy.name for policy in rules.current.policies()}, "so is another pack"
    closing = next(policy for policy in rules.current.policies() if "closed" in policy.name)
    assert (closing.name, closing.deny[0].groups) == (
        "own region (closed: its text cannot be used)",
        frozenset({"public"}),
    )

    # It stays closed whatever else changes, and a denial that comes meanwhile is in force at once.
    (tmp_path / "more.yaml").unlink()
    assert await rules.reload_files()
    assert not may_read(rules, "employee")
    (tmp_path / "no.yaml").write_text(DENIAL)
    assert await rules.reload_files()
    assert not may_read(rules, "department")

    write(tmp_path, "region = 'APAC'")
    assert await rules.reload_files()
    assert may_read(rules, "employee")
    assert rules.sources()[0].faults == ()


async def test_a_file_at_fault_holds_no_other_file_back(tmp_path: Path) -> None:
    write(tmp_path, "region = 'EMEA'")
    rules = rules_of(tmp_path)
    await rules.start()
    (tmp_path / "hr.yaml").write_text("policies: [")
    (tmp_path / "no.yaml").write_text(DENIAL)
    assert await rules.reload_files()
    assert not may_read(rules, "department")
    assert may_read(rules, "employee"), "by what the file had before"
    assert "hr.yaml:2: not YAML" in rules.faults[0]
    assert not await rules.reload_files()
    (tmp_path / "no.yaml").unlink()
    (tmp_path / "new.yaml").write_text("a: [")
    assert await rules.reload_files()
    assert may_read(rules, "department")
    assert len(rules.faults) == 2
    write(tmp_path, "region = 'EMEA'")
    (tmp_path / "new.yaml").unlink()
    assert await rules.reload_files()
    assert not rules.faults


def failing(pack: str, table: str = "employee", line: str = "deny") -> str:
    """A pack with a case that fails."""
    on = CARDS.replace("employee", table)
    return f"{pack}cases:\n  - as: {{user: ann, groups: [analysts]}}\n    on: {on}\n    expect: {line}\n"


async def test_a_file_whose_own_case_fails_takes_away_and_gives_nothing(tmp_path: Path) -> None:
    write(tmp_path, "true")
    now, reader = [0.0], ReaderThatCounts()
    rules = PolicyRegistry(PolicySettings(paths=(tmp_path,)), reader, clock=lambda: now[0])
    await rules.start()
    pack = (tmp_path / "hr.yaml").read_text()
    denial, more = DENIAL.partition("policies:\n")[2], pack.replace("analysts read", "all read")
    grant = more.replace('hr, table: "*"', 'pay, table: "*"').replace("own region", "other region")
    (tmp_path / "hr.yaml").write_text(failing(pack + denial))
    (tmp_path / "more.yaml").write_text(grant.replace("employee", "wages"))
    assert await rules.reload_files()
    assert not may_read(rules, "department"), "a revocation in the very file is in force"
    assert may_read(rules, "employee")
    assert may_read(rules, "wages", database="pay"), "no other file is held back"
    (state,) = rules.sources()
    (file,) = state.files
    assert (file.line, file.kind) == (13, "cases")
    assert "hr.yaml:13: case fails" in rules.faults[0]
    assert state.stale is None
    (tmp_path / "hr.yaml").write_text(failing(pack + denial).replace("[public]", "[nobody]"))
    assert await rules.reload_files()
    assert may_read(rules, "department")
    (tmp_path / "hr.yaml").write_text(failing(pack.replace("true", "id > 1")))
    assert await rules.reload_files()
    rows = engine_for(rules.current).row_filter(ANN, Resource.table("spark_catalog", "hr", "employee"))
    assert rows is not None
    assert rows.expression == "(id > 1) AND (true)"
    assert rules.sources()[0].files[0].since == file.since
    origins = rules.current.origins
    assert origins["files"] != origins["files_before"]
    now[0] = 1e6
    assert rules.stale() is None, "what it takes away is in force, so nobody has to wait for anything"
    write(tmp_path, "id > 1")
    assert await rules.reload_files()
    assert rules.sources()[0].files == ()
    assert "files_before" not in rules.current.origins


async def test_a_policy_at_fault_in_what_was_before_closes_there(tmp_path: Path) -> None:
    write(tmp_path, "true")
    rules = rules_of(tmp_path)
    await rules.start()
    pack = (tmp_path / "hr.yaml").read_text()
    (tmp_path / "hr.yaml").write_text(pack + f"  - {{name: bad, on: {CARDS}, mask: []}}\n")
    assert await rules.reload_files()
    (tmp_path / "hr.yaml").write_text(failing(pack))
    assert await rules.reload_files()
    assert not may_read(rules, "employee", column="salary")
    assert may_read(rules, "employee")
    (tmp_path / "hr.yaml").write_text(failing(pack.replace("true", "region = broken")))
    assert await rules.reload_files()
    assert not may_read(rules, "employee"), "a text of a file with a case that fails is read by the parser"
    assert may_read(rules, "department")
    write(tmp_path, "true")
    assert await rules.reload_files()
    assert may_read(rules, "employee", column="salary")


async def test_a_file_that_is_none_has_what_it_had_for_a_time(tmp_path: Path) -> None:
    write(tmp_path, "true")
    now = [0.0]
    settings = PolicySettings(paths=(tmp_path,), files_max_stale_s=60)
    rules = PolicyRegistry(settings, ReaderThatCounts(), clock=lambda: now[0])
    await rules.start()
    good = (tmp_path / "hr.yaml").read_text()
    (tmp_path / "hr.yaml").write_text(f"{good}tags: [")
    assert not await rules.reload_files()
    (file,) = rules.sources()[0].files
    assert (file.kind, file.line > 0) == ("whole", True)
    now[0] = 30.0
    (tmp_path / "no.yaml").write_text(DENIAL)
    assert await rules.reload_files()
    (tmp_path / "hr.yaml").write_text("policies: [")
    assert not await rules.reload_files()
    assert rules.stale() is None
    now[0] = 60.5
    assert rules.stale() == "a policy file has been invalid for 60 s"
    assert rules.sources()[0].stale == rules.stale()
    page = page_of(rules)
    assert 'sluice_policy_source_stale{source="files"} 1.0' in page
    assert f'file="{file.file}",kind="whole",line="2",source="files"' in page
    told = describe_files_at_fault(rules.sources()[0].files, 60)
    assert told is not None
    assert told.startswith("no policy in them can be used; all statements are refused after 60 s: ")
    assert f"hr.yaml:2 since {file.since:%Y-%m-%d %H:%M:%S} UTC" in told
    (tmp_path / "hr.yaml").write_text(good)
    assert await rules.reload_files()
    assert rules.stale() is None


async def test_the_age_of_a_file_that_is_mended_counts_for_no_other(tmp_path: Path) -> None:
    write(tmp_path, "true")
    now = [0.0]
    settings = PolicySettings(paths=(tmp_path,), files_max_stale_s=60)
    rules = PolicyRegistry(settings, ReaderThatCounts(), clock=lambda: now[0])
    await rules.start()
    good = (tmp_path / "hr.yaml").read_text()
    (tmp_path / "hr.yaml").write_text("a: [")
    assert not await rules.reload_files()
    now[0] = 50.0
    (tmp_path / "hr.yaml").write_text(good)
    (tmp_path / "new.yaml").write_text("a: [")
    await rules.reload_files()
    now[0] = 100.0
    assert rules.stale() is None
    now[0] = 110.5
    assert rules.stale() is not None


async def test_what_is_told_of_files_is_what_is_wrong_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that could not be read, and now can, and is at fault: both are told when they are so."""
    write(tmp_path, "true")
    now = [0.0]
    settings = PolicySettings(paths=(tmp_path,), files_max_stale_s=60)
    rules = PolicyRegistry(settings, ReaderThatCounts(), clock=lambda: now[0])
    await rules.start()
    (tmp_path / "hr.yaml").write_text("policies: [")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", refuse_to_read)
        assert not await rules.reload_files()
        now[0] = 60.5
        assert rules.stale() == "a policy file could not be read for 60 s"
    assert not await rules.reload_files()
    assert rules.stale() == "a policy file has been invalid for 60 s"
    assert "not YAML" in rules.faults[0]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", refuse_to_read)
        (tmp_path / "hr.yaml").touch()
        assert not await rules.reload_files()
        assert rules.stale() == "a policy file could not be read for 60 s"


ANN = Principal(user="ann", groups=frozenset({"analysts"}))


def page_of(rules: PolicyRegistry) -> str:
    registry = CollectorRegistry()
    registry.register(StateCollector(lambda: source_gauges(rules.sources())))
    return generate_latest(registry).decode()


CARDS = "{catalog: spark_catalog, database: hr, table: employee, column: salary}"


@pytest.mark.parametrize(
    "entry",
    [
        f"{{name: bad, on: {CARDS}, mask: [{{groups: [public], type: MASK_NUL}}]}}",
        f"{{name: bad, on: {CARDS}, mask: [{{groups: [public], type: CUSTOM, show: 'a -- b'}}]}}",
        f"{{name: bad, on: {CARDS}, deny: [{{groups: [public], access: [selct]}}]}}",
        f"{{name: bad, on: {CARDS}, deny: [{{groups: [public], access: [select], when: 'USER.'}}]}}",
        f"{{name: bad, on: {CARDS}, deyn: [{{groups: [public], access: [select]}}]}}",
        f"{{name: bad, on: {CARDS}, mask: []}}",
    ],
)
async def test_a_policy_at_fault_closes_what_it_is_about_and_nothing_else(tmp_path: Path, entry: str) -> None:
    write(tmp_path, "true")
    rules = rules_of(tmp_path)
    await rules.start()
    pack = (tmp_path / "hr.yaml").read_text()
    (tmp_path / "hr.yaml").write_text(f"{pack}  - {entry}\n")
    (tmp_path / "no.yaml").write_text(DENIAL)
    assert await rules.reload_files()
    assert not may_read(rules, "department"), "a revocation is in force"
    assert not may_read(rules, "employee", column="salary")
    assert hides(rules, "employee"), "also in a view that an operator vouches for"
    assert may_read(rules, "employee", column="name")
    (state,) = rules.sources()
    (closed,) = state.closed
    assert closed.name == "bad"
    assert closed.service == "spark"
    assert any(f"hr.yaml:{len(pack.splitlines()) + 1}: " in fault for fault in state.faults)

    (tmp_path / "more.yaml").write_text(DENIAL.replace("department", "salary").replace("nobody", "who"))
    assert await rules.reload_files()
    assert rules.sources()[0].closed[0].since == closed.since
    (tmp_path / "hr.yaml").write_text(pack)
    assert await rules.reload_files()
    assert not rules.sources()[0].closed
    assert may_read(rules, "employee", column="salary")


DENY = "deny: [{groups: [public], access: [select]}]"
HR = "catalog: spark_catalog, database: hr"


@pytest.mark.parametrize(
    "entry",
    [
        f"{{name: bad, on: {{{HR}, tabel: employee}}, {DENY}}}",
        f"{{name: bad, on: {{{HR}}}, {DENY}}}",
        f"{{name: bad, on: {{{HR}, tabel: employee}}, filter: [{{groups: [public], where: 'a'}}]}}",
        f"{{name: bad, on: {{{HR}, table: '{{NAME}}'}}, filter: [{{groups: [public], where: 'a'}}]}}",
        f"{{name: bad, on: {{{HR}, table: 'emp*?', column: salary}}, {DENY}}}",
        f"{{name: bad, om: {CARDS}, {DENY}}}",
        f"{{name: bad, {DENY}}}",
        f"{{name: bad, on: {CARDS}, allow: [{{users: [bob], access: [select]}}], x{DENY}}}",
        f"{{name: analysts read, on: {CARDS}, mask: [{{groups: [public], type: MASK_NULL}}]}}",
        f"{{name: bad, id: 7, on: {{{HR}, table: x}}, {DENY.replace('select', 'drop')}}}\n"
        f"  - {{name: worse, id: 7, on: {CARDS}, {DENY}}}",
    ],
    ids=[
        "a level that is none",
        "a level too high",
        "a filter's",
        "a value that cannot be read",
        "a value that never matches",
        "on misspelt",
        "no on",
        "deny misspelt",
        "a name twice",
        "an id twice",
    ],
)
async def test_a_policy_of_which_something_cannot_be_read_closes_all_that_it_may_be_about(
    tmp_path: Path, entry: str
) -> None:
    write(tmp_path, "true")
    rules = rules_of(tmp_path)
    await rules.start()
    pack = (tmp_path / "hr.yaml").read_text()
    denial = DENIAL.partition("policies:\n")[2]
    (tmp_path / "hr.yaml").write_text(f"{pack}  - {entry}\n{denial}")
    assert await rules.reload_files()
    assert not rules.faults
    assert not may_read(rules, "department"), "a revocation in the same file is in force"
    assert not may_read(rules, "employee", column="salary")
    assert hides(rules, "employee")
    assert len(rules.sources()[0].closed) == 1


async def test_a_policy_of_a_zone_that_cannot_be_read_closes_what_is_in_the_zone(tmp_path: Path) -> None:
    zone = (
        "service: spark\nzones: {z: {on: {catalog: spark_catalog, database: hr}}}\npolicies:\n"
        "  - {name: z, zone: z, on: {catalog: spark_catalog, database: hr, table: '*', column: '*'}, "
        "allow: [{groups: [analysts], access: [select]}]}\n"
    )
    (tmp_path / "hr.yaml").write_text(zone)
    rules = rules_of(tmp_path)
    await rules.start()
    assert may_read(rules, "employee", column="salary")
    (tmp_path / "hr.yaml").write_text(f"{zone}  - {{name: bad, zone: z, on: {CARDS}, x{DENY}}}\n")
    assert await rules.reload_files()
    assert not may_read(rules, "employee", column="salary")
    assert may_read(rules, "employee", column="name")


async def test_a_policy_at_fault_that_only_allows_gives_nothing_and_takes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "true")
    rules = rules_of(tmp_path)
    await rules.start()
    pack = (tmp_path / "hr.yaml").read_text()
    bad = f"{{name: bad, on: {CARDS}, allow: [{{groups: [public], access: [selct]}}]}}"
    (tmp_path / "hr.yaml").write_text(f"{pack}  - {bad}\n")
    assert await rules.reload_files()
    assert may_read(rules, "employee", column="salary")
    assert [one.name for one in rules.sources()[0].closed] == ["bad"]


async def test_a_case_that_fails_holds_no_revocation_back_where_a_policy_is_at_fault(tmp_path: Path) -> None:
    write(tmp_path, "true")
    rules = rules_of(tmp_path)
    await rules.start()
    bad = f"{{name: bad, on: {CARDS}, mask: [{{groups: [public], type: MASK_NUL}}]}}"
    case = (
        "cases:\n  - as: {user: ann, groups: [analysts]}\n    wants: select\n"
        f"    on: {CARDS}\n    expect: allow\n"
    )
    pack = (tmp_path / "hr.yaml").read_text()
    (tmp_path / "hr.yaml").write_text(f"{pack}  - {bad}\n{case}")
    (tmp_path / "no.yaml").write_text(DENIAL)
    assert await rules.reload_files()
    assert not may_read(rules, "department")


DENIAL = """\
service: spark
policies:
  - name: nobody looks at departments
    on: {catalog: spark_catalog, database: hr, table: department, column: "*"}
    deny: [{groups: [public], access: [all]}]
"""


def may_read(
    rules: PolicyRegistry, table: str, kind: str = "column", column: str = "name", database: str = "hr"
) -> bool:
    """Whether an analyst may select a column of a table, or the table."""
    resource = Resource.table("spark_catalog", database, table)
    if kind == "column":
        resource = resource.child("column", column)
    request = AccessRequest(principal=ANN, resource=resource, access="select")
    return engine_for(rules.current).decide(request).allowed


async def test_a_pack_that_disappears_is_a_change(tmp_path: Path) -> None:
    write(tmp_path, "true")
    write(tmp_path, "true", "other.yml")
    (tmp_path / "other.yml").write_text("service: spark\npolicies: []\n")
    rules = rules_of(tmp_path)
    await rules.start()
    (tmp_path / "hr.yaml").unlink()
    assert await rules.reload_files()
    assert list(rules.current.policies()) == []


async def test_a_gateway_does_not_start_on_broken_rules(tmp_path: Path) -> None:
    write(tmp_path, "broken")
    with pytest.raises(Faults, match="not a Spark SQL expression"):
        await rules_of(tmp_path).start()
    with pytest.raises(Faults, match="does not exist"):
        await rules_of(tmp_path / "absent").start()


async def test_listeners_hear_of_new_policies(tmp_path: Path) -> None:
    heard: list[PolicySet] = []
    write(tmp_path, "true")
    rules = PolicyRegistry(PolicySettings(paths=(tmp_path,)), ReaderThatCounts(), on_change=heard.append)
    await rules.start()
    assert heard == [rules.current]


async def test_a_bug_met_while_reading_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "true")
    rules = PolicyRegistry(PolicySettings(paths=(tmp_path,), reload_s=0.001), ReaderThatCounts())
    await rules.start()
    good = rules.current
    twice = asyncio.Event()
    called = 0

    def breaks(_: object) -> None:
        nonlocal called
        called += 1
        if called == 2:
            loop.call_soon_threadsafe(twice.set)
        raise AttributeError("never thought of")

    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patch:
        patch.setattr("gateway.app.rules.fingerprint", breaks)
        watching = asyncio.create_task(rules.watch())
        async with asyncio.timeout(patience()):
            await twice.wait()
        watching.cancel()
    assert rules.current is good
    assert rules.faults == ("reading the rule files failed; the log has the details",)
    assert [file.kind for file in rules.sources()[0].files] == ["whole"], "a revocation may stand in them"


def test_hidden_files_are_no_packs(tmp_path: Path) -> None:
    """Editors leave `.x.yaml.swp`, and Kubernetes mounts every file once more below `..data`."""
    (tmp_path / "..data").mkdir()
    for name in ("a.yaml", "b.yml", ".hidden.yaml", "..data/a.yaml", "notes.txt"):
        (tmp_path / name).write_text("service: spark\n")
    _, packs = rule_paths(PolicySettings(paths=(tmp_path,)))
    assert [path.name for path in packs] == ["a.yaml", "b.yml"]


def test_the_fingerprint_sees_a_replaced_file_of_the_same_size_and_time(tmp_path: Path) -> None:
    settings = PolicySettings(paths=(tmp_path,))
    write(tmp_path, "id = 1")
    before = fingerprint(settings)
    old = (tmp_path / "hr.yaml").stat()
    write(tmp_path, "id = 2", "next")
    (tmp_path / "next").replace(tmp_path / "hr.yaml")

    os.utime(tmp_path / "hr.yaml", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert fingerprint(settings) != before


def test_the_shipped_definitions_are_found() -> None:
    definitions, packs = rule_paths(PolicySettings())
    assert any(path.stem == "spark" for path in definitions)
    assert packs == []
    assert (find_shipped_rules() / "service_defs").is_dir()


async def test_files_that_could_not_be_read_are_looked_at_again_whatever_their_stamps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "region = 'EMEA'")
    rules = rules_of(tmp_path)
    await rules.start()
    first = rules.current
    write(tmp_path, "region = 'APAC' ")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", refuse_to_read)
        assert not await rules.reload_files()
    assert "cannot be read: Permission denied" in rules.faults[0]
    assert rules.current is first
    assert await rules.reload_files()
    assert rules.current.version == first.version + 1
    assert rules.faults == ()


def refuse_to_read(path: Path, **_: object) -> str:
    raise PermissionError(13, "Permission denied", str(path))


async def test_policies_that_could_not_be_read_for_too_long_are_stale(tmp_path: Path) -> None:
    directory, now = tmp_path / "packs", [0.0]
    directory.mkdir()
    write(directory, "region = 'EMEA'")
    settings = PolicySettings(paths=(directory,), files_max_stale_s=60)
    rules = PolicyRegistry(settings, ReaderThatCounts(), clock=lambda: now[0])
    await rules.start()
    directory.rename(tmp_path / "away")
    assert not await rules.reload_files()
    assert rules.stale() is None
    now[0] = 60.5
    assert not await rules.reload_files()
    assert rules.stale() == "a policy file could not be read for 60 s"
    (state,) = rules.sources()
    assert state.stale == rules.stale()
    (tmp_path / "away").rename(directory)
    await rules.reload_files()
    assert rules.stale() is None
    assert rules.faults == ()


async def test_a_look_at_the_files_that_does_not_end_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "region = 'EMEA'")
    now, begun = [0.0], asyncio.Event()
    settings = PolicySettings(paths=(tmp_path,), files_max_stale_s=60, reload_s=0.001)
    rules = PolicyRegistry(settings, ReaderThatCounts(), clock=lambda: now[0])
    await rules.start()

    async def hang() -> bool:
        begun.set()
        await asyncio.Event().wait()
        return False

    monkeypatch.setattr(rules, "reload_files", hang)
    watching = asyncio.create_task(rules.watch())
    await begun.wait()
    assert rules.stale() is None
    now[0] = 60.5
    assert rules.stale() == "a policy file could not be read for 60 s"
    watching.cancel()


async def test_a_file_that_is_still_written_to_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the half that is there nothing is at fault, and what hides something is yet to come."""
    write(tmp_path, "region = 'EMEA'")
    changed, seen = asyncio.Event(), list[FilesFingerprint]()
    settings = PolicySettings(paths=(tmp_path,), reload_s=0.001)
    rules = PolicyRegistry(settings, ReaderThatCounts(), on_change=lambda _: changed.set())
    await rules.start()
    changed.clear()

    def writing(settings: PolicySettings) -> FilesFingerprint:
        """Write the other half when the first one has been seen."""
        if len(seen) == 1:
            write(tmp_path, "region = 'APAC'")
        seen.append(fingerprint(settings))
        return seen[-1]

    half = PACK.format(where="region = 'APAC'").partition("  - name: own region")[0]
    (tmp_path / "hr.yaml").write_text(half)
    monkeypatch.setattr("gateway.app.rules.fingerprint", writing)
    watching = asyncio.create_task(rules.watch())
    async with asyncio.timeout(patience(20)):
        await changed.wait()
    watching.cancel()
    assert len(rules.current.services["spark"].policies) == 2


def test_a_directory_that_may_not_be_entered_is_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Denials in it would be gone, and what other files allow would be open."""
    closed = tmp_path / "packs" / "closed"
    closed.mkdir(parents=True)
    write(tmp_path / "packs", "region = 'EMEA'")
    scan = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UnreadableFiles, match="closed: cannot be read: Permission denied"):
        rule_paths(PolicySettings(paths=(tmp_path / "packs",)))


async def test_a_busy_parser_closes_nothing_and_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "region = 'EMEA'")
    rules = rules_of(tmp_path)
    await rules.start()
    good = rules.current
    write(tmp_path, "region = 'APAC'")

    async def unavailable(self: ReaderThatCounts, text: str) -> ReadingAnswer:
        return NotRead("UNAVAILABLE", "no parser process is available")

    with monkeypatch.context() as patch:
        patch.setattr(ReaderThatCounts, "read_expression", unavailable)
        assert not await rules.reload_files()
    assert rules.current is good
    assert "the parser is not available to check a filter" in rules.faults[0]
    assert await rules.reload_files()
    assert rules.faults == ()


async def test_a_text_that_the_parser_never_ends_with_holds_no_revocation_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "region = 'EMEA'")
    rules = rules_of(tmp_path)
    await rules.start()
    write(tmp_path, "region = 'slow'")
    (tmp_path / "no.yaml").write_text(DENIAL)
    read = ReaderThatCounts.read_expression
    busy = [2]

    async def late(self: ReaderThatCounts, text: str) -> ReadingAnswer:
        if "slow" in text and busy[0]:
            busy[0] -= 1
            return NotRead("TIMEOUT", "the statement could not be parsed within 5 seconds")
        return await read(self, text)

    monkeypatch.setattr(ReaderThatCounts, "read_expression", late)
    assert await rules.reload_files()
    assert may_read(rules, "employee"), "it was late twice"
    busy[0] = 10**6
    write(tmp_path, "region = 'slower'")
    (tmp_path / "no.yaml").write_text(DENIAL.replace("department", "payroll"))
    assert may_read(rules, "payroll")
    assert await rules.reload_files()
    assert not may_read(rules, "payroll"), "a revocation is in force"
    assert not may_read(rules, "employee")
    assert may_read(rules, "department")
    assert "timed out on this filter" in rules.sources()[0].faults[0]


class Slow(ReaderThatCounts):
    """Comes to no end with some texts, or with any."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.word = word

    async def read_expression(self, text: str) -> ReadingAnswer:
        answer = await super().read_expression(text)
        return NotRead("TIMEOUT", "it could not be read") if self.word in text else answer


@pytest.mark.parametrize(("word", "told"), [("a", True), ("", False)], ids=["one text", "any text"])
async def test_a_text_is_at_fault_only_where_the_parser_answers_about_others(word: str, told: bool) -> None:
    made = Policy(
        id=1,
        name="p",
        service="s",
        type=PolicyType.ROW_FILTER,
        resources={},
        filters=(FilterItem(filter_expression="a = 1"),),
    )
    service = Service(name="s", definition=SPARK, policies=(made,))
    policies = PolicySet(version=1, services={"s": service})
    try:
        found = await Proofs().unusable(policies, Slow(word))
    except UnreadableFiles:
        assert not told
    else:
        assert told
        assert [policy for policy, _ in found] == [made]


async def test_a_text_that_the_parser_never_ends_with_is_asked_once_for_all_changes(tmp_path: Path) -> None:
    write(tmp_path, "region = 'EMEA'")
    reader = Slow("slow")
    rules = PolicyRegistry(PolicySettings(paths=(tmp_path,)), reader)
    await rules.start()
    write(tmp_path, "region = 'slow'")
    assert await rules.reload_files()
    (fault,) = rules.sources()[0].faults
    asked = len([text for text in reader.asked if "slow" in text])
    (tmp_path / "no.yaml").write_text(DENIAL)
    assert await rules.reload_files()
    assert not may_read(rules, "department"), "a revocation waits for it no more"
    assert not may_read(rules, "employee")
    assert rules.sources()[0].faults == (fault,)
    assert len([text for text in reader.asked if "slow" in text]) == asked
    write(tmp_path, "region = 'EMEA'")
    assert await rules.reload_files()
    reader.word = "no catalog of type `iceberg`"
    write(tmp_path, "region = 'slow'")
    assert await rules.reload_files()
    assert may_read(rules, "employee"), "a text that was gone is asked about again"


async def test_texts_that_the_parser_never_ends_with_hold_a_revocation_back_for_a_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.pipeline.policy_reading.ALONE_S", -1.0)
    write(tmp_path, "region = 'EMEA'")
    reader = Slow("slow")
    rules = PolicyRegistry(PolicySettings(paths=(tmp_path,)), reader)
    await rules.start()
    write(tmp_path, "region = 'slow'")
    (tmp_path / "no.yaml").write_text(DENIAL)
    assert await rules.reload_files()
    assert not may_read(rules, "department")
    assert not may_read(rules, "employee")
    assert "was not checked: " in rules.sources()[0].faults[0]
    monkeypatch.setattr("gateway.pipeline.policy_reading.ALONE_S", 60.0)
    (tmp_path / "no.yaml").unlink()
    assert await rules.reload_files()
    assert "timed out on" in rules.sources()[0].faults[0], "it is asked with the next change"


async def test_the_parser_is_asked_once_of_a_text_that_it_never_ends_with() -> None:
    filters = (FilterItem(filter_expression="a = 1"),)
    made = Policy(id=1, name="p", service="s", type=PolicyType.ROW_FILTER, resources={}, filters=filters)
    service = Service(name="s", definition=SPARK, policies=(made,))
    policies = PolicySet(version=1, services={"s": service})
    proofs, reader = Proofs(), Slow("a")
    first = await proofs.unusable(policies, reader)
    asked = len(reader.asked)
    assert await proofs.unusable(policies, reader) == first != []
    assert len(reader.asked) == asked


def test_a_link_to_nothing_is_no_pack_less(tmp_path: Path) -> None:
    write(tmp_path, "true")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UnreadableFiles, match=r"gone\.yaml: is a broken link"):
        rule_paths(PolicySettings(paths=(tmp_path,)))
    (tmp_path / "gone.yaml").rename(tmp_path / ".gone.yaml")
    assert [file.name for file in rule_paths(PolicySettings(paths=(tmp_path,)))[1]] == ["hr.yaml"]


@pytest.mark.parametrize("listed", [".", "pipe.yaml"])
def test_a_pipe_is_no_rule_file(tmp_path: Path, listed: str) -> None:
    """Reading it would wait for somebody who writes to it, and no revocation would come into force."""
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(UnreadableFiles, match=r"pipe\.yaml: cannot be read: it is not a file"):
        read_rules(PolicySettings(paths=(tmp_path / listed,)))


def test_a_change_that_keeps_time_and_size_is_one(tmp_path: Path) -> None:
    pack = tmp_path / "a.yaml"
    pack.write_text("# one")
    settings, status = PolicySettings(paths=(pack,)), pack.stat()
    before = fingerprint(settings)
    pack.write_text("# two")
    os.utime(pack, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert fingerprint(settings) != before


def hides(rules: PolicyRegistry, table: str) -> bool:
    """Whether an analyst is shown no salary of a table in `hr` by those whose access is not asked for."""
    resource = Resource.table("spark_catalog", "hr", table)
    engine = engine_for(rules.current)
    mask = engine.mask(ANN, resource.child("column", "salary"), "string")
    rows = engine.row_filter(ANN, resource)
    return (mask is not None and mask.mask_type == "MASK_NULL") or (
        rows is not None and rows.expression == "FALSE"
    )
