"""Random queries through a running gateway: what a client sees is what the data that it may see would give.

Every query is asked of Spark over a copy that was governed by hand and of the gateway as somebody whom the
pack of tests/property/world.py governs; then of Spark over the real tables and of the gateway as somebody
who may read everything. Rows, names and types must be equal each time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest

from gateway.wire.tcli import TColumnDesc, TSessionHandle
from tests.e2e.lab import PASSWORD
from tests.e2e.running import RunningGateway, Spark
from tests.e2e.wire_client import StatusError, WireClient
from tests.property.queries import of_seed
from tests.property.world import DATABASE, PRINCIPAL, copy_statements, statements
from tests.shares import todays
from tests.tpch.governed import UNGOVERNED

pytestmark = pytest.mark.in_turn(2)

QUERIES = todays(range(80), 4)
"""Seeds; a failure names its seed, and `of_seed(seed)` in tests/property makes it again."""
ALLOWED = todays(range(80), 10)
"""Those that are also asked as somebody who may read everything. TPC-H and the scenarios ask that, too."""
VIEWS = todays(range(80, 100), 4)
COPY = "shop_governed"
NO_CODE = "SET spark.sql.codegen.wholeStage=false"


@dataclass(frozen=True)
class Answer:
    """What came back: columns and rows, in an order that says nothing unless the query asked for one."""

    columns: list[TColumnDesc]
    rows: list[str]


@dataclass(frozen=True)
class Refusal:
    """That nothing came back, and the error's class."""

    error_class: str
    message: str


Outcome = Answer | Refusal


class Session:
    """A session that begins in one database."""

    def __init__(self, client: WireClient, database: str) -> None:
        self.client = client
        self.handle: TSessionHandle = client.open_session()
        self.database = database
        # A few dozen rows need no parallelism, and generating code costs more than it saves.
        for statement in (f"USE {database}", "SET spark.sql.shuffle.partitions=1", NO_CODE):
            self.client.result(self.handle, statement)

    def ask(self, sql: str, *, ordered: bool, view: bool) -> Outcome:
        """Run a query; `view` makes a temporary view of it and reads that."""
        try:
            if view:
                self.client.result(self.handle, f"CREATE OR REPLACE TEMPORARY VIEW made AS {sql}")
            result = self.client.result(self.handle, "SELECT * FROM made" if view else sql)
        except StatusError as error:
            message = error.status.errorMessage or ""
            found = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", message)
            return Refusal(found[1] if found else message, message)
        rows = [repr(row) for row in result.rows]
        return Answer(result.schema.columns, rows if ordered else sorted(rows))


def compare(through: Session, direct: Session, seeds: Iterable[int], *, view: bool = False) -> Counter[str]:
    """Ask both for every query and count how it went; both must say the same unless the gateway refuses."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        query = of_seed(seed)
        ordered = query.ordered and not view
        ours = through.ask(query.over(through.database), ordered=ordered, view=view)
        if isinstance(ours, Refusal) and ours.error_class.startswith("SLUICE_"):
            seen[ours.error_class] += 1
            print(f"seed {seed}: {ours.message}\n  {query}")
            continue
        theirs = direct.ask(query.over(direct.database), ordered=ordered, view=view)
        if isinstance(ours, Refusal) and isinstance(theirs, Refusal):
            assert ours.error_class == theirs.error_class, f"seed {seed}: {query}"
            seen["both refuse"] += 1
        else:
            assert ours == theirs, f"seed {seed}: {query}"
            assert isinstance(ours, Answer)
            seen["rows" if ours.rows else "empty"] += 1
    return seen


@pytest.fixture(scope="module")
def shop(spark: Spark) -> Iterator[None]:
    spark.query(*statements(), *copy_statements(DATABASE, COPY), user="loader")
    yield
    spark.query(*(f"DROP DATABASE {name} CASCADE" for name in (DATABASE, COPY)), user="loader")


@pytest.fixture
def direct(spark: Spark) -> Iterator[WireClient]:
    """Spark itself."""
    with WireClient(spark.host, spark.port, "direct") as client:
        yield client


def enough_of(seen: Counter[str]) -> None:
    """Few queries are refused or fail, and many give rows: else equality would say little. Of a day's few one
    more or less says nothing."""
    refused = sum(count for kind, count in seen.items() if kind.startswith("SLUICE_"))
    assert refused <= 0.15 * seen.total() + 2, seen
    assert seen["both refuse"] <= 0.1 * seen.total() + 2, seen
    assert seen["rows"] >= 0.3 * seen.total() - 1, seen


@pytest.mark.usefixtures("shop")
@pytest.mark.timeout(1800)
def test_a_governed_answer_is_that_of_governed_data(lab_gateway: RunningGateway, direct: WireClient) -> None:
    with WireClient(lab_gateway.host, lab_gateway.port, PRINCIPAL.user, PASSWORD) as client:
        enough_of(compare(Session(client, DATABASE), Session(direct, COPY), QUERIES))


@pytest.mark.usefixtures("shop")
@pytest.mark.timeout(1800)
def test_a_governed_temporary_view_is_that_of_governed_data(
    lab_gateway: RunningGateway, direct: WireClient
) -> None:
    with WireClient(lab_gateway.host, lab_gateway.port, PRINCIPAL.user, PASSWORD) as client:
        through, plain = Session(client, DATABASE), Session(direct, COPY)
        enough_of(compare(through, plain, VIEWS, view=True))


@pytest.mark.usefixtures("shop")
@pytest.mark.timeout(1800)
def test_an_allowed_answer_is_that_of_the_data(lab_gateway: RunningGateway, direct: WireClient) -> None:
    with WireClient(lab_gateway.host, lab_gateway.port, UNGOVERNED.user, PASSWORD) as client:
        enough_of(compare(Session(client, DATABASE), Session(direct, DATABASE), ALLOWED))
