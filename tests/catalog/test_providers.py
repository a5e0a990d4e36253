"""The table of providers: what Spark is told of a metalake's catalog, and what is left out."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.app.providers import load_providers, shipped_providers
from gateway.catalog.providers import NotForSpark, Wishes, is_secret, secrets_in, secrets_of, spark_catalog
from gateway.catalog.spark_settings import NamedCatalog, session_settings
from gateway.errors import Faults
from gateway.model.metalakes import MetalakeCatalog
from gateway.model.spark_minors import SUPPORTED, Minor

PROVIDERS = shipped_providers()
URL = {"jdbc-url": "jdbc:postgresql://db/x", "jdbc-driver": "org.postgresql.Driver"}


def made(
    provider: str,
    properties: dict[str, str],
    minor: Minor = SUPPORTED[0],
    wishes: Wishes | None = None,
    **more: Any,
) -> NamedCatalog | str:
    """Return the catalog, or why there is none."""
    one = MetalakeCatalog(
        **{"name": "pg", "type": "RELATIONAL", "provider": provider, "properties": properties, **more}
    )
    found = spark_catalog(one, PROVIDERS, minor, wishes or Wishes())
    return found.why if isinstance(found, NotForSpark) else found


def told(*arguments: Any, **more: Any) -> dict[str, str]:
    catalog = made(*arguments, **more)
    assert isinstance(catalog, NamedCatalog), catalog
    settings = session_settings([catalog])
    return {key.removeprefix("spark.sql.catalog.pg").removeprefix("."): v for key, v in settings.items()}


@pytest.mark.parametrize("minor", SUPPORTED, ids=str)
def test_jdbc_on_every_minor(minor: Minor) -> None:
    given = {**URL, "jdbc-user": "u", "jdbc-password": "p", "jdbc.pool.max-size": "9", "in-use": "true"}
    for provider in ("jdbc-postgresql", "jdbc-mysql", "jdbc-anything"):
        assert told(provider, given, minor) == {
            "": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
            "url": URL["jdbc-url"],
            "driver": URL["jdbc-driver"],
            "user": "u",
            "password": "p",
        }


def test_hive_iceberg_and_paimon() -> None:
    assert told("hive", {"metastore.uris": "thrift://m:9083"})["hive.metastore.uris"] == "thrift://m:9083"
    given = {"catalog-backend": "REST", "uri": "http://i", "warehouse": "w", "s3-secret-access-key": "k"}
    assert made("lakehouse-iceberg", given) == (
        "provider `lakehouse-iceberg` is not enabled (`iceberg: true`)"
    )
    iceberg = told("lakehouse-iceberg", given, wishes=Wishes(enabled=frozenset({"iceberg"})))
    assert iceberg == {
        "": "org.apache.iceberg.spark.SparkCatalog",
        "type": "rest",
        "uri": "http://i",
        "warehouse": "w",
        "s3.secret-access-key": "k",
        "cache-enabled": "false",
    }
    paimon = told("lakehouse-paimon", {"catalog-backend": "filesystem", "warehouse": "s3://w"})
    assert (paimon["metastore"], paimon["warehouse"]) == ("filesystem", "s3://w")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"type": "FILESET"}, "of type FILESET, which holds no tables"),
        ({"in_use": False}, "not in use"),
        ({"provider": ""}, "without a provider"),
        ({"provider": "lakehouse-hudi"}, "provider `lakehouse-hudi` is not known"),
        ({"name": "a-b"}, "its name is not made of letters"),
        ({"name": "session"}, "keeps for itself"),
        ({"properties": {}}, "it does not say `url`"),
        ({"properties": {**URL, "jdbc-user": "${env:HOME}"}}, "Spark would replace"),
        ({"properties": {**URL, "jdbc-user": "a\nb"}}, "Spark would replace"),
        ({"left_out": frozenset({"jdbc-password"})}, "`jdbc-password` is not known while"),
    ],
)
def test_what_is_left_out_says_why(change: dict[str, Any], why: str) -> None:
    given = {"provider": "jdbc-mysql", "properties": URL, **change}
    reason = made(given.pop("provider"), given.pop("properties"), **given)
    assert isinstance(reason, str)
    assert why in reason


def test_an_unknown_backend_and_a_minor_without_a_row_are_left_out() -> None:
    wishes = Wishes(enabled=frozenset({"iceberg"}))
    given = {"catalog-backend": "custom", "catalog-backend-impl": "evil.Class", "warehouse": "w"}
    assert "catalog-backend" in str(made("lakehouse-iceberg", given, wishes=wishes))
    given = {"catalog-backend": "rest", "uri": "http://i"}
    assert "for Spark 4.3" in str(made("lakehouse-iceberg", given, Minor(4, 3), wishes))


def test_no_property_names_a_class_or_a_parameter_that_the_kind_does_not_have() -> None:
    given = {
        **URL,
        "spark.bypass.class": "evil.Class",
        "spark.bypass.fetchsize": "10",
        "spark.bypass.evil": "x",
        "class": "evil.Class",
        "gravitino.bypass.fetchsize": "11",
    }
    catalog = told("jdbc-mysql", given)
    assert "evil" not in str(catalog)
    assert catalog["fetchsize"] == "10"


def test_what_the_entry_sets_counts_whatever_the_server_says() -> None:
    wishes = Wishes(set_parameters={"pg": {"Password": "***", "url": "jdbc:postgresql://other/x"}})
    given = {**URL, "jdbc-password": "theirs"}
    catalog = told("jdbc-mysql", given, wishes=wishes, left_out=frozenset({"jdbc-password"}))
    assert catalog["Password"] == "***"
    assert catalog["url"] == "jdbc:postgresql://other/x"
    assert "theirs" not in str(catalog)


def test_gravitinos_own_connector_is_told_its_class_alone() -> None:
    own = Wishes(own_connectors=True)
    assert told("jdbc-postgresql", URL, Minor(3, 5), own) == {
        "": "org.apache.gravitino.spark.connector.jdbc.postgresql.GravitinoPostgreSqlCatalogSpark35"
    }
    assert "no connector" in str(made("jdbc-postgresql", URL, Minor(4, 3), own))


def test_types_are_those_of_the_provider() -> None:
    hive, pg = (PROVIDERS.row(name, SUPPORTED[0]) for name in ("hive", "jdbc-postgresql"))
    iceberg = PROVIDERS.row("lakehouse-iceberg", SUPPORTED[0])
    assert hive is not None
    assert pg is not None
    assert iceberg is not None
    assert (hive.types["timestamp"], iceberg.types["timestamp"]) == ("timestamp", "timestamp_ntz")
    assert (pg.types["time"], pg.types["long"]) == ("timestamp", "bigint")
    assert "time" not in hive.types


@pytest.mark.parametrize(
    ("key", "value", "secret"),
    [
        ("jdbc-password", "x", True),
        ("s3-secret-access-key", "x", True),
        ("jdbc-url", "jdbc:mysql://u:p@db/x", True),
        ("jdbc-url", "jdbc:mysql://[u:p@db/x", True),
        ("jdbc-password", "", True),
        ("jdbc-url", "jdbc:mysql://db/x?password=p", True),
        ("jdbc-url", "jdbc:mysql://db/x", False),
        ("warehouse", "s3://w", False),
    ],
)
def test_secrets_are_known_by_key_and_by_value(key: str, value: str, secret: bool) -> None:
    assert is_secret(key, value) is secret


def test_a_password_within_an_address_is_hidden_by_itself_too() -> None:
    url = "jdbc:mysql://u:p%40ss@db/x?password=other&a=b"
    assert secrets_in("jdbc-url", url) == (url, "other", "p%40ss", "p@ss")
    assert secrets_in("jdbc-user", "u") == ()
    encoded = "jdbc:x://db?password=p%40ss"
    assert secrets_in("url", encoded) == (encoded, "p%40ss", "p@ss")


def test_of_a_secret_parameter_all_is_hidden_and_what_is_secret_within() -> None:
    assert secrets_of("url", "jdbc:x://db?password=p") == ("jdbc:x://db?password=p", "p")
    assert secrets_of("user", "u") == ("u",)
    assert secrets_of("credential", "me:hush") == ("me:hush", "hush")
    assert secrets_of("credential", "hush") == ("hush",)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "bypass: x\nproviders: []",
        "bypass: x.\nproviders: [{provider: A, kind: jdbc, minors: ['3.5']}]",
        "bypass: x.\nproviders: [{provider: a, kind: nothing, minors: ['3.5']}]",
        "bypass: x.\nproviders: [{provider: a, kind: memory, minors: ['3.5']}]",
        "bypass: x.\nproviders: [{provider: a, kind: jdbc}]",
        "bypass: x.\nproviders: [{provider: a, kind: jdbc, minors: ['2.4']}]",
        "bypass: x.\nproviders: [{provider: a, kind: jdbc, minors: ['3.5'], colour: red}]",
        "bypass: x.\nproviders: [{provider: a, kind: jdbc, minors: ['3.5'], properties: {k: {to: nope}}}]",
        "bypass: x.\nproviders: [{provider: a, kind: jdbc, minors: ['3.5'], types: {k: 'a?b'}}]",
        "bypass: x.\nproviders: [{provider: a, kind: jdbc, minors: ['3.5'], enabled_by: nope}]",
    ],
)
def test_faults_of_a_table_are_told(text: str) -> None:
    with pytest.raises(Faults):
        load_providers(text, "table.yaml")
