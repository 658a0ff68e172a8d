"""Configuration files get the same verdict from Podwright and from kube-scheduler itself."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from podwright.api.configuration.load import load_configuration
from podwright.cli.processes.written_configuration import write_configuration
from podwright.core.framework.features import Features
from podwright.core.framework.profile import ProfileError, expand
from podwright.core.plugins import PLUGINS
from podwright.kube.options.options import Options
from support.configuration.cases import HEADER, cases, combined
from support.properties import case_count

DOCUMENTED = (
    "profiles [null]",
    "extenders [null]",
    "a negative weight",
    "a disabled plugin without a name",
    "60 levels",
)
"""The files that docs/configuration.md names, which only kube-scheduler accepts."""
FAILS_AT_THE_START = ('"retryPeriod": "20s"', '"urlPrefix": ""', '"extenders": [\n  {}\n')
"""Settings that kube-scheduler accepts, but does not start with, or never reaches."""
WITH_ARGS = {name for name, plugin in PLUGINS.items() if plugin.args_type is not None}
COMBINED = case_count("PODWRIGHT_CONFIGURATION_CASES", 100)


@pytest.fixture(scope="module")
def answers(binaries, tmp_path_factory):
    """Each file with the configuration that kube-scheduler makes of it, None if it rejects it. It writes it before it
    connects to a server.
    """
    program, folder = binaries.path("kube-scheduler"), tmp_path_factory.mktemp("answers")

    def answer(numbered):
        number, (title, text) = numbered
        file, written = folder / f"{number}.yaml", folder / f"{number}.out"
        file.write_text(text)
        flags = ["--secure-port=0", "--master=http://127.0.0.1:1", f"--write-config-to={written}"]
        done = subprocess.run([program, f"--config={file}", *flags], check=False, capture_output=True, timeout=60)
        return title, text, yaml.safe_load(written.read_text()) if done.returncode == 0 else None

    files = [case for case in cases() if case[0] not in DOCUMENTED]
    files += [case for case in combined(COMBINED, seed=1) if "[\n  null\n" not in case[1]]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(answer, enumerate(files)))


def _problem(text):
    try:
        load_configuration(text.encode()).profiles(PLUGINS, Features())
    except ProfileError as error:
        return str(error)
    return ""


def test_kube_scheduler_gives_the_same_verdicts(answers):
    problems = [_problem(text) for _, text, _ in answers]
    different = {
        title: problem or "accepted, but kube-scheduler rejects it"
        for (title, _, written), problem in zip(answers, problems, strict=True)
        if (written is None) is not bool(problem)
    }
    assert different == {}
    assert len(answers) > 300
    assert 100 < sum(written is not None for _, _, written in answers) < len(answers) - 100


@pytest.mark.parametrize("title", DOCUMENTED)
def test_a_file_that_only_kube_scheduler_accepts_is_an_error(title):
    assert _problem(dict(cases())[title])


def test_both_write_the_same_configuration(answers, tmp_path):
    """All defaults included. Podwright leaves out the args that no plugin uses."""
    compared = 0
    for title, text, theirs in answers:
        if theirs is None or any(start in text for start in FAILS_AT_THE_START):
            continue
        options = Options(
            config=load_configuration(text.encode()), as_kube_scheduler=True, scheduler_name="default-scheduler"
        )
        write_configuration(options, tmp_path / "ours.yaml")
        for profile in theirs["profiles"]:
            profile["pluginConfig"] = [entry for entry in profile["pluginConfig"] if entry["name"] in WITH_ARGS]
        assert yaml.safe_load((tmp_path / "ours.yaml").read_text()) == theirs, title
        compared += 1
    assert compared > 100


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
    assert again.read_text() == theirs.read_text(), "kube-scheduler reads ours alike"
    subprocess.run([*podwright, f"--config={theirs}", f"--write-config-to={again}"], check=True, timeout=60)
    profiles = [load_configuration(file.read_bytes()).profiles(PLUGINS, Features()) for file in (given, again)]
    assert [points(each) for each in profiles[1]] == [points(each) for each in profiles[0]], "and we read theirs alike"


def points(profile):
    """The plugins at each extension point, with their weights."""
    return expand(profile.plugins, PLUGINS)
