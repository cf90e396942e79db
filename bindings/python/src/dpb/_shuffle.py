"""Experimental: the roles of the shuffle model and of the local model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._convert import flag, integer, real
from ._library import Handle, InvalidRewardError, bytes_of, check, ffi, lib, new_error


@dataclass(frozen=True)
class ShuffleParams:
    """The public plan of a batch, on which its encoders, shuffler and server agree.

    A message has 1 + coins_per_user bytes, a batch users times as many.
    """

    users: int
    coins_per_user: int
    coin_numerator: int
    epsilon: float
    delta: float

    def _c(self) -> Any:
        c = ffi.new("dpb_shuffle_params *")
        c.struct_size = ffi.sizeof("dpb_shuffle_params")
        for name in ("users", "coins_per_user", "coin_numerator"):
            setattr(c, name, integer(name, getattr(self, name), 32))
        for name in ("epsilon", "delta"):
            setattr(c, name, real(name, getattr(self, name)))
        return c


def params_of(c: Any) -> ShuffleParams:
    return ShuffleParams(c.users, c.coins_per_user, c.coin_numerator, c.epsilon, c.delta)


def shuffle_plan(epsilon: float, delta: float, users: int, printed: bool = False) -> ShuffleParams:
    """Plans a batch of M_sum: the coins that its users must add to their bits so that the count of ones is
    (epsilon, delta)-DP. ``printed``: the noise of the paper's formula."""
    out, error = ffi.new("dpb_shuffle_params *"), new_error()
    flags = lib.DPB_SHUFFLE_PRINTED if flag("printed", printed) else 0
    numbers = real("epsilon", epsilon), real("delta", delta), integer("users", users, 32)
    check(lib.dpb_shuffle_plan(*numbers, flags, out, error), error)
    return params_of(out)


def shuffle_encode(params: ShuffleParams, reward: float) -> bytes:
    """Encodes a reward in [0, 1] into one message, on the user's device. It reveals the reward: send it, once and
    encrypted, to the shuffler only."""
    c, reward = params._c(), real("reward", reward, InvalidRewardError)
    status, message, _ = bytes_of(lambda buf, room, n, _: int(lib.dpb_shuffle_encode(c, reward, buf, room, n)))
    check(status)
    return message


class Shuffler(Handle):
    """Keeps the messages of one batch until all have arrived, then hands out their bits in random order, once."""

    __slots__ = ()

    def __init__(self, params: ShuffleParams) -> None:
        out, error = ffi.new("dpb_shuffler **"), new_error()
        check(lib.dpb_new_shuffler(params._c(), out, error), error)
        self._own(out[0], lib.dpb_shuffler_free, params.users * (1 + params.coins_per_user))

    def push(self, message: bytes) -> None:
        """Adds one user's message."""
        bits = ffi.from_buffer("uint8_t[]", message)
        self._check(lib.dpb_shuffler_push(self._c, bits, len(bits)))

    def take(self) -> bytes:
        """Releases the complete batch, and starts the next one; NotReadyError until it is complete."""
        c = self._c
        status, batch, _ = bytes_of(lambda buf, room, n, _: int(lib.dpb_shuffler_take(c, buf, room, n)))
        self._check(status)
        return batch

    def __enter__(self) -> Shuffler:
        return self


def ldp_encode(epsilon: float, reward: float) -> int:
    """Encodes a reward in [0, 1] into one bit on the user's device, in the local model: epsilon-DP for whoever reads
    it. The server passes 1 as reward_max and 0 as reward_min to Bandit.update of an ldp- policy."""
    bit = ffi.new("uint8_t *")
    check(lib.dpb_ldp_encode(real("epsilon", epsilon), real("reward", reward, InvalidRewardError), bit))
    return int(bit[0])
