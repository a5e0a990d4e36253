"""Plans of Spark Connect: what they read, write and call, and how their relations are guarded.

`classify` says of every message and field whether it may pass, `walk` reads a plan by that, into the facts of
`reading`; `commands` and `catalog_calls` say which privileges are wanted, `facts` what policies are asked,
`guard` puts guarded relations in and `prove` looks at what is forwarded. `lowering` and `lineage` write a
plan in the algebra of SQL, `rendering` as PySpark for the record.
"""
