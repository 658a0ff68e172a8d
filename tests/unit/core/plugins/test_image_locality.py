import gc
import tracemalloc

import pytest

from podwright.core.framework.interface import CycleState
from podwright.core.objects.node import parse_node
from podwright.core.plugins.image_locality import FEW_IMAGES, ImageLocality
from support.objects.builders import make_node
from support.plugins.kit import build, make_cache, pending, scores

MIB = 1024 * 1024


def image(name, mib, *more_names):
    return {"names": [name, *more_names], "sizeBytes": mib * MIB}


def running(*images, init=(), volumes=()):
    return pending(
        spec={
            "containers": [{"name": f"c{i}", "image": name} for i, name in enumerate(images)],
            "initContainers": [{"name": f"i{i}", "image": name} for i, name in enumerate(init)],
            "volumes": [{"name": f"v{i}", "image": {"reference": name}} for i, name in enumerate(volumes)],
        }
    )


@pytest.mark.parametrize(
    "sizes, pod, expected",
    [
        pytest.param([None, None], running("app"), [0, 0], id="an image that no node has"),
        pytest.param(
            [500, 500],
            running("app"),
            [48, 48],
            id="an image on every node counts with its full size: 100 (500-23) / 977",
        ),
        pytest.param([500, None], running("app"), [23, 0], id="an image on half of the nodes counts half"),
        pytest.param([22, 22], running("app"), [0, 0], id="less than 23 MiB scores 0"),
        pytest.param([5000, 5000], running("app"), [100, 100], id="1000 MiB score 100"),
        pytest.param([500, 500], running("app", "none"), [24, 24], id="the bounds grow with the number of images"),
        pytest.param([500, 500], running("none", init=["app"]), [24, 24], id="init containers count"),
        pytest.param(
            [500, 500],
            running("none", volumes=["app"]),
            [24, 24],
            id="image volumes count, also in the number of images",
        ),
        pytest.param([500, 500], running("app", "app"), [49, 49], id="an image counts each time it is used"),
        pytest.param([500, 500], running("app:latest"), [48, 48], id="the tag latest is the default"),
        pytest.param([500, 500], running("app:v1"), [0, 0], id="another tag is another image"),
    ],
)
def test_scores(sizes, pod, expected):
    nodes = [
        make_node(name, images=[] if mib is None else [image("app:latest", mib)])
        for name, mib in zip("ab", sizes, strict=True)
    ]
    plugin = build(ImageLocality, make_cache(nodes))
    assert scores(plugin, pod) == dict(zip("ab", expected, strict=True))


@pytest.mark.parametrize("count", [FEW_IMAGES - 1, FEW_IMAGES, FEW_IMAGES + 1, 40])
def test_many_images_score_like_few(count):
    names = [f"image-{number % 30}:v1" for number in range(count)]
    nodes = [
        make_node("a", images=[image(name, 100 + 10 * number) for number, name in enumerate(dict.fromkeys(names))]),
        make_node("b", images=[image(name, 900) for name in names[3:6]]),
        make_node("c"),
    ]
    plugin, pod = build(ImageLocality, make_cache(nodes)), running(*names, "none")
    state, infos = CycleState(), plugin.handle.cache.nodes
    assert scores(plugin, pod) == {name: plugin.score(state, pod, info) for name, info in infos.items()}
    assert len(set(scores(plugin, pod).values())) == 3


def test_a_pod_with_very_many_images_does_not_look_at_each_node_for_each_image(monkeypatch):
    names = [f"image-{number}:v1" for number in range(500)]
    cache = make_cache([make_node("a", images=[image(name, 100) for name in names])])
    asked = []
    monkeypatch.setattr(cache.derived, "get", lambda key, *_: asked.append(key))
    assert scores(build(ImageLocality, cache), running(*names)) == {"a": 9}
    assert asked == []


def test_the_size_of_an_image_comes_from_the_first_node_that_reported_it():
    cache = make_cache([make_node("a", images=[image("app:v1", 523)]), make_node("b", images=[image("app:v1", 1000)])])
    plugin = build(ImageLocality, cache)
    assert scores(plugin, running("app:v1")) == {"a": 51, "b": 51}
    cache.remove_node("a")
    assert scores(plugin, running("app:v1")) == {"b": 51}
    cache.set_node(parse_node(make_node("b", images=[image("app:v1", 1000)])))
    assert scores(plugin, running("app:v1")) == {"b": 100}


def test_images_that_no_pod_asks_for_take_little_more_memory_than_their_names():
    names = [f"registry.example/team/app-{number}:v1" for number in range(5_000)]
    cache = make_cache([make_node("a")])
    plugin = build(ImageLocality, cache)
    node = parse_node(
        make_node("b", images=[image(name, 1) for name in names])
    )  # before, for what the parser itself needs
    tracemalloc.start()
    node = parse_node(make_node("b", images=[image(name, 1000) for name in names]))
    cache.set_node(node)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < sum(map(len, names)) + 40 * len(names)
    assert scores(plugin, running("registry.example/team/app-9:v1")) == {"a": 0, "b": 48}


def test_scores_follow_images_that_are_added_and_removed():
    cache = make_cache([make_node("a"), make_node("b")])
    plugin = build(ImageLocality, cache)
    assert scores(plugin, running("app:v1")) == {"a": 0, "b": 0}
    cache.set_node(parse_node(make_node("b", images=[image("app@sha256:1", 1000, "app:v1")])))
    assert scores(plugin, running("app:v1")) == {"a": 0, "b": 48}
    cache.set_node(parse_node(make_node("c", images=[image("app:v1", 1000)])))
    assert scores(plugin, running("app:v1")) == {"a": 0, "b": 65, "c": 65}
    cache.remove_node("c")
    cache.set_node(parse_node(make_node("b")))
    assert scores(plugin, running("app:v1")) == {"a": 0, "b": 0}


def test_sizes_at_the_limit_of_int64_do_not_overflow():
    huge = [{"names": [f"app{i}:v1"], "sizeBytes": 2**63 - 1} for i in range(20)]
    plugin = build(ImageLocality, make_cache([make_node("a", images=huge), make_node("b")]))
    assert scores(plugin, running(*(f"app{i}:v1" for i in range(20)))) == {"a": 100, "b": 0}


def test_a_port_in_the_registrys_name_is_not_a_tag():
    plugin = build(ImageLocality, make_cache([make_node("a", images=[image("host:5000/app:latest", 500)])]))
    assert scores(plugin, running("host:5000/app")) == {"a": 48}
