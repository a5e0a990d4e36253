"""The import table of ARCHITECTURE.md holds, and pure rooms do no I/O: read from the syntax trees."""

from __future__ import annotations

import ast
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

GATEWAY = Path(__file__).resolve().parent.parent / "gateway"

TESTS = GATEWAY.parent / "tests"
ACROSS_ROOMS = frozenset({"attacks", "bench", "e2e", "histories", "property", "removals"})
"""Folders of `tests/` whose tests need several rooms, or all."""
OF_THE_WHOLE = frozenset(
    f"test_{name}"
    for name in (
        "architecture",
        "documentation",
        "documented_commands",
        "running_tests",
        "spark_diff",
        "words",
    )
)

EVERYTHING = frozenset({"*"})
MAY_IMPORT: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "model": frozenset({"errors"}),
    "wire": frozenset({"errors", "model"}),
    "policy": frozenset({"errors", "model"}),
    "algebra": frozenset({"errors", "model"}),
    "sql": frozenset({"errors", "model", "algebra", "policy"}),
    "plan": frozenset({"errors", "model", "algebra", "sql", "policy", "wire"}),
    "pipeline": frozenset({"errors", "model", "algebra", "sql", "plan", "policy", "reader.port"}),
    "reader": frozenset({"errors", "model"}),
    "catalog": frozenset({"errors", "model", "wire", "sql.metric_views"}),
    "sources": frozenset(
        {"errors", "model", "policy", "catalog.gravitino", "catalog.providers", "catalog.spark_settings"}
    ),
    "session": frozenset({"errors", "model", "pipeline", "wire"}),
    "frontends": frozenset({"errors", "model", "wire", "session"}),
    "rest": frozenset({"errors", "model", "algebra", "policy", "reader.port", "session", "catalog"}),
    "backends": frozenset({"errors", "model", "wire", "session.ports"}),
    "database": frozenset({"errors", "model"}),
    "files": frozenset({"errors", "model", "session.ports", "database"}),
    "audit": frozenset({"errors", "model", "session.ports", "database"}),
    "lineage": frozenset({"errors", "model", "sql", "plan", "policy.laundering", "reader.port", "database"}),
    "admin": frozenset({"errors", "model", "session", "pipeline", "policy", "database", "lineage"}),
    # Its pages show the record, which lies in the form that `audit` has given it.
    "console": frozenset(
        {
            "errors",
            "model",
            "session",
            "pipeline",
            "policy",
            "reader.port",
            "reader.shapes",
            "database",
            "lineage",
            "admin",
            "audit.record_pages",
            "audit.rows",
            "audit.search",
        }
    ),
    # The form of the record is that of `audit` and `lineage`; jobs read it where it lies. Replays judge.
    "jobs": frozenset(
        {
            "errors",
            "model",
            "policy",
            "database",
            "pipeline",
            "reader",
            "audit.chain",
            "audit.erasing",
            "audit.rows",
            "audit.seals",
            "audit.verify",
            "audit.walking",
            "lineage.recorded",
        }
    ),
    # The composition level.
    "settings": EVERYTHING,
    "app": EVERYTHING,
    "demo": EVERYTHING,
    "cli": EVERYTHING,
}
"""Room → what of ours it may import, a room or one module of it; a room may always import itself.

`errors` may be imported anywhere: it is one class per reaction of the edge, without anything below it.
"""

IN_MEMORY = frozenset({"io.BytesIO"})
"""What is none for all its name: bytes in memory, as Thrift's C codec wants them."""
PURE = frozenset({"errors", "model", "wire", "policy", "algebra", "sql", "plan"})
NO_IO = frozenset(
    {
        "aiohttp",
        "asyncio",
        "asyncpg",
        "concurrent",
        "glob",
        "grpc",
        "http",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "pickle",
        "random",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "socketserver",
        "sqlite3",
        "ssl",
        "structlog",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
    }
)
"""Modules with a clock, randomness, files, sockets, threads or logs in them."""
OPENS_OR_READS_THE_CLOCK = frozenset({"open", "print", "input", "eval", "exec"}) | {
    f"{kind}.{method}" for kind in ("datetime", "date") for method in ("now", "utcnow", "today")
}
STDLIB_ONLY = frozenset({"errors", "model"})
SQLGLOT_HOME = "sql"
MAX_LINES = 600
"""A length follows its thought; past this it is worth asking whether that is one thought."""


class Import(NamedTuple):
    room: str
    path: Path
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(GATEWAY.parent)}:{self.line} imports {self.module}"


def room_of(path: Path) -> str:
    first = path.relative_to(GATEWAY).parts[0]
    return first.removesuffix(".py")


@cache
def modules() -> tuple[Path, ...]:
    return tuple(sorted(p for p in GATEWAY.rglob("*.py") if "_rules" not in p.parts))


def module_of(path: Path) -> str:
    parts = path.relative_to(GATEWAY.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True)
class Facts:
    """What the tests here ask of a module; its syntax tree, which is large, is not kept."""

    docstring: str | None
    lines: int
    imports: tuple[Import, ...]
    """Those inside functions and under TYPE_CHECKING too."""
    imports_on_load: tuple[str, ...]
    """Modules that its top level imports."""
    calls: tuple[tuple[int, str], ...]
    """Line and dotted name of what is called; what is called on anything but names has `?` for that."""
    types: tuple[str, ...]
    """Classes, and type aliases of the top level."""


@cache
def facts_of(path: Path) -> Facts:
    source = path.read_text()
    tree = ast.parse(source, filename=str(path))
    nodes = list(ast.walk(tree))
    return Facts(
        docstring=ast.get_docstring(tree) if source.strip() else "",
        lines=source.count("\n"),
        imports=tuple(imports_in(nodes, path)),
        imports_on_load=tuple(found.module for found in imports_in(tree.body, path)),
        calls=tuple((node.lineno, dotted(node.func)) for node in nodes if isinstance(node, ast.Call)),
        types=tuple([node.name for node in nodes if isinstance(node, ast.ClassDef)] + aliases_in(tree)),
    )


def dotted(node: ast.expr) -> str:
    """Return the name of what is called, as it is written."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name, value=value):
            return f"{dotted(value)}.{name}"
    return "?"


def aliases_in(tree: ast.Module) -> list[str]:
    """Return the names of type aliases, as far as a module gives them to others."""
    found = []
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name[0].isupper() and not name.isupper():
                    found.append(name)
    return found


def imports_in(nodes: Iterable[ast.AST], path: Path) -> Iterator[Import]:
    """Yield the imports among nodes."""
    room = room_of(path)
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(room, path, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} relative import"
            module = node.module or ""
            for alias in node.names:
                # `from gateway.session import ports` names a module, `from gateway.errors import X` does not;
                # both spellings are covered by matching on prefixes.
                yield Import(room, path, node.lineno, f"{module}.{alias.name}")


def all_imports() -> list[Import]:
    return [found for path in modules() for found in facts_of(path).imports]


def all_calls() -> Iterator[tuple[str, int, str]]:
    """Yield path within `gateway/`, line and dotted name of every call."""
    for path in modules():
        home = path.relative_to(GATEWAY).as_posix()
        yield from ((home, line, name) for line, name in facts_of(path).calls)


def allowed(found: Import) -> bool:
    """Whether the table lets a room import a module of ours."""
    inside = found.module.removeprefix("gateway.")
    room = inside.split(".")[0]
    may = MAY_IMPORT[found.room]
    if may is EVERYTHING or room in {found.room, "__version__"}:
        return True
    return any(inside == entry or inside.startswith(f"{entry}.") for entry in may)


def test_every_module_belongs_to_a_room_of_the_table() -> None:
    strangers = {room_of(p) for p in modules()} - set(MAY_IMPORT) - {"__init__", "__main__"}
    assert not strangers, f"no row in the table of ARCHITECTURE.md for {sorted(strangers)}"


def test_each_package_says_where_it_is_tested() -> None:
    """In the folder of its name in `tests/`, as ARCHITECTURE.md says, or where its docstring says."""
    for package in sorted({path.parent for path in modules()} - {GATEWAY}):
        folder = TESTS / package.relative_to(GATEWAY)
        said = facts_of(package / "__init__.py").docstring or "" if (package / "__init__.py").exists() else ""
        places = [TESTS.parent / place for place in re.findall(r"`(tests/[^`]+)`", said)]
        if not any(folder.rglob("test_*.py")):
            assert places, f"there is no {folder}, and no docstring says what tests {package}"
        assert all(place.exists() for place in places), f"{package}: {said}"


def test_each_folder_of_tests_is_of_a_package_or_of_no_room() -> None:
    folders = {path.parent for path in TESTS.rglob("test_*.py")} - {TESTS}
    strangers = {
        folder
        for folder in folders
        if folder.relative_to(TESTS).parts[0] not in ACROSS_ROOMS
        and not (GATEWAY / folder.relative_to(TESTS)).is_dir()
    }
    assert not strangers
    assert {path.stem for path in TESTS.glob("test_*.py")} == OF_THE_WHOLE


def test_rooms_import_only_what_the_table_allows() -> None:
    wrong = [
        str(found)
        for found in all_imports()
        if found.module.startswith("gateway.") and found.room in MAY_IMPORT and not allowed(found)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for the type checker count, and those within functions: none can be read by itself."""
    names = {module_of(path) for path in modules()}
    imported: dict[str, set[str]] = {name: set() for name in names}
    for found in all_imports():
        package, _, _ = found.module.rpartition(".")
        target = found.module if found.module in names else package
        if target in names and target != module_of(found.path):
            imported[module_of(found.path)].add(target)
    try:
        graphlib.TopologicalSorter(imported).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None


def test_only_commands_import_commands() -> None:
    """The demo prints as they do."""
    wrong = [
        str(found)
        for found in all_imports()
        if found.module.startswith("gateway.cli.")
        and found.room not in ("cli", "__main__")
        and not (found.room == "demo" and found.module.startswith("gateway.cli.terminal."))
    ]
    assert not wrong, "\n".join(wrong)


def test_pure_rooms_have_no_clock_no_files_no_sockets_and_no_logs() -> None:
    wrong = [
        str(found)
        for found in all_imports()
        if found.room in PURE and found.module.split(".")[0] in NO_IO and found.module not in IN_MEMORY
    ]
    assert not wrong, "\n".join(wrong)


def test_pure_rooms_neither_open_files_nor_read_the_clock() -> None:
    wrong = [
        f"{home}:{line} calls {name}"
        for home, line, name in all_calls()
        if home.split("/")[0].removesuffix(".py") in PURE and name in OPENS_OR_READS_THE_CLOCK
    ]
    assert not wrong, "\n".join(wrong)


def test_model_and_errors_need_the_standard_library_only() -> None:
    wrong = [
        str(found)
        for found in all_imports()
        if found.room in STDLIB_ONLY
        and found.module.split(".")[0] not in sys.stdlib_module_names | {"gateway", "__future__"}
    ]
    assert not wrong, "\n".join(wrong)


def test_sqlglot_lives_in_one_room() -> None:
    wrong = [
        str(found)
        for found in all_imports()
        if found.module.split(".")[0] == "sqlglot" and found.room != SQLGLOT_HOME
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_pipeline_makes_a_cleared_verdict() -> None:
    """Law 4: `Cleared(...)` is constructed in one module."""
    makers = {home.split("/")[0] for home, _, name in all_calls() if name.split(".")[-1] == "Cleared"}
    assert makers <= {"pipeline.py", "pipeline"}, makers


def test_connections_to_postgresql_are_made_in_one_place() -> None:
    """So each of them has a name, knows its time zone and notices that nobody is at its other end."""
    makers = {home for home, _, name in all_calls() if name in ("asyncpg.connect", "asyncpg.create_pool")}
    assert makers == {"database/connections.py"}, makers


CHANGES_OF_CATALOGS = frozenset({"create_database", "drop_database"})
"""What WritableCatalog can do; nothing judges it."""
OF_COMMANDS = {
    "gateway.app.catalog_access": {"cli/catalogs.py"},
    "gateway.catalog.spark_sql": {"app/catalog_access.py"},
    "gateway.catalog.iceberg_rest": {"app/catalog_access.py"},
    "gateway.catalog.hive_metastore": {"app/catalog_access.py"},
}
"""What opens a catalog that can be written to, and who may import it."""


def test_only_commands_of_administrators_write_to_catalogs() -> None:
    """INVARIANT (one way): the gateway that serves changes catalogs by statements alone, behind `judge`."""
    wrong = [
        f"{home}:{line} calls {name}"
        for home, line, name in all_calls()
        if not home.startswith("catalog/") and home != "cli/catalogs.py"
        if "." in name and name.split(".")[-1] in CHANGES_OF_CATALOGS
    ]
    wrong += [
        str(found)
        for found in all_imports()
        for module, may in OF_COMMANDS.items()
        if (found.module + ".").startswith(module + ".")
        and found.room != "catalog"
        and str(found.path.relative_to(GATEWAY)) not in may
    ]
    assert not wrong, "\n".join(wrong)


def test_pyspark_comes_in_when_a_job_runs_and_not_before() -> None:
    """The gateway imports the room for its schedule."""
    wrong = [
        f"{path} imports {module}"
        for path in modules()
        if room_of(path) == "jobs"
        for module in facts_of(path).imports_on_load
        if module.split(".")[0] in {"pyspark", "pyarrow"}
    ]
    assert not wrong, "\n".join(wrong)


OPTIONAL = {
    "gateway.admin.ranger": {
        "app/console_policies.py", "app/console_record.py", "app/ranger_admin.py",
        "console/pages/requests.py",
    },
    "gateway.admin.lineage": {"app/console_record.py", "app/lineage_admin.py"},
    "gateway.admin.open_sessions": {"app/administered_apis.py"},
    "gateway.app.iceberg_rest": {"app/endpoints.py"},
    "gateway.rest": {"app/iceberg_rest.py", "app/served_policies.py"},
    "gateway.admin.tag_proposals": {"app/administered_apis.py"},
    "gateway.app.embedded": {"app/gateway.py"},
    "gateway.app.jobs": {"app/gateway.py", "cli/audit_proof.py", "cli/jobs.py", "cli/replay.py"},
    "gateway.app.lineage_admin": {"app/console_record.py", "app/endpoints.py"},
    "gateway.app.ranger_admin": {
        "app/console.py", "app/console_record.py", "app/console_tools.py", "app/endpoints.py",
    },
    "gateway.app.tracing": {"app/gateway.py"},
    "gateway.app.administered_apis": {"app/endpoints.py"},
    "gateway.app.console": {"app/endpoints.py"},
    "gateway.app.console_tools": {
        "app/console.py", "app/console_policies.py", "app/console_proposals.py", "app/console_record.py",
    },
    "gateway.console": {
        "app/console.py", "app/console_policies.py", "app/console_proposals.py", "app/console_record.py",
        "app/console_samples.py", "app/console_tools.py",
    },
    "gateway.backends.embedded_spark": {
        "app/connect.py", "app/embedded.py", "app/explaining.py", "app/gateway.py", "app/spark_classes.py",
        "app/sparks.py",
        "demo/lake.py",
    },
    "gateway.database.postgres": {"app/gateway.py", "app/site_checks.py", "cli/audit.py"},
    "gateway.demo": {"cli/demo.py", "cli/lake_demo.py"},
}  # fmt: skip
"""What a gateway does not need to run → who may import it, besides itself."""
NOT_LOADED = (
    "gateway.admin.lineage",
    "gateway.admin.open_sessions",
    "gateway.admin.ranger",
    "gateway.admin.tag_proposals",
    "gateway.app.jobs",
    "gateway.app.catalog_access",
    "gateway.app.console",
    "gateway.app.tracing",
    "gateway.backends.embedded_catalog",
    "gateway.backends.embedded_spark",
    "gateway.catalog.hive_metastore",
    "gateway.catalog.iceberg_rest",
    "gateway.catalog.memory",
    "gateway.console",
    "gateway.database.postgres",
    "gateway.demo",
    "gateway.jobs.classification",
    "gateway.jobs.proof",
    "gateway.jobs.recommending",
    "gateway.jobs.replay",
    "OpenSSL",
    "opentelemetry",
)


def test_optional_parts_are_imported_where_they_are_put_in_and_nowhere_else() -> None:
    wrong = [
        str(found)
        for found in all_imports()
        for part, may in OPTIONAL.items()
        if (found.module + ".").startswith(part + ".")
        and not ".".join(found.path.relative_to(GATEWAY.parent).with_suffix("").parts).startswith(part)
        and str(found.path.relative_to(GATEWAY)) not in may
    ]
    assert not wrong, "\n".join(wrong)


def test_a_gateway_without_its_optional_parts_does_not_load_them() -> None:
    """The guarding core can be read, and runs, without them. Costs a process of two seconds."""
    code = (
        "import sys, gateway.app.gateway; "
        f"parts = {tuple(f'{part}.' for part in NOT_LOADED)}; "
        "print([name for name in sys.modules if (name + '.').startswith(parts)])"
    )
    done = subprocess.run(  # our own interpreter and words
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(GATEWAY.parent)},
    )
    assert done.stdout.strip() == "[]"


def test_a_name_of_a_class_or_of_a_type_means_one_thing() -> None:
    """Type aliases count where a module gives them to others: `_Row` is its own affair."""
    homes: dict[str, list[str]] = {}
    for path in modules():
        for name in facts_of(path).types:
            homes.setdefault(name, []).append(str(path.relative_to(GATEWAY)))
    twice = {name: paths for name, paths in homes.items() if len(paths) > 1}
    assert not twice


def test_sessions_have_values_and_bytes_and_no_messages() -> None:
    """Messages of Spark Connect are read and written in `wire` and `plan`. `gateway.wire.protobuf` has none:
    it is the error of whoever reads some."""
    wrong = [
        str(found)
        for found in all_imports()
        if found.room == "session"
        and (
            found.module.split(".")[0] in {"google", "pyspark"}
            or f"{found.module}.".startswith(("gateway.wire.connect.", "gateway.plan."))
        )
    ]
    assert not wrong, "\n".join(wrong)


MESSAGES = ("gateway.wire.connect.pb", "gateway.wire.connect.Message", "pyspark.sql.connect")
"""What has messages of Spark Connect."""
HANDED_ON = ("gateway.plan.reading.ExpressionString", "gateway.plan.reading.StreamStart")
"""Some of them, for a room that may not import `wire`."""


def test_where_messages_of_spark_connect_are_held_mypy_allows_no_any_without_a_reason() -> None:
    mypy = tomllib.loads((GATEWAY.parent / "pyproject.toml").read_text())["tool"]["mypy"]
    told = [
        pattern
        for override in mypy["overrides"]
        if override.get("disallow_any_explicit")
        for pattern in override["module"]
    ]
    holding = {found.path for found in all_imports() if found.module.startswith((*MESSAGES, *HANDED_ON))}
    names = {".".join(path.relative_to(GATEWAY.parent).with_suffix("").parts) for path in holding}
    assert len(names) > 30
    assert [name for name in names if not any(fnmatch(name, pattern) for pattern in told)] == []
    assert mypy["strict"]
    assert mypy.get("warn_unused_ignores", True), "tests/plan/misspelt.py rests on it"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(GATEWAY)))
def test_a_module_says_what_it_is_for_and_stays_small(path: Path) -> None:
    facts = facts_of(path)
    if path.name != "__init__.py" or facts.lines:
        assert facts.docstring, "no module docstring"
    assert facts.lines <= MAX_LINES, "too long: is it one room, or two that share a wall?"
    assert path.name not in {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"}


WAY = (
    "model/catalog.py",
    "model/snapshot.py",
    "model/statement.py",
    "pipeline/__init__.py",
    "pipeline/judging.py",
    "reader/port.py",
    "session/ports.py",
    "session/verdicts.py",
    "session/deciding.py",
    "session/freshness.py",
    "session/locks.py",
    "sql/evaluate.py",
    "sql/names.py",
)
"""What a room gives another on the way of a statement: values, and ports of a few methods."""
CALLBACKS = {
    "AskOwner": "asks another gateway of a handle that is its own",
    "CatalogLogins": "a session of Spark that is opened, before any statement",
    "LookUp": "authors of policies, when these change",
    "MakeProtocol": "a connection, before anybody has logged in",
    "clock": "time comes in as an argument",
    "end": "a connection, before anybody has logged in",
    "login": "how a user is shown to Spark, before any statement",
    "govern": "within the pipeline: a text leads to views, whose texts take the same way",
    "now": "time comes in as an argument",
    "watch": "within the session room: finds out the end of a statement that somebody waits for",
}
"""Names whose values are called, and why a trace of a statement still reads in the order of the code."""


def callables_in(tree: ast.Module) -> Iterator[str]:
    """Yield the names of fields, parameters and aliases that are functions."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id=name), annotation=kind) | ast.arg(arg=name, annotation=kind)
            ):
                if kind is not None and "Callable[" in ast.unparse(kind):
                    yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if "Callable[" in ast.unparse(value):
                yield name


def test_rooms_hand_each_other_no_callbacks_on_the_way_of_a_statement() -> None:
    found = {(home, name) for home in WAY for name in callables_in(ast.parse((GATEWAY / home).read_text()))}
    assert sorted(one for one in found if one[1] not in CALLBACKS) == []
    assert {name for _, name in found} == CALLBACKS.keys(), "rows that nothing needs any more"


def test_the_check_itself_sees_a_forbidden_import() -> None:
    """A fence that nobody has seen stop anything proves nothing."""
    assert not allowed(Import("frontends", GATEWAY, 1, "gateway.backends.spark_thrift.Backend"))
    assert not allowed(Import("backends", GATEWAY, 1, "gateway.session.service.Sessions"))
    assert not allowed(Import("policy", GATEWAY, 1, "gateway.reader.port.ReaderPort"))
    assert allowed(Import("backends", GATEWAY, 1, "gateway.session.ports.Backend"))
    assert allowed(Import("pipeline", GATEWAY, 1, "gateway.reader.port.ReaderPort"))
