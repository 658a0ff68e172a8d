"""Pods: defaults, priority, allowed updates, deletion, eviction."""

import pytest

from .conftest import MERGE


class TestCreation:
    async def test_a_new_pod_is_pending_with_its_defaults(self, api):
        body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        pod = await api.ok("POST", "~pods", body)
        expected = {
            "schedulerName": "default-scheduler",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "enableServiceLinks": True,
        }
        assert {key: pod["spec"].get(key) for key in expected} == expected
        assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
        assert pod["metadata"]["generation"] == 1

    async def test_limits_are_the_default_requests(self, api):
        resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
        pod = await api.pod("a", containers=[{"name": "c", "image": "i", "resources": resources}])
        assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}

    @pytest.mark.parametrize(
        "resources, qos",
        [
            pytest.param({}, "BestEffort", id="no requests and no limits"),
            pytest.param({"requests": {"cpu": "1"}}, "Burstable", id="requests only"),
            pytest.param({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed", id="limits for both"),
            pytest.param(
                {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}},
                "Burstable",
                id="requests below limits",
            ),
        ],
    )
    async def test_the_qos_class_follows_from_the_resources(self, api, resources, qos):
        pod = await api.pod("a", containers=[{"name": "c", "image": "i", "resources": resources}])
        assert pod["status"]["qosClass"] == qos

    async def test_creation_ignores_the_status(self, api):
        spec = {"containers": [{"name": "c", "image": "i"}]}
        body = {"metadata": {"name": "a"}, "spec": spec, "status": {"phase": "Running"}}
        assert (await api.ok("POST", "~pods", body))["status"]["phase"] == "Pending"

    async def test_a_pod_without_containers_is_invalid(self, api):
        answer = await api("POST", "~pods", {"metadata": {"name": "a"}, "spec": {"containers": []}})
        assert (answer.status, answer.reason) == (422, "Invalid")
        assert answer.message == 'Pod "a" is invalid: spec.containers: Required value'

    async def test_a_gated_pod_has_a_condition(self, api):
        pod = await api.pod("a", schedulingGates=[{"name": "example.com/wait"}])
        (condition,) = pod["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
        assert condition["reason"] == "SchedulingGated"


class TestPriority:
    async def test_a_priority_class_sets_the_priority(self, api):
        pod = await api.pod("a", priorityClassName="system-cluster-critical")
        assert pod["spec"]["priority"] == 2_000_000_000

    async def test_a_priority_class_sets_the_preemption_policy(self, api):
        name = f"class-{api.namespace}"
        body = {"metadata": {"name": name}, "value": 7, "preemptionPolicy": "Never"}
        await api.ok("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        try:
            pod = {
                "metadata": {"generateName": "a-"},
                "spec": {"containers": [{"name": "c", "image": "i"}], "priorityClassName": name},
            }
            answer = await api.until(201, "POST", "~pods", pod)  # the admission plugin of a real server uses a cache
            assert (answer.body["spec"]["priority"], answer.body["spec"]["preemptionPolicy"]) == (7, "Never")
        finally:
            await api.ok("DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")

    async def test_an_unknown_priority_class_is_forbidden(self, api):
        spec = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": "no-such-class"}
        answer = await api("POST", "~pods", {"metadata": {"name": "a"}, "spec": spec})
        assert (answer.status, answer.reason) == (403, "Forbidden")
        assert answer.message == 'pods "a" is forbidden: no PriorityClass with name no-such-class was found'


class TestUpdate:
    async def test_the_node_name_cannot_be_set_by_an_update(self, api):
        await api.pod("a")
        answer = await api("PATCH", "~pods/a", {"spec": {"nodeName": "some-node"}}, MERGE)
        assert (answer.status, answer.reason) == (422, "Invalid")
        assert "pod updates may not change fields other than" in answer.message

    async def test_an_update_of_the_image_increments_the_generation(self, api):
        await api.pod("a")
        containers = [{"name": "main", "image": "registry.example/other"}]
        patched = await api.ok(
            "PATCH", "~pods/a", {"spec": {"containers": containers}}, "application/strategic-merge-patch+json"
        )
        assert patched["spec"]["containers"][0]["image"] == "registry.example/other"
        assert patched["metadata"]["generation"] == 2

    async def test_labels_do_not_increment_the_generation(self, api):
        await api.pod("a")
        patched = await api.ok("PATCH", "~pods/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
        assert patched["metadata"]["generation"] == 1

    async def test_gates_can_be_removed_but_not_added(self, api):
        await api.pod("a", schedulingGates=[{"name": "example.com/one"}])
        more = {"spec": {"schedulingGates": [{"name": "example.com/one"}, {"name": "example.com/two"}]}}
        assert (await api("PATCH", "~pods/a", more, MERGE)).status == 422
        freed = await api.ok("PATCH", "~pods/a", {"spec": {"schedulingGates": None}}, MERGE)
        assert "schedulingGates" not in freed["spec"]

    async def test_a_status_update_does_not_change_the_spec(self, api):
        pod = await api.pod("a")
        pod["spec"]["nodeName"] = "some-node"
        pod["status"]["nominatedNodeName"] = "some-node"
        updated = await api.ok("PUT", "~pods/a/status", pod)
        assert "nodeName" not in updated["spec"]
        assert updated["status"]["nominatedNodeName"] == "some-node"

    async def test_an_update_does_not_change_the_status(self, api):
        pod = await api.pod("a")
        pod["status"]["phase"] = "Running"
        pod["metadata"]["labels"] = {"x": "y"}
        updated = await api.ok("PUT", "~pods/a", pod)
        assert updated["status"]["phase"] == "Pending"
        assert updated["metadata"]["labels"] == {"x": "y"}


class TestDeletion:
    async def test_an_unbound_pod_is_deleted_immediately(self, api):
        await api.pod("a")
        answer = await api("DELETE", "~pods/a")
        assert (answer.status, answer.body["kind"]) == (200, "Pod")
        assert (await api("GET", "~pods/a")).status == 404

    async def test_a_bound_pod_terminates_until_its_kubelet_deletes_it(self, api):
        await api.pod("a")
        await api.bind("a", "some-node")
        await api.ok("DELETE", "~pods/a")
        pod = await api.ok("GET", "~pods/a")
        assert pod["metadata"]["deletionTimestamp"]
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
        await api.ok("DELETE", "~pods/a", gracePeriodSeconds="0")
        assert (await api("GET", "~pods/a")).status == 404


EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}


class TestEviction:
    async def running(self, api, name):
        await api.pod(name, labels={"app": "x"})
        await api.bind(name, "some-node")
        ready = {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}
        status = {"phase": "Running", "conditions": [ready]}
        await api.ok("PATCH", f"~pods/{name}/status", {"status": status}, MERGE)

    async def test_an_eviction_deletes_the_pod(self, api):
        await api.pod("a")
        answer = await api("POST", "~pods/a/eviction", EVICTION)
        assert (answer.status, answer.body["status"]) == (201, "Success")
        assert (await api("GET", "~pods/a")).status == 404

    async def test_an_exhausted_disruption_budget_forbids_the_eviction(self, api):
        await self.running(api, "a")
        spec = {"selector": {"matchLabels": {"app": "x"}}, "maxUnavailable": 1}
        await api.ok("POST", "~policy/v1:poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": spec})
        status = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
        status["expectedPods"] = 1
        await api.ok("PATCH", "~policy/v1:poddisruptionbudgets/b/status", {"status": status}, MERGE)
        answer = await api("POST", "~pods/a/eviction", EVICTION)
        assert (answer.status, answer.reason) == (429, "TooManyRequests")
        assert answer.body["details"]["causes"][0]["reason"] == "DisruptionBudget"
        await api.ok("PATCH", "~policy/v1:poddisruptionbudgets/b/status", {"status": {"disruptionsAllowed": 1}}, MERGE)
        assert (await api("POST", "~pods/a/eviction", EVICTION)).status == 201
        assert (await api.ok("GET", "~pods/a"))["metadata"]["deletionTimestamp"]
        budget = await api.ok("GET", "~policy/v1:poddisruptionbudgets/b")
        assert budget["status"]["disruptionsAllowed"] == 0

    async def test_the_eviction_of_a_missing_pod_is_not_found(self, api):
        assert (await api("POST", "~pods/a/eviction", EVICTION)).status == 404
