"""House-keeping: notes for differences, old history."""

from __future__ import annotations

from aiohttp import web

from gateway.admin.ranger.calls import PUBLIC, ApiCall, Route, answer, bad_request, no_content, not_found
from gateway.admin.ranger.kinds import ObjectKind

_HISTORY = "trx_records"
_NOT_KEPT = ("login_records", "policy_export_logs")
"""Kinds of records of Ranger's that are kept elsewhere here: the audit record has its own keeping."""
_MAX_DAYS = 36_500


async def _purge_changes(call: ApiCall) -> web.Response:
    call.require_administrator("delete recorded policy changes")
    days = _days(call, "days", 7)
    async with call.store.writing(call.user) as writing:
        await writing.purge_changes(days)
    return no_content()


async def _refuse_not_stored(call: ApiCall) -> web.Response:
    # Tags are always sent whole, and no version of a policy but the last is in the way of anything.
    call.require_administrator("drop old records")
    if "service" in call.request.match_info:
        async with call.store.reading() as reading:
            if await reading.find_named(ObjectKind.SERVICE, call.path("service")) is None:
                raise not_found()
    return no_content()


async def _purge_records(call: ApiCall) -> web.Response:
    call.require_administrator("drop old records")
    days = _days(call, "retentionDays", 180)
    type_ = call.parameter("type")
    if type_ in _NOT_KEPT:
        return answer([_build_purge_result(type_, 0, 0)])
    if type_ != _HISTORY:
        raise bad_request(f"unknown type of records `{type_}`; known: {', '.join((_HISTORY, *_NOT_KEPT))}")
    async with call.store.writing(call.user) as writing:
        total, gone = await writing.purge_history(days)
    return answer([_build_purge_result(type_, total, gone)])


def _build_purge_result(type_: str, total: int, gone: int) -> dict[str, object]:
    return {"recordType": type_, "totalRecordCount": total, "purgedRecordCount": gone}


def _days(call: ApiCall, name: str, default: int) -> int:
    days = call.number(name, default)
    if not 1 <= days <= _MAX_DAYS:
        raise bad_request(f"`{name}` must be a number of days, at least 1")
    return days


ROUTES = (
    Route("DELETE", f"{PUBLIC}/server/policydeltas", _purge_changes),
    Route("DELETE", f"{PUBLIC}/server/tagdeltas", _refuse_not_stored),
    Route("DELETE", f"{PUBLIC}/server/purgepolicies/{{service}}", _refuse_not_stored),
    Route("DELETE", f"{PUBLIC}/server/purge/records", _purge_records),
)
