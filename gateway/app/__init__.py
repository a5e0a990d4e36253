"""The composition root: the only place that knows every room, and puts them together from the settings.

`gateway` starts and stops a process, `endpoints` is all that listens, `sparks` what is behind, `logins`,
`catalogs` and `rules` make those parts. `checking`, `doctor`, `explaining` and `officer` are behind commands.
"""
