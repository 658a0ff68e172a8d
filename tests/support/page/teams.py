"""Teams that share GPUs by queues, in a cache that the page shows."""

from __future__ import annotations

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.queues.queues import QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.core.state.cache import Cache
from support.objects.builders import make_node, make_pod

GPU = "nvidia.com/gpu"


def teams(cache: Cache) -> None:
    """Research has more than its share, products wait for theirs, and the nightly jobs are on hold."""
    queues = queues_of(cache)
    for number in range(6):
        cache.set_node(parse_node(make_node(f"gpu-{number}", allocatable={GPU: "8"})))
    gpus = {"ml": (32, 40), "ml-products": (16, None), "ml-research": (12, None), "web": (0, 8)}
    for name, (guarantee, limit) in gpus.items():
        quota = Quota(guarantee=guarantee, limit=-1 if limit is None else limit)
        cpu = {"cpu": Quota(limit=64_000)} if name == "web" else {}
        queues.set(QueueRules(name, "ml" if "-" in name else "", quotas={GPU: quota, **cpu}))
    queues.set(QueueRules("ml-products-nightly", "ml-products", state="Hold"))
    queues.set(QueueRules("ml-products-training", "ml-products"))
    queues.set(QueueRules("lost", "nowhere"))
    for index, (queue, gpu) in enumerate(
        [("ml-research", 8)] * 3 + [("ml-products-training", 2)] * 3 + [("web", 1)] * 2
    ):
        labels = {"podwright.dev/queue": queue}
        node = f"gpu-{index % 6}"
        cache.set_pod(
            parse_pod(make_pod(f"{queue}-{index}", labels=labels, requests={GPU: str(gpu), "cpu": "1"}, node=node))
        )
    for index in range(12):
        labels = {"podwright.dev/queue": "ml-products-training"}
        cache.groups.add_waiting(parse_pod(make_pod(f"waits-{index}", labels=labels, requests={GPU: "2"})))
