"""Where people live: a street with the number of a house, or a town with its code, as many lands write it."""

from __future__ import annotations

import re

_STREET = re.compile(
    # What ends a word of the north: Hauptstraße, Kerkstraat, Storgatan, Oravatie, Tulipanstræde.
    r"\b\w*(?:stra(?:ss|ß)e|str\b\.?|gasse|weg|platz|allee|ring|damm|ufer|straat|laan|plein|gracht|kade|dreef|steeg"
    r"|singel|boulevard|vägen|gatan|stigen|torget|gränd|gata|gaten|veien|vegen|vej|(?<!bri)gade|stræde|svingen"
    r"|bakken|haugen|katu|(?<=\w{3})tie|polku|kuja|bulevardi)(?!\w)"
    r"|\b(?:rue|avenue|av\.|avda\.?|boulevard|bd\.?|blvd\.?|place|allée|allé|chemin|impasse|quai|route|cours|square"
    r"|calle|c/|paseo|plaza|carrera|ronda|camino|pasaje|glorieta|rambla|cuesta|callejón|cañada|acceso|andador|calzada"
    r"|cerrada|circunvalación|circuito|eje vial|privada|prolongación|periférico|retorno|viaducto|vía"
    r"|via|viale|v\.le|piazza|corso|largo|vicolo|strada|borgo|contrada|stretto|rua|avenida|travessa|praça|estrada|alameda"
    r"|rodovia|viela|ladeira|loteamento|quadra|setor|condomínio|ulica|ul\.|aleja|aleje|al\.|plac|pl\.|os\.|osiedle"
    r"|náměstí|nábřeží|třída|ulice|utca|út|útja|tér|tere|körút|sétány|str\.|bulevardul|bd-ul|șoseaua|soseaua|aleea"
    r"|calea|intrarea|splaiul|piața|caddesi|cad\.|sokak|sokağı|sok\.|sk\.|bulvarı|mahallesi|mah\.|chowk|marg|nagar"
    r"|bagh|ganj|galli"
    r"|street|st\.?|road|rd\.?|lane|ln\.?|drive|dr\.?|ave\.?|court|ct\.?|way|close|crescent|terrace|parkway|pkwy|sq\.?"
    r"|highway|hwy|alley|gardens?|grove|hill|trail|mews|walk|row|park|bridge|green|heights|ridge|circle|loop|path|pike"
    r"|ул\.?|улица|вул\.?|вулиця|просп\.?|проспект|пр-т|пер\.|переулок|бульвар|шоссе|наб\.|площадь|οδός|λεωφόρος|πλατεία"
    r"|شارع|طريق|רחוב|שדרות|मार्ग|नगर|गली|đường|phố|jl\.?|jalan|gang"
    r"|turnpike|expressway|causeway|crossing|junction|village|valley|view|manors?|parade|esplanade)(?=\W|$)",
    re.IGNORECASE,
)
_AMERICAN = re.compile(
    r"(?:\d{1,3}/)?\d{3,6}[A-Za-z]? (?:[\w.'’-]+ ){1,4}"
    r"(?:bend|bluffs?|branch|brooks?|burgs?|bypass|canyon|cape|circles|cliffs?|commons?|corners?|course|courts|coves?"
    r"|creek|crest|crossroad|curve|dale|divide|drives|estates?|extensions?|falls?|ferry|fields?|flats?|fords?|forest"
    r"|forges?|forks?|fort|freeway|gateway|glens?|greens|groves|harbou?rs?|haven|hills|hollow|inlet|islands?|isle"
    r"|junctions|keys?|knolls?|lakes?|landing|lights?|locks?|lodge|mall|meadows?|mills?|mission|motorway|mountains?"
    r"|orchard|oval|overpass|parks|pass|passage|pines?|plains?|plaza|points?|ports?|prairie|radial|ramp|ranch|rapids?"
    r"|rest|ridges|rise|river|roads|route|run|shoals?|shores?|skyway|springs?|spurs?|squares?|stations?|stravenue|stream"
    r"|streets|summit|throughway|trace|track|trafficway|tunnel|underpass|union|valleys|via|viaduct|views?|villages?"
    r"|ville|vista|walks?|walls?|ways|wells?)(?: (?:apt|suite|unit|ste|floor|fl|no|#)\b.*|,.*)?",
    re.IGNORECASE,
)
"""With a number before it that is too great for a count: the types of streets of the postal service of the
United States that are words for much else as well."""
_POST = re.compile(
    r",\s*[A-Z]{2}\s+\d{5}(?:-\d{4})?$"  # NC 34886
    r"|\b[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}$"  # W85 8XG
    r"|\b[A-Z]\d[A-Z] ?\d[A-Z]\d$"  # V6S 4B6
    r"|,\s*(?:[A-Z]{1,2}-)?"
    r"(?:\d{4,6}|\d{3} \d{2}|\d{2}-\d{3}|\d{4}-\d{3}|\d{5}-\d{3}|\d{4} [A-Z]{2})\s+[A-ZÀ-Þ]"  # 8880 Gesten
    r"|,\s*[A-ZÀ-Þ][^,]{1,40}[,\s-]+(?:\d{4}|\d{5}|\d{6})$"  # Slatina, 270678
)
"""Where a letter is to go: the code of a district beside a town, as states write it."""
_HOUSE = re.compile(
    r"(?:^|[\s,])(?:[nN](?:o|r)?[.:º°]+ ?)?\d{1,5} ?[a-zA-Z]?(?:[-/](?:\d{1,4}|[a-zA-Z]))?\.?(?=$|[\s,])"
)
_LINES = re.compile(r"(?<=\w)\$|\^")
"""Between the lines of an address LDAP has `$`, and HL7 `^` between its parts."""
_EASTERN = re.compile(
    r"(?:[가-힣]{2,4} )?[가-힣]{1,5}[시도군구] (?:[가-힣]+ ){0,3}[가-힣0-9]+[로길동리가] ?\d[^가-힣]{0,12}.*"
    r"|(?:\D{1,4}[都道府県省]|\D{1,6}[市区區县縣郡])(?:[^\x00-\x7f]| )+"
    r"(?:\d{1,4}(?:[-－]\d{1,4}){1,3}|\d{1,4}(?:丁目|番地?|号|號|弄)).*"
    r"|[\u4e00-\u9fff]{2,12}[路街道巷弄]\d{1,5}[号號弄](?:[^\x00-\x7f]|[0-9 -])*"
)
"""Korea, Japan and China begin with the province and the town, or with the street, and have no capitals."""
_CAPITAL_WORD = re.compile(
    r"\b[A-ZÀ-ÞĀ-Ž\u018f\u0386-\u03ab\u0400-\u042f\u0531-\u0556][^\W\d_]{2,}"
    r"|[\u05d0-\u05ea\u0620-\u06d3\u0904-\u0e46\u1000-\u10ff\u1200-\u135a]{3,}"
)
"""Or one of letters that have no capitals."""


def address(value: str) -> bool:
    """A number of a house with a street, or with a town and its code."""
    text = " ".join(value.split())
    if not text.isascii() and _eastern(text):
        return True
    return address_like(text) and (
        _STREET.search(text) is not None
        or _AMERICAN.fullmatch(text) is not None
        or _POST.search(text) is not None
    )


def address_like(value: str) -> bool:
    """Words of which one is a name, and a number of a house."""
    if not value.isascii() and _eastern(value):
        return True
    if not 6 <= len(value) <= 160 or len(value.split()) > 16:
        return False
    if "$" in value or "^" in value:
        value = _LINES.sub(" ", value)
    return _HOUSE.search(value) is not None and _CAPITAL_WORD.search(value) is not None


_ONE_WORD = re.compile(
    r"\w{3,}(?:stra(?:ss|ß)e|str\.?|gasse|weg|platz|allee|ufer|damm|straat|laan|plein|gracht|kade|dreef|steeg|singel"
    r"|vägen|gatan|stigen|torget|gata|gaten|veien|vegen|vej|gade|stræde|katu|tie|polku|kuja)",
    re.IGNORECASE,
)
"""Written together with what it is: Kerkstraat."""


def street_like(value: str) -> bool:
    """Words of which one says that it is a street, with no number of a house."""
    text = " ".join(value.split())
    if " " not in text:
        return _ONE_WORD.fullmatch(text) is not None
    return len(text.split()) <= 8 and _STREET.search(text) is not None


def _eastern(value: str) -> bool:
    return 6 <= len(value) <= 80 and _EASTERN.fullmatch(value) is not None
