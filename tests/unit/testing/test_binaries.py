"""The search for programs: its order, and which programs it rejects."""

import pytest

from podwright.testing import build
from podwright.testing.binaries import Binaries, BinariesMissingError
from podwright.testing.versions import Versions


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without any of the programs and without Go."""
    for variable in ("KUBEBUILDER_ASSETS", "KUBERNETES_VERSION", "ETCD_VERSION", "KWOK_VERSION"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PODWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.setattr(build, "go_command", lambda: None)
    monkeypatch.setattr("shutil.which", lambda name: _which(tmp_path / "path", name))
    return tmp_path


def _which(folder, name):
    return str(folder / name) if (folder / name).exists() else None


def install(path, output):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return path


def test_the_assets_folder_comes_first_at_any_version(machine, monkeypatch):
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    install(machine / "path" / "etcd", "etcd Version: 3.6.12")
    chosen = install(machine / "assets" / "etcd", "etcd Version: 3.5.0")
    assert Binaries().find("etcd") == chosen


@pytest.mark.parametrize(
    ("printed", "accepted"),
    [
        pytest.param("Kubernetes v1.35.4", True, id="of the chosen version"),
        pytest.param("Kubernetes v1.37.2", False, id="of another version"),
    ],
)
def test_a_chosen_version_rejects_other_versions_in_the_assets_folder(machine, monkeypatch, printed, accepted):
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    monkeypatch.setenv("KUBERNETES_VERSION", "1.35.4")
    asset = install(machine / "assets" / "kube-apiserver", printed)
    built = install(machine / "cache" / "kubernetes-1.35.4" / "kube-apiserver", "Kubernetes v1.35.4")
    assert Binaries().find("kube-apiserver") == (asset if accepted else built)
    etcd = install(machine / "assets" / "etcd", "etcd Version: 3.5.0")
    assert Binaries().find("etcd") == etcd


@pytest.mark.parametrize(
    "output, accepted",
    [
        pytest.param("Client Version: v1.37.2", True, id="the pinned version"),
        pytest.param("Client Version: v1.37.9", True, id="another patch of the pinned minor version"),
        pytest.param('Client Version: version.Info{Major:"1", GitVersion:"v1.20.2"}', False, id="an old version"),
        pytest.param("Client Version: v1.38.0", False, id="a newer minor version"),
        pytest.param("error: unknown flag", False, id="no version printed"),
    ],
)
def test_path_must_have_the_pinned_minor_version(machine, output, accepted):
    installed = install(machine / "path" / "kubectl", output)
    assert Binaries(Versions(kubernetes="1.37.2")).find("kubectl") == (installed if accepted else None)


def test_the_cache_is_searched_after_path(machine):
    cached = install(machine / "cache" / "kubernetes-1.37.2" / "kubectl", "Client Version: v1.37.2")
    install(machine / "path" / "kubectl", "Client Version: v1.20.0")
    assert Binaries(Versions(kubernetes="1.37.2")).find("kubectl") == cached


def test_each_version_has_its_own_cache_folder(machine, monkeypatch):
    install(machine / "cache" / "kubernetes-1.37.2" / "kubectl", "Client Version: v1.37.2")
    monkeypatch.setenv("KUBERNETES_VERSION", "v1.36.2")
    binaries = Binaries()
    assert binaries.versions.kubernetes == "1.36.2"
    assert binaries.find("kubectl") is None


def test_a_program_without_its_companion_files_is_ignored(machine):
    installed = install(machine / "cache" / "kwok-0.8.0" / "kwok", "kwok version v0.8.0")
    assert Binaries(Versions(kwok="0.8.0")).find("kwok") is None
    (installed.parent / "stages.yaml").touch()
    assert Binaries(Versions(kwok="0.8.0")).find("kwok") == installed


def test_the_error_without_program_and_go_is_one_line(machine):
    with pytest.raises(BinariesMissingError) as missing:
        Binaries().path("etcd")
    assert str(missing.value) == (
        f"etcd not found in KUBEBUILDER_ASSETS, PATH and {machine / 'cache'}, and there is no Go to build with"
    )


def test_a_failed_build_names_its_log_and_leaves_no_program(machine, monkeypatch):
    go = install(machine / "go", "the compiler complains")
    go.write_text(go.read_text() + "exit 1\n")
    monkeypatch.setattr(build, "go_command", lambda: str(go))
    reports = []
    with pytest.raises(build.BuildError, match=r"(?s)etcd\.build\.log.*the compiler complains"):
        Binaries(report=reports.append).path("etcd")
    assert "building with Go" in reports[0]
    assert Binaries().find("etcd") is None


def test_a_go_test_main_is_compiled_once_for_each_content(machine, monkeypatch):
    (machine / "upstream.mod").write_text("replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n")
    go = install(machine / "go", f'{{"GoMod": "{machine / "upstream.mod"}"}}')
    compile_it = f'test "$1 $2" = "test -c" || exit 0\necho . >> {machine / "compiled"}\n'
    go.write_text(go.read_text() + compile_it + 'while [ "$1" != -o ]; do shift; done\ncp some_test.go "$2"\n')
    monkeypatch.setattr(build, "go_command", lambda: str(go))
    main = machine / "some_test.go"

    main.write_text("package one")
    first = build.build_source(main, Versions(kubernetes="1.37.2"), lambda _: None)
    assert build.build_source(main, Versions(kubernetes="1.37.2"), lambda _: None) == first
    assert first.read_text() == "package one"
    module = machine / "cache" / "kubernetes-1.37.2" / "some_test" / "go.mod"
    assert "replace k8s.io/api => k8s.io/api v0.37.2" in module.read_text()

    main.write_text("package two")
    second = build.build_source(main, Versions(kubernetes="1.37.2"), lambda _: None)
    assert (first.read_text(), second.read_text()) == ("package one", "package two")
    assert (machine / "compiled").read_text().split() == [".", "."]


def test_a_folder_is_built_from_the_files_that_it_has(machine, monkeypatch):
    (machine / "upstream.mod").write_text("")
    go = install(machine / "go", f'{{"GoMod": "{machine / "upstream.mod"}"}}')
    go.write_text(
        go.read_text() + 'test "$1" = build || exit 0\nwhile [ "$1" != -o ]; do shift; done\ncat *.go > "$2"\n'
    )
    monkeypatch.setattr(build, "go_command", lambda: str(go))
    folder = machine / "oracle"
    folder.mkdir()
    (folder / "a.go").write_text("package a\n")
    (folder / "b.go").write_text("package b\n")
    first = build.build_source(folder, Versions(), lambda _: None)
    (folder / "a.go").unlink()
    second = build.build_source(folder, Versions(), lambda _: None)
    assert (first.read_text(), second.read_text()) == ("package a\npackage b\n", "package b\n")
