"""The rules that ship hold over the corpus, and faults of rules are all told with their lines."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from stdnum import luhn

from gateway.app.checking import check
from gateway.app.classifying import classifiers, classifiers_of
from gateway.errors import Faults
from gateway.jobs.classification.formats import Formats
from gateway.jobs.classification.names import NameLists, Phrase, split_numbers, words
from gateway.jobs.classification.rules import load_classifiers
from gateway.jobs.classification.scoring import Sampled, Scorer
from gateway.settings.jobs import ClassifySettings
from tests.jobs.classification.corpus import corpus
from tests.jobs.classification.tables import SETS, tables

LEAST = 0.95


def scorer() -> Scorer:
    rules = classifiers(ClassifySettings())
    return Scorer(rules, Formats(rules.lists, ClassifySettings().regions, today=date(2026, 1, 1)))


@pytest.mark.parametrize("seed", [20_240_607, 7])
@pytest.mark.in_turn(12)
def test_each_class_is_found_and_nothing_else(seed: int) -> None:
    scoring = scorer()
    right: Counter[str] = Counter()
    wrong: dict[str, list[str]] = {}
    missed: dict[str, list[str]] = {}
    for one in corpus(seed):
        found = {finding.rule for finding in scoring.findings(one.column)}
        if one.label in found:
            right[one.label] += 1
        elif one.label:
            missed.setdefault(one.label, []).append(one.column.name)
        for rule in found - {one.label}:
            wrong.setdefault(rule, []).append(f"{one.column.name} ({one.label})")
    assert set(right) == {rule.name for rule in classifiers(ClassifySettings()).classes}
    for rule, count in right.items():
        precision = count / (count + len(wrong.get(rule, ())))
        recall = count / (count + len(missed.get(rule, ())))
        assert precision >= LEAST, (rule, wrong[rule])
        assert recall >= LEAST, (rule, missed[rule])


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("name", SETS)
def test_tables_that_were_written_blind_are_read(name: str) -> None:
    scoring, right = scorer(), 0
    wrong: list[str] = []
    missed: list[str] = []
    for table in tables(name):
        for column, labels, findings in zip(
            table.columns, table.labels, scoring.table(table.columns), strict=True
        ):
            told = f"{table.name}.{column.name}"
            found = {finding.rule for finding in findings}
            right += bool(found & labels)
            if "?" not in labels or found & labels:
                wrong += [f"{told}: {rule}" for rule in found - labels]
                missed += [told] if not found & labels and "-" not in labels else []
    assert right / (right + len(wrong)) >= 0.98, wrong
    assert right / (right + len(missed)) >= 0.97, missed


@pytest.mark.in_turn(12, place=1)
def test_five_values_with_check_digits_are_enough_and_five_others_are_not() -> None:
    scoring, right, missed = scorer(), 0, []
    numbers = {"national_id", "tax_id", "social_security", "iban", "vat_number", "card"}
    for one in corpus():
        if one.label and one.label not in numbers:
            continue
        found = {
            finding.rule for finding in scoring.findings(replace(one.column, values=one.column.values[:5]))
        }
        assert found <= {one.label}, one.column.name
        right += bool(found)
        missed += [one.column.name] if one.label and not found else []
    assert right / (right + len(missed)) >= LEAST, missed


def test_findings_hold_no_value_and_no_key_of_json() -> None:
    values = [f'{{"secretkey{n % 3}": "user{n}@mail.example"}}' for n in range(50)]
    for kind in ("text", "nested"):
        (finding,) = scorer().findings(Sampled(name="doc", kind=kind, values=values))
        assert finding.rule == "email"
        assert "secretkey" not in str(finding.evidence)
        assert "mail.example" not in str(finding.evidence)


FIRST = "Anna Peter Maria John Laura Michael Susan Karl Julia Thomas Emma David".split()
LAST = "Schmidt Miller Garcia Brown Fischer Weber Rossi Smith Johnson Wagner".split()
NAMES = [f"{first} {last}" for first in FIRST for last in LAST]


@pytest.mark.parametrize("pad", ["x", " "])
def test_json_that_was_cut_is_json(pad: str) -> None:
    people = [
        {"first_name": first, "last_name": last, "date_of_birth": born, "notes": f"{n}{pad * 1_000}"}
        for n, (first, last, born) in enumerate(zip(FIRST * 4, LAST * 5, births(48), strict=False))
    ]
    values = [json.dumps(one)[:1_000] for one in people]
    found = scorer().findings(Sampled(name="payload", kind="text", values=values))
    assert [(one.rule, one.where) for one in found] == [("birth_date", "json"), ("person_name", "json")]
    assert scorer().findings(Sampled(name="payload", kind="text", values=[v[:999] for v in values])) == []
    logins = [json.dumps({f"p{key}@mail.example": 1 for key in range(n, n + 60)}) for n in range(0, 600, 60)]
    (finding,) = scorer().findings(Sampled(name="c1", kind="text", values=[v[:1_000] for v in logins]))
    assert (finding.rule, finding.where) == ("email", "json")


@pytest.mark.parametrize(
    ("begins", "rule"),
    [
        ('{"id": 1, "text": "write to MAIL please, and ', "email"),
        ('{"order": 1, "card": CARD, "note": "', "card"),
        ("[EXTERNAL] Dear Sir, please write to MAIL, and ", "email"),
        ("[2026-11-20 12:00:00] from MAIL, who ", "email"),
    ],
)
def test_what_was_cut_is_looked_into_as_text_too(begins: str, rule: str) -> None:
    cards = ("4111111111111111", "5500005555555559", "378282246310005", "6011000990139424")
    values = [
        (begins.replace("MAIL", f"p{n}@mail.example").replace("CARD", cards[n % 4]) + "lorem " * 200)[:1_000]
        for n in range(200)
    ]
    found = scorer().findings(Sampled(name="c1", kind="text", values=values))
    assert [one.rule for one in found] == [rule]


@pytest.mark.parametrize("kind", ["text", "nested"])
def test_keys_that_are_data_are_like_a_column_and_so_is_what_is_under_them(kind: str) -> None:
    def found(documents: list[dict[str, object]]) -> list[tuple[str, int]]:
        column = Sampled(name="c1", kind=kind, values=[json.dumps(one) for one in documents])
        return [(one.rule, one.hit) for one in scorer().findings(column)]

    mails = [f"p{n}@mail.example" for n in range(300)]
    assert found([{f"u{n}": name} for n, name in enumerate(NAMES)]) == [("person_name", 120)]
    assert found([{f"u{n}": mail} for n, mail in enumerate(mails)]) == [("email", 300)]
    assert found([{"of": {f"u{n}": {"at": [mail]}}} for n, mail in enumerate(mails)]) == [("email", 300)]
    assert found([{mail: n, "total": True} for n, mail in enumerate(mails)]) == [("email", 300)]
    assert found([{mail: None} for mail in mails]) == [("email", 300)]
    assert found([dict.fromkeys(mails[n::10], 1) for n in range(10)]) == [("email", 300)]
    assert found([dict.fromkeys([f"p{n}@x.io" for n in range(220)], 1)]) == [("email", 220)]


def test_fields_are_no_data_and_the_keys_of_a_map_are() -> None:
    mails = [f"p{n}@mail.example" for n in range(4)]
    column = Sampled(name="c1", kind="nested", values=[json.dumps({"seen": dict.fromkeys(mails, 1)})])
    assert scorer().findings(column) == []
    (finding,) = scorer().findings(replace(column, fields=("seen",), maps=True))
    assert (finding.rule, finding.hit, finding.sampled) == ("email", 4, 4)
    of_one_row = Sampled(
        name="c1", kind="text", values=[json.dumps({f"p{n}@x.example": n for n in range(30)})]
    )
    assert scorer().findings(of_one_row) == []


@pytest.mark.parametrize(
    "values",
    [
        ["\x00\uffff" * 50, "￼" * 400, "🙂" * 300],
        ["{" * 3000, '{"a":' * 900, "[[[[", '{"a": "b'],
        ["a" * 4000, "a." * 2000, "1" * 4000, "-" * 4000, "+" + "1 " * 1000, "@" * 2000, "A-" * 1500 + "!"],
        ["", " ", "\t\n"],
    ],
)
def test_garbage_is_of_no_class_and_takes_no_time(values: list[str]) -> None:
    for kind in ("text", "nested", "integer", "date"):
        assert scorer().findings(Sampled(name="c1", kind=kind, values=values)) == []


def test_what_says_that_there_is_nothing_is_no_value() -> None:
    towns = ["Hobart", "Geelong", "Cairns", "Ballarat", "Wollongong"] * 4
    nothing = ["n/a", "-", "?", "unknown", "XXX", "none", "--", "null", "TBD"]
    (finding,) = scorer().findings(Sampled(name="city", kind="text", values=towns + nothing))
    assert (finding.rule, finding.evidence["sampled"], finding.evidence["hit"]) == ("city", 20, 20)


def test_versions_are_addresses_only_by_name() -> None:
    values = [f"{1 + n % 8}.{n}.{n % 7}.{n % 200}" for n in range(40)]
    assert scorer().findings(Sampled(name="c1", kind="text", values=values)) == []
    (finding,) = scorer().findings(Sampled(name="client_ip", kind="text", values=values))
    assert finding.rule == "ip_address"


def test_a_name_that_may_be_of_anything_is_sure_beside_another_part_of_it() -> None:
    column = Sampled(name="nume", kind="text", values=["Țurcanu", "Lungu", "Zbârcea", "Ghiță"] * 5)
    assert scorer().findings(column, beside=("nume", "suma")) == []
    (finding,) = scorer().findings(column, beside=("nume", "prenume"))
    assert finding.rule == "person_name"


def test_a_name_that_things_have_too_is_none_beside_what_only_things_have() -> None:
    values = [f"{one} {what}" for one in ("Henry", "Emma", "Charlotte", "Oliver", "Paris") for what in THINGS]
    names = Sampled(name="name", kind="text", values=values)
    mail = Sampled(name="c1", kind="text", values=[f"p{n}@mail.example" for n in range(30)])
    assert [one.rule for one in scorer().findings(names, beside=("name", "street"))] == ["person_name"]
    assert scorer().findings(names, beside=("name", "sku", "price")) == []
    # Whoever has an address of mail is somebody, and so is who is told by another name.
    price = Sampled(name="price", kind="fraction", values=["9.95"])
    assert [one.rule for one in scorer().table([price, mail, names])[2]] == ["person_name"]
    assert scorer().findings(replace(names, name="designer"), beside=("designer", "sku")) != []


def test_people_with_a_telephone_or_an_address_have_names_beside_prices() -> None:
    names = Sampled(
        name="name", kind="text", values=["Mary Smith", "John Miller", "Emma Jones", "Paul Clark"] * 5
    )
    price = Sampled(name="price", kind="fraction", values=["9.95"])
    phones = Sampled(name="c1", kind="text", values=[f"+49 30 90182{n}" for n in range(10, 40)])
    assert scorer().table([names, price])[0] == []
    assert [one.rule for one in scorer().table([names, price, phones])[0]] == ["person_name"]
    assert [one.rule for one in scorer().findings(names, beside=("name", "price", "phone"))] == [
        "person_name"
    ]


def test_keys_of_json_are_beside_those_of_the_same_object() -> None:
    people = [
        {"customer": {"name": f"{one} Miller", "town": 7}, "items": [{"sku": n, "price": 3}]}
        for n, one in enumerate(("Henry", "Emma", "Charlotte", "Oliver") * 5)
    ]
    column = Sampled(name="v", kind="text", values=[json.dumps(one) for one in people])
    assert [one.rule for one in scorer().findings(column)] == ["person_name"]


THINGS = ("Desk", "Lamp", "Vase", "Shelf")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("seen on server 172.36.245.{n} today", "ip_address"),
        ("from 2a01:4f8:b0{n}::1 to here", "ip_address"),
        ("release: 172.36.245.{n} is out", None),
        ("AppleWebKit/537.36 Chrome/1{n}.0.0.0 Safari/537.36", None),
        ("std::size, 12:34:{n} and 00:1b:44:11:3a:{n} in it", "mac_address"),
        ("paid to de{iban}", "iban"),
        ("mail=p{n}%40mail.example&x=1", "email"),
        ("tel. 600 123 4{n}", "phone"),
        ("paid to ES20 0049 0216 2358 5483 17{n}", None),
        ("call 0049 30 304168{n} today", "phone"),
        ("emergency: Yasmin (11) 96126-61{n}", "phone"),
        ("dossier 05325234{n}", None),
        ("Auftrag Nr. 05325234{n}", None),
        ("https://maps.example/?q=51.7084{n},-9.779783", "coordinates"),
        ("https://maps.example/maps/@51.7084{n},-9.779783,15z", "coordinates"),
        ("[51.7084{n}, -9.779783, 17.123456]", None),
        ("jdbc:mysql://db:3306/x?user=app&password=9mZmcD{n}", "secret_key"),
        ("password=unchanged and {n}", None),
        ("ref RSSM\u0130A85T10A562S {n}", None),
        ("\u212aSSMRA85T10A562S {n}", None),
        ("see https://x.example/?q=open%20case then ring +49 30 90182{n}", "phone"),
        ("DNI {dni} of the customer", "national_id"),
    ],
)
def test_what_a_longer_text_holds(text: str, rule: str | None) -> None:
    values = []
    for n in range(10, 50):
        account = f"5001051754073249{n}"
        check = 98 - int(f"{account}131400") % 97
        number = 61954600 + n
        values.append(
            text.replace("{iban}", f"{check:02}{account}")
            .replace("{dni}", f"{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[number % 23]}")
            .replace("{n}", str(n))
        )
    found = {one.rule for one in scorer().findings(Sampled(name="c1", kind="text", values=values))}
    assert found == ({rule} if rule else set())


@pytest.mark.parametrize("each", [1, 3, 20])
def test_cards_count_however_many_a_text_holds(each: int) -> None:
    numbers = [f"4{n * 7919:014}" for n in range(1, 40 * each + 1)]
    cards = [one + luhn.calc_check_digit(one) for one in numbers]
    texts = [f"batch {', '.join(cards[at : at + each])}" for at in range(0, len(cards), each)]
    (finding,) = scorer().findings(Sampled(name="c1", kind="text", values=texts))
    assert finding.rule == "card"


def test_check_digits_that_are_right_by_chance_are_no_cards() -> None:
    numbers = [f"4{n * 7919:012}" for n in range(1, 301)]
    column = Sampled(name="note", kind="text", values=[f"order {one} was late" for one in numbers])
    assert scorer().findings(column) == []
    right = [f"card 41111111{n:07}{luhn.calc_check_digit(f'41111111{n:07}')} again" for n in range(20)]
    mixed = replace(column, values=[*column.values[:60], *right])
    assert [one.rule for one in scorer().findings(mixed)] == ["card"]


@pytest.mark.parametrize(
    ("name", "values", "rule"),
    [
        ("c1", [f"{one} {letter}.{letter}." for one in ("Шевцов", "Лопухина") for letter in "АБВГДЕИМ"], 1),
        ("c1", [f"Dr. {one}scott" for one in "Ab Bo Ca De El Fa Go Ha Il Jo Ka La Ma Na".split()], 1),
        ("c1", [f"{one}motors S.r.l." for one in "Ab Bo Ca De El Fa Go Ha Il Jo Ka La Ma Na".split()], 0),
        ("c1", [f"{letter}. coli" for letter in "ABCDEFGHIJKLMNOP"], 0),
    ],
)
def test_initials_and_titles_are_of_people(name: str, values: list[str], rule: int) -> None:
    found = scorer().findings(Sampled(name=name, kind="text", values=values))
    assert [one.rule for one in found] == ["person_name"][:rule]


@pytest.mark.parametrize(
    ("name", "kind", "value", "rule"),
    [
        ("birth", "text", "{n}SEP1948", "birth_date"),
        ("birth", "text", "{n}MAR48", "birth_date"),
        ("birth", "text", "4807{n}", "birth_date"),
        ("stop_lat_e7", "integer", "5233254{n}", "coordinates"),
        ("c1", "text", "52.93{n}° N, 13.5879° E", "coordinates"),
        ("straat", "text", "{a}straat", "postal_address"),
        ("c1", "text", "부산 강남구 테헤란로 2{n}", "postal_address"),
        ("c1", "text", "784-1946-73674{n}-6", "national_id"),
    ],
)
def test_forms_of_values(name: str, kind: str, value: str, rule: str) -> None:
    values = [value.replace("{n}", str(n)).replace("{a}", "Mol" + chr(87 + n)) for n in range(10, 30)]
    (finding,) = scorer().findings(Sampled(name=name, kind=kind, values=values))
    assert finding.rule == rule


@pytest.mark.parametrize("name", ["2fa_seed", "two_factor_seed", "authenticator_secret"])
def test_what_second_factors_are_made_of_is_secret(name: str) -> None:
    values = [base64.b32encode(hashlib.sha256(bytes([n])).digest()[:20]).decode() for n in range(30)]
    (finding,) = scorer().findings(Sampled(name=name, kind="text", values=values))
    assert finding.rule == "secret_key"


def test_few_towns_are_towns_beside_people() -> None:
    people = Sampled(name="c1", kind="text", values=[f"p{n}@mail.example" for n in range(30)])
    towns = Sampled(
        name="c2", kind="text", values=["Graz", "Linz", "Salzburg", "Innsbruck", "Villach", "Wels"] * 5
    )
    assert scorer().table([towns]) == [[]]
    assert [one.rule for one in scorer().table([people, towns])[1]] == ["city"]


def test_numbers_of_calls_are_those_of_telephones() -> None:
    column = Sampled(name="a_number", kind="text", values=[f"49303041{n}" for n in range(10, 60)])
    (finding,) = scorer().findings(column, beside=("a_number", "imsi"))
    assert finding.rule == "phone"
    assert scorer().findings(replace(column, name="a_number_of")) == []


def births(count: int = 60) -> list[str]:
    return [date(1940 + n * 11 % 62, 1 + n % 12, 1 + n % 28).isoformat() for n in range(count)]


def test_days_beside_people_are_births_by_how_they_are_spread() -> None:
    people = Sampled(name="c1", kind="text", values=[f"p{n}@mail.example" for n in range(30)])
    found = {}
    for name, kind, values in (
        ("c2", "date", births()),
        ("c3", "text", [f"{day[8:]}.{day[5:7]}.{day[:4]}" for day in births()]),
        ("hired_on", "date", births()),
        ("gegründet", "date", births()),
        ("c4", "time", [f"{day} 08:15:00" for day in births()]),
        ("c5", "date", [f"20{n % 25:02}-03-{1 + n % 28:02}" for n in range(60)]),
        ("c6", "date", [f"200{n % 9}-03-{1 + n % 28:02}" for n in range(60)]),
    ):
        column = Sampled(name=name, kind=kind, values=values)
        assert scorer().table([column]) == [[]]
        found[name] = [one.rule for one in scorer().table([people, column])[1]]
    assert [name for name, rules in found.items() if rules] == ["c2", "c3"]
    assert found["c2"] == ["birth_date"]
    born = Sampled(name="date_of_birth", kind="date", values=births())
    assert scorer().table([people, born, replace(born, name="c2")])[2] == []


def test_a_short_name_is_sure_beside_columns_of_people() -> None:
    people = Sampled(name="c1", kind="text", values=[f"p{n}@mail.example" for n in range(30)])
    number = Sampled(name="fnr", kind="text", values=[f"{n * 7919 + 10**10}" for n in range(1, 60)])
    assert scorer().table([number]) == [[]]
    assert [one.rule for one in scorer().table([people, number])[1]] == ["national_id"]


def test_words_in_any_order_and_lists_of_them() -> None:
    lists = NameLists({"number": ("nr", "číslo"), "whose": ("klient",)})
    assert Phrase.of("driv*+lic*").is_within(words("lic_no_driver"))
    assert not Phrase.of("driv*+lic*").is_within(words("driver_no"))
    assert Phrase.of("{number}+pas", lists).is_within(words("pas_cislo_2"))
    assert Phrase.of("={number}+pas", lists).is_within(words("klient_pas_nr"))
    assert not Phrase.of("={number}+pas", lists).is_within(words("pas_nr_stav"))
    assert Phrase.of("=jmeno", lists).is_within(words("klient_jmeno"))
    assert split_numbers(words("pasnr")) == ("pas", "no")
    assert split_numbers(words("casino")) == ("casi", "no")
    for text in ("{date}+nac", "a b+c", "=a+=b"):
        with pytest.raises(ValueError, match="phrase"):
            Phrase.of(text, lists)


def test_check_digits_go_before_what_is_only_like_a_number() -> None:
    values = [f"ATU{number}" for number in ("21156521", "13585627", "36801500", "62134737", "33864707")]
    (finding,) = scorer().findings(Sampled(name="ust_idnr", kind="text", values=values))
    assert (finding.rule, finding.evidence["format"]) == ("vat_number", "stdnum.eu.vat")


def test_names_are_words() -> None:
    assert words("EMPLNAME") == words("last_nm")
    assert words("CUSTPHON") == ("phone",)
    assert words("username") == ("name",)
    assert words("جوال-العميل") == ("جوال", "العميل")
    assert words("customerEMail_1") == ("customer", "e", "mail")
    assert words("Größe_ID") == ("grosse", "id")
    assert words("ФИО_1") == ("фио",)
    assert Phrase.of("*성명*").is_within(words("고객성명"))
    assert Phrase.of("date of birth").is_within(words("dateofbirth"))
    assert Phrase.of("*email*").is_within(words("KUNDENEMAILADR"))
    assert not Phrase.of("ip").is_within(words("description"))
    assert not Phrase.of("=name").is_within(words("product_name"))
    with pytest.raises(ValueError, match="phrase"):
        Phrase.of("a.b")


def test_all_faults_are_told_with_file_and_line() -> None:
    text = """\
classes:
  mine:
    tagg: X
    types: [txt]
    names: [a]
    formats: [emial, words.none]
    text: [degrees]
    when:
      - {share: 2}
      - {empty: true}
      - {}
      - {among: true, years: -1}
    among: [oter]
    unless: "{none}"
  other:
    tag: Y
lists:
  words: 7
"""
    with pytest.raises(Faults) as caught:
        load_classifiers({"a.yaml": text, "b.yaml": "classes: {one: 3}\n"})
    told = "\n".join(caught.value.faults)
    for line, what in (
        (3, "`tagg`"),
        (4, "`txt`"),
        (5, "`names`"),
        (6, "`email`"),
        (6, "`words.none`"),
        (7, "`degrees`"),
        (9, "share"),
        (10, "add `named`"),
        (11, "mapping"),
        (12, "years"),
        (13, "`oter`"),
        (14, "`none`"),
        (15, "`when`"),
        (18, "list"),
    ):
        assert any(one.startswith(f"a.yaml:{line}:") and what in one for one in caught.value.faults), (
            line,
            told,
        )
    assert "b.yaml:1: a class must be a mapping" in told


def test_a_name_is_sure_only_where_there_has_to_be_one() -> None:
    text = "classes: {mine: {tag: X, names: a, when: [{sure: true, share: 1}]}}\n"
    with pytest.raises(Faults) as caught:
        load_classifiers({"a.yaml": text})
    assert caught.value.faults == ("a.yaml:1: an absent name is not conclusive: add `named`",)


def test_a_number_that_no_library_knows_is_a_fault() -> None:
    rules = load_classifiers(
        {"a.yaml": "classes: {x: {tag: X, formats: [stdnum.xx.none], when: [{share: 0.5}]}}"}
    )
    with pytest.raises(Faults, match=r"stdnum\.xx\.none"):
        Scorer(rules, Formats(rules.lists, (), today=date(2026, 1, 1)))


async def test_check_tells_faults_of_classifiers(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("classes:\n  x: {tag: X, when: [{share: 3}]}\n")
    report = await check([file], with_parser=False, with_backend=False)
    assert any("own.yaml:2:" in fault and "share" in fault for fault in report.faults)
    file.write_text("classes:\n  x: {tag: X, formats: [email], when: [{share: 0.5}]}\n")
    assert (await check([file], with_parser=False, with_backend=False)).faults == ()
    assert [rule.tag for rule in classifiers_of([file]).classes] == ["X"]


def test_a_codice_fiscale_in_a_text_is_told_by_its_check_letter() -> None:
    (fiscale,) = Formats({}, (), today=date(2026, 1, 1)).find_formats("it_codice_fiscale")
    assert fiscale.find is not None
    told = fiscale.find("C.F. RSSMRA80A01H501U, e RCCMNL83S18D969H; non RSSMRA80A01H501V")
    assert list(told) == ["RSSMRA80A01H501U", "RCCMNL83S18D969H"]


BRACKETS = {
    "a Python dict": "{{'id': {n}, 'mail': 'p{n}@mail.example', 'ok': True}}",
    "an array as text": "{{p{n}@mail.example,q{n}@mail.example}}",
    "a line of a log": '[2024-05-01 10:00:00] [WARN] user "u{n}" p{n}@mail.example locked [ip=81.12.3.4]',
    "an object of JavaScript": "{{id: {n}, mail: 'p{n}@mail.example', kind: \"new\"}}",
    "a struct as text": "{{{n}, p{n}@mail.example, true}}",
}


@pytest.mark.parametrize("shape", BRACKETS.values(), ids=BRACKETS)
def test_a_text_in_brackets_that_is_no_json_is_a_text(shape: str) -> None:
    values = [shape.format(n=n) for n in range(20)]
    found = scorer().findings(Sampled(name="c1", kind="text", values=values))
    assert ("email", "text") in [(one.rule, one.where) for one in found]


def test_texts_among_json_are_looked_into_as_a_share_of_all() -> None:
    coded = [json.dumps({"n": n, "mail": f"j{n}@mail.example"}) for n in range(100)]
    plain = [json.dumps({"n": n, "state": "none"}) for n in range(100)]
    texts = [f"call +49 30 90182{n} about it" for n in range(10, 20)]
    scoring = scorer()
    for values, rules in (
        (coded + texts, [("email", "json"), ("phone", "text")]),
        (plain + texts, [("phone", "text")]),
        (coded + texts[:2], [("email", "json")]),
    ):
        found = scoring.findings(Sampled(name="c1", kind="text", values=values))
        assert [(one.rule, one.where) for one in found] == rules
        assert all(one.sampled == len(values) for one in found if one.where == "text")
