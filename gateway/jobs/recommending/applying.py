"""What a recommendation does to a pack: only what was thought of, and as a whole or not at all."""

from __future__ import annotations

import difflib
import fcntl
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.errors import Faults
from gateway.jobs.recommending.attribution import list_policies_about
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.policy.closing import list_opened_tables
from gateway.policy.diff_reports import diff
from gateway.policy.differences import PUBLIC, digest_of
from gateway.policy.diffing import FILTER, GAINED, LOST, MASK, Group
from gateway.policy.engine import DEFAULT_SERVICE


@dataclass(frozen=True, slots=True)
class Edited:
    """A pack with a change made."""

    file: Path
    before: str
    text: str
    diff: str
    """Unified; empty where the pack is so already."""

    def write(self) -> None:
        """Put the new text in the file's place, as a whole or not at all. It stays whose it is, for whom it
        is, and where a link leads. Raises Faults where somebody has changed it meanwhile."""
        file = self.file.resolve()
        beside = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            directory = os.open(file.parent, os.O_RDONLY)
            try:
                fcntl.flock(directory, fcntl.LOCK_EX)
                there = file.read_bytes().decode("utf-8")
                if there.replace("\r\n", "\n") != self.before:
                    raise Faults([f"{self.file}: was changed in the meantime; check the diff again"])
                text = self.text.replace("\n", "\r\n") if "\r\n" in there else self.text
                _write(beside, text.encode("utf-8"), file.stat())
                beside.replace(file)
                os.fsync(directory)
            finally:
                os.close(directory)
        except (OSError, UnicodeDecodeError) as error:
            beside.unlink(missing_ok=True)
            raise Faults([f"{self.file}: cannot be written: {error}"]) from None


def _write(file: Path, data: bytes, like: os.stat_result) -> None:
    """Make a file that belongs to whom another does, and have it on the disk."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(descriptor, like.st_uid, like.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
        os.fsync(descriptor)


def build_edited_pack(file: Path, name: str, before: str, after: str) -> Edited:
    """Return a pack with its change, and the difference."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    told = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    return Edited(file=file, before=before, text=after, diff=told)


def require_as_thought_of(
    old: PolicySet,
    load_new: Callable[[], PolicySet],
    name: str,
    edits: Sequence[Mapping[str, Any]],
    people: Mapping[str, Principal],
) -> None:
    """Raise Faults where the edits of a pack would do something else than was recommended."""
    _require_as_it_was(old, name, edits)
    new = load_new()
    _require_no_more(old, new, people, _list_named_users(edits))
    if any(map(_takes_nothing, edits)):
        _require_no_less(old, new, people)


def _require_as_it_was(policies: PolicySet, name: str, edits: Sequence[Mapping[str, Any]]) -> None:
    """Raise Faults where a policy that is changed is another than when the change was thought of, and where
    one speaks of a table that is closed to somebody which did not then."""
    for edit in edits:
        policy = edit.get("policy")
        denies = isinstance(policy, Mapping) and bool(policy.get("deny"))
        if not denies and not isinstance(policy, str):
            continue
        if "was" not in edit:
            raise Faults(
                [
                    "this was recommended by an older version, which did not record the policies; run "
                    "`sluice jobs run recommend` again"
                ]
            )
        if denies:
            _require_nothing_since(policies, edit)
            continue
        service = policies.services[edit.get("service", DEFAULT_SERVICE)]
        found = (*service.policies, *(service.tags.policies if service.tags is not None else ()))
        told = [digest_of(one) for one in found if (one.name, one.zone) == (policy, edit.get("zone", ""))]
        if told != [edit["was"]]:
            raise Faults(
                [
                    f"{name}: policy `{policy}` has changed since this was recommended; run `sluice jobs "
                    "run recommend` again"
                ]
            )


def _require_nothing_since(policies: PolicySet, edit: Mapping[str, Any]) -> None:
    """Raise Faults where a policy speaks of the tables that are denied and is none of those of then: what it
    grants would go again, as denials come first."""
    on = edit["policy"]["on"]
    tables = [
        Resource.table(one["catalog"], one["database"], one["table"])
        for one in (on if isinstance(on, list) else [on])
    ]
    for digest, policy in list_policies_about(policies, tables).items():
        if digest not in edit["was"]:
            raise Faults(
                [
                    f"policy `{policy.name}` denies something and is new or has changed since this was "
                    "recommended; run `sluice jobs run recommend` again"
                ]
            )


def _list_named_users(edits: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the users that edits put into roles."""
    return frozenset(user for edit in edits if edit["do"] == "add_role" for user in edit["role"]["users"])


def _is_more(group: Group) -> bool:
    """Say whether a change lets somebody see or do more: access, or rows and values that were held back."""
    cause = group.cause
    shown = {MASK: "no mask", FILTER: "every row"}.get(cause.kind)
    return cause.kind == GAINED or (shown == cause.after.says != cause.before.says)


def _require_no_more(
    old: PolicySet, new: PolicySet, people: Mapping[str, Principal], named: frozenset[str]
) -> None:
    """Raise Faults where somebody may do something by the new policies that they may not by the old ones.

    Asked for the people that logins know; where nobody is known, or nobody of a role's, for whoever the
    policies name. Whom they name by a role alone, a stranger, tells nothing of what they may do already.
    """
    if differing := sorted({table for *_, table in list_opened_tables(old) ^ list_opened_tables(new)}):
        raise Faults(
            [
                f"`{differing[0]}` is a table of `files`, which is closed until a policy names it: this "
                "change would open or close it for others as well; edit the pack by hand if that is "
                "intended"
            ]
        )
    known = diff(old, new, people=list(people.values())).groups if people else ()
    gained = [group for group in known if _is_more(group)]
    if not named:
        gained += [group for group in diff(old, new).groups if _is_more(group)]
    elif unknown := sorted(named - people.keys()):
        raise Faults(
            [
                f"`users.file` has no user `{unknown[0]}`, so what they may read is not known: write the "
                "role by hand if it is right"
            ]
        )
    if gained:
        one = gained[0]
        what = f"{one.people[0]} may {one.accesses[0]} more of {one.resources[0][1]}"
        raise Faults(
            [
                f"{what} then, but not now: policies or users have changed since this was recommended; run "
                "`sluice jobs run recommend` again"
            ]
        )


def _takes_nothing(edit: Mapping[str, Any]) -> bool:
    """Say whether an edit is to take nothing from anybody: a policy that decides nothing goes, or what nobody
    may read is closed to all."""
    if edit["do"] == "remove_policy":
        return True
    policy = edit.get("policy")
    denied = policy.get("deny", ()) if isinstance(policy, Mapping) else ()
    return any(PUBLIC in item.get("groups", ()) for item in denied)


def _require_no_less(old: PolicySet, new: PolicySet, people: Mapping[str, Principal]) -> None:
    """Raise Faults where somebody may do less by the new policies, of the people or whomever these name."""
    groups = diff(old, new).groups
    if people:
        groups += diff(old, new, people=list(people.values())).groups
    lost = next((group for group in groups if group.cause.kind == LOST), None)
    if lost is not None:
        what = f"{lost.people[0]} may {lost.accesses[0]} less of {lost.resources[0][1]}"
        raise Faults(
            [
                f"{what} then: policies or users have changed since this was recommended; run `sluice jobs "
                "run recommend` again"
            ]
        )
