"""Writes docs/settings.md from the models; a test holds the page to it."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import types
import typing
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gateway.settings.loading import section_type
from gateway.settings.models import Settings

PREFACE = """\
# Settings

`sluice serve -c config/gateway.yaml` reads one YAML file. `sluice check config/gateway.yaml` reports every
fault in it with its line. An empty file is a gateway on 127.0.0.1 with an embedded Spark and PostgreSQL.

YAML is read strictly: unknown and repeated keys are faults, only `true` and `false` are booleans. Sizes are
bytes, times are seconds, as the names say. Relative paths start at the directory of the file.

Generated from the models in `gateway/settings/` by `python -m gateway.settings.reference`.
"""


def page() -> str:
    """Return the reference as Markdown: one table per section, in the models' order."""
    return PREFACE + "".join(_section("", Settings, Settings.__doc__ or ""))


def _section(path: str, model: type[BaseModel], text: str) -> Iterator[str]:
    rows, inner = [], []
    meanings = _read_meanings(model)
    for name, field in model.model_fields.items():
        meaning = meanings.get(name) or field.description or ""
        where = f"{path}.{name}" if path else name
        section = section_type(field.annotation)
        if section is not None:
            optional = field.default is None
            about = " ".join(f"{section.__doc__} {meaning}".split())
            listed = "[]" if typing.get_origin(field.annotation) is tuple else ""
            inner.append((where + listed, section, about + (" Optional." if optional else "")))
        else:
            rows.append(f"| `{where}` | {_type(field)} | {_default(field)} | {_prose(meaning)} |\n")
    if path:
        yield f"\n## `{path}`\n\n{_flow(text)}\n"
    if rows:
        yield "\n| key | type | default | meaning |\n|---|---|---|---|\n"
        yield from rows
    for where, section, about in inner:
        yield from _section(where, section, about)


def _flow(text: str) -> str:
    return " ".join(text.split())


def _read_meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the text below each field of a model and of those it inherits from.

    Read here rather than by pydantic, which would read all sources whenever a gateway starts.
    """
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if not issubclass(one, BaseModel) or one is BaseModel:
            continue
        parsed = typing.cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(one))).body[0])
        for field, text in zip(parsed.body, parsed.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                found[field.target.id] = inspect.cleandoc(text.value.value)
    return found


def _prose(meaning: str) -> str:
    return _flow(meaning).replace("|", "\\|")


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined:
        return "required"
    if default is None or default == ():
        return "none"
    if isinstance(default, Path):
        default = str(default)
    return f"`{json.dumps(default)}`"


def _type(field: FieldInfo) -> str:
    return _type_name(field.annotation)


def _type_name(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _type_name(arguments[0])
    if origin in {typing.Union, types.UnionType}:
        return _type_name(next(a for a in arguments if a is not type(None)))
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return f"list of {_type_name(arguments[0])}s"
    if origin is dict:
        return f"mapping of {_type_name(arguments[0])} to {_type_name(arguments[1])}"
    names = {
        str: "text",
        int: "integer",
        float: "number",
        bool: "boolean",
        Path: "path",
        IPv4Network: "network",
    }
    return names[annotation]


if __name__ == "__main__":
    Path("docs/settings.md").write_text(page(), encoding="utf-8")
