"""The gateway's own settings: one YAML file, parsed once into frozen values, every fault told together."""

from gateway.settings.loading import check_settings, load_settings
from gateway.settings.models import Settings

__all__ = ["Settings", "check_settings", "load_settings"]
