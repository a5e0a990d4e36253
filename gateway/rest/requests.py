"""What stands in a request: strict JSON, names, and the members that are known."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import orjson

from gateway.model.catalog import TableName, join_namespace
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.model.table_formats import ICEBERG, METADATA_TABLES

SEPARATOR = "\x1f"
"""What stands between the levels of a namespace in a path."""
MAX_NAME_CHARS = 512
MAX_LEVELS = 16
_VERSIONS = re.compile(r"(?:branch|tag|snapshot_id|at_timestamp)_.*|changes|rewrite", re.IGNORECASE)
"""What Spark's names for branches, tags and versions of a table look like, which stand below the table's."""


class RestFault(Exception):
    """What is answered in the form that Iceberg's REST specification has for errors."""

    def __init__(self, status: int, kind: str, message: str, *, retry_s: float | None = None) -> None:
        """`retry_s`: after how many seconds the client may try again by itself."""
        super().__init__(message)
        self.retry_s = retry_s
        self.status = status
        self.kind = kind
        """Name of the exception of Iceberg's own client that it becomes there."""
        self.message = message


def bad_request(message: str) -> RestFault:
    """Return the answer to a request that makes no sense, or has something that is not known."""
    return RestFault(400, "BadRequestException", message)


def forbidden(message: str) -> RestFault:
    """Return the answer to what nobody may do here, whatever policies say."""
    return RestFault(403, "ForbiddenException", message)


def not_found(kind: str, message: str) -> RestFault:
    """Return the answer to what is not there, or not for who asks. `kind`: as RestFault has it."""
    return RestFault(404, kind, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestCall:
    """A request that is on its way through the service."""

    method: str
    catalog: str
    parts: Mapping[str, str]
    """What stood in the variable places of its path, decoded."""
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    """By names in lower case."""
    body: bytes = field(repr=False)
    principal: Principal
    client: Client
    name: str = ""
    """What the specification calls the operation."""
    session_namespace: tuple[str, ...] = ("default",)
    """In which the names of a view's text are looked up."""
    on_record: list[str] = field(default_factory=list, repr=False)
    """Identifiers of its entries in the record."""
    counted: list[str] = field(default_factory=list, repr=False)
    """Its name, once limits have counted it."""

    @property
    def namespace(self) -> tuple[str, ...]:
        """The namespace of its path."""
        return read_levels(self.parts["namespace"])

    @property
    def database(self) -> str:
        """The same as one name."""
        return join_levels(self.namespace)

    @property
    def table(self) -> TableName:
        """The table or view of its path."""
        reads = self.method in ("GET", "HEAD")
        return build_name(self.catalog, self.namespace, self.parts["table"], reads=reads)


def read_levels(text: str) -> tuple[str, ...]:
    """Return the levels of a namespace as it stands in a path or a parameter."""
    return check_levels(text.split(SEPARATOR))


def check_levels(told: Any) -> tuple[str, ...]:
    """Return the levels of a namespace as it stands in a body."""
    if not isinstance(told, (list, tuple)) or not 1 <= len(told) <= MAX_LEVELS:
        raise bad_request("a namespace is a list of names")
    return tuple(require_name(one) for one in told)


def require_name(told: Any) -> str:
    """Return a name that is governed as it is written: one with a dot would be taken for two."""
    if not isinstance(told, str) or not told or len(told) > MAX_NAME_CHARS:
        raise bad_request("a name is a text that is not empty and not too long")
    if "." in told or "/" in told or not told.isprintable():  # RULE (rest-odd-name)
        raise forbidden(
            f"the name {_quote(told)} has a dot, a slash or a control character and is not governed"
        )
    return told


def build_name(catalog: str, levels: Sequence[str], told: Any, *, reads: bool = False) -> TableName:
    """Return the name of a table or view that a namespace has. INVARIANT (one name, one table): below a
    namespace that may be a table, a name that Spark reads as that table's metadata or branch is refused; who
    `reads` it is told that it is not there, since Iceberg's client then reads it of the table above."""
    name = require_name(told)
    below = name.lower() in METADATA_TABLES[ICEBERG.name] or _VERSIONS.fullmatch(name)
    if len(levels) > 1 and below:  # RULE (rest-name-below-table)
        if reads:
            raise not_found("NoSuchTableException", f"there is no table {_quote(name)} in this namespace")
        raise forbidden(f"the name {_quote(name)} in a namespace with levels is not governed: Spark reads it "
                        "as the metadata, or a branch, of a table")  # fmt: skip
    return TableName(catalog, join_levels(levels), name)


def join_levels(namespace: Sequence[str]) -> str:
    """Return a namespace as one name, as the rest of the gateway has it."""
    return join_namespace(namespace)


def read_identifier(catalog: str, told: Any) -> TableName:
    """Return the table that a body names."""
    members = require_members(told, "an identifier", ("namespace", "name"), ("namespace", "name"))
    return build_name(catalog, check_levels(members["namespace"]), members["name"])


def read_body(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise bad_request("the body is not JSON, or nested too deep") from None
    if not isinstance(told, dict):
        raise bad_request("the body is no JSON object")
    return told


def require_members(
    told: Any, what: str, known: Collection[str], needed: Collection[str] = ()
) -> Mapping[str, Any]:
    """Return an object that has nothing but known members. INVARIANT (what is unknown is not passed on): a
    member that is not understood may mean anything to the catalog."""
    if not isinstance(told, dict):
        raise bad_request(f"{what} is no object")
    unknown = sorted(set(told) - set(known))
    if unknown:  # RULE (rest-unknown-member)
        raise bad_request(f"{what} has the member {_quote(unknown[0])}, which is not known")
    for key in needed:
        if key not in told:
            raise bad_request(f"{what} has no `{key}`")
    return told


def require_text(told: Any, what: str) -> str:
    """Return a text of a body."""
    if not isinstance(told, str) or "\x00" in told:
        raise bad_request(f"{what} is no text")
    return told


def require_texts(told: Any, what: str) -> dict[str, str]:
    """Return an object of texts, as properties are."""
    if not isinstance(told, dict) or not all(isinstance(one, str) for one in told.values()):
        raise bad_request(f"{what} is no object of texts")
    return told


def require_list(told: Any, what: str) -> list[Any]:
    """Return an array of a body."""
    if not isinstance(told, list):
        raise bad_request(f"{what} is no list")
    return told


def decode_part(text: str) -> str:
    """Return a part of a path as it was before it was percent-encoded."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise bad_request("a path that is not UTF-8") from None


def _quote(told: str) -> str:
    shown = "".join(c if c.isprintable() and c != "`" else "?" for c in told)
    return f"`{shown[:60]}`"
