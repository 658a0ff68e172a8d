"""`--extenders`: a file that defines extenders by name."""

import pytest

from podwright.kube.options.options import OPTIONS, Options
from podwright.kube.options.values import OptionsError


def test_extenders_are_read_from_a_file(tmp_path):
    path = tmp_path / "extenders.yaml"
    path.write_text("extenders: [{name: gpus, urlPrefix: 'http://gpus.example', filterVerb: filter, attempts: 1}]\n")
    (option,) = (each for each in OPTIONS if each.name == "extenders")
    extenders = Options(extenders=option.parse(str(path))).policies.extenders
    assert {name: each.settings.url_prefix for name, each in extenders.items()} == {"gpus": "http://gpus.example"}
    assert extenders["gpus"].attempts == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("{urlPrefix: 'http://a'}", "extenders[0].name: Required value", id="no name"),
        pytest.param("{name: a, weight: x}", "extenders[0].weight: expected a whole number", id="a wrong type"),
        pytest.param("{name: a, attempts: 0}", "extenders[0].attempts: 0 is less than 1", id="no attempts"),
        pytest.param(
            "{name: a}, {name: a}", 'extenders[0].name: Duplicate value: "a"', id="a name that is given twice"
        ),
        pytest.param(
            "{name: a}, {name: b, prioritizeVerb: p}",
            "extenders[1].weight: Invalid value: 0",
            id="scores without a weight",
        ),
    ],
)
def test_an_invalid_file_of_extenders_is_refused_with_its_field(tmp_path, text, problem):
    path = tmp_path / "extenders.yaml"
    path.write_text(f"extenders: [{text}]\n")
    (option,) = (each for each in OPTIONS if each.name == "extenders")
    with pytest.raises(OptionsError) as caught:
        option.parse(str(path))
    assert problem in str(caught.value)
