"""The network between the operator and the API server takes 50 ms. How the rate depends on that is printed; a busy
machine changes it.

tests/unit/engine/outcomes/binding/test_concurrency.py has the same with simulated servers. PODWRIGHT_SLOW_NETWORK_PODS
sets another number of pods.
"""

from __future__ import annotations

import os
from contextlib import nullcontext

import pytest

from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.faults.delay import DelayProxy

PODS = int(os.environ.get("PODWRIGHT_SLOW_NETWORK_PODS", "3000"))
NETWORK_SECONDS = 0.05


@pytest.mark.slow
def test_all_pods_are_bound_over_a_network_that_takes_long(arena: Arena) -> None:
    arena.nodes(PODS // 100 + 1, cpu="64", memory="256Gi", pods="110")
    direct = arena.cluster.service_account_kubeconfig(*kit.ACCOUNT)
    rates = []
    for seconds in (0.0, NETWORK_SECONDS):
        arena.pods(PODS, cpu="100m")
        with DelayProxy(arena.cluster, seconds) if seconds else nullcontext() as proxy:
            kubeconfig = direct if proxy is None else proxy.kubeconfig(direct)
            options = {"kubeconfig": kubeconfig, "warm_up": False}
            with arena.running(None, "--pod-intake=watch", **options) as operator:
                arena.wait_bound(PODS, 300)
                rates.append(rate(arena))
                arena.wait_settled(120)
                arena.verify()
                arena.empty(operator)
    arena.report(
        pods=PODS,
        pods_per_second=f"{rates[0]:.0f}",
        pods_per_second_with_50_ms=f"{rates[1]:.0f}",
        ratio=f"{rates[1] / rates[0]:.2f}",
    )


def rate(arena: Arena) -> float:
    """Bindings per second, without those at the start."""
    times = sorted(binding.at for binding in arena.ledger.bindings.values())[PODS // 5 :]
    return len(times) / (times[-1] - times[0])
