import random

from benchmarks.device_mix import POLICIES, filled, inference_mix, replaced

SIZE = 2


def of_class(kinds, name):
    return sum(kind.memory * kind.count for kind in kinds if kind.device_class == name)


def test_the_mix_fills_the_cluster_and_no_more():
    kinds = inference_mix(SIZE, random.Random(1))
    assert of_class(kinds, "whole") + of_class(kinds, "part") == SIZE * (8 * 40 + 8 * 80 + 4 * 80)
    assert of_class(kinds, "share") <= SIZE * 4 * 48


def test_best_fit_places_more_of_the_same_pods():
    first, best = (filled(POLICIES[name], SIZE, 1) for name in ("as kube-scheduler", "allocation and scoring BestFit"))
    assert best.total() > first.total() * 1.1
    assert filled(POLICIES["as kube-scheduler"], SIZE, 1) == first, "the same again"


def test_what_pods_give_back_is_used_again():
    found = replaced(POLICIES["allocation and scoring BestFit"], SIZE, 1, 3)
    assert found.total() > 0.9 * len(inference_mix(SIZE, random.Random(1)))
