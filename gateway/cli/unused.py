"""Options that a command takes for another of its actions."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from typing import Any

from gateway.errors import Faults


def refuse_unused(
    arguments: argparse.Namespace, what: str, options: Mapping[str, Any], used: Collection[str]
) -> None:
    """Raise Faults for options that were given and that `what` would not go by. `options`: those of all
    actions, with their defaults."""
    given = {name for name, default in options.items() if getattr(arguments, name) != default}
    if wrong := sorted(given - set(used)):
        raise Faults([f"`{what}` takes no `--{name.replace('_', '-')}`" for name in wrong])
