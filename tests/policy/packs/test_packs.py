"""Packs: what loads, what is refused with which words on which line, and that cases decide."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import Faults
from gateway.model.policy import PolicySet, PolicyType
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.pipeline.policy_reading import texts_of
from gateway.policy.engine import Engine, engine_for
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs

RULES = Path(__file__).parents[3] / "rules"
DEFINITIONS = load_service_defs(
    {p.name: p.read_text(encoding="utf-8") for p in sorted((RULES / "service_defs").iterdir())}
)
TABLE = "{catalog: c, database: d, table: t}"
COLUMN = '{catalog: c, database: d, table: t, column: "*"}'


def load(text: str, **others: str) -> PolicySet:
    texts = {"p.yaml": text} | {f"{name}.yaml": other for name, other in others.items()}
    return load_packs(texts, DEFINITIONS, 7)


def faults(text: str, **others: str) -> list[str]:
    with pytest.raises(Faults) as caught:
        load(text, **others)
    return list(caught.value.faults)


def policy(body: str) -> str:
    """Return a pack of one policy whose further lines are `body`, the first of them being line 3."""
    lines = "\n".join("    " + line for line in body.splitlines())
    return f"policies:\n  - name: p\n{lines}\n"


def test_the_shipped_rules_load_and_their_cases_hold() -> None:
    packs = {p.name: p.read_text(encoding="utf-8") for p in sorted((RULES / "policies").iterdir())}
    found = load_packs(packs, DEFINITIONS, 1)
    assert len(list(found.policies())) >= 15
    assert {p.type for p in found.policies()} == set(PolicyType)


def test_a_mask_type_shows_what_its_transformer_says_that_is_sql() -> None:
    text = (RULES / "service_defs" / "spark.yaml").read_text(encoding="utf-8")
    rows = "    - {name: MASK, label: Redact}\n"
    assert rows in text
    more = "".join(
        f'    - {{name: {name}, transformer: "{transformer}"}}\n'
        for name, transformer in (
            ("INITIAL", "left({col}, 1)"),
            ("LAST_2", "mask_show_last_n({col}, 2)"),
            ("OWN", "concat({USER.team}, 'x')"),
            ("HALF", "left({col} 1)"),
        )
    )
    definitions = load_service_defs({"spark.yaml": text.replace(rows, rows + more)})
    column = Resource((("catalog", "c"), ("database", "d"), ("table", "t"), ("column", "x")))

    def loaded(name: str) -> PolicySet:
        pack = policy(f"on: {COLUMN}\nmask: [{{groups: [public], type: {name}}}]")
        return load_packs({"p.yaml": pack}, definitions, 1)

    def shown(name: str) -> str:
        ann = Principal(user="ann", attributes=(("team", "blue"),))
        mask = engine_for(loaded(name)).mask(ann, column, "string")
        assert mask is not None
        return mask.expression

    assert "TRY_CAST((left(`x`, 1)) AS STRING)" in shown("INITIAL")
    assert "TRY_CAST((concat('blue', 'x')) AS STRING)" in shown("OWN")
    assert "SUBSTRING(`x` FROM -2)" in shown("LAST_2")
    # Spark's parser reads it first, as the text of a custom mask.
    ((place, read),) = texts_of(loaded("HALF").policies())
    assert (str(place), read) == ("p.yaml:4", ("left(`c` 1)", "mask"))
    assert list(texts_of(loaded("LAST_2").policies())) == []
    assert faults(policy(f"on: {COLUMN}\nmask: [{{groups: [public], type: INITIAL}}]"))


def test_a_pack_becomes_policies() -> None:
    found = load(
        f"""
roles:
  payroll: {{users: [pam], groups: hr, roles: [clerks]}}
  clerks: {{users: [cleo]}}
policies:
  - name: readers
    description: who reads
    id: 20
    priority: override
    audited: false
    on: {{catalog: c, database: [d, e], table: {{except: [x, "tmp_*"]}}, column: "*"}}
    allow:
      - {{groups: [public], access: SELECT}}
      - {{roles: [payroll], users: ["{{USER}}"], access: [insert, Delete]}}
    allow_exceptions: [{{users: [tmp], access: [select]}}]
  - name: masks
    enabled: false
    on: {COLUMN}
    mask:
      - {{groups: [hr], type: MASK_NONE}}
      - {{groups: [public], type: CUSTOM, show: "upper({{col}})", predicate: deny}}
  - name: rows
    on:
      - {TABLE}
      - {{catalog: c, database: e, table: t}}
    filter: [{{groups: [public], where: " region = {{USER.region}} "}}]
  - name: paths
    on: {{url: {{values: ["s3://b/in"], recursive: true}}}}
    deny: [{{groups: [public], access: [read]}}]
    deny_exceptions: [{{groups: [ops], access: [read]}}]
"""
    )
    assert found.version == 7
    assert [(p.id, p.name, p.type.name) for p in found.policies()] == [
        (20, "readers", "ACCESS"),
        (1, "masks", "MASK"),
        (2, "rows", "ROW_FILTER"),
        (3, "paths", "ACCESS"),
    ]
    readers, masks, rows, paths = found.policies()
    assert readers.priority == 1
    assert not readers.audited
    assert str(readers.place) == "p.yaml:6"
    assert readers.resources["database"].values == ("d", "e")
    assert readers.resources["table"].excludes
    assert readers.allow[0].accesses == {"select"}
    assert readers.allow[1].accesses == {"insert", "delete"}
    assert readers.allow[1].users == {"{USER}"}
    assert readers.allow_exceptions[0].users == {"tmp"}
    assert not masks.enabled
    assert masks.masks[1].value_expression == "upper({col})"
    assert masks.masks[1].predicate == "deny"
    assert masks.masks[1].accesses == {"select"}
    assert rows.additional_resources[0]["database"].values == ("e",)
    assert rows.filters[0].filter_expression == "region = {USER.region}"
    assert paths.resources["url"].recursive
    assert {role.name: role.groups for role in found.roles} == {
        "payroll": {"hr"},
        "clerks": frozenset(),
    }
    assert [(str(place), text, kind) for place, (text, kind) in texts_of(found.policies())] == [
        ("p.yaml:21", "upper(`c`)", "mask"),
        ("p.yaml:26", "region = 'x'", "filter"),
    ]


def test_ids_stay_when_packs_are_added_behind() -> None:
    one = policy(f"on: {TABLE}\nfilter: [{{groups: [public], where: a}}]")
    alone, both = load(one), load(one, z=one.replace("name: p", "name: q"))
    assert [p.id for p in alone.policies()] == [1]
    assert [p.id for p in both.policies()] == [1, 2]


def test_all_faults_of_all_packs_are_told_at_once() -> None:
    found = faults(
        "polices: []\nroles: {r: {}}\n",
        a="policies: [}",
        b=policy(f"on: {COLUMN}\nallow: [{{users: [a], access: [selekt]}}]"),
    )
    assert found[0].startswith("a.yaml:1: not YAML")
    assert found[1:] == [
        "b.yaml:4: unknown access type `selekt` (did you mean `select`?)",
        "p.yaml:1: unknown key `polices` in a pack (did you mean `policies`?)",
        "p.yaml:2: role `r` has no members",
    ]


ALLOW = "allow: [{users: [a], access: [select]}]"
MASK = "mask: [{groups: [public], type: MASK}]"
FILTER = "filter: [{groups: [public], where: x}]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", "1: a pack must be a mapping with `policies`"),
        ("service: sparc\n", "1: service `sparc` does not exist (did you mean `spark`?)"),
        ("service: [spark]\n", "1: service"),
        ("policies: {}\n", "1: `policies` must be a list"),
        ("policies: [a]\n", "1: a mapping (`key: value`) is expected here"),
        ("policies: [{}]\n", "1: a policy must not be empty"),
        (policy(f"on: {COLUMN}"), "2: policy `p` needs one of `allow`, `deny`, `mask`, `filter`"),
        (policy(f"on: {COLUMN}\n{ALLOW}\n{MASK}"), "2: policy `p` needs only one kind of items"),
        (policy(ALLOW), "2: `on` is missing: which resources does the policy cover?"),
        (policy(f"on: {{}}\n{ALLOW}"), "3: `on` must name at least one level"),
        (
            policy(f"on: {{catalogue: c}}\n{ALLOW}"),
            "3: unknown level `catalogue` (did you mean `catalog`?)",
        ),
        (policy(f"on: {{catalog: c, table: t}}\n{ALLOW}"), "3: `table` needs `database` as well"),
        (
            policy(f"on: {{catalog: c, database: d, table: t, udf: f}}\n{ALLOW}"),
            "exclude each other in one resource",
        ),
        (
            policy(f"on: {{catalog: c, database: d, table: t, column: []}}\n{ALLOW}"),
            "3: `column` must not be empty",
        ),
        (
            policy(f"on: {{catalog: c, database: d, table: t, column: ''}}\n{ALLOW}"),
            "must not contain an empty text",
        ),
        (policy(f"on: {{catalog: c, database: d, table: 7, column: x}}\n{ALLOW}"), "put `7` in quotes"),
        (
            policy(f"on: {{catalog: c, database: d, table: true, column: x}}\n{ALLOW}"),
            "put `true` in quotes",
        ),
        (
            policy(f"on: {{catalog: c, database: d, table: t, column: {{except: ['*']}}}}\n{ALLOW}"),
            "excludes everything",
        ),
        (
            policy(
                f"on: {{catalog: c, database: d, table: t, column: {{values: [a], except: [b]}}}}\n{ALLOW}"
            ),
            "either",
        ),
        (
            policy(f"on: {{catalog: {{values: c, recursive: true}}}}\n{ALLOW}"),
            "`catalog` does not support `recursive`",
        ),
        (
            policy(f'on: {{catalog: c, database: "u_{{GROUP}}", table: t, column: x}}\n{ALLOW}'),
            "unknown token `{GROUP}`",
        ),
        (
            policy(f'on: {{catalog: c, database: "u_${{{{eval(1)}}}}", table: t, column: x}}\n{ALLOW}'),
            "3: script: `eval(1)` is not",
        ),
        (policy("on: {url: /tmp/x}\nallow: [{users: [a], access: [read]}]"), "`/tmp/x` needs a scheme"),
        (policy(f"on: {TABLE}\n{ALLOW}"), '3: select needs columns; add column: "*"'),
        (
            policy("on: {catalog: c, database: d}\ndeny: [{users: [a], access: [all]}]"),
            'add table: "*", column: "*"',
        ),
        (
            policy("on: {catalog: c}\nallow: [{users: [a], access: [use]}]\ndeny_all_else: true"),
            "a denial here",
        ),
        (policy(f"on: {TABLE}\n{MASK}"), "3: a mask needs a `column`"),
        (policy(f"on: {{catalog: c, database: d}}\n{FILTER}"), "3: a row filter needs a `table`"),
        (policy(f"on: {COLUMN}\n{FILTER}"), "3: unknown level `column`"),
        (policy(f"on: {COLUMN}\nallow: []"), "4: `allow` must not be empty"),
        (
            policy(f"on: {COLUMN}\nallow: [{{access: [select]}}]"),
            "4: an item needs `users`, `groups` or `roles`",
        ),
        (policy(f"on: {COLUMN}\nallow: [{{users: [], access: [select]}}]"), "4: `users` must not be empty"),
        (policy(f"on: {COLUMN}\nallow: [{{users: [a]}}]"), "4: an item needs `access`"),
        (
            policy(f"on: {COLUMN}\nallow: [{{user: [a], access: [select]}}]"),
            "unknown key `user` in an item (did you mean `users`?)",
        ),
        (policy(f"on: {COLUMN}\nallow: [{{users: [1], access: [select]}}]"), "`users` must contain texts"),
        (
            policy(f"on: {COLUMN}\n{ALLOW}\ndeny_exceptions: [{{users: [b], access: [select]}}]"),
            "5: `deny_exceptions` without `deny`",
        ),
        (
            policy(f"on: {COLUMN}\ndeny_exceptions: [{{users: [b], access: [select]}}]"),
            "neither allows nor denies anything",
        ),
        (
            policy(f"on: {COLUMN}\ndeny: [{{users: [b], access: [select]}}]\ndeny_all_else: true"),
            "exclude each other",
        ),
        (policy(f"on: {COLUMN}\n{ALLOW}\npriority: high"), "5: `priority` must be `normal` or `override`"),
        (policy(f"on: {COLUMN}\n{ALLOW}\nenabled: 'yes'"), "5: `enabled` must be true or false"),
        (policy(f"on: {COLUMN}\n{ALLOW}\nid: 0"), "5: `id` must be a whole number from 1"),
        (policy(f"on: {COLUMN}\n{ALLOW}\nid: true"), "5: `id` must be a whole number from 1"),
        (
            policy(f"on: {COLUMN}\n{ALLOW}\nconditions: [ip-rnge]"),
            "5: unknown condition type `ip-rnge` (did you mean `ip-range`?)",
        ),
        (policy(f"on: {COLUMN}\n{ALLOW}\nvalidity: x"), "5: a mapping (`key: value`) is expected here"),
        (
            policy(f"on: {COLUMN}\n{ALLOW}\ntags: [pii]"),
            "5: unknown key `tags` in a policy; resources are tagged",
        ),
        (policy(f"on: {COLUMN}\n{ALLOW}\nzone: z"), "5: zone `z` does not exist"),
        (
            policy(f"on: {COLUMN}\nallow: [{{users: [a], access: [select], conditions: [x]}}]"),
            "4: unknown condition type `x`",
        ),
        (
            policy(f"on: {COLUMN}\nmask: [{{groups: [public], type: MASK_HASHED}}]"),
            "unknown mask type `MASK_HASHED` (did you mean `MASK_HASH`?)",
        ),
        (
            policy(f"on: {COLUMN}\nmask: [{{groups: [public], type: mask}}]"),
            "unknown mask type `mask` (did you mean `MASK`?)",
        ),
        (policy(f"on: {COLUMN}\nmask: [{{groups: [public]}}]"), "4: `type` is missing"),
        (
            policy(f"on: {COLUMN}\nmask: [{{groups: [public], type: CUSTOM}}]"),
            "mask type `CUSTOM` needs `show`",
        ),
        (
            policy(f"on: {COLUMN}\nmask: [{{groups: [public], type: MASK, show: x}}]"),
            "mask type `MASK` takes no `show`",
        ),
        (
            policy(f"on: {COLUMN}\nmask: [{{groups: [public], type: MASK, predicate: raw}}]"),
            "`predicate` must be",
        ),
        (
            policy(f"on: {COLUMN}\nmask: [{{groups: [public], type: MASK, access: [insert]}}]"),
            "unknown access type `insert`",
        ),
        (policy(f"on: {TABLE}\nfilter: [{{groups: [public]}}]"), "4: `where` must be a text"),
        (policy(f"on: {TABLE}\nfilter: [{{groups: [public], where: 1}}]"), "4: `where` must be a text"),
        ("roles: {a: {roles: [b]}}\n", "role `b` does not exist"),
        ("people: {a: {group: [x]}}\n", "unknown key `group` in a person (did you mean `groups`?)"),
    ],
)
def test_a_fault_is_told_with_its_line(text: str, expected: str) -> None:
    found = faults(text)
    line, _, words = expected.partition(": ")
    if line.isdigit():
        assert any(f.startswith(f"p.yaml:{line}: ") and words in f for f in found), found
    else:
        assert any(expected in f for f in found), found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1 -- x", "comments"),
        ("a = 1 /* x */", "comments"),
        ("a = 1; DROP TABLE t", "a semicolon"),
        ("a = '${x}'", "must not contain `${`"),
        ("a = ${x}", "must not contain `${`"),
        ("a = 'x", "is not closed"),
        ('a = "x', "is not closed"),
        ("a = `x", "is not closed"),
        ("a = 'x\\'", "is not closed"),
        ("a = \\x", "a backslash outside quotes"),
        ("a = $$x$$", "`$`"),
        ("a = ?", "parameters"),
        ("a = r'x'", "raw strings"),
        ('a = R"x"', "raw strings"),
        ("a = '{USER}'", "is inside quotes"),
        ("`${{USER.region}}` = 1", "is inside a quoted name"),
        ("a = 'x\\n${{USER.region}}'", "must not contain a backslash"),
        ("a = ${{USER.region", "must not contain `${`"),
        ("a = ${{eval('1')}}", "`eval('1')` is not a name that scripts know"),
        ("a = {USR}", "unknown token `{USR}` (did you mean `{USER}`?)"),
        ("a = {col}", "is allowed in a custom mask only"),
        ("a = 'x' {USER}", "would concatenate the two"),
        ("a = {USER} {USER.x}", "would concatenate the two"),
        ("a = {USER}'x'", "would concatenate the two"),
        ("a = x{USER}", "adjacent to a name"),
        ("a = {USER}x", "adjacent to a name"),
        ("a = t.{USER}", "adjacent to a name"),
        ("a = 'x\x01'", "control characters"),
        ("a = '" + "x" * 20_000 + "'", "longer than"),
    ],
)
def test_filter_texts_that_are_refused(text: str, expected: str) -> None:
    written = text.replace("\\", "\\\\").replace('"', '\\"').replace("\x01", "\\x01")
    found = faults(policy(f'on: {TABLE}\nfilter: [{{groups: [public], where: "{written}"}}]'))
    assert any(f.startswith("p.yaml:4: ") and expected in f for f in found), found


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("a = {USER}", "a = 'ann'"),
        ("a in ({USER}, 'x', {USER.dept})", "a in ('ann', 'x', CAST(X'6F2778' AS STRING))"),
        (
            "a = ${{USER.dept}} and b = 'it''s {x} -- ;'",
            "a = CAST(X'6F2778' AS STRING) and b = 'it''s {x} -- ;'",
        ),
        ("a = concat('x', {USER})", "a = concat('x', 'ann')"),
        ("`{USER}` = 1", None),
        ("a = {USER.nothing}", "FALSE"),
        ("a = 'x-${{USER._name}}'", "a = 'x-ann'"),
        ("a in (${{GET_USER_ATTR_Q('dept')}})", "a in (CAST(X'6F2778' AS STRING))"),
        ("a in (${{GET_USER_ATTR_Q('nothing')}})", "a in (NULL)"),
        ("exists (select 1 from c.d.m where m.u = {USER})", "exists (select 1 from c.d.m where m.u = 'ann')"),
    ],
)
def test_filter_texts_that_are_bound(text: str, bound: str | None) -> None:
    pack = policy(f"on: {TABLE}\nfilter:\n  - groups: [public]\n    where: |-\n      {text}")
    if bound is None:
        assert "is inside quotes" in faults(pack)[0]
        return
    ann = Principal(user="ann", attributes=(("dept", "o'x"),))
    row_filter = Engine(load(pack)).row_filter(ann, Resource.table("c", "d", "t"))
    assert row_filter is not None
    assert row_filter.expression == bound


def test_names_and_ids_are_taken_once() -> None:
    one = policy(f"on: {TABLE}\n{FILTER}\nid: 3")
    assert faults(one, z=one) == [
        "z.yaml:2: policy `p` already exists (p.yaml:2)",
        "z.yaml:5: id 3 is already used (p.yaml:2)",
    ]
    assert faults("roles: {r: {users: [a]}}\n", z="roles: {r: {users: [b]}}\n") == [
        "z.yaml:1: role `r` already exists"
    ]


CASES = f"""
people: {{ann: {{groups: [hr], attributes: {{region: EMEA}}}}}}
policies:
  - name: p
    on: {COLUMN}
    allow: [{{groups: [hr], access: [select]}}]
  - name: m
    on: {{catalog: c, database: d, table: t, column: pay}}
    mask: [{{groups: [public], type: MASK_NULL}}]
  - name: f
    on: {TABLE}
    filter: [{{groups: [public], where: "r = {{USER.region}}"}}]
cases:
"""


@pytest.mark.parametrize(
    ("case", "failure"),
    [
        ("{as: ann, on: {catalog: c, database: d, table: t, column: x}, expect: allow}", None),
        (
            "{as: ann, on: {catalog: c, database: d, table: t}, expect: {filter: \"r = 'EMEA'\", policy: f}}",
            None,
        ),
        (
            "{as: ann, on: {catalog: c, database: d, table: t, column: pay}, type: int, "
            "expect: {mask: MASK_NULL, policy: m}}",
            None,
        ),
        (
            "{as: ann, on: {catalog: c, database: d, table: t, column: x}, "
            "expect: {mask: none, visible: true}}",
            None,
        ),
        (
            "{as: ann, wants: Select, on: {catalog: c, database: d, table: t, column: x}, "
            "expect: {policy: p}}",
            None,
        ),
        ("{as: {user: eve}, on: {catalog: c, database: d, table: t, column: x}, expect: deny}", None),
        (
            "{as: ann, on: {catalog: c, database: d, table: t, column: x}, expect: deny}",
            "expected deny, got allow by policy `p`",
        ),
        (
            "{as: {user: eve}, on: {catalog: c, database: d, table: t}, expect: allow}",
            "expected allow, got deny (no policy",
        ),
        (
            "{as: ann, on: {catalog: c, database: d, table: t, column: pay}, expect: {mask: none}}",
            "expected mask none, got MASK_NULL",
        ),
        (
            "{as: ann, on: {catalog: c, database: d, table: t, column: pay}, expect: {shows: x}}",
            "expected to show x, got CASE",
        ),
        (
            "{as: ann, on: {catalog: c, database: d, table: t}, expect: {filter: none}}",
            "expected filter none, got r = 'EMEA'",
        ),
        (
            "{as: ann, on: {catalog: c, database: d, table: t}, expect: {policy: q}}",
            "expected policy `q`, settled by `p`",
        ),
        ("{as: ann, on: {catalog: c, database: d}, expect: {visible: false}}", "expected visible false"),
        ("{as: amy, on: {catalog: c, database: d, table: t}, expect: allow}", "unknown user `amy`"),
        ("{as: ann, on: {catalog: c, database: d, table: t}}", "a mapping (`key: value`) is expected here"),
        ("{as: ann, on: {catalog: c, database: d, table: t}, expect: {}}", "a case needs an expectation"),
        (
            "{as: ann, on: {catalog: c, database: d, table: t}, expect: permit}",
            "`effect` must be `allow` or `deny`",
        ),
        ("{as: ann, on: {catalog: c, table: t}, expect: allow}", "do not form a path from the root"),
        (
            "{as: ann, on: {catalog: c, tabel: t}, expect: allow}",
            "unknown level `tabel` (did you mean `table`?)",
        ),
        ("{as: ann, on: {catalog: c}, wants: fly, expect: allow}", "unknown access type `fly`"),
        ("{as: ann, on: {catalog: c}, expect: {mask: MASK}}", "a mask needs a column"),
        ("{as: ann, on: {catalog: c}, expect: {mask: MSK}}", "unknown mask type `MSK`"),
        (
            "{as: ann, on: {catalog: c}, expects: allow}",
            "unknown key `expects` in a case (did you mean `expect`?)",
        ),
    ],
)
def test_cases(case: str, failure: str | None) -> None:
    pack = f"{CASES}  - {case}\n"
    if failure is None:
        load(pack)
    else:
        found = faults(pack)
        assert any(f.startswith("p.yaml:14: ") and failure in f for f in found), found


def test_a_case_may_name_people_of_the_directory() -> None:
    pack = f"{CASES}  - {{as: dan, on: {{catalog: c, database: d, table: t}}, expect: allow}}\n"
    people = {"dan": Principal(user="dan", groups=frozenset({"hr"}))}
    load_packs({"p.yaml": pack}, DEFINITIONS, people=people)
    with pytest.raises(Faults):
        load_packs({"p.yaml": pack}, DEFINITIONS)


def test_catalogs_of_services_that_do_not_exist() -> None:
    with pytest.raises(Faults) as caught:
        load_packs({}, DEFINITIONS, catalog_services={"c": "hvie"})
    assert caught.value.faults == ("catalogs: service `hvie` does not exist (did you mean `hive`?)",)


def test_no_packs_deny_everything() -> None:
    engine = engine_for(load_packs({}, DEFINITIONS))
    request = AccessRequest(principal=Principal(user="root"), resource=Resource.catalog("c"), access="use")
    assert not engine.decide(request).allowed


def test_an_engine_is_kept_as_long_as_its_policies() -> None:
    found = load("policies: []\n")
    assert engine_for(found) is engine_for(found)
    assert engine_for(load("policies: []\n")) is not engine_for(found)
