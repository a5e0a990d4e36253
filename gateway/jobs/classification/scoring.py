"""What a column is, by its name and a sample of its values: findings with counts and no value."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import unquote_plus

from gateway.jobs.classification.days import years_between
from gateway.jobs.classification.formats import Formats
from gateway.jobs.classification.names import Phrases, words
from gateway.jobs.classification.nested import (
    MAX_KEYS,
    MAX_TEXT,
    Inner,
    distinct,
    inner_columns,
    is_json,
    is_whole_json,
)
from gateway.jobs.classification.numbers import SHAPES
from gateway.jobs.classification.rules import Classifiers, ClassRule, When
from gateway.jobs.classification.value_format import ValueFormat

PROBE_HITS = 12
"""A format is held against so many values first that a column that is of it has so many hits; with less than
`PROBE_SHARE` of them it is not looked at further. Of columns that are, one in a hundred thousand is missed
where most of the values have to fit, and one in a hundred where a tenth has to."""
PROBE_SHARE = 0.4
SHAPE_SHARE = 0.5
"""Fraction of values with valid check digits from which the shape of the others no longer matters."""
_JSON_SHARE = 0.5
"""Fraction of a text column's values that must be JSON for it to be scored as JSON."""
_ENCODED = re.compile(r"%(?:40|2B|20)", re.IGNORECASE)
"""An at, a plus or a space, as queries of addresses have them."""
_Formats = tuple[ValueFormat, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A column with what was read of it."""

    name: str
    kind: str
    """As in `KINDS` of the rules, `nested` for JSON of a struct, list or map; empty: not looked at."""
    values: Sequence[str]
    """Without nulls."""
    fields: Sequence[str] = ()
    """Names of the fields of a nested type."""
    maps: bool = False
    """Whether a nested type has maps, whose keys `fields` has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Why a column is of a class; no value of it, and no key of its JSON."""

    rule: str
    tag: str
    where: str
    """`value`, `text` for within longer ones, `json` for within JSON, `nested` for within a nested type."""
    named: bool
    format: str
    """Empty where the name alone says it."""
    sampled: int
    hit: int
    distinct: int
    """Different values of those that hit."""

    @property
    def evidence(self) -> dict[str, str | int | bool]:
        """Return it as proposals keep it."""
        return {
            "rule": self.rule,
            "where": self.where,
            "named": self.named,
            "format": self.format,
            "sampled": self.sampled,
            "hit": self.hit,
            "distinct": self.distinct,
        }


@dataclass(frozen=True, slots=True)
class _Score:
    """How a class fits a column as a whole."""

    rule: ClassRule
    weight: int
    """Weight of the column's name; 0: no phrase matches."""
    sure: bool
    """Whether it is more than a `=name`."""
    format: str
    hit: int
    distinct: int
    share: float


class _RulePhrases:
    """The phrases of a rule that match names."""

    def __init__(self, rule: ClassRule) -> None:
        self.all = Phrases(rule.names)
        self.sure = Phrases(phrase for phrase in rule.names if not phrase.alone)
        self.longer = Phrases(phrase for phrase in rule.names if len(phrase.words) > 1)
        self.beside = Phrases(rule.beside)
        self.vague = Phrases(rule.vague)
        self.against = Phrases(rule.against)
        self.otherwise = Phrases(rule.otherwise)
        self.unless = Phrases(rule.unless)
        self.never = Phrases(rule.never)


class Scorer:
    """Scores columns by rules."""

    def __init__(self, classifiers: Classifiers, formats: Formats, value_chars: int = 1_000) -> None:
        """Raises Faults for a library that is not there and for numbers that it does not know.

        A value of `value_chars` was cut.
        """
        self._cut_at = min(value_chars, MAX_TEXT)
        self._rules = classifiers.classes
        self._names = {rule.name: _RulePhrases(rule) for rule in self._rules}
        self._formats: dict[str, tuple[_Formats, _Formats, _Formats]] = {
            rule.name: (
                _of(formats, rule.formats),
                _of(formats, rule.named_formats),
                _of(formats, rule.text),
            )
            for rule in self._rules
        }

    def table(self, columns: Sequence[Sampled]) -> list[list[Evidence]]:
        """Return why each column of a table is of which classes, as `findings` does.

        What nothing was found of is looked at again, now that the classes of the others are known.
        """
        names = [column.name for column in columns]
        found = [self.findings(column, beside=names) for column in columns]
        classes = frozenset(one.rule for findings in found for one in findings)
        if all((rule.among | rule.despite).isdisjoint(classes) for rule in self._rules):
            return found
        for at, column in enumerate(columns):
            if not found[at] and column.kind != "nested":
                again = self._whole(column, distinct(column.values), (), names, classes)
                found[at] = [again] if again is not None else []
        return found

    def findings(
        self, column: Sampled, above: Sequence[str] = (), beside: Sequence[str] = ()
    ) -> list[Evidence]:
        """Return why the column is of which classes, one finding for each.

        `above` are names around it, `beside` those of its table's columns.
        """
        if column.kind == "nested":
            return _once(self._score_nested(column))
        counted = distinct(column.values)
        found = []
        whole = self._whole(column, counted, above, beside)
        if whole is not None:
            found.append(whole)
        if column.kind == "text":
            cut = {text[:MAX_TEXT].strip() for text in column.values if len(text) >= self._cut_at}
            coded = [value for value in counted if is_json(value, cut=value in cut)]
            texts: Mapping[str, int] = counted
            if coded and len(coded) >= _JSON_SHARE * len(counted):
                columns = inner_columns((value, min(counted[value], 100)) for value in coded)
                found += self._inside(columns, (), "json")
                # Of JSON that was cut, what is whole is seen as such, and the rest as text.
                if cut.isdisjoint(coded):
                    whole_json = {value for value in coded if is_whole_json(value)}
                    texts = {value: count for value, count in counted.items() if value not in whole_json}
            if texts:
                found += self._within(texts, column, sum(counted.values()))
        return _once(found)

    # -- as a whole ------------------------------------------------------------------------------------------

    def _whole(
        self,
        column: Sampled,
        counted: Mapping[str, int],
        above: Sequence[str],
        beside: Sequence[str],
        classes: Collection[str] = (),
    ) -> Evidence | None:
        """Return the class that fits best: a column has one sort of value.

        With the `classes` of other columns, only those are asked to which they matter.
        """
        name = words(column.name)
        full = (*(word for one in above for word in words(one)), *name)
        scores = []
        for rule in self._rules:
            names = self._names[rule.name]
            among = not rule.among.isdisjoint(classes)
            matters = among or not rule.despite.isdisjoint(classes)
            if (
                (classes and not matters)
                or column.kind not in rule.types
                or names.never.find_best_weight(name)
            ):
                continue
            if names.vague.find_best_weight(name) and self._is_of_things(rule, beside, classes):
                continue
            weight = sure = 0
            if not names.unless.find_best_weight(name):
                sure = max(names.sure.find_best_weight(name), names.longer.find_best_weight(full))
                weight = max(names.all.find_best_weight(name), sure)
                if weight and not sure:
                    others = (words(one) for one in beside if one != column.name)
                    sure = weight if among or any(map(names.beside.find_best_weight, others)) else 0
            if not weight and names.otherwise.find_best_weight(name):
                continue
            score = self._score(rule, weight, counted, sure=sure > 0, among=among)
            wanted = [one for one in rule.when if not (one.within or (one.once and rule.name in classes))]
            if any(_holds(one, score, counted, among=among) for one in wanted):
                scores.append(score)
        if not scores:
            return None
        score = max(
            scores,
            key=lambda one: (
                *(bool(one.hit), one.format not in SHAPES, one.weight > 0),
                *(one.share, one.weight, -one.rule.order),
            ),
        )
        return Evidence(
            rule=score.rule.name,
            tag=score.rule.tag,
            where="value",
            named=score.weight > 0,
            format=score.format,
            sampled=sum(counted.values()),
            hit=score.hit,
            distinct=score.distinct,
        )

    def _is_of_things(self, rule: ClassRule, beside: Sequence[str], classes: Collection[str]) -> bool:
        """Whether the table is one of things and not of people: no class of `among` or `despite` is there."""
        others = (rule.among | rule.despite) - {rule.name}
        names, beside_words = self._names[rule.name], [words(one) for one in beside]
        return (
            any(map(names.against.find_best_weight, beside_words))
            and not any(map(names.beside.find_best_weight, beside_words))
            and others.isdisjoint(classes)
            and not any(
                self._names[one].sure.find_best_weight(name) for one in others for name in beside_words
            )
        )

    def _score(
        self, rule: ClassRule, weight: int, counted: Mapping[str, int], *, sure: bool, among: bool
    ) -> _Score:
        """Hold the values against each format by itself: check digits of many would fit anything."""
        plain, named, _ = self._formats[rule.name]
        floor = min(
            (
                one.share
                for one in rule.when
                if not (one.empty or one.within) and _matches_name(one, weight, sure=sure, among=among)
            ),
            default=1.0,
        )
        wanted = math.ceil(PROBE_HITS / max(floor, 0.02))
        probe = list(islice(counted, 0, None, max(1, len(counted) // wanted)))[:wanted]
        top = _Score(rule, weight, sure, "", 0, 0, 0.0)
        # A name that is so only by itself, such as `nom`, and a format that says little are too little.
        for format_ in (*plain, *named) if sure else plain:
            if format_.name in SHAPES and top.share >= SHAPE_SHARE:
                continue
            if not _reaches(format_, probe, max(1, math.ceil(PROBE_SHARE * floor * len(probe)))):
                continue
            hits = [value for value in counted if format_.whole(value)]
            share = len(hits) / len(counted)
            if share > top.share:
                top = _Score(
                    rule, weight, sure, format_.name, sum(counted[value] for value in hits), len(hits), share
                )
        return top

    # -- within ----------------------------------------------------------------------------------------------

    def _within(self, counted: Mapping[str, int], column: Sampled, total: int) -> Iterable[Evidence]:
        """Yield what longer texts hold, of so many values in `total`."""
        name = words(column.name)
        # As it stands, and as what an address on the web says.
        forms = {one: (one, unquote_plus(one)) if _ENCODED.search(one) else (one,) for one in counted}
        for rule in self._rules:
            _, _, looked_for = self._formats[rule.name]
            wanted = [one for one in rule.when if one.within]
            if not looked_for or not wanted or self._names[rule.name].never.find_best_weight(name):
                continue
            hit, different = 0, set[str]()
            formats: dict[str, int] = {}
            for value, count in counted.items():
                for format_ in looked_for:
                    there = _first(format_, forms[value])
                    if there is not None:
                        hit += count
                        different.add(there)
                        formats[format_.name] = formats.get(format_.name, 0) + count
                        break
            if hit and any(_by_chance(one, forms.values()) for one in looked_for):
                continue
            if hit and any(hit >= one.within * total and len(different) >= one.distinct for one in wanted):
                yield Evidence(
                    rule=rule.name,
                    tag=rule.tag,
                    where="text",
                    named=False,
                    format=max(formats, key=lambda one: formats[one]),
                    sampled=total,
                    hit=hit,
                    distinct=len(different),
                )

    def _score_nested(self, column: Sampled) -> list[Evidence]:
        """Look into a struct, list or map, which comes as JSON."""
        columns = [Inner((field,), []) for field in column.fields[:MAX_KEYS]]
        if column.values:
            texts = ((value, 1) for value in column.values)
            columns = inner_columns(texts, fields=column.fields, maps=column.maps)
        return self._inside(columns, (column.name,), "nested")

    def _inside(self, columns: Sequence[Inner], above: tuple[str, ...], where: str) -> list[Evidence]:
        """Look at what is in JSON: each key is like a column, and its name stays here."""
        siblings: dict[tuple[str, ...], list[str]] = {}
        for one in columns:
            if one.path:
                siblings.setdefault(one.path[:-1], []).append(one.path[-1])
        found = []
        for path, values in columns:
            *around, name = ("", *above, *path)
            inner = Sampled(name=name, kind="text", values=values)
            found += [
                _move_finding(one, where)
                for one in self.findings(inner, around[-1:], siblings.get(path[:-1], ()))
            ]
        return found


def _of(formats: Formats, names: Iterable[str]) -> tuple[ValueFormat, ...]:
    return tuple(one for name in names for one in formats.find_formats(name))


def _first(format_: ValueFormat, forms: Iterable[str]) -> str | None:
    """Return what a text, in one of its forms, holds first; None where it is nothing but that."""
    for text in forms:
        there = next(iter(format_.find(text)), None) if format_.find is not None else None
        if there is not None and (
            len(there) < len(text) or (format_.alone is not None and format_.alone(text))
        ):
            return there
    return None


def _by_chance(format_: ValueFormat, values: Iterable[Iterable[str]]) -> bool:
    """Whether no more have their check digits right than of any numbers that are like them, in all the forms
    of all values.

    More are those that are three standard deviations above what would be.
    """
    chance, find = format_.chance, format_.find
    if chance is None or find is None:
        return False
    texts = [text for forms in values for text in forms]
    found = len({one for text in texts for one in find(text)})
    like = len({one for text in texts for one in chance.like(text)})
    usual = chance.share * like
    return found <= usual + 3 * math.sqrt(usual * (1 - chance.share))


def _reaches(format_: ValueFormat, values: Sequence[str], hits: int) -> bool:
    """Whether so many values have a format; no more are asked than it takes to know."""
    misses = len(values) - hits
    for value in values:
        if format_.whole(value):
            hits -= 1
        else:
            misses -= 1
        if hits <= 0 or misses < 0:
            break
    return hits <= 0


def _matches_name(when: When, weight: int, *, sure: bool, among: bool) -> bool:
    """Whether the name and what is beside it are as they have to be."""
    return (weight > 0 or not when.named) and (sure or not when.sure) and (among or not when.among)


def _holds(when: When, score: _Score, counted: Mapping[str, int], *, among: bool) -> bool:
    if not _matches_name(when, score.weight, sure=score.sure, among=among):
        return False
    if when.empty:
        return not counted
    return (
        bool(counted)
        and score.share >= when.share
        and score.distinct >= when.distinct
        and (not when.years or years_between(counted) >= when.years)
    )


def _move_finding(finding: Evidence, where: str) -> Evidence:
    return Evidence(
        rule=finding.rule,
        tag=finding.tag,
        where=where,
        named=finding.named,
        format=finding.format,
        sampled=finding.sampled,
        hit=finding.hit,
        distinct=finding.distinct,
    )


def _once(found: Iterable[Evidence]) -> list[Evidence]:
    """Return the finding with most hits of each class, in the order of their names."""
    top: dict[str, Evidence] = {}
    for one in found:
        known = top.get(one.rule)
        if known is None or (one.hit, one.distinct) > (known.hit, known.distinct):
            top[one.rule] = one
    return [top[rule] for rule in sorted(top)]
