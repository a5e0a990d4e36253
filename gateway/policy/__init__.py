"""Who may do what, what a column shows, which rows a table shows: Ranger's semantics without I/O.

Policies come in as `packs` (strict YAML, read by `documents`, and their cases) or as `ranger` (its own JSON,
read by `json_documents` and `json_shapes`, and written again); `service_defs` reads definitions for both.
`engine` answers questions about a PolicySet: `service` files the `compiled` ones (`policy_index`, `index`),
`matching`, `hierarchy` and `paths` compare resources, `tagging` and `zones` find what else applies,
`combining` combines what policies say, `obligations` and `views` tell masks and filters, `subjects` resolves
roles, `descendants` looks below, `auditing` tells what is recorded, `explaining` why. `conditions`,
`schedules` and `script` are asked about circumstances, which `facts` gathers. `masks`, `transformers`,
`macros` and `sqltext` write the SQL of obligations; which types of masks there are stands in
`rules/service_defs`. `differences`, `probing` and `diffing` compare two sets.
"""
