"""What the parameters of a `gravitino` entry say: how a metalake is asked, and what is taken of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gateway.policy.diagnostics import Diagnostics, Path

if TYPE_CHECKING:
    from gateway.settings.section import Secret

SET = "set."
"""`set.CATALOG.PARAMETER` is told to Spark of a catalog whatever the server says of it."""
LOGINS: Mapping[str, frozenset[str]] = {
    "none": frozenset(),
    "simple": frozenset(),
    "basic": frozenset({"user", "password"}),
    "oauth2": frozenset({"oauth2-server-uri", "credential"}),
}
"""How a server is logged in to → parameters that it needs."""
CONNECTORS = ("native", "gravitino")
PROVIDER_SWITCHES = ("iceberg",)
"""What rows of the table of providers may ask for by `enabled_by`."""
_SWITCHES = (*PROVIDER_SWITCHES, "tags", "owners", "privileges")
_NUMBERS: Mapping[str, tuple[float, float, float]] = {
    "poll-s": (0.1, 86_400, 30),
    "timeout-s": (0.1, 600, 30),
    "max-stale-s": (1, 31_536_000, 86_400),
    "max-bytes": (1024, 2**30, 64 * 1024**2),
}
"""Parameter → least, most, and what it is where nothing is said."""
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "auth": tuple(LOGINS),
    "connectors": CONNECTORS,
    **dict.fromkeys(_SWITCHES, ("true", "false")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetalakeSettings:
    """One metalake, and what is taken of it."""

    uri: str
    metalake: str
    auth: str = "simple"
    own_connectors: bool = False
    """Whether Spark has Gravitino's own connector on its class path."""
    enabled: frozenset[str] = frozenset()
    """Of the switches that rows of the table of providers name, those that are on."""
    tags: bool = True
    owners: bool = True
    privileges: bool = False
    """Whether its roles allow and deny."""
    poll_s: float
    """Seconds between questions."""
    timeout_s: float
    """Seconds for one answer."""
    max_stale_s: float
    """Seconds without a whole answer after which its catalogs are refused."""
    max_bytes: int
    """Largest answer."""
    set_parameters: Mapping[str, Mapping[str, str | Secret]] = field(default_factory=dict, repr=False)
    """Catalog (lower case) → parameters."""


def metalake_settings(parameters: Mapping[str, str | Secret]) -> MetalakeSettings:
    """Return what checked parameters say."""
    plain = {key.lower(): value for key, value in parameters.items() if isinstance(value, str)}
    own: dict[str, dict[str, str | Secret]] = {}
    for key, value in parameters.items():
        if key.lower().startswith(SET):
            catalog, _, parameter = key[len(SET) :].partition(".")
            own.setdefault(catalog.lower(), {})[parameter] = value

    def on(switch: str, default: str) -> bool:
        return plain.get(switch, default).lower() == "true"

    numbers = {key: float(plain.get(key, usual)) for key, (_, _, usual) in _NUMBERS.items()}
    return MetalakeSettings(
        uri=plain["uri"],
        metalake=plain["metalake"],
        auth=plain.get("auth", "simple").lower(),
        own_connectors=plain.get("connectors", "native").lower() == "gravitino",
        enabled=frozenset(one for one in PROVIDER_SWITCHES if on(one, "false")),
        tags=on("tags", "true"),
        owners=on("owners", "true"),
        privileges=on("privileges", "false"),
        max_bytes=int(numbers["max-bytes"]),
        set_parameters=own,
        poll_s=numbers["poll-s"],
        timeout_s=numbers["timeout-s"],
        max_stale_s=numbers["max-stale-s"],
    )


def check_metalake(parameters: Mapping[str, Any], at: Path, faults: Diagnostics) -> None:
    """Note what is wrong with the parameters of an entry, beyond their names."""
    folded = {key.lower(): (key, value) for key, value in parameters.items()}
    for name, choices in _CHOICES.items():
        key, value = folded.get(name, (name, choices[0]))
        if not isinstance(value, str) or value.lower() not in choices:
            faults.add((*at, key), f"`{key}` must be {' or '.join(choices)}, not `{value}`")
    for name, (least, most, _) in _NUMBERS.items():
        key, value = folded.get(name, (name, ""))
        if name in folded and not _between(value, least, most):
            faults.add((*at, key), f"`{key}` must be a number from {least:g} to {most:g}")
    for name in ("uri", "oauth2-server-uri"):
        key, value = folded.get(name, (name, ""))
        if name in folded and not _is_address(value):
            faults.add((*at, key), f"`{key}` must be an address such as `https://gravitino.internal:8090`")
    key, metalake = folded.get("metalake", ("metalake", "x"))
    if not isinstance(metalake, str) or not metalake:
        faults.add((*at, key), "`metalake` must be a name")
    for written in parameters:
        _, _, rest = written.partition(".")
        if written.lower().startswith(SET) and not all(rest.partition(".")[::2]):
            faults.add(
                (*at, written), f"`{written}` must name a catalog and a parameter: `set.CATALOG.PARAMETER`"
            )
    auth = folded.get("auth", ("", "simple"))[1]
    needed = LOGINS.get(auth.lower(), frozenset()) if isinstance(auth, str) else frozenset()
    for name in sorted(needed - folded.keys()):
        faults.add(at, f"`auth: {auth}` needs the parameter `{name}`")


def _between(value: Any, least: float, most: float) -> bool:
    try:
        return least <= float(value) <= most
    except (TypeError, ValueError):
        return False


def _is_address(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
    except ValueError:
        return False
