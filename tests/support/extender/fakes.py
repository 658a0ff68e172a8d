"""Extenders in place of the HTTP client, and an engine whose policy has them."""

import asyncio

from podwright.api.configuration.load import load_configuration
from podwright.api.permissions import PolicySettings
from podwright.engine.ports import ExtenderError, FilterAnswer
from support.engine.kit import OURS, Rig

URL = "http://extender"


class FakeExtender:
    """Answers with what the functions return, once `gate` is open. A function may raise ExtenderError."""

    def __init__(self, defined):
        self.defined = defined
        self.filters = lambda pod, nodes: FilterAnswer(kept=nodes, failed={}, unresolvable={})
        self.scores = lambda pod, nodes: {}
        self.victims = lambda pod, victims: victims
        self.binds = lambda pod, node: None
        self.gate = asyncio.Event()
        self.asked = []
        self.out = self.most_out = 0

    async def _answer(self, verb, pod, subject, function):
        self.asked.append((verb, pod.name, subject))
        self.out += 1
        self.most_out = max(self.most_out, self.out)
        try:
            await self.gate.wait()
        finally:
            self.out -= 1
        return function(pod, subject)

    async def filter(self, pod, nodes, raw):
        return await self._answer("filter", pod, nodes, self.filters)

    async def prioritize(self, pod, nodes, raw):
        return await self._answer("prioritize", pod, nodes, self.scores)

    async def preempt(self, pod, victims, raw):
        return await self._answer("preempt", pod, victims, self.victims)

    async def bind(self, pod, node_name):
        return await self._answer("bind", pod, node_name, self.binds)

    async def close(self):
        pass

    def verbs(self, pod):
        return [verb for verb, name, _ in self.asked if name == pod]


FILTER = {"filterVerb": "filter"}
ALL = {**FILTER, "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "weight": 1}


def rig_with(*extenders, attempts=32, plugins=None, filters=()):
    """An engine whose policy has these extenders, and a fake of each. `filters`: the names of those of `plugins` that
    it has as filters.
    """
    lines = "".join(f"- {{urlPrefix: '{URL}/{i}', {_flow(each)}}}\n" for i, each in enumerate(extenders))
    enabled = ", ".join(f"{{name: {name}}}" for name in filters)
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{schedulerName: {OURS}, plugins: {{filter: {{enabled: [{enabled}]}}}}}}]\nextenders:\n{lines}"
    )
    configuration = load_configuration(text.encode())
    fakes = {name: FakeExtender(defined) for name, defined in configuration.extenders.items()}
    settings = PolicySettings(configuration=configuration, extenders=configuration.extenders)
    rig = Rig(plugins, extenders=fakes, policies=settings, attempts_at_extenders=attempts)
    for fake in fakes.values():
        fake.gate.set()
    return (rig, *fakes.values())


def _flow(settings):
    return ", ".join(f"{key}: {value}" for key, value in settings.items())


def keeping(*names, failed=None, unresolvable=None):
    return lambda pod, nodes: FilterAnswer(kept=names, failed=failed or {}, unresolvable=unresolvable or {})


def failing(text):
    def fail(pod, subject):
        raise ExtenderError(text)

    return fail
