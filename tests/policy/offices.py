"""A small company's policies, for tests of what pages show of them."""

from __future__ import annotations

from functools import cache

from gateway.model.catalog import Column
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.policy.packs import load_packs
from tests.policy.scenarios import definitions

PACK = """
service: spark
roles:
  lead: {users: [lea]}
tags:
  - on: {catalog: c, database: sales, table: customer, column: card}
    tags: [PCI]
zones:
  vault:
    on: {catalog: c, database: vault}
policies:
  - name: sales read
    description: everybody in sales reads
    on: {catalog: c, database: sales, table: "*", column: "*"}
    allow:
      - {groups: [sales], access: [select]}
      - {roles: [lead], access: [all], delegate_admin: true}
  - name: customer emails
    on: {catalog: c, database: sales, table: customer, column: email}
    mask:
      - {groups: [sales], type: MASK_HASH}
  - name: customers of the region
    on: {catalog: c, database: sales, table: customer}
    filter:
      - {users: [bob], where: "region = 'north'"}
  - name: no cards
    on: {tag: PCI}
    deny:
      - {groups: [public], access: [select]}
    deny_exceptions:
      - {users: [carol], access: [select]}
  - name: summer help
    on: {catalog: c, database: hr, table: staff, column: "*"}
    validity: [{from: 2026-06-01, until: 2026-08-31}]
    allow:
      - {users: [sue], access: [select]}
  - name: vault only
    zone: vault
    on: {catalog: c, database: vault, table: "*", column: "*"}
    allow:
      - {users: [vic], access: [select]}
cases:
  - as: {user: bob, groups: [sales]}
    wants: select
    on: {catalog: c, database: sales, table: customer, column: name}
    expect: {effect: allow, policy: sales read}
"""
ANN = Principal(user="ann", groups=frozenset({"sales"}))
BOB = Principal(user="bob", groups=frozenset({"sales"}))
CAROL = Principal(user="carol", groups=frozenset({"sales"}))
LEA = Principal(user="lea")
SUE = Principal(user="sue")
VIC = Principal(user="vic")
CUSTOMER = Resource.table("c", "sales", "customer")
COLUMNS = tuple(Column(name=name, type="string") for name in ("name", "email", "card", "region"))


@cache
def offices() -> PolicySet:
    """Return the policies, compiled once."""
    return load_packs({"offices.yaml": PACK}, definitions(), catalog_services={"c": "spark"})
