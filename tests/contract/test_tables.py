"""Tables, the format that kubectl requests for its output."""

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def columns(table, priority=0):
    return [item["name"] for item in table["columnDefinitions"] if item["priority"] == priority]


def cells(table, row=0):
    return dict(zip((item["name"] for item in table["columnDefinitions"]), table["rows"][row]["cells"], strict=True))


async def test_the_table_of_pods(api):
    await api.pod("a")
    table = await api.ok("GET", "~pods", accept=TABLE)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert columns(table) == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert columns(table, 1)[:4] == ["IP", "Node", "Nominated Node", "Readiness Gates"]
    row = cells(table)
    assert (row["Name"], row["Ready"], row["Status"], row["Node"]) == ("a", "0/1", "Pending", "<none>")
    assert str(row["Restarts"]) == "0"
    assert row["Age"].endswith("s")
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["rows"][0]["object"]["metadata"]["name"] == "a"


async def test_the_status_of_gated_and_terminating_pods(api):
    await api.pod("a", schedulingGates=[{"name": "example.com/wait"}])
    assert cells(await api.ok("GET", "~pods/a", accept=TABLE))["Status"] == "SchedulingGated"
    await api.pod("b")
    await api.bind("b", "some-node")
    await api.ok("DELETE", "~pods/b")
    row = cells(await api.ok("GET", "~pods/b", accept=TABLE))
    assert (row["Status"], row["Node"]) == ("Terminating", "some-node")


async def test_the_table_of_nodes(api):
    name = f"node-{api.namespace}"
    body = {
        "metadata": {"name": name, "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "nodeInfo": {"kubeletVersion": "v1.37.2", "osImage": "x"} | EMPTY_NODE_INFO,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    await api.ok("POST", "/api/v1/nodes", body)
    table = await api.ok("GET", f"/api/v1/nodes/{name}", accept=TABLE)
    await api.ok("DELETE", f"/api/v1/nodes/{name}")
    assert columns(table) == ["Name", "Status", "Roles", "Age", "Version"]
    row = cells(table)
    assert (row["Status"], row["Roles"], row["Version"]) == ("Ready,SchedulingDisabled", "worker", "v1.37.2")


EMPTY_NODE_INFO = dict.fromkeys(
    (
        *("machineID", "systemUUID", "bootID", "kernelVersion"),
        *("containerRuntimeVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
    ),
    "",
)


async def test_the_table_of_events(api):
    about = {"kind": "Pod", "namespace": api.namespace, "name": "p"}
    event = {"metadata": {"name": "p.1"}, "involvedObject": about, "reason": "Why", "message": "so", "type": "Normal"}
    await api.ok("POST", "~events", event)
    table = await api.ok("GET", "~events", accept=TABLE)
    assert columns(table) == ["Last Seen", "Type", "Reason", "Object", "Message"]
    row = cells(table)
    assert (row["Type"], row["Reason"], row["Object"], row["Message"]) == ("Normal", "Why", "pod/p", "so")


async def test_the_tables_of_deployments_and_namespaces(api):
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
    }
    await api.ok("POST", "~apps/v1:deployments", {"metadata": {"name": "d"}, "spec": spec})
    table = await api.ok("GET", "~apps/v1:deployments", accept=TABLE)
    assert columns(table) == ["Name", "Ready", "Up-to-date", "Available", "Age"]
    assert cells(table)["Ready"] == "0/2"
    table = await api.ok("GET", f"/api/v1/namespaces/{api.namespace}", accept=TABLE)
    assert (columns(table), cells(table)["Status"]) == (["Name", "Status", "Age"], "Active")


async def test_rows_contain_whole_objects_on_request(api):
    await api.pod("a")
    table = await api.ok("GET", "~pods", accept=TABLE, includeObject="Object")
    assert table["rows"][0]["object"]["kind"] == "Pod"
    assert table["rows"][0]["object"]["spec"]["schedulerName"] == "unused-scheduler"


async def test_a_watch_sends_tables_with_headers_only_in_the_first(api):
    async with api.watch("~pods", accept=TABLE, resourceVersion=await api.revision()) as watch:
        await api.pod("a")
        await api.bind("a", "some-node")
        first, second = await watch.next(), await watch.next()
    assert [event for event, _ in (first, second)] == ["ADDED", "MODIFIED"]
    assert columns(first[1])[:2] == ["Name", "Ready"]
    assert not second[1].get("columnDefinitions")
    assert second[1]["rows"][0]["cells"][0] == "a"
