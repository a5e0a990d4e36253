"""One Spark, one gateway before it and a reference: where histories run, one after the other."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gateway.frontends.users import set_user
from tests.e2e import standing
from tests.e2e.conftest import write_settings
from tests.e2e.running import LoopThread, RunningGateway, Spark, until
from tests.histories.clients import Answer, Connect, Session, Thrift
from tests.histories.model import Rendered
from tests.histories.world import PASSWORD, USERS, pack

FRESH_S = 0.5
"""How long a session may go by what Spark knew of tables that policies read."""
MARGIN_S = 0.1
"""What is waited beyond a bound: clocks are read on the way."""
INTERPRETED = "SET spark.sql.codegen.wholeStage = false"
"""Sessions do without generated code: compiling that of a query takes longer than a few rows."""


class Reference:
    """Spark itself: queries over relations that hold what one user may see, through both kinds of client."""

    def __init__(self, spark: Spark) -> None:
        self._sessions: dict[str, Session] = {
            "thrift": Thrift(spark.host, spark.port, "reference", None),
            "connect": Connect(spark.connect_port, spark.connect_token, "reference"),
        }
        for session in self._sessions.values():
            session.run(INTERPRETED)
        self._made: set[tuple[str, str]] = set()
        self._known: dict[tuple[str, str], Answer] = {}

    def answer(self, endpoint: str, query: Rendered) -> Answer:
        """Return what Spark answers; the same question is asked once."""
        key = (endpoint, query.text)
        if key not in self._known:
            session = self._sessions[endpoint]
            for name, body in query.views.items():
                if (endpoint, name) not in self._made:
                    made = session.run(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {body}")
                    if made.error:
                        return made
                    self._made.add((endpoint, name))
            self._known[key] = session.run(query.text)
        return self._known[key]

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()


class Lab:
    """Where histories run; what one made is dropped before the next."""

    def __init__(self, spark: Spark, gateway: RunningGateway, checkpoints: Path) -> None:
        self.spark, self.gateway, self.checkpoints = spark, gateway, checkpoints
        self.operator = Thrift(spark.host, spark.port, "loader", None)
        self.reference = Reference(spark)
        self._databases = 0
        self._groups: dict[str, frozenset[str]] = dict(USERS)

    def new_database(self) -> str:
        self._databases += 1
        return f"h{os.getpid()}_{self._databases}"

    def run(self, *statements: str) -> Answer:
        """Run statements of the operator, past the gateway; return the last one's answer."""
        answer = Answer()
        for statement in statements:
            answer = self.operator.run(statement)
            assert not answer.error, f"{statement}: {answer.error}"
        return answer

    def govern(self, database: str, slots: Mapping[str, str]) -> None:
        """Put policies in force."""
        file = self.gateway.config.parent / "histories" / "pack.yaml"
        text = pack(database, slots, self.checkpoints.as_uri())
        if file.read_text() == text:
            return
        before = self.gateway.count_events("rules_in_force")
        _replace(file, text)

        def in_force() -> bool:
            faults = [r for r in self.gateway.records if r.get("event") == "rules_not_loaded"]
            assert not faults, faults[-1]
            return self.gateway.count_events("rules_in_force") > before

        until(in_force, "policies, or closed ones, are in force")

    def group(self, user: str, groups: frozenset[str]) -> None:
        """Give a user other groups."""
        if self._groups[user] == groups:
            return
        before = self.gateway.count_events("users_reloaded")
        set_user(self.gateway.config.parent / "users.yaml", user, groups=sorted(groups))
        self._groups[user] = groups
        until(lambda: self.gateway.count_events("users_reloaded") > before, "the groups are in force")

    def restart(self) -> None:
        """Stop the gateway and start it again."""
        assert self.gateway.stop() == 0
        self.gateway.start()

    def settle(self) -> None:
        """Wait until no session goes by what policies' tables held before."""
        time.sleep(FRESH_S + MARGIN_S)

    def close(self) -> None:
        self.reference.close()
        self.operator.close()


def _replace(file: Path, text: str) -> None:
    other = file.with_suffix(".new")
    other.write_text(text)
    other.replace(file)


@contextlib.contextmanager
def lab(spark: Spark, directory: Path, command: Sequence[str] = ("-m", "gateway")) -> Iterator[Lab]:
    """Start a gateway for histories, as the end-to-end tests do; `command` runs another one."""
    file = write_settings(directory, spark)
    (directory / "histories").mkdir()
    (directory / "histories" / "pack.yaml").write_text(
        pack("default", {}, (directory / "checkpoints").as_uri())
    )
    checkpoints = directory / "checkpoints"
    checkpoints.mkdir()
    checkpoints.chmod(0o777)
    for user, groups in USERS.items():
        set_user(directory / "users.yaml", user, password=PASSWORD, groups=sorted(groups))
    settings = json.loads(file.read_text())
    settings["policies"] = {"paths": ["histories"], "reload_s": 0.1, "star": "visible"}
    settings["sessions"] = {
        "policy_tables_s": FRESH_S,
        "checkpoints": f"file:{spark.directory / f'histories-{os.getpid()}'}",
    }
    file.write_text(json.dumps(settings))
    gateway = RunningGateway(file, command).start()
    try:
        made = Lab(spark, gateway, checkpoints)
        try:
            yield made
        finally:
            made.close()
    finally:
        gateway.stop()


@contextlib.contextmanager
def a_spark() -> Iterator[tuple[Spark, Path]]:
    """The Spark that `make lab` keeps, or one of this process's own; and a directory that it can reach."""
    with tempfile.TemporaryDirectory(prefix="sluice-histories-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        directory.chmod(0o711)
        kept = standing.find()
        if kept is not None:
            yield kept, directory
            return
        loop = LoopThread()
        process = standing.server(directory / "spark", directory)
        try:
            loop.run(process.start())
            yield Spark.of(process), directory
        finally:
            loop.run(process.stop())
            loop.close()
