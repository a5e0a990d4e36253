"""Spark's own parser in a JVM beside the gateway, and the client that asks it."""
