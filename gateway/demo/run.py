"""`sluice demo`: Spark, PostgreSQL and a gateway on this machine with sample data and a tour.

Everything lies in one directory and everything started here ends here. A second start finds PostgreSQL,
Spark's metastore and the data where they were.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.app.explaining import make_backend
from gateway.app.gateway import Addresses, Gateway
from gateway.app.rules import find_shipped_rules
from gateway.backends.spark_thrift_service import SparkThriftService
from gateway.backends.unprivileged import run_as, state_place
from gateway.cli.terminal import BOLD, DIM, GREEN, Terminal
from gateway.demo import data
from gateway.demo.frames import frames
from gateway.demo.grants import PLUGIN, find_port, list_sources, make_service, prepare_login
from gateway.demo.jobs import JOBS, jobs, with_jobs
from gateway.demo.tour import ENGINEER, PEOPLE, STOPS, connect_help, tour
from gateway.frontends.users import read_users, set_user
from gateway.reader.java_runtime import find_java, find_spark_home
from gateway.session.ports import BackendError
from gateway.settings import Settings, load_settings

HOST = "127.0.0.1"
IMPERSONATION = [{"users": [PEOPLE[0].name], "as_groups": [*PEOPLE[1].groups, *PEOPLE[2].groups]}]
"""Who may read a few rows as others on the page of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What may be chosen for a demo."""

    directory: Path
    port: int = 10009
    connect_port: int = 15009
    admin_port: int = 10080
    heap: str = "1g"
    with_tour: bool = True
    exit_after_tour: bool = False


class Clock:
    """Prints a line with the seconds since the demo began."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def __call__(self, text: str) -> None:
        self._terminal.line(f"{self._terminal.style(f'[{self.seconds:5.1f} s]', DIM)} {text}")


async def demo(options: DemoOptions, terminal: Terminal) -> None:
    """Start everything, show the tour, and serve until cancelled. Leaves nothing running, however it ends."""
    progress = Clock(terminal)
    settings_file = prepare(options)
    settings = load_settings(settings_file)
    progress(f"state in {options.directory}; the first start takes longest")
    async with Gateway(settings, progress, config=settings_file) as gateway:
        await load_data(settings, gateway.addresses, progress)
        where = gateway.addresses
        with_jobs(settings_file, where)
        thrift, connect = where.endpoints["thrift"], where.endpoints["connect"]
        endpoints = f"{thrift}, Spark Connect on port {connect.port}"
        progress(terminal.style(f"gateway on {endpoints}", GREEN))
        serving = asyncio.create_task(gateway.run())
        try:
            await _before(serving, _show(options, terminal, where, settings_file))
            if not options.exit_after_tour:
                terminal.line()
                terminal.line(terminal.style("Running. Ctrl-C stops everything.", BOLD))
                await serving
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


async def _show(options: DemoOptions, terminal: Terminal, where: Addresses, settings_file: Path) -> None:
    await make_service(where.endpoints["admin"].port)
    if options.with_tour:
        terminal.line()
        terminal.line(terminal.style("The same statements as three people", BOLD))
        await tour(terminal, *where.endpoints["thrift"], where.ledger_dsn)
        await frames(terminal, where.endpoints["connect"].port, where.ledger_dsn, len(STOPS) + 1)
        await jobs(terminal, where, settings_file, len(STOPS) + 2)
    _how_to_go_on(terminal, where, settings_file)


async def _before(serving: asyncio.Task[None], work: Coroutine[Any, Any, None]) -> None:
    """Do something while the gateway serves; where that ends first, for whatever reason, so does this."""
    doing = asyncio.create_task(work)
    try:
        await asyncio.wait({serving, doing}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not doing.done():
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)
    if serving.done():
        serving.result()
    doing.result()


def prepare(options: DemoOptions) -> Path:
    """Write users and settings of the demo and return the settings file, which other commands can use."""
    directory = options.directory
    directory.mkdir(parents=True, exist_ok=True)
    users = directory / "users.yaml"
    known = read_users(users) if users.exists() else {}
    for person in (*PEOPLE, ENGINEER):
        if person.name not in known:
            set_user(
                users,
                person.name,
                password=person.password,
                groups=list(person.groups),
                attributes=dict(person.attributes),
            )
    prepare_login(directory, users, known)
    admin_port = find_port(options.admin_port)
    root = _inbox(directory)
    (directory / "files.yaml").write_text(data.FILE_POLICIES.replace("ROOT", json.dumps(f"file:{root}/*")))
    # JSON is YAML, and quotes what a path may hold.
    settings = {
        "listeners": {
            "thrift": {"host": HOST, "port": options.port},
            "connect": {"host": HOST, "port": options.connect_port},
            "admin": {
                "host": HOST,
                "port": admin_port,
                "ranger": {"administrators": [ENGINEER.name], "plugins": [PLUGIN]},
                "console": {
                    "administrators": [ENGINEER.name],
                    "auditor_groups": ["security"],
                    "text_reader_groups": ["security"],
                    "public_url": f"http://localhost:{admin_port}",
                },
            },
        },
        # A busy machine takes its time.
        "reader": {"start_timeout_s": 600},
        "backend": {"embedded": {"directory": "spark", "heap": options.heap, "start_timeout_s": 600}},
        "policies": {
            "paths": [str(find_shipped_rules() / "policies"), "files.yaml"],
            "ranger": list_sources(admin_port),
        },
        "logins": {"impersonation": IMPERSONATION},
        "files": {"inbox": {"root": f"file:{root}", "database": "inbox"}},
        "users": {"file": "users.yaml"},
        "ledger": {
            "directory": "ledger",
            "embedded": {"directory": "postgres"},
            "seal_key": {"file": _seal_key(directory).name},
        },
    }
    file = directory / "gateway.yaml"
    file.write_bytes(
        b"# Written by `sluice demo` at every start.\n" + orjson.dumps(settings, option=orjson.OPT_INDENT_2)
    )
    return file


def _seal_key(directory: Path) -> Path:
    """Make the key that seals the demo's record, unless an earlier start made it; return its file."""
    file = directory / "seal.key"
    if not file.exists():
        key = Ed25519PrivateKey.generate()
        file.touch(mode=0o600)
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return file


def _inbox(directory: Path) -> Path:
    """Write files that nobody has made a table of, where Spark's user reads them; return their directory."""
    root = state_place(directory / "inbox", run_as())
    for name, text in data.FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


async def load_data(settings: Settings, where: Addresses, progress: Callable[[str], None]) -> None:
    """Make the sample tables unless an earlier start made the same ones."""
    queries = SparkThriftService(make_backend(settings.backend, where.spark_host, where.spark_port))
    try:
        if await _are_there(queries):
            progress("sample data are there")
            return
        for what, sql in data.statements():
            await queries.query(sql)
            if what:
                progress(f"sample data: {what}")
    finally:
        await queries.close()


async def _are_there(queries: SparkThriftService) -> bool:
    try:
        rows = await queries.query(data.DIGEST_QUERY)
    except BackendError:
        return False  # There is no such table yet.
    return any(row[-1] == data.digest() for row in rows)


def _how_to_go_on(terminal: Terminal, where: Addresses, settings_file: Path) -> None:
    thrift, connect = where.endpoints["thrift"], where.endpoints["connect"]
    terminal.line()
    terminal.line(terminal.style("Connect", BOLD))
    connect_help(
        terminal,
        host=thrift.host,
        port=thrift.port,
        connect_port=connect.port,
        java=str(find_java()),
        jars=str(find_spark_home() / "jars"),
    )
    terminal.line()
    terminal.line(terminal.style("Look", BOLD))
    terminal.line(
        f"  http://localhost:{where.endpoints['admin'].port}/console/  is the web console; log in as"
    )
    for person, about in (
        (PEOPLE[2], "sees what is her own: why she was refused, what she may"),
        (PEOPLE[0], "audits: sees the record, the policies, the lineage, what runs"),
        (ENGINEER, "administers: also ends sessions and grants requests"),
    ):
        terminal.line(f"  {person.name:<6} {person.password:<12} {about}")
    terminal.line("  Why does carol see no cards?      as carol: Table access, table sales.customer")
    terminal.line("  What does bob see of it?          as alice: the same with user bob; Read a few rows")
    terminal.line("  A grant, asked for and given?     as carol: Why refused?, Why?, Ask for this;")
    terminal.line("                                    as dave: Requests, To decide on, Grant")
    terminal.line()
    terminal.line(terminal.style("Ask", BOLD))
    config = os.path.relpath(settings_file)
    # As it was started: in a clone the command lies in the virtual environment, which need not be active.
    program = os.path.relpath(sys.argv[0]) if Path(sys.argv[0]).name == "sluice" else "python -m gateway"
    for command in (
        f"explain -c {config} --as bob 'SELECT * FROM sales.customer'",
        f"audit tail -c {config}",
        f"audit seal -c {config}    # and then: audit verify -c {config}",
        f"check {config}",
        f"jobs run rollups -c {config}    # or: {', '.join(name for name in JOBS if name != 'rollups')}",
    ):
        terminal.line(f"  {program} {command}")
