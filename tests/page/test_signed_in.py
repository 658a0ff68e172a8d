"""The page on the secure port beside a real API server, which says who may see what."""

import pytest
import yaml
from playwright.sync_api import expect

from podwright.testing import node, pod, wait_until
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit

RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture
def operator(empty_cluster):
    """An operator with the rights of manifests/base, its secure port, and two pods that wait."""
    cluster = empty_cluster
    kit.stay_installed(cluster)
    cluster.client.create(node("a", cpu="2"))
    cluster.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "page-other"}})
    port = free_port()
    with kit.running(cluster, f"--secure-port={port}", "--bind-address=127.0.0.1") as running:
        cluster.client.create(pod("mine", scheduler="podwright", cpu="9"))
        cluster.client.create(pod("theirs", "page-other", scheduler="podwright", cpu="9"))
        wait_until(lambda: running.metric("scheduler_pending_pods", queue="unschedulable") == 2, 60, "two pods wait")
        yield kit.Operator(running.process, port, scheme="https")


def account(cluster, name):
    """A service account's token."""
    kubeconfig = yaml.safe_load(cluster.service_account_kubeconfig("default", name).read_text())
    return kubeconfig["users"][0]["user"]["token"]


def grant(cluster):
    """The account page-viewer may look at the page, and at the pods of its own namespace."""
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    mine = {"name": "page-pods", "namespace": "default"}
    cluster.apply({"apiVersion": RBAC, "kind": "Role", "metadata": mine, "rules": [rule]})
    subjects = [{"kind": "ServiceAccount", "name": "page-viewer", "namespace": "default"}]
    for kind, metadata, role in (
        ("ClusterRole", {"name": "page-viewer"}, "podwright-page-viewer"),
        ("Role", mine, "page-pods"),
    ):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
        cluster.apply(
            {
                "apiVersion": RBAC,
                "kind": f"{kind}Binding",
                "metadata": metadata,
                "roleRef": reference,
                "subjects": subjects,
            }
        )


def test_the_api_server_says_who_may_look_and_whose_pods_are_named(look, empty_cluster, operator):
    token = account(empty_cluster, "page-viewer")
    assert operator.get("/page/policy?name=x", token)[0] == 403  # which the operator remembers for ten seconds
    grant(empty_cluster)
    wait_until(lambda: operator.get("/page/node?name=a", token)[0] == 200, 30, "the roles take effect")
    page = look(f"https://127.0.0.1:{operator.port}/page/", signed_in=False)
    why = page.locator("#sign-in-why")
    expect(why).to_contain_text('User "system:anonymous" cannot get path "/page/stream"')
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(why).to_have_text("Unauthorized")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector("[data-state=live]")
    queue = page.locator("#queue")
    queue.get_by_text("You may not list the pods of all namespaces").wait_for()
    expect(page.get_by_role("button", name="Unschedulable").locator(".count")).to_have_text("2")
    namespace = page.get_by_label("Namespace")
    namespace.fill("page-other")
    namespace.press("Enter")
    queue.get_by_text("You may not list the pods of namespace page-other").wait_for()
    namespace.fill("default")
    namespace.press("Enter")
    queue.get_by_role("button", name="mine").click()
    page.get_by_role("cell", name="Insufficient cpu NodeResourcesFit").first.wait_for()
    assert "theirs" not in page.content()
    page.close()
