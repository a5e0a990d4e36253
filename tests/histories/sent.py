"""What a step of a session sends, and what is asked of its answer."""

from __future__ import annotations

from tests.histories.steps import Step

TEXTS: dict[str, str] = {
    "read": "{text}",
    "describe": "DESCRIBE {name}",
    "show": "SHOW TABLES IN {db}",
    "use": "USE {db}",
    "set": "SET {text}",
    "temp_view": "CREATE OR REPLACE TEMPORARY VIEW {name} {to} AS {text}",
    "drop_temp": "DROP VIEW IF EXISTS {name}",
    "cache": "CACHE TABLE {name}",
    "cache_as": "CACHE TABLE {name} AS {text}",
    "uncache": "UNCACHE TABLE IF EXISTS {name}",
    "refresh": "REFRESH TABLE {name}",
    "view": "CREATE OR REPLACE VIEW {name} AS {text}",
    "alter_view": "ALTER VIEW {name} AS {text}",
    "drop_view": "DROP VIEW {name}",
    "table": "CREATE TABLE {name} USING parquet {to} AS {text}",
    "insert": "INSERT INTO {name} {text}",
    "rename": "ALTER TABLE {name} RENAME TO {to}",
    "drop": "DROP TABLE {name}",
    "refused": "{text}",
}
"""What a step of a session sends."""
MAKING = frozenset({"unwatched", "temp_view", "cache_as", "view", "alter_view", "table", "insert", "frame"})
COMPARED = frozenset({"read", "describe", "collect", "open", "fetch", "filtered"})


def text_of(step: Step) -> str:
    """Return what a step sends, its relations still as `{name}`."""
    name, to = f"{{{step.name}}}", f"{{{step.to}}}" if step.do == "rename" else step.to
    text = TEXTS[step.do]
    return text.replace("{name}", name).replace("{to}", to).replace("{text}", step.text)
