"""The nouns of Sluice: frozen values without I/O, shared by every room.

Nothing here computes policy, reads files or knows a wire format. Only the standard library is imported.
Tested with what uses it: `tests/policy`, `tests/sql`, `tests/pipeline`, `tests/session`.
"""
