"""Several processes learn as one bandit, through a store that they share: Redis or Valkey, or a file.

    with dpb.fleet.Node(dpb.fleet.File("ads.db"), "ads", arms=10, epsilon=1.0, reward_window=1000) as node:
        ad = node.select()
        node.update(ad.ticket, 1.0)  # at any node

docs/operating/fleets.md says how a fleet works and what it guarantees, docs/python.md how a service starts and ends its
workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import sqlite3
import threading
import time
from typing import Any, Callable, Coroutine, Iterable, Iterator, NamedTuple, Protocol, Union

from ._bandit import Bandit, _config, _needed, _part, _parts, _ticket
from ._convert import flag, integer, real
from ._library import (
    BufferTooSmallError,
    Handle,
    HaltedError,
    InvalidConfigError,
    InvalidRewardError,
    NotReadyError,
    check,
    ffi,
    lib,
    new_error,
    policy_number,
    words,
)
from ._numbers import NodeState
from ._report import NodeDiagnostics, NodeReport
from ._table import Config

__all__ = ["Command", "File", "Node", "NodeDiagnostics", "NodeReport", "NodeState", "RowStore", "Store", "gone"]


class Command(NamedTuple):
    """A command for a store: one script of Redis, whose reply is bytes. It may run twice or late."""

    kind: int
    script: str
    sha1: str
    keys: list[bytes]
    args: list[bytes]
    timeout: float
    """Seconds, after which the node has given it up."""


class Store(Protocol):
    """What the nodes of a fleet share. Raise any error if a command fails, or perhaps has: the node repeats it."""

    def run(self, command: Command) -> Union[bytes, Coroutine[Any, Any, bytes]]:
        """Runs a command, and returns its reply. It may be a coroutine function: then use ``async with Node``."""


class _Redis:
    """Runs commands with a client of redis-py, or of valkey-py."""

    def __init__(self, client: Any) -> None:
        if client.get_encoder().decode_responses:
            raise InvalidConfigError("the client must not have decode_responses: replies are bytes")
        self.client = client
        self.is_async = inspect.iscoroutinefunction(type(client).execute_command)
        settings = getattr(getattr(client, "connection_pool", None), "connection_kwargs", {"socket_timeout": 1})
        if not self.is_async and settings.get("socket_timeout") is None:
            raise InvalidConfigError("the client must have a socket_timeout, such as delay: a call that hangs stops the beats")

    @staticmethod
    def lacks_script(error: Exception) -> bool:
        return type(error).__name__ == "NoScriptError"

    def run(self, command: Command) -> Any:
        words = (len(command.keys), *command.keys, *command.args)
        if self.is_async:
            return self._run_async(command, words)
        try:
            return self.client.evalsha(command.sha1, *words)
        except Exception as error:
            if not self.lacks_script(error):
                raise
        return self.client.eval(command.script, *words)

    async def _run_async(self, command: Command, words: tuple[Any, ...]) -> Any:
        try:
            return await self.client.evalsha(command.sha1, *words)
        except Exception as error:
            if not self.lacks_script(error):
                raise
        return await self.client.eval(command.script, *words)


class RowStore:
    """A store on rows of a database: keys and values are bytes, and a command runs in one transaction.

    A subclass says how to read and write a row. Two transactions of one fleet must not overlap.
    """

    def transaction(self) -> contextlib.AbstractContextManager[Any]:
        """Begins a transaction; commits it, durably, at the end of the block; rolls it back on an exception."""
        raise NotImplementedError

    def now_ms(self) -> int:
        """The database's time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def get(self, key: bytes) -> bytes | None:
        """The value with this key."""
        raise NotImplementedError

    def put(self, key: bytes, value: bytes) -> None:
        """Writes a value, in place of the one with this key if there is one."""
        raise NotImplementedError

    def remove(self, key: bytes) -> None:
        """Removes the value with this key, if there is one."""
        raise NotImplementedError

    def list(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """The keys that begin with these bytes, with their values, in any order."""
        raise NotImplementedError

    def run(self, command: Command) -> bytes:
        """Runs a command, and returns its reply."""
        room = 1 << 16
        while True:
            try:
                with self.transaction():
                    return _Run(self).run(command, room)
            except BufferTooSmallError as error:
                room = error.args[0]


class _Run:
    """A command that runs on the rows of a store."""

    def __init__(self, store: RowStore) -> None:
        self.store = store
        self.failure: BaseException | None = None
        self.kept: Any = None

    def run(self, command: Command, room: int) -> bytes:
        host = ffi.new_handle(self)
        rows = ffi.new("dpb_rows *", {"host": host, "get": _get, "put": _put, "remove": _remove, "list": _list})
        keys, args = ([ffi.from_buffer("uint8_t[]", each) for each in list] for list in (command.keys, command.args))
        keys_of, args_of = (ffi.new("dpb_bytes[]", [(each, len(each)) for each in list]) for list in (keys, args))
        c = ffi.new("dpb_command *", {"struct_size": ffi.sizeof("dpb_command"), "kind": command.kind})
        c.keys, c.keys_len, c.args, c.args_len = keys_of, len(keys), args_of, len(args)
        reply, length = ffi.new("uint8_t[]", room), ffi.new("size_t *")
        status = lib.dpb_store_run(rows, c, self.store.now_ms(), reply, room, length)
        if self.failure is not None:
            raise self.failure
        if status == BufferTooSmallError.status:
            raise BufferTooSmallError(length[0])
        check(status)
        return bytes(ffi.buffer(reply, length[0]))


def _bytes(first: Any, length: int) -> bytes:
    return bytes(ffi.buffer(first, length))


def _callback(signature: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A function for C. It reports an exception as a failure, and the command raises it."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def called(host: Any, *given: Any) -> int:
            run: _Run = ffi.from_handle(host)
            try:
                function(run, *given)
            except BaseException as failure:
                run.failure = failure
                return 1
            return 0

        made: Callable[..., None] = ffi.callback(signature, called, error=1)
        return made

    return decorate


@_callback("int32_t(void *, const uint8_t *, size_t, const uint8_t **, size_t *)")
def _get(run: _Run, key: Any, key_len: int, value: Any, length: Any) -> None:
    found = run.store.get(_bytes(key, key_len))
    run.kept = ffi.NULL if found is None else ffi.new("uint8_t[]", bytes(found) + b"\0")  # until the next call
    value[0], length[0] = run.kept, 0 if found is None else len(found)


@_callback("int32_t(void *, const uint8_t *, size_t, const uint8_t *, size_t)")
def _put(run: _Run, key: Any, key_len: int, value: Any, length: int) -> None:
    run.store.put(_bytes(key, key_len), _bytes(value, length))


@_callback("int32_t(void *, const uint8_t *, size_t)")
def _remove(run: _Run, key: Any, key_len: int) -> None:
    run.store.remove(_bytes(key, key_len))


@_callback("int32_t(void *, const uint8_t *, size_t, dpb_each_row, void *)")
def _list(run: _Run, prefix: Any, prefix_len: int, each: Any, rows: Any) -> None:
    for key, value in run.store.list(_bytes(prefix, prefix_len)):
        each(rows, ffi.from_buffer("uint8_t[]", key), len(key), ffi.from_buffer("uint8_t[]", value), len(value))


class File(RowStore):
    """A store in a file of SQLite, for the workers of one machine. A command is durable when it has run.

    Any number of processes and threads may use the file at once; open it in each process. It must be on a local disk. Keep
    it when all processes have ended: it has what was learned. Whoever can read it sees what a reader of Redis sees:
    docs/operating/fleets.md.
    """

    def __init__(self, path: Any) -> None:
        self._lock = threading.Lock()
        self._rows = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
        until = time.monotonic() + 30
        while True:
            try:
                self._rows.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError:  # another process makes the file: SQLite does not wait for that
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
        self._rows.execute("PRAGMA synchronous = FULL")
        self._rows.execute("CREATE TABLE IF NOT EXISTS dpb (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")

    def close(self) -> None:
        """Closes the file, when no node uses it."""
        self._rows.close()

    def __del__(self) -> None:
        if hasattr(self, "_rows"):
            self._rows.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            self._rows.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._rows.execute("COMMIT")
            finally:
                if self._rows.in_transaction:
                    self._rows.execute("ROLLBACK")

    def get(self, key: bytes) -> bytes | None:
        found = self._rows.execute("SELECT value FROM dpb WHERE key = ?", (key,)).fetchone()
        return None if found is None else bytes(found[0])

    def put(self, key: bytes, value: bytes) -> None:
        self._rows.execute("REPLACE INTO dpb VALUES (?, ?)", (key, value))

    def remove(self, key: bytes) -> None:
        self._rows.execute("DELETE FROM dpb WHERE key = ?", (key,))

    def list(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        found = "SELECT key, value FROM dpb WHERE key >= ? AND key < ?"
        return self._rows.execute(found, (prefix, prefix + b"\xff" * 256)).fetchall()


class _Core(Handle):
    """The node of C: it frees its bandit."""

    __slots__ = ()

    def __init__(self, name: str, config: Any, policy: str | None, options: Any) -> None:
        out, error = ffi.new("dpb_node **"), new_error()
        if policy is not None:
            policy_number(policy)
        of = ffi.NULL if policy is None else policy.encode()
        check(lib.dpb_node_new(of, config, options, out, error), error)
        self._own(out[0], lib.dpb_node_free, 4_000_000)


def _now() -> int:
    return time.monotonic_ns() // 1_000_000


def _command(of: Any) -> Command:
    """What a command of C says, which soon belongs to the next one."""
    keys = [_bytes(each.bytes, each.len) for each in ffi.unpack(of.keys, of.keys_len)]
    args = [_bytes(each.bytes, each.len) for each in ffi.unpack(of.args, of.args_len)]
    return Command(of.kind, words(of.script), words(of.sha1), keys, args, of.timeout_ms / 1000)


def _store_of(store: Any) -> Any:
    return _Redis(store) if hasattr(store, "evalsha") else store


_LANES = (lib.DPB_LANE_ROUNDS, lib.DPB_LANE_EXCHANGES)


class Node:
    """A process of a fleet: its bandit, and what keeps it in step with the others.

    ``with`` joins the fleet, and leaves it at the end: it returns when the node has joined, and needs a store whose ``run`` is
    no coroutine. ``async with`` does the same for both kinds of store. Make a node after os.fork(), one in each process.

    Args:
        store: redis.Redis or redis.asyncio.Redis, also of a cluster; a File; or any Store.
        name: the bandit's name in the store: 1 to 200 bytes, without { and }.
        config: the same at all nodes, but for ``node``: the number of this process, from 1 to 65535, or 0, the default: the
            lowest that is free. Or give its fields as keywords: ``Node(store, "ads", arms=10, epsilon=1.0)``. With a
            fleet_key one node releases for all, rewards are sealed, and what is open moves to another node at the end.
        policy: as for Bandit; one that can merge.
        interval: the longest time between two exchanges, in seconds.
        delay: the longest time that a reward may take to the node that decided, in seconds.
        tick: with Clock.CALLER: the duration of a tick in seconds. The node advances the bandit's clock.
        settle: with expected_users: how long a snapshot must have been in the store before the bandit learns on its
            strength, in seconds.
        send_rate: with a fleet_key: rewards a second to each other node, whose messages then do not depend on rewards.
        queue: rewards that wait for the store, at most.
        click_delay: within how many ticks of reward_window most rewards come; 0 = reward_window.
        routed: a balancer brings each reward to the node that decided: there are no outages.
        snapshot: of the same number, from a file of this host.
        logger: None = logging.getLogger("dpb.fleet").
    """

    def __init__(
        self,
        store: Any,
        name: str,
        config: Config | None = None,
        policy: str | None = None,
        *,
        interval: float = 5.0,
        delay: float = 1.0,
        tick: float = 0.001,
        settle: float = 15.0,
        send_rate: int = 0,
        queue: int = 100_000,
        click_delay: int = 0,
        routed: bool = False,
        snapshot: bytes | None = None,
        logger: logging.Logger | None = None,
        **given: Any,
    ) -> None:
        if config is None:
            config = Config(**given)
        elif given:
            raise TypeError(f"give a Config or its fields, not both: {', '.join(given)}")
        self._store: Store = _store_of(store)
        c, kept = _config(config)
        of = ffi.new("char[]", name.encode())
        options = ffi.new("dpb_node_options *")
        lib.dpb_node_options_init_sized(options, ffi.sizeof("dpb_node_options"), of)
        times = {"interval": interval, "delay": delay, "tick": tick, "settle": settle}
        for field, seconds in times.items():
            milliseconds = round(real(field, seconds) * 1000)
            setattr(options, field + "_ms", integer(field, milliseconds, 32))
        options.send_rate = integer("send_rate", send_rate, 32)
        options.queue = integer("queue", queue, 32)
        options.click_delay = integer("click_delay", click_delay, 64)
        options.flags = lib.DPB_NODE_ROUTED if flag("routed", routed) else 0
        if snapshot is not None:
            kept.append(ffi.from_buffer("uint8_t[]", snapshot))
            options.snapshot, options.snapshot_len = kept[-1], len(snapshot)
        self._core = _Core(name, c, policy, options)
        self._needs, self._config, self._part_names = _needed(c), config, tuple(_parts(config))
        self._tick = options.tick_ms if c.clock == lib.DPB_CLOCK_CALLER else 0
        self._logger = logger or logging.getLogger("dpb.fleet")
        self._bandit: Bandit | None = None
        self._ids = [0, 0]
        self._threads: list[threading.Thread] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: BaseException | None = None
        del kept

    def start(self, timeout: float | None = None) -> None:
        """Joins the fleet, with a thread for each lane. Returns when the node has joined.

        Raises:
            NotReadyError: after ``timeout`` seconds without a reply from the store; the node has left.
            Error: the node could not continue from the snapshot of its number, or another process has the number.
        """
        if self._threads or self._tasks:
            raise InvalidConfigError("the node has started")
        if self._is_async():
            raise InvalidConfigError("the store is asynchronous: use `async with`")
        until = None if timeout is None else time.monotonic() + timeout
        self._threads = [threading.Thread(target=self._run_lane, args=(lane,), daemon=True) for lane in _LANES]
        for thread in self._threads:
            thread.start()
        while not self._has_joined():
            if until is not None and time.monotonic() > until:
                last_error = self.report().last_error
                self.leave()
                raise NotReadyError(f"the store has not answered within {timeout} s: {last_error}")
            time.sleep(0.005)

    def leave(self) -> None:
        """Leaves the fleet, and returns when all that the node has collected is with other nodes, within 25 s. Decide nothing
        after it. Calling it again does nothing."""
        self._begin_leaving()
        for thread in self._threads:
            thread.join()

    def close(self) -> None:
        """Leaves, and frees the node."""
        if not self._core.closed:
            self.leave()
            self._core.close()

    def __enter__(self) -> Node:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Node:
        if self._threads or self._tasks:
            raise InvalidConfigError("the node has started")
        self._tasks = [asyncio.create_task(self._run_lane_async(lane)) for lane in _LANES]
        while not self._has_joined():
            await asyncio.sleep(0.005)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._begin_leaving()
        await asyncio.gather(*self._tasks)
        self._core.close()

    def _is_async(self) -> bool:
        return getattr(self._store, "is_async", inspect.iscoroutinefunction(self._store.run))

    def _has_joined(self) -> bool:
        """Whether it has. Raises an error if it never will."""
        if self._failure is not None:
            raise self._failure
        report = self.report()
        if report.state >= NodeState.LEFT:
            raise HaltedError(report.last_error)
        return self._bandit is not None

    def _begin_leaving(self) -> None:
        if not self._core.closed:
            self._core._check(lib.dpb_node_leave(self._core._c, _now()))

    @property
    def bandit(self) -> Bandit:
        """The node's bandit. Its methods that concern the fleet are the node's: update, next_period, stored and others.

        Raises:
            NotReadyError: if the node has not joined.
        """
        if self._bandit is None:
            raise NotReadyError("the node has not joined: use `with` or `async with`")
        return self._bandit

    def select(self, **request: Any) -> Any:
        """As Bandit.select."""
        return self.bandit.select(**request)

    def update(self, ticket: int, reward: float, part: str | int | None = None) -> None:
        """Reports the reward of a decision of any node: here or, if another node has decided, with a next round. With parts:
        a part of it, as Bandit.update.

        It never waits for the store. Its errors are those of Bandit.update, and FullError if too many rewards wait. They are
        NOT private.
        """
        core = self._core
        value = real("reward", reward, InvalidRewardError)
        if part is None:
            core._check(lib.dpb_node_update(core._c, _ticket(ticket), value))
        else:
            number = _part(self._part_names, part)
            core._check(lib.dpb_node_update_part(core._c, _ticket(ticket), number, value))

    def next_period(self) -> None:
        """With expected_users: begins a new period. The bandit learns from nobody in it until the store has kept a snapshot
        that counts it."""
        self._core._check(lib.dpb_node_next_period(self._core._c))

    def report(self) -> NodeReport:
        """What anybody may know of the node."""
        out = ffi.new("dpb_node_report *", {"struct_size": ffi.sizeof("dpb_node_report")})
        self._core._check(lib.dpb_node_report_read(self._core._c, _now(), out))
        return NodeReport._of(out)

    def diagnostics(self) -> NodeDiagnostics:
        """Counts of rewards that travel. NOT private."""
        out = ffi.new("dpb_node_diagnostics *", {"struct_size": ffi.sizeof("dpb_node_diagnostics")})
        self._core._check(lib.dpb_node_diagnostics_read(self._core._c, out))
        return NodeDiagnostics._of(out)

    # What the lanes do.

    def _next(self, lane: int) -> Command | float | None:
        """A command, seconds to wait, or None at the end."""
        out, error = ffi.new("dpb_command *", {"struct_size": ffi.sizeof("dpb_command")}), new_error()
        while True:
            ticks = time.time_ns() // 1_000_000 // self._tick if self._tick else 0
            status = lib.dpb_node_next(self._core._c, lane, _now(), out, error)
            if status == HaltedError.status:
                return None
            self._core._check(status, error)
            self._after_next(ticks)
            if out.kind == lib.DPB_COMMAND_WAIT:
                return float(out.wait_ms) / 1000
            if out.kind != lib.DPB_COMMAND_LOG:
                break
            self._logger.warning("%s", words(out.text))
        self._ids[lane] = out.id
        return _command(out)

    def _after_next(self, ticks: int) -> None:
        """Takes over the bandit once the node has it, and lets time pass for it: to a time that the node has seen, so that a
        process that stood still cancels before it learns."""
        bandit = lib.dpb_node_bandit(self._core._c)
        if bandit == ffi.NULL:
            return
        if self._bandit is None:
            self._bandit = Bandit._of_node(bandit, self._core._c, self._needs, self._config)
        if ticks:
            lib.dpb_advance(bandit, ticks)  # refused once the state has moved

    def _reply(self, lane: int, reply: Any) -> None:
        if isinstance(reply, bytes):
            self._core._check(lib.dpb_node_reply(self._core._c, self._ids[lane], _now(), reply, len(reply)))
        else:
            self._failed(lane, TypeError(f"a reply must be bytes, got {reply!r:.100}"))

    def _failed(self, lane: int, error: BaseException) -> None:
        why = f"{type(error).__name__}: {error}".replace("\0", " ").encode()
        self._core._check(lib.dpb_node_failed(self._core._c, self._ids[lane], _now(), why))

    def _end(self, error: BaseException) -> None:
        self._failure = error
        self._logger.error("a lane of the node has ended", exc_info=error)

    def _run_lane(self, lane: int) -> None:
        try:
            while (task := self._next(lane)) is not None:
                if not isinstance(task, Command):
                    time.sleep(task)
                    continue
                try:
                    reply = self._store.run(task)
                except Exception as error:
                    self._failed(lane, error)
                else:
                    self._reply(lane, reply)
        except Exception as error:
            self._end(error)

    async def _run_lane_async(self, lane: int) -> None:
        # In threads, because a merge takes milliseconds.
        try:
            while (task := await asyncio.to_thread(self._next, lane)) is not None:
                if not isinstance(task, Command):
                    await asyncio.sleep(task)
                    continue
                try:
                    if self._is_async():
                        reply: Any = await asyncio.wait_for(self._store.run(task), task.timeout)  # type: ignore[arg-type]
                    else:
                        reply = await asyncio.to_thread(self._store.run, task)
                except Exception as error:
                    await asyncio.to_thread(self._failed, lane, error)
                else:
                    await asyncio.to_thread(self._reply, lane, reply)
        except Exception as error:
            self._end(error)


def gone(store: Any, name: str, number: int) -> None:
    """Ends the lease of a number whose process has died, so that the others need not wait 30 delays: for a supervisor.

    Whoever has the number is replaced. ``store`` is one of threads.
    """
    out = ffi.new("dpb_command *", {"struct_size": ffi.sizeof("dpb_command")})
    check(lib.dpb_node_gone(name.encode(), integer("number", number, 16), out))
    _store_of(store).run(_command(out))
