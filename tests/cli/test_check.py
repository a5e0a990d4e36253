"""`sluice check` tells every fault with its place, and says so in its exit code."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gateway.app import checking, exit_codes
from gateway.cli import main
from gateway.errors import BackendUnavailable, Faults
from gateway.frontends.users import set_user
from gateway.settings.section import REFERENCES
from tests.sources.fake_admin import policy, service_policies

ROOT = Path(__file__).resolve().parents[2]

PACK = """\
service: spark
policies:
  - name: analysts read
    on: {catalog: spark_catalog, database: hr, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select]}]
"""


def test_what_ships_has_no_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """With Spark's own parser for every mask and filter."""
    assert main(["check", "--no-site", str(ROOT / "rules"), str(ROOT / "config")]) == exit_codes.OK
    assert capsys.readouterr().out.startswith("no faults in ")


def test_all_faults_of_all_files_come_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(PACK.replace("allow:", "alow:"))
    (tmp_path / "b.yaml").write_text(PACK + "  - nothing: here\n")
    (tmp_path / "c.yaml").write_text("servce: spark\n")
    (tmp_path / "d.yaml").write_text("a: [\n")
    (tmp_path / "e.yaml").write_text("")
    (tmp_path / "f.yaml").write_text("- a list\n")
    (tmp_path / "g.yaml").write_text("ledger: {dsn: 'postgresql://u:hunter2@db/x'}\nlisteners: 3\n")
    absent = tmp_path / "absent"
    code = main(["check", "--no-site", "--no-parser", "--json", str(tmp_path), str(absent)])
    assert code == exit_codes.FAULTS
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert "hunter2" not in str(faults)
    for wanted in (
        f"{tmp_path}/f.yaml:1: neither a settings file, a policy pack nor a service definition",
        f"{tmp_path}/g.yaml:1: `ledger.dsn`: {REFERENCES}",
        f"{tmp_path}/g.yaml:2: `listeners`: a mapping of keys is needed",
        f"{tmp_path}/a.yaml:5: unknown key `alow`",
        f"{tmp_path}/b.yaml:6:",
        f"{tmp_path}/c.yaml:1: neither a settings file, a policy pack nor a service definition (did you",
        f"{tmp_path}/d.yaml:2: not YAML",
        f"{tmp_path}/e.yaml:1: the file is empty",
        f"{absent}: does not exist",
    ):
        assert any(fault.startswith(wanted) for fault in faults), (wanted, faults)


def test_files_that_hold_no_key_of_seals_are_told_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for name, data in (("a.pem", private), ("b.pem", public), ("c.pem", b"\xff")):
        (tmp_path / name).write_bytes(data)
    file = tmp_path / "gateway.yaml"
    file.write_text("ledger: {older_seal_keys: [a.pem, b.pem, c.pem]}\n")
    arguments = ["check", "--no-site", "--no-parser", "--no-backend", "--json", str(file)]
    assert main(arguments) == exit_codes.FAULTS
    private_told, unreadable = json.loads(capsys.readouterr().out)["faults"]
    assert private_told.startswith(f"{tmp_path}/a.pem: the public key is not an Ed25519 public key in PEM")
    assert unreadable.startswith(f"{tmp_path}/c.pem: cannot be read: ")
    file.write_text("ledger: {older_seal_keys: [b.pem, d.pem]}\n")
    assert main(arguments) == exit_codes.FAULTS
    assert f"{file}:1: `{tmp_path}/d.pem` does not exist" in json.loads(capsys.readouterr().out)["faults"]


def test_settings_are_checked_with_the_packs_that_they_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "hr.yaml").write_text(PACK.replace("[select]", "[selct]"))
    (tmp_path / "gateway.yaml").write_text("policies: {paths: [packs]}\n")
    assert main(["check", "--no-site", "--no-parser", str(tmp_path / "gateway.yaml")]) == exit_codes.FAULTS
    out = capsys.readouterr().out
    assert "hr.yaml:5: unknown access type `selct` (did you mean `select`?)" in out
    assert "1 faults in 2 files" in out


def test_a_file_with_policies_is_a_pack_or_settings_by_its_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "settings.yaml").write_text("policies: {star: never}\n")
    (tmp_path / "pack.yaml").write_text("policies: []\n")
    assert main(["check", "--no-site", "--no-parser", str(tmp_path)]) == exit_codes.FAULTS
    out = capsys.readouterr().out
    assert "settings.yaml:1: `policies.star`" in out
    assert "pack.yaml" not in out


def test_a_pack_is_read_once_when_it_is_named_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hr.yaml").write_text(PACK)
    (tmp_path / "gateway.yaml").write_text("policies: {paths: [hr.yaml]}\n")
    assert (
        main(["check", "--no-site", "--no-parser", str(tmp_path), str(tmp_path / "hr.yaml")]) == exit_codes.OK
    )
    assert "1 policies" in capsys.readouterr().out


def test_rangers_json_is_checked_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    download = service_policies(
        1,
        policy(1, "orders"),
        policy(2, "leads", denyPolicyItems=[{"accesses": [{"type": "selct"}], "users": ["ann"]}]),
    )
    text = json.dumps(download, indent=1)
    line = text[: text.index('"selct"')].count("\n") + 1
    (tmp_path / "hive.json").write_text(text)
    (tmp_path / "half.json").write_text(text[: len(text) // 2])
    (tmp_path / "other.json").write_text('{"some": "thing"}')
    assert main(["check", "--no-site", "--no-parser", str(tmp_path)]) == exit_codes.FAULTS
    out = capsys.readouterr().out
    assert f"{tmp_path}/hive.json:{line}: policy 2 `policy 2`: unknown access type `selct`" in out
    assert f"{tmp_path}/half.json:" in out
    assert f"{tmp_path}/other.json:1: not Ranger policies" in out

    (tmp_path / "half.json").unlink()
    (tmp_path / "other.json").unlink()
    (tmp_path / "hive.json").write_text(text.replace("selct", "select"))
    assert main(["check", "--no-site", "--no-parser", str(tmp_path)]) == exit_codes.OK
    assert "2 policies" in capsys.readouterr().out


def test_warnings_are_told_and_are_no_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    download = service_policies(1, policy(7, "orders"), policy(7, "leads"))
    (tmp_path / "hive.json").write_text(json.dumps(download))
    assert main(["check", "--no-site", "--no-parser", "--json", str(tmp_path)]) == exit_codes.OK
    told = json.loads(capsys.readouterr().out)
    assert told["faults"] == []
    assert any("2 policies have the id 7" in warning for warning in told["warnings"])
    assert main(["check", "--no-site", "--no-parser", str(tmp_path)]) == exit_codes.OK
    out = capsys.readouterr().out
    assert "(warning)" in out
    assert f"no faults in 1 files, 2 policies, {len(told['warnings'])} warnings" in out


def test_certificates_of_ranger_admins_are_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ca.pem").write_text("not a certificate")
    (tmp_path / "gateway.yaml").write_text(
        "policies:\n"
        "  ranger:\n"
        "    - {service: dev_hive, urls: ['https://ranger:6182'], ca_file: ca.pem}\n"
        "    - {service: dev_x, urls: ['https://ranger:6182'], ca_file: absent.pem}\n"
    )
    assert main(["check", "--no-site", "--no-parser", str(tmp_path / "gateway.yaml")]) == exit_codes.FAULTS
    assert f"gateway.yaml:4: `{tmp_path}/absent.pem` does not exist" in capsys.readouterr().out
    (tmp_path / "absent.pem").write_text("nor this")
    assert main(["check", "--no-site", "--no-parser", str(tmp_path / "gateway.yaml")]) == exit_codes.FAULTS
    out = capsys.readouterr().out
    assert f"{tmp_path}/ca.pem: cannot be used" in out
    assert f"{tmp_path}/absent.pem: cannot be used" in out


def test_what_is_no_yaml_is_told_before_a_parser_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "reader_of", pytest.fail)
    monkeypatch.setattr(checking, "find_java", pytest.fail)
    (tmp_path / "gateway.yaml").write_text("listeners: [\n")
    (tmp_path / "pack.yaml").write_text(PACK)
    for paths in ([tmp_path / "gateway.yaml"], [tmp_path]):
        assert main(["check", *map(str, paths)]) == exit_codes.FAULTS
        out = capsys.readouterr().out
        assert "gateway.yaml:2: not YAML" in out
        assert "first fix what cannot be read" in out


def test_a_missing_java_is_one_fault_among_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "java").write_text("")
    (tmp_path / "hr.yaml").write_text(PACK.replace("[select]", "[selct]"))
    (tmp_path / "more.yaml").write_text(PACK)
    (tmp_path / "gateway.yaml").write_text("reader: {java: java}\npolicies: {paths: [more.yaml]}\n")
    code = main(
        ["check", "--no-backend", "--json", str(tmp_path / "gateway.yaml"), str(tmp_path / "hr.yaml")]
    )
    assert code == exit_codes.FAULTS
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert any("unknown access type `selct`" in fault for fault in faults)
    (java,) = [fault for fault in faults if "Java 17 or later was not found" in fault]
    assert "install the extra `java`" in java
    (tmp_path / "hr.yaml").write_text(PACK)
    assert main(["check", "--no-backend", "--no-site", str(tmp_path / "gateway.yaml")]) == exit_codes.FAULTS
    assert "the parser cannot be started: Java 17 or later was not found" in capsys.readouterr().out


def test_a_group_of_errors_is_told_by_its_members(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = ExceptionGroup("more", [BackendUnavailable("Spark is away", where="`h:1`: no route")])

    def run(*_: object) -> int:
        raise ExceptionGroup("unhandled errors in a TaskGroup", [Faults(["a.yaml:1: x", "y"]), inner])

    monkeypatch.setattr("gateway.cli.check.run", run)
    assert main(["check", "x"]) == exit_codes.FAULTS
    err = capsys.readouterr().err
    assert "TaskGroup" not in err
    for told in ("a.yaml:1: x", "y", "Spark is away: `h:1`: no route"):
        assert told in err


# -- logins --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "secret", "code", "says"),
    [
        ("bob", "bob secret", exit_codes.OK, "accepts the password"),
        ("bob", "wrong", exit_codes.FAULTS, "rejects the password"),
        ("eva", "bob secret", exit_codes.FAULTS, "does not know the user"),
    ],
)
def test_a_login_is_tried_in_every_way(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    secret: str,
    code: int,
    says: str,
) -> None:
    set_user(tmp_path / "users.yaml", "bob", password="bob secret", groups=["staff"], attributes={})
    config = tmp_path / "gateway.yaml"
    jwt = {"issuer": "https://login.example", "audiences": ["sluice"]}
    config.write_text(json.dumps({"users": {"file": "users.yaml"}, "logins": {"jwt": jwt}}))
    for form in ([], ["--json"]):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{secret}\n"))
        assert main(["check", *form, "--login", name, str(config)]) == code
        out = capsys.readouterr().out
        assert says in out
        assert "skipped: not a JSON Web Token" in out
        assert secret not in out


def test_a_login_is_tried_by_one_file_of_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--login", "bob", str(tmp_path)]) == exit_codes.FAULTS
    assert "takes one file of settings" in capsys.readouterr().err
