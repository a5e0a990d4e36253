# ruff: noqa: E501 - a table of makers, one column of the corpus to a line
"""A labelled corpus of columns, made by code with a fixed seed: positives of each class in several countries and
languages, and columns that look like them and are none."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from importlib import import_module

from gateway.jobs.classification.scoring import Sampled

ROWS = 120
OPAQUE = ("c17", "field_4", "value", "col_b", "x", "data_2", "attr")
"""Names that say nothing."""

Make = Callable[[random.Random], str]


@dataclass(frozen=True)
class Labelled:
    column: Sampled
    label: str
    """The class; empty for none."""


# -- parts ---------------------------------------------------------------------------------------------------

GIVEN = """Ann Bertha Carl Dora Ewald Fritz Gloria Heinz Ines Jakob Katja Leander Mary Norbert Otto Paula Quentin
Robert Sandra Thomas Ulrike Valentina Walter Xenia Yvonne Zora Pierre Camille Hugo Manon Giulia Marco Chiara José
Lucía Pablo Rafael João Tiago Beatriz Daan Sanne Femke Bram James Linda Michael Susan David Karen Ahmed Fatima Mehmet
Ayşe Ravi Priya Wei Hiroshi Yuki Kofi Amara Björn Astrid Piotr Agnieszka Ivan Olga Tobias Anja Sven Nele Levke Ronja
Anneliese Detlef Baptiste Gaspard Solène Iñaki Nerea Gennaro Ilaria Afonso Mafalda Joris Roos Tess Declan Siobhan
Tyrone Keisha""".split()
FAMILY = """Smith Johnson Brown Taylor Anderson Clark Wright Müller Schmidt Fischer Weber Hoffmann Krause Lehmann Vogt
Pohl Kessler Dubois Moreau Laurent Petit Chevalier Delacroix Rossi Ferrari Esposito Bianchi Ricci Gatti García
Fernández López Sánchez Ruiz Echeverría Silva Santos Pereira Oliveira Carvalho Figueiredo Jansen Visser Bakker Mulder
Hoekstra Nilsson Andersen Kowalski Nowak Ivanova Yılmaz Kaya Patel Sharma Khan Nguyen Tanaka Sato Okafor Mensah
O'Brien Murphy MacLeod Quigley Thistlewood Underhill Zielonka Brandstetter""".split()
CITIES = """London;Leeds;York;Berlin;Hamburg;Köln;Leipzig;Ulm;Paris;Lyon;Lille;Nancy;Madrid;Sevilla;Bilbao;León;Roma;
Milano;Torino;Parma;Lisboa;Porto;Braga;Amsterdam;Utrecht;Zwolle;Wien;Graz;Zürich;Bern;Chicago;Boston;Denver;Tulsa;
Toronto;Sydney;Tokyo;Mumbai;São Paulo;Lima""".replace("\n", "").split(";")
DOMAINS = (
    "mail.example web.example acme.example.org uni-bonn.example correo.example.es posta.example.it".split()
)
STREETS = (
    *(
        "{n} {f} Street",
        "{n} {f} Avenue, Apt {k}",
        "{n} Old {f} Road",
        "{f}straße {n}",
        "{f}weg {n}a",
        "Am {f}platz {n}",
    ),
    *(
        "{n} rue de {f}",
        "{n} bis avenue {f}",
        "Calle {f}, {n}",
        "Avenida de {f} {n}",
        "Via {f} {n}",
        "Piazza {f}, {n}",
    ),
    *("Rua {f}, {n}", "Travessa {f} {n}", "{f}straat {n}", "{f}laan {n}-{k}"),
)
ABROAD = (
    *("{n}4 {f} Drive Suite {k}, {c}, NC {p}", "Flat {k}, {n} {f} Close, {c}, W8{k} 8XG", "{n}01 {f} Creek"),
    *("Strada {f} Nr. {n}, {c}, {p}7", "{f}vej {n}, {d} {c}", "{f}katu {n}, {p} {c}", "{f}gata {n}, {d} {c}"),
    *(
        "{f} utca {n}., H-{d} {c}",
        "ul. {f}a {n}/{k}, {k}-{d} {c}",
        "{f} sokak No: {n}, {c}",
        "U {f} {n}, {p} {c}",
    ),
    *(
        "H.No. {n}, {f} Nagar, {c}-{p}4",
        "Rua {f}, {n}, {p}-000 {c} / SP",
        "Calzada {f} {n} Interior {k}, {c}",
    ),
)
TOWNS_ABROAD = """Ljubljana;Maribor;Zagreb;Split;Rijeka;Plovdiv;Varna;Cluj-Napoca;Iași;Brașov;Szeged;Debrecen;Pécs;Győr;
Łódź;Katowice;Lublin;Brno;Ostrava;Olomouc;Turku;Oulu;Espoo;Trondheim;Stavanger;Uppsala;Västerås;Odense;Aalborg;
İzmir;Bursa;Konya;Adana;Pune;Jaipur;Lucknow;Nagpur;Omaha;Fresno;Tucson;Memphis;Durban;Pretoria;Darwin;Hobart;
Querétaro;Mérida;Rosario;Mendoza;Cali;Winnipeg;Halifax;Regina""".replace("\n", "").split(";")
TITLES = """Wall Garden Light Filter Pump Solar Green Blue Water Station Port Gate Server String Spring Field Mill Lock Key
Union Forest Point River Lake Summit Canyon""".split()
NOUNS = """order invoice shipment cable adapter bracket lamp table chair folder engine filter valve motor sensor panel
switch cover handle wheel spring bolt screw hinge gasket seal pump tube""".split()
PROSE = """the customer asked about delivery and we answered that it will take another week please check again before
closing this ticket because the part was damaged on arrival and has to be replaced by the supplier""".split()


def fold(text: str) -> str:
    return text.lower().translate(str.maketrans("äöüßáéíóúñçãõøåğışł' ", "aousaeiouncaooagisl--"))


def email(r: random.Random) -> str:
    return f"{fold(r.choice(GIVEN))}{r.choice(('.', '_', ''))}{fold(r.choice(FAMILY))}{r.choice(('', r.randint(1, 99)))}@{r.choice(DOMAINS)}"


def digits(r: random.Random, count: int, first: str = "0123456789") -> str:
    return r.choice(first) + "".join(r.choice(string.digits) for _ in range(count - 1))


def luhn(text: str) -> str:
    """Return a text with its check digit."""
    total = 0
    for index, digit in enumerate(reversed(text)):
        value = int(digit) * (2 if index % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return text + str(-total % 10)


def card(r: random.Random) -> str:
    kind = r.randrange(4)
    return luhn(
        (
            "4" + digits(r, 14),
            r.choice(("51", "53", "55")) + digits(r, 13),
            "37" + digits(r, 12),
            "6011" + digits(r, 11),
        )[kind]
    )


def grouped_card(r: random.Random) -> str:
    plain = luhn("4" + digits(r, 14))
    return " ".join(plain[i : i + 4] for i in range(0, 16, 4))


IBANS = {
    "DE": "n18",
    "FR": "n10c11n2",
    "ES": "",
    "IT": "",
    "NL": "a4n10",
    "PT": "",
    "GB": "a4n14",
    "AT": "n16",
    "CH": "n5c12",
}


def iban(country: str, *, spaced: bool = False) -> Make:
    shape = IBANS[country]

    def make(r: random.Random) -> str:
        body = ""
        for at in range(len(shape)):
            kind = shape[at]
            if kind in "nac":
                count = int("".join(c for c in shape[at + 1 : at + 3] if c.isdigit()))
                alphabet = {
                    "n": string.digits,
                    "a": string.ascii_uppercase,
                    "c": string.ascii_uppercase + string.digits,
                }[kind]
                body += "".join(r.choice(alphabet) for _ in range(count))
        number = "".join(str(int(c, 36)) for c in f"{body}{country}00")
        found = f"{country}{98 - int(number) % 97:02d}{body}"
        return " ".join(found[i : i + 4] for i in range(0, len(found), 4)) if spaced else found

    return make


def valid(make: Make, number: str) -> Make:
    """Return what makes texts until python-stdnum takes one."""
    module = import_module(f"stdnum.{number}")

    def find(r: random.Random) -> str:
        for _ in range(200_000):
            text = make(r)
            if module.is_valid(text):
                return text
        raise AssertionError(number)

    return find


def born(r: random.Random) -> date:
    return date(1935, 1, 1) + timedelta(days=r.randrange(26_000))


def dated(form: str, make: Make) -> Make:
    return lambda r: f"{born(r):{form}}{make(r)}"


def number(count: int, first: str = "0123456789") -> Make:
    return lambda r: digits(r, count, first)


def shaped(shape: str) -> Make:
    """`9` is a digit, `A` a capital; all else stands for itself."""

    def make(r: random.Random) -> str:
        found = {"9": string.digits, "A": string.ascii_uppercase}
        return "".join(r.choice(found[c]) if c in found else c for c in shape)

    return make


def nir(r: random.Random) -> str:
    body = f"{r.choice('12')}{r.randrange(40, 99):02d}{r.randrange(1, 13):02d}{r.randrange(1, 95):02d}{r.randrange(1, 990):03d}{r.randrange(1, 999):03d}"
    if body[5:7] == "20":
        body = body[:5] + "21" + body[7:]
    return f"{body}{97 - int(body) % 97:02d}"


def belgian(r: random.Random) -> str:
    body = f"{born(r):%y%m%d}{r.randrange(1, 998):03d}"
    return f"{body}{97 - int(body) % 97:02d}"


def ssn(r: random.Random) -> str:
    return f"{r.choice([n for n in range(1, 900) if n != 666]):03d}-{r.randrange(1, 100):02d}-{r.randrange(1, 10_000):04d}"


def codice(r: random.Random) -> str:
    module = import_module("stdnum.it.codicefiscale")
    letters = "BCDFGLMNPRSTVZ"
    day = born(r)
    body = "".join(r.choice(letters) for _ in range(6)) + f"{day:%y}" + "ABCDEHLMPRST"[day.month - 1]
    body += f"{day.day + r.choice((0, 40)):02d}{r.choice('ABCDEFGHIL')}{r.randrange(100, 999)}"
    return body + str(module.calc_check_digit(body))


def dni(r: random.Random) -> str:
    n = r.randrange(10**7, 10**8)
    return f"{n}{'TRWAGMYFPDXBNJZSQVHLCKE'[n % 23]}"


def phone(country: str, *, plus: bool = True) -> Make:
    phones = import_module("phonenumbers")
    shapes = {
        "US": ("+1 ({a}) 555-01{k}", "({a}) 555-01{k}", ("212", "415", "312", "617")),
        "GB": ("+44 20 7946 0{k3}", "020 7946 0{k3}", ("",)),
        "DE": ("+49 30 2312{k3}", "030 2312{k3}", ("",)),
        "FR": ("+33 1 99 00 {k} {k}", "01 99 00 {k} {k}", ("",)),
        "ES": ("+34 612 {k3} {k3}", "612 {k3} {k3}", ("",)),
        "IT": ("+39 347 {k3} {k3}1", "347 {k3} {k3}1", ("",)),
        "PT": ("+351 912 {k3} {k3}", "912 {k3} {k3}", ("",)),
        "NL": ("+31 6 1234 {k3}1", "06-1234{k3}1", ("",)),
    }
    assert set(shapes) <= phones.SUPPORTED_REGIONS
    international, national, areas = shapes[country]

    def make(r: random.Random) -> str:
        text = international if plus else national
        while "{k3}" in text:
            text = text.replace("{k3}", f"{r.randrange(1000):03d}", 1)
        while "{k}" in text:
            text = text.replace("{k}", f"{r.randrange(100):02d}", 1)
        return text.replace("{a}", r.choice(areas))

    return make


def address(r: random.Random) -> str:
    return r.choice(STREETS).format(n=r.randint(1, 240), k=r.randint(1, 30), f=r.choice(FAMILY))


def address_abroad(r: random.Random) -> str:
    return r.choice(ABROAD).format(
        n=r.randint(10, 98),
        k=r.randint(1, 9),
        f=r.choice(FAMILY),
        c=r.choice(TOWNS_ABROAD),
        p=digits(r, 5, "12345"),
        d=digits(r, 4, "12345"),
    )


def full_name(r: random.Random) -> str:
    return f"{r.choice(GIVEN)} {r.choice(FAMILY)}"


def alphabet(r: random.Random, letters: str, count: int) -> str:
    return "".join(r.choice(letters) for _ in range(count))


MIXED = string.ascii_letters + string.digits


def jwt(r: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': digits(r, 9)})}.{alphabet(r, MIXED, 43)}"


def prose(r: random.Random, count: int = 14) -> str:
    return " ".join(r.choice(PROSE) for _ in range(count))


def within(make: Make, share: float = 0.25) -> Make:
    """Free text, some of which holds one."""

    def text(r: random.Random) -> str:
        before, after = prose(r, 7), prose(r, 5)
        return f"{before} {make(r)} {after}" if r.random() < share else f"{before} {after}"

    return text


def in_json(key: str, make: Make) -> Make:
    return lambda r: json.dumps({"id": r.randrange(10**6), "who": {key: make(r)}, "tags": [r.choice(NOUNS)]})


def dirty(make: Make, share: float = 0.15) -> Make:
    """Some of it is not filled in well."""
    return lambda r: r.choice(("n/a", "-", "unknown", "TBD", "0")) if r.random() < share else make(r)


# -- the corpus ----------------------------------------------------------------------------------------------

Spec = tuple[str, str, str, Make]
"""Label, kind, names with commas between, values."""


def positives() -> list[Spec]:
    """Return what is of a class, as data."""
    o = ", ".join(OPAQUE[:3])
    found: list[Spec] = [
        (
            "email",
            "text",
            f"{o}, email, kundenEmail, courriel, correo_electronico, contact_mail, email_address",
            email,
        ),
        ("email", "text", "email, c3, Kontakt", dirty(email, 0.3)),
        ("email", "text", "adres_email, e_posta, メールアドレス, 用户邮箱", email),
        (
            "coordinates",
            "fraction",
            "szerokosc_geo, dlugosc_geo, enlem, boylam, 緯度, 经度",
            lambda r: f"{r.uniform(-60, 70):.6f}",
        ),
        ("postal_address", "text", "adres_zamieszkania, ev_adresi, 住所, 地址", address),
        ("city", "text", "miejscowość, şehir, 城市", lambda r: r.choice(CITIES)),
        ("person_name", "text", "imię_nazwisko, ad_soyad, 氏名, 姓名", full_name),
        (
            "birth_date",
            "date",
            "data_urodzenia, doğum_tarihi, 生年月日, 出生日期, birth_dt",
            lambda r: f"{born(r)}",
        ),
        (
            "password",
            "text",
            "hasło, şifre, パスワード, 密码",
            lambda r: f"{r.choice(GIVEN).lower()}{digits(r, 4)}!",
        ),
        ("email", "text", "notes, body, bemerkung", within(email)),
        ("email", "text", "payload, doc", in_json("mail", email)),
        ("email", "text", "sender, absender", lambda r: f"{full_name(r)} <{email(r)}>"),
        ("email", "nested", "contact, person", in_json("email", email)),
        (
            "ip_address",
            "text",
            f"{o}, client_ip, ip_adresse, adresseIp",
            lambda r: ".".join(str(r.randrange(1, 255)) for _ in range(4)),
        ),
        (
            "ip_address",
            "text",
            f"{o}, remote_addr",
            lambda r: ":".join(f"{r.randrange(65536):x}" for _ in range(8)),
        ),
        (
            "ip_address",
            "text",
            "log, message",
            within(lambda r: ".".join(str(r.randrange(20, 255)) for _ in range(4)), 0.5),
        ),
        (
            "mac_address",
            "text",
            f"{o}, mac, device_mac",
            lambda r: ":".join(f"{r.randrange(256):02x}" for _ in range(6)),
        ),
        (
            "mac_address",
            "text",
            f"{o}, macAddress, dir_mac",
            lambda r: "-".join(f"{r.randrange(256):02X}" for _ in range(6)),
        ),
        (
            "mac_address",
            "text",
            "hw, mac_adresse",
            lambda r: ".".join(f"{r.randrange(65536):04x}" for _ in range(3)),
        ),
        ("mac_address", "text", "hwaddr, bssid", lambda r: f"{r.getrandbits(48):012x}"),
        (
            "coordinates",
            "text",
            f"{o}, gps, koordinaten",
            lambda r: f"{r.uniform(-60, 70):.5f}, {r.uniform(-170, 170):.5f}",
        ),
        (
            "coordinates",
            "text",
            f"{o}, geo_point",
            lambda r: f"POINT({r.uniform(-170, 170):.5f} {r.uniform(-60, 70):.5f})",
        ),
        (
            "coordinates",
            "fraction",
            "latitude, lat, breitengrad, latitud, latitudine, breedtegraad",
            lambda r: f"{r.uniform(-60, 70):.6f}",
        ),
        (
            "coordinates",
            "fraction",
            "longitude, lng, home_lon, laengengrad, longitud",
            lambda r: f"{r.uniform(-170, 170):.6f}",
        ),
        (
            "postal_address",
            "text",
            f"{o}, address, strasse, rue, direccion, indirizzo, morada, adres, shipping_address",
            address,
        ),
        ("postal_address", "text", "home_address, anschrift, domicilio", dirty(address)),
        ("postal_address", "text", "c17, adresa, adress, lakcim", address_abroad),
        (
            "city",
            "text",
            f"{o}, city, wohnort, ville, ciudad, citta, cidade, woonplaats",
            lambda r: r.choice(CITIES),
        ),
        ("city", "text", "c43, town", lambda r: r.choice(TOWNS_ABROAD)),
        ("city", "text", "birthplace, lieu_de_naissance, stadt", dirty(lambda r: r.choice(CITIES))),
        (
            "person_name",
            "text",
            f"{o}, full_name, customerName, nom_complet, nombre_completo, kontoinhaber",
            full_name,
        ),
        (
            "person_name",
            "text",
            "first_name, vorname, prenom, nombre, nome, voornaam, givenName",
            lambda r: r.choice(GIVEN),
        ),
        (
            "person_name",
            "text",
            "last_name, nachname, nom_de_famille, apellido, cognome, sobrenome, achternaam",
            lambda r: r.choice(FAMILY),
        ),
        ("person_name", "text", f"{o}, name", lambda r: f"{r.choice(FAMILY)}, {r.choice(GIVEN)}"),
        (
            "person_name",
            "nested",
            "employee, holder",
            lambda r: json.dumps({"first_name": r.choice(GIVEN), "age": r.randint(18, 80)}),
        ),
        (
            "birth_date",
            "date",
            "birth_date, geburtsdatum, date_naissance, fecha_nacimiento, data_di_nascita",
            lambda r: f"{born(r)}",
        ),
        (
            "birth_date",
            "text",
            "dob, dateOfBirth, data_nascimento, geboortedatum, GEBDAT",
            lambda r: f"{born(r):%d.%m.%Y}",
        ),
        ("birth_date", "text", "birthday, born_on, nascita", lambda r: f"{born(r):%m/%d/%Y}"),
        ("birth_date", "text", "geb_datum, fødselsdato", lambda r: f"{born(r):%d.%m.%y}"),
        ("birth_date", "text", "dob, syntymäaika", lambda r: f"{born(r).day} March {born(r).year}"),
        ("birth_date", "text", "d_o_b, дата_рождения", lambda r: f"June {born(r).day}, {born(r).year}"),
        ("birth_date", "text", "születési_idő, datum_narození", lambda r: f"{born(r):%Y. %m. %d.}"),
        ("person_name", "text", "c60, arzt", lambda r: f"{r.choice(('dr.', 'Dr.', 'prof.'))} {full_name(r)}"),
        (
            "person_name",
            "text",
            "fornavn, etunimi, příjmení, vezetéknév, prenume",
            lambda r: f"{digits(r, 1, 'ABCDEFGH')}{alphabet(r, 'aeioklmnrst', 6)}",
        ),
        (
            "person_name",
            "text",
            "фамилия, ονοματεπώνυμο, 성명",
            lambda r: f"{digits(r, 1, 'АБВГД')}{alphabet(r, 'аеиокл', 6)}",
        ),
        ("birth_date", "integer", "birth_year, geburtsjahr, ano_nacimiento", lambda r: f"{born(r):%Y}"),
        ("birth_date", "time", "date_of_birth, geboren_am", lambda r: f"{born(r)} 00:00:00"),
        (
            "card",
            "text",
            f"{o}, card_number, kreditkarte, carte_bancaire, tarjeta, carta_di_credito, creditcard",
            card,
        ),
        ("card", "text", f"{o}, ccnum, PAN, kaartnummer", grouped_card),
        ("card", "integer", f"{o}, card_no, numero_tarjeta", card),
        ("card", "text", "comment, anmerkung", within(grouped_card)),
        ("card", "text", "payload, event", in_json("pan", card)),
        ("iban", "text", "notes, verwendungszweck", within(iban("DE", spaced=True))),
        ("iban", "text", "account, konto", dirty(iban("NL"))),
    ]
    found += [
        ("iban", "text", f"{o}, iban, bankverbindung, cuenta_bancaria", iban(c))
        for c in ("DE", "FR", "NL", "AT", "CH")
    ]
    found += [("iban", "text", f"{o}, IBAN_Nr", iban(c, spaced=True)) for c in ("DE", "FR", "NL")]
    found += [
        ("phone", "text", f"{o}, phone, telefon, telefono, portable, mobiel", phone(c))
        for c in ("US", "GB", "DE", "FR", "ES", "IT", "PT", "NL")
    ]
    found += [
        (
            "phone",
            "text",
            "phone_number, handynummer, movil, cellulare, telemovel, telefoonnummer, field_9",
            phone(c, plus=False),
        )
        for c in ("US", "GB", "FR", "ES", "NL")
    ]
    found += [
        ("phone", "text", "notes, nachricht", within(phone("DE"))),
        ("phone", "text", "notes, remark", within(lambda r: f"0171 {digits(r, 7)}")),
        (
            "phone",
            "text",
            "notes, remark",
            within(lambda r: f"({r.randrange(202, 209)}) 555-01{digits(r, 2)}"),
        ),
        (
            "phone",
            "text",
            "tlf, puhelinnumero, τηλέφωνο, 휴대폰",
            lambda r: f"{digits(r, 4, '2345')} {digits(r, 4)}",
        ),
        ("phone", "text", "mobile, tel", dirty(phone("GB"), 0.4)),
        ("phone", "integer", "mobile, msisdn", lambda r: phone("ES", plus=False)(r).replace(" ", "")),
    ]
    numbers: list[tuple[str, str, Make]] = [
        ("social_security", "ssn, social_security_number, c5, ss_no, field_2", ssn),
        ("social_security", "nir, numero_securite_sociale, c6, x", nir),
        ("social_security", "niss, rijksregisternummer, c6, x", belgian),
        (
            "social_security",
            "ahv_nummer, c7, versicherungsnummer",
            valid(lambda r: f"756{digits(r, 10)}", "ch.ssn"),
        ),
        (
            "social_security",
            "sv_nummer, c8, sozialversicherungsnummer",
            valid(lambda r: digits(r, 4, "123456789") + f"{born(r):%d%m%y}", "at.vnr"),
        ),
        ("social_security", "nino, ni_number, c9", lambda r: shaped("JH999999")(r) + r.choice("ABCD")),
        ("social_security", "sin_number, social_insurance", valid(shaped("999-999-999"), "ca.sin")),
        ("tax_id", "steuer_id, c1, steueridentifikationsnummer", valid(number(11, "123456789"), "de.idnr")),
        ("tax_id", "codice_fiscale, c2, cod_fiscale, x", codice),
        ("tax_id", "cpf, c3, contribuinte", valid(number(11), "br.cpf")),
        ("tax_id", "pan_number, c4, x", valid(shaped("AAAPA9999A"), "in_.pan")),
        ("tax_id", "nif_contribuinte, numero_contribuinte", valid(number(9, "12"), "pt.nif")),
        ("tax_id", "numero_fiscal, spi, c5", valid(number(13, "0123"), "fr.nif")),
        ("tax_id", "tfn, tax_file_number", valid(number(9, "123456789"), "au.tfn")),
        ("tax_id", "cuit, c8", valid(lambda r: "20" + digits(r, 9), "ar.cuit")),
        ("national_id", "dni, documento_identidad, c1, x", dni),
        (
            "national_id",
            "personnummer, c2",
            lambda r: (lambda b: f"{b[:6]}-{b[6:]}")(luhn(f"{born(r):%y%m%d}{r.randrange(1000):03d}")),
        ),
        ("national_id", "pesel, c3, x", valid(dated("%y%m%d", number(5)), "pl.pesel")),
        ("national_id", "bsn, burgerservicenummer, c4", valid(number(9, "123456789"), "nl.bsn")),
        (
            "national_id",
            "hetu, henkilotunnus, c5",
            valid(
                dated(
                    "%d%m%y",
                    lambda r: f"-{r.randrange(2, 900):03d}{r.choice('0123456789ABCDEFHJKLMNPRSTUVWXY')}",
                ),
                "fi.hetu",
            ),
        ),
        ("national_id", "tc_kimlik, c6, x", valid(number(11, "123456789"), "tr.tckimlik")),
        (
            "national_id",
            "cnp, c7",
            valid(
                lambda r: r.choice("12") + f"{born(r):%y%m%d}" + f"{r.randrange(1, 47):02d}" + digits(r, 4),
                "ro.cnp",
            ),
        ),
        (
            "national_id",
            "id_number, c8",
            valid(dated("%y%m%d", lambda r: digits(r, 4) + "08" + digits(r, 1)), "za.idnr"),
        ),
        (
            "national_id",
            "ppsn, c9",
            valid(lambda r: digits(r, 7) + r.choice("ABCDEFGHIJKLMNOPQRSTUVW"), "ie.pps"),
        ),
        ("national_id", "nhs_number, NhsNumber", valid(number(10), "gb.nhs")),
        ("national_id", "aadhaar, c10", valid(number(12, "23456789"), "in_.aadhaar")),
        ("national_id", "rut_cliente, c11", valid(shaped("99999999-9"), "cl.rut")),
        ("national_id", "rodne_cislo, rc_rodneCislo", valid(shaped("9999999999"), "cz.rc")),
        ("identity_document", "passport_no, PassportNumber, numero_pasaporte", number(9)),
        ("identity_document", "reisepassnummer, paspoort, paszport, 护照", shaped("A99999999")),
        ("identity_document", "driving_licence_no, fuehrerscheinnummer", shaped("AAAAA999999AA9AA")),
        ("vat_number", "vat_number, ust_id, c1", valid(lambda r: f"DE{digits(r, 9, '123456789')}", "eu.vat")),
        (
            "vat_number",
            "numero_tva, tva_intracommunautaire, c2",
            valid(lambda r: f"FR{digits(r, 11)}", "eu.vat"),
        ),
        ("vat_number", "partita_iva, c3", valid(lambda r: f"IT{digits(r, 7)}001{digits(r, 1)}", "eu.vat")),
        ("vat_number", "btw_nummer, c4", valid(lambda r: f"NL{digits(r, 9)}B01", "eu.vat")),
        ("vat_number", "uid_nummer, c5", valid(lambda r: f"CHE{digits(r, 9)}MWST", "ch.vat")),
        ("vat_number", "nif_iva, c6", lambda r: f"ES{dni(r)}"),
    ]
    found += [(label, "text", names, make) for label, names, make in numbers]
    keys: list[tuple[str, Make]] = [
        ("c1, access_key, x", lambda r: f"AKIA{alphabet(r, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567', 16)}"),
        ("c2, token, github", lambda r: f"ghp_{alphabet(r, MIXED, 36)}"),
        ("c3, slack", lambda r: f"xoxb-{digits(r, 11)}-{digits(r, 12)}-{alphabet(r, MIXED, 24)}"),
        ("c4, bearer, session", jwt),
        (
            "c5, private_key, cle_privee",
            lambda r: (
                f"-----BEGIN RSA PRIVATE KEY-----\n{alphabet(r, MIXED, 64)}\n-----END RSA PRIVATE KEY-----"
            ),
        ),
        ("c6, stripe", lambda r: f"sk_live_{alphabet(r, MIXED, 24)}"),
        (
            "api_key, apiKey, clave_api, chiave_segreta, geheimnis, jeton_acces",
            lambda r: alphabet(r, MIXED, 24),
        ),
        ("client_secret, clientSecret", lambda r: str(uuid.UUID(int=r.getrandbits(128)))),
        ("env, command", within(lambda r: f"API_TOKEN={alphabet(r, MIXED, 32)}", 0.1)),
        (
            "c8, header",
            lambda r: f"Basic {base64.b64encode(f'svc:{alphabet(r, MIXED, 10)}'.encode()).decode()}",
        ),
        ("client_secret, webhook_secret", lambda r: alphabet(r, "0123456789abcdef", 40)),
        ("c7, blob", lambda r: alphabet(r, MIXED, 48)),
        ("dsn, connection", lambda r: f"postgresql://app:{alphabet(r, MIXED, 12)}@db.example:5432/app"),
        ("log_line, message", within(lambda r: f"ghp_{alphabet(r, MIXED, 36)}", 0.05)),
        (
            "config, settings_json",
            in_json("aws", lambda r: f"AKIA{alphabet(r, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567', 16)}"),
        ),
    ]
    found += [("secret_key", "text", names, make) for names, make in keys]
    found += [
        (
            "password",
            "text",
            "password, passwort, mot_de_passe, contrasena, senha, wachtwoord, userPassword, pwd",
            lambda r: alphabet(r, MIXED + "!?#", 10),
        ),
        ("password", "text", "c1, pw_hash, x", lambda r: f"$2b$12${alphabet(r, MIXED + './', 53)}"),
        (
            "password",
            "text",
            "c2, hash",
            lambda r: f"$argon2id$v=19$m=65536,t=3,p=4${alphabet(r, MIXED, 22)}${alphabet(r, MIXED, 43)}",
        ),
        (
            "password",
            "text",
            "c3",
            lambda r: f"pbkdf2_sha256$260000${alphabet(r, MIXED, 12)}${alphabet(r, MIXED, 43)}=",
        ),
        ("password", "text", "kennwort, user_passwd", lambda r: r.choice(NOUNS) + digits(r, 2)),
    ]
    return found


def negatives() -> list[Spec]:
    """Return what looks like a class and is none."""

    def word(r: random.Random) -> str:
        return r.choice(NOUNS)

    def title(r: random.Random) -> str:
        return r.choice(TITLES)

    return [
        (
            "",
            "integer",
            "id, order_id, customer_id, amount_cents, c1, phone_count, x",
            number(9, "123456789"),
        ),
        ("", "integer", "id, c2, event_id, ref", number(16, "123456789")),
        ("", "integer", "c3, account_no, sku", number(11, "123456789")),
        ("", "integer", "c4, gtin, field_1", number(13, "123456789")),
        ("", "integer", "unix_time, created, c5", lambda r: str(1_600_000_000 + r.randrange(10**8))),
        ("", "integer", "ms, created_ms, c6", lambda r: str(1_600_000_000_000 + r.randrange(10**11))),
        ("", "text", "order_number, c7, bestellnummer", shaped("ORD-9999-999999")),
        ("", "text", "part_no, c8, artikelnummer, modelo", shaped("AA-9999-99")),
        ("", "text", "isbn, c9", valid(number(10), "isbn")),
        ("", "text", "isbn13, ean, c10", valid(lambda r: f"978{digits(r, 10)}", "isbn")),
        ("", "text", "ean, barcode, c11", valid(lambda r: f"40{digits(r, 11)}", "ean")),
        ("", "text", "imei, device, c12", lambda r: luhn("35" + digits(r, 12))),
        ("", "text", "siren, c13", lambda r: luhn(digits(r, 8, "345678"))),
        ("", "text", "org_nr, company_no", number(9, "123456789")),
        (
            "",
            "text",
            "version, build, release, firmware_version",
            lambda r: f"{r.randrange(1, 20)}.{r.randrange(30)}.{r.randrange(30)}.{r.randrange(250)}",
        ),
        ("", "fraction", "lat_ms, lat_ratio", lambda r: f"{r.uniform(0, 90):.4f}"),
        (
            "",
            "text",
            "wersja, surum",
            lambda r: f"{r.randrange(1, 20)}.{r.randrange(30)}.{r.randrange(30)}.{r.randrange(250)}",
        ),
        (
            "",
            "text",
            "sirket, c46",
            lambda r: f"{r.choice(FAMILY)} {r.choice(('S.A.', 'A.Ş.', 'Sp. z o.o.'))}",
        ),
        (
            "",
            "text",
            "version, c14, x",
            lambda r: f"{r.randrange(1, 20)}.{r.randrange(30)}.{r.randrange(30)}",
        ),
        (
            "",
            "text",
            "os_version, app_version",
            lambda r: f"10.0.{r.randrange(10000, 30000)}.{r.randrange(3000)}",
        ),
        ("", "text", "uuid, id, c15, request_id, token_id", lambda r: str(uuid.UUID(int=r.getrandbits(128)))),
        (
            "",
            "text",
            "sha256, checksum, digest, c16",
            lambda r: hashlib.sha256(digits(r, 9).encode()).hexdigest(),
        ),
        ("", "text", "md5, etag, c17", lambda r: hashlib.md5(digits(r, 9).encode()).hexdigest()),
        ("", "text", "commit, git_sha, c18", lambda r: hashlib.sha1(digits(r, 9).encode()).hexdigest()),
        (
            "",
            "text",
            "content_hash, c19",
            lambda r: base64.b64encode(hashlib.sha256(digits(r, 9).encode()).digest()).decode(),
        ),
        (
            "",
            "text",
            "time, c20, at",
            lambda r: f"{r.randrange(24):02d}:{r.randrange(60):02d}:{r.randrange(60):02d}",
        ),
        ("", "text", "day, c21, order_date, bestelldatum", lambda r: f"{born(r):%Y-%m-%d}"),
        ("", "text", "datum, c22, fecha, livraison", lambda r: f"{born(r):%d.%m.%Y}"),
        ("", "date", "created_at, hired, order_date, letzte_bestellung", lambda r: f"{born(r)}"),
        ("", "time", "updated_at, email_sent_at, password_changed_at", lambda r: f"{born(r)} 10:11:12"),
        (
            "",
            "text",
            "product_name, artikel, nom_produit, x, name_of_product",
            lambda r: f"{word(r)} {word(r)} {r.randrange(100)}",
        ),
        (
            "",
            "text",
            "company_name, c23, firma",
            lambda r: f"{r.choice(NOUNS).title()} {r.choice(('GmbH', 'Ltd', 'SA', 'BV', 'Inc'))}",
        ),
        (
            "",
            "text",
            "c24, company",
            lambda r: f"{r.choice(FAMILY)} {r.choice(('GmbH', 'Ltd', 'Holding', 'AG', 'Inc'))}",
        ),
        ("", "text", "file_name, path, c25", lambda r: f"/data/{word(r)}/{word(r)}_{r.randrange(999)}.csv"),
        (
            "",
            "text",
            "month, c26, monat",
            lambda r: r.choice(
                "January February March April May June July August September October November December".split()
            ),
        ),
        (
            "",
            "text",
            "color, farbe, c27",
            lambda r: r.choice("red green blue black white silver olive violet amber gold".split()),
        ),
        (
            "",
            "text",
            "status, state, c28, email_status, phone_type, password_policy",
            lambda r: r.choice("open closed pending new done failed".split()),
        ),
        (
            "",
            "text",
            "email_template, email_subject, mail_type",
            lambda r: f"{word(r)} {word(r)} {r.randrange(50)}",
        ),
        (
            "",
            "integer",
            "email_count, password_resets, mac_count, ip_count, card_count",
            lambda r: str(r.randrange(200)),
        ),
        ("", "text", "country, pays, c29", lambda r: r.choice("DE FR ES IT PT NL GB US AT CH".split())),
        ("", "text", "currency, c30", lambda r: r.choice("EUR USD GBP CHF SEK".split())),
        (
            "",
            "fraction",
            "price, amount, lateral, c31, langlebigkeit, flat_rate",
            lambda r: f"{r.uniform(1, 900):.2f}",
        ),
        ("", "fraction", "score, ratio, c32, latency, long_term_rate", lambda r: f"{r.uniform(0, 1):.6f}"),
        ("", "text", "range, c33, bounds", lambda r: f"{r.randrange(90)}, {r.randrange(90)}"),
        (
            "",
            "text",
            "url, link, website, c34",
            lambda r: f"https://www.{word(r)}.example/{word(r)}/{r.randrange(999)}",
        ),
        ("", "text", "repo, remote, git_url", lambda r: f"git@host.example:{word(r)}/{word(r)}.git"),
        ("", "text", "handle, twitter, c35", lambda r: f"@{word(r)}{r.randrange(99)}"),
        ("", "text", "comment, notes, beschreibung, descripcion", prose),
        (
            "",
            "text",
            "ticket, body_text",
            lambda r: (
                f"{prose(r, 8)} order {digits(r, 8)} at {r.randrange(24)}:{r.randrange(10, 60)} {prose(r, 4)}"
            ),
        ),
        (
            "",
            "text",
            "log, trace",
            lambda r: (
                f"{born(r)} INFO version 1.2.{r.randrange(9)}.{r.randrange(9)} of {word(r)} took {r.randrange(999)} ms"
            ),
        ),
        (
            "",
            "text",
            "payload, doc, event_json",
            lambda r: json.dumps({"id": r.randrange(10**9), "kind": word(r), "n": [1, 2, r.random()]}),
        ),
        (
            "",
            "nested",
            "item, lines",
            lambda r: json.dumps({"sku": digits(r, 8), "qty": r.randrange(9), "name_of_item": word(r)}),
        ),
        (
            "",
            "text",
            "phone_model, handy_modell, mobile_os",
            lambda r: f"{r.choice(('Galaxy', 'Pixel', 'Xperia'))} {r.randrange(3, 20)}",
        ),
        ("", "text", "zip_ranges, c36, plz_von_bis", lambda r: f"{digits(r, 5)}-{digits(r, 5)}"),
        ("", "text", "vat_rate, mwst_satz", lambda r: r.choice(("7 %", "19 %", "20 %", "21 %"))),
        ("", "text", "card_type, kartentyp, card_brand", lambda r: r.choice(("visa", "amex", "diners"))),
        ("", "text", "address_type, address_id", lambda r: r.choice(("billing", "shipping", "home"))),
        ("", "text", "street_type, c37", lambda r: r.choice(("road", "lane", "avenue"))),
        (
            "",
            "text",
            "measure, c38, dimensions",
            lambda r: f"{r.randrange(10, 99)} x {r.randrange(10, 99)} cm",
        ),
        ("", "text", "team, liga, c39", lambda r: f"FC {r.choice(NOUNS).title()} {r.randrange(1900, 2000)}"),
        ("", "text", "token_count, tokens_used, secret_santa_status", lambda r: str(r.randrange(5000))),
        ("", "text", "sentence, quote, titel", lambda r: f"{prose(r, 5)} {r.choice(NOUNS)}"),
        ("", "text", "mac_os, macro, imac_model", lambda r: f"{word(r)} {r.randrange(9, 15)}"),
        ("", "text", "iban_country, bank_country", lambda r: r.choice(("DE", "FR", "NL"))),
        ("", "text", "tracking, c40, shipment_no", shaped("1Z999AA99999999999")),
        ("", "text", "license_plate_pattern, c41", shaped("AA-A 9999")),
        ("", "text", "serial, seriennummer, c42", shaped("AAA999999999")),
        ("", "text", "reference, c43, vorgang", shaped("99-9999999")),
        (
            "",
            "text",
            "birth_count, birthday_coupon, place_of_delivery",
            lambda r: f"{word(r)}-{r.randrange(99)}",
        ),
        ("", "text", "product_title, c46", lambda r: f"{title(r)} {title(r)} {r.randint(1, 90)} cm"),
        ("", "text", "item, c47", lambda r: f"{title(r)} {title(r)} {digits(r, 4, '123')}"),
        (
            "",
            "text",
            "packs, c48",
            lambda r: f"{r.randint(2, 48)} {title(r)} {r.choice(('Lights', 'Keys', 'Springs'))}",
        ),
        (
            "",
            "text",
            "machine, c49",
            lambda r: f"{r.choice(('Hall', 'Rack', 'Gate', 'Port'))} {r.randint(1, 60)}B",
        ),
        (
            "",
            "text",
            "edition, c50",
            lambda r: f"{title(r)} {r.choice(('Edition', 'Update'))} {r.randint(1, 30)}",
        ),
        ("", "text", "chapter, c51", lambda r: f"Chapter {r.randint(1, 40)}: The {title(r)} {title(r)}"),
        ("", "text", "lot, c52", lambda r: f"Lot {digits(r, 4, '123')}, {title(r)} Mill"),
        ("", "text", "share, c53", lambda r: f"{r.random():.6f}"),
        ("", "text", "interval, c57", lambda r: f"{r.uniform(0, 1):.3f}, {r.uniform(1, 2):.3f}"),
        (
            "",
            "text",
            "c58, stand",
            lambda r: ".".join((str(r.randrange(1, 9)), *(str(r.randrange(60)) for _ in range(3)))),
        ),
        ("", "text", "pwd, cwd", lambda r: f"/srv/{word(r)}/{word(r)}"),
        ("", "text", "passport_country, passport_expiry", lambda r: r.choice(("DE", "FR", "2031-04-01"))),
        ("", "integer", "mobile_sessions, phone_id", number(8, "123456789")),
        (
            "",
            "text",
            "docket, c59",
            lambda r: (
                f"{prose(r, 3)} 12/{digits(r, 4)} of {r.randrange(10, 28)}/04/2023 10:15, room 0{digits(r, 3)}"
            ),
        ),
        (
            "",
            "text",
            "profession, c54",
            lambda r: r.choice("Baker Cook Mason Taylor Smith Fisher Miller Cooper".split()),
        ),
        (
            "",
            "text",
            "flower, c55",
            lambda r: r.choice("Rose Lily Daisy Violet Iris Poppy Heather Ivy Holly".split()),
        ),
        ("", "text", "team, c56", lambda r: f"{r.choice(CITIES)} {title(r)}s"),
        (
            "",
            "text",
            "species, c44",
            lambda r: r.choice(
                "Panthera leo;Canis lupus;Felis catus;Bos taurus;Sus scrofa;Ovis aries".split(";")
            ),
        ),
        (
            "",
            "text",
            "plan_name, tarif, c45",
            lambda r: r.choice(("Basic", "Plus", "Pro", "Team", "Enterprise", "Family")),
        ),
    ]


def eastern_address(r: random.Random) -> str:
    n, k = r.randint(1, 90), r.randint(1, 20)
    return r.choice(
        (
            f"東京都世田谷区桜丘{k}-{n}-3",
            f"京都府京都市左京区北白川{k}丁目{n}",
            f"广东省深圳市南山区科技园路{n}号",
            f"인천광역시 연수구 송도과학로 {n}",
            f"경상남도 창원시 성산구 원이대로 {n}-{k}",
        )
    )


def polish_account(r: random.Random) -> str:
    rest = digits(r, 24)
    return f"{98 - int(rest + '252100') % 97:02} " + " ".join(rest[at : at + 4] for at in range(0, 24, 4))


def later() -> list[Spec]:
    """Return what was wrong on tables written blind, made anew, and what is next to it."""
    return [
        ("postal_address", "text", "주소, 住所, c1", eastern_address),
        (
            "postal_address",
            "text",
            "ship_addr, str_hausnr, c2",
            lambda r: (
                f"{r.choice(FAMILY)}str{r.choice(('', '.'))} {r.randint(1, 99)}{r.choice(('', '-B', '/c'))}"
            ),
        ),
        (
            "postal_address",
            "text",
            "ev_adresi, c3",
            lambda r: (
                f"Kurtuluş Mah. {r.randint(100, 999)}. Sok. No:{r.randint(1, 90)} Kat:2 {r.choice(CITIES)}"
            ),
        ),
        (
            "person_name",
            "text",
            "pax_name, guest, c4",
            lambda r: f"{r.choice(FAMILY)}/{r.choice(GIVEN)} {r.choice(('MR', 'MRS', 'MS'))}".upper(),
        ),
        ("iban", "text", "nrb, c5", polish_account),
        ("vat_number", "text", "gstin, c6", valid(shaped("29AAAPA9999A1ZA"), "in_.gstin")),
        ("tax_id", "text", "nip", valid(number(10, "123456789"), "pl.nip")),
        ("tax_id", "text", "vkn", valid(number(10), "tr.vkn")),
        ("identity_document", "text", "rg, nr_dowodu", shaped("99.999.999-9")),
        ("birth_date", "date", "kunde_geb, fnac", lambda r: born(r).isoformat()),
        ("phone", "text", "alt_contact, caller", number(10, "6789")),
        (
            "",
            "text",
            "escola, c7",
            lambda r: f"{r.choice(('Colégio', 'Escola', 'Lycée'))} {r.choice(GIVEN)} {r.choice(FAMILY)}",
        ),
        ("", "text", "modell", lambda r: r.choice(CITIES)),
        ("", "text", "ref, c8", number(26, "123456789")),
        ("", "text", "store_dept, c9", lambda r: f"{r.choice(CITIES)}/{r.choice(NOUNS)}".upper()),
    ]


COMPANIES = """Nordsee Trading;Kessler Haus;Silva Mining;Blue Harbour Foods;Petit Marché;Quick Stop Grocery;Old Mill Bakery;
Lakeside Books;Rossi Motors;Green Valley Farms;Tiger Lily Florists;Copper Kettle;Harvest Table;Polar Freight;Sunrise Dairy
""".replace("\n", "").split(";")


def of_schemas() -> list[Spec]:
    """Return what was wrong on columns of well-known schemas written blind, made anew, and what is next to it."""
    few = [f"{GIVEN[at]} {FAMILY[at + 3]}" for at in range(0, 40, 5)]
    return [
        (
            "person_name",
            "text",
            "PID_5_name, attending_doctor_name, c1",
            lambda r: (
                f"{r.choice(('', '', '10042^'))}{r.choice(FAMILY)}^{r.choice(GIVEN)}{r.choice(('', '^Q', '^^^DR'))}".upper()
            ),
        ),
        ("person_name", "text", "assignee_name, adjuster, owner", lambda r: r.choice(few)),
        ("person_name", "text", "sn, name_last", lambda r: r.choice(FAMILY)),
        (
            "postal_address",
            "text",
            "postalAddress, registeredAddress, c2",
            lambda r: f"{address(r)}${digits(r, 5)} {r.choice(CITIES)}",
        ),
        ("birth_date", "text", "gbdat", lambda r: f"{born(r):%Y%m%d}"),
        ("birth_date", "text", "birth_datetime", lambda r: f"{born(r)} 00:00:00"),
        (
            "password",
            "text",
            "user_pass, c3",
            lambda r: r.choice(("$P$B", "$H$9", "$S$E")) + alphabet(r, MIXED + "./", 30),
        ),
        (
            "password",
            "text",
            "c4",
            lambda r: f"sha1${alphabet(r, MIXED, 8)}${hashlib.sha1(r.randbytes(8)).hexdigest()}",
        ),
        (
            "ip_address",
            "text",
            "inet, c5",
            lambda r: f"10.{r.randint(0, 9)}.{r.randint(0, 9)}.{r.randint(1, 99)}/24",
        ),
        (
            "",
            "text",
            "subnet, c6",
            lambda r: f"10.{r.randint(0, 99)}.{r.choice((0, 32, 64))}.0/{r.choice((20, 24))}",
        ),
        (
            "",
            "text",
            "message_id, in_reply_to",
            lambda r: f"<{alphabet(r, MIXED, 16)}@{r.choice(DOMAINS)}>",
        ),
        ("", "text", "name, NAME1", lambda r: r.choice(COMPANIES)),
        (
            "",
            "text",
            "owner",
            lambda r: r.choice(("Platform", "Data Team", "Search", "Billing", "Core", "Growth")),
        ),
        ("", "text", "sn, c7", shaped("SN99A9999")),
        ("", "text", "price_text, c8", lambda r: f"${r.randint(5, 60)} Park Pass"),
    ]


def family_first(families: str, given: str) -> Make:
    """A name of the east, with nothing between, of what people are called there."""
    return lambda r: r.choice(families.split()) + r.choice(given.split())


KOREAN = family_first("김 이 박 최 정 한 윤", "서윤 하은 지호 민재 수빈 영숙 성훈 은주 태영 나연 재현 소희")
CHINESE = family_first("王 李 张 陈 赵 许 梁", "伟 雪梅 志强 晓东 海燕 明 秀兰 建军 丽华 子涵 国平 婷")


def weighted(count: int, weights: str, check: Callable[[int], str]) -> Make:
    """Digits and what their weighted sum comes to."""

    def make(r: random.Random) -> str:
        found = digits(r, count)
        return found + check(sum(int(a) * int(b) for a, b in zip(found, weights.split(), strict=True)))

    return make


SNILS = weighted(9, "9 8 7 6 5 4 3 2 1", lambda total: f" {total % 101 % 100:02}")
PIS = weighted(10, "3 2 9 8 7 6 5 4 3 2", lambda total: "0" if total % 11 < 2 else str(11 - total % 11))


def chinese_id(r: random.Random) -> str:
    found = f"{r.choice(('310115', '330106', '510107'))}{born(r):%Y%m%d}{digits(r, 3)}"
    total = sum(int(a) * (2**at % 11) for a, at in zip(found, range(17, 0, -1), strict=True))
    return found + "10X98765432"[total % 11]


def of_many_lands() -> list[Spec]:
    """Return what was wrong in four sets of tables written blind, made anew, and what is next to it."""
    text = "text"
    return [
        ("person_name", text, "이름, 담당자, c1", KOREAN),
        ("person_name", text, "收件人, 联系人, c2", CHINESE),
        ("person_name", text, "customer_last, host_nm, c3", lambda r: r.choice(FAMILY)),
        ("person_name", text, "EMPFNAME", lambda r: r.choice(GIVEN).upper()),
        (
            "person_name",
            text,
            "اسم_العميل",
            lambda r: f"{r.choice(('منى', 'كريم', 'زياد'))} {r.choice(('حداد', 'بركات'))}",
        ),
        (
            "person_name",
            text,
            "पूरा_नाम",
            lambda r: f"{r.choice(('अमित', 'नेहा', 'विकास'))} {r.choice(('वर्मा', 'जोशी'))}",
        ),
        ("person_name", text, "hausarzt, c4", lambda r: f"Dr. med. {full_name(r)}"),
        (
            "",
            text,
            "品名, c5",
            lambda r: r.choice(
                "白酒 黄油 金属零件 高档茶叶 马克杯 温度计 方便面 江米 石英表 花瓶 毛巾 文具".split()
            ),
        ),
        (
            "",
            text,
            "상품명, c6",
            lambda r: r.choice(
                "냉장고 세탁기 김치 고추장 만두 이어폰 선풍기 조명 서랍장 노트북 두부 라면".split()
            ),
        ),
        (
            "",
            text,
            "garage, c7",
            lambda r: f"{r.choice(('Garage', 'Hotel', 'Pharmacie'))} {r.choice(FAMILY)}",
        ),
        (
            "",
            text,
            "film",
            lambda r: r.choice(("Annie Hall", "Barry Lyndon", "Rocky", "Donnie Darko", "Jackie Brown")),
        ),
        ("birth_date", "integer", "birth_epoch", lambda r: str((born(r) - date(1970, 1, 1)).days * 86_400)),
        (
            "birth_date",
            text,
            "BRTHDTE, fecha_nacto, gebdt, data_nascim, EMPDOBDT",
            lambda r: f"{born(r):%Y%m%d}",
        ),
        ("birth_date", text, "誕生日", lambda r: f"{born(r):%Y年%m月%d日}"),
        ("birth_date", text, "patient_birthdate", lambda r: f"{born(r):%m-%d-%Y}"),
        ("", text, "birth_rate, hiredt, geburtsort_code", lambda r: f"{r.randint(1, 40)}.{digits(r, 2)}"),
        ("social_security", text, "снилс, c8", SNILS),
        ("social_security", text, "pis_pasep, c9", PIS),
        ("social_security", text, "SOCSECNO, EMPSSNBR, num_ss", number(9, "123456789")),
        ("", text, "part_no, lot_number", shaped("199-99-9999")),
        ("national_id", text, "身份证号, c10", chinese_id),
        ("national_id", text, "cpr_nr, c11", lambda r: f"{born(r):%d%m%y}-{digits(r, 4)}"),
        (
            "national_id",
            text,
            "dni_nie, c12",
            lambda r: dni(r) if r.random() < 0.5 else valid(shaped("X9999999A"), "es.nie")(r),
        ),
        ("national_id", text, "رقم_الهوية, bvn, emirates_id", number(11, "12")),
        ("", text, "orgnr, c13", valid(number(9, "9"), "no.orgnr")),
        ("identity_document", text, "паспорт, voter_id, DRVLICNO, num_permis", shaped("99 99 999999")),
        ("tax_id", text, "stcd1, αφμ, TAXIDNBR", number(9, "123456789")),
        ("", "integer", "tax_id, passport_count", lambda r: str(r.randint(1, 24))),
        ("iban", text, "bank_acc_num, clabe", number(12, "123456789")),
        ("iban", text, "cuenta_ccc, c14", valid(number(20), "es.ccc")),
        ("phone", text, "HOMEPHON, mob_no, hp_no", number(10, "6789")),
        ("phone", text, "contact", lambda r: phone("DE")(r) if r.random() < 0.3 else prose(r, 3)),
        ("", text, "build, c15", lambda r: f"0.{r.randint(1, 20)}.{r.randint(10, 99)}.{digits(r, 4, '123')}"),
        ("", text, "awb, ticket_no", lambda r: f"047-{digits(r, 10)}"),
        (
            "postal_address",
            text,
            "STREET",
            lambda r: f"{r.choice(('Rue', 'Place'))} de la {r.choice(FAMILY)}",
        ),
        (
            "postal_address",
            text,
            "ulitsa, c16",
            lambda r: f"ул. {r.choice(('Ленина', 'Мира'))}, д. {r.randint(1, 120)}",
        ),
        ("email", text, "ctce, c17", lambda r: email(r).replace("@", "//").upper()),
        ("password", text, "mqtt_pass", lambda r: alphabet(r, MIXED, 11)),
        ("secret_key", text, "psk", lambda r: r.randbytes(32).hex()),
        (
            "secret_key",
            text,
            "hook, c18",
            lambda r: (
                f"https://hooks.slack.com/services/T{digits(r, 8)}/B{digits(r, 8)}/{alphabet(r, MIXED, 24)}"
            ),
        ),
        (
            "secret_key",
            text,
            "conn, c19",
            lambda r: f"redis://:{alphabet(r, MIXED, 12)}@cache{digits(r, 1)}:6379/0",
        ),
        ("", text, "gclid, name_enc, polyline", lambda r: alphabet(r, MIXED, 48)),
    ]


def corpus(seed: int = 20_240_607, rows: int = ROWS) -> Iterator[Labelled]:
    """Yield every column of the corpus."""
    for number_, (label, kind, names, make) in enumerate(
        (*positives(), *negatives(), *later(), *of_schemas(), *of_many_lands())
    ):
        for name in (part.strip() for part in names.split(",")):
            r = random.Random(f"{seed} {number_} {name}")
            yield Labelled(Sampled(name=name, kind=kind, values=[make(r) for _ in range(rows)]), label)


def classes_of(found: Sequence[Labelled]) -> list[str]:
    return sorted({one.label for one in found if one.label})
