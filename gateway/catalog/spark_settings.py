"""What Spark is told of a catalog: `spark.sql.catalog.NAME…`, extensions, the session catalog's metastore.

Spark makes a catalog when a name begins with it for the first time, from the settings of the session. So a
catalog with a name of its own needs no restart: each session that the gateway opens is given it. What is
about Spark's session catalog, and extensions, has to be there when Spark starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.catalog.kinds import KINDS, SESSION_CATALOG
from gateway.errors import Faults

EXTENSIONS = "spark.sql.extensions"
DEFAULT_CATALOG = "spark.sql.defaultCatalog"
_OF_THE_GATEWAY = frozenset({"class", "hive.metastore.db"})
"""Parameters that say something to us, and nothing to Spark."""

_OF_LOGINS = frozenset(
    {"token", "credential", "scope", "audience", "resource", "oauth2-server-uri", "token-exchange-enabled"}
)
_LOGIN_PREFIXES = ("rest.auth.", "header.authorization", "urn:ietf:params:oauth:token-type:")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCatalog:
    """A catalog with its parameters, secrets revealed: a repr shows none."""

    name: str
    type: str
    """A key of KINDS."""
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_default: bool = False


def is_login(parameter: str) -> bool:
    """Whether a parameter of a catalog of Iceberg's says as whom it is asked."""
    folded = parameter.lower()
    return folded in _OF_LOGINS or folded.startswith(_LOGIN_PREFIXES)


def user_login(catalog: str, token: str) -> dict[str, str]:
    """Return what a session is told so that a catalog of Iceberg's is asked by a user's token."""
    return {f"spark.sql.catalog.{catalog}.token": token}


def session_settings(catalogs: Iterable[NamedCatalog]) -> dict[str, str]:
    """Return what a session is given when it is opened. Raises Faults for a value that Hive's session
    configuration would not take as it stands."""
    told: dict[str, str] = {}
    for catalog in catalogs:
        if catalog.name.lower() != SESSION_CATALOG:
            told.update(_build_settings(catalog))
        if catalog.is_default:
            told[DEFAULT_CATALOG] = catalog.name
    for key, value in told.items():
        if "${" in value or "\0" in value:
            raise Faults([f"the value of `{key}` must not contain `${{`: Spark would substitute it"])
    return told


def start_settings(catalogs: Iterable[NamedCatalog], more: Iterable[str] = ()) -> dict[str, str]:
    """Return what a Spark is started with, that of `session_settings` included.

    `more` are types of catalogs that come while it runs.
    """
    listed = tuple(catalogs)
    told = session_settings(listed)
    for catalog in listed:
        if catalog.name.lower() == SESSION_CATALOG:
            told.update(_of_session_catalog(catalog))
    extensions = extensions_for([*(catalog.type for catalog in listed), *more])
    return {**told, EXTENSIONS: ",".join(extensions)} if extensions else told


def extensions_for(types: Iterable[str]) -> tuple[str, ...]:
    """Return the classes of `spark.sql.extensions` that catalogs of these types need."""
    return tuple(dict.fromkeys(one for one in (KINDS[name].extension for name in types) if one))


def _build_settings(catalog: NamedCatalog) -> dict[str, str]:
    """Return the settings of a catalog that has a name of its own; none when the class is not ours to say."""
    given = {key.lower(): value for key, value in catalog.parameters.items()}
    plugin = given.get("class") or KINDS[catalog.type].plugin
    return _prefix_keys(catalog, plugin) if plugin else {}


def _of_session_catalog(catalog: NamedCatalog) -> dict[str, str]:
    match catalog.type:
        case "hive" | "generic-hive-metastore":
            keys = {k: v for k, v in catalog.parameters.items() if k.lower() not in _OF_THE_GATEWAY}
            hadoop = {f"spark.hadoop.{key.removeprefix('hadoop.')}": value for key, value in keys.items()}
            return {"spark.sql.catalogImplementation": "hive", **hadoop}
        case _ if plugin := KINDS[catalog.type].session_plugin:
            return _prefix_keys(catalog, plugin)
        case _:
            return _build_settings(catalog)


def _prefix_keys(catalog: NamedCatalog, plugin: str) -> dict[str, str]:
    place = f"spark.sql.catalog.{catalog.name}"
    told = {place: plugin}
    for key, value in catalog.parameters.items():
        if key.lower() not in _OF_THE_GATEWAY:
            told[f"{place}.{key}"] = value
    return told
