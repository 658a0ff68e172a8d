"""QueueSort plugins of third parties order the queue, and faulty ones lose no pod."""

from __future__ import annotations

import random

import numpy as np
import pytest

from podwright.api.permissions import PolicySettings
from podwright.core.framework.errors import PluginError
from podwright.core.framework.interface import Plugin, QueueSortPlugin
from podwright.core.framework.profile import ProfileError
from support.engine.kit import Rig, custom_policy, deciding, settle


class Alphabet(Plugin, QueueSortPlugin):
    """Sorts by name; the keys of pods whose name begins with x come from `broken_key`."""

    name = "Alphabet"
    broken_key = staticmethod(lambda: None)

    def sort_key(self, pod, _queued_at):
        return self.broken_key() if pod.name.startswith("x") else pod.name


def rig():
    return Rig({"Alphabet": Alphabet}, policies=PolicySettings(queue_sort="Alphabet"))


async def test_the_configured_plugin_orders_the_queue():
    r = rig()
    r.node("n")
    for name in ("b", "c", "a"):
        r.pod(name, priority=5 if name == "c" else 0)
    async with deciding(r):
        assert [name for name, _ in r.cluster.bound] == ["a", "b", "c"]


async def test_policies_inherit_the_plugin_and_cannot_choose_another_one():
    r = rig()
    assert r.engine.policies.apply(custom_policy("filter", "NodeName")).accepted
    policy = custom_policy("filter", "NodeName", 2)
    policy["spec"]["plugins"]["queueSort"] = {"enabled": [{"name": "PrioritySort"}], "disabled": [{"name": "*"}]}
    assert "must be Alphabet as in all policies" in r.engine.policies.apply(policy).message


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("Missing", "plugin 'Missing' does not exist", id="an unknown plugin"),
        pytest.param("NodeName", "does not have the extension point queueSort", id="a plugin without queueSort"),
    ],
)
def test_a_plugin_that_cannot_order_the_queue_stops_the_start(name, problem):
    with pytest.raises(ProfileError, match=problem):
        Rig(policies=PolicySettings(queue_sort=name))


class Unbuilt(Alphabet):
    name = "Unbuilt"

    def __init__(self, args, handle):
        raise RuntimeError("no")


def test_a_plugin_that_cannot_be_built_stops_the_start():
    with pytest.raises(PluginError, match="Unbuilt"):
        Rig({"Unbuilt": Unbuilt}, policies=PolicySettings(queue_sort="Unbuilt"))


class RandomKey:
    """A key that compares at random, and sometimes raises."""

    def __lt__(self, _other):
        if random.random() < 0.3:
            raise random.choice([ValueError("not today"), SystemExit(1), GeneratorExit()])
        return random.random() < 0.5


@pytest.mark.parametrize(
    "broken_key",
    [
        pytest.param(lambda: 1 / 0, id="it raises"),
        pytest.param(lambda: None, id="it returns nothing"),
        pytest.param(lambda: 7, id="keys of two types"),
        pytest.param(lambda: float("nan"), id="NaN"),
        pytest.param(lambda: np.array([1, 2]), id="arrays, which have no truth value"),
        pytest.param(RandomKey, id="a key that compares at random"),
    ],
)
async def test_a_plugin_with_broken_keys_loses_no_pod(monkeypatch, broken_key):
    monkeypatch.setattr(Alphabet, "broken_key", staticmethod(broken_key))
    r = rig()
    names = [f"{'xa'[number % 2]}{number}" for number in range(60)]
    for name in names:
        r.pod(name)
    async with deciding(r):
        assert r.cluster.bound == []
        r.now += 20
        r.node("n")
        r.engine.wake()
        for _ in range(5):
            await settle()
        assert sorted(name for name, _ in r.cluster.bound) == sorted(names)
