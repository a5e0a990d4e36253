"""What SQL functions want: to make, replace and drop them.

Spark runs the body of a function with its own rights, whoever calls it, and does not ask again. What a body
reads is judged by `pipeline/function_bodies.py`; it calls nothing but functions of Spark's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.model.catalog import FUNCTION, TableName, quote
from gateway.model.files import SESSION_CATALOG
from gateway.model.handles import HandleKind, SparkHandle, functions_called, mark_reading_function
from gateway.model.reading import FunctionRef, Reading, RelationRole, Span
from gateway.model.resource import Resource
from gateway.model.statement import CatalogChanged, DropFunction, MakeFunction, RegisterCode
from gateway.sql.functions import BUILTIN_NAMES, CODE_FUNCTIONS, builtin_name
from gateway.sql.names import Ungovernable
from gateway.sql.required import FunctionBody, NamespacePin, Privilege, Required, Unsupported
from gateway.sql.scope import CannotClassify, CommandScope, name_parts

_TABLE: Final = "TABLE"
"""What a table function gives, where its columns are those of its query."""
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LANGUAGES: Final = ("LanguageSQL", "")


def create(scope: CommandScope) -> Required:
    """CREATE FUNCTION … RETURN: a function of a database, which everybody can be let call."""
    language = scope.command.fields.get("language")
    if str(language).rstrip("$").rpartition(".")[2] not in _LANGUAGES:
        raise CannotClassify("functions in other languages than SQL are code and are not supported")
    pin = scope.target("child")
    if pin.table.catalog.lower() != SESSION_CATALOG:
        raise CannotClassify(f"functions are made in the catalog {SESSION_CATALOG} alone")
    made = Resource.udf(pin.table.catalog, pin.table.database, pin.table.table)
    function = replace(pin.table, version=FUNCTION)
    required = [Privilege(made, "create")]  # RULE (create-function-privilege)
    if scope.flag("replace"):
        required.append(Privilege(made, "drop"))  # RULE (replace-function-drops)
    return Required(
        privileges=tuple(required),
        pins=(pin,),
        bodies=_bodies(scope),
        # Where there is one, nothing is made, and the session may know another one by the name.
        effects=(CatalogChanged((function,)),)
        if scope.flag("ignoreIfExists")
        else (CatalogChanged((function,)), MakeFunction(function)),
    )


def create_temporary(scope: CommandScope) -> Required:
    """CREATE TEMPORARY FUNCTION … RETURN: a function of the session, as those that a client registers."""
    if not scope.flag("isTemp"):
        raise CannotClassify("the function could not be read")
    parts = name_parts(scope.node("name"), scope.command.node)
    name = parts[-1].lower()
    if len(parts) != 1 or not _PLAIN.fullmatch(name):
        raise CannotClassify("a temporary function has a plain name of letters, digits and `_`")
    if name in BUILTIN_NAMES:  # RULE (temporary-function-builtin)
        raise CannotClassify(f"`{name}` is a function of Spark's own; give it another name")
    kind: HandleKind = "table_function" if scope.flag("isTableFunc") else "function"
    # Whether Spark then forgets the other one, which this session would go on calling, is not known.
    if (functions_called(name) - {SparkHandle(kind, name)}) & scope.names.context.handles:
        raise CannotClassify(f"`{name}` is another kind of function of this session; drop that one first")
    return Required(
        privileges=(Privilege(Resource.udf("system", "session", name), "create"),),
        bodies=_bodies(scope),
        effects=(RegisterCode(SparkHandle(kind, name)),),
    )


def describe(scope: CommandScope) -> Required:
    """DESCRIBE FUNCTION: of a function of a database it tells the body, so `execute` is wanted on that."""
    child = scope.node("child")
    parts = name_parts(child, scope.command.node)
    name = parts[0].lower()
    registered = functions_called(name) & scope.names.context.handles
    if len(parts) == 1 and mark_reading_function(name) in scope.names.context.handles:
        # RULE (reading-function-described)
        raise CannotClassify(f"the description of `{name}` would show row filters and masks")
    if len(parts) == 1 and (registered or name in BUILTIN_NAMES or not _PLAIN.fullmatch(name)):
        return Required()
    table = scope.names.new_table(parts)
    if isinstance(table, Ungovernable):
        raise CannotClassify(table.refusal(".".join(parts)))
    wanted = Privilege(Resource.udf(table.catalog, table.database, table.table), "execute")
    if parts == table.parts:
        return Required(privileges=(wanted,))
    span = child.get("span")
    if not isinstance(span, tuple) or len(span) != 2:
        raise CannotClassify("the name of the function is not written literally")
    place = Span(int(str(span[0])), int(str(span[1])))
    # RULE (described-function-pinned)
    return Required(privileges=(wanted,), namespaces=(NamespacePin(place, table.parts),))


def refresh(scope: CommandScope) -> Required:
    """REFRESH FUNCTION: Spark looks again at one of a database."""
    if scope.node("child").get("node") == "UnresolvedFunctionName":
        raise CannotClassify("REFRESH FUNCTION is governed with Spark 4.2 and later")
    pin = scope.target("child")
    made = Resource.udf(pin.table.catalog, pin.table.database, pin.table.table)
    return Required(privileges=(Privilege(made, "execute"),), pins=(pin,))


def drop(scope: CommandScope) -> Required:
    """DROP FUNCTION of a database."""
    if scope.node("child").get("node") == "UnresolvedFunctionName":
        raise CannotClassify("DROP FUNCTION is governed with Spark 4.2 and later")
    pin = scope.target("child")
    parts = pin.relation.parts
    name = parts[0].lower()
    registered = functions_called(name) & scope.names.context.handles
    # RULE (unqualified-function)
    if len(parts) == 1 and (name in BUILTIN_NAMES or registered):
        raise CannotClassify("DROP FUNCTION needs the name of the function with its database")
    wanted = Privilege(Resource.udf(pin.table.catalog, pin.table.database, pin.table.table), "drop")
    # RULE (drop-function-privilege)
    return Required(
        privileges=(wanted,),
        pins=(pin,),
        effects=(CatalogChanged((replace(pin.table, version=FUNCTION),)),),
    )


def drop_temporary(scope: CommandScope) -> Required:
    """DROP TEMPORARY FUNCTION: from then on the name is another function's, or nobody's.

    INVARIANT (a name is judged as it will be resolved): masks call built-in functions by their names.
    """
    parts = name_parts(scope.node("identifier"), scope.command.node)
    if not scope.flag("isTemp"):
        raise CannotClassify("dropping functions is not supported")
    name = parts[-1].lower()
    if name in BUILTIN_NAMES:  # RULE (drop-builtin-function)
        raise CannotClassify(f"`{name}` is built in and cannot be dropped")
    return Required(effects=(DropFunction(name),))


def _bodies(scope: CommandScope) -> tuple[FunctionBody, ...]:
    """Return the texts that Spark keeps of a function: what it gives, and its parameters with defaults."""
    expression, query = scope.text("exprText"), scope.text("queryText")
    found = []
    if expression is not None:
        found.append(FunctionBody(expression, "expression"))
    if query is not None:
        found.append(FunctionBody(query, "query"))
    if not found:
        raise CannotClassify("the body of the function could not be read")
    parameters = scope.text("inputParamText")
    if parameters is not None:
        found.append(FunctionBody(f"CREATE TABLE t ({parameters})", "parameters"))
    returned = scope.text("returnTypeText")
    if returned and returned.upper() != _TABLE:
        columns = returned if scope.flag("isTableFunc") else f"x {returned}"
        found.append(FunctionBody(f"CREATE TABLE t ({columns})", "returned"))
    return tuple(found)


def body_refusal(
    body: FunctionBody, reading: Reading, called: Iterable[tuple[FunctionRef, TableName]]
) -> Unsupported | None:
    """Say why a text of a function may not be kept, of what its classification leaves open. `called`: the
    functions of databases in it."""
    parameters = body.kind in ("parameters", "returned")
    # RULE (function-defaults-read)
    if parameters and any(one.role is not RelationRole.TARGET for one in reading.relations):
        return Unsupported("what a parameter is by default may read no table")
    commands = [one.node for one in reading.commands]
    if commands != (["CreateTable"] if parameters else []):
        return Unsupported("the body of a SQL function is a query or an expression")
    if parameters and reading.identities:  # RULE (function-default-identity)
        return Unsupported("what a parameter is by default may not ask who the user is")
    if reading.parameters:
        return Unsupported("the body of a SQL function may have no parameter markers")
    others = {function for function, _ in called}
    for function in reading.functions:
        own = function.builtin and len(function.parts) == 1
        runs_code = builtin_name(function.parts) in CODE_FUNCTIONS
        if (own and not runs_code) or (function in others and not parameters):
            continue
        # RULE (function-body-functions)
        return Unsupported(
            f"the body of a SQL function may call Spark's own functions by their names alone and functions "
            f"of databases of {SESSION_CATALOG}, and `{'.'.join(function.parts)}` is neither"
            + (" in what a parameter is by default" if parameters else "")
        )
    return None


@dataclass(frozen=True, slots=True)
class WholeBody:
    """The body of a function as a query by itself, over rows that have its parameters for columns."""

    before: str
    body: str
    after: str

    @property
    def text(self) -> str:
        return f"{self.before}{self.body}{self.after}"

    def cut(self, text: str) -> str | None:
        """Return the body of what the query has become; None where it is not told from what is around it."""
        if not (text.startswith(self.before) and text.endswith(self.after)):
            return None
        return text[len(self.before) : len(text) - len(self.after)]


def write_whole_body(
    body: str,
    parameters: Iterable[tuple[str, str]],
    name: str,
    *,
    is_table: bool,
    defaults: Sequence[str] = (),
) -> WholeBody:
    """Return the query: it is judged, and never run. `defaults`: of the parameters, empty of one without."""
    named = [*parameters]
    given = ", ".join(
        f"CAST({default or 'NULL'} AS {kind}) AS {quote(parameter)}"
        for (parameter, kind), default in zip(named, defaults or [""] * len(named), strict=True)
    )
    source = f"(SELECT {given or '1'}) AS {quote(name)}"
    if is_table:
        return WholeBody(f"SELECT `its rows`.* FROM {source}, LATERAL (\n", body, "\n) AS `its rows`")
    return WholeBody("SELECT (\n", body, f"\n) AS `its value` FROM {source}")


def list_parameters(reading: Reading) -> tuple[tuple[str, str], ...] | None:
    """Return names and types of parameters, of their text's reading; None for names that are not plain."""
    columns = reading.commands[0].fields.get("columns") if reading.commands else None
    found = []
    for column in columns if isinstance(columns, tuple) else ():
        name, kind = (column.get("name"), column.get("dataType")) if isinstance(column, Mapping) else ("", "")
        if not (isinstance(name, str) and isinstance(kind, str) and _PLAIN.fullmatch(name)):
            return None
        found.append((name, kind))
    return tuple(found)
