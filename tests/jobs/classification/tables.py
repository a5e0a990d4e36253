# ruff: noqa: E501 - a table of makers, one to a line
"""Whole tables that were written before anybody looked at the rules, with a label for each column.

A file of `tables/` has tables as `@name people`, and their columns as `name:maker(what)!label`: a
dot in the middle is a space, a label is a class, several with `|` between, `-` none, and `?` may be. Values are
made with a seed; `people.txt` has the names, towns and streets of lands.
"""

from __future__ import annotations

import base64
import random
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path

from gateway.jobs.classification.scoring import Sampled

SETS = ("terse", "plain", "languages", "later", "last", "after", "lookalikes")
ROWS = 60
_HERE = Path(__file__).parent / "tables"
_COLUMN = re.compile(r"([^:]+):(\w+)(?:\(([^)]*)\))?(?:!(\S+))?")
_TODAY = date(2025, 6, 1)


@dataclass(frozen=True)
class People:
    """What people of a land are called and where they live."""

    country: str
    """Of their telephones, with a plus."""
    given: list[str]
    family: list[str]
    towns: list[str]
    streets: list[str]


@dataclass(frozen=True)
class Table:
    name: str
    columns: list[Sampled]
    labels: list[frozenset[str]]
    """Of each column; with `-` it may have no class, and with `?` it counts neither way but where it has one."""


class _Row:
    """What makers draw of."""

    def __init__(self, r: random.Random, land: str) -> None:
        self.r, self.land, self.people = r, land.rstrip("2"), _people()[land]
        self.count = r.randrange(1000, 90000)

    def of(self, shape: str) -> str:
        """Return a shape with its digits (9), capitals (A) and small letters (a) drawn; `\\` keeps one."""
        letters = {"9": string.digits, "A": "ABCDEFGHJKLMNPRSTUVWXYZ", "a": "abcdefghijkmnoprstuvwxyz"}
        parts = re.findall(r"\\.|.", shape)
        return "".join(self.r.choice(letters[p]) if p in letters else p[-1] for p in parts)

    def any_of(self, letters: str, count: int) -> str:
        return "".join(self.r.choice(letters) for _ in range(count))

    def hex(self, count: int) -> str:
        return self.any_of("0123456789abcdef", count)

    def mixed(self, count: int) -> str:
        return self.any_of(string.ascii_letters + string.digits, count)

    def day(self, first: int, last: int) -> date:
        return date(first, 1, 1) + timedelta(days=self.r.randrange((last - first + 1) * 365))

    def born(self, form: str) -> str:
        return self.day(1938, 2006).strftime(form)

    def aged(self, form: str) -> str:
        years = min(max(self.r.gauss(44, 16), 18), 92)
        return (_TODAY - timedelta(days=int(years * 365.25) + self.r.randrange(365))).strftime(form)

    def lately(self, form: str) -> str:
        """A day that is the less likely the longer ago it is, as those on which something began."""
        return (_TODAY - timedelta(days=int(self.r.expovariate(1 / 2200)))).strftime(form)


@cache
def _people() -> dict[str, People]:
    lines = (_HERE / "people.txt").read_text(encoding="utf-8").splitlines()
    found = {}
    for at in range(0, len(lines), 5):
        land, country = lines[at].split()
        given, family, towns = (
            [word.replace("_", " ") for word in line.split()] for line in lines[at + 1 : at + 4]
        )
        found[land] = People(country, given, family, towns, lines[at + 4].strip().split(" | "))
    return found


# -- makers --------------------------------------------------------------------------------------------------


def _given(row: _Row) -> str:
    return row.r.choice(row.people.given)


def _family(row: _Row) -> str:
    return row.r.choice(row.people.family)


def _full(row: _Row) -> str:
    given, family = _given(row), _family(row)
    if row.land in ("zh", "ko", "ja", "hu"):
        return f"{family}{'' if row.land in ('zh', 'ko') else ' '}{given}"
    return f"{given} {family}"


def _login(row: _Row) -> str:
    words = ("g", "owen", "nora", "tess", "marsh", "dalton", "hobbs", "kaya", "lund", "novak")
    return f"{row.r.choice(words)}{row.r.choice('._')}{row.r.choice(words)}{row.of('99')}"


def _mail(row: _Row) -> str:
    return f"{_login(row)}@{row.r.choice(('gmail.com', 'mail.example.org', 'firma.biz', 'uni.edu'))}"


def _street(row: _Row) -> str:
    return row.r.choice(row.people.streets).replace("#", str(row.r.randrange(1, 180)))


def _phone(row: _Row) -> str:
    return row.people.country + row.of(
        {"+44": "7999999999", "+1": "2125550199"}.get(row.people.country, "699999999")
    )


def _luhn(digits: str) -> str:
    total = 0
    for at, digit in enumerate(reversed(digits)):
        doubled = int(digit) * 2
        total += int(digit) if at % 2 else doubled - 9 * (doubled > 9)
    return f"{digits}{-total % 10}"


def _card(row: _Row) -> str:
    return _luhn(row.r.choice(("4777", "5177", "5577", "2221")) + row.of("99999999999"))


def _iban(row: _Row, country: str) -> str:
    shapes: dict[str, int | str] = {
        "FR": 23,
        "ES": 20,
        "NL": "INGB9999999999",
        "PL": 24,
        "IT": "X" + "9" * 22,
        "AT": 16,
        "CZ": 20,
    }
    shapes |= {
        "GB": "BARC" + "9" * 14,
        "SA": 20,
        "TR": 22,
        "RO": "RNCB" + "9" * 16,
        "PT": 21,
        "FI": 14,
        "LT": 16,
    }
    shapes |= {"GR": 23, "HU": 24, "BG": "BNBG" + "9" * 14, "HR": 17, "EE": 16, "SI": 15}
    shape = shapes.get(country, 18)
    digits = "9" * shape if isinstance(shape, int) else shape
    account = "".join(row.r.choice(string.digits) if c == "9" else c for c in digits)
    number = int("".join(str(int(c, 36)) for c in f"{account}{country}00"))
    return f"{country}{98 - number % 97:02}{account}"


def _vat(row: _Row, country: str) -> str:
    digits = row.r.choice("123456789") + row.of("9999999")
    if country == "DE":
        product = 10
        for digit in digits:
            product = ((int(digit) + product) % 10 or 10) * 2 % 11
        return f"DE{digits}{(11 - product) % 10}"
    if country == "FR":
        siren = _luhn(digits)
        return f"FR{(12 + 3 * (int(siren) % 97)) % 97:02}{siren}"
    if country == "IT":
        return "IT" + _luhn(digits + row.of("99"))
    if country == "PL":
        return "PL" + _weighted(row, 9, (6, 5, 7, 2, 3, 4, 5, 6, 7), lambda total: total % 11)
    shapes = {"NL": "NL999999999B99"}
    return row.of(shapes.get(country, country.replace("A", r"\A") + "999999999"))


def _weighted(row: _Row, count: int, weights: tuple[int, ...], check: Callable[[int], int]) -> str:
    """Digits and the one that their weighted sum comes to, where it is one."""
    while True:
        digits = row.r.choice("123456789") + row.of("9" * (count - 1))
        last = check(sum(int(a) * b for a, b in zip(digits, weights, strict=True)))
        if last < 10:
            return f"{digits}{last}"


def _pesel(row: _Row) -> str:
    digits = row.day(1950, 1999).strftime("%y%m%d") + row.of("9999")
    weights = (1, 3, 7, 9, 1, 3, 7, 9, 1, 3)
    return f"{digits}{-sum(int(a) * b for a, b in zip(digits, weights, strict=True)) % 10}"


def _cpf(row: _Row) -> str:
    digits = row.of("999999999")
    for count in (10, 11):
        total = sum(int(a) * b for a, b in zip(digits, range(count, 1, -1), strict=True))
        digits += str(total * 10 % 11 % 10)
    return f"{digits[:3]}.{digits[3:6]}.{digits[6:9]}-{digits[9:]}"


def _dni(row: _Row) -> str:
    number = row.r.randrange(10_000_000, 99_999_999)
    return f"{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[number % 23]}"


def _tckn(row: _Row) -> str:
    digits = [row.r.randrange(1, 10) for _ in range(9)]
    digits.append((sum(digits[::2]) * 7 - sum(digits[1:8:2])) % 10)
    return "".join(map(str, (*digits, sum(digits) % 10)))


def _personnummer(row: _Row) -> str:
    digits = _luhn(row.day(1945, 2003).strftime("%y%m%d") + row.of("999"))
    return f"{digits[:6]}-{digits[6:]}"


def _hetu(row: _Row) -> str:
    day, number = row.day(1945, 1999).strftime("%d%m%y"), f"{row.r.randrange(2, 899):03}"
    return f"{day}-{number}{'0123456789ABCDEFHJKLMNPRSTUVWXY'[int(day + number) % 31]}"


def _ric(row: _Row) -> str:
    digits = (
        row.r.choice(("110105", "310104", "440106")) + row.day(1950, 2003).strftime("%Y%m%d") + row.of("999")
    )
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return digits + "10X98765432"[sum(int(a) * b for a, b in zip(digits, weights, strict=True)) % 11]


def _nir(row: _Row) -> str:
    digits = f"{row.r.choice('12')}{row.day(1945, 2003):%y%m}{row.r.randrange(1, 95):02}"
    digits += f"{row.r.randrange(1, 500):03}{row.r.randrange(1, 500):03}"
    return f"{digits}{97 - int(digits) % 97:02}"


def _ssn(row: _Row) -> str:
    return f"{row.r.randrange(100, 665)}-{row.r.randrange(1, 99):02}-{row.r.randrange(1, 9999):04}"


def _password(row: _Row) -> str:
    word = row.r.choice(("Summer", "hunter", "Passw0rd", "qwerty", "Liverpool", "Berlin", "sunshine"))
    return f"{word}{row.of(row.r.choice(('99', '999', '9999')))}{row.r.choice(('', '!', '#', '?'))}"


def _jwt(row: _Row) -> str:
    body = base64.urlsafe_b64encode(f'{{"sub":"{row.of("9999999999")}"}}'.encode()).decode().strip("=")
    return f"eyJhbGciOiJIUzI1NiJ9.{body}.{row.mixed(43)}"


def _count(row: _Row) -> str:
    row.count += 1
    return str(row.count)


def _words(row: _Row, *parts: str) -> str:
    return " ".join(row.r.choice(part.split(",")) for part in parts)


def _ean(row: _Row, first: str) -> str:
    digits = first + row.of("999999999999")[: 12 - len(first)]
    return f"{digits}{-sum(int(d) * (1, 3)[at % 2] for at, d in enumerate(digits)) % 10}"


def _place(row: _Row) -> tuple[float, float]:
    return row.r.uniform(35, 59), row.r.uniform(3, 39)


def _time(row: _Row) -> str:
    return f"{row.day(2021, 2024)} {row.r.randrange(24):02}:{row.r.randrange(60):02}:{row.r.randrange(60):02}"


Maker = Callable[..., str]
_AGENT = "Linux x86_64,Windows NT 10.0; Win64".split(",")
MAKERS: dict[str, tuple[str, str, Maker]] = {
    # People
    "first": ("person_name", "text", _given),
    "last": ("person_name", "text", _family),
    "full": ("person_name", "text", _full),
    "fl": ("person_name", "text", _full),
    "fullc": ("person_name", "text", lambda row: f"{_family(row)}, {_given(row)}"),
    "up": ("person_name", "text", lambda row: f"{_family(row).upper()} {_given(row)}"),
    "titled": ("person_name", "text", lambda row: f"{row.r.choice(('Dr. ', 'Prof. ', '', 'Mr '))}{_full(row)}"),
    "ini": ("person_name", "text", lambda row: f"{row.of('A')}. {_family(row)}"),
    "user": ("?", "text", _login),
    "email": ("email", "text", _mail),
    "em": ("email", "text", _mail),
    "phone": ("phone", "text", _phone),
    "phonel": ("phone", "text", lambda row: row.of("0699 999 999")),
    "phonei": ("phone", "integer", lambda row: f"{row.people.country[1:]}{row.of('699999999')}"),
    "ph": ("phone", "text", lambda row: f"{row.people.country}-{row.of('69-9999999')}"),
    "ph2": ("phone", "text", lambda row: row.of("0699999999")),
    "ph3": ("phone", "text", lambda row: row.of("0699/999-999")),
    "street": ("postal_address", "text", _street),
    "addr": ("postal_address", "text", lambda row: f"{_street(row)}, {row.of('99999')} {row.r.choice(row.people.towns)}"),
    "city": ("city", "text", lambda row: row.r.choice(row.people.towns)),
    "zip": ("?", "text", lambda row: row.of("99999")),
    # Births and other days
    "birth": ("birth_date", "date", lambda row: row.born("%Y-%m-%d")),
    "birthdot": ("birth_date", "text", lambda row: row.born("%d.%m.%Y")),
    "birthsl": ("birth_date", "text", lambda row: row.born("%d/%m/%Y")),
    "birthus": ("birth_date", "text", lambda row: row.born("%m/%d/%Y")),
    "births": ("birth_date", "text", lambda row: row.born("%Y%m%d")),
    "birthi": ("birth_date", "integer", lambda row: row.born("%Y%m%d")),
    "birtht": ("birth_date", "time", lambda row: row.born("%Y-%m-%d 00:00:00")),
    "birthkid": ("birth_date", "date", lambda row: row.day(2008, 2018).isoformat()),
    "bd": ("birth_date", "date", lambda row: row.aged("%Y-%m-%d")),
    "bd1": ("birth_date", "text", lambda row: row.aged("%d-%m-%Y")),
    "bd2": ("birth_date", "text", lambda row: row.aged("%Y/%m/%d")),
    "bd3": ("birth_date", "text", lambda row: row.aged("%b %d, %Y")),
    "bd5": ("birth_date", "text", lambda row: row.aged("%d.%m.%Y")),
    "bdt": ("birth_date", "time", lambda row: row.aged("%Y-%m-%dT00:00:00")),
    "bdp": ("birth_date", "date", lambda row: (_TODAY - timedelta(days=row.r.randrange(95 * 365))).isoformat()),
    "day": ("-", "date", lambda row, first="2015", last="2024": row.day(int(first), int(last)).isoformat()),
    "daydot": ("-", "text", lambda row, first="2015", last="2024": f"{row.day(int(first), int(last)):%d.%m.%Y}"),
    "dayc": ("-", "text", lambda row: f"{row.day(2015, 2024):%Y%m%d}"),
    "since": ("-", "date", lambda row: row.lately("%Y-%m-%d")),
    "ts": ("-", "time", _time),
    "epoch": ("-", "integer", lambda row: str(row.r.randrange(1_600_000_000, 1_740_000_000))),
    "epochms": ("-", "integer", lambda row: str(row.r.randrange(1_600_000_000_000, 1_740_000_000_000))),
    # Money and machines
    "card": ("card", "text", _card),
    "cardsp": ("card", "text", lambda row: " ".join(re.findall("....", _card(row)))),
    "cardi": ("card", "integer", _card),
    "cardmask": ("?", "text", lambda row: f"************{row.of('9999')}"),
    "iban": ("iban", "text", lambda row, country="DE": _iban(row, country)),
    "bic": ("-", "text", lambda row: row.of("AAAA") + row.r.choice(("DEAA", "FRBB", "NLCC", "GBDDXXX"))),
    "acct": ("?", "text", lambda row, count="10": row.of("9" * int(count))),
    "ip": ("ip_address", "text", lambda row: ".".join(str(row.r.randrange(1, 255)) for _ in range(4))),
    "ip6": ("ip_address", "text", lambda row: "2001:db8:" + ":".join(row.hex(4) for _ in range(6))),
    "mac": ("mac_address", "text", lambda row: ":".join(row.hex(2) for _ in range(6))),
    "macd": ("mac_address", "text", lambda row: "-".join(row.hex(2).upper() for _ in range(6))),
    "macc": ("mac_address", "text", lambda row: ".".join(row.hex(4) for _ in range(3))),
    "lat": ("coordinates", "fraction", lambda row: f"{_place(row)[0]:.6f}"),
    "lon": ("coordinates", "fraction", lambda row: f"{_place(row)[1]:.6f}"),
    "latlon": ("coordinates", "text", lambda row: "{:.5f},{:.5f}".format(*_place(row))),
    "wkt": ("coordinates", "text", lambda row: "POINT({1:.5f} {0:.5f})".format(*_place(row))),
    # Secrets
    "bcrypt": ("password", "text", lambda row: f"$2b$12${row.mixed(53)}"),
    "argon": ("password", "text", lambda row: f"$argon2id$v=19$m=65536,t=3,p=4${row.mixed(22)}${row.mixed(43)}"),
    "phpass": ("password", "text", lambda row: f"$P$B{row.mixed(30)}"),
    "pbk": ("password", "text", lambda row: f"pbkdf2_sha256$260000${row.mixed(12)}${row.mixed(43)}="),
    "sha": ("password", "text", lambda row: row.hex(64)),
    "plainpw": ("password", "text", _password),
    "sk": ("secret_key", "text", lambda row: f"sk_live_{row.mixed(24)}"),
    "akia": ("secret_key", "text", lambda row: "AKIA" + row.any_of(string.ascii_uppercase + "234567", 16)),
    "ghp": ("secret_key", "text", lambda row: f"ghp_{row.mixed(36)}"),
    "hexkey": ("secret_key", "text", lambda row, count="40": row.hex(int(count))),
    "b64key": ("secret_key", "text", lambda row: base64.b64encode(row.r.randbytes(32)).decode()),
    "jwt": ("secret_key", "text", _jwt),
    "slack": ("secret_key", "text", lambda row: f"xoxb-{row.of('99999999999-999999999999')}-{row.mixed(24)}"),
    "pem": (
        "secret_key",
        "text",
        lambda row: f"-----BEGIN RSA PRIVATE KEY-----\nMII{row.mixed(60)}\n-----END RSA PRIVATE KEY-----",
    ),
    # Numbers of people
    "pp": ("identity_document", "text", lambda row, shape="A9999999": row.of(shape)),
    "nid": ("national_id", "text", lambda row, shape="99999999999": row.of(shape)),
    "soc": ("social_security", "text", lambda row, shape="999999999": row.of(shape)),
    "tax": ("tax_id", "text", lambda row, shape="9999999999": row.of(shape)),
    "vat": ("vat_number", "text", lambda row, country="DE": _vat(row, country)),
    "ssn": ("social_security", "text", _ssn),
    "nino": ("social_security", "text", lambda row: row.r.choice(("AB", "JG", "PK", "SY")) + row.of("999999") + row.r.choice("ABCD")),
    "nir": ("social_security", "text", _nir),
    "pesel": ("national_id", "text", _pesel),
    "bsn": ("national_id", "text", lambda row: _weighted(row, 8, tuple(range(9, 1, -1)), lambda total: total % 11)),
    "dni": ("national_id", "text", _dni),
    "tckn": ("national_id", "text", _tckn),
    "pnr": ("national_id", "text", _personnummer),
    "hetu": ("national_id", "text", _hetu),
    "ric": ("national_id", "text", _ric),
    "cpf": ("tax_id", "text", _cpf),
    "cf": ("tax_id|national_id", "text", lambda row: row.of("AAAAAA99") + row.r.choice("ABCDEHLMPRST") + row.of("12H501A")),
    "pan": ("tax_id", "text", lambda row: row.of("AAA") + "P" + row.of("A9999A")),
    # What is none
    "id": ("-", "integer", _count),
    "int": ("-", "integer", lambda row, first="0", last="1000": str(row.r.randrange(int(first), int(last)))),
    "amt": ("-", "fraction", lambda row, most="5000": f"{row.r.uniform(1, float(most)):.2f}"),
    "pick": ("-", "text", lambda row, *these: row.r.choice(these)),
    "pat": ("-", "text", lambda row, shape: row.of(shape)),
    "uuid": ("-", "text", lambda row: f"{row.hex(8)}-{row.hex(4)}-4{row.hex(3)}-a{row.hex(3)}-{row.hex(12)}"),
    "digest": ("-", "text", lambda row: row.hex(64)),
    "sha1v": ("-", "text", lambda row: row.hex(40)),
    "hex": ("-", "text", lambda row, count="32": row.hex(int(count))),
    "sku": ("-", "text", lambda row: row.of("AAA-99999")),
    "isbn": ("-", "text", lambda row: _ean(row, "978")),
    "ean": ("-", "text", lambda row: _ean(row, "40")),
    "imei": ("-", "text", lambda row: _luhn("35" + row.of("999999999999"))),
    "ver4": ("-", "text", lambda row: f"{row.r.randrange(1, 9)}.{row.r.randrange(30)}.{row.of('9')}.{row.r.randrange(300, 999)}"),
    "company": ("-", "text", lambda row: _words(row, "Northwind,Alpine,Vertex,Blue Harbor,Kestrel,Delta Freight,Helios,Granite", "GmbH,Ltd,Inc.,S.A.,BV,AG,LLC,Systems,Foods")),
    "product": ("-", "text", lambda row: _words(row, "Oak,Steel,Cotton,Solar,Wireless,Ceramic,Folding", "Chair,Lamp,Kettle,Headset,Jacket,Drill", "XL,2,Pro,S,Mini")),
    "title": ("-", "text", lambda row: _words(row, "Quarterly,Updated,Draft,Annual,Final", "report,plan,review,notice", "on sales,for staff,of stock,2023")),
    "note": ("-", "text", lambda row: _words(row, "Left at reception,Customer asked for delay,No answer,Paid in full", "today.,again.,- see ticket.")),
    "book": ("-", "text", lambda row: _words(row, "The Silent,A Winter,Beyond the,Last,Under the", "River,Garden,Mountain,House,Letter,Empire")),
    "url": ("-", "text", lambda row: f"https://{row.r.choice(('www.example.com', 'cdn.site.io'))}/item/{row.of('999999')}"),
    "host": ("-", "text", lambda row: f"{row.r.choice(('web', 'db', 'api'))}-{row.of('99')}.eu-west.internal"),
    "ua": ("-", "text", lambda row: f"Mozilla/5.0 ({row.r.choice(_AGENT)}) AppleWebKit/5{row.of('99')}.36 Chrome/{row.of('99')}.0.0.0"),
    "bool": ("-", "text", lambda row: row.r.choice(("true", "false"))),
    "country": ("-", "text", lambda row: row.r.choice("DE FR US GB ES IT PL SE JP BR IN TR".split())),
    "cur": ("-", "text", lambda row: row.r.choice("EUR USD GBP SEK PLN CHF".split())),
    "dept": ("-", "text", lambda row: row.r.choice("Sales Finance Logistics IT Legal Marketing Research Support".split())),
    "job": ("-", "text", lambda row: row.r.choice("Engineer Accountant Nurse Driver Analyst Teacher Buyer Clerk".split())),
    "file": ("-", "text", lambda row: f"{row.r.choice(('scan', 'photo', 'export'))}_{row.of('99999')}.pdf"),
}  # fmt: skip
"""The label, the kind of column and the values that a maker stands for."""


def tables(name: str, rows: int = ROWS) -> Iterator[Table]:
    """Yield the tables of one of `SETS`."""
    for block in (_HERE / f"{name}.txt").read_text(encoding="utf-8").removeprefix("@").split("\n@"):
        head, *lines = block.split("\n")
        table, land = head.split()
        columns, labels = [], []
        for text in " ".join(lines).split():
            parts = _COLUMN.fullmatch(text)
            assert parts is not None, (table, text)
            label, kind, make = MAKERS[parts[2]]
            row = _Row(random.Random(f"{name} {table} {parts[1]}"), land)
            what = parts[3].split(",") if parts[3] else ()
            values = [make(row, *what).replace("·", " ") for _ in range(rows)]
            columns.append(Sampled(name=parts[1].replace("·", " "), kind=kind, values=values))
            labels.append(frozenset((parts[4] or label).split("|")))
        yield Table(table, columns, labels)
