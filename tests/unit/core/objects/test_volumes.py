"""Parsing of volume objects."""

import pytest

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.volumes import parse_claim, parse_storage_capacity, parse_storage_class, parse_volume
from support.plugins.volumes import BETA_ZONE, ZONE, make_capacity, make_claim, make_class, make_volume


@pytest.mark.parametrize(
    "parse, raw, message",
    [
        pytest.param(
            parse_volume,
            make_volume("pv", size="ten"),
            "PersistentVolume pv: spec.capacity[storage]: 'ten' is not a quantity",
            id="a volume's size",
        ),
        pytest.param(
            parse_volume,
            make_volume("pv", spec={"accessModes": "all"}),
            "PersistentVolume pv: spec.accessModes: expected a list, got a string",
            id="a volume's access modes",
        ),
        pytest.param(
            parse_claim,
            make_claim(spec={"selector": {"matchExpressions": [{"key": "a", "operator": "Sort"}]}}),
            "PersistentVolumeClaim default/claim: spec.selector.matchExpressions[0].operator: 'Sort' is not a valid operator",
            id="a claim's selector",
        ),
        pytest.param(
            parse_storage_class,
            make_class(allowedTopologies=["z1"]),
            "StorageClass std: allowedTopologies[0]: expected an object, got a string",
            id="a class's topologies",
        ),
        pytest.param(
            parse_storage_capacity,
            make_capacity(capacity="much"),
            "CSIStorageCapacity default/free: capacity: 'much' is not a quantity",
            id="a capacity",
        ),
    ],
)
def test_an_invalid_object_raises_an_error_with_the_object_and_field(parse, raw, message):
    with pytest.raises(InvalidObjectError) as caught:
        parse(raw)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "labels, zones",
    [
        pytest.param({}, [], id="no labels"),
        pytest.param({ZONE: "a"}, [(ZONE, {"a"})], id="a zone"),
        pytest.param({ZONE: "a__b"}, [(ZONE, {"a", "b"})], id="a set of zones"),
        pytest.param({ZONE: "a", BETA_ZONE: "b"}, [(BETA_ZONE, {"b"}), (ZONE, {"a"})], id="beta labels come first"),
        pytest.param({ZONE: "a__"}, [], id="an empty part"),
    ],
)
def test_zone_labels(labels, zones):
    assert parse_volume(make_volume(labels=labels)).zones == tuple((key, frozenset(found)) for key, found in zones)
