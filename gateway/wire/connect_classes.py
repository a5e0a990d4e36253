"""Spark Connect's generated classes without the rest of pyspark, which brings pandas: 90 MiB and a second."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_PACKAGES = ("pyspark", "pyspark.sql", "pyspark.sql.connect")
_CLASSES = "pyspark.sql.connect.proto"


def import_classes() -> ModuleType:
    """Return the package of the generated classes. Raises ImportError where pyspark is not installed.

    Nothing of pyspark stays imported, so that whoever imports it gets all of it. protobuf has one class for
    each message, however often a module that makes it is run.
    """
    found = None if "pyspark" in sys.modules else find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        return import_module(_CLASSES)
    (place, *_) = found.submodule_search_locations
    for name in _PACKAGES:
        bare = ModuleType(name)
        bare.__path__ = ["/".join((place, *name.split(".")[1:]))]
        sys.modules[name] = bare
    try:
        return import_module(_CLASSES)
    finally:
        for name in [*_PACKAGES, *(one for one in sys.modules if one.startswith(_CLASSES))]:
            sys.modules.pop(name, None)
