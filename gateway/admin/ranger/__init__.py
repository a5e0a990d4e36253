"""Apache Ranger's admin REST API, so that Ranger's own client and tools can manage policies kept here.

    request ──▶ api      who asks, bounds, errors in Ranger's shape
                 │ ApiCall
                 ▼
              a route    finds and checks what the path and the body name
                 │
                 ▼
              store      PostgreSQL: one transaction per change, with its history and the versions it bumps

A route module has `ROUTES`, a tuple of `Route(method, path, handler)`; paths are below `/service` and are
taken with and without a trailing slash. `api.py` lists the modules. A handler is
`async def find(call: ApiCall) -> web.StreamResponse`: it takes parameters with `call.path_id("id")`,
`call.path("name")`, `call.parameter("zoneName")`, `call.flag("updateIfExists")`, the body with
`await call.body()`, opens `call.store.reading()` or `call.store.writing(call.user)` once, and ends with
`answer(...)` or `no_content()`. What is wrong is raised as `RangerError`; validators return `Failure`s,
which `refuse` raises. What a principal may do is asked of `call.access`. Bodies are plain dicts in Ranger's
JSON; those that come in hold no nulls.

`policy_changes` is the one way in which policies change, whoever asks for it: routes, apply, grant, import.
"""
