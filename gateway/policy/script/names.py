"""What scripts may ask about an access: Ranger's variables, the methods of `ctx`, and the macros over them.

Each entry says which fields of the AccessContext it reads, so that an answer is remembered only as long as
they stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from gateway.model.context import TIME
from gateway.model.resource import ADMIN_ACCESS, ANY_ACCESS
from gateway.model.tags import Tag
from gateway.policy.facts import Facts
from gateway.policy.schedules import parse_time, zone_of
from gateway.policy.script.values import (
    UNDEFINED,
    AttributeValues,
    Indeterminate,
    Joined,
    ScriptInstant,
    ScriptValue,
    is_nothing,
    to_text,
    truthy,
)

NO_NAMES: Final[frozenset[str]] = frozenset()
TAGS: Final = frozenset({"tags"})
ROLES: Final = frozenset({"roles"})
AT: Final = frozenset({TIME})


@dataclass(slots=True, eq=False)
class ScriptScope:
    """One run of a script: what it asks about, its variables, and the result that it set."""

    facts: Facts
    variables: dict[str, ScriptValue] = field(default_factory=dict)
    result: bool = False


Getter = Callable[[ScriptScope], ScriptValue]
Call = Callable[[ScriptScope, tuple[ScriptValue, ...]], ScriptValue]


@dataclass(frozen=True, slots=True)
class Function:
    """A method of `ctx` or a macro."""

    fewest: int
    most: int
    context_dependencies: frozenset[str]
    call: Call


def _or_null(text: str | None) -> ScriptValue:
    return text or None


def _texts(values: Iterable[str]) -> list[ScriptValue]:
    return [*sorted(values)]


def user(scope: ScriptScope) -> dict[str, ScriptValue]:
    """The user's attributes and name; an attribute with several values is Several."""
    record: dict[str, ScriptValue] = {
        name: values[0] if len(values) == 1 else AttributeValues(values)
        for name, values in scope.facts.user_attributes.items()
        if values
    }
    record["_name"] = scope.facts.user
    return record


def _groups(scope: ScriptScope) -> dict[str, dict[str, ScriptValue]]:
    attributes = scope.facts.group_attributes
    return {name: {**attributes.get(name, {}), "_name": name} for name in sorted(scope.facts.groups)}


def _group_values(scope: ScriptScope) -> ScriptValue:
    first: dict[str, ScriptValue] = {}
    every: dict[str, list[ScriptValue]] = {}
    for attributes in _groups(scope).values():
        for name, value in attributes.items():
            first.setdefault(name, value)
            every.setdefault(name, []).append(value)
    return {"sVal": first, "mVal": every}


def _tag_record(tag: Tag) -> dict[str, ScriptValue]:
    return {**tag.attributes, "_type": tag.type}


def _tags(scope: ScriptScope) -> dict[str, dict[str, ScriptValue]]:
    return {tag.type: _tag_record(tag) for tag in scope.facts.tags}


def _tag_object(scope: ScriptScope) -> ScriptValue:
    tag = scope.facts.tag
    return None if tag is None else {"type": tag.type, "attributes": dict(tag.attributes)}


def _resource(scope: ScriptScope) -> dict[str, ScriptValue]:
    return {**scope.facts.resource, "_ownerUser": scope.facts.owner}


def _time(scope: ScriptScope) -> datetime:
    time = scope.facts.context.time
    if time is None:
        raise Indeterminate("the time of the access is not known")
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _instant(scope: ScriptScope) -> ScriptInstant:
    return ScriptInstant(float(_time(scope).timestamp() // 1) * 1000)


REQUEST: Final[Mapping[str, tuple[frozenset[str], Getter]]] = {
    "user": (NO_NAMES, lambda s: s.facts.user),
    "userGroups": (NO_NAMES, lambda s: _texts(s.facts.groups)),
    "userRoles": (ROLES, lambda s: _texts(s.facts.roles)),
    "userAttributes": (NO_NAMES, user),
    "userGroupAttributes": (NO_NAMES, _groups),
    "uga": (NO_NAMES, _group_values),
    "resource": (NO_NAMES, _resource),
    "accessType": (NO_NAMES, lambda s: _or_null(s.facts.access)),
    "resourceMatchingScope": (NO_NAMES, lambda s: s.facts.scope),
    "accessTime": (AT, lambda s: _instant(s).milliseconds),
    "action": (frozenset({"action"}), lambda s: _or_null(s.facts.context.action)),
    "clientIPAddress": (frozenset({"client_ip"}), lambda s: s.facts.context.client_ip),
    "remoteIPAddress": (frozenset({"remote_ip"}), lambda s: s.facts.context.remote_ip),
    "forwardedAddresses": (frozenset({"forwarded"}), lambda s: [*s.facts.context.forwarded]),
    "clientType": (frozenset({"client_type"}), lambda s: _or_null(s.facts.context.client_type)),
    "clusterName": (frozenset({"cluster"}), lambda s: _or_null(s.facts.context.cluster)),
    "clusterType": (frozenset({"cluster_type"}), lambda s: _or_null(s.facts.context.cluster_type)),
    "requestData": (frozenset({"request_data"}), lambda s: _or_null(s.facts.context.request_data)),
}
"""Fields of `REQ`."""

VARIABLES: Final[Mapping[str, tuple[frozenset[str], Getter]]] = {
    "USER": (NO_NAMES, user),
    "UG": (NO_NAMES, _groups),
    "UGA": (NO_NAMES, _group_values),
    "UGNAMES": (NO_NAMES, lambda s: _texts(s.facts.groups)),
    "URNAMES": (ROLES, lambda s: _texts(s.facts.roles)),
    "TAG": (TAGS, lambda s: {} if s.facts.tag is None else _tag_record(s.facts.tag)),
    "TAGS": (TAGS, _tags),
    "TAGNAMES": (TAGS, lambda s: _texts({tag.type for tag in s.facts.tags})),
    "RES": (NO_NAMES, _resource),
    "tag": (TAGS, _tag_object),
    "tagAttr": (TAGS, lambda s: {} if s.facts.tag is None else dict(s.facts.tag.attributes)),
}


# Lists as text.

Items = Callable[[ScriptScope], Iterable[str]]


def _join_csv(items: Iterable[str], arguments: tuple[ScriptValue, ...], *, quoted: bool) -> ScriptValue:
    """Ranger's `toCsv`: arguments are a default, the separator and the two quotation marks."""

    def text(place: int, absent: str) -> str:
        if place >= len(arguments):
            return absent
        return "" if is_nothing(arguments[place]) else to_text(arguments[place])

    separator = text(1, ",")
    opening = text(2, "'") if quoted else ""
    closing = text(3, opening) or opening if quoted else ""
    joined = Joined.of(tuple(items), separator, (opening, closing))
    if not joined and arguments and not is_nothing(arguments[0]):
        return Joined.of((to_text(arguments[0]),), separator, (opening, closing))
    return joined


def _names_function(items: Items, context_dependencies: frozenset[str], *, quoted: bool) -> Function:
    return Function(0, 4, context_dependencies, lambda s, a: _join_csv(items(s), a, quoted=quoted))


def _values_function(
    items: Callable[[ScriptScope, str], Iterable[str]], context_dependencies: frozenset[str], *, quoted: bool
) -> Function:
    return Function(
        1, 5, context_dependencies, lambda s, a: _join_csv(items(s, to_text(a[0])), a[1:], quoted=quoted)
    )


def _user_values(scope: ScriptScope, name: str) -> Iterable[str]:
    return (scope.facts.user,) if name == "_name" else scope.facts.user_attributes.get(name, ())


def _group_attribute(scope: ScriptScope, name: str) -> Iterable[str]:
    groups = _groups(scope).values()
    return [to_text(attributes[name]) for attributes in groups if attributes.get(name) is not None]


def _tag_attribute(scope: ScriptScope, name: str) -> Iterable[str]:
    tags = _tags(scope)
    return [to_text(tags[tag][name]) for tag in sorted(tags) if tags[tag].get(name) is not None]


def _group_attribute_names(scope: ScriptScope) -> Iterable[str]:
    return sorted({name for attributes in scope.facts.group_attributes.values() for name in attributes})


def _tag_attribute_names(scope: ScriptScope) -> Iterable[str]:
    return sorted({name for tag in scope.facts.tags for name in tag.attributes})


_NAME_LISTS: Final[Mapping[str, tuple[str, frozenset[str], Items]]] = {
    "UG_NAMES": ("ugNames", NO_NAMES, lambda s: sorted(s.facts.groups)),
    "UR_NAMES": ("urNames", ROLES, lambda s: sorted(s.facts.roles)),
    "TAG_NAMES": ("tagNames", TAGS, lambda s: sorted({tag.type for tag in s.facts.tags})),
    "USER_ATTR_NAMES": ("userAttrNames", NO_NAMES, lambda s: sorted(s.facts.user_attributes)),
    "UG_ATTR_NAMES": ("ugAttrNames", NO_NAMES, _group_attribute_names),
    "TAG_ATTR_NAMES": ("tagAttrNames", TAGS, _tag_attribute_names),
}
_VALUE_LISTS: Final[Mapping[str, tuple[str, frozenset[str], Callable[[ScriptScope, str], Iterable[str]]]]] = {
    "USER_ATTR": ("userAttr", NO_NAMES, _user_values),
    "UG_ATTR": ("ugAttr", NO_NAMES, _group_attribute),
    "TAG_ATTR": ("tagAttr", TAGS, _tag_attribute),
}


# The methods of ctx.


def _context_attribute(scope: ScriptScope, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    wanted = to_text(arguments[0])
    for name, values in scope.facts.context.attributes:
        if name == wanted and values:
            return values[0] if len(values) == 1 else AttributeValues(values)
    return None


def _attributes(scope: ScriptScope, type_: ScriptValue) -> Mapping[str, str] | None:
    if is_nothing(type_):
        return None
    return next((tag.attributes for tag in scope.facts.tags if tag.type == to_text(type_)), None)


def _attribute(scope: ScriptScope, arguments: tuple[ScriptValue, ...]) -> str | None:
    """`(name)` of the current tag, or `(type, name)` of the first tag of that type."""
    if len(arguments) == 1:
        attributes = scope.facts.tag.attributes if scope.facts.tag is not None else None
    else:
        attributes = _attributes(scope, arguments[0])
    return None if attributes is None else attributes.get(to_text(arguments[-1]))


def _attribute_of_all(scope: ScriptScope, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    if any(is_nothing(argument) for argument in arguments):
        return None
    type_, name = (to_text(argument) for argument in arguments)
    found = [tag.attributes for tag in scope.facts.tags if tag.type == type_]
    return [attributes[name] for attributes in found if name in attributes]


def _date(text: str | None) -> ScriptValue:
    found = attribute_instant(text)
    return None if found is None else ScriptInstant(found * 1000.0)


def _is_accessed_after(scope: ScriptScope, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    # Ranger's meaning, for "expired" conditions: a date that cannot be read has passed.
    date = attribute_instant(_attribute(scope, arguments))
    return date is None or _time(scope).timestamp() // 1 >= date  # RULE (unreadable-date)


def _is_accessed_before(scope: ScriptScope, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    date = attribute_instant(_attribute(scope, arguments))
    return date is not None and _time(scope).timestamp() // 1 <= date


def boundary(text: ScriptValue, zone: ScriptValue) -> float | None:
    """Return a time that a script names, in seconds since 1970; None for null. Without a zone: in UTC."""
    if is_nothing(text):
        return None
    where = UTC if is_nothing(zone) or not to_text(zone).strip() else zone_of(to_text(zone))
    if where is None:
        raise Indeterminate(f"`{to_text(zone)}` is not a time zone")
    try:
        return parse_time(to_text(text)).replace(tzinfo=where).timestamp()
    except (ValueError, OverflowError) as error:
        raise Indeterminate(str(error)) from None


def _between(scope: ScriptScope, start: ScriptValue, end: ScriptValue, zone: ScriptValue) -> ScriptValue:
    first, last = boundary(start, zone), boundary(end, zone)
    now = _time(scope).timestamp() // 1
    if last is None:
        return first is None or now > first  # RULE (strictly-after)
    return now < last if first is None else first <= now < last  # RULE (strictly-before)


def _zone(arguments: tuple[ScriptValue, ...], place: int) -> ScriptValue:
    return arguments[place] if len(arguments) > place else None


def _set_result(scope: ScriptScope, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    scope.result = truthy(arguments[0])
    return UNDEFINED


def _plain(context_dependencies: frozenset[str], get: Getter) -> Function:
    return Function(0, 0, context_dependencies, lambda s, _: get(s))


def _test(context_dependencies: frozenset[str], holds: Callable[[ScriptScope, str], bool]) -> Function:
    return Function(1, 1, context_dependencies, lambda s, a: holds(s, to_text(a[0])))


def _has_group_attribute(scope: ScriptScope, name: str) -> bool:
    return any(name in attributes for attributes in _groups(scope).values())


def _has_tag_attribute(scope: ScriptScope, name: str) -> bool:
    return any(name in tag.attributes for tag in scope.facts.tags)


CONTEXT: dict[str, Function] = {
    **{
        f"get{name[0].upper()}{name[1:]}": _plain(*REQUEST[name])
        for name in (
            "user",
            "userGroups",
            "userRoles",
            "clientIPAddress",
            "clientType",
            "action",
            "requestData",
        )
    },
    "getSessionId": _plain(frozenset({"session_id"}), lambda s: _or_null(s.facts.context.session_id)),
    "getAccessTime": _plain(AT, _instant),
    "getResource": _plain(NO_NAMES, lambda s: "/".join(s.facts.resource.values())),
    "getRequestContextAttribute": Function(1, 1, frozenset({"attributes"}), _context_attribute),
    "isAccessTypeAny": _plain(NO_NAMES, lambda s: s.facts.access in ("", ANY_ACCESS)),
    "isAccessTypeDelegatedAdmin": _plain(NO_NAMES, lambda s: s.facts.access == ADMIN_ACCESS),
    "getCurrentTag": _plain(TAGS, _tag_object),
    "getCurrentTagType": _plain(TAGS, lambda s: None if s.facts.tag is None else s.facts.tag.type),
    "getAllTagTypes": _plain(TAGS, lambda s: _texts({tag.type for tag in s.facts.tags})),
    "getTagAttributes": Function(1, 1, TAGS, lambda s, a: _attributes(s, a[0])),
    "getAttributeNames": Function(1, 1, TAGS, lambda s, a: _texts(_attributes(s, a[0]) or ())),
    "getAttributeValue": Function(1, 2, TAGS, _attribute),
    "getAttributeValueForAllMatchingTags": Function(2, 2, TAGS, _attribute_of_all),
    "getTagAttributeAsDate": Function(2, 2, TAGS, lambda s, a: _date(_attribute(s, a))),
    "getAsDate": Function(1, 1, NO_NAMES, lambda _, a: _date(None if is_nothing(a[0]) else to_text(a[0]))),
    "isAccessedAfter": Function(1, 2, TAGS | AT, _is_accessed_after),
    "isAccessedBefore": Function(1, 2, TAGS | AT, _is_accessed_before),
    "isAccessTimeAfter": Function(1, 2, AT, lambda s, a: _between(s, a[0], None, _zone(a, 1))),
    "isAccessTimeBefore": Function(1, 2, AT, lambda s, a: _between(s, None, a[0], _zone(a, 1))),
    "isAccessTimeBetween": Function(2, 3, AT, lambda s, a: _between(s, a[0], a[1], _zone(a, 2))),
    "hasTag": _test(TAGS, lambda s, name: any(tag.type == name for tag in s.facts.tags)),
    "hasAnyTag": _plain(TAGS, lambda s: bool(s.facts.tags)),
    "hasUserAttr": _test(NO_NAMES, lambda s, name: name in user(s)),
    "hasUgAttr": _test(NO_NAMES, _has_group_attribute),
    "hasTagAttr": _test(TAGS, _has_tag_attribute),
    "isInGroup": _test(NO_NAMES, lambda s, name: name in s.facts.groups),
    "isInRole": _test(ROLES, lambda s, name: name in s.facts.roles),
    "isInAnyGroup": _plain(NO_NAMES, lambda s: bool(s.facts.groups)),
    "isInAnyRole": _plain(ROLES, lambda s: bool(s.facts.roles)),
    "getResult": _plain(NO_NAMES, lambda s: s.result),
    "setResult": Function(1, 1, NO_NAMES, _set_result),
}
"""Methods of `ctx`; those called `getX` may also be read as `ctx.x`."""

CALLED: dict[str, Function] = {
    "HAS_TAG": CONTEXT["hasTag"],
    "HAS_USER_ATTR": CONTEXT["hasUserAttr"],
    "HAS_UG_ATTR": CONTEXT["hasUgAttr"],
    "HAS_TAG_ATTR": CONTEXT["hasTagAttr"],
    "IS_IN_GROUP": CONTEXT["isInGroup"],
    "IS_IN_ROLE": CONTEXT["isInRole"],
    "IS_ACCESS_TIME_AFTER": CONTEXT["isAccessTimeAfter"],
    "IS_ACCESS_TIME_BEFORE": CONTEXT["isAccessTimeBefore"],
    "IS_ACCESS_TIME_BETWEEN": CONTEXT["isAccessTimeBetween"],
}
"""Macros that are called with brackets."""


def _not(function: Function) -> Function:
    return Function(0, 0, function.context_dependencies, lambda s, a: not function.call(s, a))


BARE: dict[str, Function] = {
    "HAS_ANY_TAG": CONTEXT["hasAnyTag"],
    "HAS_NO_TAG": _not(CONTEXT["hasAnyTag"]),
    "IS_IN_ANY_GROUP": CONTEXT["isInAnyGroup"],
    "IS_IN_ANY_ROLE": CONTEXT["isInAnyRole"],
    "IS_NOT_IN_ANY_GROUP": _not(CONTEXT["isInAnyGroup"]),
    "IS_NOT_IN_ANY_ROLE": _not(CONTEXT["isInAnyRole"]),
}
"""Macros that are words of their own, without brackets."""


def _add_lists() -> None:
    for macro, (method, context_dependencies, names) in _NAME_LISTS.items():
        for quoted, mark, short in ((False, "", ""), (True, "_Q", "Q")):
            listed = _names_function(names, context_dependencies, quoted=quoted)
            CALLED[f"GET_{macro}{mark}"] = CONTEXT[f"{method}{short}"] = listed
            bare = Function(0, 0, context_dependencies, listed.call)
            BARE[f"{macro}{mark}_CSV"] = CONTEXT[f"{method}Csv{short}"] = bare
    for macro, (method, context_dependencies, values) in _VALUE_LISTS.items():
        for quoted, mark, short in ((False, "", ""), (True, "_Q", "Q")):
            listed = _values_function(values, context_dependencies, quoted=quoted)
            CALLED[f"GET_{macro}{mark}"] = CONTEXT[f"{method}{short}"] = listed
            if macro != "USER_ATTR":
                single = Function(1, 1, context_dependencies, listed.call)
                CALLED[f"GET_{macro}{mark}_CSV"] = CONTEXT[f"{method}Csv{short}"] = single


_add_lists()


# -- Dates as attributes of tags write them ------------------------------------------------------------


_DAY = re.compile(r"(?P<year>[0-9]{4})/(?P<month>[0-9]{1,2})/(?P<day>[0-9]{1,2})(?![0-9])")
_MOMENT = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"T(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})\.[0-9]{1,9}Z"
)


def attribute_instant(text: str | None) -> float | None:
    """Return a date in seconds since 1970, None for what is not one.

    Ranger's two formats: `yyyy-MM-dd'T'HH:mm:ss.SSS'Z'` and `yyyy/MM/dd`, both in UTC; what follows the date
    is ignored, as Ranger does.
    """
    if text is None:
        return None
    found = _MOMENT.match(text) or _DAY.match(text)
    if found is None:
        return None
    parts = {name: int(value) for name, value in found.groupdict().items()}
    try:
        return datetime(**parts, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
