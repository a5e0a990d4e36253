"""Names of columns as words, and phrases that are looked for in them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OTHER = (
    "\u0370-\u03ff\u0400-\u04ff\u0531-\u0587\u05d0-\u05ea\u0620-\u064a\u0671-\u06d3\u0904-\u0dff\u0e01-\u0ec6"
    "\u1000-\u10ff\u1100-\u11ff\u1200-\u135a\u1780-\u17b3\u3041-\u3096\u30a1-\u30fc\u4e00-\u9fff"
)
"""Letters of Greek, Cyrillic, Armenian, Hebrew, Arabic, of India, Thai, Lao, Burmese, Georgian, Korean as it
is folded, Ethiopic, Khmer, Japanese and Chinese. Some have no spaces between words: `*生年月日*` is looked
for within."""
_BETWEEN = re.compile(rf"[^a-z{_OTHER}]+")
_PART = re.compile(rf"\*?[a-z]{{2,}}\*?|[a-z]|\*?[{_OTHER}]+\*?")
_UMLAUTS = str.maketrans(
    {"ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ı": "i", "ð": "d", "þ": "th", "ə": "e"}
    | {"ħ": "h", "ŋ": "n", "ŧ": "t"}
)
_START = 3
"""Letters that `pass*` is kept by."""
_MARKS = frozenset({"Mn", "Mc", "Me", "Cf"})
_PREFIXES = frozenset(
    """col column field fld f c s str txt val value the my t x v raw src properties attr props cust customer
    kunde kunden client cliente emp employee user usr member mbr patient pat student person contact donor
    owner guest host rider passenger lead subscriber""".split()
)
"""Prefixes that say nothing about a column's content, or only whose it is."""
_ROLES = (
    "emp|empl|cust|cst|clnt|client|patnt|pat|memb|mbr|usr|user|stud|stu|acct|contact|cntct|cont|vend|ownr|owner"
    "|own|bene|prsn|pers|home|work|bus|biz|alt|prim|pri|day|eve|host|guest|donor|rider|drvr|driver|agent|agt"
    "|spouse|parent|ship|bill|mail"
)
_RUN = re.compile(
    rf"(?:{_ROLES})?(first|last|full|f|l)?"
    "(name|nam|nme|nm|ssn|ss|dob|bday|birth|tel|phone|phon|phn|mobile|mob|cell|fax|email|addr|adr|street|city"
    "|iban|taxid|natid|drvlic|passport)(no|nbr|nr|num|dt|dte|date|ln)?"
)
"""Names that are eight letters of abbreviations in a row, as EMPLNAME, CUSTPHON, EMPDOBDT."""
_SAME = dict.fromkeys(("nr", "num", "nbr", "number", "numer", "numero", "nummer"), "no")
_SAME |= {
    "nm": "name",
    "nme": "name",
    "dt": "date",
    "dte": "date",
    "frst": "first",
    "fst": "first",
    "lst": "last",
}
"""Words that are written in many ways, in phrases and in names."""
_GLUED = re.compile(
    r"(dt|dte|dat|data|date|datum|fec|fecha|num|nr|cod|kod|tgl|nomor|numero|nomer)?([a-z]{2,}?)"
    r"(nr|nbr|num|no|nummer|numer|dato|datum|date|dat|tlf|tel|kod|kods|kodas|kood|szam|adr)?"
)
"""A number or a date that is written together with whose it is: `pasnr`, `dtnasc`."""
_LONG = _SAME | {"nam": "name", "phon": "phone", "phn": "phone", "f": "first", "l": "last"}


def fold(text: str) -> str:
    """Return a text in lower case, without accents."""
    text = text.lower()
    if text.isascii():
        return text
    return without_marks(unicodedata.normalize("NFKD", text.translate(_UMLAUTS)))


def without_marks(text: str) -> str:
    """Return a text without what stands above, below and beside its letters: accents, vowels of India."""
    return "".join(c for c in text if unicodedata.category(c) not in _MARKS)


@lru_cache(maxsize=10_000)
def words(name: str) -> tuple[str, ...]:
    """Return the words of a name: `customerEMail_1` is `customer e mail`."""
    humps = " ".join(_HUMP.split(unicodedata.normalize("NFC", name[:200])))
    return tuple(part for word in _BETWEEN.split(fold(humps)) if word for part in _parts(word))


def _parts(word: str) -> tuple[str, ...]:
    """Take a run of abbreviations apart: `emplname` is `last name`."""
    if word in _SAME:
        return (_SAME[word],)
    if len(word) < 6 or (found := _RUN.fullmatch(word)) is None:
        return (word,)
    parts = tuple(_LONG.get(part, part) for part in found.groups() if part)
    return parts if len("".join(filter(None, found.groups()))) < len(word) or len(parts) > 1 else (word,)


@lru_cache(maxsize=10_000)
def split_numbers(name: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a name with numbers and dates taken from what they are written together with."""
    parts: list[str] = []
    for word in name:
        found = _GLUED.fullmatch(word) if len(word) > 4 else None
        if found is None or len(found[2]) < (2 if found[3] == "nr" else 3):
            parts.append(word)
        else:
            parts += (_SAME.get(part, part) for part in found.groups() if part)
    return tuple(parts)


class NameLists:
    """Lists of words that phrases name, and what says nothing in a name: `whose` of them."""

    def __init__(self, lists: Mapping[str, Iterable[str]]) -> None:
        self.whose = _PREFIXES.union(map(fold, lists.get("whose", ())))
        self.lists, self._made = lists, dict[str, frozenset[str]]()

    def find_list(self, name: str) -> frozenset[str]:
        """Return a list as the words of names are. Raises KeyError."""
        if name not in self._made:
            folded = map(fold, self.lists[name])
            self._made[name] = frozenset(_SAME.get(word, word) for word in folded)
        return self._made[name]


_NO_LISTS = NameLists({})


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that follow each other in a name; `geburts*` and `*email` are a beginning and an end of one."""

    words: tuple[str, ...]
    alone: bool = False
    """`=name`: the whole name, but for words that say nothing."""
    together: str = ""
    """As it is written without anything between."""
    lists: tuple[frozenset[str], ...] = ()
    """`{date}+nasc*`: for each word, what may stand in its place; the words stand in any order."""
    whose: frozenset[str] = _PREFIXES
    """Words that a whole name may contain besides the phrase."""

    @classmethod
    def of(cls, text: str, lists: NameLists = _NO_LISTS) -> Phrase:
        """Return the phrase that rules write so. Raises ValueError for one that no name has."""
        if "+" in text or "{" in text:
            return cls._in_any_order(text, lists)
        alone = text.startswith("=")
        parts = tuple(fold(part) for part in re.split(r"[\s_-]+", text.removeprefix("=").strip()))
        for part in parts:
            if not _PART.fullmatch(part):
                raise ValueError(
                    f"`{text}` is not a valid phrase: use words of letters, with `*` before or after a word"
                )
        return cls(tuple(_SAME.get(part, part) for part in parts), alone, "".join(parts), whose=lists.whose)

    @classmethod
    def _in_any_order(cls, text: str, lists: NameLists) -> Phrase:
        found: list[Phrase] = []
        allowed: list[frozenset[str]] = []
        for part in (one.strip() for one in text.removeprefix("=").split("+")):
            named = part[1:-1] if part.startswith("{") and part.endswith("}") else ""
            found.append(cls((part,)) if named else cls.of(part))
            try:
                allowed.append(lists.find_list(named) if named else frozenset())
            except KeyError:
                raise ValueError(f"`{text}` is not a valid phrase: list `{named}` does not exist") from None
        if any(one.alone or len(one.words) != 1 for one in found):
            raise ValueError(f"`{text}` is not a valid phrase: a plus needs a word on each side")
        words_ = tuple(one.words[0] for one in found)
        return cls(words_, text.startswith("="), lists=tuple(allowed), whose=lists.whose)

    def _has_all(self, name: Sequence[str]) -> bool:
        """Whether each of its words is another one of the name; with `=` none is left but those of lists."""
        rest = [word for word in name if word not in self.whose] if self.alone else list(name)
        for wanted, allowed in zip(self.words, self.lists, strict=True):
            fits = (at for at, word in enumerate(rest) if (word in allowed if allowed else _is(wanted, word)))
            at = next(fits, -1)
            if at < 0:
                return False
            del rest[at]
        return not self.alone or all(any(word in allowed for allowed in self.lists) for word in rest)

    def is_within(self, name: Sequence[str]) -> bool:
        if self.lists:
            return self._has_all(name)
        wanted = self.words
        if self.alone:
            rest = [word for word in name if word not in self.whose] or list(name)
            return len(rest) == len(wanted) and all(map(_is, wanted, rest))
        return any(
            all(map(_is, wanted, name[at : at + len(wanted)])) for at in range(len(name) - len(wanted) + 1)
        ) or (len(wanted) > 1 and self._join_words(name))

    def _join_words(self, name: Sequence[str]) -> bool:
        """`dateofbirth` has `date of birth`, and `date_of_birth` the words of `dateofbirth`."""
        if any("*" in word for word in self.words):
            return False
        return len(self.together) >= 6 and self.together in name

    @property
    def weight(self) -> int:
        return sum(len(word) for word in self.words if word[0] != "{")


def _is(wanted: str, word: str) -> bool:
    if wanted.startswith("*"):
        end = wanted.strip("*")
        return end in word if wanted.endswith("*") else word.endswith(end)
    if wanted.endswith("*"):
        return word.startswith(wanted[:-1])
    return word == wanted or (len(wanted) > 3 and word == wanted + "s")


class Phrases:
    """Phrases by the words that a name must have for them: few of many are held against a name."""

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        self._by_word: dict[str, list[tuple[int, Phrase]]] = {}
        self._by_start: dict[str, list[tuple[int, Phrase]]] = {}
        self._loose: list[tuple[int, Phrase]] = []
        """Latin ones; most names have no letter of the others."""
        self._loose_others: list[tuple[int, Phrase]] = []
        for one in phrases:
            self._keep(one)

    def _keep(self, one: Phrase) -> None:
        entry = (max(one.weight, 1), one)
        wanted = [word for word in one.words if word[0] != "{"] if one.lists else [one.words[0]]
        for word in sorted(wanted, key=lambda word: "*" in word):
            if "*" not in word:
                for way in {word, word + "s", one.together or word}:
                    self._by_word.setdefault(way, []).append(entry)
                return
            if word[0] != "*":
                self._by_start.setdefault(word[:-1][:_START], []).append(entry)
                return
        if all(map(str.isascii, one.words)):
            self._loose.append(entry)
        else:
            self._loose_others.append(entry)

    def find_best_weight(self, name: Sequence[str]) -> int:
        """Return the weight of the longest phrase that a name has; 0 for none."""
        glued = tuple(name)
        loose = split_numbers(glued)
        return self._best(glued) if loose == glued else max(self._best(glued), self._best(loose))

    def _best(self, name: Sequence[str]) -> int:
        top = 0
        for phrases in self._candidates(name):
            for weight, one in phrases:
                if weight > top and one.is_within(name):
                    top = weight
        return top

    def _candidates(self, name: Sequence[str]) -> Iterator[Sequence[tuple[int, Phrase]]]:
        yield self._loose
        if not all(map(str.isascii, name)):
            yield self._loose_others
        for word in name:
            yield self._by_word.get(word, ())
            for length in range(1, _START + 1):
                yield self._by_start.get(word[:length], ())
