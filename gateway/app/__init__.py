"""The composition root: the only place that knows every room, and puts them together from the settings."""
