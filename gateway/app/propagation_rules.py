"""The rules of tag propagation that settings name, or those that ship."""

from __future__ import annotations

from pathlib import Path

from gateway.app.rule_files import find_shipped_rules, read_texts
from gateway.model.tags import PropagationRules
from gateway.policy.propagation import load_propagation
from gateway.settings.models import TagPropagationSettings
from gateway.sql.functions import AGGREGATES

SHIPPED = "tag_propagation.yaml"


def rules_path(settings: TagPropagationSettings) -> Path:
    """Return the file of the rules of tag propagation."""
    return settings.rules if settings.rules is not None else find_shipped_rules() / SHIPPED


def propagation_rules(settings: TagPropagationSettings) -> PropagationRules:
    """Return the rules of tag propagation. Raises Faults with file and line."""
    ((name, text),) = read_texts([rules_path(settings)]).items()
    return load_propagation(text, name, AGGREGATES)
