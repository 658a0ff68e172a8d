"""The watches of owners: one for each kind that groupings name, and what is said of kinds that cannot be read."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from podwright.api.workload_grouping import parse_grouping
from podwright.kube.groupings import owners
from podwright.kube.groupings.owners import OwnerKinds
from podwright.kube.kinds import Resource
from podwright.kube.watch.served_kinds import ServedKinds
from support.groupings.workloads import GroupedRig, grouping, owner, pod_of
from support.http.kit import api, says

JOB = {"name": "jobs", "kind": "Job", "namespaced": True}
SETS = {"name": "jobsets", "kind": "JobSet", "namespaced": True}
JOBS = Resource("Job", "batch", "v1", "jobs", namespaced=True)
JOB_SET = grouping("sets", api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", minCount="2")


class Server:
    """An API server with these kinds by version. RBAC allows all verbs but the `forbidden` ones."""

    def __init__(self, **served):
        self.served = {"batch/v1": [JOB, {"name": "jobs/status", "kind": "Job"}], **served}
        self.forbidden: set[str] = set()

    async def answer(self, request):
        if request.method == "POST":
            verb = (await request.json())["spec"]["resourceAttributes"]["verb"]
            return await says(201, {"status": {"allowed": verb not in self.forbidden}})(request)
        version = request.path.removeprefix("/apis/")
        if version in self.served:
            return await says(200, {"resources": self.served[version]})(request)
        return await says(404)(request)


class Watching:
    def __init__(self, http):
        self.rig = GroupedRig()
        self.started: dict[str, str] = {}
        self.starts = 0
        self.answers = True
        """True if lists are answered."""

        def start(name, reflector):
            self.started[name] = reflector.resource.version
            self.starts += 1
            if self.answers:
                reflector.synced.set()
            return asyncio.create_task(asyncio.sleep(60))

        self.served = ServedKinds(http, [], start=start)
        self.kinds = OwnerKinds(http, self.rig.engine, served=self.served)

    async def use(self, *groupings):
        for raw in groupings:
            self.rig.engine.workloads.set(parse_grouping(raw))
        await self.kinds.refresh()

    def problem(self, name):
        return self.rig.engine.workloads.problem(self.rig.engine.workloads.groupings[name])


@asynccontextmanager
async def watching(server):
    async with api(default=server.answer) as (http, _):
        yield Watching(http)


async def test_a_kind_is_watched_once_by_the_name_that_discovery_has():
    async with watching(Server()) as it:
        await it.use(grouping(minCount="2"), grouping("more", minCount="3", precedence=1))
        assert it.started == {"jobs.batch": "v1"}
        assert it.problem("jobs") == ""
        train = owner()
        it.served.served["owners:jobs.batch"].door.put(train)
        it.rig.put(pod_of(train, "a"))
        assert it.rig.minimums == {"Job default/train": 3}


async def test_a_kind_without_groups_and_pods_are_not_watched():
    async with watching(Server()) as it:
        await it.use(grouping(), grouping("spark", api_version="v1", kind="Pod", minCount="2"))
        assert it.started == {}


async def test_a_kind_that_is_not_served_is_named_and_watched_when_its_crd_comes():
    server = Server()
    async with watching(server) as it:
        await it.use(JOB_SET)
        assert it.problem("sets") == "the API server does not serve JobSet of jobset.x-k8s.io"
        server.served["jobset.x-k8s.io/v1alpha2"] = [SETS]
        await it.kinds.refresh()
        assert (it.started, it.problem("sets")) == ({"jobsets.jobset.x-k8s.io": "v1alpha2"}, "")


async def test_a_missing_right_is_named_and_asked_for_again():
    server = Server()
    server.forbidden = {"watch"}
    async with watching(server) as it:
        await it.use(grouping(minCount="2"))
        assert it.problem("jobs") == "RBAC does not let us watch jobs.batch"
        server.forbidden = set()
        await it.kinds.refresh()
        assert (it.started, it.problem("jobs")) == ({"jobs.batch": "v1"}, "")


async def test_of_several_versions_the_first_that_is_served_is_read():
    server = Server(**{"kubeflow.org/v2beta1": [{"name": "mpijobs", "kind": "MPIJob", "namespaced": True}]})
    async with watching(server) as it:
        one = grouping("one", api_version="kubeflow.org/v1", kind="MPIJob", minCount="2", precedence=1)
        two = grouping("two", api_version="kubeflow.org/v2beta1", kind="MPIJob", minCount="3")
        await it.use(one, two)
        assert it.started == {"mpijobs.kubeflow.org": "v2beta1"}
        made = owner(api_version="kubeflow.org/v2beta1", kind="MPIJob")
        it.served.served["owners:mpijobs.kubeflow.org"].door.put(made)
        it.rig.put(pod_of(made, "a"))
        assert it.rig.minimums == {"MPIJob default/train": 3}


async def test_a_kind_is_let_go_with_the_last_grouping_that_names_it():
    async with watching(Server()) as it:
        await it.use(grouping(minCount="2"))
        it.served.served["owners:jobs.batch"].door.put(owner())
        it.rig.engine.workloads.remove("jobs")
        await it.kinds.refresh()
        assert it.served.served == {}
        assert it.rig.engine.workloads.read == {}


async def test_an_invalid_owner_harms_no_other():
    async with watching(Server()) as it:
        await it.use(grouping(minCount="2"))
        sink = it.served.served["owners:jobs.batch"].door
        wrong = owner("wrong")
        wrong["metadata"]["ownerReferences"] = "text"
        sink.put(wrong)
        sink.put(owner())
        it.rig.put(pod_of(owner(), "a"))
        assert it.rig.minimums == {"Job default/train": 2}


async def test_a_kind_that_cannot_be_listed_is_named_and_read_once_it_can_be(monkeypatch):
    monkeypatch.setattr(owners, "SYNC_SECONDS", 0.01)
    async with watching(Server()) as it:
        it.answers = False
        await it.use(grouping(minCount="2"))
        assert it.problem("jobs") == "jobs.batch could not be listed within 0 seconds"
        it.served.served["owners:jobs.batch"].reflector.synced.set()
        await it.kinds.refresh()
        assert it.problem("jobs") == ""


async def test_a_kind_is_watched_once_though_discovery_runs_meanwhile():
    async with watching(Server()) as it:
        await it.use(grouping(minCount="2"))
        it.served.remove("owners:jobs.batch")
        it.served.add(owners.OwnerDoor(("batch", "Job"), ("v1",), [JOBS], it.rig.engine))
        await asyncio.gather(it.served.discover(), it.served.discover("owners:jobs.batch"))
        assert it.starts == 2, "one of the first door, one of the second"


async def test_a_kind_that_is_let_go_while_discovery_runs_is_not_watched():
    async with watching(Server()) as it:
        await it.use(grouping(minCount="2"))
        it.served.remove("owners:jobs.batch")
        it.served.add(owners.OwnerDoor(("batch", "Job"), ("v1",), [JOBS], it.rig.engine))
        discovery = asyncio.create_task(it.served.discover())
        await asyncio.sleep(0)
        it.served.remove("owners:jobs.batch")
        await discovery
        assert it.served.served == {}
