"""What the documents name is there: files, links, settings, attacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel

from gateway.catalog.kinds import KINDS
from gateway.model.credentials import Credentials
from gateway.model.spark_minors import NEWEST, SUPPORTED
from gateway.settings.listeners import Listeners, Tls
from gateway.settings.section import Secret

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")]
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)[^)]*\)")
FILE = re.compile(r"`((?:gateway|tests|docs|config|rules|deploy)/[^`\s]*)`")
SETTINGS = set(
    re.findall(r"^(?:\| |## )`([a-z_.]+)(?:\[\])?`", (ROOT / "docs" / "settings.md").read_text("utf-8"), re.M)
)
SETTING = re.compile(rf"`((?:{'|'.join(sorted({name.partition('.')[0] for name in SETTINGS}))})\.[a-z_.]+)`")
ROOM_FILES = {"reader.port", "logins.impersonation"}
"""Modules that are written as settings are."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text("utf-8")
    gone = [link for link in LINK.findall(CODE.sub("", text)) if not (page.parent / link).exists()]
    if page.name != "CHANGELOG.md":  # tells of what was
        gone += [name for name in FILE.findall(text) if not any(ROOT.glob(name.rstrip("/")))]
        named = set(SETTING.findall(text)) - ROOM_FILES
        gone += [name for name in named if not any(f"{key}.".startswith(f"{name}.") for key in SETTINGS)]
    assert gone == []


MODULE = re.compile(r"`((?:[a-z_]+/)+[a-z_*]*(?:\.py)?)`")


@pytest.mark.parametrize(
    "page", [ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/architecture/*.md")], ids=lambda p: p.name
)
def test_what_the_architecture_names_is_there(page: Path) -> None:
    """Modules are named as they lie below `gateway/`: a newcomer finds what the page says."""
    gone = [
        name
        for name in MODULE.findall(page.read_text("utf-8"))
        if not any((ROOT / "gateway").glob(name.rstrip("/") + "*")) and not any(ROOT.glob(name.rstrip("/")))
    ]
    assert gone == []


def test_every_room_has_a_row_and_a_page() -> None:
    rows = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    pages = "".join(page.read_text("utf-8") for page in ROOT.glob("docs/architecture/*.md"))
    rooms = [path.name for path in (ROOT / "gateway").iterdir() if (path / "__init__.py").exists()]
    assert "policy" in rooms
    assert [room for room in rooms if f"`{room}" not in rows or f"`{room}/" not in pages] == []


def listening(section: type[BaseModel], name: str) -> Iterator[str]:
    """Yield the settings that open something to others, by their full names."""
    for key, field in section.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in (Tls, Secret):
                yield f"{name}.{key}"
                yield from listening(kind, f"{name}.{key}")


def test_the_threat_model_has_a_row_for_everything_that_listens() -> None:
    page = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
    rows = page.partition("## Entry points")[2].partition("\n## ")[0]
    names = list(listening(Listeners, "listeners"))
    assert "listeners.admin.tags" in names
    assert [name for name in names if f"(`{name}`)" not in rows] == []


def test_the_record_tells_by_which_endpoint_somebody_came() -> None:
    (row,) = re.findall(r"^\| `cliType` .*$", (ROOT / "docs" / "audit.md").read_text("utf-8"), re.M)
    clients = Listeners.model_fields.keys() - {"admin"}
    assert [name for name in clients if f"`{name}`" not in row] == []


def test_the_record_tells_in_which_way_somebody_logged_in() -> None:
    page = (ROOT / "docs" / "audit.md").read_text("utf-8")
    assert [way.mechanism for way in get_args(Credentials) if f"`{way.mechanism}`" not in page] == []


def test_every_attack_that_the_threat_model_names_is_one() -> None:
    attacks = yaml.safe_load((ROOT / "tests" / "cases" / "bypasses.yaml").read_text("utf-8"))
    names = [str(entry["attack"]) for entry in attacks]
    page = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
    table = page.partition("## Classes of bypass")[2]
    named = [
        name
        for row in re.findall(r"^\|.*\|$", table, re.M)[2:]
        for name in re.findall(r"`([^`]+)`", row.rpartition(" | ")[2])
        if not name.startswith("tests/")
    ]
    assert len(named) > 15
    assert [
        name for name in named if not any(a.startswith(name.removesuffix("…").strip()) for a in names)
    ] == []


def test_every_kind_of_catalog_has_a_row_with_what_it_needs() -> None:
    page = (ROOT / "docs" / "catalogs.md").read_text("utf-8")
    table = page.partition("| type | is | needs |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = {
        name: needs
        for kinds, needs in re.findall(r"^\| (.+?) \| .+ \| (.+) \|$", table, re.M)
        for name in re.findall(r"`(.+?)`", kinds)
    }
    assert sorted(rows) == sorted(KINDS)
    missing = [
        (name, needed)
        for name, kind in KINDS.items()
        for needed in {one for names in kind.required for one in names}
        if f"`{needed}`" not in rows[name]
    ]
    assert missing == []


def test_every_mask_type_has_a_row() -> None:
    shipped = yaml.safe_load((ROOT / "rules" / "service_defs" / "spark.yaml").read_text("utf-8"))
    page = (ROOT / "docs" / "masks.md").read_text("utf-8")
    rows = re.findall(r"^\| `([A-Z_0-9]+)` \|", page.partition("## Result by type")[0], re.M)
    assert sorted(rows) == sorted(mask["name"] for mask in shipped["dataMaskDef"]["maskTypes"])


def test_every_other_spark_is_tried_and_has_a_provider() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    tried = re.findall(r"^MINORS \?= (.+)$", makefile, re.M)[0].split()
    assert tried == [str(minor) for minor in SUPPORTED if minor != NEWEST]
    providers = yaml.safe_load((ROOT / "rules" / "catalog_providers.yaml").read_text("utf-8"))["providers"]
    held = {str(minor) for one in providers for minor in one.get("minors", ())}
    assert held == {str(minor) for minor in SUPPORTED}


def test_every_page_has_a_place_in_the_site() -> None:
    site = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = [page.relative_to(ROOT).as_posix() for page in ROOT.glob("docs/**/*.md")]
    assert [page for page in pages if page not in site] == []
