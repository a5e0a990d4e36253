"""Public test suites of lineage, held against ours. `python -m tests.lineage.public` runs them.

Nothing of theirs is here: a pinned package of each is fetched into a temporary directory.
"""
