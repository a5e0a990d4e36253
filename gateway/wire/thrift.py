"""Structs declared by annotations, read and written by Apache Thrift's C codec for the binary protocol.

A struct is a class whose annotations carry Thrift's field ids, and for integers their width:

    class TStatus(Struct):
        statusCode: Annotated[int, 1, I32]
        infoMessages: Annotated[list[str] | None, 2] = None

A field without a default is required. `str` travels as UTF-8, `bytes` as binary.

The C codec checks every length against the bytes that are there before it allocates, and its own recursion;
`decode` adds bounds in proportion to the message and turns each of its errors into `MalformedMessage`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from io import BytesIO
from typing import Annotated, Any, ClassVar, NoReturn, Self, TypeVar, dataclass_transform

from thrift.protocol import fastbinary  # type: ignore[import-untyped, unused-ignore]
from thrift.Thrift import TException, TType  # type: ignore[import-untyped, unused-ignore]

BYTE: int = TType.BYTE
I16: int = TType.I16
I32: int = TType.I32
I64: int = TType.I64

MAX_ELEMENTS = 1_000_000
"""Elements that a list or map may claim unless the caller says otherwise."""

_FAULTS = (EOFError, OverflowError, TypeError, ValueError, TException, RecursionError, SystemError)
"""What the C codec raises for bytes that are not a message (found by fuzzing, tests/wire/test_thrift.py)."""

S = TypeVar("S", bound="Struct")


class MalformedMessage(Exception):
    """The bytes are not what the protocol allows; whoever sent them cannot be talked to any further."""


class Field(typing.NamedTuple):
    """A declared field: what the checks need to know beside Thrift's own description of it."""

    name: str
    required: bool
    structs: bool
    """Whether its value is a struct, or a list or map of structs."""
    text: bool
    """Whether it holds text somewhere outside of nested structs."""


if typing.TYPE_CHECKING:

    class _Namespace:
        def __init__(self, **values: Any) -> None: ...

else:
    _Namespace = types.SimpleNamespace


@dataclass_transform(kw_only_default=True)
class Struct(_Namespace):
    """Base of the declared structs; subclasses get `thrift_spec`, which the C codec reads.

    Made of keywords by `SimpleNamespace`, in C: a message is a dozen of them. Nothing is checked there: the
    codec makes empty structs and fills them, and callers have mypy.
    """

    thrift_spec: ClassVar[tuple[Any, ...]] = ()
    wire_fields: ClassVar[tuple[Field, ...]] = ()
    wire_type: ClassVar[list[Any]] = []
    """Arguments of the C codec for the class: itself and its `thrift_spec`."""
    wire_needs: ClassVar[tuple[Field, ...]] = ()
    """Fields that `check_required` checks."""
    wire_texts: ClassVar[tuple[Field, ...]] = ()
    """Fields that `check_text` checks."""

    def __init_subclass__(cls) -> None:
        specs: dict[int, tuple[Any, ...]] = {spec[0]: spec for spec in cls.thrift_spec if spec}
        fields = list(cls.wire_fields)
        for name, annotation in cls.__annotations__.items():
            python_type, field_id, *width = typing.get_args(annotation)
            required = name not in cls.__dict__
            if required:
                setattr(cls, name, None)
            ttype, arguments = _wire_type(python_type, width[0] if width else None)
            specs[field_id] = (field_id, ttype, name, arguments, None)
            leaves = frozenset(_leaves(python_type))
            fields.append(Field(name, required, any(issubclass(t, Struct) for t in leaves), str in leaves))
        cls.thrift_spec = tuple(specs.get(i) for i in range(max(specs, default=-1) + 1))
        cls.wire_fields = tuple(fields)
        cls.wire_type = [cls, cls.thrift_spec]
        cls.wire_needs = tuple(field for field in fields if field.required or field.structs)
        cls.wire_texts = tuple(field for field in fields if field.text or field.structs)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.wire_fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show numbers only: strings may be secrets, statements or rows, and a repr may end in a log."""
        shown = []
        for field in self.wire_fields:
            value = getattr(self, field.name)
            if value is not None:
                plain = isinstance(value, bool | int | float | Struct)
                shown.append(f"{field.name}={value!r}" if plain else f"{field.name}=<{type(value).__name__}>")
        return f"{type(self).__name__}({', '.join(shown)})"


def _wire_type(python_type: Any, width: int | None) -> tuple[int, Any]:
    """Return Thrift's type number and its arguments for a declared Python type."""
    origin, arguments = typing.get_origin(python_type), typing.get_args(python_type)
    if origin in (types.UnionType, typing.Union):
        return _wire_type(next(a for a in arguments if a is not type(None)), width)
    if origin is list:
        ttype, inner = _wire_type(arguments[0], width)
        return TType.LIST, (ttype, inner, False)
    if origin is dict:
        key, key_inner = _wire_type(arguments[0], None)
        value, value_inner = _wire_type(arguments[1], width)
        return TType.MAP, (key, key_inner, value, value_inner, False)
    if isinstance(python_type, type) and issubclass(python_type, Struct):
        return TType.STRUCT, [python_type, python_type.thrift_spec]
    simple = {str: (TType.STRING, "UTF8"), bytes: (TType.STRING, "BINARY"), bool: (TType.BOOL, None),
              float: (TType.DOUBLE, None)}  # fmt: skip
    if python_type is int and width is not None:
        return width, None
    return simple[python_type]


def _leaves(python_type: Any) -> Iterator[type]:
    """Yield the types at the bottom of a declared type: struct classes, str, bytes, int, …"""
    arguments = typing.get_args(python_type)
    if not arguments and python_type is not type(None):
        yield python_type
    for argument in arguments:
        yield from _leaves(argument)


def wrapper(name: str, field_id: int, field_name: str, inner: type[Struct]) -> type[Struct]:
    """Return a struct class with one required struct field, as every argument and result struct is."""
    annotations = {field_name: Annotated[inner, field_id]}
    return type(name, (Struct,), {"__annotations__": annotations})


class _Source:
    """Bytes that the C codec reads: as much of a protocol and its transport as it asks for."""

    __slots__ = ("container_length_limit", "cstringio_buf", "string_length_limit")

    def __init__(self, data: bytes, offset: int, max_elements: int) -> None:
        self.cstringio_buf = BytesIO(data)
        self.cstringio_buf.seek(offset)
        self.string_length_limit = len(data)
        self.container_length_limit = min(max_elements, len(data))

    @property
    def trans(self) -> Self:
        return self

    def cstringio_refill(self, _partial: bytes, _wanted: int) -> NoReturn:
        """There are no more bytes than those."""
        raise EOFError


def encode(value: Struct) -> bytes:
    """Return the struct's bytes, the stop byte included. Raises ValueError for text with lone surrogates."""
    encoded: bytes = fastbinary.encode_binary(value, value.wire_type)
    return encoded


def decode(
    kind: type[S], data: bytes, offset: int = 0, *, max_elements: int = MAX_ELEMENTS, behind: int = 0
) -> S:
    """Read the one struct that `data` holds from `offset` to its end, which is `behind` bytes before that of
    the data.

    Raises MalformedMessage when it is cut short, goes on after its end, lacks a required field, nests too
    deep, or claims more elements than `max_elements` or more bytes than there are.
    """
    source = _Source(data, offset, max_elements)
    value = kind()
    try:
        fastbinary.decode_binary(value, source, kind.wire_type)
    except _FAULTS as fault:
        raise MalformedMessage(f"not a {kind.__name__}: {type(fault).__name__}") from fault
    if source.cstringio_buf.tell() != len(data) - behind:
        raise MalformedMessage(f"bytes after the end of {kind.__name__}")
    check_required(value)
    return value


def check_required(value: Struct) -> None:
    """Raise MalformedMessage unless every required field is there, at every depth."""
    for name, required, structs, _ in value.wire_needs:
        inner = getattr(value, name)
        if inner is None:
            if required:
                raise MalformedMessage(f"{type(value).__name__} without {name}")
        elif not structs:
            continue
        elif isinstance(inner, Struct):
            check_required(inner)
        else:
            for one in inner if type(inner) is list else _structs(inner):
                if isinstance(one, Struct):
                    check_required(one)
                else:
                    for struct in _structs(one):
                        check_required(struct)


def check_text(value: Struct, data: bytes) -> None:
    """Raise MalformedMessage when text in `value` was not UTF-8 in `data`.

    The C codec puts U+FFFD where bytes are not UTF-8: a statement would silently become another one.
    """
    for name, _, structs, has_text in value.wire_texts:
        inner = getattr(value, name)
        if inner is None:
            continue
        if has_text:
            for text in _texts(inner):
                if "\ufffd" in text and text.encode() not in data:
                    raise MalformedMessage(f"{type(value).__name__}.{name} is not UTF-8")
        if structs:
            for struct in _structs(inner):
                check_text(struct, data)


def _structs(value: Any) -> Iterator[Struct]:
    if isinstance(value, Struct):
        yield value
    else:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _structs(inner)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


__all__ = [
    "BYTE",
    "I16",
    "I32",
    "I64",
    "Annotated",
    "MalformedMessage",
    "Struct",
    "check_required",
    "check_text",
    "decode",
    "encode",
]
