"""`spec.sharedDevices`, and the strategies that score by what is left of devices."""

import pytest

from podwright.api.compile import compile_policy
from podwright.api.scheduler_policy import PolicyError, parse_policy
from podwright.core.framework.features import Features
from podwright.core.framework.profile import Point, expand
from podwright.core.plugins import PLUGINS
from podwright.core.plugins.shares.kinds import SharedDevices

GPU = {"resource": "example.com/gpu-milli", "unitsPerDevice": 1000}
FIT, BALANCE = "NodeResourcesFit", "NodeResourcesBalancedAllocation"


def compiled(**spec):
    policy = parse_policy({"metadata": {"name": "p"}, "spec": spec})
    profile = compile_policy(policy, PLUGINS, Features()).profile
    return profile.args["DeviceShares"], expand(profile.plugins, PLUGINS).points


@pytest.mark.parametrize("strategy", ["BestFit", "LeastFragmentation"])
def test_the_strategy_scores_in_place_of_requests(strategy):
    args, points = compiled(strategy={"type": strategy}, sharedDevices=[GPU])
    assert args.devices == (SharedDevices("example.com/gpu-milli", 1000),)
    assert args.scoring.type == strategy
    assert "DeviceShares" in points[Point.FILTER]
    assert "DeviceShares" in points[Point.SCORE]
    assert not {FIT, BALANCE} & {*points[Point.SCORE]}
    assert FIT in points[Point.FILTER]


def test_shares_stay_on_one_device_under_any_strategy():
    args, points = compiled(strategy={"type": "MostAllocated"}, sharedDevices=[GPU])
    assert args.scoring.type == "Nothing"
    assert "DeviceShares" in points[Point.FILTER]
    assert "DeviceShares" not in points[Point.SCORE]
    custom = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "DeviceShares"}]}}
    args, points = compiled(strategy={"type": "Custom"}, plugins=custom, sharedDevices=[GPU])
    assert "DeviceShares" in points[Point.FILTER]


def test_claims_are_left_to_their_own_filter():
    devices = {"deviceClass": "gpu", "driver": "gpu.example.com", "capacity": "memory"}
    _, points = compiled(strategy={"type": "LeastFragmentation"}, sharedDevices=[devices])
    assert "DeviceShares" not in points[Point.FILTER]
    assert "DeviceShares" in points[Point.SCORE]


def test_the_workload_is_an_argument():
    workload = [{"requests": {"cpu": 1, "example.com/gpu-milli": "500"}, "weight": 3}]
    args, _ = compiled(strategy={"type": "LeastFragmentation", "workload": workload}, sharedDevices=[GPU])
    assert [(dict(each.requests), each.weight) for each in args.scoring.workload] == [
        ({"cpu": 1, "example.com/gpu-milli": "500"}, 3)
    ]


def test_an_amount_that_cannot_be_read_is_named():
    strategy = {"type": "LeastFragmentation", "workload": [{"requests": {"cpu": "much"}}]}
    with pytest.raises(PolicyError, match=r"spec.strategy.*workload\[0\]\.requests"):
        compiled(strategy=strategy, sharedDevices=[GPU])
