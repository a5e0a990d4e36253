"""Each cell of a matrix is what the engine decides."""

from __future__ import annotations

from gateway.model.context import NO_CONTEXT
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.policy.matrix import build_matrix
from tests.policy.offices import BOB, CUSTOMER, offices


def test_cells_say_who_may_what() -> None:
    people = [("group", "sales"), ("role", "lead"), ("user", "bob"), ("user", "sue")]
    resources = [CUSTOMER, CUSTOMER.child("column", "email"), CUSTOMER.child("column", "card")]
    known = {"bob": BOB, "sue": Principal(user="sue")}
    rows = build_matrix(offices(), people, resources, "select", NO_CONTEXT, find_person=known.get)
    told = {
        row.name: [(cell.extent, cell.policy, cell.masked, cell.filtered) for cell in row.cells]
        for row in rows
    }
    denied = ("none", "no cards", "", False)
    assert told["sales"] == [
        ("all", "sales read", "", False),
        ("all", "sales read", "MASK_HASH", False),
        denied,
    ]
    assert told["bob"][0] == ("all", "sales read", "", True)
    assert told["lead"][1] == ("all", "sales read", "", False)
    assert {cell[0] for cell in told["sue"]} == {"none"}


def test_a_database_is_had_in_part() -> None:
    [row] = build_matrix(
        offices(),
        [("user", "vic")],
        [Resource.database("c", "vault"), Resource.catalog("c")],
        "select",
        NO_CONTEXT,
    )
    assert [cell.extent for cell in row.cells] == ["all", "some"]
