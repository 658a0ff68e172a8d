"""POST pods/binding, with which a scheduler assigns a pod to a node."""


async def test_a_binding_assigns_the_pod_to_the_node(api):
    await api.pod("free")
    answer = await api.bind("free", "some-node")
    assert answer.status == 201
    assert (answer.body["kind"], answer.body["status"]) == ("Status", "Success")
    pod = await api.ok("GET", "~pods/free")
    assert pod["spec"]["nodeName"] == "some-node"
    condition = next(item for item in pod["status"]["conditions"] if item["type"] == "PodScheduled")
    assert condition["status"] == "True"
    assert condition["lastTransitionTime"]
    assert pod["status"]["phase"] == "Pending"


async def test_a_bindings_annotations_are_merged_into_the_pod(api):
    await api.pod("free", annotations={"kept": "1", "changed": "old"})
    assert (await api.bind("free", "some-node", annotations={"changed": "new", "added": "2"})).status == 201
    pod = await api.ok("GET", "~pods/free")
    assert pod["metadata"]["annotations"] == {"kept": "1", "changed": "new", "added": "2"}


async def test_a_binding_can_be_posted_to_bindings(api):
    await api.pod("free")
    binding = {"metadata": {"name": "free"}, "target": {"kind": "Node", "name": "some-node"}}
    answer = await api("POST", "~bindings", {"apiVersion": "v1", "kind": "Binding", **binding})
    assert answer.status == 201
    assert (await api.ok("GET", "~pods/free"))["spec"]["nodeName"] == "some-node"


async def test_a_second_binding_conflicts_even_to_the_same_node(api):
    await api.pod("taken")
    assert (await api.bind("taken", "some-node")).status == 201
    for node in ("some-node", "another-node"):
        answer = await api.bind("taken", node)
        assert (answer.status, answer.reason) == (409, "Conflict")
        assert answer.message == (
            'Operation cannot be fulfilled on pods/binding "taken": pod taken is already assigned to node "some-node"'
        )


async def test_binding_a_missing_pod_is_not_found(api):
    answer = await api.bind("missing", "some-node")
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.message == 'pods "missing" not found'


async def test_a_binding_with_the_pods_uid_succeeds(api):
    pod = await api.pod("free")
    assert (await api.bind("free", "some-node", uid=pod["metadata"]["uid"])).status == 201


async def test_a_binding_with_another_uid_conflicts_and_leaves_the_pod_unbound(api):
    pod = await api.pod("free")
    wrong = "11111111-2222-3333-4444-555555555555"
    answer = await api.bind("free", "some-node", uid=wrong)
    assert (answer.status, answer.reason) == (409, "Conflict")
    found = pod["metadata"]["uid"]
    assert f"Precondition failed: UID in precondition: {wrong}, UID in object meta: {found}" in answer.message
    assert "nodeName" not in (await api.ok("GET", "~pods/free"))["spec"]


async def test_a_gated_pod_cannot_be_bound(api):
    await api.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    answer = await api.bind("gated", "some-node")
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert "has non-empty .spec.schedulingGates" in answer.message


async def test_a_terminating_pod_cannot_be_bound(api):
    await api.pod("going", finalizers=["example.com/hold"])
    await api.ok("DELETE", "~pods/going")
    answer = await api.bind("going", "some-node")
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert "pod going is being deleted, cannot be assigned to a host" in answer.message
    await api.ok("PATCH", "~pods/going", {"metadata": {"finalizers": None}}, "application/merge-patch+json")


async def test_a_binding_without_a_target_is_rejected(api):
    await api.pod("free")
    answer = await api("POST", "~pods/free/binding", {"metadata": {"name": "free"}, "target": {"kind": "Node"}})
    assert (answer.status, answer.message) == (500, "target.name: Required value")


async def test_a_target_other_than_a_node_is_rejected(api):
    await api.pod("free")
    target = {"kind": "Pod", "name": "some-node"}
    answer = await api("POST", "~pods/free/binding", {"metadata": {"name": "free"}, "target": target})
    assert answer.status == 500
    assert 'target.kind: Unsupported value: "Pod"' in answer.message


async def test_a_binding_with_another_name_than_in_the_path_is_rejected(api):
    await api.pod("free")
    binding = {"metadata": {"name": "other"}, "target": {"kind": "Node", "name": "some-node"}}
    answer = await api("POST", "~pods/free/binding", binding)
    assert (answer.status, answer.message) == (400, "name in URL does not match name in Binding object")


async def test_a_binding_does_not_increment_the_generation(api):
    await api.pod("free")
    await api.bind("free", "some-node")
    assert (await api.ok("GET", "~pods/free"))["metadata"]["generation"] == 1


async def test_a_dry_run_does_not_bind(api):
    await api.pod("free")
    binding = {"metadata": {"name": "free"}, "target": {"kind": "Node", "name": "some-node"}}
    assert (await api("POST", "~pods/free/binding", binding, dryRun="All")).status == 201
    assert "nodeName" not in (await api.ok("GET", "~pods/free"))["spec"]
