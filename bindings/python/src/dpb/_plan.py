"""What would privacy cost? Simulates a service, or replays its log."""

from __future__ import annotations

import html
import json
import os
import re
import sys
import threading
import warnings
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from ._convert import integer, real, reals
from ._library import InvalidConfigError, PoisonedError, ffi, lib

Array = Any


class Table(Sequence["dict[str, Any]"]):
    """Rows of numbers, each a dict. It shows itself as a table, here and in a notebook."""

    def __init__(self, title: str, found: dict[str, Any], columns: str, label: str) -> None:
        self.title = title
        self.columns = columns.split()
        """The names of the columns. The third is the one to plot, the fourth its error."""
        self.rows: list[dict[str, Any]] = [{name: row[name] for name in self.columns} for row in found["rows"]]
        self.notes: list[str] = found["notes"]
        """What to know of the rows: policies that were left out, and reasons to doubt."""
        self._label = label

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        return self.rows[place]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getattr__(self, name: str) -> np.ndarray[Any, Any]:
        # A column: table.lost
        if name.startswith("_") or name == "columns" or name not in self.columns:
            raise AttributeError(name)
        values = [row[name] for row in self.rows]
        return np.array(values) if name == "policy" else np.array(values, dtype=float)

    def _cells(self) -> list[list[str]]:
        def cell(value: Any) -> str:
            if value is None:
                return "-"
            if isinstance(value, float):
                return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
            return f"{value:,}" if isinstance(value, int) else str(value)

        return [self.columns] + [[cell(row[name]) for name in self.columns] for row in self.rows]

    def __repr__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
        lines = ["  ".join(text.ljust(w) if at == 0 else text.rjust(w) for at, (text, w) in enumerate(zip(row, widths))) for row in cells]
        return "\n".join([self.title, "", *lines, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        head, *rows = self._cells()

        def line(cells: list[str], kind: str) -> str:
            return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>"

        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        body = "".join(line(row, "td") for row in rows)
        return f"<p>{html.escape(self.title)}</p><table>{line(head, 'th')}{body}</table>{notes}"

    def to_pandas(self) -> Any:
        """A DataFrame of pandas."""
        import pandas

        return pandas.DataFrame(self.rows)

    def plot(self, ax: Any = None) -> Any:
        """Draws a curve over epsilon for each policy, and a level for each row without epsilon. Needs matplotlib.
        Returns the axes."""
        from matplotlib import pyplot

        if ax is None:
            ax = pyplot.subplots()[1]
        value, width = self.columns[2:4]
        names = dict.fromkeys(row["policy"] for row in self.rows)
        for number, name in enumerate(names):
            rows = [row for row in self.rows if row["policy"] == name and row[value] is not None]
            colour = f"C{number}"
            if rows and rows[0]["epsilon"] is None:
                ax.axhline(rows[0][value], color=colour, linestyle="--", label=name)
            elif rows:
                rows.sort(key=lambda row: float(row["epsilon"]))
                ax.errorbar(
                    [row["epsilon"] for row in rows],
                    [row[value] for row in rows],
                    yerr=[row[width] or 0.0 for row in rows],
                    color=colour,
                    marker="o",
                    capsize=3,
                    label=name,
                )
        ax.set_xscale("log")
        epsilons = sorted({row["epsilon"] for row in self.rows} - {None})
        ax.set_xticks(epsilons, labels=[f"{epsilon:g}" for epsilon in epsilons])
        ax.minorticks_off()
        ax.set_xlabel("epsilon")
        ax.set_ylabel(self._label)
        ax.legend()
        return ax


class Estimate(NamedTuple):
    """A mean reward, and the half-width of its 95% interval."""

    mean: float
    """NaN if no decision has a weight."""
    width: float
    """NaN if fewer than two decisions have a weight, or the weights are too large for a variance."""


class Estimates(NamedTuple):
    """The mean reward of a policy by three estimators."""

    ips: Estimate
    """Inverse propensity."""
    snips: Estimate
    """Self-normalised."""
    dr: Estimate
    """Doubly robust."""


def estimate(
    rewards: Array,
    propensities: Array,
    weights: Array,
    *,
    predicted: Array | float | None = None,
    expected: Array | float | None = None,
) -> Estimates:
    """Estimates what a fixed policy would have won on logged decisions.

    Args:
        rewards: of the logged decisions, n.
        propensities: the probability with which the logging policy chose the logged arm, n, above 0.
        weights: the probability with which the evaluated policy chooses the logged arm, n.
        predicted: for the doubly robust estimate, a model's mean reward of the logged arm, n or one number.
        expected: the same model's mean reward of the evaluated policy's choice. Without a model both are the mean of
            ``rewards``.
    """
    given = (("rewards", rewards), ("propensities", propensities), ("weights", weights))
    r, p, w = (reals(name, column, error=InvalidConfigError) for name, column in given)
    if not r.shape == p.shape == w.shape or r.size == 0:
        raise InvalidConfigError(f"rewards, propensities and weights must be as many, got {r.shape}, {p.shape}, {w.shape}")
    if not (np.isfinite(r).all() and np.isfinite(w).all() and (w >= 0).all() and (w <= 1).all()):
        raise InvalidConfigError("rewards must be finite, and weights probabilities")
    if not ((p > 0).all() and (p <= 1).all()):
        raise InvalidConfigError("propensities must be probabilities above 0")
    if (predicted is None) != (expected is None):
        raise InvalidConfigError("predicted and expected must be given together")
    models = []
    for name, numbers in (("predicted", predicted), ("expected", expected)):
        found = np.asarray(r.mean()) if numbers is None else reals(name, numbers, error=InvalidConfigError, ndim=None)
        if found.shape not in ((), r.shape) or not np.isfinite(found).all():
            raise InvalidConfigError(f"{name} must be a finite number, or as many as the rewards, got {found.shape}")
        models.append(found)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = w / p
        robust = np.broadcast_to(models[1] + ratio * (r - models[0]), r.shape)
    if not (np.isfinite(ratio * r).all() and np.isfinite(robust).all()):
        raise InvalidConfigError(f"propensities must not be so small that a weighted reward is infinite, got {p.min()}")
    columns = [np.ascontiguousarray(column) for column in (ratio * r, ratio, robust)]
    out = ffi.new("double[6]")
    lib.dpb_plan_estimate(*(ffi.from_buffer("double[]", column) for column in columns), r.size, out)
    return Estimates(*(Estimate(out[at], out[at + 1]) for at in (0, 2, 4)))


class _Bar:
    """Shows the progress of long work, if tqdm is installed and somebody looks."""

    def __init__(self, what: str, show: bool) -> None:
        self._bar: Any = None
        if show and (sys.stderr.isatty() or "ipykernel" in sys.modules):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a notebook without ipywidgets
                try:
                    from tqdm.auto import tqdm
                except ImportError:
                    return
            form = "{desc} {percentage:3.0f}%|{bar}| {elapsed}"
            self._bar = tqdm(total=1000, desc=what, bar_format=form, mininterval=1.0, leave=False)

    def show(self, share: float) -> None:
        if self._bar is not None:
            self._bar.update(min(1000, int(1000 * share)) - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


_INTEGERS = ("arms", "slots", "max_clicks", "decisions", "processes", "people", "users_limit", "runs", "seed", "threads")
_TEXTS = ("change_every", "forget_after", "delay", "period")
"""A time, or a number of decisions."""


def _text(name: str, value: Any) -> str:
    """An option of the command line."""
    if name in ("log", "policies"):
        names = [value] if isinstance(value, (str, bytes, os.PathLike)) else list(value)
        if not all(isinstance(item, (str, bytes, os.PathLike)) for item in names):
            raise TypeError(f"{name} must be names, got {value!r}")
        return ",".join(os.fsdecode(item) for item in names)
    if name == "epsilons":
        return value if isinstance(value, str) else ",".join(map(repr, np.atleast_1d(_epsilons(value)).tolist()))
    if name in _TEXTS and isinstance(value, str):
        return value
    return str(integer(name, value)) if name in _INTEGERS + _TEXTS else repr(real(name, value))


def _epsilons(value: Any) -> np.ndarray[Any, Any]:
    return reals("epsilons", value, error=InvalidConfigError, ndim=None)


_OPTIONS = {"policies": "policy", "epsilons": "epsilon"}


def _plan(what: str, options: Mapping[str, Any], log: Any, progress: bool) -> dict[str, Any]:
    """Calls the library in a thread, so that this one can show the progress, and stop the work by an interrupt."""
    given = ((name, value) for name, value in options.items() if value is not None and value is not False)
    texts = (
        "--" + _OPTIONS.get(name, name).replace("_", "-") + ("" if value is True else f"={_text(name, value)}") + "\0"
        for name, value in given
    )
    arguments = "".join(texts).encode("utf-8", "surrogateescape")
    share, stop = ffi.new("double *"), ffi.new("uint32_t *")
    out, length, status = ffi.new("uint8_t **"), ffi.new("size_t *"), []

    # Not Thread.join: until Python 3.12 an interrupt of it marks a thread that still runs as ended.
    done = threading.Event()

    def work() -> None:
        try:
            status.append(lib.dpb_plan(arguments, len(arguments), log, share, stop, out, length))
        finally:
            done.set()

    thread = threading.Thread(target=work, daemon=True)
    bar, waited = None, 0.0
    thread.start()
    try:
        while not done.wait(0.05):
            waited += 0.05
            if bar is None and waited > 1.0:
                bar = _Bar(what, progress)
            if bar is not None:
                bar.show(share[0])
    finally:
        stop[0] = 1
        done.wait()
        if bar is not None:
            bar.close()
        text = bytes(ffi.buffer(out[0], length[0])).decode("utf-8", "replace") if status else ""
        if status:
            lib.dpb_plan_free(out[0], length[0])
    if status[0] == 2:
        raise PoisonedError(text)
    if status[0] != 0:
        raise InvalidConfigError(re.sub(r"--([a-z-]+)", lambda name: name[1].replace("-", "_"), text))
    return json.loads(text)  # type: ignore[no-any-return]


def simulate(
    arms: int = 10,
    rate: float = 0.05,
    *,
    worst: float | None = None,
    amount: float | None = None,
    spread: float | None = None,
    reward_max: float | None = None,
    learn_clip: bool = False,
    payouts: float | None = None,
    costs: float | None = None,
    abstain: bool = False,
    slots: int | None = None,
    max_clicks: int | None = None,
    decisions: int = 1_000_000,
    days: float = 1,
    change_every: str | int | None = None,
    forget_after: str | int | None = None,
    delay: str | int | None = None,
    processes: int | None = None,
    policies: Sequence[str] | str | None = None,
    epsilons: Sequence[float] | float | None = None,
    people: int | None = None,
    period: str | int | None = None,
    users_limit: int | None = None,
    seconds: float | None = None,
    runs: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    progress: bool = True,
) -> Table:
    """Simulates a service, and estimates what each policy loses at each epsilon.

    Args:
        arms: the number of arms.
        rate: the probability of a reward for the best arm; ``worst`` for the worst one (default: a fifth), the others
            evenly between.
        amount: the mean of a reward, before ``reward_max`` limits it. Rewards are exponential, or with ``spread``
            lognormal: amount exp(spread N - spread**2/2). Default: each reward is reward_max (1).
        learn_clip: dp-imed learns at which amount it clips rewards, so reward_max need not be close.
        payouts: a reward of an arm is worth exp(payouts N) times exp(payouts N) in a request, at most 12, and what is
            lost is value.
        costs: to play an arm costs ``costs`` U exp(N/2), U uniform for each arm and N normal for each arm in each
            request, and what is lost is value minus cost. With ``abstain`` a decision may choose no arm.
        slots: different arms in a decision; with ``max_clicks`` epsilon is for the decision, and so many rewards count.
        decisions: decisions in a day, for ``days``.
        change_every, forget_after, delay: a time, such as "30m", "2h" or "7d", or a number of decisions.
        processes: processes that share the decisions, and merge every minute.
        policies, epsilons: what to compare; default dp-imed, dp-med and nonprivate-imed at .1 to 2.
        users_limit: epsilon holds for so many rewards of a person.
        people: the people who make the decisions. Policies then learn from at most ``users_limit`` decisions of a person
            in each ``period``, a time or a number of decisions; without one for ever. For one process.
        seconds: time for the simulation (40); or ``runs``: complete runs of each policy, however long they take.

    Returns:
        A table of ``lost`` rewards with their standard ``error``, in ``percent`` of what an even rotation loses. Where
        only a part was simulated (``simulated`` decisions), ``at_least`` is lost in that part, and ``lost`` is an
        estimate for all.
    """
    options = {name: value for name, value in locals().items() if name != "progress"}
    found = _plan("simulating", options, ffi.NULL, progress)
    title = f"Lost of {found['best']:,.0f} rewards in {found['decisions']:,} decisions; an even rotation loses {found['rotation']:,.0f}."
    return Table(title, found, "policy epsilon lost error percent at_least simulated runs", "lost rewards")


def simulate_test(
    arms: int = 2,
    rate: float = 0.05,
    *,
    worst: float | None = None,
    amount: float | None = None,
    spread: float | None = None,
    reward_max: float | None = None,
    confidence: float = 0.95,
    tolerance: float | None = None,
    winners: int | None = None,
    decisions: int = 1_000_000,
    days: float | None = None,
    delay: str | int | None = None,
    processes: int | None = None,
    policies: Sequence[str] | str | None = None,
    epsilons: Sequence[float] | float | None = None,
    users_limit: int | None = None,
    seconds: float | None = None,
    runs: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    progress: bool = True,
) -> Table:
    """Simulates an A/B test that stops when it knows the best arm, and estimates how long it runs.

    Args:
        arms, rate, worst, amount, spread, reward_max, decisions, delay, processes, epsilons, users_limit, seconds, runs: as
            for simulate.
        confidence: the probability that the winner is the best arm.
        tolerance: a difference of two means that does not matter: Config.tolerance.
        winners: how many of the best arms the test looks for: Config.winners.
        days: where a test ends that has no winner.
        policies: what to compare; default dp-tt.

    Returns:
        A table of the ``decisions`` that a test takes, with their standard ``error``, and of those that nine tests of ten
        take at most (``late``): None if only ``ended`` of the ``runs`` ended. ``wrong`` ended with a worse arm, by the
        tolerance or more.
    """
    options = {name: value for name, value in locals().items() if name != "progress"}
    options["winner"] = True
    found = _plan("testing", options, ffi.NULL, progress)
    title = f"Decisions until the winner is known at confidence {confidence}, at most {found['most']:,}."
    return Table(title, found, "policy epsilon decisions error late ended wrong runs", "decisions")


def _column(log: Any, name: str) -> Any:
    names = getattr(log, "column_names", None)  # pyarrow
    names = list(log.keys() if isinstance(log, Mapping) else log.columns if names is None else names)
    return log[name] if name in names else None


def _numbers(name: str, column: Any, entries: int) -> np.ndarray[Any, Any]:
    if column is None:
        raise InvalidConfigError(f"the log has no column {name}; it needs arm, propensity and reward")
    array = reals(name, column, error=InvalidConfigError, ndim=None)
    if array.shape != (entries,):
        raise InvalidConfigError(f"{name} must have {entries} numbers, got an array of shape {array.shape}")
    return array


def _names(name: str, column: Any) -> Any:
    """The names of arms: an array of integers, or a list. A missing one is refused, and a number that stands for others."""
    if isinstance(column, np.ma.MaskedArray) and np.ma.is_masked(column):
        raise InvalidConfigError(f"{name} must have no masked elements")
    if isinstance(column, (str, bytes)):
        raise InvalidConfigError(f"{name} must be a list of names, got {column!r}")
    array = np.asarray(column) if hasattr(column, "dtype") or hasattr(column, "__array__") else None
    if array is not None and array.ndim != 1:
        raise InvalidConfigError(f"{name} must be a list of names, got an array of shape {array.shape}")
    if array is not None and array.dtype.kind in "iu":
        return array
    names: list[Any] = list(column) if array is None else array.tolist()
    for at, one in enumerate(names):
        if type(one) is str and one:
            continue
        if isinstance(one, (float, np.floating)) and float(one).is_integer() and abs(float(one)) < 2**53:
            names[at] = int(one)
        elif isinstance(one, (int, np.integer, np.bool_)):
            names[at] = one.item() if isinstance(one, np.generic) else one
        else:
            raise InvalidConfigError(f"{name}: row {at} is {one!r}, which is neither a name nor a whole number below 2^53")
    return names


class _Columns:
    """A log in memory, as C reads it."""

    def __init__(
        self,
        log: Any,
        features: Sequence[str] | None,
        parts: Mapping[str, float] | None,
        bounds: tuple[float, float],
    ) -> None:
        arms_of = None
        if isinstance(log, Mapping) and "pscore" in log and "action" in log:  # bandit_feedback of zr-obp
            names = {"arm": "action", "propensity": "pscore", "features": "context"}
            arms_of = log.get("n_actions")
            log = {**log, **{name: log.get(theirs) for name, theirs in names.items()}}
            log = {name: value for name, value in log.items() if value is not None}
        arms = _column(log, "arm")
        if arms is None:
            raise InvalidConfigError("the log has no column arm; it needs arm, propensity and reward")
        eligible = _column(log, "eligible")
        worths = {name: column for name in ("values", "costs") if (column := _column(log, name)) is not None}
        names = _names("arm", arms)
        numbers: dict[Any, int] = {}
        codes: np.ndarray[Any, Any]
        self.kept: list[Any] = []
        c = self.c = ffi.new("dpb_log *")
        c.entries = len(names)
        for name, column in (("eligible", eligible), *worths.items()):
            if column is not None and len(column) != len(names):
                raise InvalidConfigError(f"{name} must have {len(names)} rows, got {len(column)}")
        # Arms are numbered in the order of a file, so that a log in memory gives what the file gives.
        if isinstance(names, np.ndarray) and eligible is None:
            values, first, inverse = np.unique(names, return_index=True, return_inverse=True)
            numbers = {value: number for number, value in enumerate(values[np.argsort(first)].tolist())}
            codes = np.argsort(np.argsort(first)).astype(np.uint32)[inverse]
        elif eligible is None:
            codes = np.fromiter((numbers.setdefault(name, len(numbers)) for name in names), np.uint32, len(names))
        else:
            codes, flat, ends = np.empty(len(names), np.uint32), [], np.empty(len(names), np.uintp)
            for at, (name, among) in enumerate(zip(list(names), eligible)):
                codes[at] = numbers.setdefault(name, len(numbers))
                flat += [numbers.setdefault(other, len(numbers)) for other in list(_names(f"eligible: row {at}", among))]
                ends[at] = len(flat)
            c.eligible = self._keep("uint32_t[]", np.array(flat, np.uint32))
            c.eligible_ends = self._keep("size_t[]", ends)
        for name, worth in worths.items():
            if eligible is None or any(len(own) != len(among) for own, among in zip(worth, eligible)):
                raise InvalidConfigError(f"{name} must have a number for each of the eligible arms")
            lists = [reals(f"{name}: row {at}", own, error=InvalidConfigError) for at, own in enumerate(worth)]
            setattr(c, name, self._keep("double[]", np.concatenate(lists) if lists else np.empty(0)))
        c.arms = len(numbers)
        if arms_of is not None:
            # Arms that were never chosen have numbers too, so that policies can choose them.
            most = integer("n_actions", arms_of, 32)
            strange = [name for name in numbers if not isinstance(name, int) or not 0 <= name < most]
            c.arms = most
            if strange:
                raise InvalidConfigError(f"action must be below n_actions, which is {most}, got {strange[0]!r}")
        c.arm = self._keep("uint32_t[]", codes)
        c.propensity = self._keep("double[]", _numbers("propensity", _column(log, "propensity"), len(names)))
        if parts is not None and not isinstance(parts, Mapping):
            raise TypeError(f"parts must be a dict of weights, got {parts!r}")
        if parts is None:
            rewards = _numbers("reward", _column(log, "reward"), len(names))
        else:
            terms = (real(name, weight) * _numbers(name, _column(log, name), len(names)) for name, weight in parts.items())
            rewards = np.clip(sum(terms, np.zeros(len(names))), *bounds)
        c.reward = self._keep("double[]", rewards)
        if (examined := _column(log, "examined")) is not None:
            c.examined = self._keep("double[]", _numbers("examined", examined, len(names)))
        rows = None
        if features is not None:
            rows = np.column_stack([_numbers(name, _column(log, name), len(names)) for name in features])
        else:
            rows = _column(log, "features")
        if rows is not None:
            rows = reals("features", rows, np.float32, InvalidConfigError, ndim=None)
            if rows.ndim != 2 or len(rows) != len(names):
                raise InvalidConfigError(f"features must have shape ({len(names)}, d), got {rows.shape}")
            c.features, c.features_len = self._keep("float[]", rows), rows.size

    def _keep(self, kind: str, array: np.ndarray[Any, Any]) -> Any:
        self.kept.append(ffi.from_buffer(kind, array))
        return self.kept[-1] if array.size else ffi.NULL


def replay(
    log: Any,
    policies: Sequence[str] | str | None = None,
    epsilons: Sequence[float] | float | None = None,
    *,
    features: Sequence[str] | None = None,
    reward_min: float | None = None,
    reward_max: float | None = None,
    parts: Mapping[str, float] | None = None,
    learn_clip: bool = False,
    least_propensity: float | None = None,
    delay: int | None = None,
    users_limit: int | None = None,
    runs: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    progress: bool = True,
) -> Table:
    """Replays a log of decisions, and estimates what each policy would have won at each epsilon.

    Args:
        log: a table of pandas, polars or pyarrow, or a dict of arrays, with the columns ``arm``, ``propensity`` (the
            probability with which the arm was chosen) and ``reward``, and if they vary ``eligible`` (lists of arms),
            ``values`` (lists of what their rewards are worth), ``costs`` (lists of what it costs to play them; what is
            estimated is value minus cost), ``examined`` (how likely a visitor examined the slot;
            ``propensity`` is then that of the arm in this slot) and ``features`` (rows of numbers); or zr-obp's
            ``bandit_feedback``, whose ``n_actions`` is the number of arms; or the path of a file of CSV or JSON lines with these fields.
        policies, epsilons: what to compare; default dp-imed, dp-med, with features dp-linear, and
            nonprivate-imed, at .1 to 2.
        features: the names of the columns that are features.
        reward_min, reward_max: the range of rewards (0 and 1). Do not compute it from them: that would reveal them.
        parts: with rewards in parts, the weight of each, by the name of its column in a log in memory. A decision's
            reward is the sum of weight times number, limited to the range; there is no column ``reward``.
        learn_clip: dp-imed learns at which amount it clips rewards, so reward_max need not be close.
        least_propensity: a bound for the replay (the smallest in the log).
        delay: decisions from a decision to its reward (0).
        users_limit: epsilon holds for so many rewards of a person (1).
        runs: runs of each policy (5).

    Returns:
        A table of mean rewards with the half-widths of 95% intervals: inverse propensity (``ips``), self-normalised
        (``snips``) and doubly robust (``dr``). ``played`` is the number of decisions that a policy has learned from.
    """
    options = {name: value for name, value in locals().items() if name not in ("progress", "log", "features", "parts")}
    if isinstance(log, (str, os.PathLike)):
        if parts is not None:
            raise InvalidConfigError("parts must be None with a file: read it into a table first")
        found = _plan("replaying", {"log": log, **options}, ffi.NULL, progress)
    else:
        least, most = (0.0 if reward_min is None else reward_min), (1.0 if reward_max is None else reward_max)
        columns = _Columns(log, features, parts, (least, most))
        found = _plan("replaying", {"log": "columns", **options}, columns.c, progress)
    title = (
        f"Mean reward of a decision, with 95% intervals: {found['decisions']:,} decisions, {found['arms']:,} arms, "
        f"propensities from {found['least_propensity']:.3g} on."
    )
    return Table(
        title,
        found,
        "policy epsilon dr dr_width snips snips_width ips ips_width played",
        "mean reward (doubly robust)",
    )
