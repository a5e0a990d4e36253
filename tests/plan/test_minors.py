"""What came with a newer Spark is refused before an older one, which would ignore it."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from gateway.model.spark_minors import NEWEST, PLANS, SUPPORTED, Minor
from gateway.model.statement import PlanRequest, SessionContext
from gateway.plan.catalog_calls import call_privileges
from gateway.plan.classify import short_name
from gateway.plan.classify_since import SINCE, newer_than
from gateway.plan.facts import PlanFacts, facts_of
from gateway.plan.reading import CatalogCall, PlanReading
from gateway.plan.walk import read_plan
from gateway.plan.walk_steps import ROOTS, message_types
from gateway.reader.java_runtime import find_spark_home, spark_version
from gateway.sql.functions import SINCE as FUNCTIONS_SINCE
from gateway.sql.names import Names
from gateway.sql.required import Unsupported
from gateway.wire.connect import pb, serialize
from tests.spark_diff import fields_of

FIELD = re.compile(r"(\w+)\s*=\s*\d+\s*(?:\[[^\]]*\])?\s*$")
OLDER = [minor for minor in SUPPORTED if PLANS <= minor < NEWEST]
NAMES = Names(SessionContext(endpoint="connect"), frozenset({"spark_catalog"}))


def zipped() -> pb.Relation:
    relation = pb.Relation()
    relation.zip.left.range.end = relation.zip.right.range.end = 3
    return relation


def read(root: pb.Relation, minor: Minor) -> PlanReading:
    found = read_plan(PlanRequest(kind="execute", message=serialize(pb.Plan(root=root))), minor)
    assert isinstance(found, PlanReading), found
    return found


@pytest.mark.parametrize("minor", OLDER, ids=str)
def test_a_relation_of_a_newer_spark_is_refused_with_its_version(minor: Minor) -> None:
    plan = PlanRequest(kind="execute", message=serialize(pb.Plan(root=zipped())))
    assert isinstance(read_plan(plan, NEWEST), PlanReading)
    refused = read_plan(plan, minor)
    assert isinstance(refused, Unsupported)
    assert refused.why == f"Relation.zip needs Spark 4.3; this is Spark {minor}"


@pytest.mark.parametrize("minor", OLDER, ids=str)
def test_a_field_of_a_newer_spark_within_a_plan_is_refused(minor: Minor) -> None:
    relation = pb.Relation()
    relation.project.input.range.end = 1
    relation.project.expressions.add().literal.timestamp_ltz_nanos.epoch_micros = 5
    plan = PlanRequest(kind="execute", message=serialize(pb.Plan(root=relation)))
    refused = read_plan(plan, minor)
    assert isinstance(refused, Unsupported)
    assert "needs Spark 4.3" in refused.why


@pytest.mark.parametrize("minor", OLDER, ids=str)
def test_a_function_of_a_newer_spark_is_whoever_has_its_name(minor: Minor) -> None:
    """`hmac` is built in since 4.3: an older Spark would look for a function that somebody made."""
    relation = pb.Relation()
    relation.project.input.range.end = 1
    relation.project.expressions.add().unresolved_function.function_name = "hmac"
    newest = facts_of(read(relation, NEWEST), NAMES)
    assert isinstance(newest, PlanFacts)
    assert newest.required == ()
    older = facts_of(read(relation, minor), NAMES)
    assert isinstance(older, Unsupported)
    assert "Cannot resolve routine `hmac`" in older.why


@pytest.mark.parametrize("minor", OLDER, ids=str)
def test_the_catalog_tells_of_a_function_of_a_newer_spark_to_who_may_know(minor: Minor) -> None:
    relation = pb.Relation()
    relation.catalog.get_function.function_name = "hmac"
    call = CatalogCall(relation=relation, operation="get_function", root=True)
    newest, older = call_privileges(call, NAMES, NEWEST), call_privileges(call, NAMES, minor)
    assert not isinstance(newest, Unsupported)
    assert newest.details is None
    assert not isinstance(older, Unsupported)
    assert older.details is not None


def test_tables_of_minors_name_what_there_is() -> None:
    there = set()
    for each in message_types(*ROOTS):
        name = short_name(each.full_name)
        there |= {f"{name}.{field.name}" for field in each.fields}
        for field in each.fields:
            if field.enum_type is not None:
                enum = short_name(field.enum_type.full_name)
                there |= {f"{enum}={value.name}" for value in field.enum_type.values}
    for names in SINCE.values():
        assert names - there == frozenset()
    assert set(SINCE) | set(FUNCTIONS_SINCE) <= set(SUPPORTED)


def test_the_jars_of_this_spark_have_what_the_table_says() -> None:
    """Under `make minors` they are those of an older Spark."""
    home = find_spark_home()
    minor = Minor(*map(int, spark_version(home).split(".")[:2]))
    assert minor in SUPPORTED
    if minor < PLANS:
        return  # it is given none
    theirs = fields_in(home)
    ours = set()
    for each in message_types(*ROOTS):
        if each.full_name.startswith("spark.connect."):
            ours |= {f"{short_name(each.full_name)}.{field.name}" for field in each.fields}
    newer = {name for name in newer_than(minor) if "=" not in name}
    assert ours - theirs == newer


def fields_in(home: Path) -> set[str]:
    """Return the fields of all messages in the `.proto` files of Spark Connect's jar, as `Message.field`."""
    found = set()
    jar = next((home / "jars").glob("spark-connect_*.jar"))
    with zipfile.ZipFile(jar) as opened:
        for name in opened.namelist():
            if name.startswith("spark/connect/") and name.endswith(".proto"):
                lines = fields_of(opened.read(name).decode())
                found |= {line for line in lines if not line.endswith("()")}
    return found
