"""What CACHE, UNCACHE and REFRESH of a path want: caches hold plans of raw tables, guards stand above.

What may be cached at all is said in `sql/varying.py`.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.model.resource import Resource
from gateway.model.statement import CreateTempView
from gateway.sql import storage
from gateway.sql.names import Names, TempViewName
from gateway.sql.required import Privilege, Required
from gateway.sql.scope import CannotClassify, CommandScope, table_resource
from gateway.sql.varying import find_varying_view, not_cached


def cache_table(scope: CommandScope) -> Required:
    _check_options(scope)
    existing = scope.resolve_existing("table")
    if isinstance(existing, TempViewName):
        check_cached_view(existing, scope.names)
        return Required()
    return replace(uncache_table(scope), cached=existing.table)


def check_cached_view(view: TempViewName, names: Names) -> None:
    """Refuse to cache a temporary view whose rows change."""
    if (why := find_varying_view(view, names)) is not None:
        raise CannotClassify(not_cached(why))


def uncache_table(scope: CommandScope) -> Required:
    existing = scope.resolve_existing("table")
    if isinstance(existing, TempViewName):
        return Required()
    return Required(privileges=(Privilege(table_resource(existing.table), "refresh"),), pins=(existing,))


def cache_table_as(scope: CommandScope) -> Required:
    """CACHE TABLE v AS …: a temporary view of a judged text, whose rows Spark keeps."""
    _check_options(scope)
    name = scope.text("tempViewName")
    if name is None:
        raise CannotClassify("the name of the view could not be parsed")
    return Required(effects=(CreateTempView(name),))


def clear_cache(scope: CommandScope) -> Required:
    # It drops the caches of everybody.
    # RULE (clear-cache)
    return Required(privileges=(Privilege(Resource.catalog(scope.names.context.catalog), "alter"),))


def refresh_path(scope: CommandScope) -> Required:
    path = scope.text("path")
    if path is None:
        raise CannotClassify("the path could not be parsed")
    # RULE (refresh-path)
    return Required(privileges=(Privilege(Resource.url(path), "read", tells_only=True),))


def _check_options(scope: CommandScope) -> None:
    for key in storage.keys(scope.field("options"), "options of the cache"):
        if key.lower() != "storagelevel":
            raise CannotClassify(f"the option `{key}` is not an option of CACHE")


def list_files(scope: CommandScope) -> Required:
    """LIST JARS, FILES, ARCHIVES: where the files are that anybody added to this Spark."""
    # RULE (list-files-privilege)
    return Required(privileges=(Privilege(Resource.url("/"), "read", tells_only=True),))
