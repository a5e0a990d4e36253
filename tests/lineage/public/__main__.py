"""Fetches the suites, runs them and prints what differs: `python -m tests.lineage.public [SUITE …]`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.lineage.public import openlineage
from tests.lineage.public.cases import Case, Outcome
from tests.lineage.public.running import run_cases
from tests.readers import patient_reader

HERE = Path(__file__).parent
PACKAGES = {
    "openlineage": "openlineage-sql==1.54.0",
    "sqlglot": "sqlglot==30.30.0",
    "sqllineage": "sqllineage==1.5.9",
}
FETCH_S = 900


def fetch_package(package: str, directory: Path) -> Path:
    """Return where the source distribution of a package is unpacked."""
    name = package.partition("==")[0]
    command = ["pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", str(directory), package]
    subprocess.run([sys.executable, "-m", *command], check=True, timeout=FETCH_S)
    (archive,) = directory.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(directory, filter="data")
    return directory / archive.name.removesuffix(".tar.gz")


def read_suite(suite: str, root: Path) -> list[Case]:
    """Return the cases of an unpacked suite. Its tests run in a process of their own."""
    if suite == "openlineage":
        return [*openlineage.read_cases(root)]
    program = [sys.executable, str(HERE / f"extract_{suite}.py"), str(root)]
    done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=FETCH_S)
    return [*_read_cases(json.loads(done.stdout))]


def _read_cases(written: list[dict[str, Any]]) -> Iterator[Case]:
    for one in written:
        yield Case(
            name=one["name"],
            sql=one["sql"],
            flows=frozenset((table, column, to) for table, column, to in one["flows"]),
            schema={name: tuple(columns) for name, columns in one["schema"].items()},
            target=one.get("target", ""),
        )


async def run_suite(suite: str) -> list[Outcome]:
    with tempfile.TemporaryDirectory(prefix="sluice-public-") as directory:
        cases = read_suite(suite, fetch_package(PACKAGES[suite], Path(directory)))
    async with patient_reader() as reader:
        return await run_cases(reader, cases)


def find_unlisted(suite: str, outcomes: Sequence[Outcome]) -> list[str]:
    """Return what differs and is not listed, and what is listed and does not differ."""
    known = yaml.safe_load((HERE / "known.yaml").read_text(encoding="utf-8"))[suite]
    listed = {case for one in known for case in one["cases"]}
    found = {one.case.name: one.summary() for one in outcomes if one.differs}
    return [
        *(f"{name}: {told}" for name, told in found.items() if name not in listed),
        *(f"{name}: listed, and the same" for name in sorted(listed - found.keys())),
    ]


async def main(suites: Sequence[str]) -> int:
    unlisted = 0
    for suite in suites or PACKAGES:
        outcomes = await run_suite(suite)
        refused = sum(1 for one in outcomes if one.refused)
        differing = sum(1 for one in outcomes if one.differs)
        print(f"{suite}: {len(outcomes)} cases, {refused} that Spark does not parse, {differing} otherwise")
        for told in find_unlisted(suite, outcomes):
            print(f"  {told}")
            unlisted += 1
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
