"""Nodes of a fleet: on a file, on Redis, in threads, in asyncio and in processes."""

import asyncio
import contextlib
import multiprocessing
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import dpb
from dpb import fleet

KEY = bytes(range(32))
CONFIG = dict(arms=3, epsilon=1.0, reward_window=1000)
FAST = dict(interval=0.2, delay=0.2)


def node(store, **more):
    return fleet.Node(store, "ads", **{**CONFIG, **FAST, **more})


def eventually(what, condition):
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.01)


class Memory(fleet.RowStore):
    """Rows of a process."""

    def __init__(self):
        self.rows, self.lock = {}, threading.Lock()

    @contextlib.contextmanager
    def transaction(self):
        with self.lock:
            before = dict(self.rows)
            try:
                yield
            except BaseException:
                self.rows = before
                raise

    def get(self, key):
        return self.rows.get(key)

    def put(self, key, value):
        self.rows[key] = value

    def remove(self, key):
        self.rows.pop(key, None)

    def list(self, prefix):
        return [(key, value) for key, value in self.rows.items() if key.startswith(prefix)]


class Failing(Memory):
    fails = False

    def run(self, command):
        if self.fails:
            raise OSError("no way to the store")
        return super().run(command)


def free_port():
    """Not one of those that programs get by chance: another one could get it before the server has it."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", random.randrange(10000, 32768)))
            return free.getsockname()[1]


class Redis:
    """A server of its own; with a certificate, over TLS."""

    def __init__(self, directory, *options, program="redis-server", certificate=None):
        directory.mkdir(exist_ok=True)
        self.port, self.more = str(free_port()), {}
        ports = ["--port", self.port]
        if certificate:
            self.more = dict(ssl=True, ssl_ca_certs=str(certificate))
            ports = ["--port", "0", "--tls-port", self.port, "--tls-auth-clients", "no", "--tls-ca-cert-file", certificate]
            ports += ["--tls-cert-file", certificate, "--tls-key-file", certificate]
        command = [program, *ports, "--bind", "127.0.0.1", "--save", "", *options]
        self.process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL)
        eventually("the server answers", self.answers)

    def answers(self):
        try:
            with self.client() as client:
                return client.ping()
        except Exception:
            return False

    def client(self, **more):
        import redis

        return redis.Redis(port=int(self.port), **{"socket_timeout": 5, **self.more, **more})

    def asynchronous(self):
        import redis.asyncio

        return redis.asyncio.Redis(port=int(self.port), **self.more)

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(params=["redis-server", "valkey-server"])
def server(request, tmp_path):
    pytest.importorskip("redis")
    program, *tools = request.param.replace(" with ", " ").split()
    for tool in (program, *tools):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} not found")
    certificate = tmp_path / "certificate.pem" if tools else None
    if certificate:  # with its key in the same file
        words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
        words += ["-addext", "subjectAltName=DNS:localhost", "-keyout", certificate, "-out", tmp_path / "second.pem"]
        subprocess.run(["openssl", *words], check=True, stderr=subprocess.DEVNULL)
        with certificate.open("a") as file:
            file.write((tmp_path / "second.pem").read_text())
    redis = Redis(tmp_path, program=program, certificate=certificate)
    yield redis
    redis.end()


@pytest.fixture
def cluster(tmp_path):
    """Two servers, each with half of the keys."""
    pytest.importorskip("redis")
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server not found")
    with contextlib.ExitStack() as ends:
        servers, buses = [], [str(free_port()), str(free_port())]
        for i, bus in enumerate(buses):
            servers.append(Redis(tmp_path / str(i), "--cluster-enabled", "yes", "--cluster-port", bus))
            ends.callback(servers[i].end)
        first, second = (ends.enter_context(each.client()) for each in servers)
        for i, client in enumerate((first, second)):
            client.execute_command("CLUSTER ADDSLOTSRANGE", 8192 * i, 8192 * i + 8191)
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", i + 1)
        first.execute_command("CLUSTER MEET", "127.0.0.1", servers[1].port, buses[1])

        def works(client):
            info = client.execute_command("CLUSTER INFO")
            state, known = (info["cluster_state"], info["cluster_known_nodes"])
            return state == "ok" and known == "2"

        eventually("the cluster works", lambda: works(first) and works(second))
        yield servers


def meet(*nodes):
    """Waits until each node knows the others: a click for one that has just joined is unknown until the next round."""

    def knows(node, ticket):
        with contextlib.suppress(dpb.UnknownTicketError):
            node.update(ticket, 1.0)
            return True

    for each in nodes:
        ticket, received = each.select().ticket, each.diagnostics().received
        others = [node for node in nodes if node is not each]
        for node in others:
            eventually("they know each other", lambda: knows(node, ticket))
        eventually("its clicks are there", lambda: each.diagnostics().received + each.diagnostics().refused > received)


def clicks_travel(*nodes):
    """Decides at each node, and reports every click at the next one."""
    received = [each.diagnostics().received for each in nodes]
    for i, each in enumerate(nodes):
        for _ in range(50):
            ad = each.select()
            nodes[(i + 1) % len(nodes)].update(ad.ticket, 1.0)
    eventually(
        "each click arrives",
        lambda: all(each.diagnostics().received == before + 50 for each, before in zip(nodes, received)),
    )


def test_workers_share_a_file(tmp_path):
    path = tmp_path / "ads.db"
    with node(fleet.File(path), fleet_key=KEY) as one:
        with node(fleet.File(path), fleet_key=KEY) as two:
            assert {one.report().number, two.report().number} == {1, 2}
            meet(one, two)
            clicks_travel(one, two)
            with pytest.raises(dpb.UnknownTicketError):
                one.update(999 << 48, 1.0)
            ad = two.select()
        with pytest.raises(dpb.HaltedError):
            two.select()
        with pytest.raises(dpb.ClosedError):
            two.update(ad.ticket, 1.0)
        # Its open decision is at the other node now.
        received = one.diagnostics().received
        one.update(ad.ticket, 1.0)
        eventually("the click arrives", lambda: one.diagnostics().received == received + 1)
        report = one.report()
        assert report.draining == 1 and report.nodes == 1 and report.last_error == ""
    # The next process continues.
    with node(fleet.File(path), fleet_key=KEY) as three:
        assert three.report().number == 1 and three.report().incarnation == 2
        three.select()


def test_parts_travel(tmp_path):
    given = dict(fleet_key=KEY, parts={"click": 1.0, "returned": -1.0})
    with node(fleet.File(tmp_path / "ads.db"), **given) as one, node(fleet.File(tmp_path / "ads.db"), **given) as two:
        meet(one, two)
        ad, before = one.select(), one.diagnostics().received
        two.update(ad.ticket, 0.5, part="returned")
        two.update(ad.ticket, 1.0)
        eventually("both parts arrive", lambda: one.diagnostics().received == before + 2)
        with pytest.raises(dpb.DuplicateError):
            one.update(ad.ticket, 1.0, part="click")
        with pytest.raises(dpb.InvalidConfigError):
            two.update(ad.ticket, 1.0, part=8)


WORKER = """
import sys, time, dpb
from dpb import fleet
with fleet.Node(fleet.File(sys.argv[1]), "ads", arms=3, epsilon=1.0, reward_window=1000, fleet_key=bytes(32),
                interval=.2, delay=.2) as node:
    print("joined", flush=True)
    for line in sys.stdin:
        word, *ticket = line.split()
        if word == "select":
            print(node.select().ticket, flush=True)
        elif word == "click":
            try:
                node.update(int(ticket[0]), 1.0)
                print("ok", flush=True)
            except dpb.UnknownTicketError:  # of a node that has just joined
                print("unknown", flush=True)
        elif word == "counts":
            counts = node.diagnostics()
            print(counts.received, counts.unsent, counts.refused, flush=True)
"""


class Worker:
    def __init__(self, path):
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "joined\n"

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self, kill=False):
        if kill:
            self.process.kill()
        self.process.stdin.close()
        assert self.process.wait() == (-9 if kill else 0)
        self.process.stdout.close()


@pytest.mark.long
def test_no_click_is_lost_between_processes(tmp_path):
    one, two = workers = [Worker(str(tmp_path / "ads.db")) for _ in range(2)]
    for one, other in (workers, workers[::-1]):
        ticket = one.ask("select")
        eventually("they know each other", lambda: other.ask(f"click {ticket}") == "ok")
    one, two = workers
    for i in range(200):
        ticket = workers[i % 2].ask("select")
        assert workers[i // 2 % 2].ask(f"click {ticket}") == "ok"
    for each in workers:
        eventually("each click arrives", lambda: each.ask("counts") == "51 0 0")
    # One is recycled: its decision's click still counts.
    ticket = one.ask("select")
    one.end()
    assert two.ask(f"click {ticket}") == "ok"
    eventually("the click arrives", lambda: two.ask("counts") == "52 0 0")
    three = Worker(str(tmp_path / "ads.db"))
    assert int(three.ask("select")) >> 48 == 3  # the second one has the first one's number for now
    # One is killed: the others continue, and its number is free when its lease is over.
    three.end(kill=True)
    two.ask("select")
    two.end()


def test_rows_of_any_database():
    store = Memory()
    # A snapshot of 90 kB: its reply does not fit at first, and the command runs again after a rollback.
    big = dict(features=150, model_per_arm=False)
    with node(store, **big) as one:
        one.select(features=[[0.0] * 150] * 3)
    with node(store, **big) as two:
        assert two.report().number == 1 and two.report().incarnation == 2
        assert max(map(len, store.rows.values())) > 1 << 16


def test_a_command_that_fails_is_repeated():
    store = Failing()
    with node(store) as one:
        store.fails = True
        eventually("it is noticed", lambda: one.report().last_error == "OSError: no way to the store")
        ad = one.select()
        store.fails = False
        eventually("it tries again", lambda: one.report().ready)
        with contextlib.suppress(dpb.DuplicateError):  # an outage may have cancelled it
            one.update(ad.ticket, 1.0)
        assert one.diagnostics().failures > 0

    class Text(Memory):
        def run(self, command):
            return "text"

    with pytest.raises(dpb.NotReadyError, match="a reply must be bytes, got 'text'"):
        node(Text()).start(timeout=3)


def test_bad_input(tmp_path):
    store = Memory()
    for field, value in [("interval", 0), ("delay", -1), ("tick", "1"), ("queue", 0), ("send_rate", 0.5), ("routed", 1)]:
        with pytest.raises((dpb.InvalidConfigError, TypeError), match=field):
            node(store, **{field: value})
    for name in ["", "{", "x" * 201]:
        with pytest.raises(dpb.InvalidConfigError, match="name"):
            fleet.Node(store, name, **CONFIG)
    with pytest.raises(dpb.InvalidConfigError, match="epsilon"):
        node(store, epsilon=-1.0)
    with pytest.raises(dpb.UnsupportedError):
        node(store, policy="dp-ucb")
    with pytest.raises(dpb.InvalidConfigError, match="policy"):
        node(store, policy="none")
    with pytest.raises(TypeError, match="not both: arms"):
        fleet.Node(store, "ads", dpb.Config(3, 1.0), arms=3)
    with pytest.raises(dpb.InvalidConfigError, match="snapshot"):
        node(store, snapshot=b"of no number")
    one = node(store)
    with pytest.raises(dpb.NotReadyError, match="has not joined"):
        one.select()
    with pytest.raises(dpb.NotReadyError):
        one.next_period()
    with one:
        with pytest.raises(dpb.InvalidConfigError, match="has started"):
            one.start()
        with pytest.raises(dpb.InvalidRewardError):
            one.update(one.select().ticket, 7.0)
        with pytest.raises(dpb.UnsupportedError, match="stored"):
            one.bandit.stored(one.bandit.snapshot())
        with pytest.raises(TypeError, match="cannot be copied"):
            one._core.__reduce_ex__(2)
    for number in [0, 65536, "1"]:
        with pytest.raises((dpb.InvalidConfigError, TypeError)):
            fleet.gone(store, "ads", number)
    # A snapshot of another configuration: the node fails, and says why.
    with pytest.raises(dpb.HaltedError, match="number 1: .*epsilon"):
        node(store, epsilon=2.0).start()


def test_a_process_that_has_died_is_replaced_at_once():
    store = Memory()
    with node(store) as one:
        fleet.gone(store, "ads", 1)
        eventually("it is replaced", lambda: one.report().state == fleet.NodeState.REPLACED)
        assert "another process" in one.report().last_error


def test_asyncio():
    class Asynchronous(Memory):
        async def run(self, command):
            await asyncio.sleep(0)
            return Memory.run(self, command)

    async def serves(store):
        async with node(store) as one, node(store) as two:
            ad = one.select()
            while one.diagnostics().received < 1:
                with contextlib.suppress(dpb.UnknownTicketError, dpb.DuplicateError):  # it has just joined
                    two.update(ad.ticket, 1.0)
                await asyncio.sleep(0.01)

    asyncio.run(serves(Asynchronous()))
    asyncio.run(serves(Memory()))
    with pytest.raises(dpb.InvalidConfigError, match="async with"):
        node(Asynchronous()).start()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_is_refused():
    one = node(Memory())
    child = os.fork()
    if child == 0:
        try:
            one.report()
        except dpb.ForkedError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_callers_clock():
    with node(Memory(), clock=dpb.Clock.CALLER, reward_window=50, tick=0.002) as one:
        ad = one.select()
        eventually("its window ends", lambda: one.bandit.report().answered == 1)
        with pytest.raises(dpb.ExpiredError):
            one.update(ad.ticket, 1.0)


def test_users_count_when_the_store_has_kept_the_period():
    with node(Memory(), expected_users=1000, settle=3600) as one:
        one.select(user=7)
        assert not one.report().learns
    store = Failing()
    with node(store, expected_users=1000, settle=0.1) as one:
        eventually("the snapshot settles", lambda: one.report().learns)
        store.fails = True
        one.next_period()
        assert not one.report().learns
        eventually("the store fails", lambda: one.report().last_error)
        assert not one.report().learns
        store.fails = False
        eventually("the next one settles", lambda: one.report().learns)


# tests/fleet_mixed.rs has what a store refuses, TLS and lost replies, with programs in Python among others.
@pytest.mark.long
def test_redis(server):
    with pytest.raises(dpb.InvalidConfigError, match="decode_responses"):
        node(server.client(decode_responses=True))
    with pytest.raises(dpb.InvalidConfigError, match="socket_timeout"):
        node(server.client(socket_timeout=None))
    with contextlib.ExitStack() as ends:
        admin, first, second = (ends.enter_context(server.client()) for _ in range(3))
        one, two = (ends.enter_context(node(client, fleet_key=KEY)) for client in (first, second))
        meet(one, two)
        clicks_travel(one, two)
        admin.script_flush()
        clicks_travel(one, two)


@pytest.mark.long
def test_redis_with_asyncio(server):
    async def serves():
        client = server.asynchronous()
        with pytest.raises(dpb.InvalidConfigError, match="async with"):
            node(client).start()
        async with node(client, fleet_key=KEY) as one, node(client, fleet_key=KEY) as two:
            await client.script_flush()
            while one.diagnostics().received < 50:
                with contextlib.suppress(dpb.UnknownTicketError):  # it has just joined
                    two.update(one.select().ticket, 1.0)
                await asyncio.sleep(0.01)
        await client.aclose()

    asyncio.run(serves())


@pytest.mark.long
def test_a_cluster(cluster):
    import redis
    import redis.asyncio

    with contextlib.ExitStack() as ends:
        # Each knows the address of another server.
        clients = (redis.RedisCluster(host="127.0.0.1", port=int(each.port), socket_timeout=5) for each in cluster)
        one, two = (ends.enter_context(node(ends.enter_context(client), fleet_key=KEY)) for client in clients)
        meet(one, two)
        clicks_travel(one, two)

        async def serves():
            async with redis.asyncio.RedisCluster(host="127.0.0.1", port=int(cluster[0].port)) as client:
                async with node(client, fleet_key=KEY) as three:
                    ad = three.select()
                    while three.diagnostics().received == 0:
                        with contextlib.suppress(dpb.UnknownTicketError, dpb.DuplicateError):  # it has just joined
                            one.update(ad.ticket, 1.0)
                        await asyncio.sleep(0.01)

        asyncio.run(serves())


@pytest.fixture
def database(tmp_path_factory):
    """The address of a PostgreSQL server of its own, and what restarts it."""
    pytest.importorskip("psycopg")
    found = shutil.which("pg_ctl") or next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))), None)
    if found is None:
        pytest.skip("postgresql not found")
    directory = Path(tempfile.mkdtemp(prefix="dpb-postgres-", dir="/tmp"))
    # It refuses to run as root.
    as_user = []
    if os.getuid() == 0:
        shutil.chown(directory, "postgres")
        as_user = ["runuser", "-u", "postgres", "--"]
    port = free_port()

    def control(*words):
        log = ["-l", str(directory / "log"), "-w", "-t", "120"] if words[0] != "initdb" else []
        command = [*as_user, str(found), *words, "-D", str(directory / "data"), *log]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/tmp")

    control("initdb", "-o", "--auth=trust --username=dpb")
    start = ["start", "-o", f"-p {port} -h 127.0.0.1 -k {directory}"]
    control(*start)

    def restart():
        control("stop", "-m", "immediate")
        control(*start)

    yield f"host=127.0.0.1 port={port} user=dpb dbname=postgres", restart
    control("stop", "-m", "immediate")
    shutil.rmtree(directory)


@pytest.mark.long
def test_postgresql(database):
    address, restart = database
    sys.path.insert(0, str(Path(__file__).parents[3] / "examples/python"))
    from postgres import Postgres

    stores = [Postgres(address), Postgres(address)]
    with contextlib.closing(stores[0]), contextlib.closing(stores[1]), node(stores[0], fleet_key=KEY) as one:
        with node(stores[1], fleet_key=KEY) as two:
            meet(one, two)
            clicks_travel(one, two)
            # A crash of the server loses nothing that it has committed.
            numbers = one.report().number, two.report().number
            restart()
            eventually("both are well", lambda: all(x.report().ready and not x.report().outage for x in (one, two)))
            clicks_travel(one, two)
            assert numbers == (one.report().number, two.report().number)
            ad = two.select()
        one.update(ad.ticket, 1.0)
        eventually("its state has moved", lambda: one.report().draining == 1)


def _opens(path, start, failures):
    start.wait()
    try:
        fleet.File(path).close()
    except Exception as error:
        failures.put(repr(error))
    else:
        failures.put(None)


@pytest.mark.long
def test_many_processes_make_one_file(tmp_path):
    context = multiprocessing.get_context("spawn")
    for i in range(3):
        start, failures = context.Barrier(8), context.Queue()
        processes = [context.Process(target=_opens, args=(tmp_path / str(i), start, failures)) for _ in range(8)]
        for each in processes:
            each.start()
        assert [failures.get() for _ in processes] == [None] * 8
        for each in processes:
            each.join()
