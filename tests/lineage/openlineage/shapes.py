"""Checks events against what OpenLineage publishes: the classes that its client has from its JSON schemas.

They are stricter than the schemas: a field that a facet does not have is an error, too.
"""

from __future__ import annotations

import enum
import importlib
import json
import pkgutil
import types
import typing
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import attr
import jsonschema
from openlineage.client import generated
from openlineage.client.generated.base import (
    DatasetFacet,
    InputDatasetFacet,
    JobEvent,
    JobFacet,
    OutputDatasetFacet,
    RunEvent,
    RunFacet,
)

from gateway.lineage.openlineage.events import STATEMENT_FACET

OURS = Path(__file__).resolve().parents[3] / "docs" / "openlineage" / "SluiceStatementRunFacet.json"
_FACETS = (DatasetFacet, InputDatasetFacet, JobFacet, OutputDatasetFacet, RunFacet)


def check(event: dict[str, Any]) -> None:
    """Fail with the place of the first thing that is not as OpenLineage has it."""
    kind = {RunEvent._get_schema(): RunEvent, JobEvent._get_schema(): JobEvent}[event["schemaURL"]]
    _structure(kind, event, "event")
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    if kind is RunEvent:
        UUID(event["run"]["runId"])
    for dataset in event["inputs"] + event["outputs"]:
        assert dataset["name"], dataset
    for dataset in event["outputs"]:
        columns = dataset["facets"].get("columnLineage")
        for field in [*columns["fields"].values(), {"inputFields": columns["dataset"]}] if columns else []:
            for source in field["inputFields"]:
                named = {"namespace": source["namespace"], "name": source["name"]}
                assert named in [{k: i[k] for k in named} for i in event["inputs"]], source


@cache
def _facet_classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    bases: tuple[Any, ...] = _FACETS
    for module in pkgutil.iter_modules(generated.__path__):
        content = importlib.import_module(f"{generated.__name__}.{module.name}")
        classes: list[Any] = [one for one in vars(content).values() if isinstance(one, type)]
        found |= {one._get_schema(): one for one in classes if issubclass(one, bases) and one not in bases}
    return found


@cache
def _ours() -> jsonschema.Draft202012Validator:
    schema = json.loads(OURS.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == STATEMENT_FACET
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


@cache
def _fields(kind: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return typing.get_type_hints(kind), {field.name: field for field in attr.fields(kind)}


def _structure(kind: Any, value: Any, where: str) -> None:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        (inner,) = [a for a in arguments if a is not type(None)]
        _structure(inner, value, where)
    elif origin is list:
        assert isinstance(value, list), where
        for number, one in enumerate(value):
            _structure(arguments[0], one, f"{where}[{number}]")
    elif origin is dict:
        assert isinstance(value, dict), where
        for key, one in value.items():
            assert isinstance(key, str)
            _structure(arguments[1], one, f"{where}.{key}")
    elif kind in _FACETS:
        _facet(kind, value, where)
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        assert value in [one.value for one in kind], where
    elif attr.has(kind):
        _object(kind, value, where)
    else:
        assert type(value) is kind, f"{where}: {value!r} is no {kind}"


def _facet(kind: Any, value: Any, where: str) -> None:
    assert urlsplit(value["_producer"]).scheme
    if value["_schemaURL"] == STATEMENT_FACET:
        _ours().validate(value)
        return
    of = _facet_classes()[value["_schemaURL"]]
    assert issubclass(of, kind), f"{where} is no {kind.__name__}"
    _object(of, value, where)


def _object(kind: Any, value: Any, where: str) -> None:
    assert isinstance(value, dict), where
    hints, fields = _fields(kind)
    assert not value.keys() - fields.keys(), f"{where}: {value.keys() - fields.keys()}"
    for name, field in fields.items():
        if name in value:
            _structure(hints[name], value[name], f"{where}.{name}")
        else:
            assert field.default is not attr.NOTHING, f"{where} lacks {name}"
