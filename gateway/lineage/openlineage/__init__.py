"""Lineage as OpenLineage events: to a file of JSON lines, or by HTTP to a server such as Marquez.

`names` says what jobs and datasets are called there, `events` makes the events of a statement, `lines` is the
file of whole lines that both ways write, `file` is the one way, `spool` and `http` are the other. Events are
written as plain mappings: the classes of OpenLineage's own client came with two HTTP stacks and took over a
second to import, and its transports drop what a server does not take at once.
"""
