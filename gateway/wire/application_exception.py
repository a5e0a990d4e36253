"""Thrift's own exception struct, which answers a call that never reached the service.

No `from __future__ import annotations` here: `Struct` reads the annotations while the class is built.
"""

from typing import Annotated

from gateway.wire.thrift import I32, Struct


class TApplicationException(Struct):
    message: Annotated[str | None, 1] = None
    type: Annotated[int | None, 2, I32] = None
