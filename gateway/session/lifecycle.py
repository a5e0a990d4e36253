"""Whether the gateway is about to stop: then nothing new begins, and what ends is the gateway's doing."""

from __future__ import annotations

from gateway.errors import GatewayStopping

STOPPING = "the gateway is stopping"


class Lifecycle:
    """One for a whole process."""

    def __init__(self) -> None:
        self.stopping = False
        """Nothing new begins; what runs may go on to its end."""
        self.cuts = False
        """Its time is over: what ends from here on, the gateway ends."""

    def require_running(self) -> None:
        """Raise GatewayStopping when nothing new may begin."""
        if self.stopping:
            raise GatewayStopping()

    def reason(self, otherwise: str) -> str:
        """Return why something ends: a gateway that stops cuts its clients, who then seem to go away."""
        return STOPPING if self.cuts else otherwise  # RULE (stopping-cut, stopping-client-left)
