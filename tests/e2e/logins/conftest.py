"""One OpenLDAP and one KDC for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.e2e.logins.directories import OpenLdap

collect_ignore_glob = [] if find_spec("ldap") and find_spec("oidc_provider_mock") else ["test_*.py"]
"""`make test` collects these too, without the extra. `make logins-test` installs it, or it finds no test."""


@pytest.fixture(scope="session")
def openldap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenLdap]:
    made = OpenLdap(Path(tmp_path_factory.mktemp("ldap")))
    made.prepare()
    made.start()
    yield made
    made.stop()
