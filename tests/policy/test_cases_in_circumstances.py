"""Cases ask at a time, from an address, with tags and roles, and for explanations."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import Faults
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs

RULES = Path(__file__).parents[2] / "rules"
DEFINITIONS = load_service_defs(
    {p.name: p.read_text(encoding="utf-8") for p in sorted((RULES / "service_defs").iterdir())}
)
PACK = """
people: {ann: {groups: [g]}}
roles: {reader: {users: [rita]}}
policies:
  - name: office hours
    on: {catalog: c, database: d, table: t, column: [a, b]}
    validity: {repeats: {weekdays: mon-fri, at: "09:00", for: 8h}}
    conditions: {ip-range: ["10.1.*"]}
    allow: [{groups: [g], access: [select]}]
  - name: readers
    on: {catalog: c, database: d, table: t, column: c}
    allow: [{roles: [reader], access: [select]}]
  - name: delegates
    on: {catalog: c}
    allow: [{users: [boss], delegate_admin: true}]
  - name: together
    on: {catalog: c, database: d, table: t, column: "*"}
    deny: [{groups: [public], access: [select], conditions: {accessed-together: [d.t.a, d.t.b]}}]
  - name: by action
    on: {catalog: c, database: d, table: t, column: x}
    allow: [{groups: [g], access: [select], conditions: {action: [QUERY]}}]
  - name: secret
    on: {tag: SECRET}
    deny: [{groups: [public], access: [select], when: TAG.level == '9'}]
cases:
"""
A = "on: {catalog: c, database: d, table: t, column: a}"
C = "on: {catalog: c, database: d, table: t, column: c}"
X = "on: {catalog: c, database: d, table: t, column: x}"
OFFICE = "at: 2026-11-20 10:00, from: 10.1.2.3"


def told(case: str) -> list[str]:
    try:
        load_packs({"p.yaml": f"{PACK}  - {{{case}}}\n"}, DEFINITIONS)
    except Faults as error:
        return list(error.faults)
    return []


@pytest.mark.parametrize(
    "case",
    [
        f"as: ann, {A}, {OFFICE}, expect: allow",
        f"as: ann, wants: SELECT, {A}, {OFFICE}, expect: allow",
        f"as: ann, {A}, at: '2026-11-20 18:00+01:00', from: 10.1.2.3, expect: allow",
        f"as: ann, {A}, at: '2026-11-20T10:00:00Z', from: 10.1.2.3, expect: allow",
        f"as: ann, {A}, at: 2026-11-21, from: 10.1.2.3, expect: deny",
        f"as: ann, {A}, at: 2026-11-20 10:00, from: 10.2.2.3, expect: deny",
        f"as: ann, {A}, from: 10.1.2.3, expect: deny",
        f"as: ann, {A}, {OFFICE}, together: [d.t.a, D.T.B], expect: {{effect: deny, policy: together}}",
        f"as: ann, {A}, {OFFICE}, together: [d.t.a], expect: allow",
        f"as: ann, {A}, {OFFICE}, tags: [{{tag: SECRET, attributes: {{level: '9'}}}}], "
        "expect: {effect: deny, policy: secret}",
        f"as: ann, {A}, {OFFICE}, tags: [{{tag: SECRET, attributes: {{level: '8'}}}}], expect: allow",
        f"as: ann, {A}, {OFFICE}, tags: OTHER, expect: allow",
        f"as: {{user: rita}}, {C}, expect: allow",
        f"as: {{user: eve, roles: [reader]}}, {C}, expect: allow",
        f"as: ann, {C}, roles: [reader], expect: {{effect: allow, policy: readers}}",
        f"as: {{user: rita}}, {C}, roles: [other], expect: deny",
        f"as: ann, {X}, context: {{action: query}}, expect: allow",
        f"as: ann, {X}, context: {{action: INSERT}}, expect: deny",
        "as: {user: boss}, wants: _admin, on: {catalog: c}, expect: {effect: allow, policy: delegates}",
        "as: ann, wants: _admin, on: {catalog: c}, expect: deny",
        f"as: ann, {A}, at: 2026-11-20 20:00, expect: {{effect: deny, explanation: office hours}}",
        f"as: ann, {C}, {OFFICE}, expect: {{explanation: ['readers:', office hours]}}",
    ],
)
def test_cases_that_hold(case: str) -> None:
    assert told(case) == []


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (f"as: ann, {A}, at: noon, expect: allow", "`at` must be a time such as `2026-01-31 09:30`"),
        (f"as: ann, {A}, at: 2026-02-30, expect: allow", "`at` must be a time"),
        (f"as: ann, {A}, {OFFICE}, expect: deny", "expected deny, got allow by policy `office hours`"),
        (
            f"as: ann, {A}, form: 10.1.2.3, expect: deny",
            "unknown key `form` in a case (did you mean `from`?)",
        ),
        (f"as: ann, {A}, from: 10, expect: deny", "`from` must be a text"),
        (f"as: ann, {A}, context: {{actoin: x}}, expect: deny", "(did you mean `action`?)"),
        (f"as: ann, {A}, tags: [{{name: x}}], expect: deny", "unknown key `name` in a tag"),
        (
            f"as: ann, {A}, {OFFICE}, expect: {{explanation: because I say so}}",
            "the explanation does not contain `because I say so`: ",
        ),
        (f"as: ann, {A}, expect: {{explanation: [1]}}", "`explanation` must contain texts"),
        (f"as: ann, wants: _admn, {A}, expect: deny", "(did you mean `_admin`?)"),
    ],
)
def test_cases_that_are_at_fault(case: str, expected: str) -> None:
    found = told(case)
    line = PACK.count("\n") + 1
    assert any(f.startswith(f"p.yaml:{line}: ") and expected in f for f in found), found


def test_a_case_of_a_service_without_catalogs_asks_that_service() -> None:
    pack = """
service: hive
policies:
  - name: h
    on: {database: d, table: t, column: "*"}
    allow: [{groups: [public], access: [select]}]
  - name: m
    on: {database: d, table: t, column: x}
    mask: [{groups: [public], type: MASK_NULL}]
  - name: f
    on: {database: d, table: t}
    filter: [{groups: [public], where: "a = {USER}"}]
cases:
  - {as: {user: a}, on: {database: d, table: t, column: x}, expect: {effect: allow, policy: h}}
  - {as: {user: a}, on: {database: d, table: t, column: x}, expect: {mask: MASK_NULL, filter: "a = 'a'"}}
  - {as: {user: a}, on: {database: e, table: t, column: x}, expect: deny}
"""
    assert load_packs({"h.yaml": pack}, DEFINITIONS).services["hive"].policies
