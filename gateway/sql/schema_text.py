"""Schemas that come as text: JSON can hold expressions that Spark evaluates, and names of classes.

A column's default and a generated column are SQL in its metadata. Spark's own check takes any built-in
function there, also one that policies refuse: on 4.3.0, `from_json('{}', …)` evaluates the default of a field
that is missing. DDL has neither.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from gateway.model.reading import Argument
from gateway.sql.scope import CannotClassify, clip
from gateway.sql.spark_errors import build_schema_refusal

SCHEMA_FUNCTIONS = frozenset({"from_csv", "from_json", "from_xml", "try_variant_get", "variant_get"})
"""Functions with an argument that is a schema; the others that have one are refused."""
SCHEMA_ARGUMENTS = {"try_variant_get": 2, "variant_get": 2}
"""Where it stands, if it is not the second argument."""
SCHEMA_MAKERS = frozenset({"schema_of_csv", "schema_of_json", "schema_of_xml"})
"""Functions that write a schema themselves, as DDL."""
WITHOUT_OPTIONS = {"from_xml": 2, "schema_of_xml": 1}
"""Functions → how many arguments they have without options. One of these is the path of a file that Spark
reads; entities and DTDs of a document it does not."""

_XML_OPTIONS = frozenset(
    """
    arrayelementname attributeprefix charset columnnameofcorruptrecord dateformat declaration encoding
    excludeattribute ignorenamespace ignoresurroundingspaces indent inferschema locale mode nullvalue
    preferdate prefersdecimal primitivesasstring roottag rowtag samplingratio timeformat timestampformat
    timestampntzformat timezone treatemptyvaluesasnulls validatename valuetag wildcardcolname
    """.split()
)
"""How XML is read and written."""
_USER_TYPES = re.compile(r"org\.apache\.spark\.ml(?:lib)?\.linalg\.(?:Vector|Matrix)UDT")
_JSON_SIGNS = ('"udt"', "\\", "_DEFAULT", "GENERATION_EXPRESSION", "delta.")
"""Without one of these, a text has nothing in it that `check_schema` looks for."""
_EXPRESSION_KEY = re.compile(r"(?:CURRENT|EXISTS)_DEFAULT|GENERATION_EXPRESSION|delta\..*", re.DOTALL)
"""Metadata of columns that Spark or Delta parse as SQL: defaults, generated columns, constraints."""


def schema_argument(name: str) -> int | None:
    """Return which argument of a function is a schema; None when none is."""
    folded = name.lower()
    return SCHEMA_ARGUMENTS.get(folded, 1) if folded in SCHEMA_FUNCTIONS else None


def check_options_argument(name: str, arguments: Sequence[Argument]) -> None:
    """Refuse options of a function of which one would read a file."""
    given = arguments[WITHOUT_OPTIONS.get(name.lower(), len(arguments)) :]
    keys = None
    if len(given) == 1 and str(given[0].call).lower() == "map":
        keys = given[0].keys
    # RULE (xml-options)
    if given and (keys is None or not {key.lower() for key in keys} <= _XML_OPTIONS):
        raise CannotClassify(
            f"the function `{name}` is refused with such options: `rowValidationXSDPath`, which is one, "
            "reads a file of the caller's choice; write the others as `map('rowTag', …)`"
        )


def check_schema_argument(name: str, literal: str | None, call: str | None, other: str | None = None) -> None:
    """Refuse the schema that a function is given unless it can be read: `literal`, its text, or `call`, the
    function that makes it. `other`: it is a literal, and no text."""
    if other is not None:
        raise CannotClassify(build_schema_refusal(other))
    if literal is not None:
        check_schema(literal)
    elif call is None or call.lower() not in SCHEMA_MAKERS:  # RULE (schema-computed)
        raise CannotClassify(
            f"the schema of `{name}` must be a string literal, or the result of `schema_of_json` or "
            "`schema_of_csv`: a computed schema could contain expressions that are not authorized"
        )


def check_schema(text: str) -> None:
    """Refuse JSON that names a class of the user's, or has Spark evaluate an expression."""
    if not any(sign in text for sign in _JSON_SIGNS):
        return
    if "{" not in text and "[" not in text:
        return  # not JSON of more than one type, and DDL has neither
    try:
        # Pairs instead of dicts: of two keys with one name neither is lost.
        pending: list[Any] = [json.loads(text, object_pairs_hook=tuple)]
    except (ValueError, RecursionError):
        # RULE (schema-unreadable-json)
        raise CannotClassify("the schema is not valid JSON") from None
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending.extend(part)
        elif isinstance(part, tuple):
            user_type = ("type", "udt") in part
            for key, value in part:
                if user_type and key == "class":
                    check_user_type(value, None)
                elif user_type and key == "serializedClass":
                    check_user_type(None, value)
                elif _EXPRESSION_KEY.fullmatch(key):  # RULE (schema-default-expressions)
                    raise CannotClassify(
                        f"the metadata `{clip(key)}` contains an expression that Spark would evaluate; "
                        "define defaults and generated columns in SQL"
                    )
                pending.append(value)


def check_user_type(jvm_class: object, serialized_class: object) -> None:
    """Refuse a user-defined type unless it is one of Spark's own, or has neither a JVM class nor code."""
    if serialized_class:  # RULE (schema-pickled-code)
        raise CannotClassify("user-defined types with pickled code are not supported; use Spark's own types")
    # RULE (schema-classes)
    if jvm_class and not (isinstance(jvm_class, str) and _USER_TYPES.fullmatch(jvm_class)):
        raise CannotClassify(
            f"the user-defined type `{clip(str(jvm_class))}` would make Spark create an object of that "
            "class; use Spark's own types"
        )
