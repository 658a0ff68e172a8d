"""How many Bindings at once: simulated servers behind networks, on a fake clock."""

from __future__ import annotations

import heapq
import random

import pytest

from podwright.engine.outcomes.binding.concurrency import FEW, PROBE_SECONDS, ConcurrencyLimit
from podwright.engine.outcomes.binding.limiter import PROMPT_LIMIT, TOTAL_LIMIT

RATE = 940.0
"""Bindings per second of an API server on the benchmarks' machine."""


class Server:
    """Works on `workers` requests at a time, in the order of their arrival. It keeps the client's limit full.

    `network` in seconds, there and back; `service` of one request. `slow`: the share of requests that take
    `slow_seconds` longer, elsewhere.
    """

    def __init__(self, network=0.0, rate=RATE, workers=2, *, seed=1, slow=0.0, slow_seconds=0.5):
        self.network = network
        self.service = workers / rate
        self.slow, self.slow_seconds = slow, slow_seconds
        self._free_at = [0.0] * workers
        self._random = random.Random(seed)
        self.now = 0.0
        self.limit = ConcurrencyLimit(PROMPT_LIMIT, TOTAL_LIMIT, now=0.0)
        self._on_their_way = []
        self.limits = []
        """The limit at each completion."""
        self.lost = 0

    def run(self, seconds, *, at_once=None):
        """How many requests are completed in a second. `at_once`: a demand below the limit."""
        ends, began, completed = self.now + seconds, self.now, 0
        self._send(at_once)
        while self._on_their_way and self._on_their_way[0][0] <= ends:
            self.now, sent, alone = heapq.heappop(self._on_their_way)
            completed += 1
            self.limit.completed(sent, self.now, alone=alone)
            self.limits.append(self.limit.limit)
            self._send(at_once)
        self.now = ends
        return completed / (ends - began)

    def drain(self):
        """All requests in progress end."""
        self.run(10.0, at_once=0)

    def _send(self, at_once):
        allowed = self.limit.limit if at_once is None else min(at_once, self.limit.limit)
        while len(self._on_their_way) < allowed:
            arrives = self.now + self.network / 2
            starts = max(arrives, heapq.heappop(self._free_at))
            done = starts + self.service * self._random.uniform(0.5, 1.5)
            heapq.heappush(self._free_at, done)
            if self._random.random() < self.slow:
                done += self.slow_seconds
            heapq.heappush(self._on_their_way, (done + self.network / 2, self.now, len(self._on_their_way) < FEW))
        if at_once is None:
            self.limit.reached()


@pytest.mark.parametrize("network", [0.0, 0.005, 0.02, 0.05, 0.1, 0.2], ids=lambda seconds: f"{seconds * 1000:g} ms")
def test_the_rate_is_kept_over_a_network_that_takes_time(network):
    server = Server(network)
    server.run(5)
    assert server.run(20) > 0.95 * RATE


def test_without_a_network_the_limit_stays_where_it_was_tuned():
    server = Server()
    server.run(30)
    assert PROMPT_LIMIT <= max(server.limits) <= 1.2 * PROMPT_LIMIT


def test_a_few_seconds_suffice():
    server = Server(0.05)
    rates = [server.run(0.5) for _ in range(4)]
    assert rates[-1] > 0.9 * RATE


@pytest.mark.parametrize("network", [0.0, 0.05, 0.2], ids=lambda seconds: f"{seconds * 1000:g} ms")
def test_the_limit_does_not_oscillate(network):
    server = Server(network)
    server.run(5)
    server.limits.clear()
    server.run(PROBE_SECONDS - 6)
    assert max(server.limits) <= 1.15 * min(server.limits)


def test_what_waits_at_the_server_is_bounded_however_long_the_load_lasts():
    """Requests that wait for each other raise all latencies. That must not raise the limit, which would raise them
    further.
    """
    server = Server()
    server.run(200)
    assert max(server.limits) <= 1.3 * PROMPT_LIMIT


def test_the_start_of_a_burst_may_be_slow():
    """Connections are made, and the event loop has much to do."""
    server = Server()
    network, server.network = server.network, 0.05
    server.run(0.1)
    server.network = network
    server.run(10)
    assert server.limit.limit <= 1.2 * PROMPT_LIMIT


def test_a_network_that_becomes_slower_under_load_is_noticed():
    server = Server()
    server.run(10)
    server.network = 0.05
    server.run(PROBE_SECONDS + 5)
    assert server.run(10) > 0.9 * RATE
    server.network = 0.0
    server.run(PROBE_SECONDS + 5)
    assert server.limit.limit <= 1.3 * PROMPT_LIMIT


def test_a_probe_costs_little():
    server = Server(0.05)
    server.run(5)
    assert server.run(4 * PROBE_SECONDS) > 0.95 * RATE
    assert min(server.limits[1_000:]) == FEW


def test_a_server_that_becomes_slower_gets_fewer_requests():
    server = Server(0.1)
    server.run(10)
    before = server.limit.limit
    server.service *= 10
    server.run(10)
    assert PROMPT_LIMIT <= server.limit.limit < before / 2


@pytest.mark.parametrize("network", [0.0, 0.05], ids=["no network", "50 ms"])
def test_single_slow_requests_do_not_count(network):
    quick, mixed = Server(network), Server(network, slow=0.02)
    quick.run(10)
    mixed.run(10)
    assert mixed.limit.limit <= 1.3 * quick.limit.limit


def test_the_limit_is_bounded():
    server = Server(0.5, rate=20_000)
    server.run(60)
    assert max(server.limits) == TOTAL_LIMIT


def test_refusals_halve_the_limit_which_grows_again():
    server = Server(0.05)
    server.run(5)
    before = server.limit.limit
    for _ in range(50):
        server.limit.throttled(server.now)
    assert server.limit.limit == pytest.approx(before / 2, abs=1), "many at once count as one"
    for _ in range(20):
        server.run(1.0, at_once=0)
        server.limit.throttled(server.now)
    assert server.limit.limit == 1, "something must be tried"
    server.run(20)
    assert server.limit.limit > 0.9 * before


def test_the_limit_of_a_burst_is_remembered_until_the_next():
    server = Server(0.05)
    server.run(5)
    before = server.limit.limit
    for _ in range(60):
        server.run(1.0, at_once=1)
        server.drain()
    assert server.limit.limit > 0.7 * before
    assert server.run(1.0) > 0.8 * RATE
