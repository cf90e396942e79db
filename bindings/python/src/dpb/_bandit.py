"""The bandit."""

from __future__ import annotations

import json
import warnings
from typing import Any, Mapping, NamedTuple, NoReturn, Sequence, overload

import numpy as np

from ._budget import Budget
from ._convert import flag, flags, integer, integers, is_row, real, reals
from ._decide import DecisionTable, published
from ._library import (
    Error,
    Handle,
    InvalidConfigError,
    InvalidRequestError,
    InvalidRewardError,
    NotPrivateWarning,
    UnknownTicketError,
    UnsupportedError,
    bytes_of,
    check,
    ffi,
    lib,
    new_error,
    policy_number,
    refusal,
    seed,
)
from ._report import Diagnostics, Report, Verdict
from ._shuffle import ShuffleParams, params_of
from ._table import KINDS, REQUEST, Config

Array = Any
"""What numpy makes an array of."""


NO_ARM = int(lib.DPB_NO_ARM)
"""In place of the arm of a decision: abstain is set, and no arm is to be played."""


class Decision(NamedTuple):
    """An arm that a bandit chose."""

    ticket: int
    """The name of this decision in update and cancel. It uses all 64 bits: JSON needs a string."""
    propensity: float
    """The probability of this arm given all released so far, for off-policy evaluation; NaN where it would reveal
    rewards, and for dp-linear without exploration."""
    arm: int
    """From 0; or ``NO_ARM``, and then the ticket is 0."""
    phase: int
    """The policy's number of its epoch, phase or interval."""


def _dtype(struct: str, left_out: tuple[str, ...] = ()) -> np.dtype[Any]:
    """A structure of numpy with the members of one of C."""
    kinds = {"double": "f8", "float": "f4", "uint64_t": "u8", "uint32_t": "u4", "size_t": "uintp", "int32_t": "i4"}
    members = [(name, member) for name, member in ffi.typeof(struct).fields if name not in left_out]
    return np.dtype({
        "names": [name for name, _ in members],
        "formats": [kinds.get(member.type.cname, "uintp") for _, member in members],
        "offsets": [member.offset for _, member in members],
        "itemsize": ffi.sizeof(struct),
    })


DECISION = _dtype("dpb_decision")
"""The dtype of Bandit.select_many: ticket, propensity, arm, phase."""
ARM = _dtype("dpb_arm", ("reserved", "spare"))
"""The dtype of Bandit.arms: mean, width, pulls, active, effective_pulls. ``mean`` is the released mean and ``width`` the
half-width of its confidence interval, both NaN before the first release."""
_REQUEST = _dtype("dpb_request")


def _config(config: Config) -> tuple[Any, list[Any]]:
    """The configuration of C, and what must live until it has been read."""
    c, kept = ffi.new("dpb_config *"), []
    arms, epsilon = integer("arms", config.arms, 32), real("epsilon", config.epsilon)
    lib.dpb_config_init_sized(c, ffi.sizeof("dpb_config"), arms, epsilon)
    for name, kind in KINDS.items():
        value = getattr(config, name)
        if kind.startswith("flag "):
            c.flags |= getattr(lib, kind[len("flag ") :]) if flag(name, value) else 0
        elif kind == "key":
            kept.append(seed(name, value))
            setattr(c, name, kept[-1])
        elif kind == "budget":
            if value is not None and not isinstance(value, Budget):
                raise TypeError(f"budget must be a dpb.Budget, got {value!r}")
            if value is not None and value.closed:
                raise InvalidConfigError("budget is closed")
            kept.append(ffi.NULL if value is None else value._c)
            setattr(c, name, kept[-1])
        elif kind == "codebook":
            if value is not None:
                kept.append(_book(value, config.features))
                c.codebook, c.codebook_len = ffi.from_buffer("float[]", kept[-1]), len(kept[-1])
        elif name == "base":
            c.base = policy_number(value, "base")
        elif name == "parts":
            weights = list(_parts(config).values())
            c.parts, c.part_weights = len(weights), weights[:8]
        elif kind == "feature_model":
            c.feature_model = flag(name, value)
        elif kind == "f64":
            setattr(c, name, real(name, value))
        else:
            setattr(c, name, integer(name, value, 64 if kind == "u64" else 32))
    return c, kept


def _book(rows: Any, features: int) -> np.ndarray[Any, Any]:
    """The rows of a codebook for C."""
    book = reals("codebook", rows, np.float32, InvalidConfigError, ndim=None)
    if book.ndim != 2 or book.shape[1] != features:
        raise InvalidConfigError(f"codebook must have rows of {features} features, got the shape {book.shape}")
    return book


def _parts(config: Config) -> dict[str, float]:
    """The weights of parts by name."""
    parts = {} if config.parts is None else config.parts
    if not isinstance(parts, Mapping) or not all(isinstance(name, str) for name in parts):
        raise TypeError(f"parts must be a mapping of names to weights, got {parts!r}")
    return {name: real(f"parts[{name!r}]", weight) for name, weight in parts.items()}


def _part(names: Sequence[str], part: str | int) -> int:
    """The number of a part."""
    if isinstance(part, str):
        if part not in names:
            raise InvalidConfigError(f"part must be one of {', '.join(map(repr, names))}, got {part!r}")
        return names.index(part)
    return integer("part", part, 32)


_C_OF = {"u32[]": "uint32_t[]", "f64[]": "double[]"}


def _array(name: str, value: Any) -> np.ndarray[Any, Any]:
    """A list of a request for C."""
    return integers(name, value, 32) if REQUEST[name] == "u32[]" else reals(name, value)


def _single(name: str, value: Any) -> np.ndarray[Any, Any]:
    """What requests have one of, for each of them or for all, for C."""
    return flags(name, value) if REQUEST[name] == "flag" else integers(name, value, ndim=None)


def _needed(c: Any) -> tuple[str, ...]:
    """What every request must have by this configuration of C: 0 is a segment and a user like any other."""
    fields = (("segment", c.max_segments), ("user", c.expected_users))
    return tuple(name for name, most in fields if most)


def _sparse(rows: Any) -> tuple[Any, Any]:
    """Sparse rows for C: a mapping, a sequence of them, or a matrix of scipy in CSR format."""
    if hasattr(rows, "indptr"):
        indices, values, ends = rows.indices, rows.data, integers("sparse", rows.indptr, 32)[1:].tolist()
    else:
        indices, values, ends = [], [], []
        for row in [rows] if isinstance(rows, Mapping) else rows:
            if not isinstance(row, Mapping):
                raise TypeError(f"a sparse row must be a mapping of indices to values, got {row!r}")
            indices += row.keys()
            values += row.values()
            ends.append(len(indices))
    of, parts = integers("sparse", indices, 32), reals("sparse", values, np.float32)
    return ffi.new("dpb_feature[]", list(zip(of.tolist(), parts.tolist()))), ffi.new("uint32_t[]", ends)


class Bandit(Handle):
    """Chooses an arm for each request, and learns from rewards which arm is best.

    Any number of threads may use a bandit. Calls release the GIL. It does not survive os.fork(): ForkedError. It can be
    pickled and copied if its policy has snapshots, unless it has a budget or expected_users. The copy is a second bandit: it
    continues from the snapshot, without the open decisions, and each of the two learns from what it decides.

    Args:
        config: the configuration; or give its fields as keywords: ``Bandit(arms=10, epsilon=1.0)``.
        policy: the name of a policy, one of dpb.POLICIES. None = what the library recommends for this configuration.
    """

    __slots__ = ("_has_budget", "_needs", "_part_names")

    def __init__(self, config: Config | None = None, policy: str | None = None, **given: Any) -> None:
        if config is None:
            config = Config(**given)
        elif given:
            raise TypeError(f"give a Config or its fields, not both: {', '.join(given)}")
        c, kept = _config(config)
        out, error = ffi.new("dpb_bandit **"), new_error()
        if policy is None:
            status = lib.dpb_new(c, out, error)
        else:
            policy_number(policy)
            status = lib.dpb_new_policy(policy.encode(), c, out, error)
        check(status, error)
        self._has_budget = config.budget is not None
        self._part_names = tuple(_parts(config))
        # An estimate of its memory, for collectors that do not count references.
        self._own(out[0], lib.dpb_free, 2000 + 12 * (c.pending_capacity + c.reward_window) + 600 * c.arms)
        self._needs = _needed(c)
        del kept
        if config.test_seed is not None:
            warnings.warn("test_seed: this bandit is reproducible, and NOT private", NotPrivateWarning, stacklevel=2)

    @classmethod
    def restore(cls, snapshot: bytes, config: Config | None = None, policy: str | None = None) -> Bandit:
        """Makes a bandit that continues from a snapshot, with fresh entropy.

        With a ``config`` it takes from that all that does not change the meaning of what was released, such as
        reward_window; the other fields must be as in the snapshot, or InvalidConfigError names one. The decisions that
        were open have expired. With expected_users a new period begins, and select raises NotReadyError until you have
        written a snapshot of the new bandit and called stored.
        """
        buf = ffi.from_buffer("uint8_t[]", snapshot)
        out, error, needs = ffi.new("dpb_bandit **"), new_error(), None
        if config is None:
            if policy is not None:
                raise TypeError("a policy needs a config: a snapshot names its own")
            check(lib.dpb_restore(buf, len(buf), out, error), error)
        else:
            policy_number(policy)
            c, kept = _config(config)
            name = ffi.NULL if policy is None else policy.encode()
            check(lib.dpb_restore_as(name, c, buf, len(buf), out, error), error)
            needs = _needed(c)
            del kept
        return cls._continued(out[0], len(buf), config, needs)

    @classmethod
    def resume(cls, state: bytes, config: Config) -> Bandit:
        """Makes a bandit that continues from what another one's suspend returned, as if that one had never ended.

        ``config`` needs the fleet_key. A state at rest is held: until claimed every call but report raises NotReadyError.
        """
        buf = ffi.from_buffer("uint8_t[]", state)
        out, error = ffi.new("dpb_bandit **"), new_error()
        c, kept = _config(config)
        check(lib.dpb_resume(ffi.NULL, c, buf, len(buf), out, error), error)
        needs = _needed(c)
        del kept
        return cls._continued(out[0], len(buf), config, needs)

    @classmethod
    def _continued(cls, c: Any, length: int, config: Config | None, needs: tuple[str, ...] | None) -> Bandit:
        bandit = cls.__new__(cls)
        bandit._own(c, lib.dpb_free, (1 << 16) + 16 * length)
        bandit._has_budget = config is not None and config.budget is not None
        bandit._needs = bandit._probed() if needs is None else needs
        bandit._part_names = () if config is None else tuple(_parts(config))
        return bandit

    @classmethod
    def _of_node(cls, c: Any, node: Any, needs: tuple[str, ...], config: Config) -> Bandit:
        """A bandit that its node frees, which lives as long."""
        bandit = cls.__new__(cls)
        bandit._own(c, lambda _, kept=node: None)
        bandit._has_budget, bandit._needs = config.budget is not None, needs
        bandit._part_names = tuple(_parts(config))
        return bandit

    def __enter__(self) -> Bandit:
        return self

    def __reduce_ex__(self, _: Any) -> Any:
        # The budget would not know the copy, whose counters of users would not know what this one has counted.
        if self._has_budget or "user" in self._needs:
            raise TypeError(
                "a Bandit with a budget or expected_users cannot be copied or pickled, because the copy would be a second "
                "bandit for the same people: use snapshot and, when this one has ended, restore"
            )
        return (_restored, (type(self), self.snapshot(), self._part_names))

    def __repr__(self) -> str:
        if self.closed:
            return "<dpb.Bandit, closed>"
        try:
            report = self.report()
        except Error as error:
            return f"<dpb.Bandit: {error}>"
        private = "" if report.is_private else ", NOT private"
        return (
            f"<dpb.Bandit {report.policy}: {report.arms_active} arms, {report.decisions} decisions, "
            f"epsilon {report.epsilon_spent:g} spent{private}>"
        )

    # Decisions and rewards.

    # begin generated select
    @overload
    def select(
        self,
        *,
        slots: None = None,
        segment: int | None = None,
        user: int | None = None,
        eligible: Sequence[int] | Array | None = None,
        values: Sequence[float] | Array | None = None,
        costs: Sequence[float] | Array | None = None,
        abstain: bool | None = None,
        examined: Sequence[float] | Array | None = None,
        features: Array | None = None,
        sparse: Any = None,
    ) -> Decision: ...

    @overload
    def select(
        self,
        *,
        slots: int,
        segment: int | None = None,
        user: int | None = None,
        eligible: Sequence[int] | Array | None = None,
        values: Sequence[float] | Array | None = None,
        costs: Sequence[float] | Array | None = None,
        abstain: bool | None = None,
        examined: Sequence[float] | Array | None = None,
        features: Array | None = None,
        sparse: Any = None,
    ) -> list[Decision]: ...

    def select(
        self,
        *,
        slots: int | None = None,
        segment: int | None = None,
        user: int | None = None,
        eligible: Sequence[int] | Array | None = None,
        values: Sequence[float] | Array | None = None,
        costs: Sequence[float] | Array | None = None,
        abstain: bool | None = None,
        examined: Sequence[float] | Array | None = None,
        features: Array | None = None,
        sparse: Any = None,
    ) -> Decision | list[Decision]:
        """Chooses an arm. All arguments are public: compute nothing in them from rewards.

        Args:
            slots: the number of different arms to choose; then the result is a list of decisions, each with a ticket.
            segment: With max_segments: the key of the request's segment, such as the placement's number or a
                hash of its name. The first request with a new key creates that segment. Otherwise 0.
            user: With expected_users: a keyed hash of the person who makes the request. Otherwise 0.
            eligible: None, the default = all live arms. Otherwise a list of live arms, in any order; one listed
                twice counts once. Choose them by public information only (targeting, flights, frequency caps). A
                remaining click budget depends on rewards, so do not filter by it.
            values: None, the default = a reward is worth the same for all arms. Otherwise what a reward of each
                eligible arm is worth in this request, in that order: a bid, a price, a margin; without eligible,
                for every arm by its number (those of retired arms are not read). Finite, at least 0. The handle
                then maximises value times mean, and still learns means: reports, Bandit.predict and rewards stay in
                their own units. An arm whose value is below 2^-20 of the largest is not eligible. eligible must
                name no arm twice, and reward_min must be 0. Log the values with the decision: its propensity is
                exact given them. Do not compute a value from rewards: spend, real clicks and a model of your clicks
                are made of them. A high value buys pulls: an arm with K times the value of the best one is pulled
                until its mean is known to be below 1/K of that one's, rewards or not, so limit ratios to about 100.
            costs: None, the default = nothing costs anything. Otherwise what it costs to play each arm in this
                request, whatever its reward is, in the order of values and in the same unit: the price of a model's
                answer, of a place, of a delay. Without values they are 1. Finite; below 0 it is a gain. The handle
                then maximises the worth of an arm, value times mean minus cost. A cost is at most 2^20 times the
                largest value times reward_max, and reward_min must be 0. Log the costs too, and do not compute one
                from rewards. The worth of an arm of value 0 is known: it is minus its cost. A request of one slot
                considers the best of these arms, a request of several slots none. Not with examined.
            abstain: Whether the request may get no arm, while no arm seems to be worth more than 0. The
                decision then has the arm NO_ARM and the ticket 0: there is nothing to report. It counts as one that
                was cancelled at once, and not as one of its user. Arms that may still be worth something are tried
                now and then. For requests of one slot, and for policies that take values.
            examined: None, the default = visitors examine all slots alike. Otherwise for each slot the
                probability that a visitor examines it, from 2^-16 to 1. The slots then get the arms in the order of
                value times mean: the best arm where most visitors look; arms without a mean, and ties, at random.
                The handle learns click rates: the mean of an arm is its chance of a click in a slot that is
                examined, and effective_pulls and the sizes of batches count examinations. reward_min must be 0.
                Public: estimate the probabilities from slots filled at random, once, and not from the order that
                this handle has chosen. The first such request allocates 2 bytes for each open decision. For dp-imed
                without max_segments.
            features: with features = d, float32 of shape (d,) with model_per_arm, else (arms, d), a row for each
                eligible arm. A contiguous array of float32 is not copied.
            sparse: the same rows as mappings of indices to values: one, or a sequence; or a CSR matrix of scipy.
        """
        given = {
            "segment": segment,
            "user": user,
            "eligible": eligible,
            "values": values,
            "costs": costs,
            "abstain": abstain,
            "examined": examined,
            "features": features,
            "sparse": sparse,
        }
        # end generated select
        if slots is None and not self._needs and all(each is None for each in given.values()):
            one = ffi.new("dpb_decision *")
            status = lib.dpb_select(self._c, one)
            if status:
                self._refuse(status, ffi.NULL)
            return Decision(one.ticket, one.propensity, one.arm, one.phase)
        request, kept = self._asked(slots, given)
        # More than the arms is refused, and must not be allocated before.
        out = ffi.new("dpb_decision[]", min(request.slots, 1 << 24))
        status = lib.dpb_select_for(self._c, request, out)
        if status:
            self._refuse(status, request)
        del kept
        decisions = [Decision(one.ticket, one.propensity, one.arm, one.phase) for one in out]
        return decisions[0] if slots is None else decisions

    def _probed(self) -> tuple[str, ...]:
        """What every request to a restored bandit must have. Its snapshot has the configuration, which C does not return,
        but a bandit that counts no users says so before it reads anything else of a request."""
        request = ffi.new("dpb_request *")
        lib.dpb_request_init_sized(request, ffi.sizeof("dpb_request"))
        request.user, request.slots = 1, 0
        counts = bool(lib.dpb_request_check(self._c, request, ffi.NULL) != lib.DPB_UNSUPPORTED)
        return ("segment",) * (self.report().max_segments > 0) + ("user",) * counts

    def _require(self, given: Mapping[str, Any]) -> None:
        for name in self._needs:
            if given[name] is None and not self.closed:
                field = {"segment": "max_segments", "user": "expected_users"}[name]
                raise UnsupportedError(f"{name} must be given, because {field} is set")

    def _asked(self, slots: Any, given: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """A request of select and check, and what must live as long."""
        self._require(given)
        request, kept = self._request(given)
        request.slots = 1 if slots is None else integer("slots", slots, 32, InvalidRequestError)
        return request, kept

    def _request(self, given: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        request, kept = ffi.new("dpb_request *"), []
        lib.dpb_request_init_sized(request, ffi.sizeof("dpb_request"))
        for name, kind in REQUEST.items():
            value = given.get(name)
            if value is None:
                continue
            if kind == "flag":
                setattr(request, name, flag(name, value))
            elif kind.endswith("[]"):
                kept.append(ffi.from_buffer(_C_OF[kind], _array(name, value)))
                setattr(request, name, kept[-1])
                setattr(request, f"{name}_len", len(kept[-1]))
            else:
                setattr(request, name, integer(name, value, int(kind[1:]), InvalidRequestError))
        features, sparse = given.get("features"), given.get("sparse")
        if features is not None:
            rows = ffi.from_buffer("float[]", reals("features", features, np.float32, ndim=None))
            request.features, request.features_len = rows, len(rows)
            kept.append(rows)
        if sparse is not None:
            if features is not None:
                raise InvalidRequestError("give features or sparse, not both")
            entries, ends = _sparse(sparse)
            request.sparse, request.features_len = entries if len(entries) else ffi.NULL, len(entries)
            request.sparse_ends, request.sparse_ends_len = ends, len(ends)
            kept += [entries, ends]
        return request, kept

    def _explain(self, status: int, request: Any) -> Error:
        """Why a request was refused, in words that name the field and the value."""
        if request == ffi.NULL:
            request = ffi.new("dpb_request *")
            lib.dpb_request_init_sized(request, ffi.sizeof("dpb_request"))
        error = new_error()
        found = lib.dpb_request_check(self._c, request, error)
        # Without features dpb_select names no field, and the check does.
        same = found == status or (status == lib.DPB_UNSUPPORTED and found == lib.DPB_INVALID_REQUEST)
        return refusal(found if same else status, ffi.string(error.message).decode("utf-8", "replace") if same else "")

    def _refuse(self, status: int, request: Any) -> NoReturn:
        if status in (InvalidRequestError.status, lib.DPB_UNSUPPORTED, lib.DPB_FULL, lib.DPB_NOT_READY):
            raise self._explain(status, request)
        self._fail(status)

    # begin generated select_many
    def select_many(
        self,
        n: int | None = None,
        *,
        slots: int = 1,
        segment: Array | None = None,
        user: Array | None = None,
        eligible: Array | None = None,
        values: Array | None = None,
        costs: Array | None = None,
        abstain: Array | None = None,
        examined: Array | None = None,
        features: Array | None = None,
    ) -> np.ndarray[Any, Any]:
        """Decides n requests under one lock, until one is refused.

        Args:
            n: the number of requests; it follows from the lengths of the other arguments.
            slots: the number of different arms for each request.
            features: float32 of shape (n, d) with model_per_arm, else (n, arms, d). Not copied if contiguous.
            The others are those of select: a number, or an array of n; one list for all requests, or a list for each.

        Returns:
            A structured array of dpb.DECISION, of shape (n,), or (n, slots) with slots > 1.

        Raises:
            Error: of the first refused request. Its ``decisions`` are those made before.
        """
        given = {
            "segment": segment,
            "user": user,
            "eligible": eligible,
            "values": values,
            "costs": costs,
            "abstain": abstain,
            "examined": examined,
        }
        # end generated select_many
        lists = {name: each for name, each in given.items() if each is not None and REQUEST[name].endswith("[]")}
        single = [name for name in given if not REQUEST[name].endswith("[]")]
        keys = {name: _single(name, given[name]) for name in single if given[name] is not None}
        if any(value.ndim > 1 for value in keys.values()):
            raise InvalidRequestError(f"{' and '.join(single)} must be numbers, or arrays of one dimension")
        lengths = {name: len(value) for name, value in keys.items() if value.ndim}
        rows: np.ndarray[Any, Any] | None = None
        if features is not None:
            rows = reals("features", features, np.float32, ndim=None)
            lengths["features"] = len(rows) if rows.ndim else 0
        several = {name for name, each in lists.items() if len(each) > 0 and is_row(next(iter(each)))}
        lengths.update({name: len(lists[name]) for name in several})
        if n is not None:
            lengths["n"] = integer("n", n, error=InvalidRequestError)
        slots = integer("slots", slots, 32, InvalidRequestError)
        if len(set(lengths.values())) != 1:
            raise InvalidRequestError(f"the number of requests must be given, and the same everywhere, got {lengths}")
        n = next(iter(lengths.values()))
        self._require(given)
        if not 0 < slots < 1 << 24:
            raise InvalidRequestError(f"slots must be in 1 .. 2^24, got {slots}")
        out, done = np.empty((n, slots), DECISION), ffi.new("size_t *")
        requests, kept = ffi.NULL, []
        if slots != 1 or keys or lists or rows is not None:
            one = ffi.new("dpb_request *")
            lib.dpb_request_init_sized(one, ffi.sizeof("dpb_request"))
            table = np.empty(n, _REQUEST)
            table[:] = np.frombuffer(ffi.buffer(one), _REQUEST)
            table["slots"] = slots
            for name, value in keys.items():
                table[name] = value
            for name, each in lists.items():
                rows_of = each if name in several else [each]
                parts = [_array(name, row) for row in rows_of]
                flat = np.concatenate(parts) if parts else np.empty(0)
                sizes = np.array([len(part) for part in parts], np.uintp)
                table[name] = flat.ctypes.data + flat.itemsize * (np.cumsum(sizes) - sizes)
                table[f"{name}_len"] = sizes
                kept.append(flat)
            if rows is not None and n:
                table["features"] = rows.ctypes.data + rows.strides[0] * np.arange(n, dtype=np.uintp)
                table["features_len"] = rows.size // n
            requests = ffi.from_buffer("dpb_request[]", table)
        status = lib.dpb_select_many(self._c, requests, n, ffi.from_buffer("dpb_decision[]", out), done)
        out = out[:, 0] if slots == 1 else out
        if status:
            try:
                self._refuse(status, ffi.NULL if requests == ffi.NULL else requests + done[0])
            except Error as error:
                error.decisions = out[: done[0]]  # type: ignore[attr-defined]
                raise
        del kept, rows
        return out

    # begin generated check
    def check(
        self,
        *,
        slots: int | None = None,
        segment: int | None = None,
        user: int | None = None,
        eligible: Sequence[int] | Array | None = None,
        values: Sequence[float] | Array | None = None,
        costs: Sequence[float] | Array | None = None,
        abstain: bool | None = None,
        examined: Sequence[float] | Array | None = None,
        features: Array | None = None,
        sparse: Any = None,
    ) -> None:
        """Raises the error with which select would refuse a request now. Changes and counts nothing."""
        given = {
            "segment": segment,
            "user": user,
            "eligible": eligible,
            "values": values,
            "costs": costs,
            "abstain": abstain,
            "examined": examined,
            "features": features,
            "sparse": sparse,
        }
        # end generated check
        request, kept = self._asked(slots, given)
        error = new_error()
        self._check(lib.dpb_request_check(self._c, request, error), error)
        del kept

    def update(self, ticket: int, reward: float, part: str | int | None = None) -> None:
        """Reports the reward of a decision, once for each ticket, in [reward_min, reward_max].

        With parts: a part of it, each part once for each ticket, in the part's own unit and of any sign. ``part`` is its
        name, or its number from 0; None = the first one. A bandit that was restored without a config knows numbers only.

        The error reveals whether the ticket had a reward before. Give a visitor the same reply whatever it is.
        """
        value = real("reward", reward, InvalidRewardError)
        if part is None:
            status = lib.dpb_update(self._c, _ticket(ticket), value)
        else:
            status = lib.dpb_update_part(self._c, _ticket(ticket), _part(self._part_names, part), value)
        if status:
            self._fail(status)

    def update_many(self, tickets: Array, rewards: Array) -> None:
        """Reports the rewards of many decisions under one lock. Every reward is tried, even if earlier ones are refused.

        Args:
            tickets: n integers of 64 bits. rewards: n numbers. Arrays of uint64 and float64 are not copied.

        Raises:
            Error: of the first refused reward. Its ``statuses`` are those of all n, 0 for an accepted one.
        """
        tickets = integers("tickets", tickets)
        rewards = reals("rewards", rewards, error=InvalidRewardError)
        if tickets.shape != rewards.shape:
            raise InvalidConfigError(f"tickets and rewards must be as many, got {tickets.shape} and {rewards.shape}")
        statuses, done = np.zeros(tickets.size, np.int32), ffi.new("size_t *")
        status = lib.dpb_update_many(
            self._c,
            ffi.from_buffer("uint64_t[]", tickets),
            ffi.from_buffer("double[]", rewards),
            tickets.size,
            ffi.from_buffer("dpb_status[]", statuses),
            done,
        )
        if status:
            try:
                self._fail(status)
            except Error as error:
                error.statuses = statuses  # type: ignore[attr-defined]
                raise

    def cancel(self, ticket: int) -> None:
        """Cancels a decision: it counts as not played. The reason and the time must not depend on the reward."""
        status = lib.dpb_cancel(self._c, _ticket(ticket))
        if status:
            self._fail(status)

    def cancel_all(self) -> None:
        """Cancels every open decision, also one whose reward waits: in an outage in which rewards could not arrive."""
        self._check(lib.dpb_cancel_all(self._c))

    def advance(self, now: int) -> None:
        """Sets the time of a bandit with Clock.CALLER. Rewards whose window is over take effect. Time is public: never
        call this because of a reward."""
        self._check(lib.dpb_advance(self._c, integer("now", now)))

    def skip(self, ticks: int) -> None:
        """Lets ticks pass without decisions, in a bandit that decides nothing more: its windows end. Ticks must not
        depend on rewards."""
        self._check(lib.dpb_skip(self._c, integer("ticks", ticks)))

    def next_period(self) -> None:
        """With expected_users: begins a new period. The bandit learns from nobody in it until a snapshot is stored."""
        self._check(lib.dpb_next_period(self._c))

    # Arms.

    def add_arm(self, id: int = 0) -> int:
        """Adds an arm, and returns its number. ``id`` names the arm in all bandits of a fleet; 0 = only this one has it."""
        arm, error = ffi.new("uint32_t *"), new_error()
        self._check(lib.dpb_add_arm(self._c, integer("id", id), arm, error), error)
        return int(arm[0])

    def retire_arm(self, arm: int) -> None:
        """Retires an arm: it is never played again."""
        self._check(lib.dpb_retire_arm(self._c, self._arm(arm)))

    def set_prior(self, arm: int, mean: float, strength: float) -> None:
        """States what public data say of an arm: ``strength`` rewards (1 .. 2^24) with this mean."""
        error = new_error()
        numbers = real("mean", mean), real("strength", strength)
        self._check(lib.dpb_set_prior(self._c, self._arm(arm), *numbers, error), error)

    @staticmethod
    def _arm(arm: int) -> int:
        return integer("arm", arm, 32, InvalidRequestError)

    # What the bandit has learned and spent. All but diagnostics is released, so reading costs no privacy.

    @property
    def policy(self) -> str:
        """The name of the policy; "" once closed."""
        return str(ffi.string(lib.dpb_policy_name(self._c)).decode())

    def report(self) -> Report:
        """The public state."""
        c = ffi.new("dpb_report *")
        c.struct_size = ffi.sizeof("dpb_report")
        self._check(lib.dpb_report_read(self._c, c))
        return Report._of(c)

    def verdict(self) -> Verdict:
        """What the test of dp-tt says. While it goes on this takes some milliseconds."""
        c = ffi.new("dpb_verdict *")
        c.struct_size = ffi.sizeof("dpb_verdict")
        self._check(lib.dpb_verdict_read(self._c, c))
        return Verdict._of(c)

    def diagnostics(self) -> Diagnostics:
        """Counts of refused calls. This is the only read that is NOT private."""
        c = ffi.new("dpb_diagnostics *")
        c.struct_size = ffi.sizeof("dpb_diagnostics")
        self._check(lib.dpb_diagnostics_read(self._c, c))
        return Diagnostics._of(c)

    def _arms(self, read: Any) -> np.ndarray[Any, Any]:
        n, arms = ffi.new("size_t *"), np.empty(0, ARM)
        while True:
            status = read(ffi.from_buffer("dpb_arm[]", arms), len(arms), n)
            if status != lib.DPB_BUFFER_TOO_SMALL:
                break
            arms = np.empty(n[0], ARM)
        self._check(status)
        return arms[: n[0]]

    def arms(self) -> np.ndarray[Any, Any]:
        """The public state of all arms by number, as an array of dpb.ARM."""
        return self._arms(lambda out, room, n: lib.dpb_arms_read(self._c, out, room, n))

    def segment(self, key: int) -> np.ndarray[Any, Any]:
        """The arms of one segment, as an array of dpb.ARM: ``mean`` is the prediction, ``width`` NaN."""
        key = integer("segment", key, error=InvalidRequestError)
        return self._arms(lambda out, room, n: lib.dpb_segment_read(self._c, key, out, room, n))

    def predict(
        self, *, features: Array | None = None, sparse: Any = None, eligible: Sequence[int] | Array | None = None
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """With features: the predicted mean reward of each eligible arm, and its standard deviation."""
        request, kept = self._request({"eligible": eligible, "features": features, "sparse": sparse})
        n = ffi.new("size_t *")
        mean = deviation = np.empty(0)
        while True:
            to = [ffi.from_buffer("double[]", array) for array in (mean, deviation)]
            status = lib.dpb_predict(self._c, request, *to, len(mean), n)
            if status != lib.DPB_BUFFER_TOO_SMALL:
                break
            mean, deviation = np.empty(n[0]), np.empty(n[0])
        if status:
            self._refuse(status, request)
        del kept
        return mean[: n[0]], deviation[: n[0]]

    def weights(self, **request: Any) -> np.ndarray[Any, Any]:
        """The probability of each arm in the next decision of a request, as integers that sum to 2^32, by the arm's number.

        The request is as for select, of one slot. An arm that the decision cannot have has 0. Costs no privacy, changes
        nothing. UnsupportedError for policies that plan single decisions: dp-med and dp-linear have weights.
        """
        asked, kept = self._request(self._known(request))
        n, weights, error = ffi.new("size_t *"), np.empty(0, np.uint64), new_error()
        while True:
            to = ffi.from_buffer("uint64_t[]", weights)
            status = lib.dpb_weights(self._c, asked, to, len(weights), n, error)
            if status != lib.DPB_BUFFER_TOO_SMALL:
                break
            weights = np.empty(n[0], np.uint64)
        self._check(status, error)
        del kept
        return weights[: n[0]]

    @staticmethod
    def _known(request: Mapping[str, Any]) -> Mapping[str, Any]:
        unknown = set(request) - {*REQUEST, "features", "sparse"}
        if unknown:
            raise TypeError(f"unknown fields of a request: {', '.join(sorted(unknown))}")
        return request

    def table_begin(self, grace: int) -> int:
        """Begins a version of this bandit's table. The one before it closes after ``grace`` more ticks: see publish."""
        version, error = ffi.new("uint64_t *"), new_error()
        self._check(lib.dpb_table_begin(self._c, integer("grace", grace), version, error), error)
        return int(version[0])

    def publish(
        self,
        name: str,
        *,
        arms: Sequence[str] | None = None,
        contexts: Mapping[str, Mapping[str, Any]] | None = None,
        until: int | None = None,
        grace: int = 0,
    ) -> DecisionTable:
        """Begins a version of this bandit's table, and returns it: ``str()`` of it is the JSON to publish.

        Args:
            name: of the table. arms: the names of all arms; None = their numbers. contexts: the arguments of weights for
            each context; "", the default, has none if it is not here. until: the planned end, in milliseconds since
            1970. grace: for how many ticks of the bandit's clock the version before it may still be recorded.
        """
        return published(self, name, arms, contexts or {}, until, grace)

    def record(
        self,
        version: int,
        id: int,
        arm: int,
        *,
        segment: int | None = None,
        user: int | None = None,
        features: Array | None = None,
        sparse: Any = None,
    ) -> Decision:
        """Records a decision that was made elsewhere, by a version of this bandit's table, once whatever is repeated.

        It becomes an open decision like any other; a repeat of an id returns the same one until it ends. Record each
        decision that was shown, and no other: which ones must not depend on rewards.

        Raises:
            ExpiredError: a version that is closed, or not of this life of this bandit. DuplicateError: the decision of
            the id has ended. FullError: table_capacity. Other errors are those of select.
        """
        given = {"segment": segment, "user": user, "features": features, "sparse": sparse}
        asked, kept = self._request({**given, "eligible": [self._arm(arm)]})
        out = ffi.new("dpb_decision *")
        status = lib.dpb_record(self._c, integer("version", version), integer("id", id), asked, out)
        if status in (InvalidRequestError.status, lib.DPB_UNSUPPORTED, lib.DPB_NOT_READY):
            self._refuse(status, asked)
        self._check(status)
        del kept
        return Decision(out.ticket, out.propensity, out.arm, out.phase)

    def find(self, version: int, id: int) -> Decision:
        """The decision of an id that was recorded, for a reward that names the id: pass its ticket to update.

        UnknownTicketError for an id that is not recorded (yet); DuplicateError if its decision has ended; ExpiredError for
        an unknown id of a version that is closed.
        """
        out = ffi.new("dpb_decision *")
        self._check(lib.dpb_find(self._c, integer("version", version), integer("id", id), out))
        return Decision(out.ticket, out.propensity, out.arm, out.phase)

    def feature_weights(self, arm: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """With features: the weight of each feature in the model of an arm, and its standard deviation; the intercept last.

        A weight is the change of the logit of the mean reward for one unit of the feature. With one model for all arms every
        arm has its weights.
        """
        n = ffi.new("size_t *")
        mean = deviation = np.empty(0)
        while True:
            to = [ffi.from_buffer("double[]", array) for array in (mean, deviation)]
            status = lib.dpb_feature_weights(self._c, self._arm(arm), *to, len(mean), n)
            if status != lib.DPB_BUFFER_TOO_SMALL:
                break
            mean, deviation = np.empty(n[0]), np.empty(n[0])
        self._check(status)
        return mean[: n[0]], deviation[: n[0]]

    def compare(self, i: int, j: int, confidence: float = 0.95) -> tuple[float, float]:
        """A confidence interval for the mean of arm i minus that of arm j, valid at all times together."""
        low, high = ffi.new("double *"), ffi.new("double *")
        self._check(lib.dpb_compare(self._c, self._arm(i), self._arm(j), real("confidence", confidence), low, high))
        return float(low[0]), float(high[0])

    def lift(self, control: int | None = None, confidence: float = 0.95) -> tuple[float, float]:
        """What the policy has gained, as a confidence interval that is valid at all times: (0.12, 0.19) is 12% to 19% better.

        It is the mean reward of the decisions so far, divided by that of a control, minus 1. The control is an arm, or an
        even draw of all arms that are not retired (None). The upper end is infinite if the control's mean may be 0. With
        features it needs ``exploration``, and compares samples of the policy's own decisions and of even draws.
        """
        arm = lib.DPB_NO_ARM if control is None else integer("control", control, 32, InvalidRequestError)
        low, high = ffi.new("double *"), ffi.new("double *")
        self._check(lib.dpb_lift(self._c, arm, real("confidence", confidence), low, high))
        return float(low[0]), float(high[0])

    def best_arm(self) -> int:
        """The arm that the policy decided for; NotReadyError until it has."""
        arm = ffi.new("uint32_t *")
        self._check(lib.dpb_best_arm(self._c, arm))
        return int(arm[0])

    def epsilon_spent(self, delta: float = 0.0) -> float:
        """An upper bound of the privacy loss of one user so far, at this delta in [0, 1)."""
        epsilon = ffi.new("double *")
        self._check(lib.dpb_epsilon_spent(self._c, real("delta", delta), epsilon))
        return float(epsilon[0])

    def statement(self) -> dict[str, Any]:
        """What the bandit guarantees, in the fields of the public registry of deployments of differential privacy.

        ``deployment`` has the fields of the registry, None where only you know them; ``libdpb`` has the versions and what
        is spent. All of it is public. :meth:`statement_text` is a page for a privacy officer.
        """
        stated: dict[str, Any] = json.loads(self._bytes(lib.dpb_statement, lib.DPB_STATEMENT_JSON))
        return stated

    def statement_text(self) -> str:
        """The statement as a page of prose for a privacy officer."""
        return self._bytes(lib.dpb_statement, lib.DPB_STATEMENT_PROSE).decode()

    # Lives and fleets.

    def snapshot(self) -> bytes:
        """What the bandit has released, and what is public: no raw sum, no reward, no open decision."""
        return self._bytes(lib.dpb_snapshot)

    def stored(self, snapshot: bytes) -> None:
        """Says that a snapshot of this very bandit is stored: from now on a restart finds it or a later one.

        Call it after each write that is durable: for a file after os.fsync, os.replace, and os.fsync of the directory.
        With expected_users the bandit learns only in periods that are stored, and in the first one of a new bandit. If
        your program stores nothing, so that a restart makes another bandit, pass a snapshot that you drop.
        """
        self._send(lib.dpb_stored, snapshot)

    def suspend(self, receiver: int = 0) -> bytes:
        """Ends this bandit, and returns its whole state, sealed by fleet_key, for one other bandit to continue from.

        ``receiver``: a number of a bandit's receiver in the process that resumes, or 0 for a state at rest. One bandit at
        most may continue from a state: if two do, a reward that was open in it loses its epsilon twice.
        """
        return self._bytes(lib.dpb_suspend, integer("receiver", receiver))

    def claimed(self) -> None:
        """Ends the hold of a bandit that continues from a state at rest, once no other bandit can."""
        self._check(lib.dpb_claimed(self._c))

    def receiver(self) -> int:
        """Draws a number that one state may be addressed to, and be resumed in this process."""
        number, error = ffi.new("uint64_t *"), new_error()
        self._check(lib.dpb_receiver(self._c, number, error), error)
        return int(number[0])

    def merge(self, snapshot: bytes) -> None:
        """Learns from what another bandit has released. A repeated or older snapshot changes nothing."""
        self._send(lib.dpb_merge, snapshot)

    def lead(self) -> int:
        """Makes this bandit the leader of its fleet, which needs a fleet_key. Returns its generation."""
        generation, error = ffi.new("uint64_t *"), new_error()
        self._check(lib.dpb_lead(self._c, generation, error), error)
        return int(generation[0])

    def alone(self) -> None:
        """Ends contributing and leading."""
        error = new_error()
        self._check(lib.dpb_alone(self._c, error), error)

    def set_handles(self, handles: int) -> None:
        """Tells the bandit how many bandits share the work of a fleet with one noise; 0: as many as it has merged."""
        error = new_error()
        self._check(lib.dpb_set_handles(self._c, integer("handles", handles, 32), error), error)

    def contribution(self, generation: int) -> bytes:
        """Takes all open sums out of this bandit, sealed for the leader of this generation; b"" for nothing."""
        return self._bytes(lib.dpb_contribution, integer("generation", generation))

    def combine(self, contribution: bytes) -> None:
        """Adds a contribution to the open batches of this bandit, which leads."""
        self._send(lib.dpb_combine, contribution)

    def seal(self, message: bytes) -> bytes:
        """Seals a message for the bandits of the fleet. Give all messages one length."""
        buf = ffi.from_buffer("uint8_t[]", message)
        return self._bytes(lib.dpb_seal, buf, len(buf))

    def open(self, sealed: bytes) -> bytes:
        """Opens a message that seal made at a bandit with the same fleet_key."""
        buf = ffi.from_buffer("uint8_t[]", sealed)
        return self._bytes(lib.dpb_open, buf, len(buf))

    def _bytes(self, function: Any, *arguments: Any) -> bytes:
        c = self._c
        status, found, error = bytes_of(lambda buf, room, n, error: int(function(c, *arguments, buf, room, n, error)))
        self._check(status, error)
        return found

    def _send(self, function: Any, data: bytes) -> None:
        buf, error = ffi.from_buffer("uint8_t[]", data), new_error()
        self._check(function(self._c, buf, len(buf), error), error)

    # The shuffle model.

    def shuffle_params(self, phase: int) -> ShuffleParams:
        """The plan of a phase's batches."""
        out = ffi.new("dpb_shuffle_params *")
        phase = integer("phase", phase, 32)
        self._check(lib.dpb_shuffle_params_read(self._c, phase, out))
        return params_of(out)

    def submit_shuffled(self, phase: int, arm: int, batch: bytes) -> None:
        """Gives the server one arm's shuffled batch of the open phase, once."""
        phase = integer("phase", phase, 32)
        bits = ffi.from_buffer("uint8_t[]", batch)
        self._check(lib.dpb_submit_shuffled(self._c, phase, self._arm(arm), bits, len(bits)))


def _restored(kind: type[Bandit], snapshot: bytes, part_names: tuple[str, ...] = ()) -> Bandit:
    bandit = kind.restore(snapshot)
    bandit._part_names = part_names
    return bandit


def _ticket(ticket: int) -> int:
    return integer("ticket", ticket, error=UnknownTicketError)


def ticket_node(ticket: int) -> int:
    """The node that issued a ticket, which is its top 16 bits: see Config.node."""
    return int(lib.dpb_ticket_node(_ticket(ticket)))


def feature_hash(field: str, value: str, d: int) -> int:
    """The index of a category, for one-hot features: the CRC-32 of "field=value", modulo d. A NUL is refused, because C's
    text ends there."""
    for name, text in (("field", field), ("value", value)):
        if "\0" in text:
            raise InvalidRequestError(f"{name} must have no NUL, got {text!r}")
    return int(lib.dpb_feature_hash(str.encode(field), str.encode(value), integer("d", d, 32, InvalidRequestError)))


def codebook(rows: Any, size: int, features: int | None = None) -> np.ndarray[Any, Any]:
    """A codebook for Config.codebook: ``size`` means of public rows, by k-means, the same for the same rows.

    The rows must be public: old, synthetic or enumerated ones, never those of people whom the bandit protects. Without
    rows (None) it is the 2 ``features`` signed unit vectors, which lose more.
    """
    if rows is None:
        rows = np.empty((0, integer("features", features, 32)), np.float32)
    found = reals("rows", rows, np.float32, InvalidConfigError, ndim=None)
    if found.ndim != 2 or found.shape[1] > 256 or features not in (None, found.shape[1]):
        raise InvalidConfigError(f"rows must be a table with a column for each feature, got the shape {found.shape}")
    (n, d), s = found.shape, integer("size", size, 32)
    if s > 65536:
        raise InvalidConfigError(f"size must be at most 65536, got {s}")
    book, error = np.empty((s, d), np.float32), new_error()
    given, out = ffi.from_buffer("float[]", found), ffi.from_buffer("float[]", book, require_writable=True)
    check(lib.dpb_codebook(given, n, d, s, out, error), error)
    return book


def feature_cross(a: int, b: int, d: int) -> int:
    """The index of two categories that come together, modulo d."""
    numbers = (integer(name, number, 32, InvalidRequestError) for name, number in (("a", a), ("b", b), ("d", d)))
    return int(lib.dpb_feature_cross(*numbers))
