"""Rules of classification: YAML files that say by which names and values a column is of which class."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.errors import Faults
from gateway.jobs.classification.formats import WITHIN, is_format, own_formats
from gateway.jobs.classification.names import NameLists, Phrase
from gateway.policy.diagnostics import Diagnostics, Path, hint, list_unknown_keys, section
from gateway.policy.documents import Document, parse_document

CLASSIFIER_KEYS = ("classes", "lists")
KINDS = ("text", "integer", "fraction", "date", "time")
"""Kind of each type of column; other types (binary, boolean) have no class."""
_CLASS_KEYS = (
    *("about", "tag", "attributes", "types", "names", "beside", "vague", "against", "despite", "among"),
    *("otherwise", "unless", "never"),
    *("formats", "named_formats", "text", "when"),
)
_WHEN_KEYS = ("named", "sure", "among", "once", "empty", "share", "distinct", "years", "within")


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """Conditions that must all hold for a column to have the class."""

    named: bool = False
    """Its name is one of the class."""
    sure: bool = False
    """And not only by a `=name`, which may be that of anything."""
    among: bool = False
    """Another column of the table is of one of the classes that the rule has as `among`."""
    once: bool = False
    """No other column of the table is of the class itself."""
    empty: bool = False
    """Nothing was there to be looked at."""
    share: float = 0.0
    """Minimum fraction (0 to 1) of a column's distinct values that have the format."""
    distinct: int = 0
    """At least so many different values have it."""
    years: int = 0
    """The days that have it are spread over at least so many years, but for the first and last few."""
    within: float = 0.0
    """Minimum fraction (0 to 1) of a column's values that contain a match inside a longer text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRule:
    """One class of personal or secret data."""

    name: str
    about: str
    tag: str
    attributes: Mapping[str, str]
    types: frozenset[str]
    names: tuple[Phrase, ...]
    beside: tuple[Phrase, ...]
    """Names of other columns of the table that make a `=name` sure."""
    vague: tuple[Phrase, ...]
    """Names that things have as well."""
    against: tuple[Phrase, ...]
    """Names of other columns of the table that make a vague one none of the class, whatever is in it."""
    despite: frozenset[str]
    """Classes of other columns of the table, beside those of `among`, with which `against` says nothing."""
    among: frozenset[str]
    """Classes of other columns of the table that make a `=name` sure."""
    otherwise: tuple[Phrase, ...]
    """Names of what else values may be that have the formats; with a name of the class as well they are."""
    unless: tuple[Phrase, ...]
    """Names that say it is something about such data, and not the data; values count all the same."""
    never: tuple[Phrase, ...]
    """Names of columns that are not of the class whatever is in them."""
    formats: tuple[str, ...]
    named_formats: tuple[str, ...]
    """Formats that say too little by themselves."""
    text: tuple[str, ...]
    """Formats that are looked for within longer texts."""
    when: tuple[When, ...]
    order: int
    """Position in the files: of two classes that fit equally well, the first one counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifiers:
    """All classes, and the lists of words that their formats use."""

    classes: tuple[ClassRule, ...]
    lists: Mapping[str, tuple[str, ...]]
    digest: str
    """Another one for other rules."""


def load_classifiers(texts: Mapping[str, str]) -> Classifiers:
    """Return the rules of files, by their names. Raises Faults with every fault as `file:line: message`."""
    faults: list[str] = []
    documents: list[Document] = []
    for file, text in sorted(texts.items()):
        try:
            documents.append(parse_document(text, file))
        except Faults as error:
            faults += error.faults
    # Lists first: classes of any file may use them.
    lists: dict[str, tuple[str, ...]] = {}
    reading: list[tuple[Document, Diagnostics]] = []
    for document in documents:
        found = Diagnostics(document)
        reading.append((document, found))
        _lists(document, found, lists)
    classes: dict[str, ClassRule] = {}
    named = frozenset(name for document in documents for name in _names_of_classes(document))
    of_names = NameLists(lists)
    for document, found in reading:
        _classes(document, found, of_names, named, classes)
        faults += found.texts()
    if not faults and not classes:
        faults.append("the classification rules have no class")
    if faults:
        raise Faults(faults)
    whole = hashlib.sha256()
    for file, text in sorted(texts.items()):
        whole.update(f"{len(file)} {len(text)} {file}{text}".encode("utf-8", "surrogatepass"))
    return Classifiers(classes=tuple(classes.values()), lists=lists, digest=whole.hexdigest()[:16])


def _lists(document: Document, faults: Diagnostics, lists: dict[str, tuple[str, ...]]) -> None:
    data = document.data
    if not isinstance(data, dict):
        faults.add((), "the classification rules must be a mapping with `classes` or `lists`")
        return
    list_unknown_keys(data, CLASSIFIER_KEYS, (), faults, "the classification rules")
    for name, found in section(data, "lists", (), faults).items():
        path: Path = ("lists", name)
        if name in lists:
            faults.add(path, f"duplicate list `{name}`")
        words = _words_of(found)
        if words is None:
            faults.add(path, "a list must be a text of words, or a list of such texts")
        lists[name] = words or ()


def _words_of(found: Any) -> tuple[str, ...] | None:
    """Words of a text, or of each text of a list the whole: `New York` is one then."""
    if isinstance(found, str):
        return tuple(found.split())
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        return tuple(part.strip() for one in found for part in one.split(",") if part.strip())
    return None


def _names_of_classes(document: Document) -> Collection[str]:
    found = document.data.get("classes") if isinstance(document.data, dict) else None
    return found.keys() if isinstance(found, dict) else ()


def _classes(
    document: Document,
    faults: Diagnostics,
    lists: NameLists,
    named: Collection[str],
    classes: dict[str, ClassRule],
) -> None:
    if not isinstance(document.data, dict):
        return
    for name, found in section(document.data, "classes", (), faults).items():
        path: Path = ("classes", name)
        if name in classes:
            faults.add(path, f"duplicate class `{name}`")
        if not isinstance(found, dict):
            faults.add(path, "a class must be a mapping with `tag` and `when`")
            continue
        list_unknown_keys(found, _CLASS_KEYS, path, faults, "a class")
        one = _Reading(found, path, faults, lists)
        classes[name] = ClassRule(
            name=name,
            about=one.text("about"),
            tag=one.text("tag", required=True),
            attributes=one.attributes(),
            types=one.types(),
            names=one.phrases("names"),
            beside=one.phrases("beside"),
            vague=one.phrases("vague"),
            against=one.phrases("against"),
            despite=one.classes("despite", named),
            among=one.classes("among", named),
            otherwise=one.phrases("otherwise"),
            unless=one.phrases("unless"),
            never=one.phrases("never"),
            formats=one.formats("formats"),
            named_formats=one.formats("named_formats"),
            text=one.formats("text", within=True),
            when=one.when(),
            order=len(classes),
        )


class _Reading:
    """One class of a file."""

    def __init__(self, data: Mapping[str, Any], path: Path, faults: Diagnostics, lists: NameLists) -> None:
        self._data, self._path, self._faults = data, path, faults
        self._words, self._lists = lists, lists.lists

    def text(self, key: str, *, required: bool = False) -> str:
        found = self._data.get(key, "")
        if not isinstance(found, str) or (required and not found.strip()) or len(found) > 200:
            at = (*self._path, key) if key in self._data else self._path
            self._faults.add(at, f"a class needs `{key}`, a text of up to 200 characters")
            return ""
        return found

    def attributes(self) -> dict[str, str]:
        found = section(self._data, "attributes", self._path, self._faults)
        for key, value in found.items():
            if not isinstance(value, str):
                self._faults.add((*self._path, "attributes", key), "an attribute of a tag must be a text")
        return {key: str(value) for key, value in found.items()}

    def types(self) -> frozenset[str]:
        found = self._list("types")
        for at, one in enumerate(found):
            if one not in KINDS:
                self._faults.add((*self._path, "types", at), f"unknown type `{one}`{hint(one, KINDS)}")
        return frozenset(found) or frozenset({"text"})

    def classes(self, key: str, named: Collection[str]) -> frozenset[str]:
        found = self._list(key)
        for at, one in enumerate(found):
            if one not in named:
                self._faults.add((*self._path, key, at), f"unknown class `{one}`{hint(one, named)}")
        return frozenset(found)

    def phrases(self, key: str) -> tuple[Phrase, ...]:
        """Phrases stand in a text, with commas between, by language or all in one."""
        given = self._data.get(key, "")
        texts = given if isinstance(given, dict) else {"": given}
        found: list[Phrase] = []
        for language, text in texts.items():
            path = (*self._path, key, language) if language else (*self._path, key)
            if not isinstance(text, str):
                self._faults.add(
                    path,
                    f"`{key}` must be a text of comma-separated phrases, or a mapping of languages "
                    "to such texts",
                )
                continue
            for phrase in filter(None, map(str.strip, text.split(","))):
                try:
                    found.append(Phrase.of(phrase, self._words))
                except ValueError as error:
                    self._faults.add(path, str(error))
        return tuple(dict.fromkeys(found))

    def formats(self, key: str, *, within: bool = False) -> tuple[str, ...]:
        found = self._list(key)
        for at, one in enumerate(found):
            if not is_format(one, self._lists):
                names = (*own_formats(), *(f"words.{name}" for name in self._lists))
                self._faults.add((*self._path, key, at), f"unknown format `{one}`{hint(one, names)}")
            elif within and one not in WITHIN:
                self._faults.add(
                    (*self._path, key, at), f"`{one}` cannot be found within a text; {', '.join(WITHIN)} can"
                )
        return tuple(found)

    def when(self) -> tuple[When, ...]:
        given = self._data.get("when")
        if not isinstance(given, list) or not given:
            at = (*self._path, "when") if "when" in self._data else self._path
            self._faults.add(at, "a class needs `when`, a list of conditions of which one must hold")
            return ()
        found = []
        for index, one in enumerate(given):
            path = (*self._path, "when", index)
            if not isinstance(one, dict) or not one:
                self._faults.add(path, f"a condition must be a mapping of {', '.join(_WHEN_KEYS)}")
                continue
            list_unknown_keys(one, _WHEN_KEYS, path, self._faults, "`when`")
            values = {}
            for key in ("named", "sure", "among", "once", "empty"):
                values[key] = one.get(key, False)
                if not isinstance(values[key], bool):
                    self._faults.add((*path, key), f"`{key}` must be `true` or `false`")
            for key in ("share", "within"):
                values[key] = self._share(one.get(key, 0.0), (*path, key))
            for key, what in (("distinct", "values"), ("years", "years")):
                values[key] = one.get(key, 0)
                if not _is_number(values[key], int) or values[key] < 0:
                    self._faults.add((*path, key), f"`{key}` must be a number of {what}")
            if values["sure"] and not values["named"]:
                self._faults.add(path, "an absent name is not conclusive: add `named`")
            elif values["empty"] and not values["named"]:
                self._faults.add(
                    path, "a column without values can be classified by its name only: add `named`"
                )
            elif not (values["named"] or values["share"] or values["within"]):
                self._faults.add(
                    path, "without `named`, `share` or `within`, every column would be in this class"
                )
            else:
                found.append(When(**values))
        return tuple(found)

    def _share(self, value: Any, path: Path) -> float:
        if not _is_number(value, int | float) or not 0 <= value <= 1:
            self._faults.add(path, "a share must be a number from 0 to 1")
            return 0.0
        return float(value)

    def _list(self, key: str) -> list[str]:
        found = self._data.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            self._faults.add((*self._path, key), f"`{key}` must be a list of names")
            return []
        return found


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
