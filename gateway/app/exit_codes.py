"""What the commands' exit codes mean; they are stable, scripts rely on them."""

OK = 0
ERROR = 1
"""Anything that has no code of its own."""
USAGE = 2
"""Wrong arguments; argparse's own code."""
REFUSED = 3
"""`explain`: the statement would be refused."""
FAULTS = 4
"""Faults in settings, packs or the user file; each was printed with its place."""
UNAVAILABLE = 5
"""Spark, PostgreSQL or the parser cannot be reached."""
BUSY = 6
"""`jobs run`: somebody else runs the job."""
DIFF_CHANGES = 1
"""`policy diff`: some decision changes; as `diff` does."""
DIFF_TROUBLE = 2
"""`policy diff`: a side has faults, or something else is wrong; `diff`'s own code."""
LAUNDERED = 1
"""`lineage laundering`: somebody may read a copy that is less protected."""
LAUNDERING_TROUBLE = 2
"""`lineage laundering`: anything is wrong."""
TAMPERED = 1
"""`audit verify`: the record is not what it was."""
VERIFY_TROUBLE = 2
"""`audit verify`: it cannot be verified."""
DRIFTED = 1
"""`datasets refresh`: the files have other columns than their table."""
INTERRUPTED = 130
"""Ctrl-C."""
