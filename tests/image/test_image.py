"""The image as the manifests run it: as a user without rights, without capabilities, on a read-only root.

`buildah run` cannot make the root read-only with the isolation `chroot`, the only one that works without privileges of
the kernel: it writes into the root itself. So the image runs twice: by buildah as another user, to whom nothing in it
belongs, and by the same steps in a chroot whose root is mounted read-only. Both use this machine's network, so that
they reach the control plane on loopback.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from podwright.testing import node, pod
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit

USER = 65532
OPENSHIFT_USER = 1_000_650_000
"""A user such as OpenShift chooses, which /etc/passwd of the image does not know."""
LARGEST_MIB = 260
ENVIRON = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}


def buildah(*arguments: str) -> str:
    done = subprocess.run(["buildah", *arguments], env=ENVIRON, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass(frozen=True)
class Container:
    """A container of the image. `root` is its file system on this machine."""

    name: str
    root: Path
    environ: dict[str, str]

    def by_buildah(self, *command: str, user: int = USER, volume: Path | None = None) -> list[str]:
        """The command line that runs a command in it by buildah. The volume is readable under its own path."""
        volumes = [f"--volume={volume}:{volume}:ro"] if volume else []
        return ["buildah", "run", f"--user={user}:0", *volumes, self.name, "--", *command]

    def read_only(self, *command: str, user: int = USER, volume: Path | None = None) -> list[str]:
        """The command line that runs a command in a chroot on a read-only root, with nothing but /proc, /dev and a
        volume.
        """
        root = shlex.quote(str(self.root))
        steps = [
            f"mount --bind {root} {root}",
            f"mount -t proc proc {root}/proc",
            f"mount --bind /dev {root}/dev",
        ]
        if volume:
            steps += [f"mkdir -p {root}{volume}", f"mount --bind {volume} {root}{volume}"]
        steps.append(f"mount -o remount,ro,bind {root}")
        drop = (
            f"setpriv --reuid={user} --regid={user} --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs"
        )
        environ = " ".join(f"{key}={shlex.quote(value)}" for key, value in self.environ.items())
        steps.append(f"exec chroot {root} {drop} env -i {environ} {shlex.join(command)}")
        return ["unshare", "--mount", "--propagation=private", "sh", "-euc", "\n".join(steps)]


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    name = buildah("from", f"localhost/{os.environ['PODWRIGHT_IMAGE']}")
    lines = buildah("inspect", "--format", "{{range .OCIv1.Config.Env}}{{println .}}{{end}}", name).splitlines()
    environ = dict(line.partition("=")[::2] for line in lines if line)
    yield Container(name, Path(buildah("mount", name)), environ)
    buildah("umount", name)
    buildah("rm", name)


WAYS = ["by_buildah", "read_only"]


def run(command: list[str], timeout: float = 300, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a command line of the container."""
    merged = {**ENVIRON, **environ}
    return subprocess.run(command, env=merged, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("user", [USER, OPENSHIFT_USER])
def test_the_image_has_nothing_that_its_user_may_change(container, way, user):
    places = "/x /opt/podwright/x /usr/local/bin/podwright /etc/passwd"
    probe = f'id -u; for place in {places}; do (echo >> "$place") 2>/dev/null && echo "wrote $place"; done; podwright --version'
    done = run(getattr(container, way)("sh", "-c", probe, user=user))
    assert done.returncode == 0, done.stderr
    found, version = done.stdout.split("\n", 1)
    assert found == str(user)
    assert "wrote" not in version
    assert "podwright" in version


def test_the_root_is_read_only_and_the_process_has_no_capabilities(container):
    done = run(
        container.read_only("sh", "-c", "grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; echo > /tmp/x")
    )
    values = dict(line.split(":\t") for line in done.stdout.splitlines())
    assert {int(values[name], 16) for name in ("CapEff", "CapBnd")} == {0}
    assert values["NoNewPrivs"] == "1"
    assert "Read-only file system" in done.stderr


def test_the_image_is_small_and_complete(container):
    size = run(["du", "-sm", "--one-file-system", str(container.root)]).stdout.split()[0]
    program = container.root / "opt" / "podwright"
    largest = run(["sh", "-c", f"du -sm {program}/* | sort -n | tail -4"]).stdout
    print(f"\nthe image has {size} MiB; the largest packages:\n{largest}")
    assert int(size) < LARGEST_MIB
    assert not [path for path in program.rglob("tests") if path.is_dir()]
    assert not (container.root / "root" / ".cache").exists()
    compiled = [path for path in (program / "podwright").rglob("*.pyc") if path.parent.name == "__pycache__"]
    sources = list((program / "podwright").rglob("*.py"))
    assert len(compiled) == len(sources), "each module is compiled once: nothing can be written at the start"


@pytest.mark.parametrize("way", WAYS)
def test_the_deployment_of_the_manifests_runs_and_binds_pods(empty_cluster, namespace, container, way):
    cluster = empty_cluster
    kit.install(cluster)
    cluster.client.create(node("only"))
    volume = Path("/run/podwright")
    volume.mkdir(exist_ok=True)
    kubeconfig = volume / "kubeconfig"
    text = cluster.service_account_kubeconfig(*kit.ACCOUNT).read_text()
    authority = volume / "ca.crt"
    authority.write_bytes(cluster.certificate_authority.read_bytes())
    kubeconfig.write_text(text.replace(str(cluster.certificate_authority), str(authority)))
    for path in (kubeconfig, authority):
        path.chmod(0o644)
    port = free_port()
    arguments = [*kit.deployed_command(port)[2:], f"--kubeconfig={kubeconfig}"]
    arguments.append(f"--leader-elect-resource-namespace={kit.ACCOUNT[0]}")
    namespace_of_pod = f"POD_NAMESPACE={kit.ACCOUNT[0]}"
    program, *rest = getattr(container, way)("env", namespace_of_pod, *arguments, volume=volume)
    command = [shutil.which(program) or program, *rest]
    process = cluster.start_process(
        f"image-{way}", command, {name: ENVIRON[name] for name in ("BUILDAH_ISOLATION", "STORAGE_DRIVER")}
    )
    operator = kit.Operator(process, port, scheme="https")
    try:
        kit.wait_ready(operator, 120)
        for number in range(20):
            cluster.client.create(pod(f"p{number}", namespace, scheduler="podwright"))
        kit.wait_bound(cluster, namespace, 20, 60)
    finally:
        process.stop(40)
    for text in ("Traceback", "RBAC does not let us", "Kopf failed"):
        assert text not in operator.log()
    assert "Read-only file system" not in operator.log()


def test_the_demo_passes_in_the_image(container):
    """By buildah: the demo of a checkout keeps its kubeconfig in /tmp."""
    done = run(container.by_buildah("podwright", "demo", "--plain"), timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    print(done.stdout[-1500:])
