"""The libraries that formats need, which come in when the job runs and not before."""

from __future__ import annotations

import importlib
from typing import Any

from gateway.errors import Faults


def build_missing_library_error(package: str) -> Faults:
    """Return what is raised where a library is missing."""
    return Faults([f"the job `classify` needs {package}; install `sluice-gateway[jobs]`"])


def library(module: str, package: str) -> Any:
    """Return a module. Raises Faults."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise build_missing_library_error(package) from None
