"""Configuration files get the same verdict from Podwright and from kube-scheduler itself."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from podwright.api.configuration.load import load_configuration
from podwright.core.framework.features import Features
from podwright.core.framework.profile import ProfileError, expand
from podwright.core.plugins import PLUGINS
from support.configuration.cases import HEADER, cases, combined

NULL_IN_A_LIST = ("profiles [null]", "extenders [null]")
"""Go reads a null in a list as an object without fields. Podwright says that an object is expected."""
COMBINED = int(os.environ.get("PODWRIGHT_CONFIGURATION_CASES") or 100)


@pytest.fixture
def verdict_of_kube_scheduler(binaries, tmp_path):
    """Whether kube-scheduler accepts a file: it writes its configuration, and exits, before it connects to a server."""
    program = binaries.path("kube-scheduler")

    def verdict(numbered):
        number, (_, text) = numbered
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        flags = ["--secure-port=0", "--master=http://127.0.0.1:1", f"--write-config-to={file}.out"]
        command = [program, f"--config={file}", *flags]
        return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode == 0

    return verdict


def _problem(text):
    try:
        load_configuration(text.encode()).profiles(PLUGINS, Features())
    except ProfileError as error:
        return str(error)
    return ""


def test_kube_scheduler_gives_the_same_verdicts(verdict_of_kube_scheduler):
    files = [case for case in cases() if case[0] not in NULL_IN_A_LIST]
    files += [case for case in combined(COMBINED, seed=1) if "[\n  null\n" not in case[1]]
    with ThreadPoolExecutor(2) as pool:
        accepted = list(pool.map(verdict_of_kube_scheduler, enumerate(files)))
    problems = [_problem(text) for _, text in files]
    different = {
        title: problem or "accepted, but kube-scheduler rejects it"
        for (title, _), verdict, problem in zip(files, accepted, problems, strict=True)
        if verdict is bool(problem)
    }
    assert different == {}
    assert len(files) > 300
    assert 100 < sum(accepted) < len(files) - 100


RICH = f"""{HEADER}
leaderElection: {{renewDeadline: 12s}}
podMaxBackoffSeconds: 20
profiles:
- schedulerName: first
  plugins:
    multiPoint: {{disabled: [{{name: ImageLocality}}], enabled: [{{name: NodeAffinity, weight: 7}}]}}
    score: {{disabled: [{{name: "*"}}], enabled: [{{name: NodeResourcesFit, weight: 3}}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: MostAllocated, resources: [{{name: cpu, weight: 1}}]}}}}
- schedulerName: second
"""


@pytest.mark.parametrize("text", [HEADER, RICH], ids=["the smallest file", "a rich file"])
def test_each_takes_the_configuration_that_the_other_writes(binaries, tmp_path, text):
    given, ours, theirs, again = (tmp_path / name for name in ("given.yaml", "ours.yaml", "theirs.yaml", "again.yaml"))
    given.write_text(text)
    program = [binaries.path("kube-scheduler"), "--secure-port=0", "--master=http://127.0.0.1:1"]
    podwright = [sys.executable, "-m", "podwright", "kube-scheduler"]
    for command, source, target in (
        (podwright, given, ours),
        (program, given, theirs),
        (program, ours, again),
    ):
        subprocess.run([*command, f"--config={source}", f"--write-config-to={target}"], check=True, timeout=60)
    read = yaml.safe_load(again.read_text())
    for profile in read["profiles"]:
        # kube-scheduler has this default plugin only with a feature gate.
        profile["plugins"]["multiPoint"]["enabled"].remove({"name": "GangScheduling", "weight": 0})
    assert read == yaml.safe_load(theirs.read_text()), "kube-scheduler reads ours alike"
    subprocess.run([*podwright, f"--config={theirs}", f"--write-config-to={again}"], check=True, timeout=60)
    profiles = [load_configuration(file.read_bytes()).profiles(PLUGINS, Features()) for file in (given, again)]
    assert [points(each) for each in profiles[1]] == [points(each) for each in profiles[0]], "and we read theirs alike"


def points(profile):
    """The plugins at each extension point, with their weights."""
    return expand(profile.plugins, PLUGINS)
