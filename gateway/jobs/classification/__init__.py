"""Columns that hold personal or secret data: found by their names and by samples, proposed as tags.

    source ──columns, samples──▶ scoring (rules, names, formats) ──findings──▶ proposing ──▶ PostgreSQL

Samples are read through the gateway as any client would read them, so the policies of the classifier's
principal hold for it and the record has each of its statements. No value leaves the process: what is kept of
a sample are counts and the names of rules.
"""
