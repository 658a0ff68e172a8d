"""Waiting pods are found by the keys of hints, and by all events where keys cannot be known."""

from __future__ import annotations

import pytest

from podwright.core.framework.cluster_events import Action, ClusterEvent, EventHint, HintKeys
from podwright.core.objects.compaction import compact_all
from podwright.core.objects.pod import parse_pod
from podwright.core.queue.pods_of_plugin import PodsOfPlugin
from support.objects.builders import make_pod

CLAIM = ClusterEvent("ResourceClaim", Action.ALL)


def by_label(pod):
    return pod.labels.values()


def name_of(_before, after):
    return after


def keyed(of_event=name_of, of_pod=by_label):
    return EventHint(CLAIM, keys=HintKeys(of_event, of_pod))


def fails(*_arguments):
    raise ZeroDivisionError


def pod(name, *keys):
    return parse_pod(make_pod(name, uid=name, labels={f"k{i}": key for i, key in enumerate(keys)}))


def held(hint, *pods):
    found = PodsOfPlugin((hint,))
    for each in pods:
        found.add(each.uid, each, each.name)
    return found


def concerned(pods, hint, key):
    return set(pods.concerned(hint, None, key))


PODS = (pod("one", "x"), pod("other", "y"), pod("both", "x", "y"), pod("none"))


def test_an_event_concerns_the_pods_with_its_key():
    hint = keyed()
    pods = held(hint, *PODS)
    assert concerned(pods, hint, "x") == {"one", "both"}
    assert concerned(pods, hint, "z") == set()
    assert len(pods) == 4


def test_an_event_may_name_several_keys():
    hint = keyed()
    pods = held(hint, *PODS, pod("more", "w"))
    assert concerned(pods, hint, frozenset("xw")) == {"one", "both", "more"}
    assert concerned(pods, hint, frozenset()) == set()


def test_an_event_may_concern_several_keys():
    hint = keyed(of_event=lambda _before, after: lambda key: key in after)
    pods = held(hint, *PODS, pod("more", "w"))
    assert concerned(pods, hint, "xz") == {"one", "both"}
    assert concerned(pods, hint, "w") == {"more"}


@pytest.mark.parametrize(
    "hint",
    [
        pytest.param(EventHint(CLAIM), id="a hint without keys"),
        pytest.param(keyed(of_event=lambda _before, _after: None), id="an event for all pods"),
        pytest.param(keyed(of_event=fails), id="an event whose key cannot be found out"),
        pytest.param(keyed(of_event=lambda _before, _after: []), id="an event whose key is none"),
    ],
)
def test_other_events_concern_all_pods(hint):
    assert concerned(held(hint, *PODS), hint, "x") == {"one", "other", "both", "none"}


@pytest.mark.parametrize("of_pod", [fails, lambda _pod: 5, lambda _pod: [[]]], ids=["raises", "no keys", "no key"])
def test_a_pod_whose_keys_cannot_be_found_out_is_concerned_by_all_events(of_pod):
    hint = keyed(of_pod=of_pod)
    assert concerned(held(hint, PODS[0]), hint, "z") == {"one"}


def test_a_pod_that_changes_has_other_keys():
    hint = keyed()
    pods = held(hint, *PODS)
    changed = pod("one", "z")
    pods.add("one", changed, "one")
    assert concerned(pods, hint, "x") == {"both"}
    assert concerned(pods, hint, "z") == {"one"}
    assert len(pods) == 4


def test_a_pod_that_is_removed_leaves_nothing():
    hint = keyed()
    pods = held(hint, *PODS)
    for each in PODS:
        pods.remove(each.uid)
        pods.remove(each.uid)
    compact_all()
    assert len(pods) == 0
    assert concerned(pods, hint, "x") == set()


def test_pods_of_a_bound_that_still_holds_are_left_out_together():
    hint = keyed()
    pods = held(hint, *PODS)
    for number in range(3):
        pods.add(f"held{number}", pod(f"held{number}", "x"), f"held{number}", bound="limit")
    asked = []

    def still_held(bound, one):
        asked.append((bound, one))
        return True

    assert set(pods.concerned(hint, None, "x", still_held)) == {"one", "both"}
    assert asked == [("limit", "held0")]
    assert concerned(pods, hint, "x") == {"one", "both", "held0", "held1", "held2"}
    pods.add("held1", pod("held1", "x"), "held1")
    assert set(pods.concerned(hint, None, "x", still_held)) == {"one", "both", "held1"}


def test_each_hint_has_its_own_keys():
    one, other = keyed(), keyed(of_pod=lambda _pod: ["x"])
    pods = PodsOfPlugin((one, other))
    pods.add("u", pod("u", "y"), "u")
    assert concerned(pods, one, "x") == set()
    assert concerned(pods, other, "x") == {"u"}
