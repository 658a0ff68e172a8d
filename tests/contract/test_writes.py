"""Create, replace, patch and delete, and their effects on metadata."""

import re

import pytest

from .conftest import JSON_PATCH, MERGE, STRATEGIC


class TestCreate:
    async def test_the_server_completes_the_metadata(self, api):
        answer = await api("POST", "~configmaps", {"metadata": {"name": "a"}, "data": {"x": "1"}})
        metadata = answer.body["metadata"]
        assert answer.status == 201
        assert (answer.body["kind"], answer.body["apiVersion"]) == ("ConfigMap", "v1")
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
        assert metadata["resourceVersion"].isdigit()
        assert metadata["namespace"] == api.namespace

    async def test_a_duplicate_name_already_exists(self, api):
        await api.config("a")
        answer = await api("POST", "~configmaps", {"metadata": {"name": "a"}})
        assert (answer.status, answer.reason) == (409, "AlreadyExists")
        assert answer.message == 'configmaps "a" already exists'

    async def test_names_are_generated(self, api):
        created = [await api.ok("POST", "~configmaps", {"metadata": {"generateName": "a-"}}) for _ in range(3)]
        names = {item["metadata"]["name"] for item in created}
        assert len(names) == 3
        assert all(re.fullmatch(r"a-[a-z0-9]{5}", name) for name in names)
        assert created[0]["metadata"]["generateName"] == "a-"

    @pytest.mark.parametrize(
        "metadata",
        [
            pytest.param({}, id="no name"),
            pytest.param({"name": "Upper"}, id="upper case"),
            pytest.param({"name": "-a"}, id="starts with a hyphen"),
            pytest.param({"name": "a..b"}, id="an empty part between dots"),
            pytest.param({"name": "a" * 254}, id="too long"),
        ],
    )
    async def test_a_bad_name_is_invalid(self, api, metadata):
        answer = await api("POST", "~configmaps", {"metadata": metadata})
        assert (answer.status, answer.reason) == (422, "Invalid")
        assert "metadata.name" in answer.message or "name or generateName is required" in answer.message

    async def test_another_namespace_in_the_body_is_rejected(self, api):
        answer = await api("POST", "~configmaps", {"metadata": {"name": "a", "namespace": "default"}})
        assert (answer.status, answer.reason) == (400, "BadRequest")
        assert "the namespace of the provided object does not match the namespace sent on the request" in answer.message

    async def test_a_missing_namespace_is_not_found(self, api):
        answer = await api("POST", "/api/v1/namespaces/no-such-namespace/configmaps", {"metadata": {"name": "a"}})
        assert (answer.status, answer.message) == (404, 'namespaces "no-such-namespace" not found')

    async def test_another_kind_in_the_body_is_rejected(self, api):
        answer = await api("POST", "~configmaps", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})
        assert (answer.status, answer.reason) == (400, "BadRequest")

    @pytest.mark.parametrize("body", [b"{", b"[]", b"nonsense"])
    async def test_a_body_that_is_not_an_object_is_rejected(self, api, body):
        assert (await api("POST", "~configmaps", body)).status == 400

    async def test_a_dry_run_stores_nothing(self, api):
        answer = await api("POST", "~configmaps", {"metadata": {"name": "a"}}, dryRun="All")
        assert answer.status == 201
        assert (await api("GET", "~configmaps/a")).status == 404


class TestReplace:
    async def test_a_stale_revision_conflicts(self, api):
        first = await api.config("a", x="1")
        second = await api.ok("PUT", "~configmaps/a", first | {"data": {"x": "2"}})
        assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
        answer = await api("PUT", "~configmaps/a", first | {"data": {"x": "3"}})
        assert (answer.status, answer.reason) == (409, "Conflict")
        assert answer.message == (
            'Operation cannot be fulfilled on configmaps "a": the object has been modified;'
            " please apply your changes to the latest version and try again"
        )
        assert (await api.ok("GET", "~configmaps/a"))["data"] == {"x": "2"}

    async def test_built_in_kinds_are_replaced_without_a_resource_version(self, api):
        first = await api.config("a", x="1")
        second = await api.ok("PUT", "~configmaps/a", {"metadata": {"name": "a"}, "data": {"x": "2"}})
        assert second["data"] == {"x": "2"}
        assert second["metadata"]["uid"] == first["metadata"]["uid"]
        assert second["metadata"]["creationTimestamp"] == first["metadata"]["creationTimestamp"]

    async def test_another_uid_conflicts(self, api):
        first = await api.config("a")
        first["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
        answer = await api("PUT", "~configmaps/a", first)
        assert (answer.status, answer.reason) == (409, "Conflict")

    async def test_a_missing_object_is_not_found(self, api):
        answer = await api("PUT", "~configmaps/a", {"metadata": {"name": "a"}})
        assert (answer.status, answer.message) == (404, 'configmaps "a" not found')

    async def test_another_name_in_the_body_is_rejected(self, api):
        await api.config("a")
        assert (await api("PUT", "~configmaps/a", {"metadata": {"name": "b"}})).status == 400

    async def test_a_replacement_without_changes_creates_no_revision(self, api):
        first = await api.config("a", x="1")
        second = await api.ok("PUT", "~configmaps/a", first)
        assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


class TestPatch:
    async def test_a_merge_patch_sets_and_removes(self, api):
        await api.config("a", x="1", y="2")
        patched = await api.ok("PATCH", "~configmaps/a", {"data": {"x": None, "z": "3"}}, MERGE)
        assert patched["data"] == {"y": "2", "z": "3"}

    async def test_a_merge_patch_replaces_lists(self, api):
        pod = await api.pod("a", tolerations=[{"key": "x", "operator": "Exists"}])
        more = [*pod["spec"]["tolerations"], {"key": "y", "operator": "Exists"}]
        patched = await api.ok("PATCH", "~pods/a", {"spec": {"tolerations": more}}, MERGE)
        assert patched["spec"]["tolerations"] == more

    async def test_a_patch_with_a_stale_revision_conflicts(self, api):
        first = await api.config("a")
        await api.ok("PATCH", "~configmaps/a", {"data": {"x": "1"}}, MERGE)
        stale = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"x": "2"}}
        answer = await api("PATCH", "~configmaps/a", stale, MERGE)
        assert (answer.status, answer.reason) == (409, "Conflict")

    async def test_a_patch_without_changes_creates_no_revision(self, api):
        first = await api.config("a", x="1")
        second = await api.ok("PATCH", "~configmaps/a", {"data": {"x": "1"}}, MERGE)
        assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    async def test_a_patch_of_a_missing_object_is_not_found(self, api):
        assert (await api("PATCH", "~configmaps/a", {"data": {}}, MERGE)).status == 404

    @pytest.mark.parametrize(
        "operations, data",
        [
            pytest.param([{"op": "add", "path": "/data/z", "value": "3"}], {"x": "1", "a/b": "2", "z": "3"}, id="add"),
            pytest.param([{"op": "replace", "path": "/data/x", "value": "9"}], {"x": "9", "a/b": "2"}, id="replace"),
            pytest.param([{"op": "remove", "path": "/data/a~1b"}], {"x": "1"}, id="remove, with an escaped slash"),
            pytest.param(
                [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "remove", "path": "/data/x"}],
                {"a/b": "2"},
                id="a test that passes",
            ),
            pytest.param(
                [{"op": "copy", "from": "/data/x", "path": "/data/y"}], {"x": "1", "a/b": "2", "y": "1"}, id="copy"
            ),
            pytest.param([{"op": "move", "from": "/data/x", "path": "/data/y"}], {"a/b": "2", "y": "1"}, id="move"),
        ],
    )
    async def test_a_json_patch_is_applied_in_order(self, api, operations, data):
        # A Node: its annotations take any key, a ConfigMap's data does not.
        name = f"node-{api.namespace}"
        prefixed = {"x": "1", "a/b": "2"}
        await api.ok("POST", "/api/v1/nodes", {"metadata": {"name": name, "annotations": prefixed}})
        for operation in operations:
            for field in ("path", "from"):
                if field in operation:
                    operation[field] = operation[field].replace("/data", "/metadata/annotations")
        patched = await api.ok("PATCH", f"/api/v1/nodes/{name}", operations, JSON_PATCH)
        await api.ok("DELETE", f"/api/v1/nodes/{name}")
        assert patched["metadata"]["annotations"] == data

    @pytest.mark.parametrize(
        "operation",
        [
            pytest.param({"op": "test", "path": "/data/x", "value": "2"}, id="a test that fails"),
            pytest.param({"op": "remove", "path": "/data/missing"}, id="remove a missing value"),
            pytest.param({"op": "add", "path": "/missing/x", "value": "1"}, id="add to a missing object"),
        ],
    )
    async def test_a_json_patch_that_cannot_be_applied_is_invalid(self, api, operation):
        await api.config("a", x="1")
        answer = await api("PATCH", "~configmaps/a", [operation], JSON_PATCH)
        assert (answer.status, answer.reason) == (422, "Invalid")

    async def test_a_json_patch_inserts_into_lists(self, api):
        await api.pod("a", tolerations=[{"key": "x", "operator": "Exists"}])
        toleration = {"key": "y", "operator": "Exists"}
        patched = await api.ok(
            "PATCH", "~pods/a", [{"op": "add", "path": "/spec/tolerations/-", "value": toleration}], JSON_PATCH
        )
        assert patched["spec"]["tolerations"][-1] == toleration

    async def test_a_strategic_patch_merges_containers_by_name(self, api):
        containers = [{"name": "a", "image": "old"}, {"name": "b", "image": "b"}]
        await api.pod("p", containers=containers)
        patch = {"spec": {"containers": [{"name": "a", "image": "new"}]}}
        patched = await api.ok("PATCH", "~pods/p", patch, STRATEGIC)
        assert [(item["name"], item["image"]) for item in patched["spec"]["containers"]] == [("a", "new"), ("b", "b")]

    async def test_a_strategic_patch_merges_conditions_by_type(self, api):
        await api.pod("p")
        path = "~pods/p/status"
        for kind, status in (("PodScheduled", "False"), ("Other", "True"), ("PodScheduled", "True")):
            await api.ok("PATCH", path, {"status": {"conditions": [{"type": kind, "status": status}]}}, STRATEGIC)
        conditions = (await api.ok("GET", "~pods/p"))["status"]["conditions"]
        assert {item["type"]: item["status"] for item in conditions} == {"PodScheduled": "True", "Other": "True"}

    async def test_a_strategic_patch_deletes_an_item_of_a_merged_list(self, api):
        deployment = {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b"}]},
            },
        }
        await api.ok("POST", "~apps/v1:deployments", {"metadata": {"name": "d"}, "spec": deployment})
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}}}
        patched = await api.ok("PATCH", "~apps/v1:deployments/d", patch, STRATEGIC)
        assert [item["name"] for item in patched["spec"]["template"]["spec"]["containers"]] == ["b"]
        assert patched["metadata"]["generation"] == 2

    async def test_a_strategic_patch_sorts_by_the_given_order(self, api):
        spec = {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b"}]},
            },
        }
        await api.ok("POST", "~apps/v1:deployments", {"metadata": {"name": "d"}, "spec": spec})
        inner = {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
            "containers": [{"name": "c", "image": "c"}],
        }
        patch = {"spec": {"template": {"spec": inner}}}
        patched = await api.ok("PATCH", "~apps/v1:deployments/d", patch, STRATEGIC)
        assert [item["name"] for item in patched["spec"]["template"]["spec"]["containers"]] == ["c", "b", "a"]

    async def test_a_strategic_patch_replaces_lists_without_a_merge_key(self, api):
        name = f"node-{api.namespace}"
        taint = {"key": "x", "effect": "NoSchedule"}
        await api.ok("POST", "/api/v1/nodes", {"metadata": {"name": name}, "spec": {"taints": [taint]}})
        other = [{"key": "y", "effect": "NoSchedule"}]
        patched = await api.ok("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": other}}, STRATEGIC)
        await api.ok("DELETE", f"/api/v1/nodes/{name}")
        assert patched["spec"]["taints"] == other

    async def test_a_strategic_patch_merges_a_services_ports_by_port(self, api):
        ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
        await api.ok("POST", "~services", {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": ports}})
        patch = {"spec": {"ports": [{"port": 81, "targetPort": 8081}]}}
        patched = await api.ok("PATCH", "~services/s", patch, STRATEGIC)
        assert [port["targetPort"] for port in patched["spec"]["ports"] if port["port"] == 81] == [8081]
        assert len(patched["spec"]["ports"]) == 2

    async def test_an_unknown_patch_type_is_rejected(self, api):
        await api.config("a")
        answer = await api("PATCH", "~configmaps/a", {}, "application/x-other-patch+json")
        assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


class TestDelete:
    async def test_a_deleted_object_is_gone(self, api):
        created = await api.config("a")
        answer = await api("DELETE", "~configmaps/a")
        assert (answer.status, answer.body["status"]) == (200, "Success")
        assert answer.body["details"] == {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}
        again = await api("DELETE", "~configmaps/a")
        assert (again.status, again.reason) == (404, "NotFound")

    async def test_an_unmet_precondition_conflicts(self, api):
        await api.config("a")
        options = {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}}
        answer = await api("DELETE", "~configmaps/a", options)
        assert (answer.status, answer.reason) == (409, "Conflict")
        assert (await api("GET", "~configmaps/a")).status == 200

    async def test_an_object_with_a_finalizer_stays_until_it_is_removed(self, api):
        await api.ok("POST", "~configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}})
        revision = await api.revision("~configmaps")
        async with api.watch("~configmaps", resourceVersion=revision) as watch:
            answer = await api("DELETE", "~configmaps/a")
            assert answer.status == 200
            assert answer.body["metadata"]["deletionTimestamp"]
            held = await api.ok("GET", "~configmaps/a")
            assert held["metadata"]["deletionGracePeriodSeconds"] == 0
            await api.ok("PATCH", "~configmaps/a", {"metadata": {"finalizers": None}}, MERGE)
            assert (await api("GET", "~configmaps/a")).status == 404
            assert await watch.types_and_names(2) == [("MODIFIED", "a"), ("DELETED", "a")]

    async def test_a_collection_is_deleted_by_selector(self, api):
        for name, labels in (("a", {"x": "1"}), ("b", {"x": "1"}), ("c", {})):
            await api.ok("POST", "~configmaps", {"metadata": {"name": name, "labels": labels}})
        assert (await api("DELETE", "~configmaps", labelSelector="x=1")).status == 200
        assert (await api("GET", "~configmaps")).names == ["c"]
        await api.ok("DELETE", "~configmaps")
        assert (await api("GET", "~configmaps")).names == []


class TestPaths:
    @pytest.mark.parametrize(
        "path", ["/api/v1/unheard", "/apis/apps/v2/deployments", "/apis/unheard.dev/v1/things", "/unheard"]
    )
    async def test_an_unknown_path_is_not_found(self, api, path):
        assert (await api("GET", path)).status == 404

    async def test_an_unsupported_method_is_not_allowed(self, api):
        assert (await api("PUT", "~configmaps", {"metadata": {"name": "a"}})).status == 405

    @pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
    async def test_the_health_checks_succeed(self, api, path):
        answer = await api("GET", path)
        assert (answer.status, answer.body) == (200, "ok")
