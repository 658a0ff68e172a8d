"""WorkloadGroupings as they come in, and the statuses that are written about them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from podwright.api import crd
from podwright.api.workload_grouping import GROUPING_KIND, parse_grouping
from podwright.core.objects.errors import InvalidObjectError
from podwright.kube.groupings.door import GroupingDoor
from podwright.kube.write import object_status
from podwright.sandbox.schemas import Schema
from support.groupings.workloads import GroupedRig, grouping, owner, pod_of
from support.http.kit import api, says
from support.waiting import until

SCHEMA = Schema(crd.crd(GROUPING_KIND)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
JOBS = ("batch", "Job")


class Seen:
    def __init__(self, http, script):
        self.rig = GroupedRig()
        self.script = script
        self.door = GroupingDoor(
            http, self.rig.engine, recorder=self.rig.recorder, scheduler_name="podwright", clock=lambda: self.rig.now
        )

    @property
    def status(self):
        return self.script.requests[-1].body[1]["value"]

    def condition(self, kind):
        return next(each for each in self.status["conditions"] if each["type"] == kind)

    async def reason(self, reason):
        await until(lambda: self.script.requests and self.condition("Active")["reason"] == reason)
        return self.condition("Active")["message"]


@asynccontextmanager
async def seen():
    async with api(default=says(200, {})) as (http, script):
        made = Seen(http, script)
        running = asyncio.create_task(made.door.run())
        yield made
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(object_status, "STATUS_SECONDS", 0.005)


async def test_the_status_says_that_a_grouping_is_in_force_and_how_many_groups_it_makes():
    async with seen() as it:
        it.door.put(grouping(minCount="2"))
        it.rig.engine.workloads.kind_read(JOBS, "")
        train = owner()
        it.rig.own(train)
        it.rig.put(pod_of(train, "a"))
        await until(lambda: it.script.requests and it.status.get("groups") == 1)
        assert it.condition("Accepted")["status"] == "True"
        assert it.condition("Active")["reason"] == "InForce"
        assert SCHEMA.problems({**grouping(minCount="2"), "status": it.status}) == []


async def test_the_status_names_a_right_that_is_missing_and_what_becomes_of_the_pods():
    async with seen() as it:
        it.door.put(grouping(minCount="2"))
        it.rig.engine.workloads.kind_read(JOBS, "RBAC does not let us list jobs.batch")
        assert await it.reason("OwnersUnreadable") == "RBAC does not let us list jobs.batch: their pods wait."


async def test_a_grouping_without_a_minimum_says_so():
    async with seen() as it:
        it.door.put(grouping())
        await it.reason("NoGroups")


async def test_an_invalid_generation_leaves_the_last_one_in_force_and_an_event_names_the_field():
    async with seen() as it:
        it.door.put(grouping(minCount="2"))
        it.rig.engine.workloads.kind_read(JOBS, "")
        await it.reason("InForce")
        wrong = {**grouping(minCount="pod.labls.size"), "status": it.status}
        wrong["metadata"]["generation"] = 2
        it.door.put(wrong)
        await it.reason("LastGoodGeneration")
        assert "spec.minCount: line 1, column 4: undefined field 'labls'" in it.condition("Accepted")["message"]
        assert it.status["lastAccepted"]["generation"] == 1
        assert it.rig.recorder.notes("GroupingNotAccepted")
        assert it.rig.engine.workloads.groupings["jobs"].min_count.text == "2"


async def test_after_a_restart_the_last_accepted_spec_is_in_force():
    async with seen() as it:
        wrong = grouping(minCount="'text'")
        spec = grouping(minCount="3")["spec"]
        it.door.put({**wrong, "status": {"lastAccepted": {"generation": 1, "spec": spec}}})
        assert it.rig.engine.workloads.groupings["jobs"].min_count.text == "3"
        it.door.drop("jobs", None)
        assert it.rig.engine.workloads.groupings == {}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param({"minCount": "'two'"}, "spec.minCount: must evaluate to int, not string", id="a text as minimum"),
        pytest.param({"key": "1"}, "spec.key: must evaluate to string, not int", id="a number as key"),
        pytest.param(
            {"key": "node.name"}, "spec.key: line 1, column 5: undeclared reference to 'node.name'", id="a node"
        ),
        pytest.param({"key": "x" * 10_241}, "spec.key: ", id="an expression of more than 10 KB"),
        pytest.param({"kind": "9"}, "spec.owner.kind", id="no kind"),
        pytest.param({"api_version": "Batch/1"}, "spec.owner.apiVersion", id="no version"),
        pytest.param({"onFailure": "Panic"}, "spec.onFailure", id="an unknown failure rule"),
    ],
)
def test_what_is_wrong_with_a_grouping_is_named_with_its_field(spec, problem):
    with pytest.raises(InvalidObjectError) as caught:
        parse_grouping(grouping(**spec))
    assert f"WorkloadGrouping jobs: {problem}" in str(caught.value)
