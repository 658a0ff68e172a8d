"""DeviceRivals: reports claims that have too much together, because another scheduler has allocated the same at the
same time.
"""

from __future__ import annotations

import logging

from podwright.api.scheduler_policy import PODWRIGHT_SCHEDULER_NAME
from podwright.core.objects.devices.claims import ResourceClaim
from podwright.core.state.cache import Cache
from podwright.core.state.devices.holders import Rival
from podwright.engine.ports import Recorder, Regarding
from podwright.engine.records.device_metrics import DEVICE_RIVALS
from podwright.engine.records.log_fields import fields
from podwright.engine.records.metrics import Metrics

log = logging.getLogger(__name__)


class DeviceRivals:
    """Reports in the log, in a metric, and with an event on the claim that got the device later."""

    def __init__(self, cache: Cache, recorder: Recorder, *, metrics: Metrics) -> None:
        self._recorder = recorder
        self._metrics = metrics
        cache.devices.claims.on_rival = self._report

    def _report(self, claim: ResourceClaim, rival: Rival) -> None:
        text = f"{rival}, by another scheduler"
        self._metrics.count(DEVICE_RIVALS, rival.kind)
        log.warning("a device is allocated to two claims", extra=fields(claim=claim, err=text))
        where = claim.namespace, claim.name, claim.uid
        regarding = Regarding(*where, "", PODWRIGHT_SCHEDULER_NAME, "ResourceClaim", "resource.k8s.io/v1")
        self._recorder.record(regarding, "Warning", "DeviceAllocatedTwice", "Scheduling", text)
