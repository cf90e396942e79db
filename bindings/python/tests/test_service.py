"""The web services of examples/python/service: ads by several workers, with a rolling restart, and a test of versions."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from test_fleet import eventually, free_port, server  # noqa: F401

pytest.importorskip("uvicorn")  # only one Python has what the service needs
pytestmark = pytest.mark.long
SERVICE = Path(__file__).parents[3] / "examples/python/service"


class Service:
    def __init__(self, directory, *command, **environment):
        self.port = free_port()
        key, metrics = directory / "key", directory / "metrics"
        key.write_bytes(bytes(range(32)))
        metrics.mkdir(exist_ok=True)
        command = [word.format(port=self.port) for word in command]
        self.log = open(directory / "log", "w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=SERVICE,
            env={**os.environ, "ADS_OPERATOR_KEY": "secret", "ADS_KEY_FILE": str(key), "PROMETHEUS_MULTIPROC_DIR": str(metrics), **environment},
            stdout=self.log,
            stderr=self.log,
        )

    def ask(self, path, data=None, key=None, visitor=None):
        """A new connection for each request, so that any worker answers."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        if visitor is not None:
            headers["Cookie"] = f"visitor={visitor}"
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.read()

    def operators(self, workers, not_these=()):
        """What each of so many workers says."""
        found = {}
        until = time.monotonic() + 120
        while len(found) < workers:
            assert time.monotonic() < until, self.said()
            try:
                one = json.loads(self.ask("/operator", key="secret"))
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
                continue
            if one["pid"] not in not_these:
                found[one["pid"]] = one
        return found

    def show(self, n):
        return [json.loads(self.ask("/ad"))["ticket"] for _ in range(n)]

    def click(self, tickets):
        for ticket in tickets:
            self.ask(f"/click/{ticket}", data=b"")

    def said(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) in (0, -signal.SIGTERM), self.said()
        said = self.said()
        self.log.close()
        assert "Traceback" not in said, said


def metrics(service):
    try:
        return service.ask("/metrics")
    except (urllib.error.URLError, ConnectionError):
        return b""


def counts(service, workers, name, **more):
    return sum(one[name] for one in service.operators(workers, **more).values())


def test_two_workers_on_a_file(tmp_path):
    service = Service(
        tmp_path, "uvicorn", "app:app", "--workers", "2", "--port", "{port}", "--no-access-log", ADS_STORE=str(tmp_path / "ads.db")
    )
    # A click for a worker that has just joined is unknown until the next round.
    while not all(one["received"] for one in service.operators(2).values()):
        service.click(service.show(4))
    tickets = service.show(200)
    assert {int(ticket) >> 48 for ticket in tickets} == {1, 2}
    service.click(tickets)
    eventually("each click arrives", lambda: counts(service, 2, "waiting") == 0)
    assert counts(service, 2, "sent") > 20
    # A click counts once, so at the second time each of the 200 is a duplicate.
    service.click(tickets)
    eventually("each click was there", lambda: counts(service, 2, "duplicates") == 200)
    assert counts(service, 2, "unsent") == 0
    service.click(["17", str(1 << 63)])  # invented
    eventually("both workers are on the page", lambda: service.ask("/metrics").count(b'\ndpb_ready{node="') == 2)
    assert b"received" not in service.ask("/metrics")
    for key in [None, "", "another"]:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            service.ask("/operator", key=key)
    assert service.ask("/ready") == b""
    assert b"Not protected: " in service.ask("/privacy")
    assert json.loads(service.ask("/privacy.json"))["libdpb"]["is_private"] is True
    assert "/click/" not in service.said()
    service.end()


def test_the_lift_is_on_the_page(tmp_path):
    """Once each ad has a release, and not before."""
    command = "uvicorn app:app --port {port} --no-access-log".split()
    service = Service(tmp_path, *command, ADS_STORE=str(tmp_path / "ads.db"), ADS_WINDOW="1")
    eventually("it is on the page", lambda: b"\ndpb_ready{" in metrics(service))
    assert b"\ndpb_lift_" not in metrics(service)

    def lift():
        for _ in range(50):
            shown = json.loads(service.ask("/ad"))
            if shown["ad"] == 3:
                service.click([shown["ticket"]])
        lines = metrics(service).decode().splitlines()
        return {line.partition("{")[0]: float(line.split()[-1]) for line in lines if line.startswith("dpb_lift_")}

    eventually("there is a lift", lift)
    ends = lift()
    assert -1 <= ends["dpb_lift_low"] < ends["dpb_lift_high"], ends
    service.end()


@pytest.mark.parametrize("server", ["redis-server with openssl"], indirect=True)
def test_a_rolling_restart_loses_no_click(server, tmp_path):  # noqa: F811
    service = Service(
        tmp_path,
        *"gunicorn app:app -k uvicorn_worker.UvicornWorker -w 2 --graceful-timeout 30 -b 127.0.0.1:{port}".split(),
        ADS_STORE=f"rediss://localhost:{server.port}?ssl_ca_certs={server.more['ssl_ca_certs']}",
    )
    old = service.operators(2)
    tickets = service.show(100)
    service.process.send_signal(signal.SIGHUP)
    new = service.operators(2, not_these=old)
    eventually("the old workers have left", lambda: all(not Path(f"/proc/{pid}").exists() for pid in old))
    assert not set(new) & set(old)
    service.click(tickets)
    eventually("each click arrives", lambda: counts(service, 2, "received") == 100)
    service.click(tickets)
    eventually("each click was there", lambda: counts(service, 2, "refused") == 100)
    service.end()


def started_test(tmp_path):
    """The test of versions, whose visits have a second for a purchase."""
    service = Service(
        tmp_path,
        *"uvicorn ab_test:app --port {port} --no-access-log".split(),
        TEST_KEY_FILE=str(tmp_path / "key"),
        TEST_STATE=str(tmp_path / "test.state"),
        TEST_WINDOW="1",
    )
    eventually("it serves", lambda: b"<title>A test of three versions</title>" in page(service))
    return service


def page(service):
    try:
        return service.ask("/")
    except (urllib.error.URLError, ConnectionError):
        return b""


def test_a_test_of_versions_ends(tmp_path):
    rates, coins, versions = {"red": 0.1, "green": 0.9, "blue": 0.1}, random.Random(1), {}

    def visits(service, visitors):
        for visitor in visitors:
            shown = json.loads(service.ask("/version", visitor=visitor))
            assert versions.setdefault(visitor, shown["version"]) == shown["version"]
            if coins.random() < rates[shown["version"]]:
                service.ask(f"/bought/{shown['ticket']}", data=b"")

    def verdict(service):
        return json.loads(service.ask("/verdict"))

    service = started_test(tmp_path)
    assert b"Not protected: " in service.ask("/privacy")
    assert json.loads(service.ask("/privacy.json"))["libdpb"]["policy"] == "dp-tt"
    with pytest.raises(urllib.error.HTTPError, match="422"):
        service.ask("/version", visitor="x")
    visits(service, range(1, 121))
    assert set(versions.values()) == set(rates)
    service.end()
    # It knows who has come. Each version needs fifty people, so all who come twice are too few.
    service = started_test(tmp_path)
    visits(service, range(1, 121))
    time.sleep(2.5)
    said = verdict(service)
    assert (said["state"], said["rewards"], said["low"]) == ("RUNNING", 0, None), said
    # A hundred others are too few without those.
    visits(service, range(121, 221))
    eventually("the test ends", lambda: verdict(service)["state"] != "RUNNING")
    said = verdict(service)
    assert (said["state"], said["leader"]) == ("WON", 1) and 0 <= said["low"] < said["high"] <= 1, said
    assert said["text"].startswith("Arm 1 is the best of 3") and not said["mismatch"], said
    assert [arm["is_left"] for arm in said["arms"]] == [False, True, False], said
    # Later visits of somebody new show the winner, and who has no cookie gets one.
    assert json.loads(service.ask("/version"))["version"] == "green"
    assert "/bought/" not in service.said()
    service.end()
