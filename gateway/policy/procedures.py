"""Reads `rules/procedures/*.yaml`: which procedures may be called, and what each wants of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.model.procedures import Procedure, Procedures
from gateway.policy.diagnostics import Diagnostics, Path, list_unknown_keys
from gateway.policy.documents import parse_document

PROCEDURE_KEYS = frozenset({"format", "namespace", "procedures"})
_KEYS = frozenset({"arguments", "table", "url", "condition", "maintain", "refused"})
URL_ACCESSES = frozenset({"read", "write"})


def load_procedures(texts: Mapping[str, str], accesses: frozenset[str]) -> Procedures:
    """Return the procedures of all files, by file name. `accesses` are the access types of tables.

    Raises Faults with every fault of one file as `file:line: message`.
    """
    rows: dict[tuple[str, str], tuple[Procedure, ...]] = {}
    for file, text in texts.items():
        document = parse_document(text, file)
        faults = Diagnostics(document)
        data = document.data
        if not isinstance(data, dict) or not isinstance(data.get("procedures"), dict):
            faults.add((), "a procedure file must have `format`, `namespace` and `procedures`")
            faults.raise_any()
            continue
        list_unknown_keys(data, PROCEDURE_KEYS, (), faults, "a procedure file")
        namespace = data.get("namespace")
        if not isinstance(namespace, str) or not namespace:
            faults.add(
                ("namespace",), "`namespace` must be the namespace of the procedures, such as `system`"
            )
        for name, value in data["procedures"].items():
            found = _procedure(value, ("procedures", name), faults, accesses)
            key = str(namespace).lower(), str(name).lower()
            rows[key] = (*rows.get(key, ()), found)
        faults.raise_any()
    return Procedures(rows=rows)


def _procedure(value: Any, path: Path, faults: Diagnostics, accesses: frozenset[str]) -> Procedure:
    if not isinstance(value, dict):
        faults.add(path, "a procedure needs `arguments` and its required privileges, or `refused`")
        return Procedure()
    list_unknown_keys(value, _KEYS, path, faults, "a procedure")
    refused = value.get("refused", "")
    if not isinstance(refused, str) or (refused and len(value) > 1):
        faults.add(path, "`refused` must be a reason, and excludes other keys")
    if refused:
        return Procedure(refused=str(refused))
    arguments = _names(value.get("arguments"), (*path, "arguments"), faults)
    table = _read_wanted(value.get("table", {}), (*path, "table"), faults, accesses)
    url = _read_wanted(value.get("url", {}), (*path, "url"), faults, URL_ACCESSES)
    condition = _names(value.get("condition", []), (*path, "condition"), faults)
    maintain = _names(value.get("maintain", []), (*path, "maintain"), faults)
    for name in (*table, *url, *condition, *maintain):
        if name not in arguments:
            faults.add(path, f"`{name}` is not one of its arguments")
    if not table:
        faults.add(path, "`table` must name the argument with the table, and the privileges required on it")
    return Procedure(
        arguments=arguments,
        table=table,
        url=url,
        condition=frozenset(condition),
        maintain=frozenset(maintain),
    )


def _names(value: Any, path: Path, faults: Diagnostics) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        faults.add(path, "a list of names is expected")
        return ()
    return tuple(name.lower() for name in value)


def _read_wanted(
    value: Any, path: Path, faults: Diagnostics, accesses: frozenset[str]
) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        faults.add(path, "a mapping of argument names to access types is expected")
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for name, wanted in value.items():
        found[str(name).lower()] = _names(wanted, (*path, name), faults)
        for access in found[str(name).lower()]:
            if access not in accesses:
                faults.add(
                    (*path, name),
                    f"unknown access type `{access}`; the access types are {', '.join(sorted(accesses))}",
                )
        if not found[str(name).lower()]:
            faults.add((*path, name), "at least one privilege must be required")
    return found
