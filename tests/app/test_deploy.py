"""Container, compose and systemd: their documented steps, where nothing is but what they make themselves.

Charts, alerts and packages are tried by `make deploy-test` (tests/e2e/deploy).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import gateway
from gateway.app import exit_codes, site_checks
from gateway.settings.loading import load_settings

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
COMPOSE_TEXT = (ROOT / "deploy" / "compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_TEXT)
UNIT = (ROOT / "deploy" / "systemd" / "sluice.service").read_text()
PLACES = ("/etc/sluice", "/var/lib/sluice", "/run/secrets")
USER = int(re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)[0])


@pytest.fixture
def container() -> Iterator[Path]:
    """A directory as a new container of the image sees its root, its volumes new."""
    root = Path(tempfile.mkdtemp(prefix="sluice-deploy-"))
    root.chmod(0o755)
    for place in PLACES:
        (root / place.lstrip("/")).mkdir(parents=True)
    (owned,) = re.findall(r"install -d -o sluice -g sluice -m 0700 (.+)$", DOCKERFILE, re.MULTILINE)
    for place in owned.split():
        made = root / place.lstrip("/")
        made.mkdir(parents=True, exist_ok=True)
        made.chmod(0o700)
        if os.geteuid() == 0:
            os.chown(made, USER, USER)
    text = (ROOT / "deploy" / "gateway.yaml").read_text()
    for place in PLACES:
        text = text.replace(place, str(root / place.lstrip("/")))
    (root / "etc/sluice/gateway.yaml").write_text(re.sub(r"port: (10009|15009|10080)", "port: 0", text))
    shutil.copytree(ROOT / "rules", root / "etc/sluice/rules")
    secrets = {"ledger_dsn": "postgresql://sluice:x@127.0.0.1:1/sluice", "connect_token": "ab12\n"}
    for name, content in secrets.items():
        (root / "run/secrets" / name).write_text(content)
        (root / "run/secrets" / name).chmod(0o644)
    try:
        yield root
    finally:
        shutil.rmtree(root)


AS_THE_IMAGES_USER = """
import os, sys
sys.path.insert(0, sys.argv.pop(1))
from gateway.app import exit_codes, site_checks  # before the user is changed: not all may be his to read
from gateway.cli import main, users
if os.geteuid() == 0:
    user = int(sys.argv[1])
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
os.chdir("/")
sys.exit(main(sys.argv[2:]))
"""


def as_the_images_user(*arguments: str, config: Path, stdin: str = "") -> tuple[int, str]:
    """Run the entry point as the image does: its user, its environment, in `/`."""
    (named,) = re.findall(r"SLUICE_CONFIG=(\S+)", DOCKERFILE)
    assert named == "/etc/sluice/gateway.yaml"
    done = subprocess.run(
        [sys.executable, "-c", AS_THE_IMAGES_USER, str(ROOT), str(USER), *arguments],
        env={**os.environ, "SLUICE_CONFIG": str(config)},
        input=stdin,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout


def test_the_first_documented_step_adds_a_user(container: Path) -> None:
    (step,) = re.findall(r"^#\s+docker compose run --rm --no-deps gateway (.+)$", COMPOSE_TEXT, re.MULTILINE)
    config = container / "etc/sluice/gateway.yaml"
    code, told = as_the_images_user(*step.split(), config=config, stdin="a-long-password\n")
    assert code == 0, told
    assert "alice added" in told
    file = container / "etc/sluice/users/users.yaml"
    status = file.stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    if os.geteuid() == 0:
        assert status.st_uid == USER
    # With that, what `serve` opens is there.
    report = site_checks.check_site(load_settings(config), config)
    assert report.faults == ()


def test_the_image_serves_the_settings_that_commands_take_by_themselves() -> None:
    assert 'CMD ["serve"]' in DOCKERFILE
    assert 'ENTRYPOINT ["sluice"]' in DOCKERFILE


def test_what_is_written_is_a_volume_whose_owner_is_the_images_user() -> None:
    (volumes,) = re.findall(r"^VOLUME (.+)$", DOCKERFILE, re.MULTILINE)
    mounted = dict(reversed(one.split(":")[:2]) for one in COMPOSE["services"]["gateway"]["volumes"])
    assert set(mounted) == set(volumes.split())
    for place, volume in mounted.items():
        assert volume in COMPOSE["volumes"], f"{place}: a directory of the host's belongs to the host's user"


def test_sparks_data_belongs_to_spark_before_it_starts() -> None:
    services = COMPOSE["services"]
    before = services["spark"]["depends_on"]
    (name,) = [one for one, how in before.items() if how["condition"] == "service_completed_successfully"]
    assert services[name]["entrypoint"] == ["chown", "spark:spark", "/data"]
    assert services[name]["user"] == "0:0"
    assert services[name]["cap_add"] == ["CHOWN"]
    assert services[name]["volumes"] == services["spark"]["volumes"] == ["warehouse:/data"]
    assert services[name]["image"] == services["spark"]["image"]


def test_a_container_is_stopped_only_after_it_has_drained() -> None:
    grace = COMPOSE["services"]["gateway"]["stop_grace_period"]
    drain_s = load_settings(ROOT / "config" / "gateway.yaml").sessions.drain_s
    assert float(grace.removesuffix("s")) > drain_s + 10


def test_what_the_image_copies_is_sent_to_the_builder() -> None:
    """Whatever else lies in the directory is not: secrets, environments, what demos made."""
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    sent = {line.removeprefix("!") for line in rules if line.startswith("!")}
    copied = {
        source.removeprefix("./")
        for words in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
        for source in words.split()
    }
    assert sent == copied
    assert all((ROOT / one).exists() for one in sent)


def test_the_image_has_a_list_of_its_packages_and_the_version_that_it_is_of() -> None:
    assert "cyclonedx-py environment" in DOCKERFILE
    version = gateway.__version__
    assert f'org.opencontainers.image.version="{version}"' in DOCKERFILE
    assert COMPOSE["services"]["gateway"]["image"] == f"sluice:{version}"
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "sluice" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


def read_unit(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)


def test_systemd_waits_until_the_gateway_has_drained_and_restarts_what_may_mend_itself() -> None:
    drain_s = load_settings(ROOT / "config" / "gateway.yaml").sessions.drain_s
    assert float(read_unit("TimeoutStopSec")[0]) > drain_s + 10
    # SIGTERM is the gateway's alone: its parsers are needed to the end.
    assert read_unit("KillMode") == ["mixed"]
    assert read_unit("Restart") == ["on-failure"]
    lasting = {str(exit_codes.USAGE), str(exit_codes.FAULTS)}
    assert set(read_unit("RestartPreventExitStatus")[0].split()) == lasting
    assert int(read_unit("LimitNOFILE")[0]) >= 16384
