"""An Iceberg REST catalog, served in front of others: each call is judged as the statement that it is.

    frontends/http_calls ──▶ service       a request's route, and what is answered where it fails
                                │ RestCall
                                ▼
                             tables, views, lists, changes, planning
                                │ a statement's text, and the table as the catalog has just answered it
                                ▼
                             judging       the verdict of `session.verdicts`, recorded before anything is said
                                │
                                ▼
                             the catalog's own answer: passed on, without credentials, or with restrictions

`statements` writes the SQL of a call, `commits` that of a commit's updates. `restricting` writes what a
verdict obliges to as Iceberg's `read-restrictions`; `predicates` does it for row filters.
"""
