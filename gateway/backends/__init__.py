"""Spark behind the gateway, by its Thrift Server or by Spark Connect; it gets only what was cleared.

`spark_thrift` and `spark_connect` implement `session.ports`. `one_reading` holds Spark to reading texts as
the gateway does, `spark_discovery` finds Sparks that come and go, `embedded_spark` starts one.
"""
