"""`sluice audit verify`, `seal`, `seals`, `erase`: whether the record is what it was, and what may go."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.app import exit_codes
from gateway.app.jobs import holds_of, spark_options
from gateway.app.seal_keys import seal_keys
from gateway.app.signals import until_signalled
from gateway.audit.archived import Archive
from gateway.audit.backlog import list_spools, read_checkpoint
from gateway.audit.erasing import erase
from gateway.audit.seals import (
    KEPT,
    NotASeal,
    as_line,
    keep_seal,
    make_seal,
    public_key,
    read_local_seals,
    read_signing_key,
    seals,
)
from gateway.audit.verify import verify
from gateway.audit.walking import Kind, Verified
from gateway.cli.terminal import BOLD, GREEN, RED, YELLOW, Terminal, print_progress, user_name
from gateway.database.asking import asking, connected
from gateway.errors import Faults, RecordChanged
from gateway.jobs.archive import TABLE
from gateway.jobs.locks import VERIFYING, keep_archive
from gateway.jobs.running import run_job
from gateway.jobs.verifying import VerifyOptions
from gateway.jobs.verifying import verify as verify_on_spark
from gateway.settings import Settings

T = TypeVar("T")
ACTIONS = frozenset({"verify", "seal", "seals", "erase"})


def run(
    arguments: argparse.Namespace,
    settings: Settings,
    terminal: Terminal,
    *,
    dsn: str,
    spool: Path | None,
    since: datetime | None,
    until: datetime | None,
) -> int:
    """Do what `arguments.action` says."""
    if arguments.action == "seal":
        return _seal(settings, dsn, terminal)
    if arguments.action == "seals":
        for text in asyncio.run(_with(dsn, seals)):
            terminal.line(as_line(text))
        return exit_codes.OK
    if arguments.action == "erase":
        return _erase(arguments, settings, terminal, dsn, until)
    arguments.trouble = exit_codes.VERIFY_TROUBLE
    keys = _public_keys(settings, arguments.public_key)
    exported = _lines(arguments.seals) if arguments.seals is not None else []
    spools = list_spools(spool) if spool is not None else []
    chains = [read_checkpoint(one).chains for one in spools]
    reached = {name: head for one in chains for name, head in one.items()} if spools else None
    for one in spools:
        known = set(exported)
        exported += [seal for seal in read_local_seals(one) if not {seal, as_line(seal)} & known]

    # An archive in a catalog has no files that can be read here.
    if arguments.on is not None or settings.jobs.catalog is not None:
        options = VerifyOptions(
            since=since, until=until, exported=tuple(exported), keys=keys, reached=reached
        )
        told = _on_spark(options, arguments, settings, dsn)
        return exit_codes.INTERRUPTED if told is None else _tell(told, arguments, terminal)

    def progress(done: int, of: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{done:,} of {of:,} events" if done < of else "\r\x1b[K")
            sys.stderr.flush()

    async def work(connection: Any) -> Verified:
        if await connection.fetchval("SELECT EXISTS (SELECT FROM sluice.archive_day)"):
            await keep_archive(connection, print_progress)
        return await verify(
            connection,
            since=since,
            until=until,
            exported=exported,
            keys=keys,
            reached=reached,
            archive=Archive(settings.jobs.directory / TABLE),
            progress=progress,
        )

    found = asyncio.run(_with(dsn, work))
    return _tell(found, arguments, terminal)


def _tell(found: Verified, arguments: argparse.Namespace, terminal: Terminal) -> int:
    if arguments.json:
        terminal.json(_as_json(found))
    else:
        _show(found, terminal)
    return exit_codes.OK if found.holds else exit_codes.TAMPERED


def _on_spark(
    options: VerifyOptions, arguments: argparse.Namespace, settings: Settings, dsn: str
) -> Verified | None:
    """Run the job `verify`, and return what it has found; None when it was interrupted."""
    told: list[Verified] = []
    spark = spark_options(settings, "verify", master=arguments.master, remote=arguments.remote)
    job = verify_on_spark(replace(options, report=told.append))

    async def work() -> None:
        with suppress(RecordChanged):  # it is told in full
            await run_job(job, dsn=dsn, lake=settings.jobs.directory, spark=spark, progress=print_progress)

    with asking(alone=False):
        asyncio.run(until_signalled(work()))
    return told[0] if told else None


def _seal(settings: Settings, dsn: str, terminal: Terminal) -> int:
    if settings.ledger.seal_key is None:
        raise Faults(["`ledger.seal_key` is not set: there is no key to sign the record with"])
    key = read_signing_key(settings.ledger.seal_key.reveal())
    try:
        seal = asyncio.run(_with(dsn, lambda connection: make_seal(connection, key)))
    except NotASeal as error:
        raise Faults([f"the last seal in the database cannot be read: {error}"]) from None
    if seal is not None:
        terminal.line(seal.text())
        directory = settings.ledger.directory
        if directory.is_dir():
            try:
                keep_seal(directory, seal)
            except OSError as error:
                print_progress(
                    f"the seal is in the database, but could not be written to `{directory / KEPT}`: {error}"
                )
    return exit_codes.OK


def _erase(
    arguments: argparse.Namespace, settings: Settings, terminal: Terminal, dsn: str, until: datetime | None
) -> int:
    if not arguments.user or not arguments.reason:
        raise Faults(["`audit erase` needs --user, whose texts to erase, and --reason, which is recorded"])
    by, now = user_name(), datetime.now(UTC)
    before = until or now
    if before > now:
        raise Faults(["`audit erase` erases existing texts only: --to is in the future"])
    held = [hold.name for hold in holds_of(settings) if hold.forbids(arguments.user, before)]
    if held:
        raise Faults([f"texts of {arguments.user} from that period are on hold: {name}" for name in held])
    pem = settings.ledger.seal_key
    key = read_signing_key(pem.reveal()) if pem is not None else None
    if key is None:
        print_progress(
            "`ledger.seal_key` is not set: verifying with a key will report these texts as missing"
        )

    async def work(connection: Any) -> int:
        return await erase(connection, arguments.user, until=before, by=by, reason=arguments.reason, key=key)

    count = asyncio.run(_with(dsn, work))
    terminal.line(f"the texts of {count:,} events of {arguments.user} are erased; their decisions are kept")
    return exit_codes.OK


async def _with(dsn: str, ask: Callable[[Any], Awaitable[T]]) -> T:
    async with connected(dsn, VERIFYING, whole=True) as connection:
        return await ask(connection)


def _public_keys(settings: Settings, paths: Sequence[Path]) -> Sequence[Ed25519PublicKey]:
    if not paths:
        return seal_keys(settings.ledger)
    return [public_key("\n".join(_lines(path))) for path in paths]


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text("utf-8").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise Faults([f"`{path}` cannot be read: {error}"]) from None


def _show(found: Verified, terminal: Terminal) -> None:
    for one in found.findings:
        terminal.line(f"{terminal.style(f'{one.kind.value:<9}', RED)} {one.where}")
    if found.more:
        terminal.line(f"and {found.more:,} more")
    if found.seals and not found.signatures_checked:
        terminal.line(terminal.style("signatures of seals were not checked: no public key was given", YELLOW))
    if not found.seals:
        terminal.line(
            terminal.style("there is no seal: rewriting the whole record would go unnoticed", YELLOW)
        )
    looked_at = f"{found.events:,} events of {found.gateways} gateways, {found.seals} seals"
    if found.last_seal:
        looked_at += f", the last valid one of {found.last_seal}"
    if found.unsealed:
        looked_at += f"; {found.unsealed:,} events are not sealed"
    if found.before_chain:
        looked_at += f"; {found.before_chain:,} events are older than the chain"
    if found.holds:
        verdict = terminal.style("holds", BOLD, GREEN)
    else:
        unsealed = all(one.kind is Kind.UNSEALED for one in found.findings)
        verdict = terminal.style("is not sealed" if unsealed else "was changed", BOLD, RED)
    terminal.line(f"the record {verdict}: {looked_at}")


def _as_json(found: Verified) -> dict[str, Any]:
    return {
        "holds": found.holds,
        "events": found.events,
        "gateways": found.gateways,
        "seals": found.seals,
        "signatures_checked": found.signatures_checked,
        "last_seal": found.last_seal,
        "unsealed": found.unsealed,
        "before_chain": found.before_chain,
        "findings": [asdict(one) | {"kind": one.kind.value} for one in found.findings],
        "more": found.more,
    }
