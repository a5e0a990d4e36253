"""PostgreSQL, which keeps the record and the policies of the admin API: found, started and migrated here.

`binaries` finds PostgreSQL's programs, `postgres` runs a server of our own when none is configured, `migrate`
applies `migrations/` in order. Rooms that keep tables (`audit`, `admin`) bring their own connections.
"""
