"""Whether a row filter or a mask could mean something else under another ANSI mode or time zone.

Types are followed from columns and literals upwards, through what is known to mean the same in both: operands
of one type, functions of the lists below. Where types differ Spark puts a cast, and which one it is, is up to
ANSI mode; where an instant becomes anything else, or something becomes an instant, it is up to the time zone.
What is on no list depends on both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.model.catalog import Table
from gateway.model.meaning_settings import Influence
from gateway.model.reading import ExpressionNode
from gateway.policy.column_types import column_type
from gateway.sql.functions import builtin_name
from gateway.sql.varying import names_instant

_ANSI: Final = frozenset({Influence.ANSI})
_ZONE: Final = frozenset({Influence.TIME_ZONE})
BOTH: Final = _ANSI | _ZONE
_NOTHING: Final[frozenset[Influence]] = frozenset()

_INSTANT: Final = "instant"
_MIXED: Final = "mixed"
"""Some type that is no instant and holds none."""
_TIME_TYPES = re.compile(r"timestamp|date|time|interval|variant|instant|^$")
"""Types of which a value can turn into an instant, or holds one; and the unknown one."""


@dataclass(frozen=True, slots=True)
class _Typed:
    """A type, empty when it is not known, and what the value depends on."""

    type: str
    depends: frozenset[Influence] = _NOTHING


_UNKNOWN: Final = _Typed("", BOTH)

_COMPARISONS: Final = frozenset(
    "EqualNullSafe EqualTo GreaterThan GreaterThanOrEqual In LessThan LessThanOrEqual".split()
)
_LOGIC: Final = frozenset("And Not Or".split())
_TESTS: Final = frozenset("IsNotNull IsNull".split())
_PATTERNS: Final = frozenset("ILike Like LikeAll LikeAny NotLikeAll NotLikeAny RLike".split())
_ARITHMETIC: Final = frozenset("Add Multiply Subtract".split())
_BITS: Final = frozenset("BitwiseAnd BitwiseNot BitwiseOr BitwiseXor".split())

# Arguments: t text, x text or binary, i whole number, d date, * any number of the one before; those behind
# `?` may be left out. Behind `>` the result, b for a boolean.
_SIGNATURES: Final[Mapping[str, str]] = {
    **dict.fromkeys("btrim lcase lower ltrim rtrim trim ucase upper".split(), "t?t>t"),
    **dict.fromkeys("initcap reverse soundex".split(), "t>t"),
    **dict.fromkeys("char_length character_length length len".split(), "t>i"),
    **dict.fromkeys("bit_length crc32 octet_length".split(), "x>i"),
    **dict.fromkeys("left right repeat".split(), "ti>t"),
    **dict.fromkeys("substr substring".split(), "ti?i>t"),
    **dict.fromkeys("lpad rpad".split(), "ti?t>t"),
    **dict.fromkeys("md5 sha sha1".split(), "x>t"),
    **dict.fromkeys("contains endswith startswith regexp regexp_like rlike".split(), "tt>b"),
    **dict.fromkeys("like ilike".split(), "tt?t>b"),
    **dict.fromkeys("find_in_set instr levenshtein regexp_count regexp_instr".split(), "tt>i"),
    **dict.fromkeys("locate position".split(), "tt?i>i"),
    **dict.fromkeys(
        "day dayofmonth dayofweek dayofyear month quarter weekday weekofyear year".split(), "d>i"
    ),
    **dict.fromkeys("current_user session_user user".split(), ">t"),
    "concat": "t*>t",
    "concat_ws": "t*>t",
    "date_add": "di>d",
    "date_sub": "di>d",
    "datediff": "dd>i",
    "get_json_object": "tt>t",
    "last_day": "d>d",
    "mask": "t?tttt>t",
    "regexp_extract": "tt?i>t",
    "regexp_replace": "ttt>t",
    "regexp_substr": "tt>t",
    "replace": "tt?t>t",
    "sha2": "xi>t",
    "split_part": "tti>t",
    "substring_index": "tti>t",
    "translate": "ttt>t",
    "trunc": "dt>d",
}
_LETTERS: Final[Mapping[str, frozenset[str]]] = {
    "t": frozenset({"text"}),
    "x": frozenset({"text", "binary"}),
    "i": frozenset({"integer"}),
    "d": frozenset({"date"}),
}
_RESULTS: Final[Mapping[str, str]] = {"t": "text", "i": "integer", "d": "date", "b": "boolean"}
_ALIKE: Final = frozenset("coalesce greatest ifnull least nullif nvl".split())
"""Functions of operands of one type, with a result of that type."""
_COMPARING: Final = frozenset("between equal_null".split())
_INSTANTS: Final = frozenset("current_timestamp now".split())
_TODAY: Final = frozenset("curdate current_date".split())
_LENGTHS: Final = frozenset("char_length character_length instr length len locate".split())
_FAR: Final = frozenset({"Distinct", "Filter", "Project", "SubqueryAlias", "UnresolvedRelation"})
"""Plans of subqueries that are followed."""


def depends(
    tree: ExpressionNode | None, text: str, table: Table, read: Sequence[Table]
) -> frozenset[Influence]:
    """Return what the meaning of a policy's text depends on, of ANSI mode and time zone.

    `tree` is the text as Spark's parser reads it; `read` are the tables that its subqueries read.
    """
    if tree is None:
        return BOTH  # RULE (meaning-size-bound)
    columns: dict[str, str] = {}
    for one in (table, *read):
        for column in one.columns:
            name, type_ = column.name.lower(), _column_type(column.type)
            # The same name in two tables: which one is meant is not followed, so both have to have one type.
            columns[name] = type_ if columns.get(name, type_) == type_ else ""
    found = _Typing(columns, frozenset(one.name.table.lower() for one in (table, *read))).of(tree)
    return found.depends | (_ZONE if names_instant(text) else _NOTHING)  # RULE (relative-time-words)


def _column_type(written: str) -> str:
    lowered = " ".join(written.lower().split())
    if lowered in ("timestamp", "timestamp_ltz"):
        return _INSTANT
    family = column_type(lowered).family
    return lowered if family == "other" else family


class _Typing:
    """Types within one text; `columns` of a name that is not unique is the empty type."""

    def __init__(self, columns: Mapping[str, str], tables: frozenset[str]) -> None:
        self._columns = columns
        self._tables = tables

    def of(self, node: ExpressionNode) -> _Typed:
        if node.node == "UnresolvedAttribute":
            return self._resolve_name(node.parts)
        if node.node == "UnresolvedFunction":
            return self._type_call(node)
        if node.plans:
            return self._query(node)
        operands = [self.of(child) for child in node.children]
        written = _SYNTAX.get(node.node)
        return written(node, operands) if written is not None else _UNKNOWN

    def _resolve_name(self, parts: tuple[str, ...]) -> _Typed:
        folded = [part.lower() for part in parts]
        if folded[0] in self._columns:
            return _value(self._columns[folded[0]]) if len(folded) == 1 else _UNKNOWN
        if len(folded) == 1:
            return _word(folded[0])
        if len(folded) == 2 and folded[1] in self._columns:
            return _value(self._columns[folded[1]])
        return _UNKNOWN

    def _type_call(self, node: ExpressionNode) -> _Typed:
        name = builtin_name(node.parts)
        operands = [self.of(child) for child in node.children]
        if name is None:
            return _UNKNOWN
        if name in _ALIKE:
            return _alike(operands)
        if name in _COMPARING:
            return _Typed("boolean", _alike(operands).depends)
        if not operands and (name in _INSTANTS or name in _TODAY):
            return _word(name)
        signature = _SIGNATURES.get(name)
        if signature is None or not _fits(operands, signature):
            return _UNKNOWN
        return _Typed(_RESULTS[signature[-1]], _all(operands))

    def _query(self, node: ExpressionNode) -> _Typed:
        """A subquery: of one column, or one of which only counts whether it has rows."""
        (plan,) = node.plans
        found = self._rows(plan)
        beside = _all([self.of(child) for child in node.children])
        if node.node == "Exists":
            return _Typed("boolean", found.depends | beside)
        return _Typed(found.type, found.depends | beside) if found.type else _UNKNOWN

    def _rows(self, plan: ExpressionNode) -> _Typed:
        """Return the type of a plan's one column, empty for several, and what its rows depend on."""
        if plan.node not in _FAR or len(plan.plans) > 1:
            return _UNKNOWN
        if plan.node == "Project" and _projects(plan.plans):  # RULE (output-name-no-column)
            return _UNKNOWN  # what the inner query gives another name is no column of a table
        below = self._rows(plan.plans[0]) if plan.plans else _Typed("")
        here = [self.of(child) for child in plan.children if child.node != "UnresolvedStar"]
        both = below.depends | _all(here)
        match plan.node:
            case "Project":
                single = here[0].type if len(plan.children) == len(here) == 1 else ""
                return _Typed(single, both)
            case "Filter":
                return _Typed(below.type, both | _conditions(here))
            case _:
                return _Typed(below.type, both)


def _projects(plans: Sequence[ExpressionNode]) -> bool:
    return any(plan.node == "Project" or _projects(plan.plans) for plan in plans)


def _value(type_: str) -> _Typed:
    return _Typed(type_) if type_ else _UNKNOWN


def _word(name: str) -> _Typed:
    if name in _INSTANTS:
        return _Typed(_INSTANT)
    if name in _TODAY:
        return _Typed("date", _ZONE)
    return _Typed("text") if name in ("current_user", "session_user", "user") else _UNKNOWN


def _all(operands: Sequence[_Typed]) -> frozenset[Influence]:
    return _NOTHING.union(*(one.depends for one in operands))


def _alike(operands: Sequence[_Typed]) -> _Typed:
    """Return the type that all operands have; between different ones Spark puts casts."""
    types = {one.type for one in operands} - {"void"}
    if len(types) <= 1 and types.isdisjoint(("", _MIXED)):
        return _Typed(types.pop() if types else "void", _all(operands))
    casts = BOTH if any(_TIME_TYPES.search(type_) for type_ in types) else _ANSI
    if types == {"date", "text"}:
        casts = _ANSI  # a day written as text is the same day everywhere
    return _Typed("" if casts == BOTH else _MIXED, _all(operands) | casts)  # RULE (cast-mixed-operands)


def _conditions(operands: Sequence[_Typed]) -> frozenset[Influence]:
    """Return what it depends on that these are conditions: a cast, if they are of another type."""
    return _alike([*operands, _Typed("boolean")]).depends


def _type_comparison(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    return _Typed("boolean", _alike(operands).depends)


def _type_join(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    return _Typed("boolean", _conditions(operands))


def _type_test(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    return _Typed("boolean", _all(operands))


def _type_match(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    return _Typed("boolean", _alike([*operands, _Typed("text")]).depends)


def _case(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    pairs = len(operands) // 2 * 2
    values = [*operands[1:pairs:2], *operands[pairs:]]
    chosen = _alike(values)
    return _Typed(chosen.type, chosen.depends | _conditions(operands[0:pairs:2]))


def _type_concatenation(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    """A whole number is written as text in the same way everywhere."""
    if all(one.type in ("text", "integer") for one in operands):
        return _Typed("text", _all(operands))
    return _UNKNOWN


def _part(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    return _Typed("text", _all(operands)) if _fits(operands, "ti?i>t") else _UNKNOWN


def _texts(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    return _Typed("text", _all(operands)) if _fits(operands, "t?t>t") else _UNKNOWN


def _bits(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    found = _alike(operands)
    return found if found.type == "integer" else _UNKNOWN


def _sum(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    """What is too large fails in one mode and goes round in the other."""
    if any(one.type != "integer" for one in operands):
        return _UNKNOWN
    # RULE (sum-overflow-ansi)
    return _Typed("integer", _all(operands) | (_NOTHING if _is_small(node) else _ANSI))


def _inner(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    return operands[0] if len(operands) == 1 else _UNKNOWN


def _literal(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    type_ = _column_type(node.type)
    # The parser has read it in its own time zone, and Spark's will in the session's.
    return _Typed(type_, _ZONE) if type_ == _INSTANT else _value(type_)  # RULE (timestamp-literal-zone)


def _cast(node: ExpressionNode, operands: Sequence[_Typed]) -> _Typed:
    """TRY_CAST is the same in both modes. Whole numbers are not told apart by size."""
    (value,) = operands
    source, target = value.type, _column_type(node.type)
    if not source:
        return _UNKNOWN
    if source == _INSTANT and target in ("date", "text"):
        return _Typed(target, value.depends | _ZONE)  # RULE (date-of-timestamp-zone)
    if _INSTANT in (source, target) and source != target and source != "void":
        return _Typed(target, value.depends | BOTH)
    tried = node.mode == "TRY"
    same = source == target and (source != "integer" or tried or node.type.lower() == "bigint")
    written = target == "text" and source in ("integer", "boolean", "date")
    if same or written or source == "void" or (source, target) == ("text", "binary"):
        return _Typed(target, value.depends)
    zone = _NOTHING
    if _TIME_TYPES.search(source) or _TIME_TYPES.search(target):
        plain = node.children[0].node in ("Literal", "UnresolvedAttribute")
        zone = _NOTHING if {source, target} == {"date", "text"} and plain else _ZONE
    return _Typed(target, value.depends | zone | (_NOTHING if tried else _ANSI))


_SYNTAX: Final[Mapping[str, Callable[[ExpressionNode, Sequence[_Typed]], _Typed]]] = {
    **dict.fromkeys(_COMPARISONS, _type_comparison),
    "InSubquery": _type_comparison,
    **dict.fromkeys(_LOGIC, _type_join),
    **dict.fromkeys(_TESTS, _type_test),
    **dict.fromkeys(_PATTERNS, _type_match),
    **dict.fromkeys(_ARITHMETIC, _sum),
    **dict.fromkeys(_BITS, _bits),
    **dict.fromkeys(("Lower", "StringTrim", "StringTrimLeft", "StringTrimRight"), _texts),
    "Alias": _inner,
    "UnresolvedAlias": _inner,
    "CaseWhen": _case,
    "Cast": _cast,
    "Coalesce": lambda node, operands: _alike(operands),
    "Concat": _type_concatenation,
    "CurrentDate": lambda node, operands: _word("current_date"),
    "CurrentTimestamp": lambda node, operands: _word("current_timestamp"),
    "CurrentUser": lambda node, operands: _word("current_user"),
    "Literal": _literal,
    "Substring": _part,
}


def _is_small(node: ExpressionNode) -> bool:
    """Whether a sum or difference cannot overflow: the length of a text, and a number of a few digits."""
    lengths = [c for c in node.children if c.node == "UnresolvedFunction" and c.parts[-1].lower() in _LENGTHS]
    numbers = [c for c in node.children if c.node == "Literal" and c.type == "int"]
    return node.node != "Multiply" and len(lengths) == len(numbers) == 1


def _fits(operands: Sequence[_Typed], signature: str) -> bool:
    """Whether operands have the types of a signature, so that Spark puts no cast; NULL has every type."""
    wanted = signature.partition(">")[0]
    if wanted.endswith("*"):
        letters = wanted[0] * len(operands)
        least = 1
    else:
        required, _, optional = wanted.partition("?")
        letters, least = required + optional, len(required)
    return least <= len(operands) <= len(letters) and all(
        one.type == "void" or one.type in _LETTERS[letter]
        for one, letter in zip(operands, letters, strict=False)
    )
