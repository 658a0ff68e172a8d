"""The interface of `import podwright`: clusters and policies as objects, and functions that answer questions about
them. Results are typed and immutable.

Nothing here writes to a cluster. docs/library.md shows how it is used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from podwright.api.permissions import OFFLINE_SETTINGS, PolicySettings
from podwright.api.policy_set import PolicySet
from podwright.api.scheduler_policy import KIND
from podwright.core.framework.profile import Classes
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import Raw
from podwright.core.plugins import PLUGINS
from podwright.simulator.explain.results import Explanation, WorkloadExplanation
from podwright.simulator.explain.targets import explain_target, parse_target
from podwright.simulator.hypotheses.hypothesis import AddedNodes, Hypothesis, HypothesisError, parse_scale
from podwright.simulator.live import LiveConnection, snapshot_of
from podwright.simulator.loaded import LoadedCluster, LoadOptions, features_of, load
from podwright.simulator.manifests import parse_manifests, read_manifests
from podwright.simulator.replay.plots import plots as draw_plots
from podwright.simulator.replay.recording import read_recording
from podwright.simulator.replay.run import ReplayCandidate, ReplayOptions
from podwright.simulator.replay.run import replay as run_replay
from podwright.simulator.replay.scorecard import Scorecard
from podwright.simulator.replay.task_lists import read_nodes, read_tasks, stream_of
from podwright.simulator.results import SimulationResult
from podwright.simulator.simulation import simulate as run_simulation
from podwright.simulator.snapshot import Snapshot, read_snapshot
from podwright.simulator.tried_policies import enforced

if TYPE_CHECKING:
    from kubernetes.client import ApiClient
    from pydantic import BaseModel as Model

_VERSION: Final = re.compile(r"V[0-9]+((alpha|beta)[0-9]+)?")


def _raw(given: Raw | Model) -> Raw:
    """An object as JSON has it. The kubernetes package leaves out the kind of objects that come from a list."""
    if isinstance(given, Mapping):
        return given
    from kubernetes.client import ApiClient  # noqa: PLC0415 -- whoever has its types has imported it

    raw: Raw = ApiClient().sanitize_for_serialization(given)  # type: ignore[no-untyped-call]  # half typed
    return {"kind": _VERSION.sub("", type(given).__name__, count=1), **raw}


@dataclass(frozen=True)
class Policy:
    """A SchedulerPolicy, as a Kubernetes object."""

    raw: Raw

    @staticmethod
    def read(path: str | Path) -> Policy:
        """The one policy in a file of YAML or JSON. Raises ManifestError and InvalidObjectError."""
        return Policy._only(read_manifests(str(path)), str(path))

    @staticmethod
    def parse(text: str) -> Policy:
        """The one policy in a text. Raises ManifestError and InvalidObjectError."""
        return Policy._only(parse_manifests(text.encode(), "the policy"), "the policy")

    @staticmethod
    def _only(found: Sequence[Raw], where: str) -> Policy:
        policies = [raw for raw in found if raw.get("kind") == KIND]
        if len(policies) != 1:
            raise InvalidObjectError("kind", f"{where}: expected one {KIND}, got {len(policies)}")
        return Policy(policies[0])

    @property
    def name(self) -> str:
        return str((self.raw.get("metadata") or {}).get("name") or "")

    def problem(self, cluster: Cluster | None = None) -> str:
        """Why the operator would not accept the policy; empty if it would. `cluster`: gives the options and the version
        of Kubernetes.
        """
        cluster = cluster or Cluster.of([])
        options = cluster.options
        result = PolicySet(options.classes, options.features, settings=options.settings).apply(self.raw)
        return "" if result.accepted else result.message


@dataclass(frozen=True)
class Cluster:
    """Everything about a cluster that scheduling depends on. The functions of this module do not change it.

    `classes`: the plugin classes, if policies use others than the built-in ones; `settings`: what the operator's
    options say about policies.
    """

    snapshot: Snapshot
    classes: Classes = field(default_factory=lambda: PLUGINS, repr=False)
    settings: PolicySettings = field(default=OFFLINE_SETTINGS, repr=False)

    def __repr__(self) -> str:
        """How many objects of each kind there are."""
        kinds = Counter(str(raw.get("kind")) for raw in self.snapshot.objects)
        return f"<Cluster: {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items())) or 'no objects'}>"

    @staticmethod
    def read(*sources: str | Path | ApiClient) -> Cluster:
        """From snapshots, or from the output of `kubectl get … -o json`; or, with the permissions of its user, from the
        API server of one `kubernetes.client.ApiClient`. Raises SnapshotError and OSError.
        """
        if len(sources) == 1 and not isinstance(sources[0], str | Path):
            return Cluster(snapshot_of(LiveConnection(client=sources[0])))
        return Cluster(read_snapshot([str(path) for path in sources]))

    @staticmethod
    def live(kubeconfig: str | None = None, context: str | None = None) -> Cluster:
        """From the API server that the kubeconfig names, with its user's permissions. Raises SnapshotError."""
        return Cluster(snapshot_of(LiveConnection(kubeconfig=kubeconfig, context=context)))

    @staticmethod
    def of(objects: Sequence[Raw | Model]) -> Cluster:
        """A cluster of Kubernetes objects, each with its `kind`, or of the types of the kubernetes package."""
        return Cluster(Snapshot(objects=[*map(_raw, objects)]))

    def with_policies(self, *policies: Policy) -> Cluster:
        """A copy of the cluster with these policies, which replace policies of the same names."""
        names = {policy.name for policy in policies}
        others = [
            raw
            for raw in self.snapshot.objects
            if raw.get("kind") != KIND or (raw.get("metadata") or {}).get("name") not in names
        ]
        snapshot = Snapshot(
            objects=[*others, *(enforced(policy.raw) for policy in policies)],
            missing=self.snapshot.missing,
            taken_at=self.snapshot.taken_at,
            minor=self.snapshot.minor,
        )
        return Cluster(snapshot, self.classes, self.settings)

    @property
    def options(self) -> LoadOptions:
        """How the objects are read."""
        return LoadOptions(features=features_of(self.snapshot), classes=self.classes, settings=self.settings)

    @cached_property
    def loaded(self) -> LoadedCluster:
        """The cluster as the scheduler's core sees it."""
        return load(self.snapshot, self.options)

    @property
    def nodes(self) -> Sequence[str]:
        """The names of its nodes."""
        return [name for name, info in self.loaded.cache.nodes.items() if info.node is not None]

    @property
    def pods(self) -> Mapping[str, str]:
        """The node of each placed pod, by the pod's namespace/name."""
        nodes = self.loaded.cache.nodes
        return {pod.key: name for name, info in nodes.items() for pod in info.pods.values()}

    @property
    def pending(self) -> Sequence[str]:
        """The pods that wait for a node, as namespace/name."""
        return [pod.key for pod in self.loaded.pending.values()]

    @property
    def problems(self) -> Sequence[str]:
        """The errors in objects, and the policies that are not accepted."""
        return [*self.loaded.problems, *(f"policy {each.name}: {each.message}" for each in self.loaded.refused)]


def explain(
    cluster: Cluster, target: str, *, namespace: str = "default", changes: bool = True
) -> Explanation | WorkloadExplanation:
    """Why a pod waits or why it is on its node, and what would help. `target`: `pod/web-0`, `deploy/web`, `job/…`,
    `podgroup/…`.

    Raises TargetError.
    """
    return explain_target(cluster.loaded, cluster.snapshot, parse_target(target, namespace), changes=changes)


def simulate(
    cluster: Cluster,
    *,
    add_nodes: Mapping[str, int] | None = None,
    remove_nodes: Sequence[str] = (),
    drain: Sequence[str] = (),
    scale: Sequence[str] = (),
    pods: Sequence[Raw | Model] = (),
    policies: Sequence[Policy] = (),
    seed: int = 0,
) -> SimulationResult:
    """Simulates what would happen. `add_nodes`: how many nodes like each named one; `scale`: `deploy/web=50`; `pods`:
    further pods or workloads, also as types of the kubernetes package.

    Raises HypothesisError.
    """
    for argument, names in (("remove_nodes", remove_nodes), ("drain", drain), ("scale", scale)):
        if isinstance(names, str):
            raise HypothesisError(f"{argument}: expected a list of texts, got one text: write {argument}=[{names!r}]")
    hypothesis = Hypothesis(
        policies=[policy.raw for policy in policies],
        add_nodes=[AddedNodes(count, like) for like, count in (add_nodes or {}).items()],
        remove_nodes=remove_nodes,
        drain=drain,
        scale=[parse_scale(text) for text in scale],
        pods=[*map(_raw, pods)],
    )
    return run_simulation(cluster.loaded, hypothesis, seed=seed)


def replay(
    stream: str | Path,
    policies: Mapping[str, Sequence[Policy]],
    *,
    nodes: str | Path | Cluster | None = None,
    seed: int = 0,
) -> list[Scorecard]:
    """Replays the same stream of pods under several sets of policies. Returns a scorecard for each, in the order of
    `policies`. An empty set means kube-scheduler's profile.

    `stream`: a recording, or a list of tasks as CSV, which needs `nodes`: a list as CSV, or a cluster; only its nodes
    count. Raises StreamError and ReplayError.
    """
    path = str(stream)
    if isinstance(nodes, Cluster):
        initial = [*nodes.snapshot.of_kind("Node")]
    else:
        initial = [] if nodes is None else read_nodes(str(nodes))
    found = (
        stream_of(initial, read_tasks(path))
        if path.removesuffix(".gz").endswith(".csv")
        else read_recording(path, initial)
    )
    candidates = [ReplayCandidate(name, [policy.raw for policy in chosen]) for name, chosen in policies.items()]
    return run_replay(found, candidates, ReplayOptions(seed=seed))


@dataclass(frozen=True)
class Picture:
    """A drawing, which notebooks show."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg


def plots(cards: Sequence[Scorecard]) -> Mapping[str, Picture]:
    """The plots of a replay: allocation, utilisation, fragmentation, spread, nodes, pending, waiting."""
    return {name.removesuffix(".svg"): Picture(svg) for name, svg in draw_plots(cards).items()}
