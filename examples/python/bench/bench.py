#!/usr/bin/env python3
"""Plays dp-linear and other libraries on data and worlds that this project has not made. README.md has the command.

Classification sets as bandits: a row is a request, the features are those of the row, an arm is a class, and the reward
is 1 if the arm is the row's class. Each set is played once, in a random order of the seed.
"""

import argparse
import itertools
import math
import pathlib
import sys
import time
import warnings

import numpy as np

import dpb

EPSILONS = [math.inf, 4, 1, 0.25, 0.1]
NONE = 64.0  # stands for no noise: at this epsilon the noise is far below one reward


# Sets. Features are standardised and clipped at 4.


def mlbench(name, folder):
    import pyreadr

    paths = [folder / f"{name}.rda", pathlib.Path("/usr/lib/R/site-library/mlbench/data") / f"{name}.rda"]
    frame = pyreadr.read_r(str(next(path for path in paths if path.exists())))[name]
    label = "Class" if "Class" in frame else "lettr"
    return frame.drop(columns=label), frame[label]


def adult(folder):
    import pandas

    path = next(itertools.chain(folder.glob("adult.parquet*"), folder.glob("**/adult.parquet*")))
    frame = pandas.read_parquet(path)
    return pandas.get_dummies(frame.drop(columns="income")), frame["income"]


SETS = {"Shuttle": lambda f: mlbench("Shuttle", f), "LetterRecognition": lambda f: mlbench("LetterRecognition", f), "adult": adult}


def load(name, folder):
    x, y = SETS[name](folder)
    x = x.to_numpy(np.float64)
    x = x[:, x.std(axis=0) > 0]
    x = np.clip((x - x.mean(axis=0)) / x.std(axis=0), -4, 4).astype(np.float32)
    classes, y = np.unique(y.astype(str), return_inverse=True)
    return x, y, len(classes)


# Players: a function of rows, classes, the number of arms and a seed, which returns the share of right arms.


def dp_linear(epsilon):
    def play(x, y, arms, seed):
        norm = float(np.quantile(np.abs(x).sum(axis=1), 0.9))
        bandit = dpb.Bandit(
            arms=arms,
            epsilon=min(epsilon, NONE),
            features=x.shape[1],
            model_per_arm=True,
            feature_norm=norm,
            test_seed=seed.to_bytes(32, "little"),
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
    def play(x, y, arms, seed):
        import vowpalwabbit

        vw = vowpalwabbit.Workspace(f"--cb_explore {arms} {explorer} -l {rate} --random_seed {seed} --quiet")
        coins, right = np.random.default_rng(seed), 0
        for row, label, coin in zip(x, y.tolist(), coins.random(len(y))):
            text = "| " + " ".join(f"{at}:{value:.4f}" for at, value in enumerate(row))
            chances = np.array(vw.predict(text))
            arm = min(int(np.searchsorted(chances.cumsum(), coin)), arms - 1)
            won = arm == label
            right += won
            vw.learn(f"{arm + 1}:{-float(won)}:{chances[arm]:.6f} {text}")
        vw.finish()
        return right / len(y)

    return play


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


def mabwiser(alpha, size=200):
    def make(arms, seed):
        from mabwiser.mab import MAB, LearningPolicy

        mab = MAB(list(range(arms)), LearningPolicy.LinUCB(alpha), seed=seed)
        begun = []

        def learn(rows, chosen, won):
            (mab.partial_fit if begun else mab.fit)(chosen, won, rows)
            begun.append(1)

        return mab.predict, learn

    return in_batches(make, size)


def contextual_bandits(alpha, size=200):
    def make(arms, seed):
        from contextualbandits.linreg import LinearRegression  # noqa: F401 - it says if the package is not built
        from contextualbandits.online import LinUCB

        model = LinUCB(nchoices=arms, alpha=alpha, random_state=seed)
        return model.predict, lambda rows, chosen, won: model.partial_fit(rows, chosen, won)

    return in_batches(make, size)


# What is tuned: the best of these by the mean over all seeds, which favours the others.
PLAYERS = {
    "LinUCB, disjoint ridge": {f"alpha {a}": lin_ucb(a) for a in (0.05, 0.2, 1.0)},
    "Vowpal Wabbit, cb_explore": {
        f"{explorer} -l {rate}": vowpal_wabbit(explorer, rate)
        for explorer in ("--epsilon 0.05", "--epsilon 0.01", "--squarecb", "--bag 5")
        for rate in (0.5, 0.1)
    },
    "MABWiser, LinUCB": {f"alpha {a}": mabwiser(a) for a in (0.2, 1.0)},
    "contextualbandits, LinUCB": {f"alpha {a}": contextual_bandits(a) for a in (0.2, 1.0)},
    **{f"dp-linear, epsilon {'none' if e == math.inf else e}": {"": dp_linear(e)} for e in EPSILONS},
}


def mean(values):
    values = np.asarray(values, float)
    return values.mean(), values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def classification(options):
    print(f"\nRight arms in one pass, in percent: means and standard errors of {options.seeds} seeds.\n")
    for name in options.sets:
        x, y, arms = load(name, options.data)
        most = np.bincount(y).max() / len(y)
        used = min(options.rows or len(y), len(y))
        print(f"\n**{name}**: {used:,} rows, {x.shape[1]} features, {arms} arms; always the most frequent class: {100 * most:.1f}.\n")
        print("| | right, % | tuned | us a decision |\n|---|---:|---|---:|", flush=True)
        for label, grid in PLAYERS.items():
            if options.only and not any(label.startswith(one) for one in options.only):
                continue
            found = {}
            for setting, play in grid.items():
                shares, start = [], time.process_time()
                try:
                    for seed in range(1, options.seeds + 1):
                        order = np.random.default_rng(seed).permutation(len(y))[:used]
                        shares.append(play(x[order], y[order], arms, seed))
                except ImportError as missing:
                    print(f"skipped: {label}: {missing}", file=sys.stderr)
                    break
                found[setting] = (shares, 1e6 * (time.process_time() - start) / used / options.seeds)
            if found:
                setting = max(found, key=lambda one: np.mean(found[one][0]))
                (centre, error), cost = mean(found[setting][0]), found[setting][1]
                print(f"| {label} | {100 * centre:.1f} ± {100 * error:.1f} | {setting} | {cost:.0f} |", flush=True)


def logistic(options):
    """The logistic world of arXiv 2602.00417: 20 arms in each round, uniform in the unit ball, theta of a given norm."""
    arms, d, horizon = 20, 3, 10_000
    theirs = {3.0: (487, 316, 318), 3.5: (506, 324, 323), 4.0: (516, 332, 322)}
    print(f"\nRegret in {horizon:,} decisions: means and standard errors of {options.seeds} seeds.\n")
    ours = [4, 1, 0.25]
    print("| norm of theta | theirs, epsilon 4, 6, 8 | " + " | ".join(f"dp-linear, epsilon {e}" for e in ours) + " | even play |")
    print("|---|---|" + "---:|" * (len(ours) + 1), flush=True)
    for norm, of_theirs in theirs.items():
        cells, even = [], []
        for epsilon in ours:
            regrets = []
            for seed in range(1, options.seeds + 1):
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
                    feature_norm=float(np.quantile(np.abs(x).sum(axis=2), 0.9)),
                    test_seed=seed.to_bytes(32, "little"),
                )
                lost = 0.0
                for t, coin in enumerate(coins.random(horizon)):
                    decision = bandit.select(features=x[t])
                    bandit.update(decision.ticket, coin < rates[t, decision.arm])
                    lost += best[t] - rates[t, decision.arm]
                regrets.append(lost)
                even.append((best - rates.mean(axis=1)).sum())
            cells.append("{:.0f} ± {:.0f}".format(*mean(regrets)))
        print(f"| {norm} | {', '.join(map(str, of_theirs))} | {' | '.join(cells)} | {np.mean(even):.0f} |", flush=True)


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
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for what in options.what:
        {"speed": speed, "logistic": logistic, "classification": classification}[what](options)


if __name__ == "__main__":
    main()
