"""Numbers of telephones: with their country, as people of a region write them, and within texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from gateway.errors import Faults
from gateway.jobs.classification.libraries import library
from gateway.jobs.classification.value_format import Whole

_FRACTION = re.compile(r"[0-9]+[.,][0-9]+")
_PHONE = re.compile(r"\+?\(?[0-9][0-9 ()./\u00a0-]{5,24}(?:\s?(?:x|ext\.?)\s?[0-9]{1,5})?")
_PARTS = re.compile(r"[0-9]+")
_NO_PHONE = re.compile(r"[0-9][./-].*")
"""Nobody writes the zero by itself and a dot behind it; versions are so."""
_DATE_LIKE = re.compile(
    r"\(?[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}\b.*|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4}"
)
_PLUS = re.compile(r"(?<![\w+])(?:\+|(?<![0-9] )00)[1-9][0-9 ()./\u00a0-]{6,20}[0-9]")
_NATIONAL = re.compile(
    r"(?=[(0-9])(?<![\w+.,/-])(?<![0-9] )(?<![0-9]{2} [A-Z]{4} )"
    r"(?:\(?0[1-9][0-9]{0,4}\)?[ /-][0-9][0-9 /-]{4,12}[0-9]|0[1-9][0-9]{8,9}"  # 0171 1234567
    r"|\(?[2-9][0-9]{2}\)?[ .-]{1,2}[2-9][0-9]{2}[.-][0-9]{4})"  # (212) 555-0123
    r"(?![\w-]|[.,/ ][0-9])"
)
"""National formats that, within a longer text, can only be a telephone number."""
_BRACKETED = re.compile(r"(?<![\w(])\([1-9][0-9]{1,2}\) ?9?[0-9]{4}[ -][0-9]{4}(?![\w-])")
"""As Brazil writes them, whose plan need not be one of the regions: (11) 96126-6175."""
_AFTER_ITS_WORD = re.compile(
    r"\b(?:tele?(?:ph|f)[oó]n\w*|t[eé]l|phone|mob(?:ile|il|iel)?|cell(?:ulare?)?|handy|m[oó]vil|celular|portable|gsm"
    r"|whats ?app|fax|puhelin|тел(?:ефон)?|моб(?:ильный)?|τηλ(?:έφωνο)?)"
    r"(?: ?(?:n[or°º]|num\w*|is|ist|est|es|jest))?[.:]{0,2} {0,2}"
    r"(\(?[0-9][0-9 ()./-]{6,18}[0-9])(?![\w-]|[.,][0-9])",
    re.IGNORECASE,
)
"""With its word before it, in whatever groups: tel. 600 123 456."""
_OF_SOMETHING_ELSE = re.compile(
    r"(?:\b(?:order|invoice|ref(?:erence)?|r[eé]f[eé]rence|r[eé]f|ticket|case|claim|policy|contract|serial|s/n|sn|sku|ean|gtin"
    r"|article|part|lot|batch|parcel|tracking|shipment|account|acct|po|id|imei|isbn"
    r"|auftrag|bestellung|rechnung|beleg|vorgang|vertrag|aktenzeichen|artikel|sendung|paket|konto|kunde"
    r"|dossier|commande|facture|contrat|colis|compte|pedido|factura|p[oó]liza|contrato|expediente|env[ií]o|cuenta"
    r"|ordine|fattura|pratica|polizza|spedizione|conto|bestelling|factuur|zending|zam[oó]wienie|zlecenie|faktura|umowa"
    r"|przesy[lł]ka|encomenda|fatura|processo|sipari[sş]|заказ|договор|сч[её]т|артикул)(?:s?(?:no|nr|number|nummer))?"
    r"|(?<!\w)#)(?:[ .:#-]{0,2}(?:n[or]|n[°º]|num(?:ber|mer|[eé]ro)?|id))?[ .:#=-]{0,3}$",
    re.IGNORECASE,
)
"""Words before a number that say that it is not a telephone number."""


def phone(value: str) -> bool:
    """Say whether this is a number with its country."""
    if not value.startswith(("+", "00", "(+")) or _PHONE.fullmatch(value.removeprefix("(")) is None:
        return False
    return _valid(value if "+" in value else f"+{value[2:]}", None)


def phone_like(value: str) -> bool:
    """Say whether these are as many digits as telephones have, written like the number of any country."""
    if _PHONE.fullmatch(value) is None or _DATE_LIKE.fullmatch(value) or _FRACTION.fullmatch(value):
        return False
    return 8 <= sum(map(str.isdigit, value)) <= 15


def phones_within(regions: Collection[str], text: str) -> Iterator[str]:
    """Yield the numbers in a text, by whatever tells there that they are of telephones."""
    for found in _PLUS.finditer(text):
        number = found.group()
        if phone(number) and (number[0] == "+" or not _is_of_something_else(text, found.start())):
            yield number
    for found in _NATIONAL.finditer(text):
        number = found.group()
        if _DATE_LIKE.match(number) or re.fullmatch(r"[0-9]{3}-[0-9]{2}-[0-9]{4}", number):
            continue
        if any(_valid(number, region) for region in regions) and not _is_of_something_else(
            text, found.start()
        ):
            yield number
    if "(" in text:
        yield from (found.group() for found in _BRACKETED.finditer(text))
    yield from (found[1] for found in _AFTER_ITS_WORD.finditer(text) if phone_like(found[1]))


def _is_of_something_else(text: str, start: int) -> bool:
    return _OF_SOMETHING_ELSE.search(text[max(0, start - 24) : start]) is not None


def phone_of(region: str, *, written: bool) -> Whole:
    """Return what tells a number as people of a region write it, with the country or without. Raises Faults.

    `written` wants it as no other number is: with the zero or the bracket in front, or, where a country has
    no such zero, in three groups.
    """
    metadata = library("phonenumbers", "phonenumbers").PhoneMetadata.metadata_for_region(region)
    if metadata is None:
        raise Faults([f"phone numbers of the country `{region}` are not known"])
    least = 9 if metadata.national_prefix == "0" else 3

    def whole(value: str) -> bool:
        if _PHONE.fullmatch(value) is None or _DATE_LIKE.fullmatch(value) or _FRACTION.fullmatch(value):
            return False
        if value.startswith("+"):
            return phone(value)
        if written:
            if value[0] == "0" and _NO_PHONE.fullmatch(value):
                return False
            groups = len(_PARTS.findall(value))
            if not (2 if value.startswith(("0", "(")) else least) <= groups <= 6:
                return False
        return _valid(value, region)

    return whole


@lru_cache(maxsize=4_096)
def _valid(value: str, region: str | None) -> bool:
    """Remembered: several formats of several classes ask for each value."""
    numbers = library("phonenumbers", "phonenumbers")
    try:
        number = numbers.parse(value, region)
    except numbers.NumberParseException:
        return False
    return bool(numbers.is_valid_number(number)) or (
        # Kept free for fiction, and so in no plan.
        number.country_code == 1
        and re.fullmatch(r"[2-9]\d{2}55501\d{2}", str(number.national_number)) is not None
    )
