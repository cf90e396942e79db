#!/usr/bin/env python3
"""Plays dp-linear and other libraries on data and worlds that this project has not made. README.md has the command.

Classification sets as bandits: a row is a request, the features are those of the row, an arm is a class, and the reward
is 1 if the arm is the row's class. Each set is played once, in a random order of the seed.
"""

import argparse
import functools
import hashlib
import importlib.metadata
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import sys
import time
import warnings
from typing import Callable, Mapping, NamedTuple

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # each process plays by itself

import numpy as np

import dpb

EPSILONS = [math.inf, 4, 1, 0.25, 0.1]
NONE = 1e6  # stands for no noise; at 64 its standard deviation is a third of a reward


# Sets. Features are standardised and clipped at 4.


def mlbench(name, folder):
    import pyreadr

    paths = [folder / f"{name}.rda", pathlib.Path("/usr/lib/R/site-library/mlbench/data") / f"{name}.rda"]
    frame = pyreadr.read_r(str(next(path for path in paths if path.exists())))[name]
    label = next(label for label in ("Class", "lettr", "classes") if label in frame)
    return frame.drop(columns=label), frame[label]


def adult(folder):
    import pandas

    path = next(itertools.chain(folder.glob("adult.parquet*"), folder.glob("**/adult.parquet*")))
    frame = pandas.read_parquet(path)
    return pandas.get_dummies(frame.drop(columns="income")), frame["income"]


SETS = {
    "Shuttle": lambda f: mlbench("Shuttle", f),
    "LetterRecognition": lambda f: mlbench("LetterRecognition", f),
    "adult": adult,
    "Satellite": lambda f: mlbench("Satellite", f),
}


@functools.lru_cache(None)
def load(name, folder):
    x, y = SETS[name](folder)
    x = x.to_numpy(np.float64)
    x = x[:, x.std(axis=0) > 0]
    x = np.clip((x - x.mean(axis=0)) / x.std(axis=0), -4, 4).astype(np.float32)
    classes, y = np.unique(y.astype(str), return_inverse=True)
    return x, y, len(classes)


# Players: a function of rows, classes, the number of arms and a seed, which returns the share of right arms.


CODEWORDS = 32  # of 1000 rows of the set, as if their features were public


def dp_linear(epsilon, private=False):
    def play(x, y, arms, seed):
        given = {}
        if private:
            book = dpb.codebook(x[np.random.default_rng(seed).choice(len(x), 1000)], CODEWORDS)
            given = {"private_features": True, "codebook": book, "reward_window": 1}
        bandit = dpb.Bandit(
            arms=arms,
            epsilon=min(epsilon, NONE),
            features=x.shape[1],
            model_per_arm=True,
            test_seed=seed.to_bytes(32, "little"),
            **given,
        )
        right = 0
        for row, label in zip(x, y.tolist()):
            decision = bandit.select(features=row)
            won = decision.arm == label
            bandit.update(decision.ticket, won)
            right += won
        return right / len(y)

    return play


def lin_ucb(alpha, ridge=1.0):
    """Disjoint ridge regression with a bonus of alpha deviations (Li et al. 2010)."""

    def play(x, y, arms, seed):
        x = np.column_stack([x, np.ones(len(x))]).astype(np.float64)
        d = x.shape[1]
        inverse = np.stack([np.eye(d) / ridge] * arms)
        sums, theta = np.zeros((arms, d)), np.zeros((arms, d))
        right = 0
        for row, label in zip(x, y.tolist()):
            spread = inverse @ row
            arm = int(np.argmax(theta @ row + alpha * np.sqrt(spread @ row)))
            won = arm == label
            right += won
            u = spread[arm]
            inverse[arm] -= np.outer(u, u) / (1 + u @ row)
            sums[arm] += won * row
            theta[arm] = inverse[arm] @ sums[arm]
        return right / len(y)

    return play


def vowpal_wabbit(explorer, rate):
    """A linear model of an arm's reward for each arm: the row's features cross the arm (--cb_explore_adf -q sa)."""

    def play(x, y, arms, seed):
        import vowpalwabbit

        vw = vowpalwabbit.Workspace(
            f"--cb_explore_adf {explorer} -q sa --ignore_linear s -l {rate} --random_seed {seed} --quiet"
        )
        coins, right, lines = np.random.default_rng(seed), 0, [f"|a {arm}" for arm in range(arms)]
        for row, label, rest in zip(x, y.tolist(), coins.random(len(y)).tolist()):
            request = ["shared |s " + " ".join([f"{at}:{value:.4f}" for at, value in enumerate(row.tolist())]), *lines]
            chances, arm = vw.predict(request), 0
            while arm < arms - 1 and rest >= chances[arm]:
                rest -= chances[arm]
                arm += 1
            won = arm == label
            right += won
            request[arm + 1] = f"0:{-float(won)}:{chances[arm]:.6f} {lines[arm]}"
            vw.learn(request)
        vw.finish()
        return right / len(y)

    return play


BATCH = 50  # row by row they learn too slowly


def in_batches(make, size):
    """Libraries that learn from batches: (choose, learn) of a player."""

    def play(x, y, arms, seed):
        choose, learn = make(arms, seed)
        right, coins = 0, np.random.default_rng(seed)
        for begin in range(0, len(y), size):
            rows, labels = x[begin : begin + size], y[begin : begin + size]
            chosen = coins.integers(0, arms, len(rows)) if begin == 0 else np.asarray(choose(rows)).reshape(-1)
            won = chosen == labels
            right += won.sum()
            learn(rows, chosen, won.astype(int))
        return right / len(y)

    return play


def mabwiser(alpha, size=BATCH):
    def make(arms, seed):
        from mabwiser.mab import MAB, LearningPolicy

        mab = MAB(list(range(arms)), LearningPolicy.LinUCB(alpha), seed=seed)
        begun = []

        def with_one(rows):  # it has no intercept of its own
            return np.column_stack([rows, np.ones(len(rows))])

        def learn(rows, chosen, won):
            (mab.partial_fit if begun else mab.fit)(chosen, won, with_one(rows))
            begun.append(1)

        return lambda rows: mab.predict(with_one(rows)), learn

    return in_batches(make, size)


def contextual_bandits(alpha, size=BATCH):
    def make(arms, seed):
        from contextualbandits.linreg import LinearRegression  # noqa: F401 - it says if the package is not built
        from contextualbandits.online import LinUCB

        model = LinUCB(nchoices=arms, alpha=alpha, random_state=seed)
        return model.predict, lambda rows, chosen, won: model.partial_fit(rows, chosen, won)

    return in_batches(make, size)


class Player(NamedTuple):
    """What is played by `grid`, of which the best setting counts. `package` is the library whose version matters."""

    package: str
    grid: Mapping[str, Callable]


ALPHAS = (0.05, 0.2, 1.0)
EXPLORERS = ("--epsilon 0.05", "--squarecb", "--squarecb --gamma_scale 100", "--synthcover")
OURS = "dp-linear"
PLAYERS = {
    "LinUCB, disjoint ridge": Player("numpy", {f"alpha {a}": lin_ucb(a) for a in ALPHAS}),
    "Vowpal Wabbit, cb_explore_adf": Player(
        "vowpalwabbit", {f"{e} -l {rate}": vowpal_wabbit(e, rate) for e in EXPLORERS for rate in (0.5, 2.0, 8.0)}
    ),
    "MABWiser, LinUCB": Player("mabwiser", {f"alpha {a}": mabwiser(a) for a in ALPHAS}),
    "contextualbandits, LinUCB": Player("contextualbandits", {f"alpha {a}": contextual_bandits(a) for a in ALPHAS}),
    **{f"{OURS}, epsilon {'none' if e == math.inf else e}": Player("dpb", {"": dp_linear(e)}) for e in EPSILONS},
    **{f"{OURS}, private features, epsilon {e}": Player("dpb", {"": dp_linear(e, True)}) for e in (4, 1, 0.25)},
}
TUNING = 2  # the setting is the best one by the first seeds, which then count too: this favours the others


def logistic_regret(norm, epsilon, seed):
    """The regret of dp-linear in the logistic world of arXiv 2602.00417, and that of even play: 20 arms in each round,
    uniform in the unit ball, theta of a given norm."""
    arms, d, horizon = 20, 3, 10_000
    coins = np.random.default_rng(seed)
    theta = coins.uniform(-1, 1, d)
    theta *= norm / np.linalg.norm(theta)
    x = coins.normal(size=(horizon, arms, d))
    x *= coins.random((horizon, arms, 1)) ** (1 / d) / np.linalg.norm(x, axis=2, keepdims=True)
    rates = 1 / (1 + np.exp(-(x @ theta)))
    best, x = rates.max(axis=1), x.astype(np.float32)
    bandit = dpb.Bandit(
        arms=arms,
        epsilon=epsilon,
        features=d,
        test_seed=seed.to_bytes(32, "little"),
    )
    lost = 0.0
    for t, coin in enumerate(coins.random(horizon)):
        decision = bandit.select(features=x[t])
        bandit.update(decision.ticket, coin < rates[t, decision.arm])
        lost += best[t] - rates[t, decision.arm]
    return lost, (best - rates.mean(axis=1)).sum()


# Plays: what, its arguments, the seed. A play that is done is kept in a file with the version of its library.


@functools.lru_cache(None)
def version(package):
    """The package's version; of dpb the library's hash, because a checkout changes. None if it is not installed."""
    if package == "dpb":
        library = next(pathlib.Path(dpb.__file__).parent.glob("_native.*"))
        return hashlib.sha256(library.read_bytes()).hexdigest()[:16]
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def perform(folder, play):
    """The numbers of a play, and the processor time."""
    start = time.process_time()
    warnings.simplefilter("ignore")
    if play[0] == "logistic":
        _, norm, epsilon, seed, _ = play
        return play, logistic_regret(norm, epsilon, seed), time.process_time() - start
    _, name, rows, label, setting, seed, _ = play
    x, y, arms = load(name, folder)
    order = np.random.default_rng(seed).permutation(len(y))[:rows]
    start = time.process_time()
    share = PLAYERS[label].grid[setting](x[order], y[order], arms, seed)
    return play, (share,), time.process_time() - start


class Results:
    def __init__(self, options):
        self.options, self.path = options, options.data / "results.jsonl"
        self.end = time.monotonic() + 60 * options.minutes
        self.done = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                play, numbers, seconds = json.loads(line)
                self.done[tuple(play)] = numbers, seconds

    def play(self, plays):
        """Plays those that are not done yet, until the time is over."""
        left = [play for play in plays if play not in self.done]
        if not left or time.monotonic() > self.end:
            return
        with open(self.path, "a") as file, multiprocessing.Pool(self.options.processes) as pool:
            work = pool.imap_unordered(functools.partial(perform, self.options.data), left)
            for at, (play, numbers, seconds) in enumerate(work, 1):
                self.done[play] = numbers, seconds
                file.write(json.dumps([play, numbers, seconds]) + "\n")
                file.flush()
                if sys.stderr.isatty():
                    print(f"{at} of {len(left)}: {' '.join(map(str, play[1:-1]))}", file=sys.stderr)
                if time.monotonic() > self.end:
                    print(f"the time is over: {len(left) - at} plays are not done", file=sys.stderr)
                    break

    def of(self, plays):
        """The numbers of those that are done, a row each, and the mean processor time."""
        found = [self.done[play] for play in plays if play in self.done]
        return np.array([numbers for numbers, _ in found]), np.mean([seconds for _, seconds in found] or [math.nan])


def cell(values, digits):
    """A mean and its standard error."""
    error = f"{values.std(ddof=1) / math.sqrt(len(values)):.{digits}f}" if len(values) > 1 else "?"
    return f"{values.mean():.{digits}f} ± {error}" if len(values) else "-"


def classification(options):
    results, rows = Results(options), {}
    for name in options.sets:
        y = load(name, options.data)[1]
        rows[name] = min(options.rows or len(y), len(y))
    chosen = [label for label in PLAYERS if not options.only or any(label.startswith(one) for one in options.only)]

    def plays(name, label, setting, seeds):
        of = version(PLAYERS[label].package)
        return [("classification", name, rows[name], label, setting, seed, of) for seed in seeds]

    def best(name, label):
        grid, seeds = list(PLAYERS[label].grid), range(1, min(TUNING, options.seeds) + 1)
        means = {setting: results.of(plays(name, label, setting, seeds))[0] for setting in grid}
        means = {setting: found.mean() for setting, found in means.items() if len(found) == len(seeds)}
        return max(means, key=means.get) if means else grid[0]

    here = [label for label in chosen if version(PLAYERS[label].package)]
    tuned = [label for label in here if len(PLAYERS[label].grid) > 1]
    for label in set(chosen) - set(here):
        print(f"skipped: {label}: {PLAYERS[label].package} is not installed", file=sys.stderr)
    each = [(seed, name) for seed in range(1, options.seeds + 1) for name in options.sets]
    results.play([
        play for seed, name in each if seed <= TUNING for label in tuned for setting in PLAYERS[label].grid
        for play in plays(name, label, setting, [seed])
    ])  # fmt: skip
    for ours in (False, True):
        results.play([
            play for seed, name in each for label in here if label.startswith(OURS) == ours
            for play in plays(name, label, best(name, label), [seed])
        ])  # fmt: skip
    for name in options.sets:
        x, y, arms = load(name, options.data)
        most = 100 * np.bincount(y).max() / len(y)
        print(f"\n**{name}**: {rows[name]:,} rows, {x.shape[1]} features, {arms} arms; always the most frequent class: {most:.1f}.\n")
        print("| | right, % | seeds | tuned | us a decision |\n|---|---:|---:|---|---:|")
        for label in chosen:
            if label not in here:
                print(f"| {label} | not installed | | | |")
                continue
            setting = best(name, label)
            shares, seconds = results.of(plays(name, label, setting, range(1, options.seeds + 1)))
            print(f"| {label} | {cell(100 * shares, 1)} | {len(shares)} | {setting} | {1e6 * seconds / rows[name]:.0f} |")


def logistic(options):
    theirs = {3.0: (487, 316, 318), 3.5: (506, 324, 323), 4.0: (516, 332, 322)}
    ours, results = [4, 1, 0.25], Results(options)

    def plays(norm, epsilon):
        return [("logistic", norm, epsilon, seed, version("dpb")) for seed in range(1, options.seeds + 1)]

    results.play([play for norm in theirs for epsilon in ours for play in plays(norm, epsilon)])
    print(f"\nRegret in 10,000 decisions: means and standard errors of {options.seeds} seeds.\n")
    print("| norm of theta | theirs, epsilon 4, 6, 8 | " + " | ".join(f"{OURS}, epsilon {e}" for e in ours) + " | even play |")
    print("|---|---|" + "---:|" * (len(ours) + 1))
    for norm, of_theirs in theirs.items():
        found = [results.of(plays(norm, epsilon))[0] for epsilon in ours]
        cells = [cell(regrets[:, 0] if len(regrets) else regrets, 0) for regrets in found]
        even = found[0][:, 1].mean() if len(found[0]) else math.nan
        print(f"| {norm:g} | {', '.join(map(str, of_theirs))} | {' | '.join(cells)} | {even:.0f} |")


def speed(options):
    """A replay of a million rows, as a ratio to a pass of numpy over the same columns, in one run; single calls."""
    n, arms, coins = 1_000_000, 10, np.random.default_rng(1)
    arm = coins.integers(0, arms, n)
    log = {"arm": arm, "propensity": np.full(n, 1 / arms), "reward": (coins.random(n) < np.linspace(0.05, 0.01, arms)[arm]) * 1.0}

    def seconds(work, times):
        best = math.inf
        for _ in range(times):
            start = time.process_time()  # of all threads, whatever else the machine does
            work()
            best = min(best, time.process_time() - start)
        return best

    numpy_pass = seconds(lambda: np.bincount(log["arm"], log["reward"] / log["propensity"], arms), 20)
    replay = seconds(lambda: dpb.replay(log, "dp-imed", [0.1, 0.25, 0.5, 1, 2], progress=False), 3)
    bandit = dpb.Bandit(arms=arms, epsilon=1.0)

    def pairs():
        for _ in range(20_000):
            bandit.update(bandit.select().ticket, 1.0)

    def many():
        decisions = bandit.select_many(4096)
        bandit.update_many(decisions["ticket"], np.ones(4096))

    print("\n| | processor time |\n|---|---:|")
    print(f"| a pass of numpy over a million rows | {1000 * numpy_pass:.1f} ms |")
    print(f"| `dpb.replay` of them, five epsilons, five runs each | {replay:.1f} s, {replay / 25 / numpy_pass:.0f} passes a run |")
    print(f"| `select` and `update` | {1e6 * seconds(pairs, 5) / 20_000:.1f} us |")
    print(f"| the same in batches of 4096 | {1e9 * seconds(many, 20) / 4096:.0f} ns |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["speed", "logistic", "classification"])
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("target/bench"), help="where the sets are")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--only", nargs="*", help="players that begin so")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, help="of each set; default all")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="default: all processors")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begins no play after that; the next run goes on")
    options = parser.parse_args()
    for what in options.what:
        {"speed": speed, "logistic": logistic, "classification": classification}[what](options)


if __name__ == "__main__":
    main()
