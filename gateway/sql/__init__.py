"""Passes over SQL statements: classify, resolve, evaluate, analyse, guard. Pure; the only home of sqlglot.

`classify` turns a Reading into privileges wanted, `names` resolves what is written against the session,
`analyse` explains which columns are used, `guard` writes the splices. `pipeline.judge` runs them in order.
`functions`, `expressions` and `nodes` say what may stand in a statement, `total` and `leakproof` what cannot
fail or tell, and `lineage` where columns come from.
"""
