"""Client libraries work: Kopf, which Podwright uses, and the kubernetes client."""

import asyncio
import contextlib
import os
import sys
import textwrap

import orjson
import pytest
from kubernetes import client, config, watch

from support.waiting import PATIENCE_SECONDS

HANDLERS = """
    import json, kopf

    @kopf.on.startup()
    def settings(settings, **_):
        settings.posting.enabled = False
        settings.watching.field_selectors["pods"] = "spec.nodeName=,spec.schedulerName=ours"

    @kopf.on.event("v1", "pods")
    def pod(type, name, namespace, **_):
        print(json.dumps([type, namespace, name]), flush=True)
"""


@contextlib.asynccontextmanager
async def kopf_events(kubeconfig, folder, namespace):
    """Runs a Kopf operator in a separate process. Yields a function that returns the next event's type and pod name."""
    file = folder / "handlers.py"
    file.write_text(textwrap.dedent(HANDLERS))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kopf", "run", "--standalone", f"--namespace={namespace}", str(file)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
    )

    async def next_event():
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_SECONDS)
        event, where, name = orjson.loads(line)
        assert where == namespace
        return event, name

    try:
        yield next_event
    finally:
        process.terminate()
        await process.communicate()


@pytest.mark.slow
async def test_kopf_sees_only_the_unbound_pods_of_our_scheduler(api, server, tmp_path):
    await api.pod("before", schedulerName="ours")
    await api.pod("theirs", schedulerName="theirs")
    async with kopf_events(server, tmp_path, api.namespace) as next_event:
        assert await next_event() == (None, "before")
        await api.pod("after", schedulerName="ours")
        assert await next_event() == ("ADDED", "after")
        await api.bind("before", "some-node")
        assert await next_event() == ("DELETED", "before")
    pod = await api.ok("GET", "~pods/after")
    assert "annotations" not in pod["metadata"]
    assert "finalizers" not in pod["metadata"]


@pytest.fixture
def core(server):
    with config.new_client_from_config(str(server)) as found:
        yield client.CoreV1Api(found)
        found.rest_client.pool_manager.clear()


async def test_the_kubernetes_client_creates_binds_and_watches(api, core):
    container = client.V1Container(name="c", image="registry.example/c")
    spec = client.V1PodSpec(scheduler_name="ours", containers=[container])
    body = client.V1Pod(metadata=client.V1ObjectMeta(name="a"), spec=spec)
    binding = client.V1Binding(
        metadata=client.V1ObjectMeta(name="a"), target=client.V1ObjectReference(kind="Node", name="some-node")
    )

    def use_client():
        created = core.create_namespaced_pod(api.namespace, body)
        assert (created.status.phase, created.spec.scheduler_name) == ("Pending", "ours")
        bound = core.create_namespaced_pod_binding("a", api.namespace, binding, _preload_content=False)
        assert bound.status == 201
        bound.close()
        with pytest.raises(client.ApiException) as refused:
            core.create_namespaced_pod_binding("a", api.namespace, binding)
        assert refused.value.status == 409
        listed = core.list_namespaced_pod(api.namespace, field_selector="spec.nodeName=some-node")
        assert [pod.metadata.name for pod in listed.items] == ["a"]
        version = created.metadata.resource_version
        stream = watch.Watch().stream(
            core.list_namespaced_pod, api.namespace, resource_version=version, timeout_seconds=int(PATIENCE_SECONDS)
        )
        event = next(stream)
        stream.close()
        return event["type"], event["object"].spec.node_name

    assert await asyncio.to_thread(use_client) == ("MODIFIED", "some-node")
