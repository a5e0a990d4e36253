"""What sessions ask of the room that reads plans: whether uploaded rows may go on to Spark."""

from gateway.plan.local_data import LocalDataCheck

__all__ = ["LocalDataCheck"]
