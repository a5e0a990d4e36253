"""Names of what carries a tag, as the audit record spells them."""

from __future__ import annotations

from gateway.model.policy import PolicySet, ResourceValues, Service, ServiceDef, TaggedResource
from gateway.model.tags import Tag
from gateway.policy.tagged_names import list_tagged_names


def tagged(tag: str, *, excludes: bool = False, **levels: str) -> TaggedResource:
    return TaggedResource(
        resources={
            level: ResourceValues(values=tuple(text.split(",")), excludes=excludes)
            for level, text in levels.items()
        },
        tags=(Tag(type=tag),),
    )


def policies(*found: TaggedResource) -> PolicySet:
    definition = ServiceDef(name="hive", resources=(), access_types=())
    service = Service(name="hive", definition=definition, tagged=found)
    return PolicySet(version=1, services={"hive": service}, catalog_services={"main": "hive", "lake": "hive"})


def test_names_are_those_of_every_catalog_that_the_service_speaks_for() -> None:
    found = policies(
        tagged("PII", database="hr", table="Employee", column="ssn,mail"),
        tagged("PII", catalog="lake", database="hr"),
        tagged("other", database="hr", table="salary"),
        tagged("PII", url="s3a://x"),
    )
    assert list_tagged_names(found, " pii ") == (
        [
            "main.hr.Employee.ssn", "main.hr.employee.ssn", "main.hr.Employee.mail", "main.hr.employee.mail",
            "lake.hr.Employee.ssn", "lake.hr.employee.ssn", "lake.hr.Employee.mail", "lake.hr.employee.mail",
            "lake.hr",
        ],
        True,
    )  # fmt: skip
    assert list_tagged_names(found, "none") == ([], True)


def test_what_is_tagged_by_a_pattern_has_no_name_and_is_said_to_be_missing() -> None:
    for one in (
        tagged("PII", database="hr", table="emp*"),
        tagged("PII", database="hr", table="a", excludes=True),
    ):
        assert list_tagged_names(policies(one), "PII") == ([], False)
