"""What a gateway is made of, as `sluice version` and the metrics tell it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import gateway

PACKAGES = ("pyspark", "sqlglot", "thrift", "asyncpg", "pydantic")


def versions() -> dict[str, str]:
    """Return the versions of the gateway, of Python, and of packages, by name."""
    found = {"sluice": gateway.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
