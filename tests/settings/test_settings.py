"""Settings are read strictly, all faults are told with their lines, and the documentation is theirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.errors import Faults
from gateway.settings.loading import check_settings, load_settings, parse_settings
from gateway.settings.models import Settings
from gateway.settings.reference import page
from gateway.settings.section import REFERENCES, Secret

ROOT = Path(__file__).resolve().parents[2]


def faults_of(text: str) -> tuple[str, ...]:
    with pytest.raises(Faults) as caught:
        parse_settings(text, "gateway.yaml", Path("/etc/sluice"))
    return caught.value.faults


def test_an_empty_file_is_a_gateway_on_this_machine_that_refuses_everything() -> None:
    settings = parse_settings("", "gateway.yaml", Path("/etc/sluice"))
    assert settings.listeners.thrift.host == "127.0.0.1"
    assert settings.backend.embedded is not None
    assert settings.policies.paths == ()


def test_the_shipped_file_has_no_faults() -> None:
    assert check_settings(ROOT / "config" / "gateway.yaml") == []


def test_all_faults_are_told_together_each_with_its_line() -> None:
    text = """\
listeners:
  thrift:
    prot: 10000
    host: 17
backend:
  thrift: {port: 70000}
ledger:
  dsn: {}
sessions:
  idle_s: 0
"""
    assert faults_of(text) == (
        "gateway.yaml:3: unknown key `listeners.thrift.prot` (did you mean `port`?)",
        "gateway.yaml:4: `listeners.thrift.host`: input should be a valid string",
        "gateway.yaml:6: `backend.thrift.port`: input should be less than or equal to 65535",
        "gateway.yaml:6: key `backend.thrift.host` is missing",
        f"gateway.yaml:8: `ledger.dsn`: {REFERENCES}",
        "gateway.yaml:10: `sessions.idle_s`: input should be greater than 0",
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("backend: {}", "`backend`: set either `thrift` or `embedded`"),
        (
            "backend: {thrift: {host: a}, embedded: {}}",
            "`backend`: set either `thrift` or `embedded`, not both",
        ),
        ("reader: {heap: lots}", "`reader.heap`: string should match pattern"),
        ("jobs: {remote: nonsense}", "`jobs.remote`: string should match pattern '^sc://"),
        ("jobs: {schedule: {rollups: {cron: '*/60 * * * *'}}}", "`*/60` is not a minute from 0 to 59"),
        ("listeners: {thrift: {port: true}}", "`listeners.thrift.port`: input should be a valid integer"),
        ("listeners: {thrift: {port: '1'}}", "`listeners.thrift.port`: input should be a valid integer"),
        ("policies: {star: shrug}", "`policies.star`: input should be 'refuse' or 'visible'"),
        ("sessions: {checkpoints: /srv/ck}", "`/srv/ck` must be the URL of a directory below the root"),
        (
            "sessions: {checkpoints: 's3://bucket'}",
            "`s3://bucket` must be the URL of a directory below the root",
        ),
        ("[]", "settings must be a mapping of sections, such as `listeners:`"),
        ("listenrs: {}", "unknown key `listenrs` (did you mean `listeners`?)"),
        ("a: 1\na: 2", "key `a` is repeated here"),
        ("listeners: {admin: {host: ''}}", "`listeners.admin.host`: string should have at least 1 character"),
    ],
)
def test_a_bad_value_is_explained(text: str, fault: str) -> None:
    assert fault in "\n".join(faults_of(text))


def test_there_is_a_door_for_spark_connect_where_it_is_named() -> None:
    here = Path("/etc/sluice")
    assert parse_settings("", "g.yaml", here).listeners.connect is None
    embedded = parse_settings("listeners: {connect: {}}", "g.yaml", here)
    assert embedded.listeners.connect is not None
    assert (embedded.listeners.connect.host, embedded.listeners.connect.port) == ("127.0.0.1", 15009)
    assert embedded.serves_thrift
    both = "listeners: {connect: {}}\nbackend: {thrift: {host: s}, connect: {host: s, token: {env: T}}}"
    assert parse_settings(both, "g.yaml", here).serves_thrift
    alone = parse_settings("listeners: {connect: {}}\nbackend: {connect: {host: s}}", "g.yaml", here)
    assert not alone.serves_thrift
    assert alone.backend.connect is not None
    assert alone.backend.connect.port == 15002


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("backend: {connect: {host: s}}", "`backend.connect` needs `listeners.connect`"),
        (
            "listeners: {connect: {}}\nbackend: {thrift: {host: s}}",
            "`listeners.connect` needs `backend.connect`",
        ),
        (
            "listeners: {connect: {}}\nbackend: {connect: {host: s}}\ncatalogs: [{name: pg, catalog: {type: "
            "jdbc, is-default: true, connection-params: {url: 'jdbc:x', driver: D}}}]",
            "one of type `jdbc` cannot be the default with `listeners.connect`",
        ),
        (
            "listeners: {connect: {}, thrift: {}}\nbackend: {connect: {host: s}}",
            "`listeners.thrift` needs `backend.thrift`",
        ),
        (
            "listeners: {connect: {}}\nbackend: {connect: {host: s}, embedded: {}}",
            "`backend`: set either `connect` or `embedded`, not both",
        ),
        (
            "listeners: {connect: {}}\nbackend: {connect: {host: s, ca_file: ca.pem}}",
            "`backend.connect`: `ca_file` needs `tls: true`",
        ),
        (
            "listeners: {connect: {}}\nbackend: {connect: {host: s, token: hunter2}}",
            f"`backend.connect.token`: {REFERENCES}",
        ),
    ],
)
def test_a_door_that_leads_nowhere_is_a_fault(text: str, fault: str) -> None:
    assert fault in "\n".join(faults_of(text))
    assert "hunter2" not in "\n".join(faults_of(text))


def test_check_tells_of_files_of_spark_connect_that_do_not_exist(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "listeners: {connect: {tls: {certificate: c, key: k}}}\n"
        "backend: {connect: {host: s, tls: true, ca_file: a, token: {file: t}}}\n"
    )
    assert check_settings(file) == [
        f"{file}:1: `{tmp_path}/c` does not exist",
        f"{file}:1: `{tmp_path}/k` does not exist",
        f"{file}:2: `{tmp_path}/a` does not exist",
        f"{file}:2: `{tmp_path}/t` does not exist",
    ]


def test_check_tells_of_every_file_but_those_that_are_made(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "ledger: {directory: l, seal_key: {file: seal}}\n"
        "jobs: {directory: j, jars: [a.jar, b.jar], classify: {token: {file: token}}}\n"
        "reader: {extension_jars: [c.jar], spark_jars: d}\n"
        "users: {file: u.yaml}\n"
    )
    assert check_settings(file) == [
        f"{file}:1: `{tmp_path}/seal` does not exist",
        *(f"{file}:2: `{tmp_path}/{name}` does not exist" for name in ("a.jar", "b.jar", "token")),
        f"{file}:3: `{tmp_path}/c.jar` does not exist",
    ]


def test_relative_paths_start_at_the_files_directory(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("users: {file: people.yaml}\npolicies: {paths: [packs, /srv/packs]}\n")
    settings = load_settings(file)
    assert settings.users.file == tmp_path / "people.yaml"
    assert settings.policies.paths == (tmp_path / "packs", Path("/srv/packs"))
    assert settings.ledger.embedded.directory == tmp_path / "run/postgres"


def test_check_tells_of_files_that_do_not_exist(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "policies:\n  paths:\n    - nowhere\nlisteners: {thrift: {tls: {certificate: c, key: k}}}\n"
    )
    assert check_settings(file) == [
        f"{file}:3: `{tmp_path}/nowhere` does not exist",
        f"{file}:4: `{tmp_path}/c` does not exist",
        f"{file}:4: `{tmp_path}/k` does not exist",
    ]


def test_an_unreadable_file_is_a_fault_and_not_a_trace(tmp_path: Path) -> None:
    with pytest.raises(Faults, match="cannot be read"):
        load_settings(tmp_path / "absent.yaml")


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().users = None  # type: ignore[assignment]


def test_a_secret_does_not_print_and_is_read_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_DSN", "postgresql://x:hunter2@db/audit")
    secret = Secret(env="LEDGER_DSN")
    settings = parse_settings("ledger: {dsn: {env: LEDGER_DSN}}", "g.yaml", tmp_path)
    assert secret.reveal() == "postgresql://x:hunter2@db/audit"
    assert "LEDGER_DSN" not in repr(settings)
    assert repr(secret) == str(secret) == "Secret(***)"

    (tmp_path / "dsn").write_text("from a file\n")
    assert Secret(file=tmp_path / "dsn").reveal() == "from a file"


def test_a_secret_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Faults, match="`NO_SUCH_VARIABLE` is not set"):
        Secret(env="NO_SUCH_VARIABLE").reveal()
    with pytest.raises(Faults, match="cannot be read"):
        Secret(file=tmp_path / "absent").reveal()


def test_every_key_says_what_it_means() -> None:
    for line in page().splitlines():
        if line.startswith("| `"):
            assert line.split("|")[-2].strip().endswith("."), line


def test_the_documentation_is_generated_from_the_models() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == page(), "run `python -m gateway.settings.reference`"


def test_entries_of_lists_of_sections_are_read_like_sections(tmp_path: Path) -> None:
    text = """\
policies:
  ranger:
    - service: dev_hive
      urls: [https://ranger:6182]
      user: spark
      password: {file: secrets/ranger}
      cache: cache
      tags_poll_s: null
"""
    (entry,) = parse_settings(text, "gateway.yaml", tmp_path).policies.ranger
    assert entry.password is not None
    assert entry.password.file == tmp_path / "secrets" / "ranger"
    assert entry.cache == tmp_path / "cache"
    assert entry.tags_poll_s is None
    assert entry.max_stale_s == 86_400


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("{service: a}", "gateway.yaml:3: key `policies.ranger.0.urls` is missing"),
        ("{service: a, urls: []}", "gateway.yaml:3: `policies.ranger.0.urls`: tuple should have at least 1"),
        (
            "{service: a, urls: ['http://x'], usr: b}",
            "unknown key `policies.ranger.0.usr` (did you mean `user`?)",
        ),
        ("{service: a, urls: [ranger:6080]}", "`ranger:6080` is not an address such as"),
        ("{service: a, urls: ['http://x:99999']}", "`http://x:99999` is not an address"),
        (
            "{service: a, urls: ['http://u:p@x']}",
            "remove the login from the address; use `user` and `password`",
        ),
        ("{service: a, urls: ['http://x'], user: u}", "set both `user` and `password`"),
        ("{service: a, urls: ['http://x'], key: k}", "set both `certificate` and `key`"),
        ("{service: a, urls: ['http://x'], user: 'a:b', password: {env: X}}", "must not contain a colon"),
    ],
)
def test_faults_of_a_ranger_admin_are_explained(entry: str, fault: str) -> None:
    assert fault in "\n".join(faults_of(f"policies:\n  ranger:\n    - {entry}\n"))


def test_a_service_stands_in_ranger_once() -> None:
    entry = "    - {service: a, urls: ['http://x']}\n"
    assert "service `a` is in `ranger` more than once" in faults_of(f"policies:\n  ranger:\n{entry * 2}")[0]


def test_a_user_without_a_home_is_told_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose user is in no list, and that sets no `HOME`."""

    def expand(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", expand)
    (tmp_path / "gateway.yaml").write_text("{}\n")
    with pytest.raises(Faults, match="set `HOME`"):
        load_settings(tmp_path / "gateway.yaml")
