"""Jobs that need all the data and so run on Spark: archive, roll-ups, classification, recommendations,
closure, replay, proof, verification.

A job is incremental, idempotent and restartable: killed at any point and started again, it ends with the same
tables. `running` gives each run its lock and its record, `tables` replaces partitions as a whole, `spark`
is the only module that makes a session. A gateway that serves imports no pyspark for them: it starts
`sluice jobs run NAME` as a process of its own.
"""
