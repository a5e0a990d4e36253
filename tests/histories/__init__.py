"""Histories: sequences of steps on real Spark, checked against physically governed copies as of each step.

Three users in several sessions on both endpoints read, cache, make views and tables, and stop half-way
through results, while policies, groups, mapping tables, data and time change between their steps. A model in
Python keeps what each may see of each table at each moment; the same query is then run by Spark itself over
just that, and what the gateway answered must be the same: rows, names and types. No secret value may show in
anything that a user received.

    python -m tests.histories fuzz --minutes 60     try new histories; failures are shrunk and kept
    python -m tests.histories replay FILE           run one history again, step by step
    python -m tests.histories mends                 take each mend out and show which history fails
"""
