"""Records docs/first-policy.svg, the recording in the README: `make recording`.

Runs the commands of `STEPS` on a real control plane with an operator, and shows each with what it printed. Nothing of
it is written by hand, so names of pods and times differ a little each time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from podwright.testing import ControlPlane, node, wait_until
from podwright.testing.control_plane import DEFAULT_CONTROLLERS
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit

SECONDS: Final = 20
COLUMNS: Final = 120
ROWS: Final = 30
FILES: Final = {
    "web.yaml": """\
apiVersion: podwright.dev/v1alpha1
kind: SchedulerPolicy
metadata: {name: web}
spec:
  match: {podSelector: {matchLabels: {app: web}}}
  rules:
    filters:
    - {name: zone, expression: 'node.labels["zone"] == "a"', message: node(s) were in another zone}
""",
    "shop.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: podwright
      containers:
      - {name: main, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: "1", memory: 1Gi}}}
""",
    "trainer.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: trainer}
spec:
  schedulerName: podwright
  containers:
  - {name: main, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: "10", memory: 1Gi}}}
""",
}
_PLACES: Final = (
    "kubectl get pods --sort-by=.metadata.creationTimestamp -o custom-columns=POD:.metadata.name,NODE:.spec.nodeName"
)
STEPS: Final = (
    ("cat web.yaml", 2.5, 0),
    ("kubectl apply -f web.yaml", 1, 0),
    ("kubectl apply -f shop.yaml", 1, 3),
    (_PLACES, 3, 3),
    ('sed -i \'s/"a"/"b"/\' web.yaml && kubectl apply -f web.yaml', 2, 3),
    ("kubectl scale deployment web --replicas=6", 1, 6),
    (_PLACES, 3, 6),
    ("kubectl apply -f trainer.yaml", 1.5, 6),
    ("podwright explain pod/trainer", 5, 6),
)
"""Each command, for how many seconds its end stays, and how many pods of the Deployment are then bound."""


def record(cluster: ControlPlane, folder: Path) -> list[tuple[str, str, float]]:
    """Runs the commands in the folder. Returns each command with its output and its seconds."""
    cluster.bulk.create(
        [node(f"node-{zone}{number}", cpu="8", labels={"zone": zone}) for zone in "ab" for number in (1, 2)]
    )
    cluster.apply(kit.CHECKOUT / "crds")
    kit.wait_listed(cluster, "schedulerpolicies")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    kubectl = Path(cluster.binaries.path("kubectl")).parent
    environ = {
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": f"{kubectl}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": str(COLUMNS),
    }
    port = free_port()
    command = [sys.executable, "-m", "podwright", "run", f"--health-address=127.0.0.1:{port}"]
    operator = kit.Operator(cluster.start_process("recorded", command, {"KUBECONFIG": str(cluster.kubeconfig)}), port)
    kit.wait_ready(operator)
    shown = []
    for text, seconds, bound in STEPS:
        done = subprocess.run(
            ["bash", "-euc", text], cwd=folder, env=environ, capture_output=True, text=True, timeout=240, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{text}\n{done.stdout}{done.stderr}")
        shown.append((text, done.stdout.rstrip("\n"), seconds))
        wait_until(lambda bound=bound: kit.bound(cluster, "default") >= bound, 60, f"{bound} pods are bound")
        if "web.yaml" in text and "apply" in text:
            generation = cluster.client.get(f"{kit.POLICIES}/web")["metadata"]["generation"]
            wait_until(lambda generation=generation: _accepted(cluster) == generation, 60, "the policy is accepted")
        if "trainer" in text:
            wait_until(lambda: _tried(cluster), 60, "the pod was tried")
    return shown


def _accepted(cluster: ControlPlane) -> int:
    condition = kit.condition(cluster.client.get(f"{kit.POLICIES}/web"), "Accepted")
    return int(condition.get("observedGeneration", 0)) if condition.get("status") == "True" else 0


def _tried(cluster: ControlPlane) -> bool:
    pod = cluster.client.get("/api/v1/namespaces/default/pods/trainer")
    return bool(kit.condition(pod, "PodScheduled").get("status") == "False")


def svg(steps: Sequence[tuple[str, str, float]]) -> str:
    """The recording as a picture that moves by itself: each frame is a group of lines, visible for its part of the
    time.
    """
    whole = sum(seconds for _, _, seconds in steps)
    lines: list[tuple[str, str]] = []
    frames, styles, begins = [], [], 0.0
    for number, (command, output, seconds) in enumerate(steps):
        lines += [("c", f"$ {command}"), *(("o", line) for line in output.split("\n")), ("o", "")]
        begin, end = (100 * each / whole for each in (begins, begins + seconds))
        begins += seconds
        hidden = "" if number == 0 else "0%{visibility:hidden}"
        rest = "" if number == len(steps) - 1 else f"{end:.2f}%{{visibility:hidden}}"
        styles.append(f"@keyframes k{number}{{{hidden}{begin:.2f}%{{visibility:visible}}{rest}}}")
        styles.append(f".f{number}{{visibility:hidden;animation:k{number} {SECONDS}s step-end infinite}}")
        wrapped = [(kind, part) for kind, line in lines for part in _wrapped(line)][-ROWS:]
        texts = "".join(
            f'<text class="{kind}" x="16" y="{44 + 20 * row}">{escape(line)}</text>'
            for row, (kind, line) in enumerate(wrapped)
            if line
        )
        frames.append(f'<g class="f{number}">{texts}</g>')
    width, height = 32 + round(COLUMNS * 8.43), 40 + 20 * ROWS
    still = f"@media (prefers-reduced-motion:reduce){{g{{animation:none!important}}.f{len(steps) - 1}{{visibility:visible}}}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">\n'
        f"<style>text{{font:14px DejaVu Sans Mono,Menlo,Consolas,monospace;white-space:pre;fill:#c5c8c6}}.c{{fill:#98a84b;font-weight:bold}}\n"
        + "\n".join([*styles, still])
        + f'</style>\n<rect width="{width}" height="{height}" rx="8" fill="#292929"/>\n'
        + "\n".join(frames)
        + "\n</svg>\n"
    )


def _wrapped(line: str) -> list[str]:
    return re.findall(f".{{1,{COLUMNS}}}", line) or [""]


def main(file: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, ControlPlane() as cluster:
        cluster.start_controller_manager(DEFAULT_CONTROLLERS)
        file.write_text(svg(record(cluster, Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
