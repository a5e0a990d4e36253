"""Sessions and operations, and the service that ties a statement's way together. No sockets here.

`service` is what frontends call, `connect` the same for Spark Connect, `metadata` the calls about tables. A
statement is judged by `deciding` and `verdicts` and run by `execution`; `recorder` writes what becomes of it.
`ports` is what other rooms give, `freshness` and `locks` keep names meaning what was judged.
"""
