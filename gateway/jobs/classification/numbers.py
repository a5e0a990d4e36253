"""Numbers that states give people, where python-stdnum has none, or asks more than made up data holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from gateway.jobs.classification.libraries import library
from gateway.jobs.classification.value_format import Find, Whole, of_pattern

_SSN = re.compile(r"(?<![\w-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![\w-])")
_NINO = re.compile(
    r"(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]"
    r"( ?)(?:[0-9]{2}\1){3}[A-D]"
)
_SVNR = re.compile(r"([0-9]{2}) ?([0-9]{2})([0-9]{2})([0-9]{2}) ?([A-Z]) ?([0-9]{2})([0-9])")
_DOCUMENT = re.compile(r"(?=(?:\D*\d){3})[A-Z0-9](?:[ ./-]?[A-Z0-9]){5,17}", re.IGNORECASE)
"""As countries number passports and licences: capitals and digits, of which each has some."""
_NUMBER = re.compile(
    r"(?![0-9]{1,3}(?:[.,][0-9]{3})*[.,][0-9]{1,2}$)(?![0-9]{4}-[0-9]{2}-[0-9]{2}\b)(?!.*X{3})"
    r"(?=(?:\D*\d){5})[A-Z0-9]{1,20}(?:[ ./-]{1,2}[A-Z0-9]{1,12}){0,5}"
)
"""No amount, no day, and no part hidden by a row of X."""
_SNILS = re.compile(r"([0-9]{3})-?([0-9]{3})-?([0-9]{3})[ -]?([0-9]{2})")
_PIS = re.compile(r"([0-9]{3})\.?([0-9]{5})\.?([0-9]{2})-?([0-9])")
_EMIRATES = re.compile(r"784-(?:19|20)[0-9]{2}-[0-9]{7}-[0-9]")
_CPF = re.compile(r"(?<![\w.-])[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}(?![\w-])")
_FISCALE = re.compile(r"(?<!\w)(?ai:[A-Z]{6}[0-9]{2}[ABCDEHLMPRST][0-7][0-9][A-Z][0-9]{3}[A-Z])(?!\w)")
_DNI = re.compile(r"(?<![\w-])[0-9]{8}-?[A-HJ-NP-TV-Z](?![\w-])")
_RIC = re.compile(r"[1-8][0-9]{5}((?:19|20)[0-9]{6})[0-9]{3}[0-9Xx]")


def _ssns_within(text: str) -> Iterator[str]:
    yield from (found.group() for found in _SSN.finditer(text))


def _sum_weighted(digits: str, weights: tuple[int, ...]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=True))


def _svnr(value: str) -> bool:
    """Germany's number of pension insurance: digits of each product of its weights are summed."""
    found = _SVNR.fullmatch(value)
    if found is None or not 1 <= int(found[2]) % 50 <= 31 or not 1 <= int(found[3]) <= 12:
        return False
    digits = "".join(found.groups()[:4]) + f"{ord(found[5]) - 64:02d}" + found[6]
    weights = (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)
    total = sum(sum(divmod(int(d) * w, 10)) for d, w in zip(digits, weights, strict=True))
    return total % 10 == int(found[7])


def _snils(value: str) -> bool:
    """Russia's number of pension insurance."""
    found = _SNILS.fullmatch(value)
    if found is None:
        return False
    return _sum_weighted("".join(found.groups()[:3]), tuple(range(9, 0, -1))) % 101 % 100 == int(found[4])


def _pis(value: str) -> bool:
    """Brazil's number of social integration."""
    found = _PIS.fullmatch(value)
    if found is None:
        return False
    rest = _sum_weighted("".join(found.groups()[:3]), (3, 2, 9, 8, 7, 6, 5, 4, 3, 2)) % 11
    return (0 if rest < 2 else 11 - rest) == int(found[4])


def _ric(value: str) -> bool:
    """China's number of identity by its day and its check digit; districts come and go, and are not asked."""
    found = _RIC.fullmatch(value)
    if found is None:
        return False
    try:
        datetime.strptime(found[1], "%Y%m%d")  # noqa: DTZ007 - a day of birth
    except ValueError:
        return False
    weights = tuple(pow(2, at, 11) for at in range(17, 0, -1))
    return "10X98765432"[_sum_weighted(value[:17], weights) % 11] == value[17].upper()


def _cpf(value: str) -> bool:
    # Eleven times the same digit has its check digits, and is nobody's.
    return len({c for c in value if c.isdigit()}) > 1 and bool(_stdnum("br.cpf").is_valid(value))


def _cpfs_within(text: str) -> Iterator[str]:
    yield from (found.group() for found in _CPF.finditer(text) if _cpf(found.group()))


def _fiscale(value: str) -> bool:
    return bool(_stdnum("it.codicefiscale").calc_check_digit(value.upper()[:15]) == value.upper()[15])


def _fiscales_within(text: str) -> Iterator[str]:
    yield from (found.group() for found in _FISCALE.finditer(text) if _fiscale(found.group()))


def _dni(value: str) -> bool:
    return bool(_stdnum("es.dni").calc_check_digit(value[:8]) == value[-1].upper())


def _stdnum(name: str) -> Any:
    return library(f"stdnum.{name}", "python-stdnum")


def _dnis_within(text: str) -> Iterator[str]:
    yield from (found.group() for found in _DNI.finditer(text) if _dni(found.group()))


def _number_like(value: str) -> bool:
    """Digits, or capitals and digits, as numbers of offices are: enough where a name says so for sure.

    Check digits of most countries' numbers are in no library, and data that is made up has them wrong.
    """
    return 7 <= sum(map(str.isalnum, value)) <= 26 and _NUMBER.fullmatch(value) is not None


NUMBERS: Mapping[str, tuple[Whole, Find | None]] = {
    "us_ssn": (lambda value: _SSN.fullmatch(value) is not None, _ssns_within),
    "gb_nino": of_pattern(_NINO),
    "de_svnr": (_svnr, None),
    "ru_snils": (_snils, None),
    "br_pis": (_pis, None),
    "cn_ric": (_ric, None),
    "ae_eid": of_pattern(_EMIRATES),
    "br_cpf_written": (lambda value: _CPF.fullmatch(value) is not None and _cpf(value), _cpfs_within),
    "it_codice_fiscale": (
        lambda value: _FISCALE.fullmatch(value) is not None and _fiscale(value),
        _fiscales_within,
    ),
    "es_dni_written": (lambda value: _DNI.fullmatch(value) is not None and _dni(value), _dnis_within),
    "document_number": of_pattern(_DOCUMENT),
    "number_like": (_number_like, None),
}

SHAPES = frozenset({"number_like", "document_number", "card_like", "epoch"})
"""Formats that tell no more than what a value could be: what has check digits goes before."""
