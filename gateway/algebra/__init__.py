"""What a query means, whichever way it was written: one set of nodes, and one resolver of column names.

`nodes` has the relations and expressions; `spark` makes them of Spark's own parse of a text, and
`gateway.plan.lowering` of a plan of Spark Connect. `resolve` finds out what every name means, by `scope`,
and asks a `Domain` what that is worth: `usage` which stored columns are used, `gateway.sql.leakproof` where
values come from, and `gateway.sql.total` whether they can fail (docs/adr/0040).
"""
