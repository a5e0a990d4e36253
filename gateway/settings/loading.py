"""Reads a settings file: strict YAML, then the models, then the file system; all faults are told together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.errors import Faults
from gateway.policy.diagnostics import Diagnostics, hint
from gateway.policy.documents import Document, parse_document
from gateway.settings.catalogs import (
    Normalized,
    add_catalog_services,
    check_names,
    normalize_section,
    secrets_of,
)
from gateway.settings.models import Settings
from gateway.settings.section import MADE, REFERENCES, Secret, Section

Location = tuple[str | int, ...]


def load_settings(path: Path) -> Settings:
    """Return the settings of a file, its relative paths made absolute. Raises Faults."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise Faults([f"{path}: cannot be read: {error.strerror}"]) from None
    return parse_settings(text, str(path), path.absolute().parent)


def parse_settings(text: str | bytes, file: str, directory: Path) -> Settings:
    """Return the settings of a text that stood in `file`; relative paths start at `directory`."""
    document = parse_document(text, file)
    faults = Diagnostics(document)
    data = document.data if document.data is not None else {}
    if not isinstance(data, dict):
        faults.add((), "settings must be a mapping of sections, such as `listeners:`")
        faults.raise_any()
    check_names(data.get("policies"), faults)
    read = Normalized()
    if "catalogs" in data:
        read = normalize_section(data["catalogs"], faults)
        policies = add_catalog_services(read, data.get("policies"), faults)
        data = {**data, "catalogs": read.entries, "policies": policies}
    if read.sources:
        data = {**data, "files": _with_sources(data.get("files"), read, faults)}
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            location = read.find_written(tuple(detail["loc"]))
            faults.add(location, _in_our_words(detail, location, document))
        faults.raise_any()
        raise
    faults.raise_any()
    anchored: Settings = _with_absolute_paths(settings, directory)
    for where, secret in _all_secrets(anchored):
        secret.keep_in(anchored.vault)
        if secret.vault is not None and anchored.vault is None:
            faults.add(where, "needs the section `vault`")
    faults.raise_any()
    return anchored


def _with_sources(files: Any, read: Normalized, faults: Diagnostics) -> Any:
    """Return `files` with the sources that `catalogs` has."""
    if files is not None and not isinstance(files, dict):
        return files  # the models tell of it
    given = {} if files is None else files
    folded = {name.lower() for name in given if isinstance(name, str)}
    for name in read.sources:
        if name.lower() in folded:
            faults.add(read.find_written(("files", name)), f"`files` also has a source `{name}`")
    return {**given, **read.sources}


def check_settings(path: Path) -> list[str]:
    """Return every fault of a settings file, those too that only the file system shows; empty when good."""
    try:
        settings = load_settings(path)
    except Faults as error:
        return list(error.faults)
    faults = Diagnostics(parse_document(path.read_bytes(), str(path)))
    check_files_exist(settings, faults)
    return faults.texts()


def check_files_exist(settings: Settings, faults: Diagnostics) -> None:
    """Note the files that settings name and that are not there."""
    for location, value in paths_in(settings):
        if not value.exists():
            faults.add(location, f"`{value}` does not exist")


def paths_in(settings: Settings) -> Iterator[tuple[Location, Path]]:
    """Yield all paths but those that are made; the secrets of catalogs are where these are written."""
    for name in type(settings).model_fields:
        if name != "catalogs":
            yield from _paths_in(getattr(settings, name), (name,))
    for place, secret in secrets_of(settings.catalogs):
        if secret.file is not None:
            yield (*place, "file"), secret.file


def secrets_in(settings: Settings) -> Iterator[tuple[Location, Secret]]:
    """Yield all secrets that a gateway reads; those of jobs where it runs some."""
    for place, secret in _all_secrets(settings):
        if place[0] != "jobs" or settings.jobs.schedule:
            yield place, secret


def _all_secrets(settings: Settings) -> Iterator[tuple[Location, Secret]]:
    for name in type(settings).model_fields:
        if name != "catalogs":
            yield from _secrets_in(getattr(settings, name), (name,))
    yield from secrets_of(settings.catalogs)


def _secrets_in(value: object, at: Location) -> Iterator[tuple[Location, Secret]]:
    if isinstance(value, Secret):
        yield at, value
    elif isinstance(value, Section):
        for name in type(value).model_fields:
            yield from _secrets_in(getattr(value, name), (*at, name))
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _secrets_in(entry, (*at, key))
    elif isinstance(value, tuple):
        for index, entry in enumerate(value):
            yield from _secrets_in(entry, (*at, index))


def _paths_in(value: object, at: Location) -> Iterator[tuple[Location, Path]]:
    if isinstance(value, Path):
        yield at, value
    elif isinstance(value, Section):
        for name, field in type(value).model_fields.items():
            if MADE not in field.metadata:
                yield from _paths_in(getattr(value, name), (*at, name))
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _paths_in(entry, (*at, key))
    elif isinstance(value, tuple):
        for index, entry in enumerate(value):
            yield from _paths_in(entry, (*at, index))


def _in_our_words(detail: ErrorDetails, location: Location, document: Document) -> str:
    where = ".".join(str(part) for part in location)
    match detail["type"]:
        case "extra_forbidden":
            section = _section_at(location[:-1])
            key = str(location[-1])
            known = section.model_fields if section is not None else {}
            return f"unknown key `{where}`{hint(key, known)}"
        case "missing":
            return f"key `{where}` is missing"
        case "model_type":
            is_secret = detail.get("ctx", {}).get("class_name") == Secret.__name__
            return f"`{where}`: " + (REFERENCES if is_secret else "a mapping of keys is needed")
        case _:
            message = detail["msg"].removeprefix("Value error, ")
            return f"`{where}`: {message[:1].lower()}{message[1:]}" if where else message


def _section_at(location: Location) -> type[BaseModel] | None:
    """Return the model that describes the mapping at a location."""
    section: type[BaseModel] | None = Settings
    for step in location:
        if isinstance(step, int):
            continue  # an entry of a list of sections
        if section is None or step not in section.model_fields:
            return None
        section = section_type(section.model_fields[str(step)].annotation)
    return section


def section_type(annotation: Any) -> type[BaseModel] | None:
    """Return the section that a field holds, also when it is optional or a list; None for a plain value."""
    candidates = (annotation, *getattr(annotation, "__args__", ()))
    for candidate in candidates:
        if isinstance(candidate, type) and issubclass(candidate, Section):
            return candidate
    return None


def _expand_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise Faults([f"`{path}`: the user has no home directory; set `HOME`"]) from None


def _with_absolute_paths(section: Any, directory: Path) -> Any:
    """Return a copy in which every relative path starts at `directory`."""
    changed: dict[str, Any] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Path):
            changed[name] = directory / _expand_home(value)
        elif isinstance(value, Section):
            changed[name] = _with_absolute_paths(value, directory)
        elif isinstance(value, tuple) and any(isinstance(entry, Path) for entry in value):
            changed[name] = tuple(directory / _expand_home(entry) for entry in value)
        elif isinstance(value, dict) and any(isinstance(entry, Section) for entry in value.values()):
            changed[name] = {
                key: _with_absolute_paths(entry, directory) if isinstance(entry, Section) else entry
                for key, entry in value.items()
            }
        elif isinstance(value, tuple) and any(isinstance(entry, Section) for entry in value):
            changed[name] = tuple(_with_absolute_paths(entry, directory) for entry in value)
    return section.model_copy(update=changed) if changed else section
