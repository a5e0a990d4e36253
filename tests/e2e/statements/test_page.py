"""docs/statements.md is what the tables say."""

from __future__ import annotations

from pathlib import Path

import yaml

from gateway.model.meaning_settings import HARMLESS_BY_EFFECT, Influence, influence
from gateway.model.reading_settings import may_be_set
from tests.e2e.statements.page import MORE_SETTINGS, PAGE, page

PACK = Path(__file__).parents[3] / "rules" / "policies" / "platform.yaml"


def test_the_page_is_as_generated() -> None:
    told = "run `python -m tests.e2e.statements.page`"
    assert PAGE.read_text(encoding="utf-8") == page(), told


def test_the_pack_lets_everybody_set_what_the_page_says() -> None:
    policies = yaml.safe_load(PACK.read_text(encoding="utf-8"))["policies"]
    shipped = next(one for one in policies if one["name"] == "harmless session settings")
    # To YAML, `on` is a truth value.
    told = [key for keys in (*HARMLESS_BY_EFFECT.values(), *MORE_SETTINGS.values()) for key in keys.split()]
    assert sorted(shipped[True]["setting"]) == sorted(told)
    for key in told:
        assert may_be_set(key)
        assert influence(key.removesuffix("*")) is not Influence.ANYTHING
