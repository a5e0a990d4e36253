"""Sluice: a gateway that governs SQL on Apache Spark from the outside.

The way of a statement: a frontend turns bytes into messages, a session turns messages into a Statement,
`pipeline.judge` answers Cleared or Refused, the ledger makes the decision durable, a backend forwards what
was proved, and the rows are relayed undecoded. ARCHITECTURE.md has the rooms and who may import whom.
"""

__version__ = "0.1.0"
