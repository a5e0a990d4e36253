"""Rules of what is accepted before a login, and of links that come among files, each with the text that
stands there without it and the tests that should notice."""

from __future__ import annotations

from tests.removing import Removal

REMOVALS = (
    Removal(
        "more of one address than may be at once wait",
        "frontends.doors",
        "if waits and self._may_queue(sock, origin):",
        "if False:",
        "frontends.test_doors",
    ),
    Removal(
        "who waits for others of an address is bounded",
        "frontends.doors",
        "if self._queued < self._most_strangers:",
        "if True:",
        "frontends.test_doors",
    ),
    Removal(
        "who would take the place of one of its address who has just come waits, whichever bound it is",
        "frontends.doors",
        "            first = self._first_to_go(self._by_address.values(), own)",
        "            return False",
        "frontends.test_doors",
    ),
    Removal(
        "of addresses with as many strangers the one that wants a place makes it",
        "frontends.doors",
        "return len(strangers) + (strangers is own), strangers is own",
        "return len(strangers), False",
        "frontends.test_doors",
    ),
    Removal(
        "who waits leaves room for those of other addresses who wait",
        "frontends.doors",
        "        if len(self._queues.get(origin, ())) + 1 >= len(longest):",
        "        if True:",
        "frontends.test_doors",
    ),
    Removal(
        "who says nothing is cut",
        "frontends.doors",
        "        place.due(limits.first_byte_s)\n",
        "",
        "frontends.test_doors",
    ),
    Removal(
        "who has most strangers makes room",
        "frontends.doors",
        "for strangers in sorted(addresses, key=size, reverse=True):",
        "for strangers in addresses:",
        "frontends.test_doors",
    ),
    Removal(
        "strangers of one address are bounded",
        "frontends.doors",
        '("address", self._is_full(own)),',
        "",
        "frontends.test_doors",
    ),
    Removal(
        "a network of IPv6 is one address",
        "frontends.doors",
        'if ":" not in address:',
        "if True:",
        "frontends.test_doors",
    ),
    Removal(
        "a pool logs in at once",
        "frontends.doors",
        "        return last.since <= asyncio.get_running_loop().time() - self.limits.burst_s",
        "        return True",
        "frontends.test_doors",
    ),
    Removal(
        "one address leaves room for others, however fast it is",
        "frontends.doors",
        "if len(own) >= self._most_strangers - self._most_strangers // OTHERS_PART:",
        "if False:",
        "frontends.test_doors",
    ),
    Removal(
        "strangers leave descriptors for others",
        "frontends.doors",
        "self._most_strangers = min(limits.strangers, max(1, self._below // STRANGERS_PART))",
        "self._most_strangers = limits.strangers",
        "frontends.test_doors",
    ),
    Removal(
        "what comes to gRPC comes through the door",
        "frontends.connect_server",
        "            if place is None:\n",
        "            if False:\n",
        "frontends.test_doors",
    ),
    Removal(
        "stamps of just now are not relied on",
        "files.unlinked",
        "all(began - one.changed_ns > SURE_AFTER_NS for one in stamps)",
        "True",
        "files.test_unlinked",
    ),
    Removal(
        "a root that is a link may lead elsewhere",
        "files.unlinked",
        "if known is not None and known[0].path == local:",
        "if known is not None:",
        "files.test_unlinked",
    ),
    Removal(
        "directories below are looked at for links",
        "files.unlinked",
        "            if directory != above[-1]:\n",
        "            if False:\n",
        "files.test_unlinked",
    ),
    Removal(
        "a directory that goes meanwhile does not end the look for links",
        "files.links",
        "                except NotThere:\n",
        "                except ZeroDivisionError:\n",
        "files.test_unlinked",
    ),
    Removal(
        "local files that lie elsewhere than they are looked through are not read",
        "files.promotion",
        "if location is not None and source.is_local and not is_at(location, source.url(path)):",
        "if False:",
        "files.test_promotion",
    ),
    Removal(
        "no stream goes on reading files that are looked through",
        "session.deciding",
        "return self._verdicts.without_streams(verdict, session.judged_by)",
        "return verdict",
        "session.test_datasets",
    ),
    Removal(
        "files among which a link has come are not read",
        "session.verdicts",
        "            if why is not None:\n                return refused(verdict,",
        "            if False:\n                return refused(verdict,",
        "session.test_datasets",
    ),
)
