"""Podwright's own client of extenders against its own server: every verb, with and without node cache, over HTTP and
HTTPS.
"""

import datetime

import pytest

from podwright.api.configuration.extenders import DefinedExtender
from podwright.api.configuration.schema import Extender
from podwright.core.objects.pod import parse_pod
from podwright.engine.ports import ExtenderError, NodeVictims
from podwright.engine.raw_objects import RawObjects
from podwright.extender.client import HTTPExtender
from podwright.extender.server.gate import ExtenderGate
from podwright.extender.server.runtime import LIMITS
from podwright.kube.options.options import Options
from podwright.kube.serve.port import Address, open_port
from podwright.kube.serve.tls.certificate import ServingCertificate
from support.engine.kit import on_node, ours
from support.extender.kit import OPEN, ExtenderRig
from support.objects.builders import make_node, make_pod, make_taint
from support.serve.certificates import Authority
from support.serve.kit import client_context

POD = parse_pod(ours("asks", requests={"cpu": "1"}, priority=5), keep_raw=True)


@pytest.fixture(params=["http", "https"])
def transport(request, tmp_path):
    """The gate and TLS of the server, and the TLS of the client."""
    if request.param == "http":
        return OPEN, None, None
    authority = Authority()
    certificate, key = authority.server().write(tmp_path, "server")
    options = Options(tls_cert_file=str(certificate), tls_private_key_file=str(key))
    serving = ServingCertificate(options, now=lambda: datetime.datetime.now(datetime.UTC))
    serving.trust_clients_of(authority.certificate)
    gate = ExtenderGate(certificates=True, names=("scheduler",), token_file=None)
    return gate, lambda _address: serving.context, client_context(authority.client("scheduler"), authority.certificate)


@pytest.mark.parametrize("node_cache", [True, False])
async def test_each_verb_of_the_client_is_answered_by_the_server(transport, node_cache):
    gate, serving, context = transport
    rig, raw = ExtenderRig(), RawObjects(keep_nodes=True, keep_pods=True)
    for name in ("packed", "empty", "full", "tainted"):
        cpu = {"allocatable": {"cpu": "2"}} if name == "full" else {}
        node = make_node(name, taints=[make_taint("gpu")] if name == "tainted" else (), **cpu)
        rig.nodes.put(node)
        raw.put_node(node)
    for name, cpu, where in (("half", "4", "packed"), ("victim", "2", "full")):
        there = on_node(make_pod(name, uid=name, requests={"cpu": cpu, "memory": "1Gi"}, priority=0), where)
        rig.rig.engine.assigned.put(there)
        raw.put_pod(there)
    rig.policy("packs", strategy={"type": "MostAllocated"})
    port = await open_port(
        rig.endpoints.routes(), gate, Address("--address", "127.0.0.1", 0, serving), LIMITS, lambda _reason: None
    )
    url = f"{'http' if serving is None else 'https'}://127.0.0.1:{port.number}"
    verbs = {"filter_verb": "filter", "prioritize_verb": "prioritize", "preempt_verb": "preempt", "bind_verb": "bind"}
    settings = Extender(url_prefix=url, weight=1, node_cache_capable=node_cache, **verbs)
    client = HTTPExtender(DefinedExtender(name="e", settings=settings), context=context, proxy=None, connections=2)
    try:
        answer = await client.filter(POD, ["packed", "full", "empty", "tainted"], raw)
        assert list(answer.kept) == ["packed", "empty"]
        assert answer.failed == {"full": "Insufficient cpu"}
        assert answer.unresolvable == {"tainted": "node(s) had untolerated taint(s)"}
        assert await client.prioritize(POD, ["packed", "empty"], raw) == {"packed": 100, "empty": 0}
        victims = {"full": NodeVictims(["victim"], 0), "tainted": NodeVictims(["other"], 0)}
        assert await client.preempt(POD, victims, raw) == {"full": NodeVictims(("victim",), 0)}
        await client.bind(POD, "packed")
        assert rig.rig.cluster.bound == [("asks", "packed")]
        assert rig.cache.present("packed").requested["cpu"] == 5000
        rig.rig.engine.assigned.put(on_node(POD.raw, "packed"))
        with pytest.raises(ExtenderError, match="is on node packed already"):
            await client.bind(POD, "empty")
    finally:
        await client.close()
        await port.close()
