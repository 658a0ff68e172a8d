"""The server answers whatever the scheduler's loop does, and its clients cannot use it up."""

from __future__ import annotations

import asyncio
import errno
import gzip
import logging
import threading

import pytest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from podwright.core.objects.pod import parse_pod
from podwright.engine.records.metrics import EVENTS_DROPPED
from podwright.kube.serve import endpoints, event_loops
from podwright.kube.serve.answers.pages import PERIOD_SECONDS
from podwright.kube.serve.connections import listener
from podwright.kube.serve.connections.connection import ClientLimits
from podwright.kube.serve.connections.listener import accept
from podwright.kube.serve.endpoints import SILENT_BEATS
from podwright.kube.serve.event_loops import SchedulerLoop
from podwright.kube.serve.ports import MOST_CONNECTIONS, default_limits
from support.objects.builders import make_pod
from support.serve.kit import Told, answer, closed, connect, get, hang_up, serving
from support.waiting import until


async def text(server, path, *headers):
    status, _headers, body = await get(server, path, *headers)
    return status, body.decode()


class TestChecks:
    async def test_health_is_ok_in_one_word(self):
        async with serving() as server:
            for path in ("/livez", "/readyz", "/healthz"):
                assert await text(server, path) == (200, "ok")

    async def test_a_failed_check_gives_its_reason(self):
        told = Told({"ping": "", "informer-sync": "not complete: nodes"})
        async with serving(told) as server:
            assert await text(server, "/readyz") == (
                500,
                "[+]ping ok\n[+]scheduling-loop ok\n[-]informer-sync failed: not complete: nodes\nreadyz check failed\n",
            )
            assert (await text(server, "/readyz?exclude=informer-sync")) == (200, "ok")
            assert (await text(server, "/readyz/informer-sync")) == (
                500,
                "internal server error: informer-sync: not complete: nodes\n",
            )
            assert (await text(server, "/readyz/ping")) == (200, "ok")
            assert (await text(server, "/readyz/other"))[0] == 404
            assert (await text(server, "/livez?verbose")) == (
                200,
                "[+]ping ok\n[+]scheduling-loop ok\nlivez check passed\n",
            )
            told.problems["informer-sync"] = ""
            assert await text(server, "/readyz") == (200, "ok")

    async def test_before_the_scheduler_has_answered_once_nothing_is_ready(self, monkeypatch):
        monkeypatch.setattr(SchedulerLoop, "call", _no_answer)
        async with serving() as server:
            assert await text(server, "/readyz") == (
                500,
                "[+]ping ok\n[-]scheduling-loop failed: the scheduling loop has not answered for 1 s\nreadyz check failed\n",
            )

    async def test_probes_are_answered_while_the_loop_decides(self):
        """The scheduler's loop is this test's: nothing runs in it while `blocked` waits for the probe's answer."""
        async with serving() as server:
            assert await text(server, "/readyz") == (200, "ok")
            found = blocked(server, "/livez", "/readyz")
            assert found == [b"ok", b"ok"]

    async def test_a_loop_that_is_stuck_is_not_alive(self, monkeypatch):
        monkeypatch.setattr(event_loops, "BEAT_SECONDS", 0.001)
        async with serving() as server:
            assert await text(server, "/livez") == (200, "ok")
            # Probes until it is dead. The bound counts beats, so a test needs no clock.
            while not (bodies := blocked(server, *["/livez"] * 20))[-1].startswith(b"[+]ping ok\n[-]scheduling-loop"):
                pass
            assert b"the scheduling loop has not run for" in bodies[-1]
            assert b"livez check failed" in bodies[-1]
            await until(lambda: blocked(server, "/livez") == [b"ok"])

    async def test_results_of_a_loop_that_no_longer_answers_do_not_count(self, monkeypatch):
        async with serving(Told({"ping": "", "leader-election": ""})) as server:
            assert await text(server, "/readyz") == (200, "ok")
            monkeypatch.setattr(SchedulerLoop, "call", _no_answer)
            monkeypatch.setattr(SchedulerLoop, "beat", _unanswered(SILENT_BEATS - 1))
            await until(
                lambda: blocked(server, "/readyz?verbose")[0].startswith(b"[+]ping ok\n[+]scheduling-loop ok\n")
            )
            monkeypatch.setattr(SchedulerLoop, "beat", _unanswered(34))
            monkeypatch.setattr(event_loops, "BEAT_SECONDS", 0.001)
            await until(lambda: b"34 s" in blocked(server, "/readyz")[0])
            problem = "the scheduling loop has not answered for 34 s"
            assert await text(server, "/readyz") == (
                500,
                f"[+]ping ok\n[-]scheduling-loop failed: {problem}\n[-]leader-election failed: {problem}\nreadyz check failed\n",
            )
            assert (await text(server, "/readyz/leader-election"))[0] == 500
            assert (await text(server, "/livez"))[0] == 200

    async def test_results_that_nobody_has_asked_for_in_a_while_do_not_count(self, monkeypatch):
        async with serving(Told({"ping": "", "leader-election": ""})) as server:
            assert await text(server, "/readyz") == (200, "ok")
            monkeypatch.setattr(SchedulerLoop, "call", _no_answer)
            assert await text(server, "/readyz") == (200, "ok")
            monkeypatch.setattr(endpoints, "RESULTS_SECONDS", 0.0)
            status, body = await text(server, "/readyz")
            assert status == 500
            assert "[-]leader-election failed: the scheduling loop has not answered for 1 s" in body


async def _no_answer(_loop, _function, _seconds):
    raise TimeoutError


def _unanswered(beats):
    def beat(loop):
        loop.unanswered = beats

    return beat


def blocked(server, *paths):
    """The bodies of answers that come while the calling thread, and so the scheduler's loop, does nothing else."""
    found = []

    def ask():
        async def each():
            found.extend([(await get(server, path))[2] for path in paths])

        asyncio.run(each())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(20)
    return found


class TestMetrics:
    async def test_metrics_are_those_of_the_registry(self):
        told = Told()
        told.metrics.count(EVENTS_DROPPED, by=7)
        async with serving(told) as server:
            status, headers, body = await get(server, "/metrics")
            assert (status, headers["content-type"]) == (200, CONTENT_TYPE_LATEST)
            assert b"podwright_events_dropped_total 7.0\n" in body
            assert b"process_resident_memory_bytes" in body
            assert b"podwright_server_connections 1.0\n" in body
            registered = {family.name for family in told.metrics.registry.collect()}
            shown = {line.split()[2] for line in body.decode().splitlines() if line.startswith("# TYPE ")}
            assert {name.removesuffix("_total") for name in shown} >= registered - {"python_gc_objects_collected"}

    async def test_many_readers_share_one_rendering(self):
        told = Told()
        async with serving(told) as server:
            found = await asyncio.gather(*(get(server, "/metrics") for _ in range(8)))
            assert {status for status, _, _ in found} == {200}
            assert told.snapshots <= 2
            assert PERIOD_SECONDS == 1

    async def test_a_client_that_accepts_gzip_gets_the_text_compressed(self):
        told = Told(pods=[parse_pod(make_pod(f"p{n}", requests={"cpu": "1"})) for n in range(2000)])
        async with serving(told) as server:
            plain = await get(server, "/metrics/resources")
            packed = await get(server, "/metrics/resources", "Accept-Encoding: gzip, deflate")
            assert packed[1]["content-encoding"] == "gzip"
            assert gzip.decompress(packed[2]) == plain[2]
            assert len(packed[2]) < len(plain[2]) / 5
            assert plain[2].count(b"kube_pod_resource_request{") == 2000

    async def test_a_head_has_no_body(self):
        async with serving() as server:
            for path in ("/livez", "/metrics", "/configz"):
                status, _, body = await get(server, path, method="HEAD")
                assert (status, body) == (200, b""), path

    async def test_a_loop_that_does_not_answer_gives_503_and_no_hanging_scrape(self, monkeypatch):
        monkeypatch.setattr(endpoints, "CONTENT_SECONDS", 0.0)
        async with serving() as server:
            for path in ("/metrics", "/metrics/resources", "/configz"):
                assert await text(server, path) == (503, "the scheduler's loop does not answer\n")

    async def test_long_answers_are_bounded(self, monkeypatch):
        monkeypatch.setattr(endpoints, "LONG_ANSWERS", 0)
        async with serving() as server:
            assert (await get(server, "/metrics"))[0] == 503
            assert (await get(server, "/livez"))[0] == 200

    async def test_an_error_of_the_content_is_logged_and_is_no_secret_of_the_client(self, caplog):
        def fails():
            raise ValueError("a secret")

        async with serving(Told(list_pods=fails)) as server:
            assert await text(server, "/metrics/resources") == (500, "internal server error\n")
            assert "GET /metrics/resources failed" in caplog.text


class TestHostileClients:
    """Each test has small limits in place of a storm."""

    async def test_a_peer_that_holds_all_connections_keeps_no_other_peer_out(self):
        told = Told()
        async with serving(told, ClientLimits(connections=8)) as server:
            held = [await connect(server) for _ in range(40)]
            for _ in range(3):
                assert await text(server, "/livez") == (200, "ok")
            assert told.dropped("connections") >= 40 - 8
            assert b"podwright_server_connections 8.0" in (await get(server, "/metrics"))[2]
            await hang_up(*(writer for _, writer in held))

    async def test_the_peer_with_most_connections_loses_the_oldest_without_a_request(self):
        connections = listener.Connections()
        made = [Held("a"), Held("b"), Held("a"), Held("a", answering=True)]
        for each in made:
            connections.add(each)
        assert connections.least_deserving() is made[0]
        made[0].answering = True
        assert connections.least_deserving() is made[2]
        made[2].answering = True
        assert connections.least_deserving() is made[0]
        for each in (made[0], made[2], made[3]):
            connections.remove(each)
        assert connections.least_deserving() is made[1]
        assert connections.count == 1

    @pytest.mark.parametrize(
        "sent",
        [
            pytest.param(b"", id="nothing"),
            pytest.param(b"GET /livez HT", id="half a request line"),
            pytest.param(b"GET /livez HTTP/1.1\r\nHost: here\r\n", id="half a head"),
        ],
    )
    async def test_a_client_that_does_not_send_its_request_is_dropped(self, sent):
        told = Told()
        async with serving(told, ClientLimits(connections=8, head_seconds=0.05)) as server:
            reader, writer = await connect(server)
            writer.write(sent)
            assert await closed(reader) == b""
            await hang_up(writer)
            assert told.dropped("head") == 1

    async def test_a_client_that_sends_byte_by_byte_is_dropped(self):
        told = Told()
        async with serving(told, ClientLimits(connections=8, head_seconds=0.2)) as server:
            reader, writer = await connect(server)
            writer.write(b"GET /")
            while not (reader.at_eof() or reader.exception()):
                writer.write(b"a")
                await asyncio.sleep(0.01)
            await hang_up(writer)
            assert told.dropped("head") == 1

    async def test_a_client_that_does_not_read_its_answer_is_dropped(self):
        told = Told(pods=[parse_pod(make_pod(f"p{n}", requests={"cpu": "1"})) for n in range(100_000)])
        async with serving(told, ClientLimits(connections=8, stall_seconds=0.2)) as server:
            _, writer = await connect(server)
            writer.transport.pause_reading()
            writer.write(b"GET /metrics/resources HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await until(lambda: told.dropped("stall"))
            assert await text(server, "/livez") == (200, "ok")
            await hang_up(writer)

    @pytest.mark.parametrize("size", [pytest.param(1, id="small pieces"), pytest.param(16, id="large pieces")])
    async def test_a_request_that_is_too_long_is_dropped(self, size):
        told = Told()
        limits = ClientLimits(connections=8)
        async with serving(told, limits) as server:
            reader, writer = await connect(server)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: here\r\n")
            for number in range(2 * limits.request_bytes // (size * 1024)):
                writer.write(f"h{number}: ".encode() + b"\xff" * (size * 1024 - 100) + b"\r\n")
            assert await closed(reader) == b""
            await hang_up(writer)
            assert told.dropped("size") == 1

    async def test_long_requests_of_one_peer_do_not_drop_another_ones(self):
        told = Told()
        limits = ClientLimits(connections=8)
        token = "Authorization: Bearer " + "a" * 12_000
        async with serving(told, limits) as server:
            mine = await connect(server)
            mine[1].write(b"GET /livez HTTP/1.1\r\nHost: here\r\n")
            greedy = [await connect(server, peer="127.0.0.2") for _ in range(6)]
            for _, writer in greedy:
                writer.write(b"GET / HTTP/1.1\r\n" + 2 * (b"A: " + b"a" * 15_000 + b"\r\n"))
            # Six of them have 180 KB, and all together may have 128 KiB.
            await until(lambda: told.dropped("size") == 2)
            assert await text(server, "/livez", token) == (200, "ok")
            await until(lambda: server_connections(told) == 1 + 6 - 3)
            assert told.dropped("size") == 3
            mine[1].write(b"\r\n")
            assert (await answer(mine[0]))[2] == b"ok"
            await hang_up(mine[1], *(writer for _, writer in greedy))

    async def test_the_peer_that_has_sent_most_loses_the_oldest_that_sent_anything(self):
        connections = listener.Connections()
        made = [
            Held("a", byte_count=30),
            Held("b"),
            Held("b", byte_count=20, answering=True),
            Held("b", byte_count=20),
            Held("c"),
        ]
        for each in made:
            connections.add(each)
        connections.byte_count = 70
        for expected, left in ((made[3], 50), (made[0], 20), (made[2], 0)):
            assert connections.greediest() is expected
            connections.remove(expected)
            assert connections.byte_count == left

    async def test_all_of_a_connection_must_end(self):
        told = Told()
        async with serving(told, ClientLimits(connections=8, total_seconds=0.05)) as server:
            reader, writer = await connect(server)
            assert await closed(reader) == b""
            await hang_up(writer)
            assert told.dropped("total") == 1

    async def test_a_connection_serves_one_request(self):
        async with serving() as server:
            reader, writer = await connect(server)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n" * 3)
            status, headers, body = await answer(reader)
            assert (status, headers["connection"], body) == (200, "close", b"ok")
            await hang_up(writer)

    @pytest.mark.parametrize(
        "sent",
        [
            pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), id="TLS"),
            pytest.param(b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", id="a long request line"),
            pytest.param(b"GET / HTTP/1.1\r\nA: " + b"a" * 20000 + b"\r\n\r\n", id="a long header"),
            pytest.param(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", id="many headers"),
            pytest.param(b"GET / HTTP/9.7\r\n\r\n", id="another version"),
        ],
    )
    async def test_garbage_is_refused_without_a_log_line(self, sent, caplog):
        async with serving() as server:
            caplog.set_level(logging.INFO)
            caplog.clear()
            reader, writer = await connect(server)
            writer.write(sent)
            assert (await closed(reader)).startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
            await hang_up(writer)
            assert await text(server, "/livez") == (200, "ok")
            assert caplog.records == []

    async def test_a_body_is_not_read(self):
        async with serving() as server:
            reader, writer = await connect(server)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: here\r\nContent-Length: 1000000000\r\n\r\n")
            assert (await answer(reader))[2] == b"ok"
            await hang_up(writer)
            assert (await get(server, "/livez", method="POST"))[0] == 405

    async def test_too_many_open_files_drop_a_connection_and_are_logged_once(self, monkeypatch, caplog):
        monkeypatch.setattr(listener, "FAILED_PAUSE_SECONDS", 0.0)
        told = Told()
        async with serving(told, ClientLimits(connections=8)) as server:
            held = [await connect(server) for _ in range(5)]
            await until(lambda: server_connections(told) == 5)
            failing = Failing(5)
            monkeypatch.setattr(listener, "accept", failing)
            assert await text(server, "/livez") == (200, "ok")
            assert failing.left == 0
            assert told.dropped("descriptors") == 5
            assert caplog.text.count("cannot accept connections") == 1
            assert "Traceback" not in caplog.text
            await hang_up(*(writer for _, writer in held))

    async def test_accepting_pauses_after_some_connections(self, monkeypatch):
        monkeypatch.setattr(listener, "PERIOD_SECONDS", 3600.0)
        monkeypatch.setattr(listener, "ACCEPTS", 4)
        told = Told()
        async with serving(told, ClientLimits(connections=64)) as server:
            held = [await connect(server) for _ in range(20)]  # the kernel accepts them
            await until(lambda: server_connections(told) == 4)
            await asyncio.sleep(0.05)
            assert server_connections(told) == 4
            await hang_up(*(writer for _, writer in held))

    async def test_accepting_goes_on_after_the_pause(self, monkeypatch):
        monkeypatch.setattr(listener, "PERIOD_SECONDS", 0.001)
        monkeypatch.setattr(listener, "ACCEPTS", 1)
        async with serving() as server:
            for _ in range(5):
                assert await text(server, "/livez") == (200, "ok")


class Held:
    def __init__(self, peer, *, answering=False, byte_count=0):
        self.peer, self.answering, self.byte_count = peer, answering, byte_count


class Failing:
    """An accept that fails a number of times for lack of descriptors."""

    def __init__(self, times):
        self.left = times

    def __call__(self, listening):
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listening)


def server_connections(told):
    families = {family.name: family for family in told.metrics.registry.collect()}
    return families["podwright_server_connections"].samples[0].value


@pytest.mark.parametrize(
    ("descriptors", "connections"),
    [
        pytest.param(1024, 128, id="an eighth of the descriptors"),
        pytest.param(1 << 20, MOST_CONNECTIONS, id="never more than needed"),
        pytest.param(16, 4, id="never none"),
    ],
)
def test_most_descriptors_are_kept_for_the_api_client(descriptors, connections):
    assert default_limits(descriptors).connections == connections


@pytest.mark.parametrize("option", ["--health-address", "--secure-port"])
async def test_a_port_in_use_names_the_option(option):
    async with serving() as server:
        (port,) = server.ports
        options = {"health_address": ("127.0.0.1", port)}
        if option == "--secure-port":
            options = {"bind_address": "127.0.0.1", "secure_port": port}
        with pytest.raises(OSError, match=f"^{option} 127.0.0.1:{port}: Address already in use$"):
            async with serving(**options):
                pass


class TestOtherHosts:
    async def test_over_plain_http_other_hosts_read_health_only(self, monkeypatch):
        monkeypatch.setattr("podwright.kube.serve.access.gates.is_loopback", lambda _host: False)
        async with serving() as server:
            for path in ("/livez", "/readyz", "/healthz", "/readyz/ping"):
                assert (await get(server, path))[0] == 200
            for path in ("/metrics", "/metrics/resources", "/configz", "/livezz", "/"):
                assert (await get(server, path))[0] == 403
