"""The ledger: events become durable on the gateway's own disk first and reach PostgreSQL afterwards.

    session ──AuditEvent──▶ ledger ──▶ spool (append, fdatasync, group commit) ──▶ acknowledged
                                         │ segments on disk
                                         ▼
                                       shipper (COPY, ON CONFLICT DO NOTHING) ──▶ PostgreSQL, by day

`segment` is the file format, `disk` the system calls, `spool` the writer, `backlog` the reader of what is not
shipped yet, `shipper` and `rows` the way to PostgreSQL, `search` and `record_pages` the auditor's questions.
`chain`, `seals` and `verify` prove that nothing was changed, `forwarding` sends the record on. The server and
the tables are `gateway.database`'s.
"""
