"""Names of resources mean for people what they mean for the gateway: the service of the catalog answers."""

from __future__ import annotations

import pytest

from gateway.model.policy import PolicySet, Service
from gateway.policy.resource_names import NotAResource, resource_of_service, service_of
from tests.policy.scenarios import definitions

SPARK, HIVE = definitions()["spark"], definitions()["hive"]
POLICIES = PolicySet(
    version=1,
    services={"spark": Service(name="spark", definition=SPARK), "h": Service(name="h", definition=HIVE)},
    catalog_services={"spark_catalog": "spark", "lake": "h", "gone": "elsewhere"},
)


@pytest.mark.parametrize(
    ("text", "service", "elements"),
    [
        ("lake.hr.t.c", "h", (("catalog", "lake"), ("database", "hr"), ("table", "t"), ("column", "c"))),
        ("LAKE.hr", "h", (("catalog", "LAKE"), ("database", "hr"))),
        ("`lake`.`a.b`", "h", (("catalog", "lake"), ("database", "a.b"))),
        ("lake", "h", (("catalog", "lake"),)),
        ("udf:lake.hr.f", "h", (("catalog", "lake"), ("database", "hr"), ("udf", "f"))),
        ("table:lake.hr.t", "h", (("catalog", "lake"), ("database", "hr"), ("table", "t"))),
        ("spark_catalog.hr", "spark", (("catalog", "spark_catalog"), ("database", "hr"))),
        ("other.hr", "spark", (("catalog", "other"), ("database", "hr"))),
        ("url:s3://lake.x/y", "spark", (("url", "s3://lake.x/y"),)),
        ("s3://lake/y", "spark", (("url", "s3://lake/y"),)),
    ],
)
def test_the_service_of_the_catalog_is_asked(
    text: str, service: str, elements: tuple[tuple[str, str], ...]
) -> None:
    name = service_of(text, POLICIES)
    catalogs = [catalog for catalog, one in POLICIES.catalog_services.items() if one == name]
    found = resource_of_service(text, POLICIES.services[name].definition, catalogs)
    assert (name, found.elements) == (service, elements)


def test_a_service_that_is_not_there_is_not_another_one() -> None:
    with pytest.raises(NotAResource, match="service `elsewhere` covers the catalog of `gone"):
        service_of("gone.hr", POLICIES)


def test_too_many_parts_below_a_catalog_are_told() -> None:
    with pytest.raises(NotAResource, match="4 parts"):
        resource_of_service("lake.a.b.c.d", HIVE, ["lake"])
