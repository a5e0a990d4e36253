"""The graph of column lineage: what statements brought into it, and what is asked of it.

`recorded` says what the audit record keeps for it, `following` makes it of the record while the gateway runs.
`store` writes what `sql/lineage` found of statements, `graph` walks up and down from a column, `drawing`
makes trees, JSON, Mermaid and DOT of an answer.
"""
