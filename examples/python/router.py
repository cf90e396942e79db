"""A router over six language models that does not keep what people said of its answers: `pip install libdpb` and
`python router.py`, with --plot to draw it.

Each request goes to one model. A user says whether the answer was good, which is the private reward; the prices are public
and differ with the tokens of a request. First a log of a router that draws models at random says which policy would have
done best. Then that policy plays, beside others: what each loses is what the best model of every request is worth, minus
what the chosen one is.
"""

import argparse

import dpb
import numpy as np

# The chance of a good answer, and the price of a usual request, in good answers.
QUALITY = np.array([0.55, 0.68, 0.78, 0.82, 0.90, 0.92])
PRICE = np.array([0.01, 0.04, 0.09, 0.20, 0.40, 0.70])
MODELS = len(QUALITY)


class World:
    """Requests, and whether an answer is good."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def prices(self):
        return PRICE * np.exp(0.5 * self.random.standard_normal())

    def is_good(self, model):
        return float(self.random.random() < QUALITY[model])


class Uniform:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def choose(self, prices):
        return int(self.random.integers(MODELS))

    def learn(self, good):
        pass


class Greedy(Uniform):
    """Not private: the largest mean minus price, and 5% of requests at random."""

    def __init__(self, seed):
        super().__init__(seed)
        self.good, self.asked = np.ones(MODELS), np.ones(MODELS)

    def choose(self, prices):
        best = int(np.argmax(self.good / self.asked - prices))
        self.model = super().choose(prices) if self.random.random() < 0.05 else best
        return self.model

    def learn(self, good):
        self.good[self.model] += good
        self.asked[self.model] += 1


class Private:
    def __init__(self, epsilon):
        self.bandit = dpb.Bandit(arms=MODELS, epsilon=epsilon)

    def choose(self, prices):
        decision = self.bandit.select(costs=prices)
        self.ticket = decision.ticket
        return decision.arm

    def learn(self, good):
        self.bandit.update(self.ticket, good)


def log(requests, seed):
    """What a router that draws models at random has written, with the propensity of its choice."""
    world, random, arms = World(seed), np.random.default_rng(seed + 1), list(range(MODELS))
    rows = {"arm": [], "propensity": [], "reward": [], "eligible": [], "costs": []}
    for _ in range(requests):
        prices, model = world.prices(), int(random.integers(MODELS))
        row = (model, 1 / MODELS, world.is_good(model), arms, prices)
        for column, value in zip(rows.values(), row):
            column.append(value)
    return rows


def play(player, requests, seed):
    """The loss up to each request, in good answers."""
    world, losses = World(seed), np.empty(requests)
    for number in range(requests):
        prices = world.prices()
        worth, model = QUALITY - prices, player.choose(prices)
        player.learn(world.is_good(model))
        losses[number] = worth.max() - worth[model]
    return np.cumsum(losses)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--requests", type=int, default=50_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--plot", action="store_true", help="write router.svg, with matplotlib")
    options = options.parse_args()

    print(dpb.replay(log(options.requests, options.seed), "dp-imed", [0.25, 1.0], progress=False))
    players = {
        "uniform": Uniform(options.seed),
        "greedy, not private": Greedy(options.seed),
        "dp-imed, epsilon 0.25": Private(0.25),
        "dp-imed, epsilon 1": Private(1.0),
        "dp-imed, epsilon 1000": Private(1000.0),
    }
    curves = {name: play(player, options.requests, options.seed) for name, player in players.items()}
    for name, curve in curves.items():
        print(f"{name:24}{curve[-1]:8,.0f} good answers lost, {100 * curve[-1] / curves['uniform'][-1]:5.1f}% of uniform")
    if options.plot:
        import matplotlib.pyplot as plt

        for name, curve in curves.items():
            plt.loglog(np.arange(1, len(curve) + 1), np.maximum(curve, 1), label=name)
        plt.xlabel("requests")
        plt.ylabel("good answers lost")
        plt.legend()
        plt.savefig("router.svg")


if __name__ == "__main__":
    main()
