"""PostgreSQL, which keeps the record and the policies of the admin API: found, started and migrated here.

`postgres` runs a server of our own when none is configured, `migrate` applies `migrations/` in order,
`asking` has one connection for a command or job, and one error for what goes wrong there. Rooms that keep
tables while a gateway runs (`audit`, `admin`) bring their own connections.
"""
