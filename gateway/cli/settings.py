"""The settings that a command is given."""

from __future__ import annotations

import argparse

from gateway.app import logs
from gateway.settings import Settings, load_settings
from gateway.settings.models import LogSettings


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Read the file that `--config` names; from here on logs tell of what is wrong alone. Raises Faults."""
    settings = load_settings(arguments.config)
    logs.configure(LogSettings(level="warning"))
    return settings
