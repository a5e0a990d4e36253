"""Rules about what catalogs restrict: how each is taken out, and the tests that should notice."""

from __future__ import annotations

from tests.removals.operations import Always, Becomes, Condition, Deleted, Never, Statement
from tests.removals.removing import Removal

READING, WRITING = "catalog.test_read_restrictions", "policy.test_restrictions"
WHOLE = "app.test_restrictions"

LAKES = "app.test_metalake_restrictions"

REMOVALS = (
    Removal(
        "metalake-not-enforced",
        "what is not enforced is closed",
        Becomes("list(on)"),
        "catalog.test_metalake_client",
    ),
    Removal(
        "metalake-closed-twice",
        "policies that are not enforced close by themselves",
        Never(),
        "catalog.test_metalake_client",
    ),
    Removal("metalake-operators", "no policy nests too deep", Never(), "catalog.test_gravitino_policies"),
    Removal(
        "metalake-group",
        "a group that nobody knows has no members, and others do not show more for it",
        Never(),
        "catalog.test_metalake_client",
    ),
    Removal("restrictions-own-fault", "a table that closes itself stays closed", Always(), LAKES),
    Removal(
        "metalake-nested", "what a namespace has those in it have", Becomes("folded[:2] == parts"), LAKES
    ),
    Removal("metalake-conflict", "policies that contradict each other close", Never(), LAKES),
    Removal(
        "metalake-and-catalog",
        "of two that restrict a table none is left out",
        Becomes("here"),
        LAKES,
    ),
    Removal(
        "query-auth-closes",
        "a table that Paimon's catalog restricts is refused",
        Becomes("None"),
        "catalog.test_known_types_describe",
    ),
    Removal("restriction-by-names", "names are those of now", Never(), WRITING),
    Removal("restrictions-as-user", "the user's catalog is asked as the user", Never(), WHOLE),
    Removal(
        "restrictions-unmapped-user",
        "who has no credential is not asked for by another",
        Statement("if user not in mapped:\n    user = next(iter(mapped))"),
        WHOLE,
    ),
    Removal("unasked-rest-catalog", "catalogs that are not asked are told", Never(), WHOLE),
    Removal("restrictions-per-user", "an answer is one user's", Becomes("('', b'', name)"), WHOLE),
    Removal("restrictions-age", "an answer serves for a time", Condition("kept is not None"), WHOLE),
    Removal(
        "restrictions-unavailable",
        "no answer refuses",
        Becomes("TableRestrictions(catalog=name.catalog)"),
        WHOLE,
    ),
    Removal(
        "restriction-odd-answer",
        "an answer without a table is none",
        Statement(
            "if not isinstance(answer, dict) or 'read-restrictions' not in answer:\n"
            "    return TableRestrictions(catalog=catalog)"
        ),
        READING,
    ),
    Removal("restriction-column-twice", "a column has one action", Never(), READING),
    Removal("restriction-unknown-id", "each id is in some schema", Never(), READING),
    Removal("restriction-unknown-member", "members that are not known are no answer", Never(), READING),
    Removal(
        "restriction-unknown-action",
        "a closed list of actions",
        Condition("not isinstance(action, str)"),
        READING,
    ),
    Removal(
        "restriction-unknown-expression",
        "a closed list of expressions",
        Never(),
        READING,
    ),
    Removal(
        "metalake-restricting-policies",
        "policies of a metalake that hide rows are counted",
        Never(),
        "catalog.test_metalake_client",
    ),
    Removal(
        "metalake-policy-on-unknown-tag",
        "a tag that is not listed is not left out",
        Never(),
        "catalog.test_metalake_client",
    ),
    Removal(
        "metalake-restricted-closed",
        "what a metalake hides rows of is closed",
        Deleted(),
        "sources.test_metalake_rules",
    ),
    Removal("policy-restricted-table", "policies read no restricted table", Never(), WHOLE),
    Removal("restriction-two-valued-in", "`in` is true or false", Becomes("f'{c} IN ({values})'"), WRITING),
    Removal(
        "restriction-two-valued",
        "comparisons are true or false",
        Becomes("f'({c} {_OPERATORS[one.operator]} {literal})'"),
        WRITING,
    ),
    Removal("restriction-nan", "NaN is smaller or greater than nothing", Never(), WRITING),
    Removal("restriction-filter-column", "a filter's column is in what is read", Never(), WRITING),
    Removal("restriction-literal", "literals are of the column's type", Never(), WRITING),
    Removal("restriction-closes", "what cannot be enforced closes the table", Never(), WRITING),
    Removal("restriction-mask", "masks of catalogs are masks", Becomes("own or mask"), WRITING),
    Removal("restriction-filter", "filters of both hold", Becomes("view.row_filter"), WRITING),
    Removal("restriction-current-schema", "the columns are those of now", Always(), WRITING),
    Removal("restriction-version", "a version has one schema", Never(), WRITING),
    Removal("restriction-nested-twice", "no field within a masked one", Never(), WRITING),
    Removal("restriction-map-key", "keys of maps are not masked", Never(), WRITING),
    Removal("restriction-spark-type", "columns are of the types that masks are for", Never(), WRITING),
    Removal("restriction-required-null", "a required field is not NULL", Never(), WRITING),
    Removal("restriction-type", "an action is for its types", Never(), WRITING),
    Removal("restriction-salt", "a salt is a statement's", Never(), WRITING),
    Removal("restrictions-unasked", "who was not asked about is not known", Never(), WHOLE),
    Removal("restricted-columns-of-now", "an answer is of the columns of now", Deleted(), WHOLE),
    Removal("salt-carried-over", "nothing with a salt is kept", Never(), WHOLE),
    Removal("salt-hidden", "salts are not shown", Becomes("text"), WHOLE),
    Removal(
        "cached-restrictions",
        "a clearance rests on restrictions",
        Becomes("_still_rests(cached, catalog, self._policies.principals)"),
        WHOLE,
    ),
    Removal("salted-not-cached", "a salt serves one statement", Becomes("not anew"), WHOLE),
    Removal("restrictions-asked", "tables are asked about", Becomes("catalog"), WHOLE),
    Removal("catalog-restricts", "what is restricted is left out of the view", Deleted(), WHOLE),
)
