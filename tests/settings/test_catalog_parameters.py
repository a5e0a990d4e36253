"""`connection-params`: what a type needs, what values look like and which are secrets is told at load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.errors import Faults
from gateway.settings.loading import parse_settings

ICEBERG = {"type": "rest", "uri": "https://h/iceberg"}
HIVE = {"hive.metastore.uris": "thrift://h:9083"}
PAIMON = {"warehouse": "s3a://b/pai"}
JDBC = {"url": "jdbc:postgresql://h/d", "driver": "org.postgresql.Driver"}


def faults(kind: str, **parameters: Any) -> list[str]:
    """Return the faults of one entry, without their place."""
    catalog = {"type": kind, "connection-params": parameters}
    text = yaml.safe_dump({"catalogs": [{"name": "c", "catalog": catalog}]})
    try:
        parse_settings(text, "g.yaml", Path("/conf"))
    except Faults as told:
        return [one.partition(": ")[2] for one in told.faults]
    return []


def test_everything_is_told_at_once_with_its_line() -> None:
    text = """\
catalogs:
  - name: a
    catalog: {type: iceberg, connection-params: {type: rest}}
  - name: b
    catalog:
      type: hive
      connection-params:
        hive.metastore.uris: "host1:9083,,"
        class: no class
  - name: c
    catalog:
      type: jdbc
      connection-params:
        url: ''
        driver: org.postgresql.Driver
        fetchSize: many
        pushDownLimit: maybe
  - name: d
    catalog: {type: iceberg, connection-params: {type: hadop}}
  - name: e
    catalog: {type: paimon, connection-params: {metastore: jdbc, uri: 7}}
"""
    with pytest.raises(Faults) as told:
        parse_settings(text, "g.yaml", Path("/conf"))
    assert list(told.value.faults) == [
        "g.yaml:3: type `iceberg` with `type: rest` needs the parameter `uri`",
        (
            "g.yaml:8: `hive.metastore.uris` must be one or more metastore addresses, separated by commas "
            "without blanks: `thrift://host1:9083,thrift://host2:9083`"
        ),
        "g.yaml:9: `class` must be the name of a class",
        "g.yaml:14: `url` is empty",
        "g.yaml:16: `fetchSize` must be a whole number",
        "g.yaml:17: `pushDownLimit` must be true or false",
        "g.yaml:19: `type` must be rest, hadoop, hive, jdbc, nessie, glue, bigquery (did you mean `hadoop`?)",
        "g.yaml:21: `uri` must be an address such as `jdbc:postgresql://host:5432/database`",
        "g.yaml:21: type `paimon` with `metastore: jdbc` needs the parameter `warehouse`",
    ]


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("hive", {"hive.metastore.uris": ""}),
        ("hive", {"hive.metastore.uris": " "}),
        ("hive", {"hive.metastore.uris": "thrift://h1:9083,"}),
        ("hive", {"hive.metastore.uris": "thrift://h1:9083, thrift://h2:9083"}),
        ("hive", {"hive.metastore.uris": "thrift://h1"}),
        ("hive", {"hive.metastore.uris": "http://h1:9083"}),
        ("iceberg", {"type": ""}),
        ("iceberg", {"type": "hadoop"}),
        ("iceberg", {"type": "hadoop", "warehouse": ""}),
        ("iceberg", {"type": "REST", "uri": "thrift://h:9083"}),
        ("iceberg", {"type": "rest", "uri": ""}),
        ("iceberg", {"type": "hive", "uri": "h:9083"}),
        ("iceberg", {"type": "jdbc", "uri": "jdbc:sqlite:x"}),
        ("iceberg", {"type": "nessie", "uri": "https://h/api/v2"}),
        ("iceberg", {"type": "hadoop", "warehouse": "/w", "catalog-impl": "x.Y"}),
        ("iceberg", {"catalog-impl": "x y"}),
        ("paimon", {}),
        ("paimon", {"metastore": "rest", "uri": "https://h"}),
        ("jdbc", {**JDBC, "url": "postgresql://h/d"}),
        ("jdbc", {**JDBC, "driver": "/a.jar"}),
    ],
)
def test_what_would_fail_when_it_is_opened_is_told_when_it_is_read(
    kind: str, parameters: dict[str, Any]
) -> None:
    assert len(faults(kind, **parameters)) == 1


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("hive", {"HIVE.METASTORE.URIS": "thrift://h1:9083,thrift://[::1]:9083"}),
        ("hive", {"hive.metastore.uris": {"env": "URIS"}}),
        ("iceberg", {"type": "Hive"}),
        ("iceberg", {"type": "glue", "client.region": "eu-west-1", "glue.skip-archive": True}),
        ("iceberg", {"type": "jdbc", "uri": "jdbc:sqlite:x", "warehouse": "/w", "jdbc.schema-version": "V1"}),
        ("iceberg", {**ICEBERG, "rest.auth.type": "sigv4", "header.X-Iceberg-Access-Delegation": "x"}),
        ("iceberg", {**ICEBERG, "token-refresh-enabled": False, "token-expires-in-ms": 60000}),
        ("iceberg", {**ICEBERG, "client.credentials-provider": "a.B", "s3.remote-signing-enabled": True}),
        ("iceberg", {"catalog-impl": "com.my.Catalog", "my-additional-catalog-config": "x"}),
        (
            "iceberg",
            {
                "type": "nessie",
                "uri": "https://h/api/v2",
                "warehouse": "s3://b",
                "ref": "main",
                "authentication.type": "BEARER",
                "authentication.token": {"env": "T"},
                "authentication.oauth2.token-endpoint": "https://h/t",
                "nessie.transport.read-timeout": 5,
            },
        ),
        ("paimon", {"metastore": "hive", "uri": "thrift://h:9083", "hive-conf-dir": "/etc/hive"}),
        ("paimon", {**PAIMON, "fs.oss.endpoint": "x", "security.kerberos.login.principal": "p"}),
        ("paimon", {"metastore": "rest", "uri": "https://h", "warehouse": "w", "token.provider": "dlf"}),
        ("jdbc", {**JDBC, "pushDownJoin": True, "user": "u"}),
        ("spark", {"anything": ""}),
    ],
)
def test_what_these_systems_document_is_taken(kind: str, parameters: dict[str, Any]) -> None:
    assert faults(kind, **parameters) == []


OF_HADOOP = [
    "fs.azure.account.key.acct.dfs.core.windows.net",
    "fs.azure.account.oauth2.client.secret",
    "fs.azure.sas.container.acct.blob.core.windows.net",
    "fs.s3a.bucket.b.secret.key",
    "fs.s3a.access.key",
    "fs.s3a.session.token",
    "fs.s3a.server-side-encryption.key",
    "fs.gs.auth.service.account.private.key",
    "fs.oss.accessKeySecret",
    "java.naming.security.credentials",
    "ssl.client.truststore.password",
]
SECRETS = [
    *[("iceberg", f"hadoop.{key}") for key in OF_HADOOP],
    *[("spark", f"spark.hadoop.{key}") for key in OF_HADOOP],
    *[
        ("iceberg", key)
        for key in (
            "header.authorization",
            "header.Authorization",
            "header.x-api-key",
            "header.Cookie",
            "header.X-Whatever",
            "s3.access-key-id",
            "s3.secret-access-key",
            "s3.session-token",
            "s3.sse.key",
            "gcs.oauth2.token",
            "gcs.encryption-key",
            "adls.sas-token.acct",
            "adls.auth.shared-key.account.key",
            "adls.connection-string.acct",
            "client.credentials-provider.password",
            "rest.auth.basic.password",
            "io.api_key",
            "jdbc.password",
            "credential",
            "authentication.oauth2.client-secret",
        )
    ],
    ("paimon", "dlf.access-key-secret"),
    ("paimon", "fs.oss.accessKeyId"),
    ("hive", "hive.metastore.truststore.password"),
    ("jdbc", "PASSWORD"),
    ("gravitino", "set.shop.header.x-login"),
    ("gravitino", "set.shop.hadoop.fs.azure.account.key.acct"),
]
OTHERS = {
    "gravitino": {"uri": "https://h", "metalake": "m"},
    "iceberg": ICEBERG,
    "spark": {},
    "paimon": PAIMON,
    "hive": HIVE,
    "jdbc": JDBC,
}


@pytest.mark.parametrize(("kind", "key"), SECRETS)
def test_a_secret_is_a_reference(kind: str, key: str) -> None:
    (told,) = faults(kind, **{**OTHERS[kind], key: "hunter2"})
    assert told == f"`{key}` is a secret: write `{{env: NAME}}` or `{{file: PATH}}`"
    assert faults(kind, **{**OTHERS[kind], key: {"env": "X"}}) == []


@pytest.mark.parametrize(
    "value",
    [
        "jdbc:postgresql://h/d?user=u&password=hunter2",
        "jdbc:postgresql://h/d?p%61ssword=hunter2",
        "jdbc:sqlserver://h;sslPassword=hunter2",
        "jdbc:mysql://u:hunter2@h/d",
        "jdbc:mysql://(host=h,password=hunter2)/d",
        "jdbc:oracle:thin:u/hunter2@//h:1521/d",
        "jdbc:databricks://h:443;AuthMech=3;UID=token;PWD=hunter2",
    ],
)
def test_a_password_in_an_address_is_told_and_not_repeated(value: str) -> None:
    (told,) = faults("jdbc", **{**JDBC, "url": value})
    assert told.startswith("`url` contains a password")
    assert "hunter2" not in told


@pytest.mark.parametrize("value", ["Bearer hunter2", "eyJhbGci.eyJzdWIi.hunter2", "https://hunter2@h/x"])
def test_a_login_under_a_plain_name_is_told(value: str) -> None:
    (told,) = faults("iceberg", **{**ICEBERG, "prefix": value})
    assert told.startswith("`prefix` contains a password")
