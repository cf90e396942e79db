"""Beside the bandits: private running sums, and stopping rules."""

from __future__ import annotations

import warnings

from ._convert import integer, real
from ._library import Handle, InvalidConfigError, NotPrivateWarning, check, ffi, lib, new_error, seed

_KINDS = {
    "logarithmic": lib.DPB_COUNTER_LOGARITHMIC,
    "binary": lib.DPB_COUNTER_BINARY,
    "hybrid": lib.DPB_COUNTER_HYBRID,
}
_RULES = {"nas": lib.dpb_new_nas, "dp-nas": lib.dpb_new_dp_nas, "dp-exp-nas": lib.dpb_new_dp_exp_nas}


def _warn(test_seed: bytes | None) -> None:
    if test_seed is not None:
        warnings.warn("test_seed: reproducible, and NOT private", NotPrivateWarning, stacklevel=3)


class Counter(Handle):
    """A differentially private running sum of values in [0, 1].

    Args:
        kind: "logarithmic" releases when the number of values is a power of two, "binary" at every value up to
            ``horizon``, "hybrid" at every value without a horizon.
        epsilon: the privacy loss of one value, above 0.
        horizon: the most values of a binary counter.
        test_seed: 32 bytes = reproducible and NOT private.
    """

    __slots__ = ()

    def __init__(self, kind: str, epsilon: float, horizon: int = 0, test_seed: bytes | None = None) -> None:
        if kind not in _KINDS:
            raise InvalidConfigError(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}")
        config, out, error = ffi.new("dpb_counter_config *"), ffi.new("dpb_counter **"), new_error()
        size = ffi.sizeof("dpb_counter_config")
        lib.dpb_counter_config_init_sized(config, size, _KINDS[kind], real("epsilon", epsilon))
        config.horizon = integer("horizon", horizon)
        kept = config.test_seed = seed("test_seed", test_seed)
        check(lib.dpb_new_counter(config, out, error), error)
        self._own(out[0], lib.dpb_counter_free)
        del kept
        _warn(test_seed)

    def add(self, value: float) -> None:
        """Adds a value in [0, 1], and updates the released sum."""
        self._check(lib.dpb_counter_add(self._c, real("value", value)))

    def read(self) -> float:
        """The released sum. Reading costs no privacy."""
        out = ffi.new("double *")
        self._check(lib.dpb_counter_read(self._c, out))
        return float(out[0])

    @property
    def is_private(self) -> bool:
        """False with a test_seed."""
        out = ffi.new("uint32_t *")
        self._check(lib.dpb_counter_is_private(self._c, out))
        return bool(out[0])

    def __enter__(self) -> Counter:
        return self


class Stopping(Handle):
    """A stopping rule: it takes samples until their mean is known to a factor of 1 +- alpha.

    Args:
        rule: "nas" (WITHOUT privacy), "dp-nas" or "dp-exp-nas" (pure epsilon-DP).
        range: R > 0: samples are in [-R, R].
        alpha: the relative error, in (0, 1).
        beta: the failure probability, in (0, 1).
        epsilon: the privacy loss of one sample, above 0; "nas" ignores it.
        test_seed: 32 bytes = reproducible and NOT private.
    """

    __slots__ = ()

    def __init__(
        self,
        rule: str,
        range: float,
        alpha: float,
        beta: float,
        epsilon: float = 1.0,
        test_seed: bytes | None = None,
    ) -> None:
        if rule not in _RULES:
            raise InvalidConfigError(f"rule must be one of {', '.join(_RULES)}, got {rule!r}")
        config, out, error = ffi.new("dpb_stopping_config *"), ffi.new("dpb_stopping **"), new_error()
        size = ffi.sizeof("dpb_stopping_config")
        lib.dpb_stopping_config_init_sized(config, size, real("range", range), real("epsilon", epsilon))
        config.alpha, config.beta = real("alpha", alpha), real("beta", beta)
        kept = config.test_seed = seed("test_seed", test_seed)
        check(_RULES[rule](config, out, error), error)
        self._own(out[0], lib.dpb_stopping_free)
        del kept
        _warn(test_seed)

    def push(self, sample: float) -> bool:
        """Adds a sample. Returns whether the rule halts with it."""
        halted = ffi.new("uint32_t *")
        self._check(lib.dpb_stopping_push(self._c, real("sample", sample), halted))
        return bool(halted[0])

    def mean(self) -> float:
        """The released mean; NotReadyError until the rule has halted."""
        out = ffi.new("double *")
        self._check(lib.dpb_stopping_mean(self._c, out))
        return float(out[0])

    @property
    def is_private(self) -> bool:
        """False for "nas" and with a test_seed."""
        out = ffi.new("uint32_t *")
        self._check(lib.dpb_stopping_is_private(self._c, out))
        return bool(out[0])

    def __enter__(self) -> Stopping:
        return self
