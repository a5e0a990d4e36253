"""What packs say beyond plain permissions: conditions, periods, tags, zones, directories, audit."""

from __future__ import annotations

import re
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.errors import Faults
from gateway.model.context import AccessContext
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import ADMIN_ACCESS, AccessRequest, Resource
from gateway.model.tags import Recurrence
from gateway.policy.engine import engine_for
from gateway.policy.packs import load_packs
from gateway.policy.propagation import load_propagation
from gateway.policy.service_defs import load_service_defs
from gateway.sql.functions import ALLOWED_FUNCTIONS

RULES = Path(__file__).parents[3] / "rules"
DEFINITIONS = load_service_defs(
    {p.name: p.read_text(encoding="utf-8") for p in sorted((RULES / "service_defs").iterdir())}
)
COLUMN = '{catalog: c, database: d, table: t, column: "*"}'
X = Resource((("catalog", "c"), ("database", "d"), ("table", "t"), ("column", "x")))


def load(*texts: str) -> PolicySet:
    return load_packs({f"p{i}.yaml": text for i, text in enumerate(texts)}, DEFINITIONS)


def faults(*texts: str) -> list[str]:
    with pytest.raises(Faults) as caught:
        load(*texts)
    return list(caught.value.faults)


def policy(body: str) -> str:
    """Return a pack of one policy whose further lines are `body`, the first of them being line 3."""
    lines = "\n".join("    " + line for line in body.splitlines())
    return f"policies:\n  - name: p\n{lines}\n"


def allowed(
    found: PolicySet,
    user: Principal | str = "ann",
    access: str = "select",
    resource: Resource = X,
    context: AccessContext | None = None,
) -> bool:
    principal = user if isinstance(user, Principal) else Principal(user=user, groups=frozenset({"g"}))
    request = AccessRequest(
        principal=principal, resource=resource, access=access, context=context or AccessContext()
    )
    return engine_for(found).decide(request).allowed


def at(text: str) -> AccessContext:
    return AccessContext(time=datetime.fromisoformat(text).replace(tzinfo=UTC))


ALLOW = "allow: [{groups: [g], access: [select]}]"


# -- conditions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        "conditions: [{type: ip-range, values: ['10.1.*']}]",
        "conditions: [{ip-range: '10.1.*'}]",
        "conditions: {ip-range: ['10.1.*']}",
        "conditions: {type: ip-range, values: '10.1.*'}",
        "when: REQ.clientIPAddress.startsWith('10.1.')",
    ],
)
def test_a_condition_can_be_written_in_several_ways(written: str) -> None:
    found = load(policy(f"on: {COLUMN}\n{written}\n{ALLOW}"))
    assert allowed(found, context=AccessContext(client_ip="10.1.7.7"))
    assert not allowed(found, context=AccessContext(client_ip="10.12.0.1"))
    on_item = load(policy(f"on: {COLUMN}\nallow:\n  - groups: [g]\n    access: [select]\n    {written}"))
    assert allowed(on_item, context=AccessContext(client_ip="10.1.7.7"))
    assert not allowed(on_item, context=AccessContext(client_ip="10.12.0.1"))


def test_all_scripts_of_when_must_hold() -> None:
    found = load(policy(f"on: {COLUMN}\nwhen: [USER.dept == 'hr', IS_IN_GROUP('g')]\n{ALLOW}"))
    hr = Principal(user="a", groups=frozenset({"g"}), attributes=(("dept", "hr"),))
    assert allowed(found, hr)
    assert not allowed(found, Principal(user="a", groups=frozenset({"g"}), attributes=(("dept", "it"),)))


def test_columns_used_together() -> None:
    condition = "conditions: {accessed-together: [d.t.name, d.t.salary]}"
    found = load(
        policy(f"on: {COLUMN}\n{ALLOW}\ndeny:\n  - groups: [public]\n    access: [select]\n    {condition}")
    )
    alone = AccessContext(accessed_together=frozenset({"d.t.name", "d.t.x"}))
    assert allowed(found, context=alone)
    both = AccessContext(accessed_together=frozenset({"d.t.name", "d.t.salary"}))
    assert not allowed(found, context=both)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("conditions: [ip-rnge]", "unknown condition type `ip-rnge` (did you mean `ip-range`?)"),
        ("conditions: {wxyz: [x]}", "unknown condition type `wxyz`; the types are `accessed-together`"),
        ("conditions: [{typ: ip-range}]", "unknown condition type `typ`"),
        ("conditions: [{type: ip-range, value: x}]", "unknown key `value` in a condition"),
        ("conditions: {ip-range: [10.0.0.0/8]}", "`10.0.0.0/8` is not an address"),
        ("conditions: {ip-range: [10.0]}", "must contain texts"),
        ("conditions: {time-of-day: 9-17}", "`time-of-day` is always indeterminate with `9-17`"),
        ("conditions: []", "`conditions` must not be empty"),
        ("when: eval('1')", "`eval('1')` is not a name that scripts know"),
        ("when: java.lang.System.exit(1)", "script: "),
        ("when: ''", "`when` must not contain an empty text"),
    ],
)
def test_conditions_that_are_refused(written: str, expected: str) -> None:
    found = faults(policy(f"on: {COLUMN}\n{written}\n{ALLOW}"))
    assert any(f.startswith("p0.yaml:4: ") and expected in f for f in found), found


# -- validity ------------------------------------------------------------------------------------------------


def test_whole_days_count_from_midnight_to_the_last_second() -> None:
    period = "{from: 2026-01-31, until: 2026/02/01, zone: America/New_York}"
    found = load(policy(f"on: {COLUMN}\nvalidity: {period}\n{ALLOW}"))
    assert not allowed(found, context=at("2026-01-31 04:59:59"))
    assert allowed(found, context=at("2026-01-31 05:00:00"))
    assert allowed(found, context=at("2026-02-02 04:59:59"))
    assert not allowed(found, context=at("2026-02-02 05:00:00"))
    assert not allowed(found), "no time is known"


def test_working_hours() -> None:
    repeats = "{weekdays: mon-fri, at: ['09:00', '20:30'], for: 8h}"
    found = load(policy(f"on: {COLUMN}\nvalidity: {{repeats: {repeats}}}\n{ALLOW}"))
    (one,) = found.services["spark"].policies
    assert one.schedules[0].recurrences == (
        Recurrence(minute="0", hour="9", day_of_month="", day_of_week="2,3,4,5,6", interval_minutes=480),
        Recurrence(minute="30", hour="20", day_of_month="", day_of_week="2,3,4,5,6", interval_minutes=480),
    )
    assert allowed(found, context=at("2026-11-20 17:00:00"))
    assert not allowed(found, context=at("2026-11-20 17:00:01"))
    assert allowed(found, context=at("2026-11-21 04:30:00")), "Friday evening's, until Saturday morning"
    assert not allowed(found, context=at("2026-11-22 12:00:00")), "Sunday"


@pytest.mark.parametrize(
    ("repeats", "expected"),
    [
        ("{days: [1, 15-17], for: 1d}", ("1,15,16,17", "", "*", "*", 1440)),
        ("{weekdays: [sat, sunday], for: 1d 12h}", ("", "1,7", "*", "*", 2160)),
        ("{weekdays: sat-mon, for: 90m}", ("", "1,2,7", "*", "*", 90)),
        ("{months: nov-feb, days: 1, for: 2h 5m}", ("1", "", "1,2,11,12", "*", 125)),
        ("{years: 2026-2027, months: march, for: 1h}", ("*", "", "3", "2026,2027", 60)),
    ],
)
def test_names_and_ranges_of_repeats(repeats: str, expected: tuple[str, str, str, str, int]) -> None:
    found = load(policy(f"on: {COLUMN}\nvalidity: [{{repeats: [{repeats}]}}]\n{ALLOW}"))
    (one,) = found.services["spark"].policies[0].schedules[0].recurrences
    assert (one.day_of_month, one.day_of_week, one.month, one.year, one.interval_minutes) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{}", "a period needs `from`, `until` or `repeats`"),
        ("[]", "`validity` must not be empty"),
        ("{zone: GMT}", "a period needs `from`, `until` or `repeats`"),
        ("{from: soon}", "`from` must be a time such as `2026-01-31`"),
        ("{from: 2026-02-30}", "the time `2026-02-30` does not exist"),
        ("{from: '2026-01-01T00:00:00Z'}", "put the time zone in `zone`"),
        ("{from: 2026-02-01, until: 2026-01-01}", "`from` must lie before `until`"),
        ("{from: 2026-02-01, zone: Europe/Berln}", "unknown time zone `Europe/Berln`"),
        ("{from: 2026-02-01, zone: ../etc/passwd}", "unknown time zone"),
        ("{form: 2026-02-01}", "unknown key `form` in a period (did you mean `from`?)"),
        ("{repeats: {at: '09:00'}}", "`repeats` needs `for`"),
        ("{repeats: {for: 8}}", "`for` must be a duration such as `8h` or `1d 12h`, not `8`"),
        ("{repeats: {for: 0h}}", "`for` must be a duration"),
        ("{repeats: {for: 8h, at: '24:00'}}", "`at` must be a time of day such as `09:00`"),
        ("{repeats: {for: 8h, weekdays: mo}}", "`weekdays` takes `sun` to `sat`"),
        ("{repeats: {for: 8h, days: 0}}", "`days` takes 1 to 31"),
        ("{repeats: {for: 8h, days: true}}", "`days` takes 1 to 31"),
        ("{repeats: {for: 8h, months: []}}", "`months` must not be empty"),
        ("{repeats: {for: 8h, years: 1999}}", "`years` takes 2017 to 2100"),
        ("{repeats: []}", "`repeats` must not be empty"),
    ],
)
def test_periods_that_are_refused(written: str, expected: str) -> None:
    found = faults(policy(f"on: {COLUMN}\nvalidity: {written}\n{ALLOW}"))
    assert any(f.startswith("p0.yaml:4: ") and expected in f for f in found), found


# -- tags ----------------------------------------------------------------------------------------------------

TAGS = """
tags:
  - on: {catalog: c, database: d, table: t}
    tags: INTERNAL
  - on: {catalog: c, database: d, table: t, column: [ssn, pay]}
    tags: [PII, {tag: LEVEL, attributes: {level: "3"}, validity: {until: 2026-12-31}}]
policies:
  - name: everything
    on: {catalog: c, database: d, table: t, column: "*"}
    allow: [{groups: [public], access: [select]}]
  - name: personal data
    on: {tag: PII}
    deny: [{groups: [public], access: [Select]}]
    deny_exceptions: [{groups: [hr], access: [select]}]
  - name: hashed
    on: {tag: [PII, OTHER]}
    mask: [{users: [root], type: MASK_NONE}, {groups: [public], type: MASK_HASH}]
  - name: own rows
    on: {tag: INTERNAL}
    filter: [{groups: [public], where: "owner = {USER}"}]
  - name: levels
    on: {tag: LEVEL}
    deny: [{users: [low], access: [select], when: TAG.level >= 3}]
"""


def test_tags_carry_policies() -> None:
    found = load(TAGS)
    service = found.services["spark"]
    assert [p.name for p in service.policies] == ["everything"]
    assert service.tags is not None
    assert [p.name for p in service.tags.policies] == ["personal data", "hashed", "own rows", "levels"]
    ssn = Resource((*X.elements[:3], ("column", "ssn")))
    hr = Principal(user="h", groups=frozenset({"hr"}))
    assert allowed(found)
    assert not allowed(found, resource=ssn)
    assert allowed(found, hr, resource=ssn)
    engine = engine_for(found)
    mask = engine.mask(hr, ssn, "string")
    assert mask is not None
    assert (mask.mask_type, mask.policy.name) == ("MASK_HASH", "hashed")
    assert engine.mask(Principal(user="root"), ssn, "string") is None
    assert engine.mask(hr, X, "string") is None
    row_filter = engine.row_filter(hr, Resource(X.elements[:3]))
    assert row_filter is not None
    assert row_filter.expression == "owner = 'h'"
    low = Principal(user="low", groups=frozenset({"hr"}))
    assert not allowed(found, low, resource=ssn, context=at("2026-06-01"))
    assert allowed(found, low, resource=ssn, context=at("2027-06-01")), "the tag is gone by then"


def test_tags_that_nothing_carries_are_told() -> None:
    found = load(TAGS)
    assert found.warnings == ("p0.yaml:15: no resource has tag `OTHER`",)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("- {on: {catalog: c}}", "`tags` is missing"),
        ("- {tags: [x]}", "`on` is missing: which resources?"),
        ("- {on: {catalog: c}, tags: [{tags: x}]}", "unknown key `tags` in a tag"),
        ("- {on: {catalog: c}, tags: [{attributes: {}}]}", "`tag` is missing"),
        ("- {on: {catalog: c}, tags: [{tag: x, attributes: {a: 1}}]}", "attribute `a` must be a text"),
        ("- {on: {catalog: c}, tags: [{tag: x, attributes: {a: [b, c]}}]}", "must have a single value here"),
        ("- {on: {table: t}, tags: [x]}", "`table` needs `catalog` and `database` as well"),
    ],
)
def test_tags_that_are_refused(written: str, expected: str) -> None:
    found = faults(f"tags:\n  {written}\n")
    assert any(f.startswith("p0.yaml:2: ") and expected in f for f in found), found


def test_a_policy_on_a_tag_cannot_name_other_levels() -> None:
    assert "unknown level `catalog`" in faults(policy(f"on: {{tag: x, catalog: c}}\n{ALLOW}"))[0]


# -- zones ---------------------------------------------------------------------------------------------------

ZONES = """
zones:
  fin: {on: {catalog: c, database: "fin_*"}, own_tag_policies: true}
policies:
  - name: everywhere
    on: {catalog: c, database: "*", table: "*", column: "*"}
    allow: [{groups: [g], access: [select]}]
  - name: in the zone
    zone: fin
    on: {catalog: c, database: "*", table: "*", column: "*"}
    allow: [{users: [bob], access: [select]}]
"""


def test_a_zone_is_decided_by_its_own_policies() -> None:
    found = load(ZONES)
    there = Resource((("catalog", "c"), ("database", "fin_a"), ("table", "t"), ("column", "x")))
    bob = Principal(user="bob")
    assert allowed(found)
    assert not allowed(found, resource=there)
    assert allowed(found, bob, resource=there)
    assert not allowed(found, bob)
    assert found.services["spark"].zones[0].governs_tags
    assert found.warnings == ()


def test_zones_stand_in_one_pack_and_count_in_all() -> None:
    zone = "zones: {z: {on: {catalog: c}}}\n"
    body = policy(f"on: {COLUMN}\nzone: z\n{ALLOW}")
    assert load(zone, body).services["spark"].policies[0].zone == "z"
    assert faults(zone, zone) == ["p1.yaml:1: zone `z` already exists"]
    assert faults("zones: {zone: {on: {catalog: c}}}\n", policy(f"on: {COLUMN}\nzone: zon\n{ALLOW}")) == [
        "p1.yaml:4: zone `zon` does not exist (did you mean `zone`?)"
    ]
    assert "cannot have `except`" in faults("zones: {z: {on: {catalog: {except: [a]}}}}\n")[0]


def test_policies_of_one_name_may_stand_in_two_zones() -> None:
    zone = "zones: {z: {on: {catalog: z}}}\n"
    load(zone + policy(f"on: {COLUMN}\n{ALLOW}"), policy('on: {catalog: z, database: "*", table: "*", '
         f'column: "*"}}\nzone: z\n{ALLOW}'))  # fmt: skip


# -- the rest ------------------------------------------------------------------------------------------------


def test_delegated_administration() -> None:
    found = load(
        policy(
            f"on: {COLUMN}\nallow:\n"
            "  - {users: [boss], delegate_admin: true}\n"
            "  - {users: [ann], access: [select], delegate_admin: false}"
        )
    )
    assert allowed(found, "boss", ADMIN_ACCESS)
    assert not allowed(found, "boss")
    assert not allowed(found, "ann", ADMIN_ACCESS)
    assert (
        "unknown key `delegate_admin` in an item"
        in faults(policy(f"on: {COLUMN}\nmask: [{{groups: [g], type: MASK, delegate_admin: true}}]"))[0]
    )


def test_super_users_of_all_packs() -> None:
    found = load("super_users: [root]\n", "super_groups: ops\nsuper_users: [adm]\n")
    for user in ("root", "adm"):
        assert allowed(found, user, "drop")
    assert allowed(found, Principal(user="x", groups=frozenset({"ops"})), "drop")
    assert not allowed(found, "x", "drop")


def test_a_directory_gives_attributes_and_groups() -> None:
    found = load(
        "directory:\n"
        "  users: {dan: {attributes: {dept: hr}, groups: [g]}}\n"
        "  groups: {g: {attributes: {region: EMEA}}}\n"
        + policy(f"on: {COLUMN}\nwhen: USER.dept == 'hr' && GET_UG_ATTR('region') == 'EMEA'\n{ALLOW}")
    )
    assert allowed(found, Principal(user="dan"))
    assert not allowed(found, Principal(user="eve", groups=frozenset({"g"})))
    twice = "directory: {users: {dan: {}}}\n"
    assert faults(twice, twice) == ["p1.yaml:1: `dan` is in another pack's directory"]


def test_values_of_people_may_be_several() -> None:
    found = load(
        policy(f"on: {COLUMN}\nwhen: USER.region.includes('APAC')\n{ALLOW}")
        + "people: {ann: {groups: [g], attributes: {region: [EMEA, APAC]}}}\n"
        "cases:\n"
        "  - {as: ann, on: {catalog: c, database: d, table: t, column: x}, expect: allow}\n"
        "  - {as: {user: e, groups: [g], attributes: {region: EMEA}},\n"
        "     on: {catalog: c, database: d, table: t, column: x}, expect: deny}\n"
    )
    assert found.services["spark"].policies
    assert "must be a text, or a list of texts" in faults("people: {a: {attributes: {x: [1]}}}\n")[0]


def test_audit_rules() -> None:
    found = load(
        """
audit:
  mode: all
  exclude: {users: [etl]}
  filters:
    - {result: denied, audited: true}
    - {access: [Use], on: {catalog: c}, users: [ann], actions: [QUERY], audited: false}
""",
        "audit: {exclude: {groups: [bots]}, filters: [{audited: true}]}\n",
    )
    rules = found.services["spark"].audit
    assert rules.mode == "audit-all"
    assert (rules.excluded_users, rules.excluded_groups) == (
        frozenset({"etl"}),
        frozenset({"bots"}),
    )
    assert [(f.audited, f.result, set(f.accesses), set(f.actions)) for f in rules.filters] == [
        (True, "DENIED", set(), set()),
        (False, "", {"use"}, {"QUERY"}),
        (True, "", set(), set()),
    ]
    assert rules.filters[1].resources["catalog"].values == ("c",)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{mode: some}", "`mode` must be `default`, `all` or `none`"),
        ("{modes: all}", "unknown key `modes` in `audit`"),
        ("{exclude: {user: [a]}}", "unknown key `user` in `exclude`"),
        ("{filters: [{result: denied}]}", "an audit filter needs `audited`"),
        ("{filters: [{result: DENIED, audited: true}]}", "(did you mean `denied`?)"),
        ("{filters: [{access: [usr], audited: true}]}", "unknown access type `usr` (did you mean `use`?)"),
    ],
)
def test_audit_rules_that_are_refused(written: str, expected: str) -> None:
    assert any(expected in fault for fault in faults(f"audit: {written}\n"))


def test_two_packs_cannot_say_different_audit_modes() -> None:
    assert "a different `mode`" in faults("audit: {mode: all}\n", "audit: {mode: none}\n")[0]


def test_markers_stand_for_their_category() -> None:
    found = load(policy(f"on: {COLUMN}\nallow: [{{groups: [g], access: [_read]}}]"))
    assert allowed(found)
    assert not allowed(found, access="update")


def test_labels() -> None:
    found = load(policy(f"on: {COLUMN}\nlabels: [gdpr, yearly]\n{ALLOW}"))
    assert found.services["spark"].policies[0].labels == ("gdpr", "yearly")


def test_rangers_own_spelling_is_told_as_ours() -> None:
    found = faults(policy(f"on: {COLUMN}\nvalidityForever: x\npolicyLabels: [a]\n{ALLOW}"))
    assert "p0.yaml:5: unknown key `policyLabels` in a policy; it is called `labels` here" in found
    assert any("unknown key `validityForever` in a policy (did you mean `validity`?)" in f for f in found)


def test_denials_where_the_definition_has_them_switched_off() -> None:
    text = (RULES / "service_defs" / "spark.yaml").read_text(encoding="utf-8")
    switched = load_service_defs(
        {"spark.yaml": text + '\noptions: {enableDenyAndExceptionsInPolicies: "false"}\n'}
    )
    with pytest.raises(Faults) as caught:
        load_packs({"p.yaml": policy(f"on: {COLUMN}\ndeny: [{{groups: [g], access: [select]}}]")}, switched)
    assert "`deny` would be ignored" in caught.value.faults[0]


# -- warnings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "roles:\n  a: {roles: [b]}\n  b: {roles: [a], users: [u]}\n",
            ["p0.yaml:2: role `a` contains itself: `a` → `b` → `a`"],
        ),
        ("roles:\n  a: {roles: [a], users: [u]}\n", ["p0.yaml:2: role `a` contains itself: `a` → `a`"]),
        (
            policy(f"on: {COLUMN}\nallow: [{{roles: [nobody], access: [select]}}]"),
            ["p0.yaml:4: no pack defines role `nobody`; it can only come from a login directory"],
        ),
        (
            policy(
                f"on: {COLUMN}\nmask:\n  - {{groups: [public], type: MASK}}\n"
                "  - {users: [a], type: MASK_NONE}"
            ),
            ["p0.yaml:6: never reached: the item before it applies to everybody"],
        ),
        (
            policy(f"on: {COLUMN}\n{ALLOW}\nallow_exceptions: [{{groups: [public], access: [all]}}]"),
            ["p0.yaml:2: policy `p` allows nothing: its exceptions apply to everybody"],
        ),
        (
            "zones: {z: {on: {catalog: c, database: e}}}\n" + policy(f"on: {COLUMN}\nzone: z\n{ALLOW}"),
            ["p0.yaml:3: policy `p` never matches: it is outside of zone `z`"],
        ),
        (
            "zones: {z: {on: {catalog: c}}}\n" + policy(f"on: {COLUMN}\n{ALLOW}"),
            [
                (
                    "p0.yaml:3: policy `p` never matches: it covers resources of zone `z` but does not "
                    "belong to that zone"
                ),
            ],
        ),
        ("zones: {z: {on: {catalog: [a, x]}}}\n" + policy(f"on: {COLUMN}\n{ALLOW}"), []),
    ],
)
def test_warnings(text: str, expected: list[str]) -> None:
    assert list(load(text).warnings) == expected


def test_a_wildcard_where_there_are_none_is_told() -> None:
    hive = {
        "h.yaml": """
service: hive
policies:
  - name: m
    on: {database: d, table: t, column: "s*"}
    mask: [{groups: [public], type: MASK}]
"""
    }
    found = load_packs(hive, DEFINITIONS)
    assert found.warnings == ("h.yaml:4: `column` does not support wildcards; `s*` is read as a name",)


def test_a_star_before_a_question_mark_is_refused_since_it_would_be_lost() -> None:
    text = """
service: hive
policies:
  - name: p
    on: {database: "d**?", table: "?*", column: "*"}
    deny: [{users: [ann], access: [select]}]
"""
    with pytest.raises(
        Faults, match=r"`d\*\*\?`: a `\*` before a `\?` would be lost, as in Ranger; write `\?\*`"
    ):
        load_packs({"h.yaml": text}, DEFINITIONS)


# -- the documentation ---------------------------------------------------------------------------------------

DOCS = (RULES.parent / "docs" / "policies.md").read_text(encoding="utf-8")
EXAMPLES = [textwrap.dedent(found) for found in re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split(":")[0])
def test_examples_of_the_documentation_load(example: str) -> None:
    if example.startswith("flows:"):
        load_propagation(example, "rules.yaml", ALLOWED_FUNCTIONS)
        return
    if example.startswith("validity:"):
        example = policy(f"on: {COLUMN}\n{example}{ALLOW}")
    load(example)


def test_every_condition_of_the_shipped_definition_is_documented() -> None:
    for condition in DEFINITIONS["spark"].conditions:
        assert f"`{condition.name}`" in DOCS, condition.name
