"""Every command of the pages about installation and security works, in the order of the page, on a real control plane.

Controllers, a scheduler and simulated kubelets run, so that the pods of the Deployment become ready. `oc` is kubectl
here: both read the same objects. `make` only prints what it would run; `make image-test` builds and runs the image.
/etc/kubernetes is a folder with kubeadm's static pod.
"""

from __future__ import annotations

import re
import shutil
import sys

import pytest
import yaml

from podwright.testing import ControlPlane, node, wait_until
from support.control_plane import operator_process as kit
from support.control_plane.static_pod import STATIC_POD
from support.examples.checkout import Checkout

DOCS = kit.CHECKOUT / "docs"
PAGES = ("install.md", "security-model.md")
PROGRAMS = {"kubectl": "kubectl", "oc": "kubectl", "helm": "helm"}
"""By command: the program that the control plane has for it."""


def commands(page):
    """The indented commands of a page."""
    return re.findall(r"^ {4}(\S.*)$", (DOCS / page).read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def cluster(binaries):
    """A cluster with two nodes whose pods run."""
    with ControlPlane(binaries=binaries) as control_plane:
        control_plane.start_controller_manager()
        control_plane.start_kwok()
        control_plane.start_scheduler()
        control_plane.bulk.create([node(name) for name in ("node-1", "node-2")])
        yield control_plane


@pytest.fixture
def shell(cluster, binaries, tmp_path):
    """Runs a command in a copy of the checkout, with this cluster's kubectl and Helm."""
    programs = {name: binaries.path(program) for name, program in PROGRAMS.items()}
    return Checkout(
        tmp_path,
        cluster.kubeconfig,
        programs,
        {"make": f"{shutil.which('make')} --dry-run", "podwright": f"{sys.executable} -m podwright"},
    )


def test_the_commands_of_the_page_on_installation_work(shell):
    ways = iter(re.split(r"^## ", (DOCS / "install.md").read_text(), flags=re.MULTILINE))
    assert next(ways).startswith("# Install")
    # One way after the other: each installs what the next one would find installed.
    between = "kubectl delete --ignore-not-found --timeout=60s -k manifests/base"
    for way in ways:
        if way.startswith(("With Helm", "In place")):
            read_all_kinds(shell)
            shell(between)
        if way.startswith("Uninstall"):
            shell("kubectl apply -k manifests/base")
        for command in re.findall(r"^ {4}(\S.*)$", way, re.MULTILINE):
            if command.startswith("oc "):
                read_all_kinds(shell)
                shell(between)
            if command.startswith("kubectl delete "):
                read_all_kinds(shell)
            output = shell(command)
            if "rollout status" in command:
                assert "successfully rolled out" in output
    (container,) = yaml.safe_load((shell.host / "manifests" / "kube-scheduler.yaml").read_text())["spec"]["containers"]
    assert container["command"][:2] == ["podwright", "kube-scheduler"]
    assert container["command"][2:] == yaml.safe_load(STATIC_POD)["spec"]["containers"][0]["command"][1:]


def read_all_kinds(shell):
    """Before a kind is deleted, the API server lists its objects. If nobody has read any, it first sets up their
    storage, fails meanwhile, and tries again after pauses that double, for a minute and more.
    """
    for kind in shell("kubectl api-resources --api-group=podwright.dev -o name").split():
        wait_until(lambda kind=kind: shell.try_(f"kubectl get {kind} -A").returncode == 0, 30, f"{kind} can be read")


def test_the_commands_of_the_page_on_security_work(shell):
    shell("kubectl apply -k manifests/base")
    for command in commands("security-model.md"):
        if " can-i " in command:
            wait_until(lambda command=command: shell.try_(command).stdout.strip() == "yes", 30, f"{command} says yes")
        else:
            shell(command)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_has_commands_and_each_is_known(page):
    found = commands(page)
    assert found
    assert {command.split()[0] for command in found} <= {*PROGRAMS, "make", "mv", "cp", "podwright"}
