"""Whether those who wrote masks and filters may select what these read, now.

Somebody who may write policies on some resources alone would read any other by a mask of his own. What he
wrote counts for no more than he may select himself, whole, at the moment at which it is used: when he may not
any more, the table that it is for is closed until he may, or somebody who may writes it again.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.model.principal import Principal
from gateway.model.reading import Reading
from gateway.model.statement import NeedsCatalog, SessionContext
from gateway.pipeline.judging import Governed, Judging
from gateway.pipeline.metrics import Govern
from gateway.pipeline.seeing import Seen, TextScope
from gateway.sql.policy_text import asked_of_author
from gateway.sql.required import Unsupported


async def authors_of(
    seen: Seen, govern: Govern, judging: Judging
) -> frozenset[Principal] | Unsupported | NeedsCatalog:
    """Return those on whose access the masks and filters of what is read rest.

    Unsupported: one of them may not select all that a text of his reads.
    """
    found: set[Principal] = set()
    if judging.as_author:
        return frozenset()  # what has a mask or filter for him he does not see whole, whoever wrote it
    for name, one in seen.tables.items():
        for _, view in one.eyes if one is not None else ():
            rows = () if view.row_filter is None else (view.row_filter,)
            for text, user in {(each.expression, each.author) for each in (*view.masks.values(), *rows)}:
                if not user:
                    continue
                author = await _author(text, user, govern, judging)
                if isinstance(author, NeedsCatalog):
                    return author
                if author is None:
                    return Unsupported(
                        f"a policy for {name} is closed, because who wrote it may not select all that it "
                        f"reads; it opens when he may, or when somebody who may writes it again"
                    )
                found.add(author)
    return frozenset(found)


async def _author(text: str, user: str, govern: Govern, judging: Judging) -> Principal | NeedsCatalog | None:
    """Return the author of a text; None when he may not select what it reads."""
    author = judging.snapshot.principals.get(user)
    reading = await judging.reader.read_expression(text)
    asked = asked_of_author(reading) if isinstance(reading, Reading) else None
    if author is None or asked is None:
        return None
    own = replace(judging, principal=author, as_author=True, bodies={}, narrowed=[])
    for statement in asked:
        outcome = await govern(statement, SessionContext(catalogs=judging.told), own, TextScope())
        if isinstance(outcome, NeedsCatalog):
            return outcome
        # INVARIANT (nothing beyond one's own): a view counts with all that it reads.
        if not isinstance(outcome, Governed) or not outcome.plain:
            return None
    return author
