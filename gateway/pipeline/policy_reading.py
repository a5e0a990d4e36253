"""Has Spark's parser read the SQL texts of policies before they are put in force."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence

from gateway.errors import UnreadableFiles
from gateway.model.policy import FileLine, Policy, PolicySet, Service
from gateway.model.reading import ExpressionNode, NotParsed, NotRead, Reading, ReadingAnswer
from gateway.policy.list_deltas import unlike
from gateway.policy.sqltext import sample
from gateway.reader.port import ReaderPort
from gateway.sql.functions import OF_MANY_ROWS

AT_ONCE = 8
"""Texts that are read at the same time: statements of users wait in the same queue."""

MAX_KEPT = 200_000
"""Texts that are remembered as good."""

_ARITHMETIC = frozenset(
    {
        "Add",
        "Subtract",
        "Multiply",
        "Divide",
        "IntegralDivide",
        "Remainder",
        "UnaryMinus",
        "UnaryPositive",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "BitwiseNot",
        "Concat",
        "CreateNamedStruct",
        "CurrentDate",
        "CurrentTimestamp",
        "ListQuery",
    }
)
"""Expressions whose value is never true or false."""
_TRUTHS = frozenset({"true", "false", "null"})
_BRACKETS = "() \t\r\n"

ASKED_ALONE = 3
"""How often a text is asked about that the parser does not answer, while it answers about others."""

ALONE_S = 60.0
"""Seconds for all texts of one change that are asked about alone; others are asked with the next change. A
revocation in the same change waits as long."""

_NOT_ASKED = frozenset({"UNAVAILABLE", "TIMEOUT"})
"""Codes of answers that are about the parser and not about the text."""

_Text = tuple[str, str]
"""(text, kind): kind is `filter` or `mask`."""


def texts_of(policies: Iterable[Policy]) -> Iterator[tuple[FileLine, _Text]]:
    """Yield the SQL texts of policies with their places; tokens have plausible values."""
    for policy in policies:
        somewhere = policy.place or FileLine(file=f"{policy.service}, policy {policy.id}", line=1)
        for mask in policy.masks:
            if mask.text or mask.value_expression is not None:
                yield mask.place or somewhere, (sample(mask.text), "mask")
        for item in policy.filters:
            if item.filter_expression.strip():
                yield item.place or somewhere, (sample(item.filter_expression), "filter")


class Proofs:
    """Remembers what has been read: a change of ten policies among 100,000 reads the texts of ten."""

    def __init__(self) -> None:
        self._good: frozenset[_Text] = frozenset()
        self._endless: frozenset[_Text] = frozenset()
        """Texts that the parser does not come to an end with, of the policies that there were last. Asked at
        each change they would hold up, and may end a parser, each time."""
        self._proved: PolicySet | None = None

    async def unusable(self, policies: PolicySet, reader: ReaderPort) -> list[tuple[Policy, str]]:
        """Return each policy with a text that is no good, and the fault with its place.

        Raises UnreadableFiles while the parser cannot be asked.
        """
        found = await asyncio.to_thread(self._new_texts, policies)
        texts = {text for _, _, text in found}
        self._endless &= texts
        wrong = await _read_all(sorted(texts - self._good - self._endless), reader)
        # RULE (endless-text-not-asked)
        self._endless |= {text for text, fault in wrong.items() if fault == _endless_as(text)}
        wrong |= {text: _endless_as(text) for text in self._endless}
        good = frozenset(texts) - wrong.keys()
        more = self._good | good
        self._good = more if len(more) <= MAX_KEPT else good
        return [(policy, f"{place}: {wrong[text]}") for policy, place, text in found if text in wrong]

    def remember(self, policies: PolicySet) -> None:
        """Remember policies that are in force now; those before them are forgotten."""
        self._proved = policies

    def _new_texts(self, policies: PolicySet) -> list[tuple[Policy, FileLine, _Text]]:
        proved = self._proved.services if self._proved is not None else {}
        services = [*policies.services.items()]
        if policies.before is not None:
            services += policies.before.services.items()
        found: list[tuple[Policy, FileLine, _Text]] = []
        for name, service in services:
            old = proved.get(name)
            for new_list, old_list in (
                (service.policies, old.policies if old is not None else ()),
                (_on_tags(service), _on_tags(old)),
                (_list_shared(service), _list_shared(old)),
            ):
                _, came = unlike(old_list, new_list)
                for policy in (new_list[i] for i in came.values()):
                    found += [(policy, place, text) for place, text in texts_of([policy])]
        return found


def _on_tags(service: Service | None) -> Sequence[Policy]:
    return service.tags.policies if service is not None and service.tags is not None else ()


def _list_shared(service: Service | None) -> Sequence[Policy]:
    return tuple(service.sharing.obligations()) if service is not None and service.sharing is not None else ()


async def unparsable(policies: PolicySet, reader: ReaderPort) -> list[str]:
    """Return a fault for each mask and filter that cannot be one, with its place."""
    return [fault for _, fault in await Proofs().unusable(policies, reader)]


async def _read_all(texts: Iterable[_Text], reader: ReaderPort) -> dict[_Text, str]:
    """Return what is wrong with each text that is wrong."""
    wrong: dict[_Text, str] = {}
    unasked: list[_Text] = []
    waiting = iter(texts)

    async def read() -> None:
        for text in waiting:
            expression, kind = text
            answer = await reader.read_expression(expression)
            if _was_not_asked(answer):
                unasked.append(text)
                continue
            fault = fault_in(expression, kind, answer)
            if fault:
                wrong[text] = fault

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(read())
    until = time.monotonic() + ALONE_S
    for text in unasked:
        if time.monotonic() > until:
            wrong[text] = f"this {text[1]} was not checked: the parser timed out on others"
            continue
        fault = await _check_alone(text, reader)
        if fault:
            wrong[text] = fault
    return wrong


def _endless_as(text: _Text) -> str:
    return f"the parser timed out on this {text[1]}, but not on others"


def _was_not_asked(answer: ReadingAnswer) -> bool:
    return isinstance(answer, NotRead) and answer.code in _NOT_ASKED


async def _check_alone(text: _Text, reader: ReaderPort) -> str | None:
    """Return what is wrong with a text that the parser gave no answer about among others.

    That says nothing of the text: nobody may lose a table, or keep one, over a busy parser. But one that
    answers about other texts, and never about this one, would hold back all policies for it. Raises
    UnreadableFiles where it answers about no others either.
    """
    expression, kind = text
    for _ in range(ASKED_ALONE):
        answer = await reader.read_expression(expression)
        if not _was_not_asked(answer):
            return fault_in(expression, kind, answer)
        # No text that was read before: answers are remembered.
        other = await reader.read_expression(f"1 = {time.monotonic_ns()}")
        if _was_not_asked(other):  # RULE (endless-text-not-waited)
            why = " ".join(answer.message.split()) if isinstance(answer, NotRead) else ""
            raise UnreadableFiles([f"the parser is not available to check a {kind} of a policy: {why}"])
    return _endless_as(text)


def fault_in(expression: str, kind: str, answer: ReadingAnswer) -> str | None:
    """Return what is wrong with the text of a mask or a filter, tokens bound; None when nothing is."""
    if isinstance(answer, NotParsed | NotRead):
        return f"this {kind} is not a Spark SQL expression: {' '.join(answer.message.split())}"
    if kind == "filter" and is_never_boolean(expression, answer):
        return "this filter is not a boolean expression"
    tree = answer.tree
    if answer.root == "LambdaFunction" or (tree is not None and _is_of_many_rows(tree, kind)):
        return f"this {kind} is not an expression of one row; put aggregate functions into a subquery"
    return None


def _is_of_many_rows(node: ExpressionNode, kind: str) -> bool:
    """Whether an expression makes one row of many, or several of one, outside of its subqueries. In the place
    of a column, `max(x)` makes one row of a whole table."""
    if node.node == "WindowExpression":
        return kind == "filter"
    *qualifier, name = node.parts if node.node == "UnresolvedFunction" else ("",)
    # A function of a database may be called so, too.
    if name.lower() in OF_MANY_ROWS and qualifier[-1:] in ([], ["builtin"]):  # RULE (policy-of-one-row)
        return True
    return any(_is_of_many_rows(child, kind) for child in node.children)


def is_never_boolean(text: str, reading: Reading) -> bool:
    """Whether an expression certainly is not boolean, going by its outermost part."""
    if reading.root == "Literal":
        return text.strip(_BRACKETS).lower() not in _TRUTHS
    return reading.root in _ARITHMETIC
