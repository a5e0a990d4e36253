"""Failures of validation in Ranger's codes and layout. Every check tells all failures at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.admin.ranger.json_fields import Object

MISSING, INCORRECT = "missing", "semantically incorrect"
NOT_READABLE = 9000
"""Codes of 9000 and more are this gateway's own: what Ranger takes and would not enforce as meant."""
_SHOWN = 64
"""Failures told of one object: nobody reads more."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One broken rule: Ranger's code, what is wrong, and where."""

    code: int
    reason: str
    field: str | None = None
    subfield: str | None = None
    type: str = INCORRECT

    def __str__(self) -> str:
        return (
            f"Validation failure: error code[{self.code}], reason[{self.reason}], "
            f"field[{_quote_text(self.field)}], subfield[{_quote_text(self.subfield)}], type[{self.type}]"
        )


def _quote_text(text: str | None) -> str:
    return "null" if text is None else text


def message(failures: Iterable[Failure]) -> str:
    """Return Ranger's `msgDesc`: one fragment for each failure, numbered from 0."""
    found = list(failures)
    shown = " ".join(f"({i}) {failure}" for i, failure in enumerate(found[:_SHOWN]))
    return shown + (f" … and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")


def messages(failures: Sequence[Failure]) -> list[Object]:
    """Return Ranger's `messageList`."""
    return [
        {
            "name": "INVALID_INPUT_DATA",
            "rbKey": "xa.error.invalid_input_data",
            "message": f"error code[{failure.code}]: {failure.reason}",
            "fieldName": failure.field,
        }
        for failure in failures[:_SHOWN]
    ]


def unreadable(faults: Iterable[str]) -> list[Failure]:
    """Return failures for what `shapes.read` found."""
    return [Failure(NOT_READABLE, fault) for fault in faults]
