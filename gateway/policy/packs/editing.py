"""Changes to the text of a pack: what they do not speak of stays as it is written, comments too.

An edit is a mapping, as it is kept in a database:

    {do: remove_policy, policy: NAME}
    {do: remove_item, policy: NAME, list: allow|mask|filter, item: {users, groups, roles, access|type|where}}
    {do: narrow, policy: NAME, on: [...]}          other resources instead of its own
    {do: add_policy, policy: {...}}
    {do: add_role, name: NAME, role: {...}}

The first three have `service` and `zone`, too, and `was`, a digest of the policy; a policy that denies has
those of all that spoke of its tables: to compare them is left to whoever has the policies. One that is
changed is written anew as a whole. The new text is parsed, and has to say what the old one said with the
edits made: otherwise nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import yaml

from gateway.errors import Faults
from gateway.policy.diagnostics import Path
from gateway.policy.documents import Document, parse_document
from gateway.policy.engine import DEFAULT_SERVICE

WIDTH = 110
_WHO = ("users", "groups", "roles")
_SAID_BY = {"allow": "access", "mask": "type", "filter": "where"}


_PLAIN = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_ .@/-]*[A-Za-z0-9_])?")
_CONSTANTS = frozenset({"true", "false", "null"})


class _Written(yaml.SafeDumper):
    """Writes what `parse_document` reads: no alias, and quotes where a text would be something else there."""

    # `on` and `no` are texts.
    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own name
        first: [one for one in found if one[0] != "tag:yaml.org,2002:bool" or first in "tTfF"]
        for first, found in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _CONSTANTS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Written.add_representer(str, _text)


def apply_edits(
    text: str, file: str, edits: Sequence[Mapping[str, Any]], cases: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Return the text of a pack with edits made and cases added; cases that it has already are left out.

    Raises Faults when it is no pack, has not what an edit speaks of, or is written in a way that cannot be
    changed in its place.
    """
    for edit in edits:
        text = _apply_edit(text, file, edit)
    data = _read_mapping(parse_document(text, file))
    there = data.get("cases") or []
    new = [deepcopy(dict(case)) for case in cases if case not in there]
    return _append_entries(text, file, "cases", new) if new else text


def _apply_edit(text: str, file: str, edit: Mapping[str, Any]) -> str:
    document = parse_document(text, file)
    data = _read_mapping(document)
    match edit["do"]:
        case "add_policy":
            return _append_entries(text, file, "policies", [dict(edit["policy"])])
        case "add_role":
            return _append_entries(text, file, "roles", {edit["name"]: dict(edit["role"])})
        case "remove_policy" | "remove_item" | "narrow":
            index = _index(data, edit)
            if index is None:
                raise Faults([f"{file}: has no policy `{edit['policy']}`{_of_zone(edit)}"])
            policy = deepcopy(data["policies"][index])
            changed = None if edit["do"] == "remove_policy" else _edit_policy(file, policy, edit)
            return _replace_policy(text, document, index, changed)
    raise Faults([f"{file}: unknown edit `{edit['do']}`"])


def _read_mapping(document: Document) -> dict[str, Any]:
    if not isinstance(document.data, dict):
        raise Faults([f"{document.file}:1: a pack must be a mapping with `policies`"])
    return document.data


def _of_zone(edit: Mapping[str, Any]) -> str:
    return f" in zone `{edit['zone']}`" if edit.get("zone") else ""


def _index(data: Mapping[str, Any], edit: Mapping[str, Any]) -> int | None:
    """Return the place of an edit's policy among those of a pack."""
    if data.get("service", DEFAULT_SERVICE) != edit.get("service", DEFAULT_SERVICE):
        return None
    policies = data.get("policies")
    for index, policy in enumerate(policies if isinstance(policies, list) else ()):
        if not isinstance(policy, dict) or policy.get("name") != edit["policy"]:
            continue
        if policy.get("zone", "") == edit.get("zone", ""):
            return index
    return None


def _edit_policy(file: str, policy: dict[str, Any], edit: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the policy as it shall be; None when nothing of it is left."""
    if edit["do"] == "narrow":
        on = edit["on"]
        policy["on"] = on[0] if len(on) == 1 else list(on)
        return policy
    part, wanted = edit["list"], _item(edit["item"], edit["list"])
    items = policy.get(part)
    found = [i for i, item in enumerate(items if isinstance(items, list) else ()) if _is(item, wanted, part)]
    if not found:
        raise Faults([f"{file}: policy `{edit['policy']}` no longer has such an item of `{part}`"])
    del policy[part][found[0]]
    if policy[part]:
        return policy
    del policy[part]
    # Exceptions speak of what is allowed, and say nothing without.
    if part == "allow":
        policy.pop("allow_exceptions", None)
    return policy if any(key in policy for key in _SAYS) else None


_SAYS = ("allow", "deny", "deny_all_else", "mask", "filter")
"""Keys of a policy that decide something, each by itself."""


def _is(item: object, wanted: object, part: str) -> bool:
    return isinstance(item, dict) and _item(item, part) == wanted


def _item(item: Mapping[str, Any], part: str) -> object:
    """Return what tells an item from others of its list."""
    who = tuple(frozenset(_as_list(item.get(key, ()))) for key in _WHO)
    said = item.get(_SAID_BY[part], "")
    if part != "allow":
        return (*who, str(said))
    return (*who, frozenset(text.lower() for text in _as_list(said)), item.get("delegate_admin") is True)


def _as_list(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple | set | frozenset) else [str(value)]


# -- the text ------------------------------------------------------------------------------------------------


def _replace_policy(text: str, document: Document, index: int, policy: Mapping[str, Any] | None) -> str:
    """Put a policy in the place of another one, or nothing."""
    lines = text.splitlines(keepends=True)
    path: Path = ("policies", index)
    first = document.line(path) - 1
    dash = _indent(lines[first])
    if not lines[first].lstrip(" ").startswith("- "):
        raise Faults([f"{document.place(path)}: cannot be edited in place; write it as `- name: …`"])
    end = first + 1
    while end < len(lines) and (_is_blank(lines[end]) or _indent(lines[end]) > dash):
        end += 1
    while end > first + 1 and _is_blank(lines[end - 1]):
        end -= 1
    expected = deepcopy(_read_mapping(document))
    if policy is None:
        del expected["policies"][index]
        # What stands before it is about it, up to an empty line.
        while first and _indent(lines[first - 1]) == dash and lines[first - 1].lstrip(" ").startswith("#"):
            first -= 1
        if not expected["policies"]:
            key = document.line(("policies",)) - 1
            lines[key] = "policies: []\n"
        elif end < len(lines) and not lines[end].strip():
            end += 1
        new: list[str] = []
    else:
        expected["policies"][index] = dict(policy)
        new = _entry(policy, " " * dash)
    return _check_edited("".join([*lines[:first], *new, *lines[end:]]), document.file, expected)


def _append_entries(text: str, file: str, section: str, entries: list[Any] | dict[str, Any]) -> str:
    """Write entries behind those of a section, which begins at the end of the text where there is none."""
    document = parse_document(text, file)
    expected = deepcopy(_read_mapping(document))
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    if expected.get(section):
        at = document.line((section,))
        if _indent(lines[at - 1]) or lines[at - 1].partition("#")[0].split(":", 1)[-1].strip():
            raise Faults([f"{file}:{at}: cannot add to `{section}`; write each entry on its own line"])
        first = next(i for i in range(at, len(lines)) if not _is_blank(lines[i]))
        margin = _indent(lines[first])
        end = first + 1
        while end < len(lines) and (
            _is_blank(lines[end]) or _indent(lines[end]) > margin or _goes_on(lines[end], margin)
        ):
            end += 1
        while _is_blank(lines[end - 1]):
            end -= 1
        head: list[str] = []
        apart = section == "policies"
    else:
        if section in expected:
            at = document.line((section,)) - 1
            del lines[at]
        while lines and not lines[-1].strip():
            lines.pop()
        end, margin, head, apart = len(lines), 2, ["\n", f"{section}:\n"], False
    new: list[str] = []
    if isinstance(entries, dict):
        expected[section] = {**(expected.get(section) or {}), **entries}
        for name, value in entries.items():
            new.append(f"{' ' * margin}{_flow({name: value})[1:-1]}\n")
    else:
        expected[section] = [*(expected.get(section) or []), *entries]
        for number, entry in enumerate(entries):
            new += ["\n"] if apart or (section == "policies" and number) else []
            new += _entry(entry, " " * margin)
    return _check_edited("".join([*lines[:end], *head, *new, *lines[end:]]), file, expected)


def _goes_on(line: str, margin: int) -> bool:
    """Whether a line at the margin of a section is another entry of it, and not the next section."""
    return _indent(line) == margin and (margin > 0 or line.startswith("- "))


def _entry(entry: Mapping[str, Any], margin: str) -> list[str]:
    """Return the lines of an entry of a list, each key on a line of its own, and each item of a long list."""
    lines: list[str] = []
    for key, value in entry.items():
        start = f"{margin}{'  ' if lines else '- '}"
        flow = _flow({key: value})[1:-1]
        if len(start) + len(flow) <= WIDTH or not (isinstance(value, list) and value):
            lines.append(f"{start}{flow}\n")
        else:
            lines.append(f"{start}{_flow(key)}:\n")
            lines += [f"{margin}    - {_flow(one)}\n" for one in value]
    return lines


def _flow(value: object) -> str:
    """Return a value on one line."""
    written = yaml.dump(
        value, Dumper=_Written, default_flow_style=True, width=10**9, allow_unicode=True, sort_keys=False
    )
    return written.removesuffix("...\n").rstrip("\n")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_blank(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _check_edited(text: str, file: str, expected: object) -> str:
    """Return the text if it says what it has to. Raises Faults."""
    try:
        data = parse_document(text, file).data
    except Faults:
        data = None
    if data != expected:
        raise Faults([f"{file}: cannot be edited in place; edit it by hand"])
    return text
