"""What session variables want, and what a name may mean because of them.

A name that nothing in a query has is a variable, whoever wrote it: the client, a policy, or who made a view.
So texts of policies, and of views that are written out, may not have a word that is a variable's name: a
column that was taken away would otherwise become a value of the client's choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from gateway.model.reading import ExpressionNode, FieldValue, Reading
from gateway.model.statement import DeclareVariables, DropVariable, SessionContext, SetVariables
from gateway.sql.required import Required
from gateway.sql.scope import CannotClassify, CommandScope, name_parts
from gateway.sql.spark_errors import build_variable_refusal

MAX_VARIABLES = 1_000
"""Variables of one session, those that were dropped not counted."""
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WORD = re.compile(r"\w+")
_HOLDERS = frozenset("Alias Cast CreateVariable DefaultValueExpression UnresolvedAlias".split())
"""What a string may stand in that is all that a statement gives a variable."""
_QUALIFIERS = ((), ("session",), ("system", "session"))


def declare(scope: CommandScope) -> Required:
    """DECLARE [OR REPLACE] VARIABLE; before 4.1 of one name. Its default is an expression without a query."""
    held = scope.field("names") if scope.has("names") else (scope.field("name"),)
    if not isinstance(held, tuple):
        raise CannotClassify("the names of the variables could not be read")
    names = frozenset(_name(_parts(one, scope)) for one in held)
    if len(scope.names.context.variables | names) > MAX_VARIABLES:
        raise CannotClassify(f"a session has at most {MAX_VARIABLES} variables")
    tree = scope.reading.tree
    return Required(effects=(DeclareVariables(names, _string_of(tree), of_strings=_is_of_strings(tree)),))


def _string_of(held: ExpressionNode | None) -> str | None:
    """Return the string that an expression is, or that DECLARE gives its variables, where it is written."""
    while held is not None and held.node != "Literal":
        whole = held.node in _HOLDERS and (held.node != "Cast" or held.type == "string")
        held = held.children[0] if whole and len(held.children) == 1 else None
    return held.value if held is not None and held.type == "string" else None


def _is_of_strings(tree: ExpressionNode | None) -> bool:
    """Whether DECLARE says that its variables have the type STRING, or gives them a string."""
    held = tree
    while held is not None and held.node in ("CreateVariable", "DefaultValueExpression"):
        held = held.children[0] if len(held.children) == 1 else None
    return held is not None and held.node in ("Cast", "Literal") and held.type == "string"


def _list_given_strings(tree: ExpressionNode | None, number: int) -> list[str | None]:
    """Return the strings that SET VARIABLE gives so many variables, where they are written in it."""
    query = tree.plans[0] if tree is not None and len(tree.plans) == 1 else None
    # RULE (variable-one-row): of no row a variable is NULL.
    if query is None or query.node != "Project" or [one.node for one in query.plans] != ["OneRowRelation"]:
        return [None] * number
    found = [_string_of(one) for one in query.children]
    return found if len(found) == number else [None] * number


def assign(scope: CommandScope) -> Required:
    """SET VARIABLE: the query that gives the values is judged like any other."""
    held = scope.field("targetVariables")
    if not isinstance(held, tuple):
        raise CannotClassify("the names of the variables could not be read")
    names = [_name(_parts(one, scope), scope.names.context) for one in held]
    given = dict(zip(names, _list_given_strings(scope.reading.tree, len(names)), strict=True))
    # RULE (variable-of-strings)
    known = {
        n: text for n, text in given.items() if text is not None and n in scope.names.context.string_variables
    }
    others = frozenset(names) - known.keys()
    effects = [SetVariables(frozenset({name}), text) for name, text in known.items()]
    return Required(effects=(*effects, *((SetVariables(others),) if others else ())))


def drop(scope: CommandScope) -> Required:
    """DROP TEMPORARY VARIABLE."""
    return Required(effects=(DropVariable(_name(scope.parts("name"))),))


def list_declared(reading: Reading) -> Iterator[tuple[str, str | None]]:
    """Yield the variables (lower case) that a statement declares, with the string that each is given, where
    that is written in it."""
    for command in reading.commands:
        if command.node == "CreateVariable":
            held = command.fields.get("names", (command.fields.get("name"),))
            for name in _last_parts(held):
                yield name, _string_of(reading.tree)


def list_targets(reading: Reading) -> Iterator[str]:
    """Yield the variables (lower case) that a statement gives a value."""
    for command in reading.commands:
        if command.node in ("SetVariable", "UnresolvedExecuteImmediate"):
            yield from _last_parts(command.fields.get("targetVariables"))


def _last_parts(held: FieldValue) -> Iterator[str]:
    for one in held if isinstance(held, tuple) else ():
        parts = one.get("parts") if isinstance(one, Mapping) else None
        if isinstance(parts, tuple) and parts:
            yield str(parts[-1]).lower()


def _parts(held: FieldValue, scope: CommandScope) -> tuple[str, ...]:
    if not isinstance(held, Mapping):
        raise CannotClassify("the name of a variable could not be read")
    return name_parts(held, scope.command.node)


def _name(parts: tuple[str, ...], context: SessionContext | None = None) -> str:
    *qualifier, name = (part.lower() for part in parts)
    if tuple(qualifier) not in _QUALIFIERS:
        raise CannotClassify(build_variable_refusal(parts, context))
    if not _PLAIN.fullmatch(name):  # RULE (variable-plain-name)
        raise CannotClassify("a session variable has a plain name, without signs, or `session.` before it")
    return name


def find_variable(text: str, reading: Reading, variables: AbstractSet[str]) -> str | None:
    """Return a variable (lower case) that a text could mean; also where a word of it only looks so."""
    return min(variables & frozenset(_words(text, reading)), default=None) if variables else None


def _words(text: str, reading: Reading) -> Iterator[str]:
    # Spark's parser has no columns where the variables of a lambda function could be meant.
    for word in _WORD.findall(text):
        yield word.lower()
    for column in reading.columns:
        yield from (part.lower() for part in column.parts)
