"""What the documents tell people to type works: commands, options, targets of make, settings, packs."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from gateway.cli.arguments import make_parser
from gateway.demo.tour import PEOPLE
from gateway.model.spark_minors import SUPPORTED
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.settings.loading import parse_settings

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    page
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    if "adr" not in page.parts and page.name != "CHANGELOG.md"
]
README = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^```([a-z]*)\n(.*?)^```", re.M | re.S)
COMMENT = re.compile(r"(?: {3,}| #| [<>|] ).*$")


def typed(text: str) -> Iterator[list[str]]:
    """Yield the commands of Sluice in blocks of shell, as words."""
    for language, block in BLOCK.findall(text):
        if language in ("", "sh", "console", "bash"):
            for line in re.sub(r"\\\n", " ", block).splitlines():
                if found := re.match(r"(?:\$ )?sluice (.+)", line):
                    yield shlex.split(COMMENT.sub("", found[1]))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_shows_is_understood(page: Path) -> None:
    for words in typed(page.read_text("utf-8")):
        try:
            make_parser().parse_args(words)
        except SystemExit as error:
            pytest.fail(f"`sluice {shlex.join(words)}` ends with {error.code}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_that_a_page_names_is_there(page: Path) -> None:
    commands = make_parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    assert isinstance(commands, dict)
    gone = []
    for inline in re.findall(r"`sluice ([^`]+)`", BLOCK.sub("", page.read_text("utf-8"))):
        words = inline.split()
        parser = commands.get(words[0])
        if words[0] == "policy" and parser is not None and len(words) > 1:
            parser = parser._subparsers._group_actions[0].choices.get(words[1])
        known = parser._option_string_actions if parser is not None else {}
        options = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--help"]
        if parser is None or any(option not in known for option in options):
            gone.append(inline)
    assert gone == []


def test_every_target_of_make_that_a_page_names_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^\.PHONY: (.+)$", makefile, re.M)[0].split())
    named = {
        target
        for page in PAGES
        for target in re.findall(r"(?:`|^)(?:[A-Z]+=\S* )*make ([a-z-]+)", page.read_text("utf-8"), re.M)
    }
    assert "demo" in named
    assert named - targets == set()


def test_the_readme_is_read_in_one_sitting() -> None:
    assert len(README.split()) <= 1200


def test_the_policies_of_the_readme_load_and_their_cases_hold() -> None:
    definitions = load_service_defs(
        {one.name: one.read_text("utf-8") for one in (ROOT / "rules" / "service_defs").iterdir()}
    )
    (pack,) = [block for _, block in BLOCK.findall(README) if block.startswith("service: spark")]
    found = load_packs({"readme.yaml": pack}, definitions)
    assert [one.name for one in found.policies()] == [one["name"] for one in yaml.safe_load(pack)["policies"]]


def test_the_settings_of_the_readme_are_taken(tmp_path: Path) -> None:
    blocks = [
        block for kind, block in BLOCK.findall(README) if kind == "yaml" and "service: spark" not in block
    ]
    assert len(blocks) == 2
    for block in blocks:
        parse_settings(block, "gateway.yaml", tmp_path)


def test_the_readme_names_the_sparks_and_the_people_that_there_are() -> None:
    (line,) = re.findall(r"works with Spark (.+?), with", " ".join(README.split()))
    assert re.findall(r"\d\.\d", line) == [str(minor) for minor in sorted(SUPPORTED)]
    for person in PEOPLE:
        assert f"`{person.name}`" in README
        assert person.password == f"{person.name}-demo"


def test_every_dependency_has_a_version_within_its_range() -> None:
    """`constraints.txt` is written by `make constraints`, after somebody changed a range."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    versions = dict(line.split("==") for line in lines if not line.startswith("#"))
    texts = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        texts += extra
    wrong = []
    for text in texts:
        one = Requirement(text)
        version = versions.get(one.name.lower().replace("_", "-"))
        if version is None or Version(version) not in one.specifier:
            wrong.append(text)
    assert wrong == []
