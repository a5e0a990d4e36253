"""Who looks at pages in tests."""

from __future__ import annotations

from gateway.console.routes import Viewer
from gateway.model.principal import Principal
from tests.policy.offices import ANN, BOB, LEA

ADMIN = Viewer(principal=Principal(user="root"), is_administrator=True, is_auditor=True, reads_texts=True)
AUDITOR = Viewer(principal=Principal(user="rita"), is_auditor=True)
AS_ANN, AS_BOB, AS_LEA = (Viewer(principal=one) for one in (ANN, BOB, LEA))
STRANGER = Viewer(principal=Principal(user="xaver"))
