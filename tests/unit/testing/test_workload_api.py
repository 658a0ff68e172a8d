"""Which versions of Kubernetes serve PodGroups in the test control plane."""

import pytest

from podwright.kube.kinds import POD_GROUPS
from podwright.testing import ControlPlaneOptions, workload_api
from podwright.testing.versions import RELEASES


@pytest.mark.parametrize(
    ("minor", "version"),
    [
        (34, None),
        (35, None),
        (36, "scheduling.k8s.io/v1alpha2"),
        (37, "scheduling.k8s.io/v1beta1"),
        (38, "scheduling.k8s.io/v1beta1"),
    ],
)
def test_the_workload_api_of_each_minor_version(minor, version):
    api = workload_api(minor)
    assert (api and api.version) == version


def test_podwright_knows_each_version():
    apis = [workload_api(int(release.split(".")[1])) for release in RELEASES]
    known = {f"{resource.group}/{resource.version}" for resource in POD_GROUPS}
    assert {api.version for api in apis if api} <= known
    for api in filter(None, apis):
        assert ControlPlaneOptions(**api.options).runtime_config == {api.version: True}
