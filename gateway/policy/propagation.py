"""Rules of tag propagation: a YAML file that says which flows of values carry which tags."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

from gateway.model.tags import FLOWS, Propagation, PropagationRules
from gateway.policy.diagnostics import Diagnostics, Path, hint, list_unknown_keys, section
from gateway.policy.documents import parse_document

_WORDS = {"carry": Propagation.CARRY, "ask": Propagation.ASK, "drop": Propagation.DROP}
PROPAGATION_KEYS = ("flows", "aggregates", "tags")
_TAG_KEYS = ("flows", "aggregates")


def load_propagation(text: str, file: str, aggregates: Collection[str]) -> PropagationRules:
    """Return the rules of a file's text. `aggregates` are the functions that there are.

    Raises Faults with every fault as `file:line: message`.
    """
    document = parse_document(text, file)
    faults = Diagnostics(document)
    reading = _FlowReading(faults, frozenset(aggregates))
    data = document.data
    if not isinstance(data, dict):
        faults.add((), "the rules must be a mapping with `flows`")
        data = {}
    else:
        list_unknown_keys(data, PROPAGATION_KEYS, (), faults, "the tag propagation rules")
    flows = reading.flows(data, ())
    for flow in FLOWS:
        if flow not in flows and isinstance(data.get("flows"), dict | None):
            faults.add(("flows",), f"`flows` has no rule for tags in `{flow}`")
    functions = reading.aggregates(data, ())
    tags: dict[str, PropagationRules] = {}
    for tag, own in section(data, "tags", (), faults).items():
        path: Path = ("tags", tag)
        if not isinstance(own, dict):
            faults.add(path, "the rules of a tag must be a mapping with `flows` or `aggregates`")
            continue
        list_unknown_keys(own, _TAG_KEYS, path, faults, "the rules of a tag")
        # What is said of all aggregations of a tag is said of every function that it does not name itself.
        own_flows = reading.flows(own, path)
        inherited = {} if "AGGREGATION" in own_flows else functions
        tags[tag] = PropagationRules(
            flows=flows | own_flows, aggregates=inherited | reading.aggregates(own, path)
        )
    faults.raise_any()
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return PropagationRules(flows=flows, aggregates=functions, tags=tags, digest=digest)


class _FlowReading:
    def __init__(self, faults: Diagnostics, functions: frozenset[str]) -> None:
        self._faults = faults
        self._functions = functions

    def flows(self, data: Mapping[str, Any], path: Path) -> dict[str, Propagation]:
        return self._words(data, "flows", path, "flow", frozenset(FLOWS))

    def aggregates(self, data: Mapping[str, Any], path: Path) -> dict[str, Propagation]:
        return self._words(data, "aggregates", path, "aggregate function", self._functions)

    def _words(
        self, data: Mapping[str, Any], key: str, path: Path, what: str, known: frozenset[str]
    ) -> dict[str, Propagation]:
        found: dict[str, Propagation] = {}
        for name, word in section(data, key, path, self._faults).items():
            here = (*path, key, name)
            if name not in known:
                self._faults.add(here, f"unknown {what} `{name}`{hint(name, known)}")
            elif not isinstance(word, str) or word not in _WORDS:
                self._faults.add(
                    here, f"`{name}` must be `carry`, `ask` or `drop`, not `{word}`{hint(str(word), _WORDS)}"
                )
            else:
                found[name] = _WORDS[word]
        return found
