"""Masks as Spark SQL: what a column shows for each of Ranger's mask types, in exactly the column's type.

Meaning per type is Hive's (its `mask`, `mask_show_last_n`, `mask_show_first_n`, `mask_first_n`, `mask_last_n`
and `mask_hash` functions, with their arguments as `transformers` reads them), and a mask that has no meaning
for a type shows NULL, never the value. A new mask type is a row in `rules/service_defs`, seldom code here.
docs/masks.md has the whole table; a test runs each of its cells on Spark, with ANSI mode on and off.

Every expression is made of syntax (CAST, CASE, SUBSTRING … FROM) and of functions named
`system.builtin.…`, which a session cannot shadow with functions of its own; before Spark 4.2, which does not
know these names, of bare ones (`spark_minors.QUALIFIED_BUILTINS`).
INVARIANT (total): none of them can raise, whatever the column holds. Integers are masked as digits that
stay inside the type or are NULL; no other CAST meets text that we did not make.
"""

from __future__ import annotations

from functools import lru_cache

from gateway.model.catalog import quote
from gateway.policy.column_types import ColumnType, column_type
from gateway.policy.facts import Facts
from gateway.policy.sqltext import bind
from gateway.policy.transformers import FIXED, KEEP, MONTH_DAYS, STANDARD, Masking, hive_masking

DEFAULT_MASKED_DATE = "1900-01-01"
"""The date that MASK shows. Hive's own is 0000-01-01, which Python clients cannot represent."""

MASK_TYPES = (*STANDARD, *FIXED)
QUALIFIER = "system.builtin."
"""Before the name of a built-in function, so that it means nothing else."""
_MAX_DIGITS = 19
"""Digits of the longest whole number."""


def mask_expression(
    mask_type: str,
    column: str,
    data_type: str,
    *,
    transformer: str = "",
    custom: str | None = None,
    facts: Facts | None = None,
    masked_date: str = DEFAULT_MASKED_DATE,
    bare: bool = False,
) -> str | None:
    """Return what the column shows, as Spark SQL of the column's type; None for MASK_NONE only.

    `transformer` is that of the mask type in its service definition: a call of one of Hive's functions
    decides for every type but MASK_NONE, MASK_NULL and CUSTOM, other SQL for types that no standard knows.
    `custom` is the text of a CUSTOM mask; `bare`: built-in functions are called by bare names. A mask type
    that is not known shows NULL.
    """
    name = quote(column)
    type_ = column_type(data_type)
    if mask_type == "MASK_NONE":
        return None
    text = custom if mask_type == "CUSTOM" else "" if mask_type in FIXED else transformer
    masking = hive_masking(text or "") or STANDARD.get(mask_type)
    if masking is None:
        return null_of(column) if not text else _custom(text, name, type_, facts)
    shown: str | None = None
    b = "" if bare else QUALIFIER
    if type_.family == "text":
        shown = _text(masking, name, type_, b)
    elif type_.family == "integer":
        return _integer(masking, name, type_, b) or null_of(column)
    elif type_.family == "date":
        shown = _date(masking, name, masked_date, b)
    if shown is None:
        return null_of(column)
    return f"CAST({shown} AS {type_.sql})"


@lru_cache(maxsize=4096)
def standard_masks(column: str, data_type: str) -> frozenset[str]:
    """Return the masks of the standard types on a column, which neither settings nor circumstances change."""
    texts = (
        mask_expression(mask_type, column, data_type, bare=bare)
        for mask_type in STANDARD
        for bare in (False, True)
    )
    return frozenset(text for text in texts if text is not None)


def null_of(column: str) -> str:
    """Return NULL of the column's own type, whatever that is, without having to spell the type."""
    return f"CASE WHEN FALSE THEN {quote(column)} END"


def _custom(text: str, name: str, type_: ColumnType, facts: Facts | None) -> str:
    bound = None
    if text.strip() and type_.sql is not None:
        names = {"col": name, "colType": type_.sql, "type": type_.sql}
        bound = bind(text, facts or Facts(user=""), names)
    if bound is None:
        return f"CASE WHEN FALSE THEN {name} END"
    # TRY_CAST, so that a result which does not fit the type is NULL with ANSI mode on and off alike. The
    # branch that is never taken keeps the column as nullable as it is: a literal would make it `not null`.
    # It comes first, because Spark does not look behind a branch that is always taken.
    return f"CASE WHEN FALSE THEN {name} ELSE TRY_CAST(({bound}) AS {type_.sql}) END"


# Text.


def _text(masking: Masking, c: str, type_: ColumnType, b: str) -> str | None:
    n = masking.characters
    length = f"{b}length({c})"
    # SUBSTRING takes a position of 0 for the first: zero characters need words of their own.
    match masking.function:
        case "mask_hash":
            return _hash(c, type_, b)
        case "mask_show_last_n" if n > 0:
            hidden = _cross_out(masking, f"SUBSTRING({c} FROM 1 FOR {length} - {n})", b)
            return f"CASE WHEN {length} <= {n} THEN {c} ELSE {hidden} || SUBSTRING({c} FROM -{n}) END"
        case "mask_show_first_n" if n > 0:
            hidden = _cross_out(masking, f"SUBSTRING({c} FROM {n + 1})", b)
            return f"SUBSTRING({c} FROM 1 FOR {n}) || {hidden}"
        case "mask_first_n" if n > 0:
            hidden = _cross_out(masking, f"SUBSTRING({c} FROM 1 FOR {n})", b)
            return f"{hidden} || SUBSTRING({c} FROM {n + 1})"
        case "mask_last_n" if n > 0:
            hidden = _cross_out(masking, f"SUBSTRING({c} FROM -{n})", b)
            shown = f"SUBSTRING({c} FROM 1 FOR {length} - {n})"
            return f"CASE WHEN {length} <= {n} THEN {_cross_out(masking, c, b)} ELSE {shown} || {hidden} END"
        case "mask_first_n" | "mask_last_n":
            return c
        case _:
            return _cross_out(masking, c, b)


def _cross_out(masking: Masking, text: str, b: str) -> str:
    kinds = (masking.upper, masking.lower, masking.digit, masking.other)
    written = ", ".join("NULL" if character is None else f"'{character}'" for character in kinds)
    return f"{b}mask({text}, {written})"


def _hash(c: str, type_: ColumnType, b: str) -> str:
    digest = f"{b}sha2(CAST({c} AS BINARY), 256)"
    if type_.size is None:
        return digest
    if type_.padded and type_.size > 64:
        return f"{b}rpad({digest}, {type_.size}, ' ')"
    # A cast to varchar(n) does not cut in Spark, it raises or keeps the length, depending on settings.
    return f"SUBSTRING({digest} FROM 1 FOR {type_.size})"


# Whole numbers.


def _integer(masking: Masking, c: str, type_: ColumnType, b: str) -> str | None:
    n = min(masking.characters, _MAX_DIGITS)
    digits = {
        "mask": "[0-9]",
        "mask_show_last_n": f"[0-9](?=[0-9]{{{n}}})",
        "mask_show_first_n": f"(?<=[0-9]{{{n}}})[0-9]",
        "mask_first_n": f"(?<![0-9]{{{n}}})[0-9]",
        "mask_last_n": f"[0-9](?![0-9]{{{n}}})",
    }.get(masking.function)
    if digits is None:
        return None
    masked = f"{b}regexp_replace(CAST({c} AS STRING), '{digits}', '{masking.number}')"
    if masking in STANDARD.values():
        # The largest results (111, 11111, 1111113647, …) lie inside each type: no overflow is possible.
        return f"CAST({masked} AS {type_.sql})"
    return f"TRY_CAST({masked} AS {type_.sql})"


# Dates.


def _date(masking: Masking, c: str, masked_date: str, b: str) -> str | None:
    if masking.function == "mask_hash":
        return None
    kept = (masking.year == KEEP, masking.month == KEEP, masking.day == KEEP)
    if all(kept):
        return c
    if not any(kept):
        return f"CASE WHEN {c} IS NOT NULL THEN DATE'{_compute_fixed_date(masking, masked_date)}' END"
    if (masking.year, masking.day) == (KEEP, 1) and masking.month in (0, KEEP):
        # Spark's earliest year began before its earliest date: its first of January or June would overflow.
        unit = "YEAR" if masking.month == 0 else "MONTH"
        return f"CASE WHEN {c} >= DATE'-5877640-01-01' THEN {b}trunc({c}, '{unit}') END"
    year = f"{b}year({c})" if masking.year == KEEP else _compute_fixed_date(masking, masked_date)[:4]
    month = f"{b}month({c})" if masking.month == KEEP else str(masking.month + 1)
    made = f"{b}make_date({year}, {month}, {_day(masking, c, b)})"
    return f"CASE WHEN {c} BETWEEN DATE'-5877640-01-01' AND DATE'5881579-12-31' THEN {made} END"


def _compute_fixed_date(masking: Masking, masked_date: str) -> str:
    """Return the date that replaces all of a date; the year 0 is that of `masked_date`."""
    if (masking.year, masking.month, masking.day) == (0, 0, 1):
        return masked_date
    year = masked_date[:4] if masking.year in (0, KEEP) else f"{masking.year:04}"
    return f"{year}-{masking.month + 1:02}-{max(masking.day, 1):02}"


def _day(masking: Masking, c: str, b: str) -> str:
    """Return the day of the masked date: a kept one is the month's last where the month is shorter."""
    if masking.day != KEEP:
        return str(masking.day)
    day = f"{b}day({c})"
    if masking.month == KEEP:  # only a 29 February can lose its year
        february = f"{b}month({c}) = 2 AND {day} > 28"
        return f"CASE WHEN {february} THEN 28 ELSE {day} END"
    longest = MONTH_DAYS[masking.month]
    return f"CASE WHEN {day} > {longest} THEN {longest} ELSE {day} END"
