"""Settings of several Sparks: which there are, who is the first, and what does not go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.app.sparks import make_routing
from gateway.errors import Faults
from gateway.settings.loading import parse_settings
from gateway.settings.models import Settings

TWO = """
listeners: {connect: {}}
backends:
  bi: {thrift: {host: bi}, metastore: lake}
  etl: {thrift: {host: etl}, connect: {host: etl}, groups: [etl], tags: [big], parser: {spark_version: "4.1"}}
  ad_hoc: {connect: {host: ad-hoc}, metastore: lake}
"""


def read(text: str) -> Settings:
    return parse_settings(text, "gateway.yaml", Path("/etc/sluice"))


def faults(text: str) -> str:
    with pytest.raises(Faults) as error:
        read(text)
    return "\n".join(error.value.faults)


def test_one_backend_is_the_default_one() -> None:
    settings = read("backend: {thrift: {host: spark}}")
    assert list(settings.all_backends) == ["default"]
    assert settings.for_backend("default").backend == settings.backend
    assert make_routing(settings).default == ("default",)


def test_without_backend_the_first_is_the_main_one() -> None:
    settings = read(TWO)
    assert list(settings.all_backends) == ["bi", "etl", "ad_hoc"]
    assert settings.main_backend == "bi"
    assert settings.backend == settings.backends["bi"]
    assert settings.serves_thrift
    assert make_routing(settings).default == ("bi", "ad_hoc"), "those of its metastore"


def test_with_backend_that_is_one_of_them() -> None:
    settings = read(TWO + "backend: {thrift: {host: old}, metastore: lake}\nrouting: {default: [big, bi]}")
    assert list(settings.all_backends) == ["default", "bi", "etl", "ad_hoc"]
    assert make_routing(settings).default == ("big", "bi")


def test_each_spark_has_settings_of_its_own() -> None:
    settings = read(TWO + "sessions: {checkpoints: s3://b/c}\nreader: {heap: 1g, spark_version: '4.2'}")
    bi, etl, ad_hoc = (settings.for_backend(name) for name in settings.all_backends)
    assert (bi.reader.spark_version, etl.reader.spark_version, ad_hoc.reader.spark_version) == (
        "4.2",
        "4.1",
        None,
    )
    assert {one.reader.heap for one in (bi, etl, ad_hoc)} == {"1g"}
    assert (bi.listeners.connect, bool(etl.listeners.connect)) == (None, True)
    assert not ad_hoc.serves_thrift
    assert bi.sessions.checkpoints == ad_hoc.sessions.checkpoints == "s3://b/c"
    assert etl.sessions.checkpoints == "s3://b/c/metastore_of_etl"
    assert [one.all_backends for one in (etl,)] == [{"default": etl.backend}]


def test_a_discovered_spark_has_its_address() -> None:
    settings = read(TWO + "  pool: {connect: {host: pool, port: 15}, discover: {dns: pool.corp}}\n")
    member = settings.backends["pool"].at_host("10.0.0.7")
    alone = settings.for_backend("pool", member)
    assert alone.backend.connect is not None
    assert (alone.backend.connect.host, alone.backend.connect.port) == ("10.0.0.7", 15)
    assert alone.backend.discover is None


def test_files_and_metalakes_are_of_the_first_sparks_metastore() -> None:
    lake = (
        "catalogs:\n  - name: l\n    catalog: {type: gravitino, connection-params:"
        ' {uri: "http://g", metalake: m}}\n'
    )
    settings = read(TWO + "files: {raw: {root: s3://b/raw}}\n" + lake)
    assert settings.files.keys() == {"raw"}
    main = settings.metastore_of(settings.main_backend)
    for name in settings.all_backends:
        shares = settings.metastore_of(name) == main
        assert bool(settings.for_backend(name).files) is shares


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            TWO + "  one: {thrift: {host: x}}\n  two: {thrift: {host: x}, metastore: Metastore_of_one}\n",
            "two metastores would have the checkpoints of streams in `Metastore_of_one`",
        ),
        (TWO + "routing: {default: [nowhere]}", "`nowhere` is neither a backend nor a tag"),
        (TWO + "routing: {rules: [{backends: [nowhere]}]}", "`nowhere` is neither a backend nor a tag"),
        (TWO + "routing: {rules: [{backends: []}]}", "at least 1"),
        (TWO + "  big: {thrift: {host: x}}\n", "`big` is a name and a tag"),
        (TWO + "  x: {}\n", "set either `thrift` or `embedded`"),
        (TWO + "  'a b': {thrift: {host: x}}\n", "should match pattern"),
        (TWO + "  x: {thrift: {host: x}, discover: {}}\n", "one of `file`, `dns` and `kubernetes`"),
        (
            TWO + "  x: {thrift: {host: x}, discover: {kubernetes: {service: s, namespace: n,"
            ' api: "http://k8s"}}}\n',
            "must be an `https://` address",
        ),
        (TWO + "  default: {thrift: {host: x}}\nbackend: {thrift: {host: y}}", "the one named `default`"),
        (
            "backends: {a: {thrift: {host: x}, discover: {dns: y}}, b: {thrift: {host: z}}}",
            "`a` cannot have `discover`",
        ),
        ("backends: {a: {embedded: {}}, b: {embedded: {}}}", "have the same `directory`"),
        ("backends: {a: {thrift: {host: x}}, b: {connect: {host: x}}}", "needs `listeners.connect`"),
    ],
)
def test_what_does_not_go_together_is_told(text: str, told: str) -> None:
    assert told in faults(text)
