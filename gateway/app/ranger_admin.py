"""The Ranger-compatible admin API, put together from settings, users and the ledger's database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gateway.admin.ranger.access import Access, AdminRights, PolicyText, ReadText, TextQuestion
from gateway.admin.ranger.api import RangerApi
from gateway.admin.ranger.servicedefs import ship
from gateway.admin.ranger.store import Store
from gateway.admin.ranger.transactions import WriteTransaction
from gateway.app.policy_authors import AuthorRights
from gateway.app.policy_texts import SparkTexts
from gateway.app.rest_logins import log_in_rest
from gateway.app.rule_files import definition_paths, read_texts
from gateway.errors import BackendUnavailable
from gateway.frontends.authentication import Authenticator
from gateway.model.principal import Principal, principal_of
from gateway.model.reading import Reading
from gateway.pipeline.policy_reading import fault_in
from gateway.policy.documents import parse_document
from gateway.policy.sqltext import sample
from gateway.reader.port import ReaderPort
from gateway.settings.listeners import RangerApiSettings
from gateway.settings.models import PolicySettings
from gateway.sql.expressions import expression_refusal
from gateway.sql.functions import builtin_name, builtin_refusal


class RangerAdmin:
    """The API with its store; `close` ends it."""

    def __init__(
        self,
        settings: RangerApiSettings,
        policies: PolicySettings,
        dsn: str,
        authenticator: Authenticator,
        reader: ReaderPort,
        *,
        spark: SparkTexts | None = None,
        authors: AuthorRights | None = None,
        principals: Callable[[str], Principal | None] = lambda user: None,
    ) -> None:
        """Raises Faults when the service definitions of the rules cannot be read. `reader` reads the texts of
        policies before they are stored, `spark` is asked about them, and `authors` says what authors may
        select, who are found by their names in `principals`."""
        shipped = definitions(policies)

        async def prepare(writing: WriteTransaction) -> None:
            await ship(writing, shipped)

        self.store = Store(dsn, prepare=prepare)
        rights = rights_of(settings)

        async def read_text(question: TextQuestion, author: Principal) -> PolicyText:
            bound = sample(question.text)
            answer = await reader.read_expression(bound)
            fault = fault_in(bound, question.kind, answer)
            if fault is not None or not isinstance(answer, Reading):
                return PolicyText(fault)
            reach = reach_of(answer)
            selectable = question.trusted or not reach or await may_select(author, question.text) is True
            if not selectable:
                # Refused in any case: Spark's answer would tell of tables that its author may not know.
                return PolicyText(None, reach)
            if question.author:
                before = principal_of(question.author, principals)
                lapsed = before is None or await may_select(before, question.text) is False
                if not lapsed:
                    return PolicyText(None, reach, selectable=selectable)
            fault, unchecked = (None, "") if spark is None else await spark.check_text(question, answer)
            return PolicyText(fault, reach, unchecked, selectable, bool(question.author))

        async def may_select(author: Principal, text: str) -> bool | None:
            """Return None where it is not known: what is in the catalog cannot be asked now."""
            try:
                return authors is not None and await authors.may_select_all(text, author)
            except BackendUnavailable:
                return None

        self.read_text: ReadText = read_text
        """Reads a text that somebody wants to store."""
        self.access = Access(rights, read_text=read_text)
        """Says who may change what."""
        self.api = RangerApi(
            self.store,
            self.access,
            partial(log_in_rest, authenticator, "ranger-rest"),
        )

    async def close(self) -> None:
        await self.store.close()


def rights_of(settings: RangerApiSettings) -> AdminRights:
    """Return who may do everything, and what delegates may."""
    return AdminRights(
        administrators=frozenset(settings.administrators),
        administrator_groups=frozenset(settings.administrator_groups),
        plugins=frozenset(settings.plugins),
        delegates_may_override=settings.delegates_may_override,
    )


def definitions(policies: PolicySettings) -> list[Mapping[str, Any]]:
    """Return the service definitions of the rules, as Ranger's JSON. Raises Faults."""
    texts = read_texts(definition_paths(policies))
    return [parse_document(text, file).data for file, text in texts.items()]


def reach_of(reading: Reading) -> str:
    """Say what an expression needs beside its row's columns and functions that are safe for all."""
    tables = [".".join(one.parts) for one in reading.relations]
    if tables or reading.nodes:
        return f"reads {', '.join(f'`{name}`' for name in tables) or 'by a query'}"
    for function in reading.functions:
        name = builtin_name(function.parts) if function.builtin else None
        if name is None or builtin_refusal(name, table_valued=function.table_valued) is not None:
            return f"calls `{'.'.join(function.parts)}`"
    refused = sorted(one for one in reading.expressions if expression_refusal(one) is not None)
    return f"holds `{refused[0]}`" if refused else ""
