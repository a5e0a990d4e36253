"""Judging in Spark's Python workers: each starts one parser process, and keeps it for its own life.

The parser ends when its socket closes, so it ends with the worker, whatever ends that. What a worker holds is
a batch of rows, two sets of policies, the tables that were looked up, and the parser's bounded cache.
"""

from __future__ import annotations

import asyncio
import pickle
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from gateway.errors import BackendUnavailable
from gateway.jobs.replay.comparing import Judged, changes, explain_not_comparable, extract_judged
from gateway.jobs.replay.questions import Question, question_of, with_catalogs
from gateway.jobs.rollup_texts import LONGEST
from gateway.model.catalog import CatalogSnapshot, Table, TableName
from gateway.model.metalakes import NONE_LISTED, ListedCatalogs
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.snapshot import Snapshot
from gateway.model.spark_minors import minor_of
from gateway.model.statement import NeedsCatalog
from gateway.pipeline import Rules, judge
from gateway.reader.limits import ReaderLimits
from gateway.reader.pool import ReaderPool
from gateway.reader.shapes import lex_statement

ANSWER = (
    "key string, reason string, needs array<array<string>>, old string, new string, old_code string,"
    " new_code string, fingerprint string, changes array<struct<kind: string, resource: string,"
    " column_name: string, before: string, after: string>>"
)
GONE = "a table that it names does not exist"
AT_ONCE = 8
"""Statements that are under way in one worker."""
_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions:
    """The parser of each worker; what is not named is looked for on the worker's machine."""

    spark_version: str
    """Its minor has to be this one's."""
    java: Path | None = None
    spark_home: Path | None = None
    extensions: tuple[str, ...] = ()
    jars: tuple[Path, ...] = ()
    heap: str = "512m"
    limits: ReaderLimits = field(default_factory=ReaderLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The policies that statements are judged under."""

    old: PolicySet
    new: PolicySet
    principals: Mapping[str, Principal]
    """Users who may log in now: for definers of views, and for attributes."""
    rules: Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Tables looked up in the present catalogs."""

    catalogs: frozenset[str]
    tables: dict[TableName, Table] = field(default_factory=dict)
    missing: frozenset[TableName] = frozenset()
    listed: ListedCatalogs = NONE_LISTED


@dataclass(frozen=True, slots=True)
class Parcel:
    """Something for the workers, packed once, and opened once in each."""

    data: bytes
    digest: bytes

    @classmethod
    def of(cls, value: object) -> Parcel:
        data = pickle.dumps(value)
        return cls(data, sha256(data).digest())

    def open(self) -> Any:
        return pickle.loads(self.data)  # noqa: S301  # it comes with the function itself


def judge_questions(questions: Any, reader: ReaderOptions, sides: Parcel, known: Parcel) -> Any:
    """Return a frame of answers, one for each row of `questions`: a reason, names that have to be looked up
    first, or what is otherwise."""
    return questions.mapInArrow(partial(_answers, reader, sides, known), ANSWER)


class Judges:
    """State of a worker: a parser, and the parcels opened last."""

    def __init__(self, options: ReaderOptions) -> None:
        """Start the parser. Raises BackendUnavailable, JavaNotFound, UnsupportedSpark."""
        self.options = options
        self._loop = asyncio.new_event_loop()
        self.reader = ReaderPool(
            options.spark_home,
            options.java,
            1,
            options.limits,
            extensions=options.extensions,
            jars=options.jars,
            heap=options.heap,
        )
        self._loop.run_until_complete(self.reader.start())
        if minor_of(self.reader.spark_version) != minor_of(options.spark_version):
            found = self.reader.spark_version
            self.close()
            raise BackendUnavailable(
                f"a worker has the parser of Spark {found}, but the settings need {options.spark_version}"
            )
        self._opened: dict[str, tuple[bytes, Any]] = {}

    def close(self) -> None:
        """End the parser."""
        self._loop.run_until_complete(self.reader.close())
        self._loop.close()

    def answers(self, rows: list[_Row], sides: Parcel, known: Parcel) -> list[dict[str, Any]]:
        """Return an answer to each row, in order."""
        told: Sides = self._open("sides", sides)
        catalog: Known = self._open("known", known)
        return self._loop.run_until_complete(self._all(rows, told, catalog))

    def _open(self, what: str, parcel: Parcel) -> Any:
        found = self._opened.get(what)
        if found is None or found[0] != parcel.digest:
            self._opened.pop(what, None)
            found = self._opened[what] = (parcel.digest, parcel.open())
        return found[1]

    async def _all(self, rows: list[_Row], sides: Sides, known: Known) -> list[dict[str, Any]]:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(row: _Row) -> dict[str, Any]:
            async with room:
                return await self._answer(row, sides, known)

        return list(await asyncio.gather(*(one(row) for row in rows)))

    async def _answer(self, row: _Row, sides: Sides, known: Known) -> dict[str, Any]:
        answer: dict[str, Any] = dict.fromkeys(("reason", "needs", "old", "new", "old_code", "new_code"))
        answer |= {"key": row["key"], "changes": [], "fingerprint": None}
        question = question_of(row, sides.principals)
        if isinstance(question, str):
            return answer | {"reason": question}
        old = await self._verdict(question, sides.old, sides, known)
        new = await self._verdict(question, sides.new, sides, known)
        needs = {name for one in (old, new) if isinstance(one, NeedsCatalog) for name in one.tables}
        if isinstance(old, NeedsCatalog) or isinstance(new, NeedsCatalog):
            # A version of a table, or a function, is not the table of that name.
            return answer | {"needs": sorted([*astuple(one)] for one in needs)}
        text = lex_statement(row["text"], is_rendering=row["plan"] is not None)
        shape = await self.reader.fingerprint(text)
        answer["fingerprint"] = shape[:LONGEST] if isinstance(shape, str) else None
        reason = explain_not_comparable(row["verdict"], row["code"], row["plan_class"], old)
        if not reason and new.code in ("TIMEOUT", "UNAVAILABLE"):
            reason = "the parser did not answer"
        if not reason and row["verdict"] == "cleared":
            gone = {str(name) for name in known.missing - question.tables.keys()}
            # Whoever may not know of everything is refused by policies what is not there.
            if old.missing or any(place.resource in gone for place in old.denied):
                reason = GONE
        if reason:
            return answer | {"reason": reason}
        return answer | {
            "old": "cleared" if old.cleared else "refused",
            "new": "cleared" if new.cleared else "refused",
            "old_code": old.code,
            "new_code": new.code,
            "changes": [
                dict(zip(("kind", "resource", "column_name", "before", "after"), one, strict=True))
                for one in changes(old, new)
            ],
        }

    async def _verdict(
        self, question: Question, policies: PolicySet, sides: Sides, known: Known
    ) -> Judged | NeedsCatalog:
        own = question.tables
        catalog = CatalogSnapshot(
            version=1,
            catalogs=known.catalogs | {name.catalog for name in own},
            tables=ChainMap(own, known.tables) if own else known.tables,
            missing=known.missing - own.keys() if own else known.missing,
            listed=known.listed,
        )
        snapshot = Snapshot(
            policies=policies, catalog=catalog, context=question.context, principals=sides.principals
        )
        statement = with_catalogs(question, frozenset(known.listed.revisions.items()))
        verdict = await judge(statement, snapshot, self.reader, sides.rules)
        return verdict if isinstance(verdict, NeedsCatalog) else extract_judged(verdict)


_judges: Judges | None = None
"""Judges of this worker process, made with its first batch."""


def _answers(reader: ReaderOptions, sides: Parcel, known: Parcel, batches: Iterator[Any]) -> Iterator[Any]:
    """Answer batches of questions, in a Python worker."""
    import pyarrow

    global _judges
    change = pyarrow.struct(
        [(name, pyarrow.string()) for name in ("kind", "resource", "column_name", "before", "after")]
    )
    texts = ("reason", "old", "new", "old_code", "new_code", "fingerprint")
    schema = pyarrow.schema(
        [
            ("key", pyarrow.string()),
            ("reason", pyarrow.string()),
            ("needs", pyarrow.list_(pyarrow.list_(pyarrow.string()))),
            *((name, pyarrow.string()) for name in texts[1:]),
            ("changes", pyarrow.list_(change)),
        ]
    )
    for batch in batches:
        rows = batch.to_pylist()
        if not rows:
            continue
        if _judges is None or _judges.options != reader:
            if _judges is not None:
                _judges.close()
                _judges = None
            _judges = Judges(reader)
        found = _judges.answers(rows, sides, known)
        yield pyarrow.RecordBatch.from_pylist(found, schema=schema)
