"""The Spark that a gateway starts itself, from its settings."""

from __future__ import annotations

from gateway.app.catalogs import make_catalogs
from gateway.app.explaining import find_parser_jars, make_backend, minor_of_spark, own_extensions
from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.catalog.spark_settings import EXTENSIONS
from gateway.reader.class_archive import find_spark_classes
from gateway.reader.java_runtime import find_java, jdk_openings
from gateway.settings.backends import EmbeddedBackend
from gateway.settings.models import Settings


def make_embedded_spark(settings: Settings, embedded: EmbeddedBackend) -> EmbeddedSpark:
    """Return the Spark of the settings, not started, with the reader's Java and jars."""
    java = find_java(settings.reader.java)
    extensions = own_extensions(settings)
    parsers = find_parser_jars(settings.reader, extensions=extensions)
    options = EmbeddedSparkOptions(
        directory=embedded.directory,
        java=java,
        spark_home=parsers.spark_home,
        jars=parsers.jars,
        java_options=jdk_openings(),
        classes=find_spark_classes(java, parsers.spark_home),
        heap=embedded.heap,
        cores=embedded.cores,
        statements=settings.backend.statements,
        quick_start=embedded.quick_start,
        thrift_port=embedded.thrift_port,
        connect_port=embedded.connect_port,
        private_conf=build_embedded_conf(settings, extensions),
        start_timeout_s=embedded.start_timeout_s,
    )
    return EmbeddedSpark(options, lambda host, port: make_backend(settings.backend, host, port).probe())


def build_embedded_conf(settings: Settings, extensions: tuple[str, ...]) -> dict[str, str]:
    """Return what an embedded Spark is told of catalogs and extensions. Raises Faults."""
    told = make_catalogs(settings).of_start(minor_of_spark(settings))
    told.pop(EXTENSIONS, None)
    return {**told, EXTENSIONS: ",".join(extensions)} if extensions else told
