"""The C library, its errors, and what all its handles have in common."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, Callable, NoReturn

from ._ffi import ffi as _compiled  # made with the wheel, by hatch_build.py
from ._table import KINDS, POLICIES

ffi: Any = _compiled
_NAME = {"win32": "_native.dll", "darwin": "_native.dylib"}.get(sys.platform, "_native.so")
lib: Any = ffi.dlopen(str(Path(__file__).with_name(_NAME)))


class Error(Exception):
    """The base of all errors of this package. A call that fails has changed nothing, unless it says otherwise."""

    status: int = -1
    """The DPB_ status of C."""


class ClosedError(Error):
    """The object is closed."""


class InvalidConfigError(Error, ValueError):
    """A configuration or an argument is out of its range."""


class InvalidRewardError(Error, ValueError):
    """The reward is not finite, or outside the declared range; the decision stays open."""


class UnknownTicketError(Error, LookupError):
    """This bandit never issued this ticket."""


class DuplicateError(Error):
    """The ticket has a reward or is cancelled already; or the contribution was added before."""


class ExpiredError(Error):
    """The reward window of the ticket is over, or a later decision took its place in the pending table."""


class NotReadyError(Error):
    """There is no result yet, or a restored bandit that counts users waits for stored, or a resumed one for claimed."""


class HaltedError(Error):
    """It has ended: a stopping rule that has halted, a full counter, a suspended handle, or a node that has left."""


class BufferTooSmallError(Error):
    """A buffer is too small. Python programs do not see this error."""


class CorruptError(Error, ValueError):
    """The bytes are truncated or altered."""


class NewerVersionError(Error):
    """A newer library made these bytes."""


class EntropyError(Error, OSError):
    """The operating system gave no randomness, without which nothing is private."""


class UnsupportedError(Error):
    """This policy or this configuration does not support the call."""


class PoisonedError(Error, RuntimeError):
    """An earlier call failed half-way. The object stays closed: further use could break the privacy accounting."""


class ForkedError(PoisonedError):
    """The object was made before os.fork(). Make or restore a new one in the child."""


class NoMemoryError(Error, MemoryError):
    """There is not enough memory."""


class FullError(Error):
    """The request names a new segment, and the bandit has max_segments of them."""


class OverBudgetError(Error):
    """The budget has too little left for this bandit, or all budget_periods have begun."""


class InvalidRequestError(Error, ValueError):
    """The request cannot be met."""


class NotPrivateWarning(UserWarning):
    """A test_seed makes an object reproducible, and not private."""


ERRORS: dict[int, type[Error]] = {}
"""The exception of each status of C."""


def _number(error: type[Error], status: str) -> None:
    error.status = getattr(lib, status)
    ERRORS[error.status] = error


_number(ClosedError, "DPB_NULL")  # only a closed object passes NULL
for _error in Error.__subclasses__():
    if _error is not ClosedError:
        _number(_error, "DPB" + re.sub("([A-Z])", r"_\1", _error.__name__[: -len("Error")]).upper())
ForkedError.status = PoisonedError.status

_FLAGS = {kind[len("flag ") :]: name for name, kind in KINDS.items() if kind.startswith("flag ")}


def in_python(message: str) -> str:
    """C's message, in the names of Python."""
    for flag, name in _FLAGS.items():
        for words, value in (("flags must have ", "must be True"), ("flags must not have ", "must be False")):
            message = message.replace(words + flag, f"{name} {value}")
        message = message.replace(f"no {flag}", "False").replace(f"got {flag}", "got True").replace(flag, name)
    message = message.replace("DPB_MODEL_PER_ARM", "True").replace("DPB_MODEL_SHARED", "False")
    message = message.replace("feature_model", "model_per_arm").replace("DPB_CLOCK_", "Clock.").replace("NULL", "None")
    return re.sub(r"\bdpb_(?:new_)?(\w+)", r"\1", message)


def refusal(status: int, message: str = "") -> Error:
    """The error of a status."""
    kind = ERRORS.get(status)
    if kind is None:
        return Error(f"unknown status {status}")
    return kind(in_python(message) if message else (kind.__doc__ or "").rstrip("."))


def check(status: int, error: Any = None) -> None:
    """Raises the error of a status that is not DPB_OK."""
    if status:
        raise refusal(status, "" if error is None else ffi.string(error.message).decode("utf-8", "replace"))


def new_error() -> Any:
    return ffi.new("dpb_error *")


forks = 0


def _forked() -> None:
    global forks
    forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Handle:
    """Owns an object of the C library. Any number of threads may use it at once, and close it while others use it.

    A call holds a reference to the C object, which is freed with the last one. ``close`` only drops that of this object.
    """

    __slots__ = ("_c", "_forks", "__weakref__")

    def _own(self, c: Any, free: Any, size: int = 0) -> None:
        self._forks = forks
        self._c = ffi.gc(c, free, size)

    def close(self) -> None:
        """Frees the C object, as soon as no call uses it. Later calls raise ClosedError."""
        self._c = ffi.NULL

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return bool(self._c == ffi.NULL)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, _: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: its state is not all released")

    def _fail(self, status: int, error: Any = None) -> NoReturn:
        if status == PoisonedError.status and self._forks != forks:
            raise ForkedError((ForkedError.__doc__ or "").rstrip("."))
        check(status, error)
        raise AssertionError("a status that is no failure")

    def _check(self, status: int, error: Any = None) -> None:
        if status:
            self._fail(status, error)


def seed(name: str, value: bytes | None) -> Any:
    """32 bytes for C, which reads them during construction only."""
    if value is None:
        return ffi.NULL
    bytes_of = ffi.from_buffer("uint8_t[]", value)
    if len(bytes_of) != 32:
        raise InvalidConfigError(f"{name} must have 32 bytes, got {len(bytes_of)}")
    return bytes_of


def bytes_of(call: Callable[[Any, int, Any, Any], int]) -> tuple[int, bytes, Any]:
    """The bytes that a function writes, whose length may grow between two calls."""
    length, error, buffer, room = ffi.new("size_t *"), new_error(), ffi.NULL, 0
    while True:
        status = call(buffer, room, length, error)
        if status != BufferTooSmallError.status:
            break
        room = length[0]
        buffer = ffi.new("uint8_t[]", room)
    return status, bytes(ffi.buffer(buffer, length[0])) if status == 0 and length[0] else b"", error


def words(text: Any) -> str:
    """A text of C that ends with NUL."""
    return str(ffi.string(text).decode("utf-8", "replace"))


def verdict_text(verdict: Any) -> str:
    """A dpb_verdict in words."""
    status, text, error = bytes_of(lambda buf, room, n, error: int(lib.dpb_verdict_text(verdict, buf, room, n, error)))
    check(status, error)
    return text.decode()


def policy_number(name: str | None, what: str = "policy") -> int:
    if name is None:
        return 0
    if not isinstance(name, str):
        raise TypeError(f"{what} must be the name of a policy, got {name!r}")
    found = int(lib.dpb_policy_number(name.encode()))
    if found == 0:
        raise InvalidConfigError(f"{what} must be one of {', '.join(POLICIES)}, got {name!r}")
    return found


POLICY_NAMES: dict[int, str] = {policy_number(name): name for name in POLICIES}
"""The names of the policies by number."""


def version() -> str:
    """The version of the library, such as "0.1.0"."""
    return str(ffi.string(lib.dpb_version()).decode())


def abi_version() -> int:
    """The version of the library's C interface: major << 16 | minor."""
    return int(lib.dpb_abi_version())


def status_name(status: int) -> str:
    """The name of a status of C, such as "DPB_OK"."""
    return str(ffi.string(lib.dpb_status_name(status)).decode())


def policies() -> list[str]:
    """The names of all policies of the library."""
    names: list[str] = []
    while (name := lib.dpb_policy_at(len(names))) != ffi.NULL:
        names.append(ffi.string(name).decode())
    return names
