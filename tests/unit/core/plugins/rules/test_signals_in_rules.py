"""Rules that read signals: values, what is refused, and which changes help pods that they rejected."""

from __future__ import annotations

import pytest

from podwright.api.compile import OperatorDefinitions, compile_policy
from podwright.api.scheduler_policy import PolicyError, parse_policy
from podwright.core.cel_columns.attributes import Signal
from podwright.core.cycle import Placement, Rejection
from podwright.core.framework.cluster_events import SIGNAL, Action, ClusterEvent, Hint
from podwright.core.framework.features import Features
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.state.signals import SignalDefinition
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod
from support.plugins.kit import raw_scores, verdicts
from support.rules.running import decided, plugin_of
from support.signals.worlds import samples

DEFINED = {name: SignalDefinition(name=name, default=50.0) for name in ("load", "io")}


def policy(*filters, scores=(), signals=("load",), defined=DEFINED):
    rules = {
        "filters": [{"name": f"f{i}", "expression": each} for i, each in enumerate(filters)],
        "scores": [{"name": f"s{i}", "expression": each} for i, each in enumerate(scores)],
    }
    raw = {"metadata": {"name": "pol"}, "spec": {"signals": list(signals), "rules": rules}}
    return compile_policy(parse_policy(raw), PLUGINS, Features(), defined=OperatorDefinitions(signals=defined))


def world(**loads):
    made = World(signals=DEFINED)
    made.fill({"nodes": [make_node(name) for name in "abc"]})
    made.cache.signals.take("load", samples(loads))
    return made


def pod():
    return parse_pod(make_pod("p", requests={"cpu": "1"}), keep_raw=True)


def refusal(*filters, **more):
    with pytest.raises(PolicyError) as raised:
        policy(*filters, **more)
    return raised.value.message


def test_the_idle_node_wins_and_filters_see_the_default():
    compiled = policy("signals.load < 60.0", scores=["100.0 - signals.load"])
    found = decided(world(a=70.0, b=20.0), compiled, pod())
    assert isinstance(found, Placement)
    assert found.node_name == "b"
    assert isinstance(decided(world(a=70.0, b=60.0, c=99.0), compiled, pod()), Rejection)


@pytest.mark.parametrize(
    "expression",
    ["signals.load < 60.0", "string(signals.load) == '20'", "has(signals.load)", "[20.0].exists(x, x == signals.load)",
     "[1].all(signals, signals == 1)", "node.labels.exists(k, signals.load > 60.0)", "signals.load + double(node.podCount) < 60.0",
     "[1].exists(node, signals.load < 60.0)"],
)  # fmt: skip
def test_columns_and_nodes_one_by_one_agree_before_and_after_a_change(expression):
    made = world(a=70.0, b=20.0)
    plugin = plugin_of(made, policy(expression))
    verdicts(plugin, pod())
    made.cache.signals.take("load", samples({"a": 10.0, "c": 80.0}))
    verdicts(plugin, pod())


def test_scores_of_columns_and_nodes_one_by_one_agree():
    made = world(a=70.0, b=20.5)
    plugin = plugin_of(made, policy(scores=["100.0 - signals.load"]))
    assert raw_scores(plugin, pod()) == {"a": 30, "b": 79, "c": 50}
    made.cache.signals.take("load", samples({"a": 1.0}))
    assert raw_scores(plugin, pod()) == {"a": 99, "b": 79, "c": 50}


def test_kept_results_are_refreshed_only_for_the_nodes_whose_value_has_changed(monkeypatch):
    made = World(signals=DEFINED)
    made.fill({"nodes": [make_node(f"n{i}") for i in range(100)]})
    plugin = plugin_of(made, policy("signals.load < 60.0"))
    asked, evaluate = [], Signal.run

    def counting(operation, run):
        asked.append(None if run.rows is None else len(run.rows))
        return evaluate(operation, run)

    monkeypatch.setattr(Signal, "run", counting)
    verdicts(plugin, pod())
    made.cache.signals.take("load", samples({f"n{i}": 50.0 + (i < 10) for i in range(100)}))
    verdicts(plugin, pod())
    made.cache.signals.take("load", samples({f"n{i}": 50.0 + (i < 10) for i in range(100)}))
    verdicts(plugin, pod())
    assert asked == [None, 10]


def test_a_policy_names_the_signals_that_it_reads():
    assert refusal("signals.load < 1.0", signals=()) == (
        "spec.rules.filters[0].expression: reads signal 'load', which spec.signals does not name"
    )
    assert refusal("signals.io < 1.0").endswith("reads signal 'io', which spec.signals does not name")


def test_an_unknown_signal_is_refused_with_its_path():
    assert refusal("true", signals=["load", "laod"]) == (
        "spec.signals[1]: signal 'laod' is not defined; only the operator's option --signals defines signals; did you mean 'load'?"
    )
    assert "undefined field 'laod'" in refusal("signals.laod < 1.0")
    assert "undeclared reference to 'signals" in refusal("signals.load < 1.0", signals=(), defined={})


@pytest.mark.parametrize("expression", ["signals == signals", "dyn(signals).load < 1.0", "[signals].size() == 1"])
def test_signals_are_read_one_by_one(expression):
    assert "signals can be read one by one only, as signals.NAME" in refusal(expression)


def test_a_signal_is_a_double():
    assert "no matching overload" in refusal("signals.load + 1 > 2")


def hint(made, *filters):
    found = [each for each in plugin_of(made, policy(*filters)).hints() if each.event.matches(EVENT)]
    return found[0].function(pod(), None, None) if found else None


EVENT = ClusterEvent(SIGNAL, Action.UPDATE_OTHER)


def test_changed_signals_help_a_pod_once_a_node_passes():
    assert hint(world(a=70.0, b=80.0, c=90.0), "signals.load < 60.0") is Hint.SKIP
    assert hint(world(a=70.0, b=80.0, c=10.0), "signals.load < 60.0", "signals.load > 90.0") is Hint.SKIP
    assert hint(world(a=70.0, b=80.0, c=10.0), "signals.load < 60.0") is Hint.QUEUE
    assert hint(world(), "node.name == 'a'") is None
