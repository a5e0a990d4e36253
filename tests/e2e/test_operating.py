"""`sluice serve` as its operators have it: probed from the first moment on."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
import yaml

from gateway.frontends.users import set_user
from gateway.wire.tcli import TTypeId
from tests.backends.fake_hive_server import Answer, FakeHiveServer
from tests.e2e.running import LoopThread, RunningGateway
from tests.speed import patience

PASSWORD = "correct horse battery"
PACK = """
service: spark
policies:
  - name: everybody may begin
    on: {catalog: spark_catalog, database: default}
    allow: [{groups: [public], access: [use]}]
"""
START_S = 2.0


class AnsweringSpark(FakeHiveServer):
    """Answers what a gateway asks at its start."""

    def __init__(self) -> None:
        super().__init__()
        self.version = pyspark.__version__
        self.on("SELECT 1", Answer.of([("1", TTypeId.INT)], [(1,)]))
        self.on("SHOW DATABASES LIKE 'default'", Answer.text(["default"]))  # whether it is ready
        self.on(re.compile("DESCRIBE TABLE .*"), Answer.error("42P01", "[TABLE_OR_VIEW_NOT_FOUND] no."))


@pytest.fixture(scope="module")
def spark(session_loop: LoopThread) -> Iterator[AnsweringSpark]:
    async def start() -> AnsweringSpark:
        made = AnsweringSpark()
        await made.start()
        return made

    made = session_loop.run(start())
    yield made
    session_loop.run(made.stop())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def operated(open_directory: Path, spark: AnsweringSpark) -> Iterator[RunningGateway]:
    directory = open_directory / "operated"
    directory.mkdir()
    directory.chmod(0o711)
    set_user(directory / "users.yaml", "ann", password=PASSWORD)
    (directory / "pack.yaml").write_text(PACK)
    settings = {
        "listeners": {"thrift": {"port": 0}, "admin": {"port": free_port()}},
        "backend": {"thrift": {"host": spark.host, "port": spark.port}},
        "policies": {"paths": ["pack.yaml"]},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "sessions": {"drain_s": patience(120)},
        "logging": {"format": "json"},
    }
    (directory / "gateway.yaml").write_text(json.dumps(settings))
    running = RunningGateway(directory / "gateway.yaml")
    yield running
    assert running.stop() == 0


class Probing(threading.Thread):
    """Asks whether a gateway is ready until it is; keeps what it was told, and when."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._url = f"http://127.0.0.1:{port}/readyz"
        self._began = time.monotonic()
        self.told: list[tuple[float, int, str]] = []

    def run(self) -> None:
        while not self.told or self.told[-1][1] != 200:
            try:
                with urllib.request.urlopen(self._url, timeout=patience(20)) as answer:
                    status, body = answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    status, body = error.code, error.read().decode()
            except OSError:
                time.sleep(0.02)
                continue
            self.told.append((time.monotonic() - self._began, status, body))
            time.sleep(0.02)


@pytest.mark.timeout(900)
def test_a_gateway_is_probed_while_it_starts(operated: RunningGateway) -> None:
    probing = Probing(yaml.safe_load(operated.config.read_text())["listeners"]["admin"]["port"])
    probing.start()
    operated.start()
    probing.join(patience(60))
    first_s, status, body = probing.told[0]
    assert (status, json.loads(body)["parts"]) == (503, {"gateway": "the gateway is starting"})
    assert first_s < patience(START_S)
    assert probing.told[-1][1] == 200
    page = operated.admin("/metrics")[1]
    assert re.search(rf'^sluice_build_info\{{.*spark="{re.escape(pyspark.__version__)}"', page, re.MULTILINE)
