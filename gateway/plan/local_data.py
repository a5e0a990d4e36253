"""Local data that clients upload: its schemas go the way of those in plans."""

from __future__ import annotations

from gateway.sql.schema_text import check_schema
from gateway.sql.scope import CannotClassify
from gateway.wire.local_data import CachedData
from gateway.wire.protobuf import ProtobufError


class LocalDataCheck:
    """One file of the session's cache, checked as it comes."""

    def __init__(self) -> None:
        self._data = CachedData()

    def refusal(self, data: bytes, *, last: bool) -> str | None:
        """Take more of the file, with `last` its end; return why it may not go on to Spark."""
        try:
            self._data.feed(data)
            if last:
                self._data.end()
                for text in self._data.texts:
                    check_schema(text)
        except ProtobufError as error:
            return error.why
        except CannotClassify as problem:
            return problem.refusal.why
        return None
