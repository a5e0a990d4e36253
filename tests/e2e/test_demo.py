"""`sluice demo` shows the tour, serves, and leaves nothing running, however it is stopped."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from gateway.audit.seals import read_signing_key
from gateway.demo.frames import TITLE
from gateway.demo.jobs import COUNTED, FOUND
from gateway.demo.run import DemoOptions, prepare
from gateway.demo.tour import PEOPLE, STOPS
from gateway.settings import load_settings
from tests.e2e.console_visitor import ConsoleVisitor
from tests.e2e.running import query, until
from tests.speed import patience

SALARIES = "SELECT name, email FROM hr.employee ORDER BY id LIMIT 1"


def ask_for_access(console: str, ask: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """Go the ways that the README tells a newcomer, by the pages' own links and forms."""
    carol, alice, dave = (
        ConsoleVisitor(console, name, f"{name}-demo") for name in ("carol", "alice", "dave")
    )
    seen = carol.open("/console/table-access?table=sales.customer")
    assert re.search(r"card</code>.*only the last 4 characters.*card numbers", seen, re.DOTALL)
    seen = alice.open("/console/table-access?user=bob&table=sales.customer")
    assert "region = &#39;EMEA&#39;" in seen
    assert "a hash of the value" in seen
    with pytest.raises(Exception, match="SLUICE_ACCESS_DENIED"):
        ask(SALARIES)
    # What was refused is on a disk before it is said, and in PostgreSQL a moment later.
    until(lambda: "hr.employee" in carol.open("/console/events"), "the refusal")
    carol.follow(r"/console/events/[0-9a-f-]{36}")
    carol.follow(r"/console/requests/new\?[^\"]*")
    assert "carol" in carol.send("/console/requests/ask", reason="a customer asks who his contact is")
    dave.open("/console/requests?which=decide")
    dave.follow(r"/console/requests/\d+")
    dave.send(r"/console/requests/\d+/grant")
    number = dave.at.rsplit("/", 1)[1]
    until(lambda: "it can be used now" in carol.open(f"/console/requests/{number}"), "the grant in force")
    assert "only the last" not in carol.follow(r"/console/table-access\?[^\"]*")
    assert "Liam Haddad" in carol.send("/console/table-samples")
    # It gives access, and leaves what masks.
    assert ask(SALARIES) == [("Liam Haddad", "xxxx.xxxxxx@xxxxxxxxx.xxxxxxx")]
    dave.open(f"/console/requests/{number}")
    dave.send(r"/console/requests/\d+/end", reason="it is done")


FREE_PORTS = ("--port", "0", "--connect-port", "0", "--admin-port", "0")


class Demo:
    """A running `sluice demo`."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "gateway", "demo", "--directory", str(directory)]
        self.directory = directory
        self.process = subprocess.Popen(
            [*command, *FREE_PORTS, "--heap", "512m", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str, quiet_s: float = 600) -> None:
        try:
            until(lambda: text in self.output or self.process.poll() is not None, text, quiet_s)
            assert text in self.output, self.output[-3000:]
        except AssertionError:
            self.end(signal.SIGTERM)
            raise

    def end(self, number: int | None = None, quiet_s: float = 900) -> int:
        if number is not None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(patience(quiet_s))
        finally:
            self.process.kill()
        self._reader.join(patience(10))
        return code

    def left_running(self) -> list[str]:
        """Return processes that work on the demo's directory, or on its stand-in where root keeps state."""
        places = {str(self.directory), *re.findall(r"/var/lib/sluice/[\w.-]+", self.output)}
        found = []
        for process in psutil.process_iter(["cmdline", "pid"]):
            command = " ".join(process.info["cmdline"] or ())
            if any(place in command for place in places) and process.pid != os.getpid():
                found.append(command[:200])
        return found


@pytest.fixture(scope="module")
def directory(open_directory: Path) -> Path:
    """Return the place that `make demo` takes, in a checkout of its own."""
    return open_directory / ".run" / "demo"


@pytest.mark.in_turn(6, place=1)
@pytest.mark.timeout(1800)
def test_the_tour_shows_three_people_and_ends(directory: Path) -> None:
    demo = Demo(directory, "--exit-after-tour")
    assert demo.end() == 0, demo.output[-3000:]
    assert demo.left_running() == []
    for number, stop in enumerate(STOPS, start=1):
        assert f"{number}. {stop.title}" in demo.output
    for person in PEOPLE:
        assert len(re.findall(rf"^ {person.name} +(cleared|refused)", demo.output, re.MULTILINE)) == len(
            STOPS
        )
    assert "xxxx.xxxxxx@xxxxxxxxx.xxxxxxx" in demo.output
    assert "WHERE (region = 'EMEA')" in demo.output
    assert "with name `salary` cannot be resolved" in " ".join(demo.output.split())  # lines are folded
    assert "[SLUICE_ACCESS_DENIED]" in demo.output
    assert "org.apache.hive.beeline.BeeLine" in demo.output
    # The web console, with three who can log in.
    told = demo.output.split("Look")[1]
    assert re.search(r"http://localhost:\d+/console/", told)
    assert all(
        re.search(rf"^  {name} +{name}-demo ", told, re.MULTILINE) for name in ("carol", "alice", "dave")
    )
    # A classification masks a column once it is accepted, and the roll-up has the tour.
    _, classified, counted = re.split(f"{FOUND}|{COUNTED}", demo.output)
    assert "EMAIL on spark_catalog.inbox.news__letters.address  proposed" in classified
    before, after = classified.split("accepted EMAIL on spark_catalog.inbox.news__letters.address")
    assert "maya.okafor@mail.example.com" in before
    assert "xxxx.xxxxxx@xxxx.xxxxxxx.xxx" in after
    assert "okafor" not in after
    assert re.search(r"bob +spark_catalog\.hr\.employee +email", counted)
    # The PySpark program of bob: masked, filtered, refused, and in the record as PySpark would print it.
    _, program = demo.output.split(FOUND)[0].split(TITLE)
    assert re.search(
        r"^   \|Liam Haddad +\|xxxx\.xxxxxx@xxxxxxxxx\.xxxxxxx +\|2014-01-01\|$", program, re.MULTILINE
    )
    assert re.search(r"^   \|business\| 13633\|19561233\.96\|$", program, re.MULTILINE)
    assert "[SLUICE_ACCESS_DENIED] user bob needs select on every column of table" in program
    assert 'spark.table("hr.employee").show(' in program
    assert "Traceback" not in program
    assert demo.lines[-1] == "Stopped; nothing is left running."


@pytest.mark.timeout(1800)
@pytest.mark.in_turn(12)
def test_a_spark_that_dies_ends_the_demo_with_a_reason(directory: Path) -> None:
    """Killed, it leaves Derby's locks behind; the tests after this one start on that metastore."""
    demo = Demo(directory, "--no-tour")
    demo.wait_for("Ctrl-C stops everything.")
    pid = re.search(r"java started.* pid (\d+)", demo.output)
    assert pid is not None
    os.kill(int(pid[1]), signal.SIGKILL)
    assert demo.end() == 5
    assert "the embedded Spark exited" in demo.output
    assert demo.left_running() == []


@pytest.mark.timeout(1800)
@pytest.mark.in_turn(12)
def test_a_second_start_finds_the_data_and_ctrl_c_stops_everything(directory: Path) -> None:
    demo = Demo(directory, "--no-tour")
    demo.wait_for("Ctrl-C stops everything.")
    assert "sample data are there" in demo.output
    port = re.search(r"gateway on 127\.0\.0\.1:(\d+)", demo.output)
    assert port is not None
    rows = query(
        "127.0.0.1", int(port[1]), "carol", "SELECT count(*) FROM sales.orders", password="carol-demo"
    )
    assert rows == [(22762,)]
    printed = re.search(r"^ +(\S*java -cp .*?)\\\n(.*)$", demo.output, re.MULTILINE)
    assert printed is not None
    beeline = subprocess.run(
        ["bash", "-c", printed[1] + printed[2]],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert "5 rows selected" in beeline.stderr
    address = re.search(r"(http://localhost:\d+)/console/", demo.output)
    assert address is not None
    ask_for_access(
        address[1], lambda sql: query("127.0.0.1", int(port[1]), "carol", sql, password="carol-demo")
    )
    assert demo.left_running() != []
    assert demo.end(signal.SIGINT) == 0, demo.output[-3000:]
    assert demo.left_running() == []


@pytest.mark.timeout(1800)
@pytest.mark.in_turn(6)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_while_it_starts_leaves_nothing(directory: Path, number: signal.Signals) -> None:
    """Both end it by the same way, from the start on: so one of them is enough for a demo that serves."""
    demo = Demo(directory)
    demo.wait_for("java started")
    assert demo.end(number) == 0, demo.output[-3000:]
    assert demo.left_running() == []


def test_a_port_that_is_taken_is_said_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        demo = Demo(tmp_path / "other", "--port", str(taken.getsockname()[1]))
        assert demo.end() == 4
    assert "cannot listen on 127.0.0.1" in demo.output
    assert "java started" not in demo.output


def test_the_record_of_the_demo_is_sealed_by_one_key_over_every_start(tmp_path: Path) -> None:
    keys = set()
    for _ in range(2):
        key = load_settings(prepare(DemoOptions(directory=tmp_path))).ledger.seal_key
        assert key is not None
        read_signing_key(key.reveal())
        keys.add(key.reveal())
    assert len(keys) == 1
    assert (tmp_path / "seal.key").stat().st_mode & 0o077 == 0
