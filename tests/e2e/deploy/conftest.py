"""What the tests of deploy/ render and check with; the Makefile has it there."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

ROOT = Path(__file__).resolve().parents[3]
TOOLS = Path(__file__).parent / ".tools"
MINORS = ("1.29", "1.37")
"""Of Kubernetes: the oldest that the chart says it is for, and the newest."""
CUSTOM = {"ServiceMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, which Kubernetes has no schema for."""

Manifests = list[dict[str, Any]]


@pytest.fixture(scope="session")
def render() -> Callable[..., Manifests]:
    """`render("helm", CHART, RELEASE[, VALUES])` or `render("kustomize", DIRECTORY)`: the manifests."""
    program = TOOLS / "render"
    assert program.exists(), "run `make deploy-test`"

    def run(*words: str | Path) -> Manifests:
        done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [one for one in yaml.safe_load_all(done.stdout) if one]

    return run


@pytest.fixture(scope="session")
def promtool() -> str:
    found = shutil.which("promtool") or str(TOOLS / "promtool")
    assert Path(found).exists(), "run `make deploy-test`"
    return found


@cache
def _schemas(minor: str) -> tuple[zipfile.ZipFile, str, Registry[Any]]:
    (wheel,) = TOOLS.glob("kubernetes_validate-*.whl")
    opened = zipfile.ZipFile(wheel)
    directory = f"kubernetes_validate/kubernetes-json-schema/v{minor}.0-local-strict"
    definitions = json.loads(opened.read(f"{directory}/_definitions.json"))
    resource = Resource.from_contents(definitions, default_specification=DRAFT7)
    return opened, directory, Registry().with_resource("_definitions.json", resource)


def check_manifests(manifests: Manifests) -> None:
    """Hold manifests against the schemas of Kubernetes, in which unknown keys are faults."""
    faults = []
    for minor in MINORS:
        opened, directory, registry = _schemas(minor)
        for one in manifests:
            if one["kind"] in CUSTOM:
                continue
            group, _, version = one["apiVersion"].rpartition("/")
            name = "-".join(filter(None, (one["kind"].lower(), group.partition(".")[0], version)))
            schema = json.loads(opened.read(f"{directory}/{name}.json"))
            validator = jsonschema.Draft7Validator(schema, registry=registry)
            faults += [
                f"{minor}: {one['kind']} {one['metadata']['name']}: {error.json_path}: {error.message}"
                for error in validator.iter_errors(one)
            ]
    assert faults == []
