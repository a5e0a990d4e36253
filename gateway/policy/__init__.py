"""Who may do what, what a column shows, which rows a table shows: Ranger's semantics without I/O.

`documents` reads strict YAML; `packs` (`pack_shapes`, `cases`) and `service_defs` make a PolicySet of it;
`engine` answers questions about one: `service` files the `compiled` policies in an `index`, `matching` and
`paths` compare values, `subjects` resolves roles; `masks` and `sqltext` write the SQL of obligations.

Ranger's own JSON, in and out, is `ranger`, with a `ranger_*` module for each thing that it holds;
`json_documents` reads files of it.
"""
