"""CustomResourceDefinitions: registration, schemas, defaults, status."""

import uuid

import pytest

from .conftest import MERGE, STRATEGIC

SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["mode"],
            "properties": {
                "mode": {"type": "string", "enum": ["fast", "slow"]},
                "size": {"type": "integer", "minimum": 1, "default": 3},
                "limit": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "rules": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string", "pattern": "^[a-z]+$"},
                            "weight": {"type": "integer", "default": 1},
                        },
                    },
                },
            },
        },
        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
    },
}


def definition(group, **version):
    columns = [
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    base = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    base |= {"subresources": {"status": {}}, "additionalPrinterColumns": columns}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [base | version],
        },
    }


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
async def widgets(api):
    """The path of the collection of a newly registered kind."""
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    await api.ok("POST", CRDS, definition(group))
    path = f"/apis/{group}/v1/widgets"
    await api.until(200, "GET", path)
    yield path
    await api.ok("DELETE", f"{CRDS}/widgets.{group}")


def widget(path, name="w", **spec):
    return {
        "apiVersion": path.removeprefix("/apis/").removesuffix("/widgets"),
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"mode": "fast", **spec},
    }


async def test_a_crd_registers_its_kind(api, widgets):
    group = widgets.split("/")[2]
    crd = await api.ok("GET", f"{CRDS}/widgets.{group}")
    conditions = {item["type"]: item["status"] for item in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert crd["status"]["storedVersions"] == ["v1"]
    assert crd["status"]["acceptedNames"]["listKind"] == "WidgetList"
    served = await api.until(200, "GET", f"/apis/{group}/v1")
    found = {item["name"]: item for item in served.body["resources"]}
    assert set(found) == {"widgets", "widgets/status"}
    assert found["widgets"]["shortNames"] == ["wd"]
    assert found["widgets"]["namespaced"] is False
    await api.until(200, "GET", "/apis", holds=lambda body: group in [each["name"] for each in body["groups"]])


async def test_items_of_a_list_have_kind_and_api_version(api, widgets):
    await api.ok("POST", widgets, widget(widgets))
    body = await api.ok("GET", widgets)
    assert body["kind"] == "WidgetList"
    assert body["items"][0]["kind"] == "Widget"


async def test_defaults_are_set_also_inside_lists(api, widgets):
    created = await api.ok("POST", widgets, widget(widgets, rules=[{"name": "a"}]))
    assert created["spec"] == {"mode": "fast", "size": 3, "rules": [{"name": "a", "weight": 1}]}
    assert created["metadata"]["generation"] == 1


async def test_unknown_fields_are_dropped_unless_the_schema_preserves_them(api, widgets):
    created = await api.ok("POST", widgets, widget(widgets, free={"any": [1]}, labels={"a": "b"}, junk=1) | {"junk": 1})
    assert created["spec"] == {"mode": "fast", "size": 3, "free": {"any": [1]}, "labels": {"a": "b"}}
    assert "junk" not in created


async def test_strict_validation_rejects_unknown_fields(api, widgets):
    answer = await api("POST", widgets, widget(widgets, junk=1), fieldValidation="Strict")
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert 'unknown field "spec.junk"' in answer.message


@pytest.mark.parametrize(
    "spec, message",
    [
        pytest.param(
            {"mode": "odd"}, 'spec.mode: Unsupported value: "odd": supported values: "fast", "slow"', id="enum"
        ),
        pytest.param(
            {"size": 0},
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            id="minimum",
        ),
        pytest.param(
            {"size": "big"},
            'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
            id="type",
        ),
        pytest.param(
            {"rules": [{"weight": 1}]},
            "spec.rules[0].name: Required value",
            id="a missing required field inside a list",
        ),
        pytest.param({"rules": [{"name": "A1"}]}, 'spec.rules[0].name: Invalid value: "A1"', id="pattern"),
        pytest.param({"labels": {"a": 1}}, "spec.labels.a: Invalid value", id="a value of a map"),
    ],
)
async def test_the_error_names_the_field_that_violates_the_schema(api, widgets, spec, message):
    answer = await api("POST", widgets, widget(widgets, **spec))
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert message in answer.message
    assert f'Widget.{widgets.split("/")[2]} "w" is invalid' in answer.message


async def test_int_or_string_allows_both_types(api, widgets):
    for name, limit in (("a", 1), ("b", "50%")):
        assert (await api("POST", widgets, widget(widgets, name, limit=limit))).status == 201
    assert (await api("POST", widgets, widget(widgets, "c", limit=[]))).status == 422


async def test_an_update_is_validated(api, widgets):
    await api.ok("POST", widgets, widget(widgets))
    answer = await api("PATCH", f"{widgets}/w", {"spec": {"mode": None}}, MERGE)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert "spec.mode: Required value" in answer.message


async def test_the_generation_counts_spec_changes_but_not_labels(api, widgets):
    await api.ok("POST", widgets, widget(widgets))
    labelled = await api.ok("PATCH", f"{widgets}/w", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert labelled["metadata"]["generation"] == 1
    changed = await api.ok("PATCH", f"{widgets}/w", {"spec": {"size": 5}}, MERGE)
    assert changed["metadata"]["generation"] == 2


async def test_the_status_subresource_writes_only_the_status(api, widgets):
    await api.ok("POST", widgets, widget(widgets) | {"status": {"seen": 9}})
    assert "status" not in await api.ok("GET", f"{widgets}/w")
    patch = {"spec": {"size": 9}, "status": {"seen": 1}}
    updated = await api.ok("PATCH", f"{widgets}/w/status", patch, MERGE)
    assert (updated["spec"]["size"], updated["status"], updated["metadata"]["generation"]) == (3, {"seen": 1}, 1)
    updated = await api.ok("PATCH", f"{widgets}/w", {"status": {"seen": 2}}, MERGE)
    assert updated["status"] == {"seen": 1}


async def test_a_replacement_requires_the_resource_version(api, widgets):
    created = await api.ok("POST", widgets, widget(widgets))
    assert (await api("PUT", f"{widgets}/w", widget(widgets))).status == 422
    changed = await api.ok("PUT", f"{widgets}/w", created | {"spec": {"mode": "slow"}})
    assert changed["spec"] == {"mode": "slow", "size": 3}
    assert (await api("PUT", f"{widgets}/w", created)).status == 409


async def test_custom_kinds_do_not_support_strategic_merge_patches(api, widgets):
    await api.ok("POST", widgets, widget(widgets))
    assert (await api("PATCH", f"{widgets}/w", {"spec": {"size": 5}}, STRATEGIC)).status == 415


async def test_deleting_a_crd_deletes_its_objects(api):
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    path = f"/apis/{group}/v1/widgets"
    for _ in range(2):
        await api.ok("POST", CRDS, definition(group))
        assert (await api.until(200, "GET", path)).names == []
        await api.until(201, "POST", path, widget(path))
        await api.ok("DELETE", f"{CRDS}/widgets.{group}")
        await api.until(404, "GET", f"{CRDS}/widgets.{group}")
        await api.until(404, "GET", path)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {"name": "other.example.com"}}, id="a name other than plural and group"),
        pytest.param(
            {"spec": {"group": "x.example.com", "scope": "Cluster", "names": {}, "versions": []}}, id="no names"
        ),
    ],
)
async def test_a_malformed_crd_is_invalid(api, change):
    answer = await api("POST", CRDS, definition("x.example.com") | change)
    assert (answer.status, answer.reason) == (422, "Invalid")


async def test_a_changed_schema_takes_effect(api, widgets):
    group = widgets.split("/")[2]
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/mode/enum/-"
    how = "application/json-patch+json"
    await api.ok("PATCH", f"{CRDS}/widgets.{group}", [{"op": "add", "path": path, "value": "odd"}], how)
    await api.until(201, "POST", widgets, widget(widgets, mode="odd"))


async def test_a_watch_from_a_revision_before_the_crd_has_expired(api, widgets):
    async with api.watch(widgets, resourceVersion="1") as watch:
        event, status = await watch.next()
        assert (event, status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 410, "Expired")
        assert status["message"].startswith("too old resource version: 1 (")
        assert await watch.rest() == []
